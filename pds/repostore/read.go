package repostore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
)

// Head answers the repo's newest commit; ErrRepoNotFound.
func (s *Store) Head(ctx context.Context, did syntax.DID) (Head, error) {
	row, err := reader{s.db.Read}.repo(ctx, did)
	return row.Head, err
}

// RepoInfo is one row of ListRepos.
type RepoInfo struct {
	DID syntax.DID
	Head
	// Cursor continues the list after this repo.
	Cursor int64
}

// ListRepos lists repos in order of creation, after cursor (0 for the first page).
func (s *Store) ListRepos(ctx context.Context, cursor int64, limit int) ([]RepoInfo, error) {
	var list []RepoInfo
	err := each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) error {
		var (
			info       RepoInfo
			head, data []byte
			did, rev   string
			err        error
		)
		if err = rows.Scan(&info.Cursor, &did, &head, &rev, &data); err != nil {
			return err
		}
		info.DID, info.Rev = syntax.DID(did), syntax.TID(rev)
		if info.Commit, err = castCID(head); err != nil {
			return err
		}
		if info.Data, err = castCID(data); err != nil {
			return err
		}
		list = append(list, info)
		return nil
	}, "SELECT id, did, head, rev, data FROM repos WHERE id > ? ORDER BY id LIMIT ?", cursor, limit)
	if err != nil {
		return nil, fmt.Errorf("list repos: %w", err)
	}
	return list, nil
}

// StoredRecord is a record as it stands in a repo.
type StoredRecord struct {
	RecordKey syntax.RecordKey
	CID       cid.Cid
	Rev       syntax.TID // of the commit that wrote it
	CBOR      []byte
}

// GetRecord answers one record; ErrRecordNotFound, also for one that was taken
// down; ErrRepoNotFound.
func (s *Store) GetRecord(ctx context.Context, did syntax.DID, collection syntax.NSID, rkey syntax.RecordKey) (StoredRecord, error) {
	path := string(collection) + "/" + string(rkey)
	var (
		key, raw []byte
		rev      sql.NullString
	)
	found, err := one(s.db.Read.WithContext(ctx), `SELECT rec.cid, rec.rev, rec.block FROM repos
		LEFT JOIN records rec ON rec.repo_id = repos.id AND rec.path = ?
		AND NOT EXISTS (SELECT 1 FROM takedowns t WHERE t.did = repos.did AND t.subject = rec.path)
		WHERE repos.did = ?`, []any{path, string(did)}, &key, &rev, &raw)
	switch {
	case err != nil:
		return StoredRecord{}, fmt.Errorf("get record %s: %w", recordURI(did, path), err)
	case !found:
		return StoredRecord{}, fmt.Errorf("%w: %s", ErrRepoNotFound, did)
	case !rev.Valid:
		return StoredRecord{}, RecordNotFound(did, collection, rkey)
	}
	c, err := castCID(key)
	return StoredRecord{RecordKey: rkey, CID: c, Rev: syntax.TID(rev.String), CBOR: raw}, err
}

// RecordNotFound is the ErrRecordNotFound that GetRecord answers, for a caller
// that is not to know whether there is a record.
func RecordNotFound(did syntax.DID, collection syntax.NSID, rkey syntax.RecordKey) error {
	return fmt.Errorf("%w: %s", ErrRecordNotFound, recordURI(did, string(collection)+"/"+string(rkey)))
}

// ListRecords lists a collection by rkey, greatest (newest) first, or the
// other way round with reverse, after the rkey cursor ("" for the first page),
// without those that were taken down; ErrRepoNotFound.
func (s *Store) ListRecords(ctx context.Context, did syntax.DID, collection syntax.NSID, cursor syntax.RecordKey, reverse bool, limit int) ([]StoredRecord, error) {
	row, err := reader{s.db.Read}.repo(ctx, did)
	if err != nil {
		return nil, err
	}
	from, to := pathsOf(collection)
	prefix := len(from)
	query := `SELECT path, cid, rev, block FROM records WHERE repo_id = ? AND path > ? AND path < ?
		AND NOT EXISTS (SELECT 1 FROM takedowns t WHERE t.did = ? AND t.subject = records.path) ORDER BY path`
	if !reverse {
		query += " DESC"
	}
	query += " LIMIT ?"
	switch {
	case cursor == "":
	case reverse:
		from += string(cursor)
	default:
		to = from + string(cursor)
	}
	var list []StoredRecord
	err = each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) error {
		var (
			rec       StoredRecord
			path, rev string
			key       []byte
		)
		if err := rows.Scan(&path, &key, &rev, &rec.CBOR); err != nil {
			return err
		}
		rec.RecordKey, rec.Rev = syntax.RecordKey(path[prefix:]), syntax.TID(rev)
		rec.CID, err = castCID(key)
		list = append(list, rec)
		return err
	}, query, row.id, from, to, string(did), limit)
	if err != nil {
		return nil, fmt.Errorf("list records of %s in %s: %w", did, collection, err)
	}
	return list, nil
}

// Collections lists the collections that hold a record, sorted; ErrRepoNotFound.
func (s *Store) Collections(ctx context.Context, did syntax.DID) ([]syntax.NSID, error) {
	row, err := reader{s.db.Read}.repo(ctx, did)
	if err != nil {
		return nil, err
	}
	all, err := reader{s.db.Read}.collections(ctx, row.id)
	if err != nil {
		return nil, fmt.Errorf("list collections of %s: %w", did, err)
	}
	slices.Sort(all) // '.' and '-' come before the '/' of a path
	return all, nil
}
