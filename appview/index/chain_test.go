package index_test

import (
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

func key(n int) string { return string(clockworkTID(n)) }

func headOf(t *testing.T, x *index.Index, ref lexicons.StrongRef) string {
	t.Helper()
	c, err := x.Chain(t.Context(), guest, ref.URI)
	require.NoError(t, err)
	if c.Head == nil {
		return ""
	}
	return c.Head.URI.RecordKey().String()
}

func TestChainGrowsAndMovesItsHead(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		c1, r1 := a.put(t, lexicons.ObservationNSID, key(1), observation("one", nil))
		c2, r2 := a.put(t, lexicons.ObservationNSID, key(2), observation("two", &r1))
		c3, r3 := a.put(t, lexicons.ObservationNSID, key(3), observation("three", &r2))
		apply(t, x, c1, c2, c3)

		chain, err := x.Chain(t.Context(), guest, r1.URI)
		require.NoError(t, err)
		require.Equal(t, r3.URI, chain.Head.URI)
		require.EqualValues(t, 2, chain.StepsBehind)
		require.EqualValues(t, 3, chain.Length)
		require.False(t, chain.Forked)
		require.Equal(t, index.EdgeExact, chain.Head.Edge)

		members, err := x.ChainMembers(t.Context(), guest, r2.URI, index.Page{Limit: 2})
		require.NoError(t, err)
		require.Len(t, members.Items, 2)
		require.Equal(t, r1.URI, members.Items[0].URI)
		members, err = x.ChainMembers(t.Context(), guest, r2.URI, index.Page{Limit: 2, After: members.Next})
		require.NoError(t, err)
		require.Nil(t, members.Next)
		require.Equal(t, r3.URI, members.Items[0].URI)

		heads, err := x.ListObservations(t.Context(), guest, index.ObservationFilter{}, index.Page{})
		require.NoError(t, err)
		require.Len(t, heads.Items, 1)
		require.Equal(t, r3.URI, heads.Items[0].URI)
		require.NotEmpty(t, heads.Items[0].CBOR)
		all, err := x.ListObservations(t.Context(), guest, index.ObservationFilter{AllVersions: true, SourceValue: "uname -a"}, index.Page{})
		require.NoError(t, err)
		require.Len(t, all.Items, 3)
	})
}

func TestDeletedMembersConnectTheirChain(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		c1, r1 := a.put(t, lexicons.ObservationNSID, key(1), observation("one", nil))
		c2, r2 := a.put(t, lexicons.ObservationNSID, key(2), observation("two", &r1))
		c3, r3 := a.put(t, lexicons.ObservationNSID, key(3), observation("three", &r2))
		apply(t, x, c1, c2, c3, a.drop(lexicons.ObservationNSID, key(2)))
		require.Equal(t, key(3), headOf(t, x, r1), "a tombstone in the middle bridges")

		apply(t, x, a.drop(lexicons.ObservationNSID, key(3)))
		require.Equal(t, key(1), headOf(t, x, r1), "the predecessor is the head again")
		found, err := x.Findings(t.Context(), guest, uris(r1))
		require.NoError(t, err)
		require.Contains(t, codes(found[r1.URI]), lexicons.CodeSuccessorDeleted)

		rec, err := x.Record(t.Context(), guest, r3.URI)
		require.NoError(t, err)
		require.Equal(t, index.StateDeleted, rec.State)
		require.Nil(t, rec.CBOR)
		versions, err := x.Versions(t.Context(), admin, r3.URI, index.Page{})
		require.NoError(t, err)
		require.Len(t, versions.Items, 2)
		for _, v := range versions.Items {
			require.Nil(t, v.CBOR, "the journal holds no content of what was deleted")
		}

		c4, r4 := a.put(t, lexicons.ObservationNSID, key(4), observation("four", &r1))
		apply(t, x, c4)
		require.Equal(t, key(4), headOf(t, x, r1), "and may be superseded again")
		found, err = x.Findings(t.Context(), guest, uris(r1, r4))
		require.NoError(t, err)
		require.NotContains(t, codes(found[r1.URI]), lexicons.CodeSuccessorDeleted)
		require.NotContains(t, codes(found[r4.URI]), lexicons.CodeForked, "only one of the two lives")
	})
}

func TestForkKeepsBothAndChoosesOne(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		c1, r1 := a.put(t, lexicons.ObservationNSID, key(1), observation("root", nil))
		c2, r2 := a.put(t, lexicons.ObservationNSID, key(2), observation("left", &r1))
		c3, r3 := a.put(t, lexicons.ObservationNSID, key(3), observation("right", &r1))
		apply(t, x, c1, c2, c3)
		chain, err := x.Chain(t.Context(), guest, r1.URI)
		require.NoError(t, err)
		require.True(t, chain.Forked)
		require.Equal(t, r3.URI, chain.Head.URI, "the greatest record key")
		require.Len(t, chain.Heads, 2)
		found, err := x.Findings(t.Context(), guest, uris(r2, r3))
		require.NoError(t, err)
		require.Contains(t, codes(found[r2.URI]), lexicons.CodeForked)
		require.Contains(t, codes(found[r3.URI]), lexicons.CodeForked)
		require.Equal(t, key(2), headOf(t, x, r2), "the other branch has a head of its own")

		apply(t, x, a.drop(lexicons.ObservationNSID, key(3)))
		chain, err = x.Chain(t.Context(), guest, r1.URI)
		require.NoError(t, err)
		require.False(t, chain.Forked)
		require.Equal(t, r2.URI, chain.Head.URI)
		found, err = x.Findings(t.Context(), guest, uris(r2))
		require.NoError(t, err)
		require.NotContains(t, codes(found[r2.URI]), lexicons.CodeForked)
	})
}

func TestForeignSupersedesIsAProposal(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a, b := newIndex(t, db), newAuthor(ada), newAuthor(bob)
		c1, r1 := a.put(t, lexicons.ObservationNSID, key(1), observation("ada's", nil))
		c2, r2 := b.put(t, lexicons.ObservationNSID, key(2), observation("bob's", &r1))
		apply(t, x, c2, c1)
		chain, err := x.Chain(t.Context(), guest, r1.URI)
		require.NoError(t, err)
		require.Equal(t, r1.URI, chain.Head.URI)
		require.Len(t, chain.Proposals, 1)
		require.Equal(t, r2.URI, chain.Proposals[0].URI)
		require.Equal(t, key(2), headOf(t, x, r2))
	})
}

func TestEditAndReuseKeepWhatWasFirstSeen(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		c1, r1 := a.put(t, lexicons.ObservationNSID, key(1), observation("first", nil))
		c2, r2 := a.put(t, lexicons.ObservationNSID, key(1), observation("edited", nil))
		apply(t, x, c1, c2)
		rec, err := x.Record(t.Context(), guest, r1.URI)
		require.NoError(t, err)
		require.Equal(t, index.StateViolated, rec.State)
		require.Equal(t, r1.CID, rec.CID)
		require.Equal(t, r2.CID, rec.RepoCID)
		found, err := x.ListFindings(t.Context(), guest, index.FindingFilter{Code: lexicons.CodeEdited}, index.Page{})
		require.NoError(t, err)
		require.Len(t, found.Items, 1)
		require.Equal(t, r2.CID, found.Items[0].CID)

		apply(t, x, a.drop(lexicons.ObservationNSID, key(1)))
		c3, _ := a.put(t, lexicons.ObservationNSID, key(1), observation("again", nil))
		apply(t, x, c3)
		rec, err = x.Record(t.Context(), guest, r1.URI)
		require.NoError(t, err)
		require.Equal(t, index.StateDeleted, rec.State)
		found, err = x.ListFindings(t.Context(), guest, index.FindingFilter{Code: lexicons.CodeRkeyReused}, index.Page{})
		require.NoError(t, err)
		require.Len(t, found.Items, 1)
		heads, err := x.ListObservations(t.Context(), guest, index.ObservationFilter{AllVersions: true}, index.Page{})
		require.NoError(t, err)
		require.Empty(t, heads.Items)
	})
}

func TestTrustGroupMakesProposalsCount(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a, b := newIndex(t, db), newAuthor(ada), newAuthor(bob)
		c1, r1 := a.put(t, lexicons.ObservationNSID, key(1), observation("ada's", nil))
		c2, r2 := b.put(t, lexicons.ObservationNSID, key(2), observation("bob's", &r1))
		apply(t, x, c2, c1)
		require.Equal(t, key(1), headOf(t, x, r1))
		require.NoError(t, x.PutTrustGroup(t.Context(), "lab", []syntax.DID{ada, bob}))
		require.Equal(t, key(2), headOf(t, x, r1))
		c3, _ := a.put(t, lexicons.ObservationNSID, key(3), observation("ada's own", &r1))
		apply(t, x, c3)
		chain, err := x.Chain(t.Context(), guest, r1.URI)
		require.NoError(t, err)
		require.True(t, chain.Forked, "beside one of the author's own it is a fork")
		require.NoError(t, x.DeleteTrustGroup(t.Context(), "lab"))
		require.Equal(t, key(3), headOf(t, x, r1))
		require.Equal(t, key(2), headOf(t, x, r2))
	})
}
