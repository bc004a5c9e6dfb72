package migrations

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// ErrScrubBusy says that somebody read the database all the time, so that its
// write-ahead log could not be cut.
var ErrScrubBusy = errors.New("migrations: readers keep the write-ahead log")

// Bounds of Scrub.
const (
	scrubTimeout = time.Hour
	scrubTries   = 50
	scrubPause   = 100 * time.Millisecond
)

// tableName is what may be put into the text of a statement.
var tableName = regexp.MustCompile(`^[a-z_]+$`)

// Scrub makes the files forget what was deleted from the tables. Outside of any
// transaction: on SQLite it holds up writers for as long as it takes to write the
// whole database anew, and needs as much free space again.
//
// SQLite: VACUUM leaves no free page and no slack with old content, whenever and
// however that was deleted (secure_delete would only reach what is deleted while
// it is on, and would cost every write); then the write-ahead log is cut to
// nothing. The copy that it makes is a file without a name in the directory of
// the variable SQLITE_TMPDIR, else in /var/tmp or /tmp. Postgres: VACUUM of the tables takes the dead rows away; their bytes
// stay in the free part of a page until it is used again, and in its write-ahead
// log and archives for as long as those are kept.
func (db *DB) Scrub(ctx context.Context, tables ...string) error {
	ctx, cancel := context.WithTimeout(ctx, scrubTimeout)
	defer cancel()
	write := db.Write.WithContext(ctx)
	if db.Dialect == Postgres {
		for _, table := range tables {
			if !tableName.MatchString(table) {
				return fmt.Errorf("scrub database: no table is called %q", table)
			}
			if err := write.Exec("VACUUM " + table).Error; err != nil {
				return fmt.Errorf("scrub table %s: %w", table, err)
			}
		}
		return nil
	}
	if err := write.Exec("VACUUM").Error; err != nil {
		return fmt.Errorf("scrub database: %w", err)
	}
	for range scrubTries {
		var result struct{ Busy int }
		if err := write.Raw("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&result).Error; err != nil {
			return fmt.Errorf("cut the write-ahead log: %w", err)
		}
		if result.Busy == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(scrubPause):
		}
	}
	return fmt.Errorf("cut the write-ahead log: %w", ErrScrubBusy)
}
