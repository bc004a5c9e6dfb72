package index_test

import (
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"pgregory.net/rapid"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// trusting draws a change of the trust groups.
func trusting(t *rapid.T, x *index.Index) {
	members := [][]syntax.DID{nil, {ada, bob}, {bob, cleo}, {ada, bob, cleo}}[rapid.IntRange(0, 3).Draw(t, "trusted")]
	if members != nil {
		require.NoError(t, x.PutTrustGroup(t.Context(), "lab", members))
	} else if err := x.DeleteTrustGroup(t.Context(), "lab"); err != nil {
		require.ErrorIs(t, err, index.ErrNotFound)
	}
}

// Whenever trust is given and taken back, what remains is what it would be had
// the last groups been there from the start, and what Reindex makes.
func TestTrustDoesNotDependOnWhenItIsGiven(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x := newIndex(t, db)
		rapid.Check(t, func(t *rapid.T) {
			authors, all := genHistories(t)
			wipe(t.Context(), t, db)
			for _, e := range weave(t, "next", authors) {
				if rapid.IntRange(0, 3).Draw(t, "change") == 0 {
					trusting(t, x)
				}
				require.NoError(t, x.Apply(t.Context(), "a", 0, []index.Event{e}))
			}
			trusting(t, x)
			want := answers(t.Context(), t, x, all)
			groups, err := x.TrustGroups(t.Context())
			require.NoError(t, err)
			require.NoError(t, x.Reindex(t.Context()))
			require.Equal(t, want, answers(t.Context(), t, x, all), "replayed from the journals")

			wipe(t.Context(), t, db)
			for _, g := range groups {
				require.NoError(t, x.PutTrustGroup(t.Context(), g.Name, g.Members))
			}
			for _, e := range authorsInTurn(authors) {
				require.NoError(t, x.Apply(t.Context(), "a", 0, []index.Event{e}))
			}
			require.Equal(t, want, answers(t.Context(), t, x, all), "trusted from the start")
		})
	})
}

// What a configuration says is taken over when it says something new; between,
// the operator's word holds.
func TestTrustGroupsAreSeeded(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x := newIndex(t, db)
		groups := func() map[string][]syntax.DID {
			list, err := x.TrustGroups(t.Context())
			require.NoError(t, err)
			out := map[string][]syntax.DID{}
			for _, g := range list {
				out[g.Name] = g.Members
			}
			return out
		}
		seed := func(groups ...index.TrustGroup) { require.NoError(t, x.SeedTrustGroups(t.Context(), groups)) }
		lab := index.TrustGroup{Name: "lab", Members: []syntax.DID{bob, ada}}
		seed(lab)
		require.Equal(t, map[string][]syntax.DID{"lab": {ada, bob}}, groups())
		require.NoError(t, x.DeleteTrustGroup(t.Context(), "lab"))
		seed(lab)
		require.Empty(t, groups(), "the configuration says nothing new")
		require.NoError(t, x.PutTrustGroup(t.Context(), "lab", []syntax.DID{ada, cleo}))
		seed(lab)
		require.Equal(t, map[string][]syntax.DID{"lab": {ada, cleo}}, groups())
		seed(index.TrustGroup{Name: "lab", Members: []syntax.DID{ada, bob, cleo}})
		require.Equal(t, map[string][]syntax.DID{"lab": {ada, bob, cleo}}, groups())
		err := x.SeedTrustGroups(t.Context(), []index.TrustGroup{
			{Name: "lab", Members: []syntax.DID{ada, bob, cleo}}, {Name: "ops", Members: []syntax.DID{ada, "did:web:d.test"}},
		})
		require.ErrorIs(t, err, index.ErrTrust)
		require.ErrorContains(t, err, "did:web:ada.test is in lab already")
		require.Len(t, groups(), 1, "nothing of it is kept")
		seed()
		require.Empty(t, groups(), "it says no longer what it said")
		var rows int64
		require.NoError(t, db.Read.WithContext(t.Context()).Raw("SELECT COUNT(*) FROM trust_journal").Scan(&rows).Error)
		require.EqualValues(t, 5, rows, "each change is journalled")
	})
}

// A change looks at the links between its members, not at those inside a repo.
func TestTrustLooksAtForeignLinksOnly(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a, b := newIndex(t, db), newAuthor(ada), newAuthor(bob)
		work := func() (rows int64) {
			for _, s := range watched(t, db.Write, func() { require.NoError(t, x.PutTrustGroup(t.Context(), "lab", []syntax.DID{ada, bob})) }) {
				rows += s.rows
				if s.rows > 0 {
					requireNoScan(t, planOf(t, db, s))
				}
			}
			require.NoError(t, x.DeleteTrustGroup(t.Context(), "lab"))
			return rows
		}
		c, first := a.put(t, lexicons.ObservationNSID, key(1), observation("x", nil))
		apply(t, x, c)
		c, _ = b.put(t, lexicons.ObservationNSID, key(1), observation("y", &first))
		apply(t, x, c)
		small := work()
		var events []index.Event
		var last *lexicons.StrongRef
		for n := range 300 {
			c, ref := a.put(t, lexicons.ObservationNSID, key(10+n), observation("z", last))
			events, last = append(events, c), &ref
		}
		require.NoError(t, x.Apply(t.Context(), "test", 0, events))
		require.NoError(t, db.Tx(t.Context(), func(tx *gorm.DB) error { return tx.Exec("ANALYZE").Error }))
		require.Equal(t, small, work())
	})
}
