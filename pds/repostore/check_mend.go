package repostore

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"
)

// recount counts anew what the quotas count. A writer that remembers the old
// number finds another one at its commit, and prepares again (moveHead).
func (s *Store) recount(ctx context.Context, did syntax.DID) error {
	return s.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := reader{tx}.lockedRepo(ctx, did)
		if err != nil {
			return err
		}
		return tx.Exec(`UPDATE repos SET
				record_count = (SELECT count(*) FROM records WHERE repo_id = repos.id),
				blob_count = (SELECT count(*) FROM blobs WHERE repo_id = repos.id),
				blob_bytes = (SELECT CAST(COALESCE(sum(size), 0) AS BIGINT) FROM blobs WHERE repo_id = repos.id)
			WHERE id = ?`, row.id).Error
	})
}

// referAgain makes the references of a path those that its record makes, none
// for a path without a record. What has no upload here is awaited, as after an
// import. errUnsure: the record's bytes are not what its CID says.
func (s *Store) referAgain(ctx context.Context, did syntax.DID, uri string) error {
	path := pathOf(did, uri)
	var repoID int64
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := reader{tx}.lockedRepo(ctx, did)
		if err != nil {
			return err
		}
		repoID = row.id
		stands, err := reader{tx}.record(ctx, did, path)
		if err != nil {
			return err
		}
		if stands != nil && dagCBOR(stands.cbor) != stands.cid {
			return errUnsure
		}
		if err := forgetReferences(tx, row.id, path, syntax.NewTIDFromTime(s.now(), 0)); err != nil || stands == nil {
			return err
		}
		record, err := parseRow(path, stands.cbor)
		if err != nil {
			return fmt.Errorf("%w: %w", errUnsure, err)
		}
		var refs, awaited []any
		seen := make(map[cid.Cid]struct{}, len(record.Blobs))
		for _, b := range record.Blobs {
			if _, twice := seen[b.CID]; twice {
				continue
			}
			seen[b.CID] = struct{}{}
			var uploaded bool
			if _, err := one(tx, "SELECT EXISTS (SELECT 1 FROM blobs WHERE repo_id = ? AND cid = ?)", []any{row.id, b.CID.Bytes()}, &uploaded); err != nil {
				return err
			}
			into := &awaited
			if uploaded {
				into = &refs
			}
			*into = append(*into, row.id, b.CID.Bytes(), path, string(stands.rev))
		}
		if err := insertBlobRefs.run(tx, refs); err != nil {
			return err
		}
		return insertAwaited.run(tx, awaited)
	})
	if err != nil {
		return err
	}
	return s.adopt(ctx, repoID) // an upload may have come meanwhile
}
