package index

import (
	"errors"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// ErrPosition is returned by a list for a Page.After that it did not hand out.
var ErrPosition = errors.New("no position of this list")

// Viewer is for whom a query answers. The zero value sees what any reader may
// see; whether there may be a reader at all is decided before the index.
type Viewer struct {
	DID   syntax.DID // the account that asks, "" for none: it sees its own empty conversations
	Admin bool       // the operator: sees inactive repos and quarantined records too
}

// Limits of a page.
const (
	DefaultLimit = 50
	MaxLimit     = 100
)

// Position is where a page ended: the sort key of the last row shown and its
// URI, which breaks ties. It goes into the opaque cursor of an answer.
type Position struct {
	Key string `json:"k"`
	URI string `json:"u"`
}

// Page asks for part of a list. Limit is clamped to 1…MaxLimit, 0 means DefaultLimit.
type Page struct {
	Limit int
	After *Position // nil for the first page
	// Reverse walks from the last to the first. Only the lists that grow at
	// their end know it: Versions, ChainMembers and Turns.
	Reverse bool
}

// List is one page of answers. Next is nil on the last page.
type List[T any] struct {
	Items []T
	Next  *Position
}
