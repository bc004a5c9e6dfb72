package index

import (
	"errors"
	"slices"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

// ErrPosition is returned by a list for a Page.After that it did not hand out.
var ErrPosition = errors.New("no position of this list")

// Viewer is for whom a query answers. The zero value sees what any reader may
// see; whether there may be a reader at all is decided before the index.
type Viewer struct {
	DID   syntax.DID // the account that asks, "" for none: it sees its own empty conversations
	Admin bool       // the operator: sees inactive repos and quarantined records too
	// Collections are the only ones that this viewer may know of; nil for all.
	// To it an index that holds others answers as one that never heard of them:
	// no row, count, link or finding of its answers depends on what they hold.
	Collections []syntax.NSID
	// Moment is the time of which to tell what was known then; zero for now (see At).
	Moment time.Time
}

// Restricted tells that there may be records here of which v is to know nothing.
func (v Viewer) Restricted() bool { return v.Collections != nil }

// Sees tells whether v may know of the records of all of these collections.
func (v Viewer) Sees(collections ...syntax.NSID) bool {
	return !v.Restricted() || !slices.ContainsFunc(collections, func(c syntax.NSID) bool { return !slices.Contains(v.Collections, c) })
}

// SeesConversations tells whether v may read conversations, which are made of
// two collections: the container alone would show how much is said in it, the
// turns alone what they belong to.
func (v Viewer) SeesConversations() bool { return v.Sees(conversation...) }

// conversation is what the view of a conversation is made of.
var conversation = []syntax.NSID{lexicons.ChatSessionNSID, lexicons.MessageNSID}

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
