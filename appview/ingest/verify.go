package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
)

// Limits of one #commit, as relays have them, and of a whole repo.
const (
	maxCommitBytes  = 2_000_000
	maxCommitBlocks = 20_000
	maxCommitOps    = 200
	maxRepoBlocks   = 4_000_000
	maxURI          = index.MaxURILength

	// DefaultMaxRepoBytes bounds a repo that is fetched whole; it is held in memory while it is verified.
	DefaultMaxRepoBytes = 512 << 20

	// clockSkew is how far ahead of ours the clock of a host may be.
	clockSkew = 5 * time.Minute
)

// Directory resolves identities. identity.Directory satisfies it.
type Directory interface {
	LookupDID(ctx context.Context, did syntax.DID) (*identity.Identity, error)
	Purge(ctx context.Context, id syntax.AtIdentifier) error
}

// errKnown says that an event tells nothing new: it was delivered before.
var errKnown = errors.New("already known")

// errUnreachable says that a DID does not resolve now, or that a host does not
// answer: nothing is wrong with what it may have.
var errUnreachable = errors.New("does not answer")

// verifier checks what came from a source. It holds no state of any repo:
// what is known is passed in.
type verifier struct {
	dir          Directory
	now          func() time.Time
	sample       int64 // verify the signature of every sample-th commit; 1 for all
	maxRepoBytes int64
	commits      atomic.Int64
}

// commit verifies one #commit against the last known state of its repo.
func (v *verifier) commit(ctx context.Context, msg *comatproto.SyncSubscribeRepos_Commit, known index.Repo) (_ *index.Commit, err error) {
	defer recovered("verify commit", &err)
	rev, err := syntax.ParseTID(msg.Rev)
	if err != nil {
		return nil, fmt.Errorf("rev: %w", err)
	}
	if rev <= known.Rev {
		return nil, errKnown
	}
	if err := v.envelope(msg, rev); err != nil {
		return nil, err
	}
	c, err := readCAR(bytes.NewReader(msg.Blocks), carLimits{bytes: maxCommitBytes, blocks: maxCommitBlocks})
	if err != nil {
		return nil, err
	}
	if !c.root.Equals(cid.Cid(msg.Commit)) {
		return nil, fmt.Errorf("the commit is %s, the root of its blocks %s", cid.Cid(msg.Commit), c.root)
	}
	signed, err := v.signedCommit(c, known.DID, rev)
	if err != nil {
		return nil, err
	}
	if n := v.commits.Add(1); n%v.sample == 0 {
		if err := v.signature(ctx, signed, known.DID); err != nil {
			return nil, err
		}
	}
	if err := follows(msg, known); err != nil {
		return nil, err
	}
	ops, proof, err := v.operations(ctx, msg, c, signed.Data, known)
	if err != nil {
		return nil, err
	}
	return &index.Commit{DID: known.DID, Rev: rev, CID: c.root, Data: signed.Data, Ops: ops, Proof: proof}, nil
}

// envelope checks what can be seen from outside.
func (v *verifier) envelope(msg *comatproto.SyncSubscribeRepos_Commit, rev syntax.TID) error {
	switch {
	case msg.TooBig:
		return errors.New("tooBig is set: the event has no content to verify")
	case msg.Rebase:
		return errors.New("rebase is set, which no repo of today has")
	case len(msg.Blocks) > maxCommitBytes:
		return fmt.Errorf("%d bytes of blocks, at most %d", len(msg.Blocks), maxCommitBytes)
	case len(msg.Ops) > maxCommitOps:
		return fmt.Errorf("%d operations, at most %d", len(msg.Ops), maxCommitOps)
	}
	return v.notAhead(rev)
}

func (v *verifier) notAhead(rev syntax.TID) error {
	if ahead := rev.Time().Sub(v.now()); ahead > clockSkew {
		return fmt.Errorf("rev %s is %s ahead of this clock", rev, ahead.Round(time.Second))
	}
	return nil
}

// signedCommit reads the commit block and holds it against who and what it should be.
func (v *verifier) signedCommit(c *car, did syntax.DID, rev syntax.TID) (*repo.Commit, error) {
	raw, ok := c.blocks[c.root]
	if !ok {
		return nil, errors.New("the commit block is missing")
	}
	var signed repo.Commit
	if err := signed.UnmarshalCBOR(bytes.NewReader(raw)); err != nil {
		return nil, fmt.Errorf("commit block: %w", err)
	}
	if err := signed.VerifyStructure(); err != nil {
		return nil, fmt.Errorf("commit block: %w", err)
	}
	switch {
	case signed.DID != string(did):
		return nil, fmt.Errorf("the commit is of %s", signed.DID)
	case rev != "" && signed.Rev != string(rev):
		return nil, fmt.Errorf("the commit has rev %s, its event %s", signed.Rev, rev)
	}
	return &signed, nil
}

// signature checks the commit's signature by the key in the DID's document.
// A failure may mean that the key was changed since the document was cached:
// it is fetched once more.
func (v *verifier) signature(ctx context.Context, signed *repo.Commit, did syntax.DID) error {
	err := v.signatureOnce(ctx, signed, did)
	if err == nil {
		return nil
	}
	if purged := v.dir.Purge(ctx, did.AtIdentifier()); purged != nil {
		return errors.Join(err, purged)
	}
	return v.signatureOnce(ctx, signed, did)
}

func (v *verifier) signatureOnce(ctx context.Context, signed *repo.Commit, did syntax.DID) error {
	id, err := v.dir.LookupDID(ctx, did)
	if err != nil {
		return fmt.Errorf("resolve identity: %w: %w", errUnreachable, err)
	}
	key, err := id.PublicKey()
	if err != nil {
		return fmt.Errorf("signing key: %w", err)
	}
	if err := signed.VerifySignature(key); err != nil {
		return fmt.Errorf("signature: %w", err)
	}
	return nil
}

// follows checks that the commit continues what is known, and is not the
// second after one that was never seen.
func follows(msg *comatproto.SyncSubscribeRepos_Commit, known index.Repo) error {
	since, prevData := syntax.TID(""), cid.Undef
	if msg.Since != nil {
		since = syntax.TID(*msg.Since)
	}
	if msg.PrevData != nil {
		prevData = cid.Cid(*msg.PrevData)
	}
	switch {
	case since != known.Rev:
		return fmt.Errorf("gap: the commit follows rev %q, known is %q", since, known.Rev)
	case known.Rev != "" && !prevData.Defined():
		return errors.New("prevData is missing")
	case !prevData.Equals(known.Data):
		return fmt.Errorf("gap: the commit follows tree %s, known is %s", prevData, known.Data)
	}
	return nil
}

// operations checks each operation against the tree, and that undoing them
// all leads back to the tree before.
func (v *verifier) operations(ctx context.Context, msg *comatproto.SyncSubscribeRepos_Commit, c *car, root cid.Cid, known index.Repo) ([]index.Operation, []index.Block, error) {
	walked, tree, err := partialTree(ctx, c, root)
	if err != nil {
		return nil, nil, err
	}
	ops := make([]index.Operation, 0, len(msg.Ops))
	inverse := make([]repo.Operation, 0, len(msg.Ops))
	for i, raw := range msg.Ops {
		op, inv, err := readOperation(raw, c, tree, known.DID)
		if err != nil {
			return nil, nil, fmt.Errorf("operation %d: %w", i, err)
		}
		ops, inverse = append(ops, op), append(inverse, inv)
	}
	if err := invert(tree, inverse, known); err != nil {
		return nil, nil, err
	}
	return ops, proofOf(c, walked), nil
}

// partialTree loads what is here of the tree below root, after the walk found
// it harmless.
func partialTree(ctx context.Context, c *car, root cid.Cid) (*walker, *mst.Tree, error) {
	walked, err := c.walk(root)
	if err != nil {
		return nil, nil, err
	}
	if _, ok := c.blocks[root]; !ok {
		return nil, nil, errors.New("the root of the tree is missing")
	}
	tree, err := mst.LoadTreeFromStore(ctx, c, root)
	if err != nil {
		return nil, nil, fmt.Errorf("tree: %w", err)
	}
	return walked, tree, nil
}

func readOperation(raw *comatproto.SyncSubscribeRepos_RepoOp, c *car, tree *mst.Tree, did syntax.DID) (index.Operation, repo.Operation, error) {
	if raw == nil {
		return index.Operation{}, repo.Operation{}, errors.New("null")
	}
	inv := repo.Operation{Path: raw.Path, Value: (*cid.Cid)(raw.Cid), Prev: (*cid.Cid)(raw.Prev)}
	collection, rkey, err := parsePath(did, raw.Path)
	if err != nil {
		return index.Operation{}, inv, err
	}
	op := index.Operation{Action: lexicons.Action(raw.Action), Collection: collection, RecordKey: rkey}
	switch op.Action {
	case lexicons.Create:
		if raw.Cid == nil || raw.Prev != nil {
			return op, inv, errors.New("a create has a cid and no prev")
		}
	case lexicons.Update:
		if raw.Cid == nil || raw.Prev == nil {
			return op, inv, errors.New("an update has a cid and a prev")
		}
	case lexicons.Delete:
		if raw.Cid != nil || raw.Prev == nil {
			return op, inv, errors.New("a delete has a prev and no cid")
		}
	default:
		return op, inv, fmt.Errorf("action %q", raw.Action)
	}
	if raw.Prev != nil {
		op.Prev = cid.Cid(*raw.Prev)
	}
	if raw.Cid == nil {
		return op, inv, repo.CheckOp(tree, &inv)
	}
	op.CID = cid.Cid(*raw.Cid)
	held, ok := c.blocks[op.CID]
	if !ok {
		return op, inv, fmt.Errorf("the record of %s is not among the blocks", raw.Path)
	}
	op.Record = held
	return op, inv, repo.CheckOp(tree, &inv)
}

func invert(tree *mst.Tree, ops []repo.Operation, known index.Repo) error {
	ops, err := repo.NormalizeOps(ops)
	if err != nil {
		return fmt.Errorf("operations: %w", err)
	}
	for i := range ops {
		if err := repo.InvertOp(tree, &ops[i]); err != nil {
			return fmt.Errorf("undo %s: %w", ops[i].Path, err)
		}
	}
	if tree.IsEmpty() {
		// A tree that was emptied key by key keeps a height that an empty one has not.
		empty := mst.NewEmptyTree()
		tree = &empty
	}
	before, err := tree.RootCID()
	if err != nil {
		return fmt.Errorf("undo operations: %w", err)
	}
	want := known.Data
	if !want.Defined() { // the first commit of all starts from nothing
		if want, err = emptyRoot(); err != nil {
			return err
		}
	}
	if !before.Equals(want) {
		return fmt.Errorf("undoing the operations leads to tree %s, not to %s", before, want)
	}
	return nil
}

// proofOf is the commit block and the MST nodes, parents first.
func proofOf(c *car, w *walker) []index.Block {
	proof := []index.Block{{CID: c.root, Data: c.blocks[c.root]}}
	for _, id := range w.order {
		proof = append(proof, index.Block{CID: id, Data: c.blocks[id]})
	}
	return proof
}

// repo verifies a whole repo as it was fetched.
func (v *verifier) repo(ctx context.Context, did syntax.DID, r io.Reader) (_ *index.Resync, err error) {
	defer recovered("verify repo", &err)
	c, err := readCAR(r, carLimits{bytes: v.maxRepoBytes, blocks: maxRepoBlocks})
	if err != nil {
		return nil, err
	}
	signed, err := v.signedCommit(c, did, "")
	if err != nil {
		return nil, err
	}
	rev := syntax.TID(signed.Rev)
	if err := v.notAhead(rev); err != nil {
		return nil, err
	}
	if err := v.signature(ctx, signed, did); err != nil {
		return nil, err
	}
	walked, err := c.walk(signed.Data)
	if err != nil {
		return nil, err
	}
	if walked.missing > 0 {
		return nil, fmt.Errorf("%d nodes of the tree are missing", walked.missing)
	}
	if err := rebuildsTo(walked.leaves, signed.Data); err != nil {
		return nil, err
	}
	e := &index.Resync{DID: did, Rev: rev, CID: c.root, Data: signed.Data, Proof: proofOf(c, walked)}
	for _, l := range walked.leaves {
		collection, rkey, err := parsePath(did, l.path)
		if err != nil {
			continue // no AT URI names it; one such key must not keep the rest of the repo out
		}
		record, ok := c.blocks[l.cid]
		if !ok {
			return nil, fmt.Errorf("the record of %s is missing", l.path)
		}
		e.Records = append(e.Records, index.Operation{
			Action: lexicons.Create, Collection: collection, RecordKey: rkey, CID: l.cid, Record: record,
		})
	}
	return e, nil
}

// sync reads a #sync: what the repo's head is now, without the way to it. A
// nil Resync and no error mean that the whole repo must be fetched.
func (v *verifier) sync(ctx context.Context, msg *comatproto.SyncSubscribeRepos_Sync, known index.Repo) (_ *index.Resync, err error) {
	defer recovered("verify sync", &err)
	rev, err := syntax.ParseTID(msg.Rev)
	if err != nil {
		return nil, fmt.Errorf("rev: %w", err)
	}
	if rev < known.Rev {
		return nil, errKnown
	}
	if err := v.notAhead(rev); err != nil {
		return nil, err
	}
	c, err := readCAR(bytes.NewReader(msg.Blocks), carLimits{bytes: maxCommitBytes, blocks: maxCommitBlocks})
	if err != nil {
		return nil, err
	}
	signed, err := v.signedCommit(c, known.DID, rev)
	if err != nil {
		return nil, err
	}
	if err := v.signature(ctx, signed, known.DID); err != nil {
		return nil, err
	}
	if rev == known.Rev && signed.Data.Equals(known.Data) {
		return nil, errKnown
	}
	empty, err := emptyRoot()
	if err != nil {
		return nil, err
	}
	if signed.Data.Equals(empty) {
		return &index.Resync{DID: known.DID, Rev: rev, CID: c.root, Data: signed.Data}, nil
	}
	return nil, nil
}
