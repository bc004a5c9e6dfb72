package index_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// A purged record is in no row, whether the deletion is known already, follows,
// or never came; and neither a replay nor the host brings it back.
func TestPurge(t *testing.T) {
	const secret = "marker-0f4e77aa that must not be found"
	for name, order := range map[string]struct{ before, after bool }{
		"after the deletion":   {before: true},
		"before the deletion":  {after: true},
		"without its deletion": {},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
				x, a := newIndex(t, db), newAuthor(ada)
				kept, first := a.put(t, lexicons.ObservationNSID, key(1), observation("stays", nil))
				leaked, ref := a.put(t, lexicons.ObservationNSID, key(2), observation(secret, &first))
				later, citing := a.put(t, lexicons.ObservationNSID, key(3), observation("later", &ref))
				apply(t, x, kept, leaked, later)
				other := newAuthor(bob)
				copied, _ := other.put(t, lexicons.ObservationNSID, key(2), observation(secret, &first))
				apply(t, x, copied)
				require.True(t, anyRowHas(t, db, secret), "the search can find it")
				cited, err := x.Citing(t.Context(), ref.URI, 10)
				require.NoError(t, err)
				require.Len(t, cited, 1)
				require.Equal(t, citing.URI, cited[0].URI)

				gone := a.drop(lexicons.ObservationNSID, key(2))
				if order.before {
					apply(t, x, gone)
				}
				_, err = x.Purge(t.Context(), ref.URI, []cid.Cid{ref.CID})
				require.NoError(t, err)
				if order.after {
					apply(t, x, gone)
				}
				check := func() {
					t.Helper()
					require.False(t, anyRowHas(t, db, secret))
					remains, err := x.PurgeRemains(t.Context(), ref.URI)
					require.NoError(t, err)
					require.Zero(t, remains)
					rec, err := x.Record(t.Context(), index.Viewer{Admin: true}, ref.URI)
					require.NoError(t, err)
					require.Equal(t, index.StateDeleted, rec.State)
				}
				check()
				want := dump(t, db)
				require.NoError(t, x.Reindex(t.Context()))
				require.Equal(t, want, dump(t, db))
				// The same words under another key, and a host that still has it.
				again, _ := a.put(t, lexicons.ObservationNSID, key(4), observation(secret, &first))
				apply(t, x, again)
				back := *leaked
				back.Rev = clockworkTID(1000)
				apply(t, x, &back)
				check()
				did, err := x.Purge(t.Context(), ref.URI, []cid.Cid{ref.CID})
				require.NoError(t, err)
				require.Equal(t, index.Purged{}, did)
				require.NoError(t, x.Scrub(t.Context()))
			})
		})
	}
}

// anyRowHas looks through every table for a text, in any column.
func anyRowHas(t *testing.T, db *migrations.DB, text string) bool {
	t.Helper()
	query := "SELECT name FROM sqlite_schema WHERE type = 'table'"
	if db.Dialect == migrations.Postgres {
		query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
	}
	var tables []string
	require.NoError(t, db.Read.Raw(query).Scan(&tables).Error)
	require.NotEmpty(t, tables)
	for _, table := range tables {
		var rows []map[string]any
		require.NoError(t, db.Read.Raw("SELECT * FROM "+table).Scan(&rows).Error)
		for _, row := range rows {
			for _, value := range row {
				if raw, ok := value.([]byte); ok && bytes.Contains(raw, []byte(text)) {
					return true
				}
				if bytes.Contains([]byte(fmt.Sprint(value)), []byte(text)) {
					return true
				}
			}
		}
	}
	return false
}
