package repostore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/migrations"
)

// Blob is an uploaded blob: what the bytes are, not where they lie.
type Blob struct {
	CID        cid.Cid
	MimeType   string
	Size       int64
	UploadedAt time.Time // of the last upload: the grace of an unreferenced blob counts from here
}

// AddBlob records an upload whose bytes are durable already, and answers what is
// on record of it now; UploadedAt is set here. The blob is temporary until a
// record references it; uploading it again renews its grace, and tells its type
// anew unless a record relies on the old one. ErrRepoNotFound.
func (s *Store) AddBlob(ctx context.Context, did syntax.DID, b Blob) (Blob, error) {
	b.UploadedAt = s.now()
	added, err := one(s.db.Write.WithContext(ctx), `INSERT INTO blobs (repo_id, cid, mime_type, size, uploaded_at)
		SELECT id, ?, ?, ?, ? FROM repos WHERE did = ?
		ON CONFLICT (repo_id, cid) DO UPDATE SET uploaded_at = excluded.uploaded_at, mime_type = CASE
			WHEN EXISTS (SELECT 1 FROM blob_refs r WHERE r.repo_id = blobs.repo_id AND r.cid = blobs.cid)
			THEN blobs.mime_type ELSE excluded.mime_type END
		RETURNING mime_type, size`,
		[]any{b.CID.Bytes(), b.MimeType, b.Size, migrations.FormatTime(b.UploadedAt), string(did)}, &b.MimeType, &b.Size)
	if err != nil {
		return Blob{}, fmt.Errorf("add blob %s of %s: %w", b.CID, did, err)
	}
	if !added {
		return Blob{}, fmt.Errorf("%w: %s", ErrRepoNotFound, did)
	}
	return b, nil
}

// GetBlob answers an uploaded blob and whether a record references it, without
// which it must not be served; ErrBlobNotFound, also for a DID without a repo.
func (s *Store) GetBlob(ctx context.Context, did syntax.DID, c cid.Cid) (b Blob, referenced bool, err error) {
	b.CID = c
	var at string
	found, err := one(s.db.Read.WithContext(ctx), `SELECT b.mime_type, b.size, b.uploaded_at,
		EXISTS (SELECT 1 FROM blob_refs r WHERE r.repo_id = b.repo_id AND r.cid = b.cid)
		FROM blobs b JOIN repos ON repos.id = b.repo_id WHERE repos.did = ? AND b.cid = ?`,
		[]any{string(did), c.Bytes()}, &b.MimeType, &b.Size, &at, &referenced)
	if err != nil {
		return Blob{}, false, fmt.Errorf("get blob %s of %s: %w", c, did, err)
	}
	if !found {
		return Blob{}, false, fmt.Errorf("%w: %s", ErrBlobNotFound, c)
	}
	b.UploadedAt, err = migrations.ParseTime(at)
	return b, referenced, err
}

// ListBlobs lists the CIDs of referenced blobs, in the order of their bytes,
// after cursor (cid.Undef for the first page). With since, only those that a
// record written after that rev references. ErrRepoNotFound.
func (s *Store) ListBlobs(ctx context.Context, did syntax.DID, since syntax.TID, cursor cid.Cid, limit int) ([]cid.Cid, error) {
	row, err := reader{s.db.Read}.repo(ctx, did)
	if err != nil {
		return nil, err
	}
	after := []byte{} // not nil, which would be NULL
	if cursor.Defined() {
		after = cursor.Bytes()
	}
	var list []cid.Cid
	err = each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) error {
		var key []byte
		if err := rows.Scan(&key); err != nil {
			return err
		}
		c, err := castCID(key)
		list = append(list, c)
		return err
	}, "SELECT DISTINCT cid FROM blob_refs WHERE repo_id = ? AND cid > ? AND rev > ? ORDER BY cid LIMIT ?", row.id, after, string(since), limit)
	if err != nil {
		return nil, fmt.Errorf("list blobs of %s: %w", did, err)
	}
	return list, nil
}
