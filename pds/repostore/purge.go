package repostore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// Errors of purges.
var (
	// ErrPurgeNotFound says that there is no purge of that id.
	ErrPurgeNotFound = errors.New("no such purge")
	// ErrPurgeBlocked says that what is to be purged would stay at another place.
	ErrPurgeBlocked = errors.New("it is referred to elsewhere")
)

// Purge is the removal of records and blobs for good. It happens in steps, each
// of which can be made twice; what was begun is in the log before anything is
// removed, and is completed whatever happens in between.
type Purge struct {
	ID      syntax.TID
	At      time.Time
	Actor   string // whose credential it was
	Reason  string // the operator's words
	Records []PurgedRecord
	Blobs   []PurgedBlob
	Steps   []PurgeStep // those that were done
	Receipt string      // "" until it is complete
}

// PurgedRecord is a record of a purge.
type PurgedRecord struct {
	lexicons.StrongRef
	Size int64 // bytes; 0 when nothing stood there
}

// PurgedBlob is a blob of a purge.
type PurgedBlob struct {
	CID  cid.Cid
	Size int64 // bytes; 0 when nobody had it
}

// PurgeStep is a step that was done.
type PurgeStep struct {
	Name    string
	At      time.Time
	Removed map[string]int64 // by what was counted
}

// The kinds of row in purged.
const (
	purgedRecord = "record"
	purgedBlob   = "blob"
)

// BeginPurge enters a purge into the log. From here on nothing with one of its
// CIDs is taken in. The sizes are filled in. ErrPurgeBlocked (the message lists
// what blocks); ErrInvalidSwap for a record that is another one by now.
func (s *Store) BeginPurge(ctx context.Context, p *Purge) error {
	// What takes long is looked at before anybody has to wait for it. What comes
	// in between, PurgeRecords and PurgeBlobs take along.
	impact, err := reader{s.db.Read}.impact(ctx, p.Records, p.Blobs, true)
	if err != nil {
		return err
	}
	if err := impact.Blocked(); err != nil {
		return err
	}
	err = s.db.Tx(ctx, func(tx *gorm.DB) error {
		for _, b := range p.Blobs {
			if _, err := lockObject(tx, b.CID); err != nil {
				return err
			}
		}
		impact, err := reader{tx}.impact(ctx, p.Records, p.Blobs, false)
		if err != nil {
			return err
		}
		if err := impact.Blocked(); err != nil {
			return err
		}
		for i := range impact.Records {
			p.Records[i] = impact.Records[i].PurgedRecord
		}
		for i := range impact.Blobs {
			p.Blobs[i] = impact.Blobs[i].PurgedBlob
		}
		return enterPurge(tx, p)
	})
	if err != nil {
		return fmt.Errorf("begin purge: %w", err)
	}
	return nil
}

// AdmitPurge enters a purge that another database of this host has in its log,
// from before a restore, and reports whether it was new. Nothing blocks it: it
// was decided.
func (s *Store) AdmitPurge(ctx context.Context, p *Purge) (fresh bool, err error) {
	err = s.db.Tx(ctx, func(tx *gorm.DB) error {
		found, err := one(tx, "SELECT 1 FROM purges WHERE id = ?", []any{string(p.ID)}, new(int))
		if err != nil || found {
			return err
		}
		fresh = true
		return enterPurge(tx, p)
	})
	if err != nil {
		return false, fmt.Errorf("admit purge %s: %w", p.ID, err)
	}
	return fresh, nil
}

func enterPurge(tx *gorm.DB, p *Purge) error {
	if err := tx.Exec("INSERT INTO purges (id, at, actor, reason) VALUES (?, ?, ?, ?)", string(p.ID), migrations.FormatTime(p.At), p.Actor, p.Reason).Error; err != nil {
		return err
	}
	for _, r := range p.Records {
		if err := enterPurged(tx, p.ID, purgedRecord, r.URI, r.CID, r.Size); err != nil {
			return err
		}
	}
	for _, b := range p.Blobs {
		if err := enterPurged(tx, p.ID, purgedBlob, "", b.CID, b.Size); err != nil {
			return err
		}
	}
	return nil
}

func enterPurged(tx *gorm.DB, id syntax.TID, kind string, uri syntax.ATURI, c cid.Cid, size int64) error {
	return tx.Exec("INSERT INTO purged (purge_id, cid, kind, uri, size) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		string(id), c.Bytes(), kind, string(uri), size).Error
}

// Purges lists the purges, the newest first, before an id ("" for the first page).
func (s *Store) Purges(ctx context.Context, before syntax.TID, limit int) ([]Purge, error) {
	if before == "" {
		before = "~" // after every TID
	}
	return s.purges(ctx, "SELECT id FROM purges WHERE id < ? ORDER BY id DESC LIMIT ?", string(before), limit)
}

// UnfinishedPurges are those without a receipt, the oldest first.
func (s *Store) UnfinishedPurges(ctx context.Context, limit int) ([]Purge, error) {
	return s.purges(ctx, `SELECT id FROM purges p WHERE NOT EXISTS (SELECT 1 FROM purge_receipts r WHERE r.purge_id = p.id) ORDER BY id LIMIT ?`, limit)
}

// GetPurge answers ErrPurgeNotFound.
func (s *Store) GetPurge(ctx context.Context, id syntax.TID) (Purge, error) {
	list, err := s.purges(ctx, "SELECT id FROM purges WHERE id = ?", string(id))
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w: %s", ErrPurgeNotFound, id)
	}
	if err != nil {
		return Purge{}, err
	}
	return list[0], nil
}

func (s *Store) purges(ctx context.Context, query string, args ...any) ([]Purge, error) {
	db := s.db.Read.WithContext(ctx)
	var list []Purge
	err := each(db, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		list = append(list, Purge{ID: syntax.TID(id)})
		return err
	}, query, args...)
	for i := range list {
		if err == nil {
			err = readPurge(db, &list[i])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read purges: %w", err)
	}
	return list, nil
}

func readPurge(db *gorm.DB, p *Purge) error {
	var at string
	if _, err := one(db, "SELECT at, actor, reason FROM purges WHERE id = ?", []any{string(p.ID)}, &at, &p.Actor, &p.Reason); err != nil {
		return err
	}
	var err error
	if p.At, err = migrations.ParseTime(at); err != nil {
		return err
	}
	err = each(db, func(rows *sql.Rows) error {
		var (
			key       []byte
			kind, uri string
			size      int64
		)
		if err := rows.Scan(&key, &kind, &uri, &size); err != nil {
			return err
		}
		c, err := castCID(key)
		if kind == purgedRecord {
			p.Records = append(p.Records, PurgedRecord{lexicons.StrongRef{URI: syntax.ATURI(uri), CID: c}, size})
		} else {
			p.Blobs = append(p.Blobs, PurgedBlob{c, size})
		}
		return err
	}, "SELECT cid, kind, uri, size FROM purged WHERE purge_id = ? ORDER BY uri, cid", string(p.ID))
	if err != nil {
		return err
	}
	err = each(db, func(rows *sql.Rows) error {
		var step PurgeStep
		var at, removed string
		if err := rows.Scan(&step.Name, &at, &removed); err != nil {
			return err
		}
		p.Steps = append(p.Steps, step)
		last := &p.Steps[len(p.Steps)-1]
		if err := json.Unmarshal([]byte(removed), &last.Removed); err != nil {
			return fmt.Errorf("%w: step %s of purge %s: %w", ErrCorrupt, step.Name, p.ID, err)
		}
		var err error
		last.At, err = migrations.ParseTime(at)
		return err
	}, "SELECT step, at, removed FROM purge_steps WHERE purge_id = ? ORDER BY step", string(p.ID))
	if err != nil {
		return err
	}
	_, err = one(db, "SELECT receipt FROM purge_receipts WHERE purge_id = ?", []any{string(p.ID)}, &p.Receipt)
	return err
}

// MarkPurgeStep notes that a step was done and what it removed; the first note stays.
func (s *Store) MarkPurgeStep(ctx context.Context, id syntax.TID, step string, removed map[string]int64) error {
	return s.markStep(s.db.Write.WithContext(ctx), id, step, removed)
}

func (s *Store) markStep(tx *gorm.DB, id syntax.TID, step string, removed map[string]int64) error {
	raw, err := json.Marshal(removed)
	if err == nil {
		err = tx.Exec("INSERT INTO purge_steps (purge_id, step, at, removed) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
			string(id), step, migrations.FormatTime(s.now()), string(raw)).Error
	}
	if err != nil {
		return fmt.Errorf("note step %s of purge %s: %w", step, id, err)
	}
	return nil
}

// CompletePurge keeps the receipt; the first one stays.
func (s *Store) CompletePurge(ctx context.Context, id syntax.TID, receipt string) error {
	err := s.db.Write.WithContext(ctx).Exec("INSERT INTO purge_receipts (purge_id, at, receipt) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
		string(id), migrations.FormatTime(s.now()), receipt).Error
	if err != nil {
		return fmt.Errorf("keep receipt of purge %s: %w", id, err)
	}
	return nil
}
