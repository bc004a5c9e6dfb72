package index_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// A list that is walked to its end while others write shows everything that
// was there from the start exactly once, ties in the sort key included.
func TestPagesHaveNoGapAndNoRepeat(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x := newIndex(t, db)
		rapid.Check(t, func(t *rapid.T) {
			wipe(t.Context(), t, db)
			a, n := newAuthor(ada), 0
			write := func(many int) {
				var events []index.Event
				for range many {
					n++
					c, _ := a.put(t, lexicons.ObservationNSID, key(n), observation("x", nil))
					events = append(events, c)
				}
				require.NoError(t, x.Apply(t.Context(), "a", 0, events))
			}
			write(rapid.IntRange(0, 25).Draw(t, "before"))
			there, seen := n, map[string]int{}
			for page := (index.Page{Limit: rapid.IntRange(1, 9).Draw(t, "limit")}); ; {
				list, err := x.ListObservations(t.Context(), guest, index.ObservationFilter{DID: ada}, page)
				require.NoError(t, err)
				require.LessOrEqual(t, len(list.Items), page.Limit)
				for _, o := range list.Items {
					seen[o.RecordKey.String()]++
					require.NotEmpty(t, o.CBOR)
				}
				if page.After = list.Next; page.After == nil {
					break
				}
				write(rapid.IntRange(0, 2).Draw(t, "meanwhile"))
			}
			for i := range there {
				require.Equal(t, 1, seen[key(i+1)], "observation %d of %d", i+1, there)
			}
			for rkey, times := range seen {
				require.Equal(t, 1, times, rkey)
			}
		})
	})
}
