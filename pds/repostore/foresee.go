package repostore

import (
	"context"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
)

// Foresee judges a write to a repo that another host keeps, by what snap knows of
// it: what its write would be answered were it made here, for the same rules and
// the same meaning of its action hold. Its errors are those of Apply.
func Foresee(ctx context.Context, rules *lexicons.Rules, did syntax.DID, w Write, snap lexicons.Snapshot, now time.Time) (*WriteResult, error) {
	uri := recordURI(did, w.path())
	prev, err := snap.Record(ctx, uri)
	if err != nil {
		return nil, fmt.Errorf("read record %s: %w", uri, err)
	}
	var stands *cid.Cid
	if prev != nil {
		stands = &prev.CID
	}
	action, err := w.resolve(uri, stands)
	if err != nil {
		return nil, err
	}
	result := &WriteResult{URI: uri, Action: action}
	if w.Record != nil {
		result.CID = &w.Record.CID
	}
	if w.changesNothing(stands) {
		return result, nil
	}
	change := lexicons.Change{Action: action, DID: did, URI: uri, RecordKey: w.RecordKey, Record: w.Record, Prev: prev, Now: now}
	if result.Findings, err = rules.CheckState(ctx, change, snap); err != nil {
		return nil, fmt.Errorf("check rules of %s: %w", uri, err)
	}
	if err := lexicons.RefusedBy(result.Findings); err != nil {
		return nil, err
	}
	if w.Action == lexicons.Create && stands != nil {
		return nil, recordExists(uri, *stands)
	}
	result.Changed = true
	return result, nil
}
