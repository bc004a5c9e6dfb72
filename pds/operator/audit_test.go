package operator_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/operator"
)

func TestLog(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
		log, err := operator.NewLog(db, func() time.Time { return now })
		require.NoError(t, err)
		const did, other = "did:web:scout.test", "did:web:other.test"
		var ids []int64
		for i := range 5 {
			e := operator.Entry{Actor: "admin", Method: fmt.Sprintf("org.example.m%d", i%2), Input: "{}", Client: "::1", RequestID: "r"}
			if i == 1 {
				e.DID, e.Subject = did, "at://"+did+"/org.example.note/1"
			}
			id, err := log.Begin(t.Context(), e)
			require.NoError(t, err)
			ids = append(ids, id)
			now = now.Add(time.Minute)
		}
		require.NoError(t, log.Settle(t.Context(), ids[1], operator.Outcome{State: operator.Refused, Error: "InvalidRequest"}))
		require.Error(t, log.Settle(t.Context(), ids[1], operator.Outcome{State: operator.Done}), "an outcome is not replaced")
		require.NoError(t, log.Settle(t.Context(), ids[3], operator.Outcome{State: operator.Done, DID: did}))

		start := now.Add(-5 * time.Minute)
		for name, test := range map[string]struct {
			filter operator.Filter
			limit  int
			want   []int // newest first
			more   bool
		}{
			"all":            {operator.Filter{}, 10, []int{4, 3, 2, 1, 0}, false},
			"a page":         {operator.Filter{}, 2, []int{4, 3}, true},
			"the next":       {operator.Filter{Before: ids[3]}, 3, []int{2, 1, 0}, false},
			"about or made":  {operator.Filter{DID: did}, 10, []int{3, 1}, false},
			"about nobody":   {operator.Filter{DID: other}, 10, []int{}, false},
			"by method":      {operator.Filter{Method: "org.example.m1"}, 10, []int{3, 1}, false},
			"from a time on": {operator.Filter{Since: start.Add(3 * time.Minute)}, 10, []int{4, 3}, false},
			"before a time":  {operator.Filter{Until: start.Add(time.Minute)}, 10, []int{0}, false},
		} {
			t.Run(name, func(t *testing.T) {
				entries, more, err := log.List(t.Context(), test.filter, test.limit)
				require.NoError(t, err)
				require.Equal(t, test.more, more)
				got := []int{}
				for _, e := range entries {
					got = append(got, int(e.ID-ids[0]))
				}
				require.Equal(t, test.want, got)
			})
		}
		entries, _, err := log.List(t.Context(), operator.Filter{DID: did}, 10)
		require.NoError(t, err)
		require.Equal(t, operator.Outcome{State: operator.Done, DID: did}, entries[0].Outcome)
		require.Equal(t, operator.Entry{
			ID: ids[1], At: start.Add(time.Minute), Actor: "admin", Method: "org.example.m1", DID: did, Subject: "at://" + did + "/org.example.note/1",
			Input: "{}", Client: "::1", RequestID: "r", Outcome: operator.Outcome{State: operator.Refused, Error: "InvalidRequest"},
		}, entries[1])
	})
}

// The log is only added to: no statement of the program changes or removes
// what is in it.
func TestNoStatementTouchesTheLog(t *testing.T) {
	touches := regexp.MustCompile(`(?i)(UPDATE|DELETE\s+FROM|TRUNCATE|DROP\s+TABLE)\s+audit_`)
	require.True(t, touches.MatchString("delete from audit_log"))
	for _, pattern := range []string{"*.go", "../*.go", "../account/*.go", "../repostore/*.go", "../../migrations/pds/*/*.sql"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			if filepath.Base(file) == "audit_test.go" {
				continue
			}
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			require.False(t, touches.Match(raw), file)
		}
	}
}
