package repostore

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// Each step down a chain is one look-up by its target. SQLite alone shows its
// plan without data; Postgres has taken the same index in all measurements.
func TestDescentLooksUpEachTarget(t *testing.T) {
	db := dbtest.Open(t, migrations.PDS, migrations.SQLite)
	rows, err := db.Read.WithContext(t.Context()).Raw("EXPLAIN QUERY PLAN "+descentQuery, "d", "t", "d", "p", "d", 1).Rows()
	require.NoError(t, err)
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		plan = append(plan, detail)
	}
	require.NoError(t, rows.Err())
	require.Contains(t, plan, "SEARCH s USING COVERING INDEX supersedes_by_target (did=? AND target=?)", strings.Join(plan, "\n"))
	require.NotContains(t, strings.Join(plan, "\n"), "SCAN s", strings.Join(plan, "\n"))
}
