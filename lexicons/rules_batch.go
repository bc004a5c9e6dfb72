package lexicons

import (
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// CheckBatch runs the rules about one batch as a whole; the changes are of one
// repo, in order. It sees what no single write shows: delete and create of one
// record key in one commit, which would be an edit, and two successors of one
// observation. Paths start with /writes/<index> of the later of the two.
func (r *Rules) CheckBatch(changes []Change) []Finding {
	b := batch{
		settings:  r.settings,
		deleted:   map[syntax.ATURI]bool{},
		successor: map[syntax.ATURI]syntax.ATURI{},
	}
	for i, ch := range changes {
		b.add(pointerAt("/writes", i), ch)
	}
	return b.found
}

type batch struct {
	settings  Settings
	deleted   map[syntax.ATURI]bool         // by an earlier write of the batch
	successor map[syntax.ATURI]syntax.ATURI // by target, the first of the batch
	found     []Finding
}

func (b *batch) add(path string, ch Change) {
	if ch.Action == Delete {
		b.deleted[ch.URI] = true
		return
	}
	if b.deleted[ch.URI] {
		b.rewritten(path, ch)
	}
	if ch.Record != nil && ch.Record.Collection == ObservationNSID {
		b.supersedes(path, ch)
	}
}

// rewritten: even with the same content it is refused, since the record was
// deleted in between.
func (b *batch) rewritten(path string, ch Change) {
	f := Finding{Severity: Violation, Path: path, Repair: "leave out rkey to have a new one made"}
	switch ch.URI.Collection() {
	case ObservationNSID:
		f.Code, f.Refusal = CodeEdited, RefusalImmutableRecord
		f.Message = fmt.Sprintf("delete and create of %s in one batch would edit an observation", ch.URI)
	case MessageNSID:
		if b.settings.Messages == MessageOff {
			return
		}
		f.Code, f.Refusal = CodeRkeyReused, RefusalRecordTombstoned
		f.Message = fmt.Sprintf("%s is deleted by the same batch; its record key is not used again", ch.URI)
	default:
		return
	}
	b.found = append(b.found, f)
}

func (b *batch) supersedes(path string, ch Change) {
	target := ReadObservation(ch.Record.Value).Supersedes
	if target == nil || target.URI.Authority().String() != ch.DID.String() || target.URI == ch.URI {
		return
	}
	first, taken := b.successor[target.URI]
	if !taken {
		b.successor[target.URI] = ch.URI
		return
	}
	if first == ch.URI {
		return
	}
	s := subject{settings: b.settings}
	s.forked(fmt.Sprintf("let it supersede %s, or write it later", first), "an earlier write of the batch supersedes the same target")
	for _, f := range s.found {
		f.Path = path + f.Path
		b.found = append(b.found, f)
	}
}
