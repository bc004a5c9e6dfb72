package ingest_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// proves walks from the signed commit to a record by nothing but the blocks of
// a proof, each of which it hashes, and answers how many nodes it passed. It
// is a reader of its own: what it needs are the atproto repository spec, the
// DID's key, and the CID that the record's bytes have.
func proves(t *testing.T, h *host, did syntax.DID, rev syntax.TID, commit cid.Cid, proof []index.Block, path string, record cid.Cid) (int, error) {
	t.Helper()
	held := map[cid.Cid][]byte{}
	for _, b := range proof {
		if !block(t, b.Data).Equals(b.CID) {
			return 0, fmt.Errorf("block %s has other bytes", b.CID)
		}
		held[b.CID] = b.Data
	}
	var signed repo.Commit
	if err := signed.UnmarshalCBOR(bytes.NewReader(held[commit])); err != nil {
		return 0, fmt.Errorf("commit: %w", err)
	}
	if signed.DID != string(did) || signed.Rev != string(rev) {
		return 0, fmt.Errorf("the commit is rev %s of %s", signed.Rev, signed.DID)
	}
	id, err := h.LookupDID(t.Context(), did)
	require.NoError(t, err)
	key, err := id.PublicKey()
	require.NoError(t, err)
	if err := signed.VerifySignature(key); err != nil {
		return 0, err
	}
	at := &signed.Data
	for nodes := 0; ; nodes++ {
		if at == nil {
			return nodes, errors.New("the tree has no such record")
		}
		raw, ok := held[*at]
		if !ok {
			return nodes, fmt.Errorf("node %s is not in the proof", at)
		}
		node, err := mst.NodeDataFromCBOR(bytes.NewReader(raw))
		if err != nil {
			return nodes, err
		}
		at = node.Left
		var entry []byte
		for _, e := range node.Entries {
			entry = append(bytes.Clone(entry[:e.PrefixLen]), e.KeySuffix...)
			if string(entry) == path {
				if !e.Value.Equals(record) {
					return nodes, fmt.Errorf("the tree has %s there", e.Value)
				}
				return nodes + 1, nil
			}
			if string(entry) > path {
				break
			}
			at = e.Right
		}
	}
}

func observed(n int) change {
	return change{fmt.Sprintf("%s/%s", lexicons.ObservationNSID, syntax.NewTID(int64(1_700_000_000_000_000+n), 0)), map[string]any{
		"$type":  string(lexicons.ObservationNSID),
		"source": map[string]any{"kind": "command", "value": "uname -a"}, "method": "bash", "text": fmt.Sprint("seen ", n),
		"observedAt": "2026-11-30T10:00:00.000Z", "createdAt": "2026-11-30T10:00:01.000Z",
	}}
}

func claimed(n int) change {
	return change{fmt.Sprintf("%s/%s", lexicons.ClaimNSID, syntax.NewTID(int64(1_700_000_000_000_000+n), 0)), map[string]any{
		"$type": string(lexicons.ClaimNSID), "text": fmt.Sprint("claim ", n), "createdAt": "2026-11-30T10:00:01.000Z", "citations": []any{},
	}}
}

// What the journal keeps of a commit proves its observations and claims to
// anybody who has the key, whatever became of the repo since: in a tree of one
// record and in one of several levels, from a commit that was followed and
// from a repo that was taken whole.
func TestKeptProofsProveTheirRecords(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		h, x := newHost(), newIndex(t, db)
		followed, whole := h.open(t, ada), h.open(t, bob)
		type written struct {
			r    *hostedRepo
			path string
		}
		var records []written
		write := func(r *hostedRepo, changes ...change) []byte {
			for _, c := range changes {
				if c.record != nil && c.record["$type"] != "test.herbarium.note" {
					records = append(records, written{r, c.path})
				}
			}
			return frame(t, "#commit", r.write(t, changes...))
		}
		c := run(t, h, x)
		h.emit(write(followed, observed(0)))
		h.emit(write(followed, claimed(0)))
		for n := range 4 { // a tree of some levels
			var notes []change
			for i := range 100 {
				notes = append(notes, change{notePath(100*n + i), note("filler")})
			}
			h.emit(write(followed, notes...))
			write(whole, notes...) // nobody hears of it
		}
		h.emit(write(followed, observed(1), claimed(1)))
		write(whole, observed(2), claimed(2), observed(3))
		h.emit(write(whole, change{notePath(0), nil})) // the gap makes the consumer fetch it
		for n := range 30 {                            // the tree goes on
			h.emit(write(followed, observed(100+n), change{notePath(3 * n), nil}))
		}
		waitFor(t, c, followed)
		waitFor(t, c, whole)

		deepest := 0
		for _, w := range records {
			rec, err := x.Record(t.Context(), index.Viewer{Admin: true}, syntax.ATURI("at://"+string(w.r.did)+"/"+w.path))
			require.NoError(t, err)
			require.Equal(t, w.r == whole, rec.Baseline)
			proof, err := x.Proof(t.Context(), rec.DID, rec.Rev, rec.Commit)
			require.NoError(t, err, w.path)
			record := block(t, rec.CBOR)
			require.Equal(t, rec.CID, record)
			depth, err := proves(t, h, rec.DID, rec.Rev, rec.Commit, proof, w.path, record)
			require.NoError(t, err, w.path)
			deepest = max(deepest, depth)

			// Nothing of it can be left out or exchanged unnoticed, so it is the blocks that prove.
			other := block(t, []byte("another record"))
			_, err = proves(t, h, rec.DID, rec.Rev, rec.Commit, proof, w.path, other)
			require.Error(t, err)
			_, err = proves(t, h, rec.DID, rec.Rev, rec.Commit, proof[:1], w.path, record)
			require.ErrorContains(t, err, "not in the proof")
		}
		require.GreaterOrEqual(t, deepest, 3, "the records lie at several levels")
	})
}
