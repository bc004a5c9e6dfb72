package repostore

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// shelf is a nodeSource in memory: nodes by position, as the table has them.
type shelf map[position]*storedNode

func (s shelf) node(_ context.Context, pos position, want cid.Cid) (*storedNode, error) {
	n := s[pos]
	if n == nil || n.cid != want {
		return nil, fmt.Errorf("at %v: %w", pos, errMoved)
	}
	// As if read: nothing but the bytes survives.
	return decodeNode(n.cid, n.block)
}

func (s shelf) top(ctx context.Context, want cid.Cid) (*storedNode, error) {
	for height := 64; height >= 0; height-- {
		if _, ok := s[position{height: height}]; ok {
			return s.node(ctx, position{height: height}, want)
		}
	}
	return nil, errMoved
}

// keep stores a diff the way storeNodes does.
func (s shelf) keep(d *treeDiff) {
	for pos, n := range d.nodes {
		if n == nil {
			delete(s, pos)
		} else {
			s[pos] = n
		}
	}
}

// emptyShelf is the shelf of a new repo.
func emptyShelf(t require.TestingT) (shelf, cid.Cid) {
	raw, c, err := (&mst.NodeData{Entries: []mst.EntryData{}}).Bytes()
	require.NoError(t, err)
	n, err := decodeNode(*c, raw)
	require.NoError(t, err)
	return shelf{position{}: n}, *c
}

// fill makes a shelf by one batch per key, through the hydrated tree.
func fill(t require.TestingT, keys map[string]cid.Cid) (shelf, cid.Cid) {
	s, root := emptyShelf(t)
	for key, value := range keys {
		root = change(t, s, root, map[string]*cid.Cid{key: &value}).root
	}
	return s, root
}

// change applies one batch.
func change(t require.TestingT, s shelf, root cid.Cid, ops map[string]*cid.Cid) *treeDiff {
	tree, err := openTree(context.Background(), s, root)
	require.NoError(t, err)
	for key, value := range ops {
		require.NoError(t, tree.set(context.Background(), key, value))
	}
	d, err := tree.diff(context.Background())
	require.NoError(t, err)
	s.keep(d)
	return d
}

// positionsOf walks a tree built from scratch and answers where its nodes must
// stand.
func positionsOf(t require.TestingT, records map[string]cid.Cid) (map[position]cid.Cid, cid.Cid) {
	whole, err := mst.LoadTreeFromMap(records)
	require.NoError(t, err)
	root, err := whole.RootCID()
	require.NoError(t, err)
	at := map[position]cid.Cid{}
	var walk func(n *mst.Node, lower string)
	walk = func(n *mst.Node, lower string) {
		at[position{lower, n.Height}] = *n.CID
		for _, e := range n.Entries {
			if e.IsValue() {
				lower = string(e.Key)
			} else {
				walk(e.Child, lower)
			}
		}
	}
	walk(whole.Root, "")
	return at, *root
}

func requireExactly(t require.TestingT, s shelf, root cid.Cid, records map[string]cid.Cid) {
	want, wantRoot := positionsOf(t, records)
	got := map[position]cid.Cid{}
	for pos, n := range s {
		got[pos] = n.cid
	}
	require.Equal(t, wantRoot, root)
	require.Equal(t, want, got)
}

// tallKeys are keys of every height up to 5, so that small trees are deep.
var tallKeys = sync.OnceValue(func() []string {
	var keys []string
	missing := map[int]int{0: 20, 1: 12, 2: 10, 3: 8, 4: 4, 5: 2}
	for i := 0; len(missing) > 0; i++ {
		key := fmt.Sprintf("com.example.%c/%05d", "abc"[i%3], i*7919%100_000)
		if h := mst.HeightForKey([]byte(key)); missing[h] > 0 {
			keys = append(keys, key)
			if missing[h]--; missing[h] == 0 {
				delete(missing, h)
			}
		}
	}
	return keys
})

func valueOf(i int) cid.Cid { return dagCBOR([]byte{0x18, byte(i)}) }

// After any sequence of batches the store holds exactly the nodes that the head
// reaches, each at its position, and the root is that of a tree from scratch.
func TestStoreHoldsExactlyTheReachableNodes(t *testing.T) {
	keys := tallKeys()
	rapid.Check(t, func(t *rapid.T) {
		s, root := emptyShelf(t)
		records := map[string]cid.Cid{}
		for range rapid.IntRange(1, 25).Draw(t, "batches") {
			ops := map[string]*cid.Cid{}
			for range rapid.IntRange(1, 8).Draw(t, "ops") {
				key := rapid.SampledFrom(keys).Draw(t, "key")
				if rapid.Bool().Draw(t, "put") {
					value := valueOf(rapid.IntRange(0, 200).Draw(t, "value"))
					ops[key] = &value
					records[key] = value
				} else {
					ops[key] = nil
					delete(records, key)
				}
			}
			root = change(t, s, root, ops).root
			requireExactly(t, s, root, records)
		}
	})
}

// Each key's removal from, and return to, a deep tree.
func TestEachKeyLeavesAndReturns(t *testing.T) {
	records := map[string]cid.Cid{}
	for i, key := range tallKeys() {
		records[key] = valueOf(i)
	}
	s, root := fill(t, records)
	requireExactly(t, s, root, records)
	for key, value := range records {
		gone := map[string]cid.Cid{}
		for k, v := range records {
			if k != key {
				gone[k] = v
			}
		}
		root = change(t, s, root, map[string]*cid.Cid{key: nil}).root
		requireExactly(t, s, root, gone)
		root = change(t, s, root, map[string]*cid.Cid{key: &value}).root
		requireExactly(t, s, root, records)
	}
}

// indigo's tree keeps its height when its last key above the bottom goes, and
// would put a pointer on top of the next key (trap A).
func TestEmptiedTreeStartsAtTheBottom(t *testing.T) {
	tall, low := "com.example.record/3jqfcqzm3fx2j", "com.example.record/3jqfcqzm3fo2j"
	require.Equal(t, 2, mst.HeightForKey([]byte(tall)))
	require.Equal(t, 0, mst.HeightForKey([]byte(low)))
	value := valueOf(1)
	t.Run("in one batch", func(t *testing.T) {
		s, root := emptyShelf(t)
		tree, err := openTree(t.Context(), s, root)
		require.NoError(t, err)
		require.NoError(t, tree.set(t.Context(), tall, &value))
		require.NoError(t, tree.set(t.Context(), tall, nil))
		require.NoError(t, tree.set(t.Context(), low, &value))
		d, err := tree.diff(t.Context())
		require.NoError(t, err)
		require.NoError(t, tree.mst.Verify())
		s.keep(d)
		requireExactly(t, s, d.root, map[string]cid.Cid{low: value})
	})
	t.Run("across batches", func(t *testing.T) {
		s, root := fill(t, map[string]cid.Cid{tall: value})
		root = change(t, s, root, map[string]*cid.Cid{tall: nil}).root
		requireExactly(t, s, root, map[string]cid.Cid{})
		root = change(t, s, root, map[string]*cid.Cid{low: &value}).root
		requireExactly(t, s, root, map[string]cid.Cid{low: value})
	})
}

// The root's CID must not be computed before the diff is written (trap B): a
// diff names a block for each node that it changes, the root among them.
func TestDiffHasTheRoot(t *testing.T) {
	s, root := emptyShelf(t)
	value := valueOf(1)
	d := change(t, s, root, map[string]*cid.Cid{"com.example.a/1": &value})
	require.NotEmpty(t, d.proof)
	require.Equal(t, d.root, d.proof[0].cid, "root first")
}

// The tree keeps the key slice that it is given (trap H).
func TestTreeKeepsItsOwnKeys(t *testing.T) {
	s, root := emptyShelf(t)
	tree, err := openTree(t.Context(), s, root)
	require.NoError(t, err)
	key, value := []byte("com.example.a/1"), valueOf(1)
	require.NoError(t, tree.set(t.Context(), string(key), &value))
	key[len(key)-1] = '2'
	got, err := tree.get(t.Context(), "com.example.a/1")
	require.NoError(t, err)
	require.Equal(t, value, *got)
}

// A node whose bytes are not those of its CID, or decode to nonsense, is an
// error and never a panic (trap F).
func TestDecodeNodeRefusesNonsense(t *testing.T) {
	value := valueOf(1)
	malformed := mst.NodeData{Entries: []mst.EntryData{{PrefixLen: 7, KeySuffix: []byte("x"), Value: value}}}
	raw, c, err := malformed.Bytes()
	require.NoError(t, err)
	_, err = decodeNode(*c, raw)
	require.ErrorIs(t, err, ErrCorrupt)

	good := mst.NodeData{Entries: []mst.EntryData{{KeySuffix: []byte("com.example.a/1"), Value: value}}}
	raw, c, err = good.Bytes()
	require.NoError(t, err)
	_, err = decodeNode(*c, raw)
	require.NoError(t, err)
	_, err = decodeNode(*c, append(raw, 0))
	require.ErrorIs(t, err, ErrCorrupt)
}

func FuzzDecodeNode(f *testing.F) {
	raw, _, err := (&mst.NodeData{Entries: []mst.EntryData{{KeySuffix: []byte("com.example.a/1"), Value: valueOf(1)}}}).Bytes()
	require.NoError(f, err)
	f.Add(raw)
	f.Add([]byte{0xa2})
	f.Fuzz(func(t *testing.T, raw []byte) {
		n, err := decodeNode(dagCBOR(raw), raw)
		if err == nil {
			require.NotNil(t, n.hydrated(0))
		}
	})
}

// indigo is where the fixtures of the protocol's interop suite lie.
var indigo = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/bluesky-social/indigo").Output()
	return strings.TrimSpace(string(out)), err
})

func fixture(t *testing.T, name ...string) []byte {
	t.Helper()
	dir, err := indigo()
	require.NoError(t, err)
	raw, err := os.ReadFile(filepath.Join(append([]string{dir, "atproto", "repo"}, name...)...))
	require.NoError(t, err)
	return raw
}

// The interop suite's covering proofs: the diff of each commit has the blocks
// that the fixture requires, and the operations invert on them alone.
func TestCommitProofFixtures(t *testing.T) {
	var fixtures []struct {
		Comment          string   `json:"comment"`
		LeafValue        string   `json:"leafValue"`
		Keys             []string `json:"keys"`
		Adds             []string `json:"adds"`
		Dels             []string `json:"dels"`
		RootBeforeCommit string   `json:"rootBeforeCommit"`
		RootAfterCommit  string   `json:"rootAfterCommit"`
		BlocksInProof    []string `json:"blocksInProof"`
	}
	require.NoError(t, json.Unmarshal(fixture(t, "testdata", "commit-proof-fixtures.json"), &fixtures))
	require.NotEmpty(t, fixtures)
	for _, f := range fixtures {
		t.Run(f.Comment, func(t *testing.T) {
			leaf := cid.MustParse(f.LeafValue)
			before := map[string]cid.Cid{}
			for _, key := range f.Keys {
				before[key] = leaf
			}
			s, root := fill(t, before)
			require.Equal(t, f.RootBeforeCommit, root.String())
			ops := map[string]*cid.Cid{}
			var toInvert []repo.Operation
			for _, key := range f.Adds {
				ops[key] = &leaf
				toInvert = append(toInvert, repo.Operation{Path: key, Value: &leaf})
			}
			for _, key := range f.Dels {
				ops[key] = nil
				toInvert = append(toInvert, repo.Operation{Path: key, Prev: &leaf})
			}
			d := change(t, s, root, ops)
			require.Equal(t, f.RootAfterCommit, d.root.String())
			has := map[string]bool{}
			carried := repo.NewTinyBlockstore()
			for _, b := range d.proof {
				has[b.cid.String()] = true
				require.NoError(t, carried.Put(t.Context(), carBlock(t, b)))
			}
			for _, c := range f.BlocksInProof {
				require.True(t, has[c], "block %s", c)
			}
			partial, err := mst.LoadTreeFromStore(t.Context(), carried, d.root)
			require.NoError(t, err)
			toInvert, err = repo.NormalizeOps(toInvert)
			require.NoError(t, err)
			for _, op := range toInvert {
				require.NoError(t, repo.InvertOp(partial, &op))
			}
			inverted, err := partial.RootCID()
			require.NoError(t, err)
			require.Equal(t, f.RootBeforeCommit, inverted.String())
		})
	}
}

// The interop suite's keys with their heights, each in a tree of its own and
// all in one.
func TestExampleKeys(t *testing.T) {
	records := map[string]cid.Cid{}
	lines := bufio.NewScanner(strings.NewReader(string(fixture(t, "mst", "testdata", "example_keys.txt"))))
	for i := 0; lines.Scan(); i++ {
		key := lines.Text()
		if len(key) < 3 || key[0] == '#' {
			continue
		}
		height, err := strconv.Atoi(key[1:2])
		require.NoError(t, err)
		value := valueOf(i)
		s, _ := fill(t, map[string]cid.Cid{key: value})
		require.Contains(t, s, position{height: height}, key)
		records[key] = value
	}
	require.NotEmpty(t, records)
	s, root := fill(t, records)
	requireExactly(t, s, root, records)
}

// The interop suite's known trees, made and unmade by single changes.
func TestKnownRoots(t *testing.T) {
	value := cid.MustParse("bafyreie5cvv4h45feadgeuwhbcutmh6t2ceseocckahdoe6uat64zmz454")
	tree := func(rkeys ...string) map[string]cid.Cid {
		m := map[string]cid.Cid{}
		for _, rkey := range rkeys {
			m["com.example.record/"+rkey] = value
		}
		return m
	}
	for name, known := range map[string]struct {
		records map[string]cid.Cid
		root    string
		change  string // this key comes, or goes when it is there
		after   string
	}{
		"empty":   {tree(), "bafyreie5737gdxlw5i64vzichcalba3z2v5n6icifvx5xytvske7mr3hpm", "3jqfcqzm3fo2j", "bafyreibj4lsc3aqnrvphp5xmrnfoorvru4wynt6lwidqbm2623a6tatzdu"},
		"layer 2": {tree("3jqfcqzm3fx2j"), "bafyreih7wfei65pxzhauoibu3ls7jgmkju4bspy4t2ha2qdjnzqvoy33ai", "3jqfcqzm3fx2j", "bafyreie5737gdxlw5i64vzichcalba3z2v5n6icifvx5xytvske7mr3hpm"},
		"trims the top": {
			tree("3jqfcqzm3fn2j", "3jqfcqzm3fo2j", "3jqfcqzm3fp2j", "3jqfcqzm3fs2j", "3jqfcqzm3ft2j", "3jqfcqzm3fu2j"),
			"bafyreifnqrwbk6ffmyaz5qtujqrzf5qmxf7cbxvgzktl4e3gabuxbtatv4", "3jqfcqzm3fs2j", "bafyreie4kjuxbwkhzg2i5dljaswcroeih4dgiqq6pazcmunwt2byd725vi",
		},
		"splits two layers down": {
			tree("3jqfcqzm3fo2j", "3jqfcqzm3fp2j", "3jqfcqzm3fr2j", "3jqfcqzm3fs2j", "3jqfcqzm3ft2j", "3jqfcqzm3fz2j", "3jqfcqzm4fc2j", "3jqfcqzm4fd2j", "3jqfcqzm4ff2j", "3jqfcqzm4fg2j", "3jqfcqzm4fh2j"),
			"bafyreiettyludka6fpgp33stwxfuwhkzlur6chs4d2v4nkmq2j3ogpdjem", "3jqfcqzm3fx2j", "bafyreid2x5eqs4w4qxvc5jiwda4cien3gw2q6cshofxwnvv7iucrmfohpm",
		},
		"two layers higher": {tree("3jqfcqzm3ft2j", "3jqfcqzm3fz2j"), "bafyreidfcktqnfmykz2ps3dbul35pepleq7kvv526g47xahuz3rqtptmky", "3jqfcqzm3fx2j", "bafyreiavxaxdz7o7rbvr3zg2liox2yww46t7g6hkehx4i4h3lwudly7dhy"},
	} {
		t.Run(name, func(t *testing.T) {
			s, root := fill(t, known.records)
			require.Equal(t, known.root, root.String())
			key := "com.example.record/" + known.change
			there, back := (*cid.Cid)(nil), &value
			if _, ok := known.records[key]; !ok {
				there, back = back, there
			}
			root = change(t, s, root, map[string]*cid.Cid{key: there}).root
			require.Equal(t, known.after, root.String())
			root = change(t, s, root, map[string]*cid.Cid{key: back}).root
			require.Equal(t, known.root, root.String())
			requireExactly(t, s, root, known.records)
		})
	}
}

// Real commits of the network: the proof of each operation is read from the
// event's own blocks.
func TestFirehoseFixtures(t *testing.T) {
	for _, seq := range []string{"4621317030", "4621317332", "4621332152", "4623075231"} {
		t.Run(seq, func(t *testing.T) {
			var msg comatproto.SyncSubscribeRepos_Commit
			require.NoError(t, json.Unmarshal(fixture(t, "testdata", "firehose_commit_"+seq+".json"), &msg))
			commit, partial, err := repo.LoadRepoFromCAR(t.Context(), bytes.NewReader(msg.Blocks))
			require.NoError(t, err)
			s := shelf{}
			var place func(n *mst.Node, lower string)
			place = func(n *mst.Node, lower string) {
				b, err := partial.RecordStore.Get(t.Context(), *n.CID)
				require.NoError(t, err)
				s[position{lower, n.Height}], err = decodeNode(*n.CID, b.RawData())
				require.NoError(t, err)
				for _, e := range n.Entries {
					if e.IsValue() {
						lower = string(e.Key)
					} else if e.Child != nil {
						place(e.Child, lower)
					}
				}
			}
			place(partial.MST.Root, "")
			require.NotEmpty(t, msg.Ops)
			for _, op := range msg.Ops {
				nodes, value, err := pathTo(t.Context(), s, commit.Data, op.Path)
				require.NoError(t, err, op.Path)
				require.NotEmpty(t, nodes)
				require.Equal(t, op.Cid.String(), value.String())
			}
		})
	}
}
