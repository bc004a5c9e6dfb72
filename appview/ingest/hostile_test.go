package ingest_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/bluesky-social/indigo/atproto/syntax"
	lexutil "github.com/bluesky-social/indigo/lex/util"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// resigned makes a commit over any tree, signed by any key, as a host could
// that does not play by the rules.
func resigned(t testing.TB, r *hostedRepo, key atcrypto.PrivateKey, rev string, data cid.Cid, with map[cid.Cid][]byte) (cid.Cid, []byte) {
	t.Helper()
	commit := repo.Commit{DID: string(r.did), Version: 3, Data: data, Rev: rev}
	require.NoError(t, commit.Sign(key))
	raw := encode(t, &commit)
	id := block(t, raw)
	all := map[cid.Cid][]byte{id: raw}
	for c, b := range with {
		all[c] = b
	}
	return id, carFile(id, all)
}

// evilNode is an MST node as bytes, whatever is in it.
func evilNode(t testing.TB, node mst.NodeData) (cid.Cid, []byte) {
	t.Helper()
	raw := encode(t, &node)
	return block(t, raw), raw
}

type commitMessage = comatproto.SyncSubscribeRepos_Commit

// hostile lists what a source may send in the place of a good commit. Each
// changes a good message, or makes its frame.
var hostile = map[string]struct {
	change func(t *testing.T, r *hostedRepo, m *commitMessage)
	frame  func(t *testing.T, r *hostedRepo, m *commitMessage) []byte
	reason string // part of what the repo's finding says; "" when the frame names no repo
}{
	"signature by another key": {reason: "signature", change: func(t *testing.T, r *hostedRepo, m *commitMessage) {
		other, err := atcrypto.GeneratePrivateKeyP256()
		require.NoError(t, err)
		id, car := resigned(t, r, other, m.Rev, r.data, r.stored)
		m.Commit, m.Blocks = lexutil.LexLink(id), car
	}},
	"commit is not the root of its blocks": {reason: "the root of its blocks", change: func(t *testing.T, r *hostedRepo, m *commitMessage) {
		m.Commit = lexutil.LexLink(r.data)
	}},
	"prev of an update is missing": {reason: "an update has a cid and a prev", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) {
		m.Ops[0].Prev = nil
	}},
	"prev of an update is another": {reason: "leads to tree", change: func(_ *testing.T, r *hostedRepo, m *commitMessage) {
		m.Ops[0].Prev = (*lexutil.LexLink)(&r.head)
	}},
	"prevData is missing": {reason: "prevData is missing", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) { m.PrevData = nil }},
	"prevData is another": {reason: "gap", change: func(_ *testing.T, r *hostedRepo, m *commitMessage) {
		m.PrevData = (*lexutil.LexLink)(&r.head)
	}},
	"since is another": {reason: "gap", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) {
		since := "3aaaaaaaaaa22"
		m.Since = &since
	}},
	"rev from the future": {reason: "ahead of this clock", change: func(t *testing.T, r *hostedRepo, m *commitMessage) {
		rev := syntax.NewTIDFromTime(time.Now().Add(24*time.Hour), 1).String()
		id, car := resigned(t, r, r.key, rev, r.data, r.stored)
		m.Rev, m.Commit, m.Blocks = rev, lexutil.LexLink(id), car
	}},
	"rev of the event is not that of the commit": {reason: "the commit has rev", change: func(_ *testing.T, r *hostedRepo, m *commitMessage) {
		m.Rev = syntax.NewTIDFromTime(time.Now(), 9).String()
	}},
	"rev is no TID": {reason: "rev", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) { m.Rev = "tomorrow" }},
	"a thousand operations": {reason: "operations, at most", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) {
		for range 1000 {
			m.Ops = append(m.Ops, m.Ops[0])
		}
	}},
	"the same operation twice": {reason: "operations", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) {
		m.Ops = append(m.Ops, m.Ops[0])
	}},
	"operation that is not announced": {reason: "leads to tree", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) { m.Ops = m.Ops[:1] }},
	"unknown action":                  {reason: "action", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) { m.Ops[0].Action = "upsert" }},
	"path that is none":               {reason: "record path", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) { m.Ops[0].Path = "../../etc" }},
	"path longer than an index takes": {reason: "record path", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) {
		m.Ops[0].Path = "test.herbarium.note/" + strings.Repeat("a", 5000)
	}},
	"record left out of the blocks": {reason: "not among the blocks", change: func(t *testing.T, r *hostedRepo, m *commitMessage) {
		left := map[cid.Cid][]byte{}
		for id, b := range r.stored {
			if id != cid.Cid(*m.Ops[0].Cid) {
				left[id] = b
			}
		}
		m.Blocks = carFile(r.head, left)
	}},
	"tooBig":         {reason: "tooBig", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) { m.TooBig = true }},
	"rebase":         {reason: "rebase", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) { m.Rebase = true }},
	"no blocks":      {reason: "car header", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) { m.Blocks = nil }},
	"car cut off":    {reason: "cut off", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) { m.Blocks = m.Blocks[:len(m.Blocks)-5] }},
	"car that lies":  {reason: "other content than its CID says", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) { m.Blocks = flipLast(m.Blocks) }},
	"two megabytes+": {reason: "bytes of blocks", change: func(_ *testing.T, _ *hostedRepo, m *commitMessage) { m.Blocks = make([]byte, 2_000_001) }},
	"node that makes indigo panic": {reason: "prefix of", change: func(t *testing.T, r *hostedRepo, m *commitMessage) {
		id, raw := evilNode(t, mst.NodeData{Entries: []mst.EntryData{{PrefixLen: 99, KeySuffix: []byte("x/y"), Value: r.head}}})
		c, car := resigned(t, r, r.key, m.Rev, id, map[cid.Cid][]byte{id: raw})
		m.Commit, m.Blocks = lexutil.LexLink(c), car
	}},
	"node that names its child over and over": {reason: "twice", change: func(t *testing.T, r *hostedRepo, m *commitMessage) {
		// 40 levels of two references each: a loader that follows both sees a million million nodes.
		id, raw := evilNode(t, mst.NodeData{Entries: []mst.EntryData{}})
		all := map[cid.Cid][]byte{id: raw}
		for level := range 40 {
			child := id
			id, raw = evilNode(t, mst.NodeData{Left: &child, Entries: []mst.EntryData{
				{KeySuffix: []byte(fmt.Sprintf("test.herbarium.note/%03d", level)), Value: r.head, Right: &child},
			}})
			all[id] = raw
		}
		c, car := resigned(t, r, r.key, m.Rev, id, all)
		m.Commit, m.Blocks = lexutil.LexLink(c), car
	}},
	"tree without a bottom": {reason: "too deep", change: func(t *testing.T, r *hostedRepo, m *commitMessage) {
		id, raw := evilNode(t, mst.NodeData{Entries: []mst.EntryData{}})
		all := map[cid.Cid][]byte{id: raw}
		for range 5000 {
			child := id
			id, raw = evilNode(t, mst.NodeData{Left: &child, Entries: []mst.EntryData{}})
			all[id] = raw
		}
		c, car := resigned(t, r, r.key, m.Rev, id, all)
		m.Commit, m.Blocks = lexutil.LexLink(c), car
	}},
	"commit of somebody else": {reason: "the commit is of", change: func(t *testing.T, r *hostedRepo, m *commitMessage) {
		other := &hostedRepo{did: bob}
		id, car := resigned(t, other, r.key, m.Rev, r.data, r.stored)
		m.Commit, m.Blocks = lexutil.LexLink(id), car
	}},
	"frame cut off": {frame: func(t *testing.T, _ *hostedRepo, m *commitMessage) []byte {
		f := frame(t, "#commit", m)
		return f[:len(f)/2]
	}},
	"frame with bytes behind it": {frame: func(t *testing.T, _ *hostedRepo, m *commitMessage) []byte {
		return append(frame(t, "#commit", m), 0)
	}},
	"empty frame":    {frame: func(*testing.T, *hostedRepo, *commitMessage) []byte { return nil }},
	"header of ones": {frame: func(*testing.T, *hostedRepo, *commitMessage) []byte { return bytes.Repeat([]byte{0xff}, 4096) }},
	"arrays in arrays": {frame: func(*testing.T, *hostedRepo, *commitMessage) []byte {
		return bytes.Repeat([]byte{0x81}, 1<<20)
	}},
	"announces four gigabytes": {frame: func(*testing.T, *hostedRepo, *commitMessage) []byte {
		return []byte{0xa1, 0x62, 'o', 'p', 0x5a, 0xff, 0xff, 0xff, 0xff}
	}},
}

// flipLast changes the last byte: the content of some block, never a length.
func flipLast(b []byte) []byte {
	out := bytes.Clone(b)
	out[len(out)-1] ^= 1
	return out
}

func TestHostileEvents(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		for name, bad := range hostile {
			t.Run(name, func(t *testing.T) {
				x := newIndex(t, db)
				// Each case has a host and repos of its own, on one database.
				h := newHost()
				h.name = name
				label := fmt.Sprintf("did:web:h%x.test", name)
				r, other := h.open(t, syntax.DID(label)), h.open(t, syntax.DID("did:web:o"+strings.TrimPrefix(label, "did:web:")))
				c := run(t, h, x)
				h.emit(frame(t, "#commit", r.write(t, change{notePath(1), note("one")})))
				waitFor(t, c, r)
				before := r.rev

				h.mu.Lock()
				h.down = true // so that the state in between can be seen
				h.mu.Unlock()
				m := r.write(t, change{notePath(1), note("two")}, change{notePath(2), note("three")})
				if bad.change != nil {
					bad.change(t, r, m)
				}
				f := []byte(nil)
				if bad.frame != nil {
					f = bad.frame(t, r, m)
				} else {
					f = frame(t, "#commit", m)
				}
				h.emit(f)
				h.emit(frame(t, "#commit", other.write(t, change{notePath(1), note("other")})))
				waitFor(t, c, other)
				eventually(t, func() bool { return c.Status().Rejected == 1 })
				known, err := x.Repo(t.Context(), r.did)
				require.NoError(t, err)
				require.EqualValues(t, before, known.Rev, "nothing of it was applied")
				if bad.reason != "" {
					require.Equal(t, index.SyncDesynchronized, known.Sync)
					require.Contains(t, known.SyncError, bad.reason)
					found, err := x.ListFindings(t.Context(), index.Viewer{Admin: true}, index.FindingFilter{DID: r.did, Code: lexicons.CodeDesynchronized}, index.Page{})
					require.NoError(t, err)
					require.Len(t, found.Items, 1)
				}

				h.mu.Lock()
				h.down = false
				h.mu.Unlock()
				h.emit(frame(t, "#commit", r.write(t, change{notePath(3), note("good again")})))
				waitFor(t, c, r)
				known, err = x.Repo(t.Context(), r.did)
				require.NoError(t, err)
				require.Equal(t, index.SyncSynced, known.Sync)
			})
		}
	})
}

// TestHostileRepos: what FetchRepo may bring. The repo stays out of step and
// everything else goes on.
func TestHostileRepos(t *testing.T) {
	for name, evil := range map[string]struct {
		serve  func(t *testing.T, r *hostedRepo) []byte
		reason string
	}{
		"missing node": {reason: "missing", serve: func(_ *testing.T, r *hostedRepo) []byte {
			left := map[cid.Cid][]byte{}
			for id, b := range r.stored {
				if id != r.data {
					left[id] = b
				}
			}
			return carFile(r.head, left)
		}},
		"missing record": {reason: "is missing", serve: func(t *testing.T, r *hostedRepo) []byte {
			left := map[cid.Cid][]byte{}
			for id, b := range r.stored {
				if !bytes.Contains(b, []byte("dropped")) {
					left[id] = b
				}
			}
			return carFile(r.head, left)
		}},
		"keys out of order": {reason: "make a tree with root", serve: func(t *testing.T, r *hostedRepo) []byte {
			id, raw := evilNode(t, mst.NodeData{Entries: []mst.EntryData{
				{KeySuffix: []byte("test.herbarium.note/b"), Value: r.head}, {KeySuffix: []byte("test.herbarium.note/a"), Value: r.head},
			}})
			_, car := resigned(t, r, r.key, r.rev, id, map[cid.Cid][]byte{id: raw})
			return car
		}},
		"signed by nobody known": {reason: "signature", serve: func(t *testing.T, r *hostedRepo) []byte {
			other, err := atcrypto.GeneratePrivateKeyK256()
			require.NoError(t, err)
			_, car := resigned(t, r, other, r.rev, r.data, r.stored)
			return car
		}},
		"not a car": {reason: "car header", serve: func(*testing.T, *hostedRepo) []byte { return []byte("<html>") }},
		"over the limit": {reason: "over", serve: func(t *testing.T, r *hostedRepo) []byte {
			all := map[cid.Cid][]byte{}
			for n := range 3 {
				raw := bytes.Repeat([]byte{byte(n)}, 1<<20)
				all[block(t, raw)] = raw
			}
			return carFile(r.head, all)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost()
			r := h.open(t, ada)
			r.write(t, change{notePath(1), note("dropped")}, change{notePath(2), note("kept")})
			err := verifyRepo(t, h, ada, evil.serve(t, r), 2<<20)
			require.ErrorContains(t, err, evil.reason)
			require.NoError(t, verifyRepo(t, h, ada, r.export(), 2<<20))
		})
	}
}
