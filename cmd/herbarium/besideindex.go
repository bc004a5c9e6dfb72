package main

import (
	"context"
	"errors"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/pds"
)

// besideIndex is the index in this process as the PDS sees it.
type besideIndex struct{ *index.Index }

var _ pds.Index = besideIndex{}

// foresight is what the PDS may ask of repos that it does not keep.
func (x besideIndex) foresight(ctx context.Context, did syntax.DID, record *lexicons.Record) (lexicons.Snapshot, error) {
	snap, err := x.Foresight(ctx, did, record)
	if errors.Is(err, index.ErrNotFound) {
		return nil, nil
	}
	return snap, err
}

// PurgeImpact implements pds.PurgeIndex.
func (x besideIndex) PurgeImpact(ctx context.Context, uri syntax.ATURI, limit int) (impact pds.IndexImpact, err error) {
	if impact.Versions, err = x.Witnessed(ctx, uri, limit); err != nil {
		return impact, err
	}
	citing, err := x.Citing(ctx, uri, limit)
	for _, c := range citing {
		impact.Citing = append(impact.Citing, pds.Citing{URI: c.URI, Kind: string(c.Kind)})
	}
	return impact, err
}

// Purge implements pds.PurgeIndex.
func (x besideIndex) Purge(ctx context.Context, records map[syntax.ATURI][]cid.Cid, blobs []cid.Cid) (map[string]int64, error) {
	removed := map[string]int64{"contents": 0, "records": 0, "tests": 0}
	for uri, cids := range records {
		did, err := x.Index.Purge(ctx, uri, cids)
		if err != nil {
			return nil, err
		}
		removed["contents"] += did.Contents
		removed["records"] += did.Records
	}
	for _, c := range blobs {
		tests, err := x.ForgetBlob(ctx, c)
		if err != nil {
			return nil, err
		}
		removed["tests"] += tests
	}
	return removed, nil
}

// PurgeRemains implements pds.PurgeIndex.
func (x besideIndex) PurgeRemains(ctx context.Context, records map[syntax.ATURI][]cid.Cid) (remain int64, err error) {
	for uri := range records {
		n, err := x.Index.PurgeRemains(ctx, uri)
		if err != nil {
			return 0, err
		}
		remain += n
	}
	return remain, nil
}
