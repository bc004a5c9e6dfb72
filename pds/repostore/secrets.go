package repostore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
)

// UnsearchedObject is an object that is to be searched for credentials.
type UnsearchedObject struct {
	CID     cid.Cid
	edition int // of the rules that it was searched by; 0: never
}

// UnsearchedObjects lists live objects that accounts have and that were not
// searched by an edition of the rules, those of the oldest edition first, after
// the one given (the zero value for the first page).
func (s *Store) UnsearchedObjects(ctx context.Context, edition int, after UnsearchedObject, limit int) (list []UnsearchedObject, err error) {
	key := []byte{}
	if after.CID.Defined() {
		key = after.CID.Bytes()
	}
	err = each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) error {
		var (
			o   UnsearchedObject
			key []byte
		)
		if err := rows.Scan(&key, &o.edition); err != nil {
			return err
		}
		o.CID, err = castCID(key)
		list = append(list, o)
		return err
	}, `SELECT cid, secrets_edition FROM blob_objects
		WHERE state = ? AND secrets_edition < ? AND (secrets_edition, cid) > (?, ?) AND EXISTS (SELECT 1 FROM blobs b WHERE b.cid = blob_objects.cid)
		ORDER BY secrets_edition, cid LIMIT ?`, objectLive, edition, after.edition, key, limit)
	if err != nil {
		return nil, fmt.Errorf("list objects to search: %w", err)
	}
	return list, nil
}

// BlobSecret is what a search of stored bytes found: a rule and a place, never
// the credential itself.
type BlobSecret struct {
	CID      cid.Cid
	Rule     string
	Sure     bool
	Position int64 // bytes before the first that the rule found
	FoundAt  time.Time
}

// ObjectSearched records that an object was searched by an edition of the
// rules, and what was found: for each rule the first. It answers what was not
// on record yet. What another edition found stays.
func (s *Store) ObjectSearched(ctx context.Context, c cid.Cid, edition int, found []BlobSecret) (fresh []BlobSecret, err error) {
	err = s.db.Tx(ctx, func(tx *gorm.DB) error {
		fresh = nil
		// The row, if a collection has not taken it meanwhile, is held until the end.
		searched := tx.Exec("UPDATE blob_objects SET secrets_edition = ? WHERE cid = ? AND secrets_edition < ?", edition, c.Bytes(), edition)
		if searched.Error != nil || searched.RowsAffected == 0 {
			return searched.Error
		}
		for _, f := range found {
			added := tx.Exec("INSERT INTO blob_secrets (rule, cid, sure, position, found_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
				f.Rule, c.Bytes(), asInteger(f.Sure), f.Position, migrations.FormatTime(s.now()))
			if added.Error != nil {
				return added.Error
			}
			if added.RowsAffected == 1 {
				fresh = append(fresh, f)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("record search of object %s: %w", c, err)
	}
	return fresh, nil
}

func asInteger(b bool) int {
	if b {
		return 1
	}
	return 0
}

// SecretPosition is where a list of BlobSecrets goes on. Its zero is the start.
type SecretPosition struct {
	FoundAt string `json:"t"`
	CID     []byte `json:"c"`
	Rule    string `json:"r"`
}

// ListBlobSecrets lists what searches found in objects that are on record, the
// latest first. Next is zero on the last page.
func (s *Store) ListBlobSecrets(ctx context.Context, after SecretPosition, limit int) (list []BlobSecret, next SecretPosition, err error) {
	condition, args := "", []any{}
	if after.FoundAt != "" {
		condition, args = " WHERE (found_at, cid, rule) < (?, ?, ?)", append(args, after.FoundAt, after.CID, after.Rule)
	}
	err = each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) error {
		var (
			f    BlobSecret
			key  []byte
			sure int
			at   string
		)
		if err := rows.Scan(&key, &f.Rule, &sure, &f.Position, &at); err != nil {
			return err
		}
		var err error
		if f.CID, err = castCID(key); err != nil {
			return err
		}
		f.Sure = sure == 1
		f.FoundAt, err = migrations.ParseTime(at)
		list = append(list, f)
		return err
	}, "SELECT cid, rule, sure, position, found_at FROM blob_secrets"+condition+" ORDER BY found_at DESC, cid DESC, rule DESC LIMIT ?", append(args, limit+1)...)
	if err != nil {
		return nil, next, fmt.Errorf("list secrets of blobs: %w", err)
	}
	if len(list) > limit {
		list = list[:limit]
		last := list[limit-1]
		next = SecretPosition{FoundAt: migrations.FormatTime(last.FoundAt), CID: last.CID.Bytes(), Rule: last.Rule}
	}
	return list, next, nil
}

// SecretCounts is how far the search has come.
type SecretCounts struct {
	Unsearched int64 // live objects, temporary ones included
	Blobs      int64 // objects with something that is surely a credential
}

// CountSecrets counts, with one pass over the index of what is not searched.
func (s *Store) CountSecrets(ctx context.Context, edition int) (n SecretCounts, err error) {
	_, err = one(s.db.Read.WithContext(ctx), `SELECT (SELECT count(*) FROM blob_objects WHERE state = ? AND secrets_edition < ?),
		(SELECT count(DISTINCT cid) FROM blob_secrets WHERE sure = 1)`, []any{objectLive, edition}, &n.Unsearched, &n.Blobs)
	if err != nil {
		return n, fmt.Errorf("count secrets of blobs: %w", err)
	}
	return n, nil
}
