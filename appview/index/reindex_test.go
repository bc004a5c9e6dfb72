package index_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// derivedColumns are the derived tables as they compare: all but the numbers
// of chains and branches, and with them positions, which mean nothing.
var derivedColumns = map[string]string{
	"records": "*", "refs": "*", "blob_refs": "*", "findings": "*", "observations": "*", "sessions": "*",
	"classes": "*", "skills": "*", "conversations": "*", "messages": "*",
	"chain_nodes":    "uri, cid, live, future, target_uri, target_cid, edge, forked, bereft, observed_at, indexed_at",
	"chain_branches": "main, head_uri",
	"citations":      "*", "commit_marks": "mark, 0 AS none", "search_docs": "uri, words",
}

func dump(t *testing.T, db *migrations.DB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for table, columns := range derivedColumns {
		var rows []map[string]any
		require.NoError(t, db.Read.WithContext(t.Context()).Raw("SELECT "+columns+" FROM "+table+" ORDER BY 1, 2").Scan(&rows).Error)
		lines := make([]string, len(rows))
		for i, row := range rows {
			lines[i] = fmt.Sprintln(row) // fmt prints maps in order of key
		}
		slices.Sort(lines)
		out[table] = strings.Join(lines, "")
	}
	return out
}

// play applies a little of everything.
func play(t *testing.T, x *index.Index) {
	t.Helper()
	a, b := newAuthor(ada), newAuthor(bob)
	put := func(who *author, collection string, rkey string, v map[string]any) lexicons.StrongRef {
		c, ref := who.put(t, parseNSID(collection), rkey, v)
		apply(t, x, c)
		return ref
	}
	const observed = string(lexicons.ObservationNSID)
	r1 := put(a, observed, key(1), observation("one", nil))
	r2 := put(a, observed, key(2), observation("two", &r1))
	put(a, observed, key(3), observation("three", &r2))
	put(a, observed, key(4), observation("fork", &r2))
	put(b, observed, key(5), observation("proposal", &r1))
	put(a, observed, key(1), observation("edited", nil))
	bad := observation("bad", nil)
	delete(bad, "source")
	put(a, observed, key(6), bad)
	apply(t, x, a.drop(lexicons.ObservationNSID, key(2)), a.drop(lexicons.ObservationNSID, key(4)))
	put(a, observed, key(4), observation("key used again", nil))

	put(a, string(lexicons.SessionNSID), "s", session("2026-11-30T10:00:00.000Z", "m1", "active"))
	put(a, string(lexicons.SessionNSID), "s", session("2026-11-30T11:00:00.000Z", "m2", "ended"))
	put(a, string(lexicons.SessionNSID), "gone", session("2026-11-30T11:00:00.000Z", "m2", "ended"))
	apply(t, x, a.drop(lexicons.SessionNSID, "gone"))

	chat := put(a, string(lexicons.ChatSessionNSID), key(10), map[string]any{"createdAt": "2026-11-30T09:00:00.000Z"})
	put(a, string(lexicons.MessageNSID), key(11), message(chat.URI, "user", "words to take away"))
	put(a, string(lexicons.MessageNSID), key(11), message(chat.URI, "user", "words ███ away"))
	put(a, string(lexicons.MessageNSID), key(12), message(chat.URI, "assistant", "an answer"))
	put(b, string(lexicons.MessageNSID), key(13), message(chat.URI, "user", "uninvited"))
	put(a, string(lexicons.ChatSessionNSID), key(10), map[string]any{"createdAt": "2026-11-30T09:00:00.000Z", "title": "Named"})

	skill := put(a, string(lexicons.SkillNSID), key(20), map[string]any{"name": "s", "description": "d", "content": "c", "createdAt": "x"})
	put(a, string(lexicons.ClassNSID), key(21), map[string]any{"name": "c", "description": "d", "skills": []any{strong(skill)}, "createdAt": "2026-11-30T10:00:00.000Z"})
	put(a, string(lexicons.SkillNSID), key(20), map[string]any{"name": "s", "description": "d", "content": "c2", "createdAt": "x"})

	put(b, string(lexicons.ClaimNSID), key(30), claim("one", "quotes", r1, quoting("one")))
	require.NoError(t, x.RecheckCitations(t.Context(), shelf{}))

	apply(t, x, &index.Desync{DID: bob, Reason: "a gap"}, &index.Identity{DID: ada, Handle: "ada.test"})
}

func TestReindexGivesTheSame(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x := newIndex(t, db)
		play(t, x)
		want := dump(t, db)
		for table := range derivedColumns {
			if table != "blob_refs" {
				require.NotEmpty(t, want[table], "nothing in %s to compare", table)
			}
		}
		require.NoError(t, x.Reindex(t.Context()))
		require.Equal(t, want, dump(t, db))
		repo, err := x.Repo(t.Context(), bob)
		require.NoError(t, err)
		require.Equal(t, index.SyncDesynchronized, repo.Sync, "what is no journal stays")
	})
}

// A repo whose account is gone or paused is neither waited for nor in step.
func TestStatusCountsInactiveReposApart(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a, b := newIndex(t, db), newAuthor(ada), newAuthor(bob)
		c1, _ := a.put(t, lexicons.ObservationNSID, key(1), observation("x", nil))
		c2, _ := b.put(t, lexicons.ObservationNSID, key(1), observation("y", nil))
		apply(t, x, c1, c2, &index.Identity{DID: cleo, Handle: "cleo.test"})
		for _, step := range []struct {
			event    *index.Account
			repos    map[index.SyncState]int64
			inactive int64
			pending  []syntax.DID
		}{
			{&index.Account{DID: ada, Active: true}, map[index.SyncState]int64{index.SyncSynced: 2, index.SyncPending: 1}, 0, []syntax.DID{cleo}},
			{&index.Account{DID: ada, Status: "deactivated"}, map[index.SyncState]int64{index.SyncSynced: 1, index.SyncPending: 1}, 1, []syntax.DID{cleo}},
			{&index.Account{DID: bob, Status: "deleted"}, map[index.SyncState]int64{index.SyncPending: 1}, 2, []syntax.DID{cleo}},
			{&index.Account{DID: ada, Active: true}, map[index.SyncState]int64{index.SyncSynced: 1, index.SyncPending: 1}, 1, []syntax.DID{cleo}},
			{&index.Account{DID: bob, Active: true}, map[index.SyncState]int64{index.SyncSynced: 1, index.SyncPending: 2}, 0, []syntax.DID{bob, cleo}},
		} {
			apply(t, x, step.event)
			status, err := x.Status(t.Context())
			require.NoError(t, err)
			require.Equal(t, step.repos, status.Repos)
			require.Equal(t, step.inactive, status.Inactive)
			list, err := x.ListRepos(t.Context(), index.Viewer{}, index.SyncPending, index.Page{})
			require.NoError(t, err)
			var pending []syntax.DID
			for _, r := range list.Items {
				pending = append(pending, r.DID)
			}
			require.Equal(t, step.pending, pending)
		}
	})
}

// A record that was deleted and comes back word for word has two rows in the
// journal with one CID, the first without content.
func TestReindexOfARecordThatCameBack(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		good, bad := map[string]any{"createdAt": "2026-11-30T10:00:00.000Z", "title": "again"}, map[string]any{"title": "no time"}
		var refs []lexicons.StrongRef
		for i, value := range []map[string]any{good, bad} {
			c, ref := a.put(t, lexicons.ChatSessionNSID, key(i+1), value)
			apply(t, x, c, a.drop(lexicons.ChatSessionNSID, key(i+1)))
			c, _ = a.put(t, lexicons.ChatSessionNSID, key(i+1), value)
			apply(t, x, c)
			refs = append(refs, ref)
		}
		for range 2 {
			_, err := x.Conversation(t.Context(), guest, refs[0].URI)
			require.NoError(t, err)
			_, err = x.Conversation(t.Context(), guest, refs[1].URI)
			require.ErrorIs(t, err, index.ErrNotFound)
			rec, err := x.Record(t.Context(), admin, refs[1].URI)
			require.NoError(t, err)
			require.Equal(t, index.StateQuarantined, rec.State)
			require.NoError(t, x.Reindex(t.Context()))
		}
	})
}

// A repo that is taken whole later, and one that was followed from the start,
// hold the same records; the first says that it is a baseline.
func TestResyncReplacesByDifference(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		c1, r1 := a.put(t, lexicons.ObservationNSID, key(1), observation("stays", nil))
		c2, r2 := a.put(t, lexicons.ObservationNSID, key(2), observation("goes", nil))
		c3, r3 := a.put(t, lexicons.ObservationNSID, key(3), observation("is edited", nil))
		apply(t, x, c1, c2, c3)
		a.drop(lexicons.ObservationNSID, key(2))
		_, edited := a.put(t, lexicons.ObservationNSID, key(3), observation("was edited while nobody looked", nil))
		last, r4 := a.put(t, lexicons.ObservationNSID, key(4), observation("is new", &r1))
		whole := &index.Resync{DID: ada, Rev: last.Rev, CID: last.CID, Data: last.Data, Proof: last.Proof}
		for _, op := range a.held {
			op.Action = lexicons.Create
			whole.Records = append(whole.Records, op)
		}
		apply(t, x, whole, whole)
		records, err := x.Records(t.Context(), guest, uris(r1, r2, r3, r4))
		require.NoError(t, err)
		require.Equal(t, index.StateOK, records[r1.URI].State)
		require.False(t, records[r1.URI].Baseline)
		require.Equal(t, index.StateDeleted, records[r2.URI].State)
		require.Equal(t, index.StateViolated, records[r3.URI].State)
		require.Equal(t, edited.CID, records[r3.URI].RepoCID)
		require.Equal(t, r3.CID, records[r3.URI].CID)
		require.True(t, records[r4.URI].Baseline)
		require.Equal(t, key(4), headOf(t, x, r1))
		status, err := x.Status(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 6, status.Journal, "told twice, applied once")

		back := &index.Resync{DID: ada, Rev: c1.Rev, CID: c1.CID, Data: c1.Data}
		apply(t, x, back)
		repo, err := x.Repo(t.Context(), ada)
		require.NoError(t, err)
		require.Equal(t, index.SyncDesynchronized, repo.Sync, "a repo that went back in time is not believed")
		require.Equal(t, last.Rev, repo.Rev)
	})
}
