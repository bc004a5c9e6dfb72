package repostore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/repostore"
)

func TestWritesOfOneRecord(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		first, second := note(t, "first"), note(t, "second")

		created := h.apply(did, create(tid(1), first))
		require.NotNil(t, created.Commit)
		require.Equal(t, []repostore.WriteResult{{
			URI: syntax.ATURI(fmt.Sprintf("at://%s/%s/%s", did, noteNSID, tid(1))), Action: lexicons.Create, CID: &first.CID, Changed: true,
		}}, created.Writes)
		got, err := h.GetRecord(t.Context(), did, noteNSID, syntax.RecordKey(tid(1)))
		require.NoError(t, err)
		require.Equal(t, repostore.StoredRecord{RecordKey: syntax.RecordKey(tid(1)), CID: first.CID, Rev: created.Commit.Rev, CBOR: first.CBOR}, got)
		head, err := h.Head(t.Context(), did)
		require.NoError(t, err)
		require.Equal(t, created.Commit.CID, head.Commit)
		require.Equal(t, created.Commit.Rev, head.Rev)

		require.ErrorIs(t, h.refused(did, create(tid(1), second)), repostore.ErrRecordExists)
		require.ErrorIs(t, h.refused(did, update(tid(2), second)), repostore.ErrRecordNotFound)

		updated := h.apply(did, update(tid(1), second))
		require.Equal(t, lexicons.Update, updated.Writes[0].Action)
		got, err = h.GetRecord(t.Context(), did, noteNSID, syntax.RecordKey(tid(1)))
		require.NoError(t, err)
		require.Equal(t, second.CBOR, got.CBOR)

		require.Equal(t, lexicons.Update, h.apply(did, put(tid(1), first)).Writes[0].Action)
		require.Equal(t, lexicons.Create, h.apply(did, put(tid(3), first)).Writes[0].Action)

		deleted := h.apply(did, remove(noteNSID, tid(1)))
		require.Equal(t, []repostore.WriteResult{{URI: created.Writes[0].URI, Action: lexicons.Delete, Changed: true}}, deleted.Writes)
		_, err = h.GetRecord(t.Context(), did, noteNSID, syntax.RecordKey(tid(1)))
		require.ErrorIs(t, err, repostore.ErrRecordNotFound)
		got, err = h.GetRecord(t.Context(), did, noteNSID, syntax.RecordKey(tid(3)))
		require.NoError(t, err, "another record with the same CID keeps its bytes")
		require.Equal(t, first.CBOR, got.CBOR)

		require.Len(t, h.consistent(did), 1)
	})
}

// A write that changes nothing makes no commit and no event (trap C).
func TestNoOpsMakeNoCommit(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		same := note(t, "same")
		h.apply(did, create(tid(1), same))
		events := len(h.commits(did))
		for name, writes := range map[string][]repostore.Write{
			"put of what stands":     {put(tid(1), same)},
			"update to what stands":  {update(tid(1), same)},
			"delete of nothing":      {remove(noteNSID, tid(9))},
			"delete in no such repo": {remove("com.example.never", tid(9))},
			"all of them":            {put(tid(1), same), remove(noteNSID, tid(9))},
			"no write at all":        {},
		} {
			t.Run(name, func(t *testing.T) {
				result := h.apply(did, writes...)
				require.Nil(t, result.Commit)
				for _, w := range result.Writes {
					require.False(t, w.Changed)
				}
			})
		}
		require.Len(t, h.commits(did), events)
		mixed := h.apply(did, put(tid(1), same), create(tid(2), same), remove(noteNSID, tid(9)))
		require.NotNil(t, mixed.Commit)
		require.Len(t, h.commits(did)[events].Ops, 1, "no-ops are not among the operations")
		h.consistent(did)
	})
}

func TestSwaps(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		a, b := note(t, "a"), note(t, "b")
		h.apply(did, create(tid(1), a))
		swap := func(w repostore.Write, c *cid.Cid) repostore.Write {
			w.SwapRecord = &repostore.SwapRecord{CID: c}
			return w
		}
		for name, w := range map[string]repostore.Write{
			"put over another record":    swap(put(tid(1), b), &b.CID),
			"put where none may stand":   swap(put(tid(1), b), nil),
			"put where none stands":      swap(put(tid(2), b), &a.CID),
			"delete of another record":   swap(remove(noteNSID, tid(1)), &b.CID),
			"delete where none stands":   swap(remove(noteNSID, tid(2)), &a.CID),
			"identical put, wrong swap":  swap(put(tid(1), a), &b.CID),
			"identical put, must be new": swap(put(tid(1), a), nil),
		} {
			t.Run(name, func(t *testing.T) {
				require.ErrorIs(t, h.refused(did, w), repostore.ErrInvalidSwap)
			})
		}
		h.apply(did, swap(put(tid(1), b), &a.CID))
		h.apply(did, swap(put(tid(2), a), nil))
		h.apply(did, swap(remove(noteNSID, tid(2)), &a.CID))

		head, err := h.Head(t.Context(), did)
		require.NoError(t, err)
		stale, err := h.Apply(t.Context(), did, []repostore.Write{create(tid(3), a)}, repostore.Options{SwapCommit: &a.CID})
		require.ErrorIs(t, err, repostore.ErrInvalidSwap)
		require.Nil(t, stale)
		require.Contains(t, err.Error(), head.Commit.String(), "the error names the head to swap")
		_, err = h.Apply(t.Context(), did, []repostore.Write{create(tid(3), a)}, repostore.Options{SwapCommit: &head.Commit})
		require.NoError(t, err)
		h.consistent(did)
	})
}

func TestBatchesThatFailLeaveNothing(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		big := note(t, strings.Repeat("x", 900_000))
		var many []repostore.Write
		for i := range repostore.MaxWrites + 1 {
			many = append(many, create(tid(i), note(t, "n")))
		}
		require.ErrorIs(t, h.refused(did, many...), repostore.ErrTooManyWrites)
		require.ErrorIs(t, h.refused(did, create(tid(1), big), create(tid(2), note(t, "y"+strings.Repeat("x", 900_000))), create(tid(3), note(t, "z"+strings.Repeat("x", 900_000)))), repostore.ErrCommitTooBig)
		require.ErrorIs(t, h.refused(did, create(tid(1), note(t, "a")), put(tid(1), note(t, "b"))), repostore.ErrRepeatedPath)
		require.ErrorIs(t, h.refused(did, create(tid(1), note(t, "a")), update(tid(2), note(t, "b"))), repostore.ErrRecordNotFound)
		require.ErrorIs(t, h.refused(did, create(tid(1), note(t, "a")), deletion(noteNSID, tid(2))), repostore.ErrRecordNotFound)
		_, err := h.Apply(t.Context(), "did:web:nobody.test", []repostore.Write{create(tid(1), big)}, repostore.Options{})
		require.ErrorIs(t, err, repostore.ErrRepoNotFound)
		require.Empty(t, h.consistent(did))
		h.apply(did, many[:repostore.MaxWrites]...)
		require.Len(t, h.consistent(did), repostore.MaxWrites)
	})
}

func TestListsOfRecords(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		var writes []repostore.Write
		for i := range 7 {
			writes = append(writes, create(tid(i), note(t, fmt.Sprint(i))))
		}
		// Neighbours in the order of paths: '.' and '-' come before '/', '0' after.
		for _, collection := range []syntax.NSID{"com.example.note.sub", "com.example.notes", "com.example.not"} {
			writes = append(writes, create(tid(1), record(t, collection, map[string]any{})))
		}
		h.apply(did, writes...)
		keys := func(cursor string, reverse bool, limit int) []string {
			list, err := h.ListRecords(t.Context(), did, noteNSID, syntax.RecordKey(cursor), reverse, limit)
			require.NoError(t, err)
			var rkeys []string
			for _, rec := range list {
				rkeys = append(rkeys, string(rec.RecordKey))
			}
			return rkeys
		}
		require.Equal(t, []string{tid(6), tid(5), tid(4)}, keys("", false, 3))
		require.Equal(t, []string{tid(3), tid(2)}, keys(tid(4), false, 2))
		require.Equal(t, []string{tid(0), tid(1)}, keys("", true, 2))
		require.Equal(t, []string{tid(2), tid(3), tid(4), tid(5), tid(6)}, keys(tid(1), true, 50))
		require.Len(t, keys("", false, 50), 7)
		collections, err := h.Collections(t.Context(), did)
		require.NoError(t, err)
		require.Equal(t, []syntax.NSID{"com.example.not", "com.example.note", "com.example.note.sub", "com.example.notes"}, collections)

		_, err = h.ListRecords(t.Context(), "did:web:nobody.test", noteNSID, "", false, 5)
		require.ErrorIs(t, err, repostore.ErrRepoNotFound)
		other := h.account("keeper")
		list, err := h.ListRepos(t.Context(), 0, 10)
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, did, list[0].DID)
		rest, err := h.ListRepos(t.Context(), list[0].Cursor, 10)
		require.NoError(t, err)
		require.Equal(t, other, rest[0].DID)
		head, err := h.Head(t.Context(), other)
		require.NoError(t, err)
		require.Equal(t, head, rest[0].Head)
	})
}
