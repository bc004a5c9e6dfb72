package ingest

import (
	"bytes"
	"context"
	"time"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/appview/index"
)

// DecodeFrame and ReadCAR let the fuzz targets in at the parsers themselves.
var DecodeFrame = decodeFrame

// ReadCAR reads and walks a CAR file as a fetched repo is.
func ReadCAR(raw []byte, limit int64) (blocks, leaves int, err error) {
	c, err := readCAR(bytes.NewReader(raw), carLimits{bytes: limit, blocks: 10_000})
	if err != nil {
		return 0, 0, err
	}
	for id := range c.blocks {
		w, err := c.walk(id)
		if err == nil {
			leaves += len(w.leaves)
		}
	}
	return len(c.blocks), leaves, nil
}

// EmptyRoot is the root of a tree without records.
func EmptyRoot() (cid.Cid, error) { return emptyRoot() }

// VerifyRepo verifies a fetched repo without an index behind it.
func VerifyRepo(ctx context.Context, dir Directory, did syntax.DID, raw []byte, limit int64) error {
	v := &verifier{dir: dir, now: time.Now, sample: 1, maxRepoBytes: limit}
	_, err := v.repo(ctx, did, bytes.NewReader(raw))
	return err
}

// VerifyCommit verifies a #commit without an index behind it; without a
// directory the signature is left out.
func VerifyCommit(ctx context.Context, dir Directory, msg *comatproto.SyncSubscribeRepos_Commit, known index.Repo) error {
	v := &verifier{dir: dir, now: time.Now, sample: 1}
	if dir == nil {
		v.sample = 2 // the first is not every second
	}
	_, err := v.commit(ctx, msg, known)
	return err
}

// VerifyOperations holds operations against a CAR of tree nodes and the root
// before them, as a #commit's are.
func VerifyOperations(ctx context.Context, raw []byte, ops []repo.Operation, before cid.Cid) (err error) {
	defer recovered("verify operations", &err)
	c, err := readCAR(bytes.NewReader(raw), carLimits{bytes: maxCommitBytes, blocks: maxCommitBlocks})
	if err != nil {
		return err
	}
	_, tree, err := partialTree(ctx, c, c.root)
	if err != nil {
		return err
	}
	for i := range ops {
		if err := repo.CheckOp(tree, &ops[i]); err != nil {
			return err
		}
	}
	return invert(tree, ops, index.Repo{Data: before})
}
