package pds

import (
	"context"
	"errors"
	"time"

	"github.com/ipfs/go-cid"

	"herbarium.garden/blobstore"
	"herbarium.garden/pds/repostore"
)

// Defaults of how long bytes stay that nobody refers to.
const (
	DefaultBlobGrace = 24 * time.Hour     // before they go to the trash
	DefaultBlobTrash = 7 * 24 * time.Hour // in the trash
)

// moverDead is how long after it marked an object a mover counts as dead. It
// must be longer than the move of one object can take.
const moverDead = time.Hour

// CollectBlobs takes away the blobs that nobody refers to (repostore.Collect).
// With dryRun it only counts them. It may run beside everything else, and in
// several processes at once.
func (p *PDS) CollectBlobs(ctx context.Context, dryRun bool) (repostore.Collected, error) {
	now := p.now()
	did, err := p.repos.Collect(ctx, bin{ward{p.blobs}}, repostore.Collection{
		Abandoned: now.Add(-p.cfg.BlobGrace),
		Trashed:   now.Add(-p.cfg.BlobTrash),
		Stalled:   now.Add(-moverDead),
		DryRun:    dryRun,
	})
	if did != (repostore.Collected{}) && !dryRun {
		p.log.InfoContext(ctx, "collected blobs", "expired", did.Expired.Count, "trashed", did.Trashed.Count, "trashed_bytes", did.Trashed.Bytes,
			"emptied", did.Emptied.Count, "emptied_bytes", did.Emptied.Bytes, "damaged", did.Damaged.Count, "cleared", did.Cleared.Count, "revived", did.Revived)
	}
	return did, err
}

// bin moves the bytes for a collection. That they are where they were to go
// already, or nowhere, is no error: a step may be made twice.
type bin struct{ ward }

// Trash reads before it moves: what lies in the trash is right, so whatever
// comes in between, right bytes are never deleted for damaged ones.
func (b bin) Trash(ctx context.Context, c cid.Cid) error {
	err := b.blobs.Verify(ctx, c)
	if errors.Is(err, blobstore.ErrCorrupt) {
		return repostore.ErrObjectDamaged
	}
	if err == nil {
		err = b.blobs.Trash(ctx, c)
	}
	return unlessGone(err)
}

func (b bin) Restore(ctx context.Context, c cid.Cid) error {
	return unlessGone(b.blobs.Restore(ctx, c))
}

func (b bin) Empty(ctx context.Context, c cid.Cid) error {
	// Of a blob that was damaged once and uploaded anew there are bytes in both.
	return errors.Join(b.blobs.Discard(ctx, blobstore.Trash, c), b.blobs.Discard(ctx, blobstore.Quarantine, c))
}

func unlessGone(err error) error {
	if errors.Is(err, blobstore.ErrNotFound) {
		return nil
	}
	return err
}
