package repostore

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// Each step down a chain is one look-up by its target. SQLite alone shows its
// plan without data; Postgres has taken the same index in all measurements.
func TestDescentLooksUpEachTarget(t *testing.T) {
	db := dbtest.Open(t, migrations.PDS, migrations.SQLite)
	plan := planOf(t, db, descentQuery, "d", "t", "d", "p", "d", 1)
	require.Contains(t, plan, "SEARCH s USING COVERING INDEX supersedes_by_target (did=? AND target=?)", plan)
	require.NotContains(t, plan, "SCAN s", plan)
}

// The accounts that store most are the end of an index, and who has damaged blobs
// is found from the few that are damaged.
func TestUsageWalksAnIndex(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		for _, by := range []UsageOrder{ByBlobBytes, ByRecords} {
			for _, after := range []UsagePosition{{}, {Value: 7, ID: 3}} {
				query, args := usageQuery(by, after, 10)
				plan := planOf(t, db, query, args...)
				require.Contains(t, plan, map[UsageOrder]string{ByBlobBytes: "repos_by_blob_bytes", ByRecords: "repos_by_records"}[by], plan)
				require.NotContains(t, plan, "TEMP B-TREE", plan)
				require.NotRegexp(t, `(?m)^ *(->)? *Sort$`, plan)
			}
		}
		plan := planOf(t, db, damagedQuery)
		require.Contains(t, plan, "blob_objects_missing", plan)
		require.NotContains(t, plan, "SCAN b\n", plan)
		require.NotContains(t, plan, "Seq Scan", plan)
	})
}

// planOf asks a database how it answers a query. Postgres, which prefers to scan
// and sort tables as small as those of a test, is told that both are dear.
func planOf(t *testing.T, db *migrations.DB, query string, args ...any) string {
	t.Helper()
	var plan []string
	require.NoError(t, db.Tx(t.Context(), func(tx *gorm.DB) error {
		explain := "EXPLAIN QUERY PLAN "
		if db.Dialect == migrations.Postgres {
			explain = "EXPLAIN (COSTS OFF) "
			require.NoError(t, tx.Exec("SET LOCAL enable_seqscan = off").Error)
			require.NoError(t, tx.Exec("SET LOCAL enable_sort = off").Error)
		}
		return each(tx, func(rows *sql.Rows) error {
			var detail string
			if db.Dialect == migrations.Postgres {
				err := rows.Scan(&detail)
				plan = append(plan, detail)
				return err
			}
			var id, parent, unused int
			err := rows.Scan(&id, &parent, &unused, &detail)
			plan = append(plan, detail)
			return err
		}, explain+query, args...)
	}))
	return strings.Join(plan, "\n")
}
