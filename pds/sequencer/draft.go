package sequencer

import (
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
)

// Kind is the message type of an event, as in a frame's header.
type Kind string

// The kinds of event in com.atproto.sync.subscribeRepos.
const (
	Commit   Kind = "#commit"
	Sync     Kind = "#sync"
	Identity Kind = "#identity"
	Account  Kind = "#account"
)

// Draft is an event without its seq: a CommitDraft, SyncDraft, IdentityDraft
// or AccountDraft. Append gives it one.
type Draft interface {
	about() syntax.DID
	kind() Kind
	// body is the frame's body under the given seq and time.
	body(seq int64, now string) cborMarshaler
}

// CommitDraft announces a commit of a repo.
type CommitDraft struct {
	DID      syntax.DID
	Rev      syntax.TID
	Since    *syntax.TID // rev of the commit before; nil on the first (null in the frame)
	Commit   cid.Cid
	PrevData *cid.Cid // root of the MST before; nil on the first (absent in the frame)
	Ops      []Op     // at most 200
	Blocks   []byte   // CAR v1, one root: the commit. At most 2,000,000 bytes
	Time     time.Time
}

// Op is one record operation of a commit.
type Op struct {
	Action string   // "create", "update" or "delete"
	Path   string   // "collection/rkey"
	CID    *cid.Cid // nil for a delete
	Prev   *cid.Cid // record CID before; nil for a create
}

// SyncDraft says what the state of a repo is, without the way to it.
type SyncDraft struct {
	DID    syntax.DID
	Rev    syntax.TID
	Blocks []byte // CAR v1 of the commit block alone
}

// IdentityDraft says that an identity may have changed. The zero Handle leaves
// the handle out of the frame.
type IdentityDraft struct {
	DID    syntax.DID
	Handle syntax.Handle
}

// AccountDraft tells the hosting status of an account.
type AccountDraft struct {
	DID    syntax.DID
	Active bool
	Status string // "deactivated", "takendown", "suspended", "deleted", …; "" when active
}

func (d CommitDraft) about() syntax.DID   { return d.DID }
func (d SyncDraft) about() syntax.DID     { return d.DID }
func (d IdentityDraft) about() syntax.DID { return d.DID }
func (d AccountDraft) about() syntax.DID  { return d.DID }

func (CommitDraft) kind() Kind   { return Commit }
func (SyncDraft) kind() Kind     { return Sync }
func (IdentityDraft) kind() Kind { return Identity }
func (AccountDraft) kind() Kind  { return Account }

func (d CommitDraft) body(seq int64, now string) cborMarshaler   { return nil }
func (d SyncDraft) body(seq int64, now string) cborMarshaler     { return nil }
func (d IdentityDraft) body(seq int64, now string) cborMarshaler { return nil }
func (d AccountDraft) body(seq int64, now string) cborMarshaler  { return nil }
