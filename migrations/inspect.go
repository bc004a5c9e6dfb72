package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Inspection is what Inspect finds of a database.
type Inspection struct {
	Dialect Dialect
	Steps   []Step // all that this program knows
	Ahead   int64  // a newer version than this program knows; 0 when there is none

	// JournalMode is SQLite's, as the file has it: "wal" once it was opened for writing.
	JournalMode string
	// Durable says that a commit is on disk when it is acknowledged: on Postgres by
	// the server's settings, on SQLite by those that Open gives each connection.
	Durable bool
	// Now is the clock of a database server; zero on SQLite, which has this machine's.
	Now time.Time
}

// Missing counts the migrations that were not applied.
func (i Inspection) Missing() (n int) {
	for _, step := range i.Steps {
		if !step.Applied {
			n++
		}
	}
	return n
}

// Inspect looks at the database at dsn and changes nothing: it makes neither
// file nor folder nor table. When SQLite's file is not there it lists all
// migrations as missing, beside ErrNoDatabase.
func Inspect(ctx context.Context, database Database, dsn string) (_ Inspection, err error) {
	ctx, cancel := context.WithTimeout(ctx, poolTimeout)
	defer cancel()
	found, err := inspect(ctx, database, dsn)
	if err != nil {
		return found, fmt.Errorf("inspect %s database: %w", database, err)
	}
	return found, nil
}

func inspect(ctx context.Context, database Database, dsn string) (found Inspection, err error) {
	dialect, path, err := parseDSN(dsn)
	if err != nil {
		return found, err
	}
	found.Dialect = dialect
	db := &DB{Dialect: dialect, database: database}
	defer func() { err = errors.Join(err, db.Close()) }()
	var conn *sql.DB
	if dialect == SQLite {
		conn, err = db.attachUntouched(path)
	} else {
		conn, err = db.attachPostgres(ctx, dsn)
	}
	if errors.Is(err, ErrNoDatabase) {
		steps, listed := db.steps(nil)
		found.Steps = steps
		return found, errors.Join(err, listed)
	}
	if err != nil {
		return found, err
	}
	if found.Steps, err = db.status(ctx, conn); err != nil {
		return found, err
	}
	if found.Missing() < len(found.Steps) {
		last := found.Steps[len(found.Steps)-1].Version
		var newest int64
		if err := conn.QueryRowContext(ctx, "SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version").Scan(&newest); err != nil {
			return found, err
		}
		if newest > last {
			found.Ahead = newest
		}
	}
	if dialect == SQLite {
		found.Durable = true
		return found, conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&found.JournalMode)
	}
	var fsync, commit string
	err = conn.QueryRowContext(ctx, "SELECT current_setting('fsync'), current_setting('synchronous_commit'), clock_timestamp()").Scan(&fsync, &commit, &found.Now)
	found.Durable = fsync == "on" && commit != "off"
	return found, err
}
