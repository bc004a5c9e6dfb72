package index

import (
	"context"
	"fmt"
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// Purged is what a Purge removed.
type Purged struct {
	Contents int64 // journal rows of the record that had content
	Records  int64 // records that were in the views, copies included
}

// Purge removes what the index has of a record for good: the content of every
// version in the journal, and all that was derived from it; and that of the
// versions with one of the CIDs wherever else they stand, which it reads through
// the journal for. A record with one of the CIDs is not taken in any more, from
// whatever source, so neither an event that is on its way nor a resync brings it
// back; nor does Reindex, for it has nothing to read. That something was there
// stays, as after a deletion. It may be called again, and with what was never here.
//
// Proof bundles hold commits and MST nodes, no records: they stay.
func (x *Index) Purge(ctx context.Context, uri syntax.ATURI, cids []cid.Cid) (did Purged, err error) {
	err = x.db.Tx(ctx, func(tx *gorm.DB) error {
		w, err := x.newWriter(tx, "purge")
		if err != nil {
			return err
		}
		names := make([]string, len(cids))
		for i, c := range cids {
			names[i] = c.String()
			err := tx.Exec("INSERT INTO purged (cid, uri, purged_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
				names[i], string(uri), migrations.FormatTime(w.now)).Error
			if err != nil {
				return err
			}
		}
		if err := tx.Raw("SELECT count(*) FROM journal WHERE uri = ? AND record IS NOT NULL", string(uri)).Scan(&did.Contents).Error; err != nil {
			return err
		}
		if err := w.purge(uri, nil, &did); err != nil {
			return err
		}
		var copies []syntax.ATURI
		if err := tx.Raw("SELECT DISTINCT uri FROM journal WHERE cid IN ? AND record IS NOT NULL ORDER BY uri", names).Scan(&copies).Error; err != nil {
			return err
		}
		for _, other := range copies {
			if err := w.purge(other, names, &did); err != nil {
				return err
			}
		}
		return w.settle(ctx)
	})
	if err != nil {
		return Purged{}, fmt.Errorf("purge %s: %w", uri, err)
	}
	return did, nil
}

// purge nulls the versions of a URI with one of the CIDs, or all when that is
// nil, and deletes the record when one of them is what is shown or stands.
func (w *writer) purge(uri syntax.ATURI, only []string, did *Purged) error {
	rec, err := w.record(uri)
	if err != nil {
		return err
	}
	if rec != nil && rec.RepoCID != "" && (only == nil || slices.Contains(only, rec.RepoCID) || slices.Contains(only, rec.CID)) {
		// The host says that it is gone; its own event may still be on its way.
		r, err := w.repo(syntax.DID(rec.Did))
		if err != nil {
			return err
		}
		at := commitAt{did: syntax.DID(rec.Did), rev: syntax.TID(r.Rev), cid: parseCID(r.CommitCID), baseline: true}
		w.purging = true
		err = w.operation(at, Operation{
			Action: lexicons.Delete, Collection: syntax.NSID(rec.Collection), RecordKey: syntax.RecordKey(rec.Rkey), Prev: parseCID(rec.RepoCID),
		})
		if w.purging = false; err != nil {
			return err
		}
		did.Records++
		only = nil // a deletion forgets them all
	}
	query, args := "UPDATE journal SET record = NULL WHERE uri = ? AND record IS NOT NULL", []any{string(uri)}
	if only != nil {
		query, args = query+" AND cid IN ?", append(args, only)
	}
	return w.tx.Exec(query, args...).Error
}

// Scrub makes the files of the database forget what was purged: see
// migrations.DB.Scrub.
func (x *Index) Scrub(ctx context.Context) error {
	// Postgres never takes a word out of such an index, only the rows under it.
	if x.db.Dialect == migrations.Postgres {
		if err := x.db.Write.WithContext(ctx).Exec("REINDEX INDEX CONCURRENTLY search_docs_fts").Error; err != nil {
			return fmt.Errorf("scrub words: %w", err)
		}
	}
	return x.db.Scrub(ctx, append([]string{"journal", "content_tests"}, derived...)...)
}

// PurgeRemains counts the journal rows of a record that have content, which is
// none after a Purge.
func (x *Index) PurgeRemains(ctx context.Context, uri syntax.ATURI) (n int64, err error) {
	err = x.db.Read.WithContext(ctx).Raw("SELECT count(*) FROM journal WHERE uri = ? AND record IS NOT NULL", string(uri)).Scan(&n).Error
	if err != nil {
		return 0, fmt.Errorf("look for content of %s: %w", uri, err)
	}
	return n, nil
}

// Witnessed lists the CIDs of a record that were seen, with their content or
// without, in the order in which they came.
func (x *Index) Witnessed(ctx context.Context, uri syntax.ATURI, limit int) (cids []cid.Cid, err error) {
	var names []string
	err = x.db.Read.WithContext(ctx).Raw("SELECT cid FROM journal WHERE uri = ? AND cid <> '' GROUP BY cid ORDER BY min(seq) LIMIT ?", string(uri), limit).Scan(&names).Error
	if err != nil {
		return nil, fmt.Errorf("list what was seen of %s: %w", uri, err)
	}
	for _, name := range names {
		cids = append(cids, parseCID(name))
	}
	return cids, nil
}

// ForgetBlob removes what is known of having read a blob that was purged: where
// in it a quotation was found. What is looked for again finds no blob.
func (x *Index) ForgetBlob(ctx context.Context, c cid.Cid) (removed int64, err error) {
	err = x.db.Tx(ctx, func(tx *gorm.DB) error {
		gone := tx.Exec("DELETE FROM content_tests WHERE cid = ?", c.String())
		removed = gone.RowsAffected
		return gone.Error
	})
	if err != nil {
		return 0, fmt.Errorf("forget blob %s: %w", c, err)
	}
	return removed, nil
}

// Citing lists records that name a record, by their URIs.
func (x *Index) Citing(ctx context.Context, uri syntax.ATURI, limit int) (from []Citing, err error) {
	err = x.db.Read.WithContext(ctx).Raw(`SELECT from_uri AS uri, min(kind) AS kind FROM refs
		WHERE target_uri = ? AND from_uri <> ? GROUP BY from_uri ORDER BY from_uri LIMIT ?`, string(uri), string(uri), limit).Scan(&from).Error
	if err != nil {
		return nil, fmt.Errorf("find who cites %s: %w", uri, err)
	}
	return from, nil
}

// Citing is a record that names another.
type Citing struct {
	URI  syntax.ATURI `gorm:"column:uri"`
	Kind ReferenceKind
}

// purged tells whether a record is one that was purged.
func (w *writer) purged(c cid.Cid) (bool, error) {
	var n int64
	if err := w.tx.Raw("SELECT count(*) FROM purged WHERE cid = ?", c.String()).Scan(&n).Error; err != nil {
		return false, fmt.Errorf("look for purge of %s: %w", c, err)
	}
	return n > 0, nil
}
