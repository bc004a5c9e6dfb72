package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"github.com/pressly/goose/v3"
)

// Step is one migration and whether it was applied.
type Step struct {
	Version int64
	Name    string
	Applied bool
}

// ErrNoDatabase says that there is no database file at all.
var ErrNoDatabase = errors.New("there is no database yet")

// attachUntouched opens a SQLite file so that not even the files beside it are
// made: those of the write-ahead log are there when a server is running or was
// killed, and else not needed.
func (db *DB) attachUntouched(path string) (*sql.DB, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoDatabase
	} else if err != nil {
		return nil, err
	}
	query := url.Values{"mode": {"ro"}, "_query_only": {"1"}, "_busy_timeout": {"10000"}}
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		query.Set("immutable", "1")
	}
	conn, err := sql.Open("sqlite", fileURI(path, query))
	if err != nil {
		return nil, err
	}
	db.close = append(db.close, conn.Close)
	return conn, nil
}

// Status lists the migrations of the database in order.
func (db *DB) Status(ctx context.Context) ([]Step, error) {
	conn, err := db.Read.DB()
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	steps, err := db.status(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	return steps, nil
}

// status reads goose's table by itself: goose would make it first.
func (db *DB) status(ctx context.Context, conn *sql.DB) ([]Step, error) {
	exists := "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'goose_db_version'"
	if db.Dialect == Postgres {
		exists = "SELECT COUNT(to_regclass('goose_db_version'))"
	}
	var tables int
	if err := conn.QueryRowContext(ctx, exists).Scan(&tables); err != nil {
		return nil, err
	}
	applied := map[int64]bool{}
	if tables > 0 {
		rows, err := conn.QueryContext(ctx, "SELECT version_id, is_applied FROM goose_db_version ORDER BY id")
		if err != nil {
			return nil, err
		}
		defer func() { _ = rows.Close() }() // its error is that of rows.Err
		for rows.Next() {
			var version int64
			var is bool
			if err := rows.Scan(&version, &is); err != nil {
				return nil, err
			}
			applied[version] = is // the last row of a version tells
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	return db.steps(applied)
}

func (db *DB) steps(applied map[int64]bool) ([]Step, error) {
	entries, err := fs.ReadDir(files, string(db.database)+"/"+string(db.Dialect))
	if err != nil {
		return nil, err
	}
	steps := make([]Step, len(entries))
	for i, e := range entries { // sorted by name, which begins with the version
		version, err := goose.NumericComponent(e.Name())
		if err != nil {
			return nil, err
		}
		steps[i] = Step{Version: version, Name: e.Name(), Applied: applied[version]}
	}
	return steps, nil
}
