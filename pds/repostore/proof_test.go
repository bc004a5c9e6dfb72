package repostore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/ipld/go-car"
	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/repostore"
)

// blocksOf reads the CIDs of a CAR in order.
func blocksOf(t *testing.T, raw []byte) []cid.Cid {
	t.Helper()
	reader, err := car.NewCarReader(bytes.NewReader(raw))
	require.NoError(t, err)
	var order []cid.Cid
	for {
		b, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return order
		}
		require.NoError(t, err)
		order = append(order, b.Cid())
	}
}

// The export is the tree in depth-first pre-order, over many pages, with each
// block where a streaming reader expects it.
func TestExportIsInPreOrder(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		for batch := range 5 {
			var writes []repostore.Write
			for i := range 199 {
				n := batch*199 + i
				writes = append(writes, create(tid(n), note(t, fmt.Sprint(n))))
			}
			writes = append(writes, create(tid(batch), record(t, syntax.NSID("com.example.note.sub"), map[string]any{"n": batch})))
			h.apply(did, writes...)
		}
		held := h.consistent(did)
		require.Len(t, held, 1000)
		var exported bytes.Buffer
		require.NoError(t, h.ExportCAR(t.Context(), did, "", &exported))

		commit, loaded, err := repo.LoadRepoFromCAR(t.Context(), bytes.NewReader(exported.Bytes()))
		require.NoError(t, err)
		_, root, err := repo.LoadCommitFromCAR(t.Context(), bytes.NewReader(exported.Bytes()))
		require.NoError(t, err)
		want := []cid.Cid{*root}
		var walk func(n *mst.Node)
		walk = func(n *mst.Node) {
			want = append(want, *n.CID)
			for _, e := range n.Entries {
				if e.IsValue() {
					want = append(want, *e.Value)
				} else {
					walk(e.Child)
				}
			}
		}
		walk(loaded.MST.Root)
		require.Equal(t, commit.Data, want[1])
		require.Equal(t, want, blocksOf(t, exported.Bytes()))
	})
}

// With since, the CAR has what came after that rev: enough, with the older
// export, for the whole.
func TestExportSince(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		var writes []repostore.Write
		for i := range 100 {
			writes = append(writes, create(tid(i), note(t, fmt.Sprint(i))))
		}
		rev := h.apply(did, writes...).Commit.Rev
		var older, newer bytes.Buffer
		require.NoError(t, h.ExportCAR(t.Context(), did, "", &older))
		fresh := note(t, "fresh")
		h.apply(did, create(tid(100), fresh))
		require.NoError(t, h.ExportCAR(t.Context(), did, rev, &newer))
		require.Less(t, newer.Len(), older.Len()/4)
		got := blocksOf(t, newer.Bytes())
		require.Contains(t, got, fresh.CID)
		head, err := h.Head(t.Context(), did)
		require.NoError(t, err)
		require.Equal(t, head.Commit, got[0])

		store := repo.NewTinyBlockstore()
		for _, raw := range [][]byte{older.Bytes(), newer.Bytes()} {
			reader, err := car.NewCarReader(bytes.NewReader(raw))
			require.NoError(t, err)
			for b, err := reader.Next(); err == nil; b, err = reader.Next() {
				require.NoError(t, store.Put(t.Context(), b))
			}
		}
		tree, err := mst.LoadTreeFromStore(t.Context(), store, head.Data)
		require.NoError(t, err)
		require.False(t, tree.IsPartial())

		require.ErrorIs(t, h.ExportCAR(t.Context(), "did:web:nobody.test", "", &newer), repostore.ErrRepoNotFound)
	})
}

// A proof alone shows what stands at a path, or that nothing does.
func TestProofs(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		key, err := h.SigningKey(t.Context(), did)
		require.NoError(t, err)
		public, err := key.PublicKey()
		require.NoError(t, err)
		prove := func(n int) (value *cid.Cid, blocks []cid.Cid) {
			var proof bytes.Buffer
			require.NoError(t, h.ProveRecord(t.Context(), did, noteNSID, syntax.RecordKey(tid(n)), &proof))
			commit, partial, err := repo.LoadRepoFromCAR(t.Context(), bytes.NewReader(proof.Bytes()))
			require.NoError(t, err)
			require.NoError(t, commit.VerifySignature(public))
			value, err = partial.MST.Get([]byte(string(noteNSID) + "/" + tid(n)))
			require.NoError(t, err, "the path is complete")
			return value, blocksOf(t, proof.Bytes())
		}
		value, blocks := prove(1)
		require.Nil(t, value, "nothing stands in an empty repo")
		require.Len(t, blocks, 2)
		var writes []repostore.Write
		for i := range 150 {
			writes = append(writes, create(tid(2*i), note(t, fmt.Sprint(i))))
		}
		h.apply(did, writes...)
		for n := -1; n <= 301; n++ {
			value, blocks := prove(n)
			if n < 0 || n%2 == 1 || n >= 300 {
				require.Nil(t, value, "%d", n)
				continue
			}
			require.Equal(t, note(t, fmt.Sprint(n/2)).CID, *value)
			require.Equal(t, *value, blocks[len(blocks)-1])
			require.Less(t, len(blocks), 12)
		}
		require.ErrorIs(t, h.ProveRecord(t.Context(), "did:web:nobody.test", noteNSID, "x", io.Discard), repostore.ErrRepoNotFound)
	})
}

// A stored node that is not what its parent says stops writes and proofs of
// its repo, loudly.
func TestCorruptNodeStopsWrites(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		h.apply(did, create(tid(1), note(t, "a")))
		for name, statement := range map[string]string{
			"other bytes": "UPDATE nodes SET block = cid",
			"no node":     "DELETE FROM nodes",
		} {
			t.Run(name, func(t *testing.T) {
				require.NoError(t, db.Write.WithContext(t.Context()).Exec(statement).Error)
				cold := newHost(t, db, func(c *repostore.Config) { c.Keys = h.keyring })
				cold.keyring = h.keyring
				require.ErrorIs(t, cold.refused(did, create(tid(2), note(t, "b"))), repostore.ErrCorrupt)
				require.ErrorIs(t, cold.ProveRecord(t.Context(), did, noteNSID, "x", io.Discard), repostore.ErrCorrupt)
			})
		}
	})
}
