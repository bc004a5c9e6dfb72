package index_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// Every list walks an index in its own order: no plan sorts, none scans a
// table from end to end.
func TestListsWalkAnIndex(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		t.Run("whatever there is", func(t *testing.T) { listsWalkAnIndex(t, db, guest) })
		t.Run("what is published", func(t *testing.T) {
			listsWalkAnIndex(t, db, index.Viewer{Collections: []syntax.NSID{
				lexicons.ObservationNSID, lexicons.SessionNSID, lexicons.ClassNSID, lexicons.ChatSessionNSID, lexicons.MessageNSID,
			}})
		})
	})
}

func listsWalkAnIndex(t *testing.T, db *migrations.DB, guest index.Viewer) {
	x := newIndex(t, db)
	after := &index.Position{Key: "2026", URI: "at://x"}
	seq := &index.Position{Key: "7", URI: "at://x"}
	finding := &index.Position{Key: `["2026","a","b","c"]`, URI: "at://x"}
	for name, list := range map[string]func() error{
		"observations": func() error {
			_, err := x.ListObservations(t.Context(), guest, index.ObservationFilter{}, index.Page{After: after})
			return err
		},
		"observations, all": func() error {
			_, err := x.ListObservations(t.Context(), guest, index.ObservationFilter{AllVersions: true}, index.Page{After: after})
			return err
		},
		"observations of one": func() error {
			_, err := x.ListObservations(t.Context(), guest, index.ObservationFilter{DID: ada}, index.Page{After: after})
			return err
		},
		"observations of a source": func() error {
			_, err := x.ListObservations(t.Context(), guest, index.ObservationFilter{SourceValue: "s"}, index.Page{After: after})
			return err
		},
		"observations by a method": func() error {
			_, err := x.ListObservations(t.Context(), guest, index.ObservationFilter{Method: "m"}, index.Page{After: after})
			return err
		},
		"observations of a run": func() error {
			_, err := x.ListObservations(t.Context(), guest, index.ObservationFilter{Run: "r", AllVersions: true}, index.Page{After: after})
			return err
		},
		"sessions": func() error {
			_, err := x.ListSessions(t.Context(), guest, index.SessionFilter{}, index.Page{After: after})
			return err
		},
		"sessions of a repo": func() error {
			_, err := x.ListSessions(t.Context(), guest, index.SessionFilter{Repo: "r"}, index.Page{After: after})
			return err
		},
		"classes": func() error {
			_, err := x.ListClasses(t.Context(), guest, index.ClassFilter{}, index.Page{After: after})
			return err
		},
		"classes of one": func() error {
			_, err := x.ListClasses(t.Context(), guest, index.ClassFilter{DID: ada}, index.Page{After: after})
			return err
		},
		"conversations": func() error {
			_, err := x.ListConversations(t.Context(), guest, index.ConversationFilter{}, index.Page{After: after})
			return err
		},
		"turns": func() error {
			_, err := x.Turns(t.Context(), guest, "at://x/y/z", false, index.Page{After: after})
			return err
		},
		"turns, backwards": func() error {
			_, err := x.Turns(t.Context(), guest, "at://x/y/z", false, index.Page{After: after, Reverse: true})
			return err
		},
		"versions": func() error {
			_, err := x.Versions(t.Context(), guest, "at://x/y/z", index.Page{After: seq})
			return err
		},
		"findings": func() error {
			_, err := x.ListFindings(t.Context(), guest, index.FindingFilter{}, index.Page{After: finding})
			return err
		},
		"findings by code": func() error {
			_, err := x.ListFindings(t.Context(), guest, index.FindingFilter{Code: "c"}, index.Page{After: finding})
			return err
		},
		"findings by collection": func() error {
			_, err := x.ListFindings(t.Context(), guest, index.FindingFilter{Collection: "a.b.c"}, index.Page{After: finding})
			return err
		},
		"quarantine": func() error {
			_, err := x.ListQuarantine(t.Context(), index.QuarantineFilter{Code: "c"}, index.Page{After: after})
			return err
		},
		"quarantine of one": func() error {
			_, err := x.ListQuarantine(t.Context(), index.QuarantineFilter{DID: ada}, index.Page{After: after})
			return err
		},
		"quarantine of a collection": func() error {
			_, err := x.ListQuarantine(t.Context(), index.QuarantineFilter{Collection: "a.b.c"}, index.Page{After: after})
			return err
		},
		"repos": func() error {
			_, err := x.ListRepos(t.Context(), guest, "", index.Page{After: after})
			return err
		},
		"citations of one": func() error {
			_, err := x.CitedBy(t.Context(), guest, "at://x/y/z", index.Page{After: &index.Position{Key: `["quotes","/citations/0"]`, URI: "at://a/b/c"}})
			return err
		},
		"queue of citations": func() error { return x.RecheckCitations(t.Context(), shelf{}) },
		"references": func() error {
			_, err := x.ReferencesTo(t.Context(), guest, "at://x/y/z", index.RefCitation, index.Page{After: after})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range watched(t, db.Read, func() { require.NoError(t, list()) }) {
				plan := planOf(t, db, s)
				if strings.Contains(s.sql, "t.head AND") {
					require.Contains(t, plan, "observations_heads", "superseded ones are not walked over")
				}
				requireNoScan(t, plan)
				requireNoSort(t, plan)
			}
		})
	}
}

// statement is one that was sent to a database.
type statement struct {
	sql  string
	vars []any
	rows int64 // that it gave or changed
}

// watched are the statements that do sends through one side of a database.
func watched(t *testing.T, side *gorm.DB, do func()) []statement {
	t.Helper()
	var seen []statement
	note := func(tx *gorm.DB) {
		seen = append(seen, statement{tx.Statement.SQL.String(), tx.Statement.Vars, tx.RowsAffected})
	}
	row, raw, query := side.Callback().Row(), side.Callback().Raw(), side.Callback().Query()
	require.NoError(t, row.After("gorm:row").Register("watch", note))
	require.NoError(t, raw.After("gorm:raw").Register("watch", note))
	require.NoError(t, query.After("gorm:query").Register("watch", note))
	do()
	require.NoError(t, row.Remove("watch"))
	require.NoError(t, raw.Remove("watch"))
	require.NoError(t, query.Remove("watch"))
	require.NotEmpty(t, seen)
	return seen
}

// planOf asks a database how it answers a statement, one step a line. Postgres
// prefers to scan and sort tables as small as those of a test, so it is told
// that both are dear: what is left of them is what no index saves.
func planOf(t *testing.T, db *migrations.DB, s statement) string {
	t.Helper()
	pool, err := db.Read.DB()
	require.NoError(t, err)
	tx, err := pool.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	explain := "EXPLAIN QUERY PLAN "
	if db.Dialect == migrations.Postgres {
		explain = "EXPLAIN (COSTS OFF) "
		for _, dear := range []string{"enable_seqscan", "enable_sort", "enable_bitmapscan"} {
			_, err := tx.ExecContext(t.Context(), "SET LOCAL "+dear+" = off")
			require.NoError(t, err)
		}
	}
	rows, err := tx.QueryContext(t.Context(), explain+s.sql, s.vars...)
	require.NoError(t, err, s.sql)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	plan := s.sql + "\n"
	for rows.Next() {
		step := make([]any, len(columns)) // the last column is the text in both dialects
		for i := range step {
			step[i] = new(any)
		}
		require.NoError(t, rows.Scan(step...))
		plan += fmt.Sprintf("%s\n", *step[len(step)-1].(*any))
	}
	require.NoError(t, rows.Err())
	return plan
}

// requireNoScan checks that a plan reads no table from end to end.
func requireNoScan(t *testing.T, plan string) {
	t.Helper()
	_, steps, _ := strings.Cut(plan, "\n")
	for _, line := range strings.Split(steps, "\n") {
		require.NotContains(t, line, "Seq Scan", plan)
		if strings.HasPrefix(line, "SCAN") && !strings.HasSuffix(line, "VALUES CLAUSE") { // rows to insert are no table
			require.Contains(t, line, "USING", plan)
		}
	}
}

// requireNoSort checks that a plan gives its rows as it finds them. An
// incremental sort is none: it orders the few findings or references of one
// record, whose order an index gives.
func requireNoSort(t *testing.T, plan string) {
	t.Helper()
	_, steps, _ := strings.Cut(plan, "\n")
	require.NotContains(t, steps, "TEMP B-TREE", plan)
	require.NotRegexp(t, `(?m)(->|^) *Sort\b`, strings.ReplaceAll(steps, "Sort Key", ""), plan)
}
