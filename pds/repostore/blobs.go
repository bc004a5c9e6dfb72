package repostore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
)

// Blob is an uploaded blob: what the bytes are, not where they lie.
type Blob struct {
	CID        cid.Cid
	MimeType   string
	Size       int64
	UploadedAt time.Time // of the last upload, or when its last record let go of it: the grace of an unreferenced blob counts from here
	// Quarantined says that the stored bytes are damaged and out of service. Set
	// by GetBlob and GetBlobOf.
	Quarantined bool
}

// AddBlob records an upload that was claimed (ClaimObject) and whose bytes are
// durable, and answers what is
// on record of it now; UploadedAt is set here. The blob is temporary until a
// record references it; uploading it again costs nothing of the quota, renews
// its grace, and tells its type anew unless a record relies on the old one.
// Records that await it reference it from then on. ErrRepoNotFound,
// QuotaExceeded, ErrObjectBusy, ErrPurged.
func (s *Store) AddBlob(ctx context.Context, did syntax.DID, b Blob, policy Policy) (Blob, error) {
	b.UploadedAt = s.now()
	var repoID int64
	err := s.db.Tx(ctx, func(tx *gorm.DB) (err error) {
		if err := holdObject(tx, b); err != nil {
			return err
		}
		// Under the lock that BeginPurge takes too.
		if err := (reader{tx}).checkPurged(ctx, []cid.Cid{b.CID}); err != nil {
			return err
		}
		repoID, err = keepBlob(tx, did, &b, policy)
		return err
	})
	if err != nil {
		return Blob{}, fmt.Errorf("add blob %s of %s: %w", b.CID, did, err)
	}
	var awaited bool
	_, err = one(s.db.Read.WithContext(ctx), "SELECT EXISTS (SELECT 1 FROM awaited_blobs WHERE repo_id = ? AND cid = ?)", []any{repoID, b.CID.Bytes()}, &awaited)
	if err == nil && awaited {
		err = s.adopt(ctx, repoID)
	}
	if err != nil {
		return Blob{}, fmt.Errorf("add blob %s of %s: %w", b.CID, did, err)
	}
	return b, nil
}

// keepBlob makes the row of an upload, or renews the one that is there, which
// b is then as that says.
func keepBlob(tx *gorm.DB, did syntax.DID, b *Blob, policy Policy) (repoID int64, err error) {
	at := migrations.FormatTime(b.UploadedAt)
	// The row first: whoever uploads the same at the same time waits here, and
	// then finds it, so that it is counted once.
	added, err := one(tx, `INSERT INTO blobs (repo_id, cid, mime_type, size, uploaded_at) SELECT id, ?, ?, ?, ? FROM repos WHERE did = ?
		ON CONFLICT (repo_id, cid) DO NOTHING RETURNING repo_id`, []any{b.CID.Bytes(), b.MimeType, b.Size, at, string(did)}, &repoID)
	switch {
	case err != nil:
		return 0, err
	case added:
		return repoID, countBlob(tx, did, b.Size, policy)
	}
	renewed, err := one(tx, `UPDATE blobs SET uploaded_at = ?, mime_type = CASE
			WHEN EXISTS (SELECT 1 FROM blob_refs r WHERE r.repo_id = blobs.repo_id AND r.cid = blobs.cid)
			THEN mime_type ELSE ? END
		WHERE cid = ? AND repo_id = (SELECT id FROM repos WHERE did = ?) RETURNING repo_id, mime_type, size`,
		[]any{at, b.MimeType, b.CID.Bytes(), string(did)}, &repoID, &b.MimeType, &b.Size)
	if err == nil && !renewed {
		err = ErrRepoNotFound
	}
	return repoID, err
}

// countBlob counts a blob that came, unless it is one too many.
func countBlob(tx *gorm.DB, did syntax.DID, size int64, policy Policy) error {
	var had int64
	counted, err := one(tx, `UPDATE repos SET blob_count = blob_count + 1, blob_bytes = blob_bytes + ? WHERE did = ? RETURNING blob_bytes - ?`,
		[]any{size, string(did), size}, &had)
	if err == nil && !counted {
		err = ErrRepoNotFound // it went away just now
	}
	if err != nil {
		return err
	}
	return policy.checkBlob(had, size)
}

// adopt makes references of what was awaited and is here now. An upload calls
// it once its blob is committed, an import once its references are: so
// whichever of the two commits last finds what the other did.
func (s *Store) adopt(ctx context.Context, repoID int64) error {
	return s.db.Tx(ctx, func(tx *gorm.DB) error {
		var refs []any
		err := each(tx, func(rows *sql.Rows) error {
			var (
				key       []byte
				path, rev string
			)
			err := rows.Scan(&key, &path, &rev)
			refs = append(refs, repoID, key, path, rev)
			return err
		}, `DELETE FROM awaited_blobs WHERE repo_id = ? AND EXISTS (
				SELECT 1 FROM blobs b WHERE b.repo_id = awaited_blobs.repo_id AND b.cid = awaited_blobs.cid)
			RETURNING cid, path, rev`, repoID)
		if err != nil {
			return fmt.Errorf("adopt awaited blobs: %w", err)
		}
		if err := insertBlobRefs.run(tx, refs); err != nil {
			return fmt.Errorf("adopt awaited blobs: %w", err)
		}
		return nil
	})
}

// MissingBlob is a blob that a record of an imported repo names and that was
// not uploaded yet.
type MissingBlob struct {
	CID       cid.Cid
	RecordURI syntax.ATURI // one of the records that name it
}

// MissingBlobs lists the awaited blobs, in the order of the bytes of their
// CIDs, after cursor (cid.Undef for the first page). ErrRepoNotFound.
func (s *Store) MissingBlobs(ctx context.Context, did syntax.DID, cursor cid.Cid, limit int) ([]MissingBlob, error) {
	row, err := reader{s.db.Read}.repo(ctx, did)
	if err != nil {
		return nil, err
	}
	after := []byte{} // not nil, which would be NULL
	if cursor.Defined() {
		after = cursor.Bytes()
	}
	var list []MissingBlob
	err = each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) error {
		var (
			key  []byte
			path string
		)
		if err := rows.Scan(&key, &path); err != nil {
			return err
		}
		c, err := castCID(key)
		list = append(list, MissingBlob{CID: c, RecordURI: recordURI(did, path)})
		return err
	}, "SELECT cid, min(path) FROM awaited_blobs WHERE repo_id = ? AND cid > ? GROUP BY cid ORDER BY cid LIMIT ?", row.id, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list missing blobs of %s: %w", did, err)
	}
	return list, nil
}

// GetBlob answers an uploaded blob and whether a record references it, without
// which it must not be served; ErrBlobNotFound, also for a DID without a repo
// and for a blob that was taken down.
func (s *Store) GetBlob(ctx context.Context, did syntax.DID, c cid.Cid) (b Blob, referenced bool, err error) {
	return s.GetBlobOf(ctx, did, c, nil)
}

// GetBlobOf is GetBlob for a reader that may know of these collections alone,
// nil for all: a reference by a record of another one does not count, nor does
// one by a record that was taken down. It asks the same of the database
// whatever there is.
func (s *Store) GetBlobOf(ctx context.Context, did syntax.DID, c cid.Cid, of []syntax.NSID) (b Blob, referenced bool, err error) {
	b.CID = c
	var at string
	counts, args := countedRefs(of)
	found, err := one(s.db.Read.WithContext(ctx), `SELECT b.mime_type, b.size, b.uploaded_at,
		EXISTS (SELECT 1 FROM blob_refs r WHERE r.repo_id = b.repo_id AND r.cid = b.cid`+counts+`),
		`+isQuarantined+`
		FROM blobs b JOIN repos ON repos.id = b.repo_id WHERE repos.did = ? AND b.cid = ?
		AND NOT EXISTS (SELECT 1 FROM takedowns t WHERE t.did = repos.did AND t.subject = ?)`,
		append(args, string(did), c.Bytes(), c.String()), &b.MimeType, &b.Size, &at, &referenced, &b.Quarantined)
	if err != nil {
		return Blob{}, false, fmt.Errorf("get blob %s of %s: %w", c, did, err)
	}
	if !found {
		return Blob{}, false, fmt.Errorf("%w: %s", ErrBlobNotFound, c)
	}
	b.UploadedAt, err = migrations.ParseTime(at)
	return b, referenced, err
}

// isQuarantined is whether the bytes of a blob b are out of service.
const isQuarantined = "EXISTS (SELECT 1 FROM blob_objects o WHERE o.cid = b.cid AND o.state IN ('" + objectQuarantining + "', '" + objectQuarantined + "'))"

// countedRefs is the condition on a reference r, beside its blob, to be by a
// live record of one of these collections; none for all collections.
func countedRefs(of []syntax.NSID) (condition string, args []any) {
	if of == nil {
		return "", nil
	}
	within := []string{"0 = 1"}
	for _, collection := range of {
		from, to := pathsOf(collection)
		within, args = append(within, "r.path > ? AND r.path < ?"), append(args, from, to)
	}
	return " AND (" + strings.Join(within, " OR ") + `)
		AND NOT EXISTS (SELECT 1 FROM takedowns t WHERE t.did = repos.did AND t.subject = r.path)`, args
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
