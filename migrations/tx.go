package migrations

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// txTimeout bounds a transaction whose context has no deadline, so that a
// call that waits for the one writing connection while holding it fails
// instead of hanging.
const txTimeout = time.Minute

// Tx runs fn in one write transaction: committed when fn returns nil, rolled
// back otherwise. Inside fn only tx may be used.
func (db *DB) Tx(ctx context.Context, fn func(tx *gorm.DB) error) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, txTimeout)
		defer cancel()
	}
	return db.Write.WithContext(ctx).Transaction(fn)
}

// ReadTx runs fn in one read-only transaction: all its queries see the same
// snapshot. It may stay open as long as ctx allows; it blocks no writer.
func (db *DB) ReadTx(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return db.Read.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if db.Dialect == Postgres {
			if err := tx.Exec("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY").Error; err != nil {
				return err
			}
		}
		return fn(tx)
	})
}

// Savepoint runs fn so that its failure undoes only what fn did: the
// transaction goes on, on Postgres too. gorm's own SavePoint discards errors
// and never releases, hence this one.
func Savepoint(tx *gorm.DB, fn func() error) error {
	if err := tx.Exec("SAVEPOINT part").Error; err != nil {
		return fmt.Errorf("savepoint: %w", err)
	}
	failed := fn()
	if failed != nil {
		if err := tx.Exec("ROLLBACK TO SAVEPOINT part").Error; err != nil {
			return fmt.Errorf("roll back to savepoint: %w (after: %w)", err, failed)
		}
	}
	if err := tx.Exec("RELEASE SAVEPOINT part").Error; err != nil {
		return fmt.Errorf("release savepoint: %w", err)
	}
	return failed
}

// timeLayout sorts as text in the order of time.
const timeLayout = "2006-01-02T15:04:05.000Z"

// FormatTime writes a time the way every TEXT time column holds it: RFC 3339
// in UTC with milliseconds, so that both dialects keep, compare and sort alike.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// ParseTime reads what FormatTime wrote.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(timeLayout, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("stored time: %w", err)
	}
	return t, nil
}
