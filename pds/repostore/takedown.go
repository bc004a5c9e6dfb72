package repostore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/migrations"
)

// Subject is a record or a blob that an operator may take down. It names a
// place, not a content: what stands at a record's path later is taken down too.
type Subject struct {
	DID syntax.DID
	key string
}

// RecordSubject is the record at a path.
func RecordSubject(did syntax.DID, collection syntax.NSID, rkey syntax.RecordKey) Subject {
	return Subject{did, string(collection) + "/" + string(rkey)}
}

// BlobSubject is a blob in the repo of did; another repo may have the same bytes.
func BlobSubject(did syntax.DID, c cid.Cid) Subject { return Subject{did, c.String()} }

// Record answers the URI of a record; false for a blob.
func (s Subject) Record() (syntax.ATURI, bool) {
	return recordURI(s.DID, s.key), strings.Contains(s.key, "/")
}

// Takedown says what was taken down and under which reference of the operator's.
type Takedown struct {
	CID cid.Cid // of the record or blob that the operator saw
	Ref string
}

// TakeDown hides a record from GetRecord and ListRecords, or a blob from
// GetBlob and from records that would refer to it. The repo stays as it was
// signed, and so do its CAR and its proofs: to stop those the account itself
// is taken down. Doing it again replaces the reference.
func (s *Store) TakeDown(ctx context.Context, subject Subject, t Takedown) error {
	err := s.db.Write.WithContext(ctx).Exec(`INSERT INTO takedowns (did, subject, cid, ref, taken_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (did, subject) DO UPDATE SET cid = excluded.cid, ref = excluded.ref, taken_at = excluded.taken_at`,
		string(subject.DID), subject.key, t.CID.String(), t.Ref, migrations.FormatTime(s.now())).Error
	if err != nil {
		return fmt.Errorf("take down %s of %s: %w", subject.key, subject.DID, err)
	}
	return nil
}

// LiftTakedown undoes TakeDown. That nothing was taken down is not an error.
func (s *Store) LiftTakedown(ctx context.Context, subject Subject) error {
	err := s.db.Write.WithContext(ctx).Exec("DELETE FROM takedowns WHERE did = ? AND subject = ?", string(subject.DID), subject.key).Error
	if err != nil {
		return fmt.Errorf("lift takedown of %s of %s: %w", subject.key, subject.DID, err)
	}
	return nil
}

// Takedown answers nil for what was not taken down.
func (s *Store) Takedown(ctx context.Context, subject Subject) (*Takedown, error) {
	var t Takedown
	var c string
	found, err := one(s.db.Read.WithContext(ctx), "SELECT cid, ref FROM takedowns WHERE did = ? AND subject = ?", []any{string(subject.DID), subject.key}, &c, &t.Ref)
	if err != nil {
		return nil, fmt.Errorf("read takedown of %s of %s: %w", subject.key, subject.DID, err)
	}
	if !found {
		return nil, nil
	}
	if t.CID, err = cid.Decode(c); err != nil {
		return nil, fmt.Errorf("%w: takedown of %s: %w", ErrCorrupt, subject.key, err)
	}
	return &t, nil
}

// TakenDown are those of subjects that were taken down, in one query over the
// key; a few hundred at most.
func (s *Store) TakenDown(ctx context.Context, subjects []Subject) (map[Subject]bool, error) {
	taken := map[Subject]bool{}
	if len(subjects) == 0 {
		return taken, nil
	}
	wanted := make(map[Subject]bool, len(subjects))
	dids, keys := make([]string, len(subjects)), make([]string, len(subjects))
	for i, subject := range subjects {
		wanted[subject] = true
		dids[i], keys[i] = string(subject.DID), subject.key
	}
	err := each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) error {
		var t Subject
		err := rows.Scan(&t.DID, &t.key)
		if wanted[t] {
			taken[t] = true
		}
		return err
	}, "SELECT did, subject FROM takedowns WHERE did IN ? AND subject IN ?", dids, keys)
	if err != nil {
		return nil, fmt.Errorf("look for takedowns: %w", err)
	}
	return taken, nil
}

// ListTakedowns lists at most limit of what is taken down, by DID and then path
// or CID, after one (the zero Subject for the first).
func (s *Store) ListTakedowns(ctx context.Context, after Subject, limit int) ([]Subject, error) {
	var list []Subject
	err := each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) error {
		var t Subject
		err := rows.Scan(&t.DID, &t.key)
		list = append(list, t)
		return err
	}, "SELECT did, subject FROM takedowns WHERE (did, subject) > (?, ?) ORDER BY did, subject LIMIT ?", string(after.DID), after.key, limit)
	if err != nil {
		return nil, fmt.Errorf("list takedowns: %w", err)
	}
	return list, nil
}
