package sequencer

import (
	"errors"
	"fmt"
	"io"
	"time"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	lexutil "github.com/bluesky-social/indigo/lex/util"
	"github.com/ipfs/go-cid"

	"herbarium.garden/migrations"
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

// The limits that the lexicon of subscribeRepos sets on a #commit. Relays drop
// what is over them.
const (
	MaxOps    = 200       // operations
	MaxBlocks = 2_000_000 // bytes of the CAR
)

// ErrBadDraft is wrapped by Append's error about a draft that must not be sent.
var ErrBadDraft = errors.New("bad event draft")

// Draft is an event without its seq: a CommitDraft, SyncDraft, IdentityDraft
// or AccountDraft. Append gives it one.
type Draft interface {
	about() syntax.DID
	kind() Kind
	check() error
	// body is the frame's body under the given seq and time of appending.
	body(seq int64, now time.Time) cborMarshaler
}

type cborMarshaler interface{ MarshalCBOR(w io.Writer) error }

// CommitDraft announces a commit of a repo.
type CommitDraft struct {
	DID      syntax.DID
	Rev      syntax.TID
	Since    *syntax.TID // rev of the commit before; nil on the first (null in the frame)
	Commit   cid.Cid
	PrevData *cid.Cid  // root of the MST before; nil on the first (absent in the frame)
	Ops      []Op      // at most MaxOps
	Blocks   []byte    // CAR v1, one root: the commit. At most MaxBlocks bytes
	Time     time.Time // of the commit; that of appending when zero
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

// check refuses what strict consumers would drop the repo for: a frame over
// the limits, and operations from which the tree before cannot be derived.
func (d CommitDraft) check() error {
	switch {
	case d.Rev == "" || !d.Commit.Defined():
		return fmt.Errorf("%w: a commit without rev or CID", ErrBadDraft)
	case len(d.Blocks) == 0 || len(d.Blocks) > MaxBlocks:
		return fmt.Errorf("%w: %d bytes of blocks, want 1 to %d", ErrBadDraft, len(d.Blocks), MaxBlocks)
	case len(d.Ops) > MaxOps:
		return fmt.Errorf("%w: %d operations, want at most %d", ErrBadDraft, len(d.Ops), MaxOps)
	}
	for _, op := range d.Ops {
		var ok bool
		switch op.Action {
		case "create":
			ok = op.CID != nil && op.Prev == nil
		case "update":
			ok = op.CID != nil && op.Prev != nil
		case "delete":
			ok = op.CID == nil && op.Prev != nil
		}
		if !ok {
			return fmt.Errorf("%w: operation %q on %s has not the CIDs that it needs", ErrBadDraft, op.Action, op.Path)
		}
	}
	return nil
}

func (d SyncDraft) check() error {
	if d.Rev == "" || len(d.Blocks) == 0 {
		return fmt.Errorf("%w: a sync without rev or commit block", ErrBadDraft)
	}
	return nil
}

func (d IdentityDraft) check() error { return nil }

func (d AccountDraft) check() error {
	if d.Active != (d.Status == "") {
		return fmt.Errorf("%w: active %t with status %q", ErrBadDraft, d.Active, d.Status)
	}
	return nil
}

func (d CommitDraft) body(seq int64, now time.Time) cborMarshaler {
	if !d.Time.IsZero() {
		now = d.Time
	}
	ops := make([]*comatproto.SyncSubscribeRepos_RepoOp, len(d.Ops))
	for i, op := range d.Ops {
		ops[i] = &comatproto.SyncSubscribeRepos_RepoOp{
			Action: op.Action, Path: op.Path, Cid: (*lexutil.LexLink)(op.CID), Prev: (*lexutil.LexLink)(op.Prev),
		}
	}
	return &comatproto.SyncSubscribeRepos_Commit{
		Blobs:    []lexutil.LexLink{}, // deprecated, but required by the lexicon
		Blocks:   d.Blocks,
		Commit:   lexutil.LexLink(d.Commit),
		Ops:      ops,
		PrevData: (*lexutil.LexLink)(d.PrevData),
		Repo:     d.DID.String(),
		Rev:      d.Rev.String(),
		Seq:      seq,
		Since:    (*string)(d.Since),
		Time:     migrations.FormatTime(now),
	}
}

func (d SyncDraft) body(seq int64, now time.Time) cborMarshaler {
	return &comatproto.SyncSubscribeRepos_Sync{
		Blocks: d.Blocks, Did: d.DID.String(), Rev: d.Rev.String(), Seq: seq, Time: migrations.FormatTime(now),
	}
}

func (d IdentityDraft) body(seq int64, now time.Time) cborMarshaler {
	body := &comatproto.SyncSubscribeRepos_Identity{Did: d.DID.String(), Seq: seq, Time: migrations.FormatTime(now)}
	if d.Handle != "" {
		body.Handle = (*string)(&d.Handle)
	}
	return body
}

func (d AccountDraft) body(seq int64, now time.Time) cborMarshaler {
	body := &comatproto.SyncSubscribeRepos_Account{Active: d.Active, Did: d.DID.String(), Seq: seq, Time: migrations.FormatTime(now)}
	if d.Status != "" {
		body.Status = &d.Status
	}
	return body
}
