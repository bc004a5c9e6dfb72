package repostore

import (
	"context"

	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/repo/mst"
	blocks "github.com/ipfs/go-block-format"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
	"herbarium.garden/pds/sequencer"
)

// Consumers of the firehose undo a commit's operations on its own blocks and
// compare the root with prevData. indigo, which relays run, does that in an
// order of its own, meant to undo deletes first, by a comparison that
// contradicts itself. When a batch replaces every record of a repo and the
// creates are undone first, the tree is empty for a moment, and an emptied
// tree is what indigo gets wrong (trap A): the commit is right and refused.

// eventOrder puts deletes last. Up to a dozen operations indigo's sort then
// has the order that it means. The order of operations carries no meaning.
func eventOrder(ops []sequencer.Op) (ordered []sequencer.Op, mixed bool) {
	ordered = make([]sequencer.Op, 0, len(ops))
	for _, op := range ops {
		if op.CID != nil {
			ordered = append(ordered, op)
		}
	}
	others := len(ordered)
	for _, op := range ops {
		if op.CID == nil {
			ordered = append(ordered, op)
		}
	}
	return ordered, others > 0 && others < len(ops)
}

// errReplacesAll refuses a batch whose commit a relay could not verify.
var errReplacesAll = &lexicons.Refused{Findings: []lexicons.Finding{{
	Code: lexicons.CodeBatchReplacesAll, Severity: lexicons.Violation, Refusal: lexicons.RefusalInvalidRequest,
	Message: "the batch replaces every record of the repo, in a way that relays cannot verify",
	Repair:  "delete in one batch and create in the next",
}}}

// invertible does what a consumer does: it undoes ops on the blocks of the
// event and compares the root.
func invertible(ctx context.Context, ops []sequencer.Op, diff *treeDiff, want cid.Cid) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	carried := repo.NewTinyBlockstore()
	for _, b := range diff.proof {
		made, err := blocks.NewBlockWithCid(b.raw, b.cid)
		if err != nil || carried.Put(ctx, made) != nil {
			return false
		}
	}
	partial, err := mst.LoadTreeFromStore(ctx, carried, diff.root)
	if err != nil {
		return false
	}
	undo := make([]repo.Operation, len(ops))
	for i, op := range ops {
		undo[i] = repo.Operation{Path: op.Path, Value: op.CID, Prev: op.Prev}
	}
	if undo, err = repo.NormalizeOps(undo); err != nil {
		return false
	}
	for i := range undo {
		if err := repo.InvertOp(partial, &undo[i]); err != nil {
			return false
		}
	}
	root, err := partial.RootCID()
	return err == nil && *root == want
}
