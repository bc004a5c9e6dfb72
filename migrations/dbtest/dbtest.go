package dbtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"herbarium.garden/migrations"
)

// Each runs fn once per dialect, as subtests "sqlite" and "postgres", each
// with an empty migrated database.
func Each(t *testing.T, database migrations.Database, fn func(t *testing.T, db *migrations.DB)) {
	t.Helper()
	for _, dialect := range []migrations.Dialect{migrations.SQLite, migrations.Postgres} {
		t.Run(string(dialect), func(t *testing.T) { fn(t, Open(t, database, dialect)) })
	}
}

// Open opens an empty migrated database and closes it with the test.
func Open(t testing.TB, database migrations.Database, dialect migrations.Dialect) *migrations.DB {
	t.Helper()
	db, err := migrations.Open(t.Context(), database, DSN(t, dialect))
	if err != nil {
		t.Fatalf("open %s on %s: %v", database, dialect, err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close %s on %s: %v", database, dialect, err)
		}
	})
	return db
}

var databases atomic.Int64

// DSN names an empty database, to be opened by a program under test.
func DSN(t testing.TB, dialect migrations.Dialect) string {
	t.Helper()
	if dialect == migrations.SQLite {
		return "sqlite:" + filepath.Join(t.TempDir(), "test.db")
	}
	server, err := cluster()
	if err != nil {
		t.Fatalf("start postgres (`make deps` installs Debian's): %v", err)
	}
	conn, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatalf("connect to postgres: %v", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	name := fmt.Sprintf("t%d_%d", os.Getpid(), databases.Add(1))
	if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatalf("create database: %v", err)
	}
	t.Cleanup(func() { drop(server, name) })
	return strings.Replace(server, "/postgres?", "/"+name+"?", 1)
}

// drop is best effort: the server and its files end with the test process.
func drop(server, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	_, _ = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
}
