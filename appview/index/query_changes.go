package index

import (
	"context"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
)

// ChangesRange is which changes are kept.
type ChangesRange struct {
	Last   int64 // seq of the last change, 0 for none
	Pruned int64 // seq of the last one that retention removed: changes are complete after it
}

// ChangesRange reads it.
func (x *Index) ChangesRange(ctx context.Context) (r ChangesRange, err error) {
	err = x.db.Read.WithContext(ctx).Raw("SELECT change_seq AS last, changes_pruned AS pruned FROM index_state WHERE id = 1").Scan(&r).Error
	if err != nil {
		return r, fmt.Errorf("read range of changes: %w", err)
	}
	return r, nil
}

// Changes returns up to limit changes with a seq greater than after, in order,
// for whoever; see Tells. Seqs rise, and are not consecutive.
func (x *Index) Changes(ctx context.Context, after int64, limit int) ([]Change, error) {
	var rows []changeRow
	err := x.db.Read.WithContext(ctx).Raw("SELECT "+changeColumns+" FROM changes WHERE seq > ? ORDER BY seq LIMIT ?", after, limit).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read changes after %d: %w", after, err)
	}
	changes := make([]Change, len(rows))
	for i := range rows {
		if changes[i], err = rows[i].export(); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// Tells decides whether a viewer is told of a change. It depends on what was
// visible when it happened: who follows hears of what goes, and nothing more of
// what is gone.
func (x *Index) Tells(ctx context.Context, v Viewer, c *Change) (bool, error) {
	switch {
	case v.Admin:
		return true, nil
	case c.hidden:
		return false, nil
	case !v.Restricted():
		return true, nil
	case c.Kind == ChangeAccount:
		return x.holdsFor(ctx, v, c.DID)
	case c.Collection != "" && !v.Sees(c.Collection):
		return false, nil
	}
	return c.needs == "" || c.needs != anyCollection && v.Sees(syntax.NSID(c.needs)), nil
}

// holdsFor tells whether a repo has a record that a restricted viewer may know
// of while the repo is active.
func (x *Index) holdsFor(ctx context.Context, v Viewer, did syntax.DID) (holds bool, err error) {
	err = x.db.Read.WithContext(ctx).Raw("SELECT EXISTS (SELECT 1 FROM records WHERE did = ? AND collection IN ? AND state IN ?)",
		did, v.Collections, live).Scan(&holds).Error
	if err != nil {
		return false, fmt.Errorf("look for records of %s: %w", did, err)
	}
	return holds, nil
}

// Changed rings when this process may have made changes. Those that another one
// made are found by looking.
func (x *Index) Changed() <-chan struct{} { return x.changed }

func (x *Index) ring() {
	select {
	case x.changed <- struct{}{}:
	default: // it rings already
	}
}

// pruneChanges is how many changes one transaction of PruneChanges removes.
const pruneChanges = 1000

// PruneChanges removes the changes that are older than keep, and returns how many.
func (x *Index) PruneChanges(ctx context.Context, keep time.Duration) (total int64, err error) {
	before := migrations.FormatTime(x.now().Add(-keep))
	for {
		var removed int64
		err := x.db.Tx(ctx, func(tx *gorm.DB) error {
			// The row that Apply locks first, as everywhere: one order of locks.
			if err := tx.Exec("UPDATE index_state SET applied = applied WHERE id = 1").Error; err != nil {
				return err
			}
			var oldest []changeRow
			if err := tx.Raw("SELECT seq, at FROM changes ORDER BY seq LIMIT ?", pruneChanges).Scan(&oldest).Error; err != nil {
				return err
			}
			upTo := int64(0)
			for _, c := range oldest {
				if c.At >= before {
					break
				}
				upTo, removed = c.Seq, removed+1
			}
			if removed == 0 {
				return nil
			}
			if err := tx.Exec("DELETE FROM changes WHERE seq <= ?", upTo).Error; err != nil {
				return err
			}
			return tx.Exec("UPDATE index_state SET changes_pruned = ? WHERE id = 1", upTo).Error
		})
		if err != nil {
			return total, fmt.Errorf("prune changes: %w", err)
		}
		if total += removed; removed < pruneChanges {
			return total, nil
		}
	}
}
