package migrations_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// What was deleted long before is in no file of the database any more, and
// readers go on.
func TestScrubForgetsWhatWasDeleted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pds.db")
	db, err := migrations.Open(t.Context(), migrations.PDS, "sqlite:"+path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	secret := []byte("marker-51d0a9ce that must not be found")
	for i := range 500 {
		require.NoError(t, db.Write.Exec("INSERT INTO records (repo_id, path, cid, rev, block) VALUES (?, 'a/b', x'01', 'r', ?)", i, append(bytes.Repeat([]byte{byte(i)}, i), secret...)).Error)
	}
	require.NoError(t, db.Write.Exec("DELETE FROM records WHERE repo_id <> 7").Error)
	require.NoError(t, db.Write.Exec("UPDATE records SET block = x'00'").Error)
	has := func() (found bool) {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			raw, err := os.ReadFile(path + suffix)
			require.NoError(t, err)
			found = found || bytes.Contains(raw, secret)
		}
		return found
	}
	require.True(t, has(), "the search can find it")
	require.NoError(t, db.Scrub(t.Context()))
	require.False(t, has())
	var left int
	require.NoError(t, db.Read.Raw("SELECT count(*) FROM records").Scan(&left).Error)
	require.Equal(t, 1, left)
}

func TestScrubOnEachDatabase(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		require.NoError(t, db.Scrub(t.Context(), "records", "events"))
		if db.Dialect == migrations.Postgres {
			require.Error(t, db.Scrub(t.Context(), "records; DROP TABLE events"))
		}
	})
}
