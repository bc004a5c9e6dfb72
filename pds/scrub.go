package pds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"herbarium.garden/blobstore"
	"herbarium.garden/lexicons"
	"herbarium.garden/pds/repostore"
)

// Scrub says how the stored bytes are read again.
type Scrub struct {
	Every time.Duration // each blob once in this time; 0: never
	Rate  int64         // bytes per second at most, over all processes; 0: no bound
}

const (
	scrubLease = "scrub"
	scrubPage  = 100
	// scrubFailures is how many blobs in a row may be unreadable before the bucket counts as down.
	scrubFailures = 10
)

// ScrubBlobs reads the blobs whose turn it is, those that were not looked at for
// the longest time first, and holds their bytes against their CIDs. Damaged ones
// go into quarantine, and missing ones are told. It ends when none is due. Where
// it stands is in the database (StorageStatus), so a restart goes on there.
// Of several processes one does it at a time.
func (p *PDS) ScrubBlobs(ctx context.Context) error {
	if p.cfg.Scrub.Every == 0 {
		return nil
	}
	err := p.atPace(ctx, scrubLease, func(at pacer) error {
		s := scrubber{PDS: p, pacer: at}
		return s.run(ctx)
	})
	if err != nil {
		return fmt.Errorf("scrub blobs: %w", err)
	}
	return nil
}

// scrubber is a scrub under way.
type scrubber struct {
	*PDS
	pacer
	failures int // in a row
}

func (s *scrubber) run(ctx context.Context) error {
	if err := s.repos.ResumeIsolations(ctx, ward{s.blobs}); err != nil {
		return err
	}
	before := s.now().Add(-s.cfg.Scrub.Every)
	var last repostore.Object
	for {
		page, err := s.repos.DueObjects(ctx, before, last, scrubPage)
		if err != nil {
			return err
		}
		for _, o := range page {
			if err := s.pace(ctx, 0); err != nil {
				return err
			}
			if err := s.check(ctx, o); err != nil {
				return err
			}
		}
		if len(page) < scrubPage {
			return nil
		}
		last = page[len(page)-1]
	}
}

func (s *scrubber) check(ctx context.Context, o repostore.Object) error {
	_, err := s.blobs.Rehash(ctx, blobstore.Live, o.CID, s.pace)
	switch {
	case err == nil:
		s.failures = 0
		return s.repos.ObjectRight(ctx, o.CID)
	case errors.Is(err, blobstore.ErrCorrupt):
		s.failures = 0
		_, err = s.quarantine(ctx, o.CID, err)
		return err
	case errors.Is(err, blobstore.ErrNotFound):
		s.failures = 0
		return s.missing(ctx, o)
	case ctx.Err() != nil || errors.Is(err, errLeaseLost):
		return err
	}
	// The others may be readable. It keeps its turn, and comes again.
	s.log.WarnContext(ctx, "a blob could not be read to be checked", "cid", o.CID, "err", err)
	if s.failures++; s.failures == scrubFailures {
		return err
	}
	return nil
}

// missing deals with a blob that is on record and not in its place.
func (s *scrubber) missing(ctx context.Context, o repostore.Object) error {
	now, on, err := s.repos.Object(ctx, o.CID)
	if err != nil || !on || !now.Live() {
		return err // a collection took it meanwhile
	}
	if now.Owned && !now.Missing {
		s.alarm(ctx, "a blob has no bytes; herbarium blob fsck --repair-from brings it back, and so does an upload of the same bytes", o.CID, blobstore.ErrNotFound)
	}
	return s.repos.ObjectMissing(ctx, o.CID)
}

// StorageStatus is what is stored, and how far the scrub has come.
type StorageStatus struct {
	repostore.Storage // Checked: within Scrub.Every
	Scrub             Scrub
	Running           bool // some process is at it
	Secrets           repostore.SecretCounts
}

// StorageStatus sums up what is stored.
func (p *PDS) StorageStatus(ctx context.Context) (StorageStatus, error) {
	status := StorageStatus{Scrub: p.cfg.Scrub}
	var err error
	if status.Storage, err = p.repos.Storage(ctx, p.now().Add(-p.cfg.Scrub.Every)); err != nil {
		return status, err
	}
	if status.Secrets, err = p.repos.CountSecrets(ctx, lexicons.SecretsEdition); err != nil {
		return status, err
	}
	status.Running, err = p.leased(ctx, scrubLease)
	return status, err
}
