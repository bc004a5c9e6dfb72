package repostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
)

// The states of an object, the bytes of one CID. They are stored once, however
// many accounts have the blob.
const (
	objectLive     = "live"     // where readers look for it
	objectTrashing = "trashing" // nobody's: its bytes are on the way to the trash, or were when the mover died
	objectTrashed  = "trashed"  // in the trash alone
	objectEmptying = "emptying" // its bytes in the trash are being deleted

	objectQuarantining = "quarantining" // damaged: its bytes are on the way to the quarantine, or were when the mover died
	objectQuarantined  = "quarantined"  // in the quarantine alone; an upload of the right bytes makes it live
)

// ErrObjectBusy says that an object left the place where an upload has just
// confirmed it, or is leaving it for the quarantine: the upload has to be made
// again.
var ErrObjectBusy = errors.New("repostore: the stored bytes were moved during the upload")

// ClaimObject is called before the bytes of an upload are stored: from here on
// they are kept for the grace period at least, and whoever was about to move them
// away brings them back. Damaged bytes on the way to the quarantine are not
// brought back, so none can be claimed until they are there, or until who moved
// them counts as dead: ErrObjectBusy. ErrPurged.
func (s *Store) ClaimObject(ctx context.Context, c cid.Cid, size int64) error {
	if err := s.CheckPurged(ctx, c); err != nil {
		return fmt.Errorf("claim object %s: %w", c, err)
	}
	now := s.now()
	at := migrations.FormatTime(now)
	// Of bytes in quarantine none are where readers look until the upload has put
	// them there.
	claimed := s.db.Write.WithContext(ctx).Exec(`INSERT INTO blob_objects (size, cid, state, touched_at, changed_at, checked_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (cid) DO UPDATE SET touched_at = excluded.touched_at, state = excluded.state,
			changed_at = CASE WHEN blob_objects.state = excluded.state THEN blob_objects.changed_at ELSE excluded.changed_at END,
			missing_at = CASE WHEN blob_objects.state IN (?, ?) THEN excluded.changed_at ELSE blob_objects.missing_at END
		WHERE blob_objects.state <> ? OR blob_objects.changed_at < ?`,
		size, c.Bytes(), objectLive, at, at, at, objectQuarantining, objectQuarantined,
		objectQuarantining, migrations.FormatTime(now.Add(-isolationDead)))
	err := claimed.Error
	if err == nil && claimed.RowsAffected == 0 {
		err = ErrObjectBusy
	}
	if err != nil {
		return fmt.Errorf("claim object %s: %w", c, err)
	}
	return nil
}

// holdObject makes sure, inside the caller's transaction (tx), that the bytes
// of an upload, which has just written them, are where readers look, and lets
// nobody move them before it ends. ErrObjectBusy.
func holdObject(tx *gorm.DB, b Blob) error {
	var state string
	at := migrations.FormatTime(b.UploadedAt)
	held, err := one(tx, `INSERT INTO blob_objects (size, cid, state, touched_at, changed_at, checked_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (cid) DO UPDATE SET touched_at = excluded.touched_at, checked_at = excluded.checked_at, missing_at = NULL
		WHERE blob_objects.state = excluded.state RETURNING state`,
		[]any{b.Size, b.CID.Bytes(), objectLive, at, at, at}, &state)
	if err == nil && !held {
		err = ErrObjectBusy
	}
	return err
}

// lockObject answers the state of an object, "" for none, and keeps it as it is
// until the transaction (tx) ends.
func lockObject(tx *gorm.DB, c cid.Cid) (state string, err error) {
	// An update of nothing locks the row in both dialects.
	_, err = one(tx, "UPDATE blob_objects SET changed_at = changed_at WHERE cid = ? RETURNING state", []any{c.Bytes()}, &state)
	return state, err
}
