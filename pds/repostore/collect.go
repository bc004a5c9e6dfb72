package repostore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
)

// Bytes moves the bytes of objects: the blob store. Each may be called again
// after it was cut off in the middle, and with nothing left to do.
type Bytes interface {
	Ward
	// Trash reads the bytes where readers look, copies them to the trash and, if
	// there were any, deletes them there: what an upload has put there since is
	// then in the trash at least. Damaged bytes would not be that: they stay, and
	// it answers ErrObjectDamaged.
	Trash(ctx context.Context, c cid.Cid) error
	// Restore puts them back, if they are in the trash and not where readers look.
	Restore(ctx context.Context, c cid.Cid) error
	// Empty deletes what is in the trash of it, and in the quarantine.
	Empty(ctx context.Context, c cid.Cid) error
}

// ErrObjectDamaged says that stored bytes are not what their CID says.
var ErrObjectDamaged = errors.New("repostore: the stored bytes are damaged")

// Collection says what to collect. All times are moments in the past.
type Collection struct {
	Abandoned time.Time // what has been nobody's since before then goes to the trash
	Trashed   time.Time // what was put into the trash, or the quarantine, before then and is nobody's is deleted
	Stalled   time.Time // whoever began to move an object before then has died over it
	DryRun    bool      // only count
}

// Tally counts what a step took.
type Tally struct {
	Count int64
	Bytes int64
}

func (t *Tally) add(size int64) { t.Count++; t.Bytes += size }

// Collected is what a collection did, or would do.
type Collected struct {
	Expired Tally // taken from accounts, for no record refers to them
	Trashed Tally // objects that no account has, moved to the trash
	Emptied Tally // deleted from the trash
	Damaged Tally // found damaged on the way to the trash, and moved to the quarantine instead
	Cleared Tally // damaged objects that no account has, deleted from the quarantine
	Revived int64 // objects that an upload claimed while they were being moved, put back
}

// collectionPage bounds what a collection holds at once.
const collectionPage = 500

// Collect takes away blobs that nobody refers to, in two cycles: to the trash,
// and, when they have lain there, out of it; damaged ones out of the quarantine. It may be cut off anywhere and run
// again, also by several processes at once.
//
// An object is never moved while an account has it: the row is marked under its
// lock when no account does, and an upload that claims it meanwhile (ClaimObject)
// takes the mark away and writes what is not there any more. The mover sees that
// when it confirms, and puts back what it took. Should it die between the two, a copy is
// in the trash, where readers find it and from where the bytes of a live object
// are not deleted before they are back in their place.
func (s *Store) Collect(ctx context.Context, bytes Bytes, c Collection) (did Collected, err error) {
	if did.Expired, err = s.expireBlobs(ctx, c.Abandoned, c.DryRun); err != nil {
		return did, fmt.Errorf("collect: expire blobs: %w", err)
	}
	if err := s.trash(ctx, bytes, c, &did); err != nil {
		return did, fmt.Errorf("collect: %w", err)
	}
	if err := s.empty(ctx, bytes, c, &did); err != nil {
		return did, fmt.Errorf("collect: %w", err)
	}
	if err := s.clear(ctx, bytes, c, &did); err != nil {
		return did, fmt.Errorf("collect: %w", err)
	}
	return did, nil
}

// expireBlobs takes from accounts the blobs that were uploaded, or lost their
// last reference, before a time and that no record refers to. The bytes stay,
// for they may be another account's too.
func (s *Store) expireBlobs(ctx context.Context, before time.Time, dryRun bool) (t Tally, err error) {
	type candidate struct {
		at     string
		repoID int64
		cid    []byte
		size   int64
		held   bool // by a record
	}
	last := candidate{cid: []byte{}}
	for {
		var page []candidate
		err := each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) error {
			var b candidate
			err := rows.Scan(&b.at, &b.repoID, &b.cid, &b.size, &b.held)
			page = append(page, b)
			return err
		}, `SELECT uploaded_at, repo_id, cid, size,
				EXISTS (SELECT 1 FROM blob_refs r WHERE r.repo_id = blobs.repo_id AND r.cid = blobs.cid)
			FROM blobs WHERE uploaded_at < ? AND (uploaded_at, repo_id, cid) > (?, ?, ?)
			ORDER BY uploaded_at, repo_id, cid LIMIT ?`,
			migrations.FormatTime(before), last.at, last.repoID, last.cid, collectionPage)
		if err != nil {
			return t, err
		}
		for _, b := range page {
			gone := !b.held
			if gone && !dryRun {
				if gone, err = s.expire(ctx, b.repoID, b.cid, before); err != nil {
					return t, err
				}
			}
			if gone {
				t.add(b.size)
			}
		}
		if len(page) < collectionPage {
			return t, nil
		}
		last = page[len(page)-1]
	}
}

// expire removes one row if nobody has come to need it.
func (s *Store) expire(ctx context.Context, repoID int64, key []byte, before time.Time) (gone bool, err error) {
	err = s.db.Tx(ctx, func(tx *gorm.DB) error {
		// Commits lock the repo first and then the blobs that they refer to; so
		// does this, and no reference comes into being between the two.
		if err := tx.Exec("UPDATE repos SET blob_count = blob_count WHERE id = ?", repoID).Error; err != nil {
			return err
		}
		var size int64
		gone, err = one(tx, `DELETE FROM blobs WHERE repo_id = ? AND cid = ? AND uploaded_at < ? AND NOT EXISTS (
			SELECT 1 FROM blob_refs r WHERE r.repo_id = blobs.repo_id AND r.cid = blobs.cid) RETURNING size`,
			[]any{repoID, key, migrations.FormatTime(before)}, &size)
		if err != nil || !gone {
			return err
		}
		return tx.Exec("UPDATE repos SET blob_count = blob_count - 1, blob_bytes = blob_bytes - ? WHERE id = ?", size, repoID).Error
	})
	return gone && err == nil, err
}

// object is a row of blob_objects, and whether an account has the blob.
type object struct {
	cid  cid.Cid
	size int64
	at   string // the time by which the list is ordered
	had  bool
}

// walkObjects goes through the objects of a state whose time (touched_at or
// changed_at) is before a moment.
func (s *Store) walkObjects(ctx context.Context, state, column string, before time.Time, visit func(object) error) error {
	last := object{}
	after := []byte{}
	for {
		var page []object
		err := each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) (err error) {
			var o object
			var key []byte
			if err = rows.Scan(&key, &o.size, &o.at, &o.had); err != nil {
				return err
			}
			o.cid, err = castCID(key)
			page = append(page, o)
			return err
		}, `SELECT cid, size, `+column+`, EXISTS (SELECT 1 FROM blobs b WHERE b.cid = blob_objects.cid)
			FROM blob_objects WHERE state = ? AND `+column+` < ? AND (`+column+`, cid) > (?, ?)
			ORDER BY `+column+`, cid LIMIT ?`, state, migrations.FormatTime(before), last.at, after, collectionPage)
		if err != nil {
			return fmt.Errorf("list %s objects: %w", state, err)
		}
		for _, o := range page {
			if err := visit(o); err != nil {
				return err
			}
		}
		if len(page) < collectionPage {
			return nil
		}
		last = page[len(page)-1]
		after = last.cid.Bytes()
	}
}

// trash moves what no account has, and ends what a dead mover began.
func (s *Store) trash(ctx context.Context, bytes Bytes, c Collection, did *Collected) error {
	move := func(o object) error {
		if c.DryRun {
			did.Trashed.add(o.size)
			return nil
		}
		moved, err := s.moveToTrash(ctx, bytes, o.cid)
		switch {
		case errors.Is(err, ErrObjectDamaged):
			did.Damaged.add(o.size)
		case err != nil:
			return err
		case moved:
			did.Trashed.add(o.size)
		default:
			did.Revived++
		}
		return nil
	}
	if err := s.walkObjects(ctx, objectTrashing, "changed_at", c.Stalled, move); err != nil {
		return err
	}
	return s.walkObjects(ctx, objectLive, "touched_at", c.Abandoned, func(o object) error {
		if o.had {
			return nil
		}
		if !c.DryRun {
			marked, err := s.turn(ctx, o.cid, objectLive, objectTrashing,
				" AND touched_at < ? AND NOT EXISTS (SELECT 1 FROM blobs b WHERE b.cid = blob_objects.cid)", migrations.FormatTime(c.Abandoned))
			if err != nil || !marked {
				return err
			}
		}
		return move(o)
	})
}

// moveToTrash moves the bytes of an object that is marked; false says that an
// upload has claimed it meanwhile and has its bytes back. ErrObjectDamaged: they
// are in the quarantine, for which nobody can claim them under way.
func (s *Store) moveToTrash(ctx context.Context, bytes Bytes, c cid.Cid) (bool, error) {
	if err := bytes.Trash(ctx, c); errors.Is(err, ErrObjectDamaged) {
		marked, turning := s.turn(ctx, c, objectTrashing, objectQuarantining, "")
		if turning != nil || !marked { // whoever claimed it brings the right bytes
			return false, turning
		}
		isolated, isolating := s.isolate(ctx, bytes, c)
		if isolating != nil || !isolated {
			return false, isolating
		}
		return false, err
	} else if err != nil {
		return false, fmt.Errorf("move object %s to the trash: %w", c, err)
	}
	confirmed, err := s.turn(ctx, c, objectTrashing, objectTrashed, "")
	if err != nil || confirmed {
		return confirmed, err
	}
	if err := bytes.Restore(ctx, c); err != nil {
		return false, fmt.Errorf("bring object %s back: %w", c, err)
	}
	return false, nil
}

// turn moves an object from one state to another under its lock, if it is in
// the first and the condition holds.
func (s *Store) turn(ctx context.Context, c cid.Cid, from, to, condition string, args ...any) (bool, error) {
	var turned bool
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		// The lock first: the condition is then judged on what others have committed.
		if _, err := lockObject(tx, c); err != nil {
			return err
		}
		result := tx.Exec("UPDATE blob_objects SET state = ?, changed_at = ? WHERE cid = ? AND state = ?"+condition,
			append([]any{to, migrations.FormatTime(s.now()), c.Bytes(), from}, args...)...)
		turned = result.RowsAffected == 1
		return result.Error
	})
	if err != nil {
		return false, fmt.Errorf("turn object %s from %s to %s: %w", c, from, to, err)
	}
	return turned, nil
}

// empty deletes what lay in the trash long enough.
func (s *Store) empty(ctx context.Context, bytes Bytes, c Collection, did *Collected) error {
	remove := func(o object) error {
		if !c.DryRun {
			if err := bytes.Empty(ctx, o.cid); err != nil {
				return fmt.Errorf("delete object %s from the trash: %w", o.cid, err)
			}
			removed := s.db.Write.WithContext(ctx).Exec("DELETE FROM blob_objects WHERE cid = ? AND state = ?", o.cid.Bytes(), objectEmptying)
			if removed.Error != nil {
				return fmt.Errorf("forget object %s: %w", o.cid, removed.Error)
			}
		}
		did.Emptied.add(o.size)
		return nil
	}
	if err := s.walkObjects(ctx, objectEmptying, "changed_at", c.Stalled, remove); err != nil {
		return err
	}
	return s.walkObjects(ctx, objectTrashed, "changed_at", c.Trashed, func(o object) error {
		if !c.DryRun {
			marked, err := s.turn(ctx, o.cid, objectTrashed, objectEmptying, "")
			if err != nil || !marked {
				return err
			}
		}
		return remove(o)
	})
}

// clear deletes damaged bytes that no account has and that people had the time to
// look at. It needs no mark: nobody reads them or puts them back, and the row goes
// only if it is still what it was. An account cannot come by such a blob but by an
// upload, which makes it live.
func (s *Store) clear(ctx context.Context, bytes Bytes, c Collection, did *Collected) error {
	return s.walkObjects(ctx, objectQuarantined, "changed_at", c.Trashed, func(o object) error {
		if o.had {
			return nil
		}
		if !c.DryRun {
			if err := bytes.Empty(ctx, o.cid); err != nil {
				return fmt.Errorf("delete object %s from the quarantine: %w", o.cid, err)
			}
			removed := s.db.Write.WithContext(ctx).Exec(`DELETE FROM blob_objects WHERE cid = ? AND state = ? AND changed_at = ?
				AND NOT EXISTS (SELECT 1 FROM blobs b WHERE b.cid = blob_objects.cid)`, o.cid.Bytes(), objectQuarantined, o.at)
			if removed.Error != nil {
				return fmt.Errorf("forget object %s: %w", o.cid, removed.Error)
			}
			if removed.RowsAffected == 0 {
				return nil
			}
		}
		did.Cleared.add(o.size)
		return nil
	})
}
