package lexicons

import (
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// CheckBatch runs the rules about one batch as a whole; the changes are of one
// repo, in order. It sees what no single write shows: delete and create of one
// record key in one commit, which would be an edit, and two successors of one
// observation. It needs no state and looks at no Prev. The answer has the
// findings of each change, in the order of the changes; what two of them do
// together is found on the later one.
func (r *Rules) CheckBatch(changes []Change) [][]Finding {
	b := batch{
		settings:  r.settings,
		deleted:   map[syntax.ATURI]bool{},
		successor: map[syntax.ATURI]successor{},
	}
	found := make([][]Finding, len(changes))
	for i, ch := range changes {
		found[i] = b.add(i, ch)
	}
	return found
}

type batch struct {
	settings  Settings
	deleted   map[syntax.ATURI]bool      // by an earlier write of the batch
	successor map[syntax.ATURI]successor // by target, the first of the batch
}

type successor struct {
	index int // of its write
	uri   syntax.ATURI
}

func (b *batch) add(i int, ch Change) []Finding {
	if ch.Action == Delete {
		b.deleted[ch.URI] = true
		return nil
	}
	s := subject{Change: ch, settings: b.settings}
	if b.deleted[ch.URI] {
		s.rewritten()
	}
	if ch.Record != nil && ch.Record.Collection == ObservationNSID {
		b.supersedes(i, &s)
	}
	return s.found
}

// rewritten: even with the same content it is refused, since the record was
// deleted in between.
func (s *subject) rewritten() {
	const repair = "leave out rkey to have a new one made"
	switch s.URI.Collection() {
	case ObservationNSID:
		s.refuse(CodeEdited, RefusalImmutableRecord, "", repair, "delete and create of %s in one batch would edit an observation", s.URI)
	case MessageNSID:
		if s.settings.Messages != MessageOff {
			s.refuse(CodeRkeyReused, RefusalRecordTombstoned, "", repair, "%s is deleted by the same batch; its record key is not used again", s.URI)
		}
	}
}

// supersedes: the repair names no record of the batch, for when the batch is
// refused there is none of them.
func (b *batch) supersedes(i int, s *subject) {
	target := ReadObservation(s.Record.Value).Supersedes
	if target == nil || target.URI.Authority().String() != s.DID.String() || target.URI == s.URI {
		return
	}
	first, taken := b.successor[target.URI]
	if !taken {
		b.successor[target.URI] = successor{i, s.URI}
		return
	}
	if first.uri != s.URI {
		s.forked("leave one of the two out, and write it later with the chain head of then in supersedes",
			fmt.Sprintf("%s of the same batch supersedes the same target", pointerAt("/writes", first.index)))
	}
}
