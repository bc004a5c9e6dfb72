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
	Accounts    Tally // what the accounts have, by their own counting: a blob counts for each that has it
	Live        Tally // where readers look, temporary ones included
	Trash       Tally
	Quarantined Tally
	Missing     int64     // of Live, those without bytes at their last check
	Checked     Tally     // of Live, those that were looked at since the time that was asked for
	OldestCheck time.Time // of Live; zero when one was never looked at, or there is none
}

// Storage sums up the objects, with one pass over their rows and one over the repos. checkedSince says
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
	if err == nil {
		_, err = one(s.db.Read.WithContext(ctx), "SELECT CAST(COALESCE(sum(blob_count), 0) AS BIGINT), CAST(COALESCE(sum(blob_bytes), 0) AS BIGINT) FROM repos",
			nil, &all.Accounts.Count, &all.Accounts.Bytes)
	}
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

	Quarantined int64 // of Blobs, those whose bytes are damaged and out of service
	Missing     int64 // of Blobs, those without bytes at their last check

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
// with as much, the youngest. Next is zero on the last page. It follows an index;
// that on the number of records costs each commit one more entry in a tree of one
// entry for each account.
func (s *Store) ListUsage(ctx context.Context, by UsageOrder, after UsagePosition, limit int) (list []RepoUsage, next UsagePosition, err error) {
	query, args := usageQuery(by, after, limit+1)
	err = each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) error {
		var (
			u   RepoUsage
			did string
		)
		err := rows.Scan(&u.id, &did, &u.Records, &u.Blobs, &u.BlobBytes)
		u.DID = syntax.DID(did)
		list = append(list, u)
		return err
	}, query, args...)
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
	if err := s.countDamaged(ctx, list); err != nil {
		return nil, next, fmt.Errorf("list usage: %w", err)
	}
	return list, next, nil
}

func usageQuery(by UsageOrder, after UsagePosition, limit int) (query string, args []any) {
	column := "blob_bytes"
	if by == ByRecords {
		column = "record_count"
	}
	condition := ""
	if after != (UsagePosition{}) {
		condition, args = " WHERE ("+column+", id) < (?, ?)", append(args, after.Value, after.ID)
	}
	return "SELECT id, did, record_count, blob_count, blob_bytes FROM repos" + condition + " ORDER BY " + column + " DESC, id DESC LIMIT ?", append(args, limit)
}

// damagedQuery goes from the damaged objects, which are few, to who has them.
// SQLite keeps the order of a CROSS JOIN.
const damagedQuery = `SELECT b.repo_id, CAST(sum(d.quarantined) AS BIGINT), CAST(sum(d.missing) AS BIGINT) FROM (
		SELECT cid, 1 AS quarantined, 0 AS missing FROM blob_objects WHERE state IN ('` + objectQuarantining + `', '` + objectQuarantined + `')
		UNION ALL SELECT cid, 0, 1 FROM blob_objects WHERE missing_at IS NOT NULL AND state NOT IN ('` + objectQuarantining + `', '` + objectQuarantined + `')
	) d CROSS JOIN blobs b WHERE b.cid = d.cid GROUP BY b.repo_id`

// countDamaged fills in what is damaged and missing of the accounts of a list.
func (s *Store) countDamaged(ctx context.Context, list []RepoUsage) error {
	at := make(map[int64]*RepoUsage, len(list))
	for i := range list {
		at[list[i].id] = &list[i]
	}
	return each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) error {
		var id, quarantined, missing int64
		err := rows.Scan(&id, &quarantined, &missing)
		if u := at[id]; u != nil {
			u.Quarantined, u.Missing = quarantined, missing
		}
		return err
	}, damagedQuery)
}
