package index

import (
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
)

// Event is something about one repo that package ingest verified: a *Commit, a
// *Resync, an *Account, an *Identity, a *Desync or an *Unreachable.
type Event interface{ about() syntax.DID }

// Operation is what one commit did to one record.
type Operation struct {
	Action     lexicons.Action
	Collection syntax.NSID
	RecordKey  syntax.RecordKey
	CID        cid.Cid // undefined on delete
	Prev       cid.Cid // undefined on create
	Record     []byte  // DAG-CBOR whose CID is CID; nil on delete
}

// Block is one block of a repo.
type Block struct {
	CID  cid.Cid
	Data []byte
}

// Commit is a verified commit of a repo. A commit whose Rev is not greater
// than the repo's is already known and changes nothing.
type Commit struct {
	DID   syntax.DID
	Rev   syntax.TID
	CID   cid.Cid // of the signed commit block
	Data  cid.Cid // root of the MST
	Ops   []Operation
	Proof []Block // the commit block and the MST nodes that came with it
}

// Resync is a whole verified repo. It replaces what is known of the DID: what
// differs is applied as operations that are labelled as baseline, for nobody
// saw the commits that led there.
type Resync struct {
	DID     syntax.DID
	Rev     syntax.TID
	CID     cid.Cid
	Data    cid.Cid
	Records []Operation // all creates, in order of path
	Proof   []Block     // the commit block and all MST nodes
}

// Account tells the hosting status of a repo. Deleted removes the content of all
// its records, and the rev with it: a source must not tell it, or what came
// before it, a second time, which its cursor sees to.
type Account struct {
	DID    syntax.DID
	Active bool
	Status string // "deactivated", "takendown", "suspended", "deleted", …; "" when active
}

// Identity tells the handle of a DID as it was verified; "" when there is none.
type Identity struct {
	DID    syntax.DID
	Handle syntax.Handle
}

// Desync marks a repo as out of step with its host until a Resync: Reason says
// what was wrong with the event that could not be applied.
type Desync struct {
	DID    syntax.DID
	Reason string
}

// Unreachable tells that the host of a repo, or its DID, does not answer, so
// that what is not known of it now cannot be learned. The next commit or whole
// repo that holds ends it.
type Unreachable struct {
	DID    syntax.DID
	Reason string
}

func (e *Commit) about() syntax.DID      { return e.DID }
func (e *Resync) about() syntax.DID      { return e.DID }
func (e *Account) about() syntax.DID     { return e.DID }
func (e *Identity) about() syntax.DID    { return e.DID }
func (e *Desync) about() syntax.DID      { return e.DID }
func (e *Unreachable) about() syntax.DID { return e.DID }

// SyncState says how far a repo is known.
type SyncState string

// The sync states of a repo.
const (
	SyncPending        SyncState = "pending"        // known by name, no commit yet, or none since the account was deleted
	SyncSynced         SyncState = "synced"         // in step with its host
	SyncDesynchronized SyncState = "desynchronized" // a gap or a bad event; waits for a resync
)

// Repo is what is known of one DID.
type Repo struct {
	DID       syntax.DID
	Handle    syntax.Handle // "" when unknown
	Active    bool
	Status    string // account status when not active
	Rev       syntax.TID
	Commit    cid.Cid // undefined before the first commit
	Data      cid.Cid
	Sync      SyncState
	SyncError string // why it is desynchronized
	// Unreachable says with what its host or its DID failed; "" while they answer.
	Unreachable string
	FirstSeen   time.Time
	UpdatedAt   time.Time
}
