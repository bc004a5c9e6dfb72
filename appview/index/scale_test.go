package index_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// An observation more, one less inside, and finding the head of the first are
// the same statements over the same number of rows in a long chain as in a
// short one, and none scans a table.
func TestLongChainStaysFlat(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		var refs []lexicons.StrongRef
		next := func() *index.Commit {
			var last *lexicons.StrongRef
			if len(refs) > 0 {
				last = &refs[len(refs)-1]
			}
			c, ref := a.put(t, lexicons.ObservationNSID, key(len(refs)+1), observation("x", last))
			refs = append(refs, ref)
			return c
		}
		grow := func(size int) {
			var events []index.Event
			for len(refs) < size {
				events = append(events, next())
			}
			require.NoError(t, x.Apply(t.Context(), "test", 0, events))
		}
		work := func() map[string][]string {
			more, less := next(), a.drop(lexicons.ObservationNSID, key(len(refs)/2))
			var chain *index.Chain
			seen := map[string][]statement{
				"one more":           watched(t, db.Write, func() { apply(t, x, more) }),
				"one less, inside":   watched(t, db.Write, func() { apply(t, x, less) }),
				"head of the oldest": watched(t, db.Read, func() { chain, _ = x.Chain(t.Context(), guest, refs[0].URI) }),
			}
			require.NotNil(t, chain)
			require.Equal(t, refs[len(refs)-1].URI, chain.Head.URI)
			require.EqualValues(t, len(refs)-1, chain.StepsBehind)
			done := map[string][]string{}
			for name, statements := range seen {
				for _, s := range statements {
					done[name] = append(done[name], fmt.Sprintf("%d rows: %s", s.rows, s.sql))
					requireNoScan(t, planOf(t, db, s))
				}
			}
			return done
		}
		grow(20)
		short := work()
		grow(700)
		require.Equal(t, short, work())
	})
}
