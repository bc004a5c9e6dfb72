package pds

import (
	"context"
	"errors"
	"time"

	"github.com/ipfs/go-cid"

	"herbarium.garden/blobstore"
	"herbarium.garden/pds/repostore"
)

// namedRecords is how many of the records that a blob is evidence for are named
// where a fault is told.
const namedRecords = 20

// quarantineTimeout bounds the move of one blob out of service, which is seen
// through once it has begun.
const quarantineTimeout = 15 * time.Minute

// quarantine takes a blob out of service whose bytes were found to be others than
// its CID says, and tells so loudly. false: they are right after all, or somebody
// else has done it.
func (p *PDS) quarantine(ctx context.Context, c cid.Cid, found error) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quarantineTimeout)
	defer cancel()
	isolated, err := p.repos.Isolate(ctx, ward{p.blobs}, c)
	if err != nil || !isolated {
		return false, err
	}
	p.alarm(ctx, "a blob is damaged and out of service; herbarium blob fsck --repair-from brings it back, and so does an upload of the same bytes", c, found)
	return true, nil
}

// alarm tells the operator of a blob that is not there or not right, and what it
// was evidence for.
func (p *PDS) alarm(ctx context.Context, what string, c cid.Cid, found error) {
	evidence, err := p.repos.Evidence(ctx, c, namedRecords)
	attrs := []any{"cid", c, "found", found, "records", evidence.Records, "record_count", evidence.Total}
	if err != nil {
		attrs = append(attrs, "records_unknown", err)
	}
	p.log.ErrorContext(ctx, what, attrs...)
}

// ward moves damaged bytes for repostore.Isolate.
type ward struct{ blobs *blobstore.Store }

func (w ward) Damaged(ctx context.Context, c cid.Cid) (bool, error) {
	err := w.blobs.Verify(ctx, c)
	if errors.Is(err, blobstore.ErrCorrupt) || errors.Is(err, blobstore.ErrNotFound) {
		return true, nil
	}
	return false, err
}

func (w ward) Isolate(ctx context.Context, c cid.Cid) error {
	return unlessGone(w.blobs.Isolate(ctx, c))
}

var _ repostore.Ward = ward{}
