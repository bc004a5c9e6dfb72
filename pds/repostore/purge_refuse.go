package repostore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
)

// ErrPurged is the answer to whatever would bring back what was purged.
var ErrPurged = errors.New("this was purged by the operator of this host and is not taken in again")

// CheckPurged answers ErrPurged if one of the CIDs was purged.
func (s *Store) CheckPurged(ctx context.Context, cids ...cid.Cid) error {
	return reader{s.db.Read}.checkPurged(ctx, cids)
}

// checkPurged looks up as many CIDs as one write or upload has.
func (r reader) checkPurged(ctx context.Context, cids []cid.Cid) error {
	if len(cids) == 0 {
		return nil
	}
	keys := make([][]byte, len(cids))
	for i, c := range cids {
		keys[i] = c.Bytes()
	}
	var key []byte
	found, err := one(r.db.WithContext(ctx), "SELECT cid FROM purged WHERE cid IN ? LIMIT 1", []any{keys}, &key)
	if err != nil {
		return fmt.Errorf("look for purges: %w", err)
	}
	if !found {
		return nil
	}
	c, err := castCID(key)
	if err != nil {
		return err
	}
	return &PurgedError{c}
}

// PurgedError is an ErrPurged that names what was purged.
type PurgedError struct{ CID cid.Cid }

// Error is for whoever sent it.
func (e *PurgedError) Error() string { return fmt.Sprintf("%s; leave out %s", ErrPurged, e.CID) }

// Unwrap implements errors.Is for ErrPurged.
func (e *PurgedError) Unwrap() error { return ErrPurged }

// checkWrites refuses records that were purged, or that refer to a blob that was.
func (r reader) checkWrites(ctx context.Context, writes []Write) error {
	for i := range writes {
		if err := r.checkPurged(ctx, cidsOf(writes[i].Record)); err != nil {
			return &WriteError{Index: i, Err: err}
		}
	}
	return nil
}

// cidsOf are those of a record and of the blobs that it refers to.
func cidsOf(record *lexicons.Record) []cid.Cid {
	if record == nil {
		return nil
	}
	cids := make([]cid.Cid, 0, 1+len(record.Blobs))
	cids = append(cids, record.CID)
	for _, b := range record.Blobs {
		cids = append(cids, b.CID)
	}
	return cids
}

// purgedCIDs are all that were ever purged, for whoever has as many records to
// hold against them as a repo has. An operator makes each of them by hand, so
// they are few.
func (r reader) purgedCIDs(ctx context.Context) (map[cid.Cid]bool, error) {
	purged := map[cid.Cid]bool{}
	err := each(r.db.WithContext(ctx), func(rows *sql.Rows) error {
		var key []byte
		if err := rows.Scan(&key); err != nil {
			return err
		}
		c, err := castCID(key)
		purged[c] = true
		return err
	}, "SELECT DISTINCT cid FROM purged")
	if err != nil {
		return nil, fmt.Errorf("read what was purged: %w", err)
	}
	return purged, nil
}

// refusePurged is checkPurged of one record against all of them.
func refusePurged(record *lexicons.Record, purged map[cid.Cid]bool) error {
	for _, c := range cidsOf(record) {
		if purged[c] {
			return &PurgedError{c}
		}
	}
	return nil
}
