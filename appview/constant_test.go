package appview_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// countQueries counts what a database is asked from now on.
func countQueries(t *testing.T, db *migrations.DB) *int {
	t.Helper()
	n := new(int)
	count := func(*gorm.DB) { *n++ }
	require.NoError(t, db.Read.Callback().Query().Before("*").Register("count", count))
	require.NoError(t, db.Read.Callback().Raw().Before("*").Register("count", count))
	require.NoError(t, db.Read.Callback().Row().Before("*").Register("count", count))
	return n
}

// A view takes as many queries with forty items as with two: hydration goes by
// the page, never by the item.
func TestQueriesDoNotGrowWithThePage(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		c, talk := ada.put(t, lexicons.ChatSessionNSID, string(tid(1)), object{"createdAt": written})
		s.apply(c)
		first := ""
		var prior *lexicons.StrongRef
		grow := func(from, to int) {
			for n := from; n < to; n++ {
				more := object{}
				if prior != nil {
					more["supersedes"] = ref(*prior)
				}
				c, o := ada.put(t, lexicons.ObservationNSID, string(tid(100+n)), observation(fmt.Sprintf("text %d", n), more))
				s.apply(c)
				if prior == nil {
					first = string(o.URI)
				}
				prior = &o
				c, _ = ada.put(t, lexicons.MessageNSID, string(tid(1000+n)), turn(talk, "user", "words", object{"refs": []any{ref(o)}, "mentions": []any{fmt.Sprintf("did:web:m%d.test", n)}}))
				s.apply(c)
				c, _ = ada.put(t, lexicons.SessionNSID, fmt.Sprintf("run-%d", n), session(nil))
				s.apply(c)
				c, _ = ada.put(t, lexicons.ChatSessionNSID, string(tid(2000+n)), object{"createdAt": written})
				s.apply(c)
				c, _ = ada.put(t, lexicons.ClassNSID, string(tid(3000+n)), class(fmt.Sprint(n), nil, ""))
				s.apply(c)
			}
		}
		asked := func(n *int) map[string]int {
			counts := map[string]int{}
			for name, params := range map[string][]string{
				"getObservation": {"uri", first}, "getObservationHistory": {"uri", first}, "listObservations": {"headsOnly", "false"},
				"getConversation": {"uri", string(talk.URI)}, "listConversations": {"includeEmpty", "true"},
				"listSessions": nil, "listClasses": nil, "listFindings": nil,
			} {
				*n = 0
				s.get(name, params...)
				counts[name] = *n
			}
			return counts
		}
		n := countQueries(t, db)
		grow(0, 2)
		few := asked(n)
		for name, count := range few {
			require.Positive(t, count, name)
			require.LessOrEqual(t, count, 25, name)
		}
		grow(2, 40)
		require.Equal(t, few, asked(n))
	})
}
