package repostore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/pds/sequencer"
)

// The steps of a purge that are the repos'. Each notes in the log of purges that
// it was done, and can be made again.

// PurgeRecords takes the records out of their repos, each by a commit as any
// deletion. What is gone is passed over. A copy that was committed while the
// purge was being entered, or that a restore has brought back, becomes a part
// of the purge.
func (s *Store) PurgeRecords(ctx context.Context, p *Purge, step string) error {
	if err := s.takeCopies(ctx, p); err != nil {
		return fmt.Errorf("purge records: %w", err)
	}
	removed := map[string]int64{"records": 0}
	for _, rec := range p.Records {
		did, _, ok := locate(rec.URI)
		if !ok {
			return fmt.Errorf("%w: %s names no record", ErrCorrupt, rec.URI)
		}
		// The operator's word stands above what the account may delete.
		result, err := s.Apply(ctx, did, []Write{{
			Action: Remove, Collection: rec.URI.Collection(), RecordKey: rec.URI.RecordKey(), SwapRecord: &SwapRecord{CID: &rec.CID},
		}}, Options{})
		switch {
		case errors.Is(err, ErrInvalidSwap), errors.Is(err, ErrRepoNotFound):
		case err != nil:
			return fmt.Errorf("purge %s: %w", rec.URI, err)
		case result.Commit != nil:
			removed["records"]++
		}
	}
	return s.MarkPurgeStep(ctx, p.ID, step, removed)
}

// takeCopies enters into the purge what is the same as one of its records.
func (s *Store) takeCopies(ctx context.Context, p *Purge) error {
	if len(p.Records) == 0 {
		return nil
	}
	known := going(p.Records)
	var copies []PurgedRecord
	err := eachCopy(s.db.Read.WithContext(ctx), p.Records, func(rec PurgedRecord) error {
		if !known[rec.URI] {
			copies = append(copies, rec)
		}
		return nil
	})
	if err != nil || len(copies) == 0 {
		return err
	}
	err = s.db.Tx(ctx, func(tx *gorm.DB) error {
		for _, rec := range copies {
			if err := enterPurged(tx, p.ID, purgedRecord, rec.URI, rec.CID, rec.Size); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		p.Records = append(p.Records, copies...)
	}
	return err
}

// cidsByRepo are the records of a purge by their repos, and those in one order.
func (p *Purge) cidsByRepo() (dids []syntax.DID, cids map[syntax.DID][]cid.Cid) {
	cids = map[syntax.DID][]cid.Cid{}
	for _, rec := range p.Records {
		did, _, ok := locate(rec.URI)
		if !ok {
			continue
		}
		if cids[did] == nil {
			dids = append(dids, did)
		}
		cids[did] = append(cids[did], rec.CID)
	}
	slices.Sort(dids)
	return dids, cids
}

// PurgeEvents takes the events that carry the records out of the log. Behind
// them a #sync says where each repo stands, if announce wants one of it.
func (s *Store) PurgeEvents(ctx context.Context, p *Purge, step string, announce func(ctx context.Context, tx *gorm.DB, did syntax.DID) (bool, error)) error {
	dids, cids := p.cidsByRepo()
	var appended sequencer.Batch
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		// Repos are locked before the sequence, as by every commit.
		var drafts []sequencer.Draft
		for _, did := range dids {
			wanted, err := announce(ctx, tx, did)
			if err != nil {
				return err
			}
			if !wanted {
				continue
			}
			draft, err := s.SyncDraft(ctx, tx, did)
			if errors.Is(err, ErrRepoNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			drafts = append(drafts, draft)
		}
		removed := map[string]int64{"events": 0}
		for _, did := range dids {
			n, err := s.sequencer.EraseRecords(ctx, tx, did, cids[did])
			if err != nil {
				return err
			}
			removed["events"] += n
		}
		if err := s.markStep(tx, p.ID, step, removed); err != nil {
			return err
		}
		if removed["events"] == 0 {
			return nil // nobody has missed anything
		}
		var err error
		appended, err = s.sequencer.Append(ctx, tx, drafts...)
		return err
	})
	if err != nil {
		return fmt.Errorf("purge events: %w", err)
	}
	s.sequencer.ErasedRecords()
	s.sequencer.Published(appended)
	return nil
}

// PurgeBlobs takes the blobs from all accounts, with what is on record of their
// bytes. A reference that came in while the purge was being entered goes too;
// its record then names bytes that are nowhere. ErrObjectBusy while somebody
// moves them.
func (s *Store) PurgeBlobs(ctx context.Context, p *Purge, step string) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		removed := map[string]int64{"accounts": 0, "references": 0}
		for _, b := range p.Blobs {
			if err := purgeBlob(tx, b.CID, removed); err != nil {
				return err
			}
		}
		return s.markStep(tx, p.ID, step, removed)
	})
	if err != nil {
		return fmt.Errorf("purge blobs: %w", err)
	}
	return nil
}

// ForgetPurged removes what an upload has put on record of a blob that was purged
// meanwhile. ErrObjectBusy.
func (s *Store) ForgetPurged(ctx context.Context, c cid.Cid) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error { return purgeBlob(tx, c, map[string]int64{}) })
	if err != nil {
		return fmt.Errorf("forget purged blob %s: %w", c, err)
	}
	return nil
}

// purgeBlob waits for no mover: one that finds its mark gone would put back what
// it took.
func purgeBlob(tx *gorm.DB, c cid.Cid, removed map[string]int64) error {
	state, err := lockObject(tx, c)
	if err != nil {
		return err
	}
	switch state {
	case objectTrashing, objectEmptying, objectQuarantining:
		return fmt.Errorf("blob %s: %w", c, ErrObjectBusy)
	}
	// The repos before their blobs, as commits do.
	var repos []int64
	err = each(tx, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		repos = append(repos, id)
		return err
	}, "SELECT repo_id FROM blobs WHERE cid = ? ORDER BY repo_id", c.Bytes())
	for _, id := range repos {
		if err == nil {
			err = tx.Exec("UPDATE repos SET blob_count = blob_count WHERE id = ?", id).Error
		}
	}
	if err != nil {
		return err
	}
	for _, table := range []string{"awaited_blobs", "blob_refs"} {
		gone := tx.Exec("DELETE FROM "+table+" WHERE cid = ?", c.Bytes())
		if gone.Error != nil {
			return gone.Error
		}
		removed["references"] += gone.RowsAffected
	}
	type row struct{ repoID, size int64 }
	var had []row
	err = each(tx, func(rows *sql.Rows) error {
		var r row
		err := rows.Scan(&r.repoID, &r.size)
		had = append(had, r)
		return err
	}, "DELETE FROM blobs WHERE cid = ? RETURNING repo_id, size", c.Bytes())
	if err != nil {
		return err
	}
	for _, r := range had {
		removed["accounts"]++
		if err := tx.Exec("UPDATE repos SET blob_count = blob_count - 1, blob_bytes = blob_bytes - ? WHERE id = ?", r.size, r.repoID).Error; err != nil {
			return err
		}
	}
	return tx.Exec("DELETE FROM blob_objects WHERE cid = ?", c.Bytes()).Error
}

// PurgeRemains counts the rows that still hold something of a purge: none once
// its steps are done. It reads through the records and the events of the repos.
func (s *Store) PurgeRemains(ctx context.Context, p *Purge) (map[string]int64, error) {
	found := map[string]int64{"records": 0, "events": 0, "blobs": 0, "references": 0, "objects": 0}
	db := s.db.Read.WithContext(ctx)
	if len(p.Records) > 0 {
		if err := eachCopy(db, p.Records, func(PurgedRecord) error { found["records"]++; return nil }); err != nil {
			return nil, fmt.Errorf("look for purged records: %w", err)
		}
	}
	dids, cids := p.cidsByRepo()
	for _, did := range dids {
		counted, err := s.sequencer.CountRecords(ctx, did, cids[did])
		if err != nil {
			return nil, fmt.Errorf("look for purged records: %w", err)
		}
		for _, n := range counted {
			found["events"] += n
		}
	}
	for _, b := range p.Blobs {
		var blobs, references, objects int64
		key := b.CID.Bytes()
		_, err := one(db, `SELECT (SELECT count(*) FROM blobs WHERE cid = ?), (SELECT count(*) FROM blob_refs WHERE cid = ?)
			+ (SELECT count(*) FROM awaited_blobs WHERE cid = ?), (SELECT count(*) FROM blob_objects WHERE cid = ?)`,
			[]any{key, key, key, key}, &blobs, &references, &objects)
		if err != nil {
			return nil, fmt.Errorf("look for purged blob %s: %w", b.CID, err)
		}
		found["blobs"] += blobs
		found["references"] += references
		found["objects"] += objects
	}
	return found, nil
}

// purgeTables are the tables that can have held what was purged.
var purgeTables = []string{"records", "nodes", "repos", "events", "blobs", "blob_refs", "awaited_blobs", "blob_objects"}

// Scrub makes the files of the database forget what was purged: see
// migrations.DB.Scrub.
func (s *Store) Scrub(ctx context.Context) error { return s.db.Scrub(ctx, purgeTables...) }
