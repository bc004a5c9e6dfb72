package repostore

import (
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
)

// Actions that leave it to the state what they come to.
const (
	Put    lexicons.Action = "put"    // of putRecord: creates the record or updates it
	Remove lexicons.Action = "remove" // of deleteRecord: deletes the record, if there is one
)

// Write is one write of a batch.
type Write struct {
	Action     lexicons.Action // lexicons.Create, Update or Delete, Put or Remove
	Collection syntax.NSID
	RecordKey  syntax.RecordKey
	Record     *lexicons.Record // nil on a delete or removal; its Collection is the write's
	// SwapRecord, when given, is what must stand at the path, or the batch fails with ErrInvalidSwap.
	SwapRecord *SwapRecord
}

// path is where the write writes: the record's key in the MST.
func (w *Write) path() string { return string(w.Collection) + "/" + string(w.RecordKey) }

// SwapRecord is the swapRecord parameter: the CID that must stand at the path,
// nil for "no record" (an explicit null).
type SwapRecord struct {
	CID *cid.Cid
}

// Options of a batch.
type Options struct {
	// SwapCommit, when given, must be the head that the batch is applied to.
	SwapCommit *cid.Cid
	// Policy is what the repo may be made to hold, judged on the state that the
	// batch will see.
	Policy Policy

	dryRun bool // judge, but make no commit
}

// Result is what a batch did.
type Result struct {
	// Commit is the new head; nil when every write was a no-op, and then there
	// is neither a commit nor an event.
	Commit *CommitMeta
	Writes []WriteResult // one per write, in order
}

// CommitMeta names a commit.
type CommitMeta struct {
	CID cid.Cid
	Rev syntax.TID
}

// WriteResult is what one write did.
type WriteResult struct {
	URI    syntax.ATURI
	Action lexicons.Action // what it came to: Create, Update or Delete
	CID    *cid.Cid        // of the record that stands there now; nil after a delete
	// Changed is false for a put of what stood there already and for a removal of nothing.
	Changed bool
	// Findings are what the stateful rules remark without refusing.
	Findings []lexicons.Finding
}

// WriteError says which write of a batch an error of Apply or DryRun is about.
type WriteError struct {
	Index int // into the writes
	Err   error
}

func (e *WriteError) Error() string { return e.Err.Error() }

// Unwrap is what happened.
func (e *WriteError) Unwrap() error { return e.Err }
