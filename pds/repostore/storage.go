package repostore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/migrations"
)

// Storage is what the stored bytes of all accounts amount to. Each CID counts
// once, however many accounts have it.
type Storage struct {
	Live        Tally // where readers look, temporary ones included
	Trash       Tally
	Quarantined Tally
	Missing     int64     // of Live, those without bytes at their last check
	Checked     Tally     // of Live, those that were looked at since the time that was asked for
	OldestCheck time.Time // of Live; zero when one was never looked at, or there is none
}

// Storage sums up the objects, with one pass over their rows. checkedSince says
// which checks count.
func (s *Store) Storage(ctx context.Context, checkedSince time.Time) (all Storage, err error) {
	err = each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) error {
		var (
			state, oldest string
			sum, checked  Tally
			missing       int64
		)
		if err := rows.Scan(&state, &sum.Count, &sum.Bytes, &checked.Count, &checked.Bytes, &missing, &oldest); err != nil {
			return err
		}
		switch state {
		case objectLive:
			all.Live, all.Checked, all.Missing = sum, checked, missing
			if oldest != "" {
				var err error
				all.OldestCheck, err = migrations.ParseTime(oldest)
				return err
			}
		case objectQuarantining, objectQuarantined:
			all.Quarantined.Count += sum.Count
			all.Quarantined.Bytes += sum.Bytes
		default:
			all.Trash.Count += sum.Count
			all.Trash.Bytes += sum.Bytes
		}
		return nil
	}, `SELECT state, count(*), CAST(sum(size) AS BIGINT), count(CASE WHEN checked_at >= ? THEN 1 END),
			CAST(COALESCE(sum(CASE WHEN checked_at >= ? THEN size END), 0) AS BIGINT), count(missing_at), min(checked_at)
		FROM blob_objects GROUP BY state`, migrations.FormatTime(checkedSince), migrations.FormatTime(checkedSince))
	if err != nil {
		return Storage{}, fmt.Errorf("sum up objects: %w", err)
	}
	return all, nil
}

// RepoUsage is what one account stores.
type RepoUsage struct {
	DID       syntax.DID
	Records   int64
	Blobs     int64
	BlobBytes int64 // of blobs that other accounts have too, in full

	id int64
}

// UsageOrder is by what ListUsage orders.
type UsageOrder string

// The orders of ListUsage, the most first.
const (
	ByBlobBytes UsageOrder = "blobBytes"
	ByRecords   UsageOrder = "records"
)

// UsagePosition is where a list by usage goes on. Its zero is the start.
type UsagePosition struct {
	Value int64 `json:"v"`
	ID    int64 `json:"i"` // of the repo
}

// ListUsage lists what the accounts store, those with the most first; of accounts
// with as much, the youngest. Next is zero on the last page.
//
// By blob bytes it follows an index. By records it sorts the accounts: the
// counter changes with every commit, and an index on it would cost each of them
// more than this list, which an operator asks for now and then, can save.
func (s *Store) ListUsage(ctx context.Context, by UsageOrder, after UsagePosition, limit int) (list []RepoUsage, next UsagePosition, err error) {
	column := "blob_bytes"
	if by == ByRecords {
		column = "record_count"
	}
	condition, args := "", []any{}
	if after != (UsagePosition{}) {
		condition, args = " WHERE ("+column+", id) < (?, ?)", append(args, after.Value, after.ID)
	}
	err = each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) error {
		var (
			u   RepoUsage
			did string
		)
		err := rows.Scan(&u.id, &did, &u.Records, &u.Blobs, &u.BlobBytes)
		u.DID = syntax.DID(did)
		list = append(list, u)
		return err
	}, "SELECT id, did, record_count, blob_count, blob_bytes FROM repos"+condition+" ORDER BY "+column+" DESC, id DESC LIMIT ?", append(args, limit+1)...)
	if err != nil {
		return nil, next, fmt.Errorf("list usage: %w", err)
	}
	if len(list) > limit {
		list = list[:limit]
		last := list[limit-1]
		next = UsagePosition{Value: last.BlobBytes, ID: last.id}
		if by == ByRecords {
			next.Value = last.Records
		}
	}
	return list, next, nil
}
