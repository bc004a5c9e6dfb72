package ingest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/bluesky-social/indigo/atproto/syntax"
	lexutil "github.com/bluesky-social/indigo/lex/util"
	"github.com/ipfs/go-cid"
	"github.com/ipld/go-car"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/appview/ingest"
)

// fixture reads a file of the protocol's interop suite, which lies with indigo.
func fixture(t *testing.T, name string) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/bluesky-social/indigo").Output()
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "atproto", "repo", "testdata", name))
	require.NoError(t, err)
	return raw
}

// blocksOf unpacks a CAR with the library that others use.
func blocksOf(t *testing.T, raw []byte) (root cid.Cid, all map[cid.Cid][]byte) {
	t.Helper()
	r, err := car.NewCarReader(bytes.NewReader(raw))
	require.NoError(t, err)
	all = map[cid.Cid][]byte{}
	for {
		b, err := r.Next()
		if err != nil {
			return r.Header.Roots[0], all
		}
		all[b.Cid()] = b.RawData()
	}
}

func without(all map[cid.Cid][]byte, left cid.Cid) map[cid.Cid][]byte {
	rest := maps.Clone(all)
	delete(rest, left)
	return rest
}

func with(all map[cid.Cid][]byte, id cid.Cid, data []byte) map[cid.Cid][]byte {
	more := maps.Clone(all)
	more[id] = data
	return more
}

// generous is the one fixture with blocks that nobody needs to undo its
// operation: the neighbour hangs at the tree by the CID that it always had.
const generous = "add on edge with neighbor two layers down"

// The interop suite's covering proofs: the operations of each commit are taken
// on the blocks that the fixture lists and on nothing less, and nothing else
// than what happened is taken.
func TestCommitProofFixtures(t *testing.T) {
	var fixtures []struct {
		Comment, LeafValue                string
		Keys, Adds, Dels                  []string
		RootBeforeCommit, RootAfterCommit string
		BlocksInProof                     []string
	}
	require.NoError(t, json.Unmarshal(fixture(t, "commit-proof-fixtures.json"), &fixtures))
	require.NotEmpty(t, fixtures)
	for _, f := range fixtures {
		t.Run(f.Comment, func(t *testing.T) {
			leaf, before, after := cid.MustParse(f.LeafValue), cid.MustParse(f.RootBeforeCommit), cid.MustParse(f.RootAfterCommit)
			records := map[string]cid.Cid{}
			for _, key := range append(f.Keys, f.Adds...) {
				records[key] = leaf
			}
			var ops []repo.Operation
			for _, key := range f.Adds {
				ops = append(ops, repo.Operation{Path: key, Value: &leaf})
			}
			for _, key := range f.Dels {
				delete(records, key)
				ops = append(ops, repo.Operation{Path: key, Prev: &leaf})
			}
			tree, err := mst.LoadTreeFromMap(records)
			require.NoError(t, err)
			whole := &blockLog{blocks: map[cid.Cid][]byte{}}
			root, err := tree.WriteDiffBlocks(t.Context(), whole)
			require.NoError(t, err)
			require.Equal(t, after, *root)
			proof := map[cid.Cid][]byte{}
			for _, id := range f.BlocksInProof {
				if data, ok := whole.blocks[cid.MustParse(id)]; ok { // a deletion's list names nodes of the tree before, too
					proof[cid.MustParse(id)] = data
				}
			}
			verify := func(blocks map[cid.Cid][]byte, before cid.Cid, ops ...repo.Operation) error {
				return ingest.VerifyOperations(t.Context(), carFile(after, blocks), slices.Clone(ops), before)
			}
			require.NoError(t, verify(proof, before, ops...))
			require.Error(t, verify(proof, after, ops...), "another tree before")
			for i := range ops {
				rest := slices.Delete(slices.Clone(ops), i, i+1)
				require.Error(t, verify(proof, before, rest...), "operation left out")
				other := slices.Clone(ops)
				another := block(t, []byte("another"))
				if other[i].Value != nil {
					other[i].Value = &another
				} else {
					other[i].Prev = &another
				}
				require.Error(t, verify(proof, before, other...), "operation with another CID")
			}
			for id, data := range proof {
				if f.Comment != generous || id == after {
					require.Error(t, verify(without(proof, id), before, ops...), "without block %s", id)
				}
				require.Error(t, verify(with(proof, id, flipLast(data)), before, ops...), "block %s changed", id)
			}
		})
	}
}

// Real commits of the network. They are from before prevData, so the tree
// before is what the reference implementation finds by undoing the operations.
// Of three, whose host sent too few blocks, it finds none; nor may we.
func TestFirehoseFixtures(t *testing.T) {
	for seq, reason := range map[string]string{
		"4623075231": "", "4621317030": "undo", "4621317332": "undo", "4621332152": "undo",
	} {
		t.Run(seq, func(t *testing.T) {
			read := func() *commitMessage {
				var msg commitMessage
				require.NoError(t, json.Unmarshal(fixture(t, "firehose_commit_"+seq+".json"), &msg))
				return &msg
			}
			msg := read()
			known := index.Repo{DID: syntax.DID(msg.Repo), Active: true}
			if msg.Since != nil {
				known.Rev = syntax.TID(*msg.Since)
			}
			known.Data = undone(t, msg)
			if reason != "" {
				_, err := repo.VerifyCommitMessage(t.Context(), read())
				require.Error(t, err, "the reference refuses it, too")
				known.Data = cid.Cid(msg.Commit) // any: it is not come so far
				msg.PrevData = (*lexutil.LexLink)(&known.Data)
				require.ErrorContains(t, ingest.VerifyCommit(t.Context(), nil, msg, known), reason)
				return
			}
			good := func() *commitMessage {
				msg := read()
				msg.PrevData = (*lexutil.LexLink)(&known.Data)
				return msg
			}
			require.NoError(t, ingest.VerifyCommit(t.Context(), nil, good(), known))
			root, all := blocksOf(t, msg.Blocks)
			another := block(t, []byte("another"))
			for name, spoil := range map[string]func(m *commitMessage){
				"prevData":             func(m *commitMessage) { m.PrevData = (*lexutil.LexLink)(&another) },
				"no prevData":          func(m *commitMessage) { m.PrevData = nil },
				"since":                func(m *commitMessage) { m.Since = &m.Rev },
				"rev":                  func(m *commitMessage) { m.Rev = syntax.NewTIDNow(1).String() },
				"commit":               func(m *commitMessage) { m.Commit = lexutil.LexLink(another) },
				"CID of an operation":  func(m *commitMessage) { m.Ops[0].Cid = (*lexutil.LexLink)(&another) },
				"path of an operation": func(m *commitMessage) { m.Ops[0].Path += "x" },
				"operation left out":   func(m *commitMessage) { m.Ops = m.Ops[1:] },
			} {
				m := good()
				spoil(m)
				require.Error(t, ingest.VerifyCommit(t.Context(), nil, m, known), name)
			}
			needed := 0
			for id, data := range all {
				m := good()
				m.Blocks = carFile(root, with(all, id, flipLast(data)))
				require.Error(t, ingest.VerifyCommit(t.Context(), nil, m, known), "block %s changed", id)
				m.Blocks = carFile(root, without(all, id))
				if ingest.VerifyCommit(t.Context(), nil, m, known) != nil {
					needed++
				}
			}
			require.Equal(t, len(all), needed, "the network sends nothing that is not needed")
			known.Data = another
			require.Error(t, ingest.VerifyCommit(t.Context(), nil, good(), known), "another tree is known")
		})
	}
}

// undone is the tree before a commit as the reference implementation finds it;
// undefined when it cannot.
func undone(t *testing.T, msg *commitMessage) cid.Cid {
	t.Helper()
	_, held, err := repo.LoadRepoFromCAR(t.Context(), bytes.NewReader(msg.Blocks))
	require.NoError(t, err)
	var ops []repo.Operation
	for _, op := range msg.Ops {
		ops = append(ops, repo.Operation{Path: op.Path, Value: (*cid.Cid)(op.Cid), Prev: (*cid.Cid)(op.Prev)})
	}
	ops, err = repo.NormalizeOps(ops)
	require.NoError(t, err)
	for i := range ops {
		if repo.InvertOp(&held.MST, &ops[i]) != nil {
			return cid.Undef
		}
	}
	if held.MST.IsEmpty() {
		return cid.MustParse("bafyreie5737gdxlw5i64vzichcalba3z2v5n6icifvx5xytvske7mr3hpm") // the interop suite's
	}
	root, err := held.MST.RootCID()
	require.NoError(t, err)
	return *root
}

// spoiled are the ways to spoil a good commit, and whether the reference
// implementation minds, too; we always do.
var spoiled = map[string]struct {
	reference bool
	spoil     func(t *testing.T, r *hostedRepo, m *commitMessage)
}{
	"prevData":             {true, func(_ *testing.T, r *hostedRepo, m *commitMessage) { m.PrevData = (*lexutil.LexLink)(&r.head) }},
	"no prevData":          {false, func(_ *testing.T, _ *hostedRepo, m *commitMessage) { m.PrevData = nil }},
	"rev":                  {true, func(_ *testing.T, _ *hostedRepo, m *commitMessage) { m.Rev = syntax.NewTIDNow(9).String() }},
	"CID of an operation":  {true, func(_ *testing.T, r *hostedRepo, m *commitMessage) { m.Ops[0].Cid = (*lexutil.LexLink)(&r.head) }},
	"prev of an operation": {true, func(_ *testing.T, r *hostedRepo, m *commitMessage) { m.Ops[0].Prev = (*lexutil.LexLink)(&r.head) }},
	"operation left out":   {true, func(_ *testing.T, _ *hostedRepo, m *commitMessage) { m.Ops = m.Ops[1:] }},
	"operation twice":      {true, func(_ *testing.T, _ *hostedRepo, m *commitMessage) { m.Ops = append(m.Ops, m.Ops[0]) }},
	"root of the tree left out": {true, func(t *testing.T, r *hostedRepo, m *commitMessage) {
		root, all := blocksOf(t, m.Blocks)
		m.Blocks = carFile(root, without(all, r.data))
	}},
	"record left out": {true, func(t *testing.T, _ *hostedRepo, m *commitMessage) {
		root, all := blocksOf(t, m.Blocks)
		m.Blocks = carFile(root, without(all, cid.Cid(*m.Ops[0].Cid)))
	}},
	"record changed": {true, func(t *testing.T, _ *hostedRepo, m *commitMessage) {
		root, all := blocksOf(t, m.Blocks)
		id := cid.Cid(*m.Ops[0].Cid)
		m.Blocks = carFile(root, with(all, id, flipLast(all[id])))
	}},
	"signed by another": {true, func(t *testing.T, r *hostedRepo, m *commitMessage) {
		key, err := atcrypto.GeneratePrivateKeyP256()
		require.NoError(t, err)
		id, raw := resigned(t, r, key, m.Rev, r.data, r.stored)
		m.Commit, m.Blocks = lexutil.LexLink(id), raw
	}},
}

// The verdicts of two implementations on the same commits of a growing and
// changing repo, good ones and spoiled ones.
func TestAgreesWithTheReferenceVerifier(t *testing.T) {
	h := newHost()
	r := h.open(t, ada)
	reference := func(m *commitMessage) error {
		if _, err := repo.VerifyCommitMessage(t.Context(), m); err != nil {
			return err
		}
		return repo.VerifyCommitSignature(t.Context(), h, m)
	}
	for n := range 60 {
		known := index.Repo{DID: ada, Active: true, Rev: syntax.TID(r.rev), Data: r.data}
		changes := []change{{notePath(n * 7 % 60), note(fmt.Sprint(n))}}
		if n >= 30 { // one that is there is rewritten, and one goes
			changes = []change{{notePath((n - 30) * 7 % 60), note(fmt.Sprint("again ", n))}, {notePath((n - 15) * 7 % 60), nil}}
		}
		if n >= 45 {
			changes = changes[:1]
		}
		msg := r.write(t, changes...)
		require.NoError(t, reference(msg), "the commits of this test's host are good")
		require.NoError(t, ingest.VerifyCommit(t.Context(), h, msg, known))
		if n < 30 || n >= 45 {
			continue
		}
		for name, s := range spoiled {
			bad := *msg
			bad.Ops = nil
			for _, op := range msg.Ops {
				clone := *op
				bad.Ops = append(bad.Ops, &clone)
			}
			s.spoil(t, r, &bad)
			require.Error(t, ingest.VerifyCommit(t.Context(), h, &bad, known), name)
			if s.reference {
				require.Error(t, reference(&bad), name)
			} else {
				require.NoError(t, reference(&bad), name)
			}
		}
	}
}
