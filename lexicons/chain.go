package lexicons

import (
	"cmp"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// Successor is one of several observations that supersede the same one.
type Successor struct {
	URI       string
	RecordKey string
	Alive     bool // it lives, or something that descends from it
	Future    bool // see FutureKey
}

// CompareSuccessors orders the successors of one observation: a chain goes on into
// the first. That is one with something alive, then one whose key was not from the
// future, then the greatest record key, then the greatest URI (SEMANTICS 4.2). Host
// and index choose by it alike, so the head that a refusal names is the one that
// the views show.
func CompareSuccessors(a, b Successor) int {
	return cmp.Or(
		trueFirst(a.Alive, b.Alive),
		trueFirst(!a.Future, !b.Future),
		strings.Compare(b.RecordKey, a.RecordKey),
		strings.Compare(b.URI, a.URI),
	)
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// FutureKey tells that the TID of a record lay more than a day after the moment at
// which it was written or witnessed: such a key does not win a fork, or whoever
// makes one up would keep the head for good.
func FutureKey(rkey string, at time.Time) bool {
	tid, err := syntax.ParseTID(rkey)
	return err == nil && tid.Time().After(at.Add(farOff))
}
