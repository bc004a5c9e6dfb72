package index_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/appview/index"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// Every list walks an index in its own order: no plan sorts, none scans a
// table from end to end.
func TestListsWalkAnIndex(t *testing.T) {
	db := dbtest.Open(t, migrations.Appview, migrations.SQLite)
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
		"references": func() error {
			_, err := x.ReferencesTo(t.Context(), guest, "at://x/y/z", index.RefCitation, index.Page{After: after})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, plan := range plansOf(t, db, list) {
				if strings.Contains(plan, "t.head AND") {
					require.Contains(t, plan, "observations_heads", "superseded ones are not walked over")
				}
				require.NotContains(t, plan, "TEMP B-TREE", plan)
				for _, line := range strings.Split(plan, "\n") {
					if strings.HasPrefix(line, "SCAN") {
						require.Contains(t, line, "USING", plan)
					}
				}
			}
		})
	}
}

// plansOf asks SQLite how it answers the statements that list makes.
func plansOf(t *testing.T, db *migrations.DB, list func() error) []string {
	t.Helper()
	type statement struct {
		sql  string
		vars []any
	}
	var seen []statement
	row := db.Read.Callback().Row()
	require.NoError(t, row.After("gorm:row").Register("plans", func(tx *gorm.DB) {
		seen = append(seen, statement{tx.Statement.SQL.String(), tx.Statement.Vars})
	}))
	require.NoError(t, list())
	require.NoError(t, row.Remove("plans"))
	require.NotEmpty(t, seen)
	var plans []string
	for _, s := range seen {
		var steps []struct{ Detail string }
		require.NoError(t, db.Read.WithContext(t.Context()).Raw("EXPLAIN QUERY PLAN "+s.sql, s.vars...).Scan(&steps).Error)
		plan := s.sql + "\n"
		for _, step := range steps {
			plan += step.Detail + "\n"
		}
		plans = append(plans, plan)
	}
	return plans
}
