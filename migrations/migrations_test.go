package migrations_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

func TestSavepointUndoesOnlyItsPart(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		failed := errors.New("this part fails")
		err := db.Tx(t.Context(), func(tx *gorm.DB) error {
			insert := func(name string) error {
				return tx.Exec("INSERT INTO settings (name, value) VALUES (?, ?)", name, []byte("v")).Error
			}
			require.NoError(t, migrations.Savepoint(tx, func() error { return insert("kept") }))
			require.ErrorIs(t, migrations.Savepoint(tx, func() error {
				require.NoError(t, insert("undone"))
				return failed
			}), failed)
			// A failed statement aborts a Postgres transaction unless a savepoint holds it.
			require.ErrorIs(t, migrations.Savepoint(tx, func() error { return insert("kept") }), gorm.ErrDuplicatedKey)
			return insert("last")
		})
		require.NoError(t, err)
		var names []string
		require.NoError(t, db.Read.WithContext(t.Context()).Raw("SELECT name FROM settings ORDER BY name").Scan(&names).Error)
		require.Equal(t, []string{"kept", "last"}, names)
	})
}

// A connection keeps its statements: one that is still being read is not used
// a second time, many of them push out others, and a new schema renews them.
func TestStatementsAreKeptPerConnection(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		require.NoError(t, db.Tx(t.Context(), func(tx *gorm.DB) error {
			for _, name := range []string{"a", "b", "c"} {
				require.NoError(t, tx.Exec("INSERT INTO settings (name, value) VALUES (?, ?)", name, []byte(name)).Error)
			}
			return nil
		}))
		list := func(tx *gorm.DB) []string {
			var names []string
			require.NoError(t, tx.Raw("SELECT name FROM settings ORDER BY name").Scan(&names).Error)
			return names
		}
		require.NoError(t, db.Tx(t.Context(), func(tx *gorm.DB) error {
			for range 2 {
				require.Equal(t, []string{"a", "b", "c"}, list(tx))
			}
			if db.Dialect == migrations.SQLite {
				rows, err := tx.Raw("SELECT name FROM settings ORDER BY name").Rows()
				require.NoError(t, err)
				require.True(t, rows.Next())
				require.Equal(t, []string{"a", "b", "c"}, list(tx), "the same text while its rows are open")
				var first string
				require.NoError(t, rows.Scan(&first))
				require.Equal(t, "a", first)
				require.True(t, rows.Next())
				require.NoError(t, rows.Close())
			}
			for n := range 600 {
				var got int
				require.NoError(t, tx.Raw(fmt.Sprintf("SELECT %d", n)).Row().Scan(&got))
				require.Equal(t, n, got)
			}
			return tx.Exec("ALTER TABLE settings ADD COLUMN note TEXT").Error
		}))
		require.Equal(t, []string{"a", "b", "c"}, list(db.Read.WithContext(t.Context())))
		require.Equal(t, []string{"a", "b", "c"}, list(db.Write.WithContext(t.Context())))
	})
}

func TestReadSideOfSQLiteRefusesWrites(t *testing.T) {
	db := dbtest.Open(t, migrations.PDS, migrations.SQLite)
	err := db.Read.WithContext(t.Context()).Exec("INSERT INTO settings (name, value) VALUES ('a', x'00')").Error
	require.ErrorContains(t, err, "readonly")
	var journal string
	var synchronous int
	require.NoError(t, db.Write.WithContext(t.Context()).Raw("PRAGMA journal_mode").Scan(&journal).Error)
	require.NoError(t, db.Write.WithContext(t.Context()).Raw("PRAGMA synchronous").Scan(&synchronous).Error)
	require.Equal(t, "wal", journal)
	require.Equal(t, 2, synchronous, "2 is FULL: an acknowledged write survives power loss")
}

func TestPathWithReservedCharacters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hb # ? %41", "a.db")
	db, err := migrations.Open(t.Context(), migrations.PDS, "sqlite:"+path)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = os.Stat(path)
	require.NoError(t, err)
}

func TestStatusNamesEachMigration(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		steps, err := db.Status(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, steps)
		for _, step := range steps {
			require.True(t, step.Applied, step.Name)
		}
	})
}

// What asks changes nothing: not on an empty database, not on one in use, and
// no file where there is none.
func TestStatusChangesNothing(t *testing.T) {
	for _, dialect := range []migrations.Dialect{migrations.SQLite, migrations.Postgres} {
		t.Run(string(dialect), func(t *testing.T) {
			dsn := dbtest.DSN(t, dialect)
			var path string
			if dialect == migrations.SQLite {
				path = filepath.Join(t.TempDir(), "not", "there.db")
				dsn = "sqlite:" + path
			}
			for range 2 { // the second would find what the first one made
				found, err := migrations.Inspect(t.Context(), migrations.PDS, dsn)
				if dialect == migrations.SQLite {
					require.ErrorIs(t, err, migrations.ErrNoDatabase)
					require.NoDirExists(t, filepath.Dir(path))
				} else {
					require.NoError(t, err)
					require.Empty(t, tablesOf(t, dsn))
				}
				require.NotEmpty(t, found.Steps)
				for _, step := range found.Steps {
					require.False(t, step.Applied, step.Name)
				}
			}
			files := func() (names []string) {
				if dialect == migrations.SQLite {
					entries, err := os.ReadDir(filepath.Dir(path))
					require.NoError(t, err)
					for _, e := range entries {
						names = append(names, e.Name())
					}
				}
				return names
			}
			applied := func() {
				before := files()
				found, err := migrations.Inspect(t.Context(), migrations.PDS, dsn)
				require.NoError(t, err)
				for _, step := range found.Steps {
					require.True(t, step.Applied, step.Name)
				}
				require.Equal(t, before, files())
			}
			db, err := migrations.Open(t.Context(), migrations.PDS, dsn)
			require.NoError(t, err)
			applied()
			require.NoError(t, db.Close())
			applied()
		})
	}
}

// tablesOf are the tables of a Postgres database.
func tablesOf(t *testing.T, dsn string) (names []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public'")
	require.NoError(t, err)
	names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

func TestConnectionStringIsNeverRepeated(t *testing.T) {
	_, err := migrations.Open(t.Context(), migrations.PDS, "postgres://user:hunter2@[bad")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
}

// modernc.org/sqlite is validated with exactly one version of modernc.org/libc;
// go.mod replaces what minimal version selection would take.
func TestLibcIsTheOneSQLiteWasBuiltWith(t *testing.T) {
	raw, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	require.Contains(t, string(raw), "replace modernc.org/libc => modernc.org/libc v1.80.1")
	require.Contains(t, string(raw), "modernc.org/sqlite v1.62.0", "a new modernc.org/sqlite names its own libc: update both")
}
