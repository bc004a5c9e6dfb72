package ingest

import (
	"context"
	"time"

	"bytes"
	"github.com/bluesky-social/indigo/atproto/syntax"

	"github.com/ipfs/go-cid"
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
