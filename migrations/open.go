package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/libtnb/sqlite"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

//go:embed pds appview
var files embed.FS

// Dialect is the SQL dialect of a database.
type Dialect string

// The two dialects.
const (
	SQLite   Dialect = "sqlite"
	Postgres Dialect = "postgres"
)

// Database names one of the two databases of a Herbarium; its value is the
// folder of its SQL.
type Database string

// The two databases. They never read each other's tables.
const (
	PDS     Database = "pds"
	Appview Database = "appview"
)

// DB is an open, migrated database. Write and Read are the same pool on
// Postgres. Close is safe to repeat.
type DB struct {
	Dialect Dialect
	// Write is the side for transactions. On SQLite it is ONE connection: inside
	// a transaction pass the tx on, or the call waits for itself until its
	// deadline.
	Write *gorm.DB
	// Read is the side for queries outside a transaction.
	Read *gorm.DB

	database Database
	close    []func() error
}

// poolTimeout bounds how long opening and migrating may take.
const poolTimeout = 2 * time.Minute

// Open opens the database at dsn ("sqlite:PATH" or "postgres://…") and applies
// the migrations that it lacks. Several processes may open one empty Postgres
// database at once: a session lock lets one of them migrate.
func Open(ctx context.Context, database Database, dsn string) (*DB, error) {
	ctx, cancel := context.WithTimeout(ctx, poolTimeout)
	defer cancel()
	dialect, path, err := parseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("open %s database: %w", database, err)
	}
	var db *DB
	if dialect == SQLite {
		db, err = openSQLite(ctx, database, path)
	} else {
		db, err = openPostgres(ctx, database, dsn)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s database: %w", database, err)
	}
	return db, nil
}

// parseDSN tells the dialect, and of SQLite the path.
func parseDSN(dsn string) (dialect Dialect, path string, err error) {
	path, lite := strings.CutPrefix(dsn, "sqlite:")
	switch {
	case lite && path == "":
		return "", "", errors.New("sqlite: empty path")
	case lite:
		return SQLite, path, nil
	case strings.HasPrefix(dsn, "postgres://"), strings.HasPrefix(dsn, "postgresql://"):
		return Postgres, "", nil
	}
	return "", "", errors.New("want sqlite:PATH or postgres://…")
}

// gormConfig: no hidden transaction around single statements, driver errors
// translated to gorm's (ErrDuplicatedKey on both), and no statement or value
// ever in a log. Statements are prepared once, below gorm: see statements.go.
func gormConfig() *gorm.Config {
	return &gorm.Config{
		SkipDefaultTransaction: true,
		TranslateError:         true,
		Logger:                 logger.Discard,
		NowFunc:                func() time.Time { return time.Now().UTC() },
	}
}

// readConnections is the size of SQLite's pool of readers.
const readConnections = 8

func openSQLite(ctx context.Context, database Database, path string) (*DB, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := createPrivate(path); err != nil {
		return nil, err
	}
	db := &DB{Dialect: SQLite, database: database}
	// The dialector adds no defaults when it is given a connection, so the DSN
	// carries all of them.
	common := url.Values{
		"_busy_timeout": {"10000"}, "_foreign_keys": {"on"}, "_dqs": {"0"}, "_defensive": {"1"}, "_timezone": {"UTC"},
	}
	write := url.Values{"_journal_mode": {"WAL"}, "_synchronous": {"FULL"}, "_txlock": {"immediate"}}
	read := url.Values{"mode": {"ro"}, "_query_only": {"1"}}
	var err error
	if db.Write, err = db.attachSQLite(path, common, write, 1); err != nil {
		return nil, err
	}
	if err := db.migrate(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	// The read side opens after the migrations: a read-only connection can
	// neither create the file nor switch it to WAL.
	if db.Read, err = db.attachSQLite(path, common, read, readConnections); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// createPrivate makes a new database file readable by its owner alone, whatever
// the umask and the folder are; SQLite gives the files beside it the same mode.
func createPrivate(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

func (db *DB) attachSQLite(path string, common, own url.Values, connections int) (*gorm.DB, error) {
	query := url.Values{}
	for _, set := range []url.Values{common, own} {
		for key, values := range set {
			query[key] = values
		}
	}
	conn, err := openCaching("sqlite", fileURI(path, query))
	if err != nil {
		return nil, err
	}
	conn.SetMaxOpenConns(connections)
	conn.SetMaxIdleConns(connections)
	db.close = append(db.close, conn.Close)
	g, err := gorm.Open(sqlite.New(sqlite.Config{Conn: conn}), gormConfig())
	if err != nil {
		return nil, err
	}
	return g, nil
}

// fileURI names a SQLite file: only the file: form honours mode=, and the path
// must be escaped for it.
func fileURI(path string, query url.Values) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
}

func openPostgres(ctx context.Context, database Database, dsn string) (*DB, error) {
	db := &DB{Dialect: Postgres, database: database}
	conn, err := db.attachPostgres(ctx, dsn)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	g, err := gorm.Open(postgres.New(postgres.Config{Conn: conn}), gormConfig())
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	db.Write, db.Read = g, g
	if err := db.migrate(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func (db *DB) attachPostgres(ctx context.Context, dsn string) (*sql.DB, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		// The parse error may quote the DSN, password included.
		return nil, errors.New("postgres: the connection string does not parse")
	}
	conn := stdlib.OpenDBFromPool(pool)
	db.close = append(db.close, func() error { pool.Close(); return nil }, conn.Close)
	if err := conn.PingContext(ctx); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return conn, nil
}

// Close closes the pools, the last opened first.
func (db *DB) Close() error {
	var errs []error
	for i := len(db.close) - 1; i >= 0; i-- {
		errs = append(errs, db.close[i]())
	}
	db.close = nil
	return errors.Join(errs...)
}

func (db *DB) provider() (*goose.Provider, error) {
	conn, err := db.Write.DB()
	if err != nil {
		return nil, err
	}
	sub, err := fs.Sub(files, string(db.database)+"/"+string(db.Dialect))
	if err != nil {
		return nil, err
	}
	dialect, options := goose.DialectSQLite3, []goose.ProviderOption(nil)
	if db.Dialect == Postgres {
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return nil, err
		}
		dialect, options = goose.DialectPostgres, []goose.ProviderOption{goose.WithSessionLocker(locker)}
	}
	return goose.NewProvider(dialect, conn, sub, options...)
}

func (db *DB) migrate(ctx context.Context) error {
	p, err := db.provider()
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}
