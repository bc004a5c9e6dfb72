package repostore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
)

// FuzzImportCAR: whatever the bytes are, they are taken or are an ErrBadCAR.
func FuzzImportCAR(f *testing.F) {
	raw := bytes.Repeat([]byte{0x61}, 300)
	whole := appendCARBlock(appendCARHeader(nil, dagCBOR(raw)), dagCBOR(raw), raw)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(append([]byte{0xff, 0xff, 0xff, 0xff, 0x7f}, whole...))
	f.Add(carHeadRootless)
	f.Fuzz(func(t *testing.T, car []byte) {
		s, err := fillSpool(&memoryFile{}, bytes.NewReader(car))
		if err == nil {
			_, err = openForeign("did:web:scout.test", s, []atcrypto.PublicKey{})
			require.NoError(t, s.Close())
		}
		if !errors.Is(err, ErrBadCAR) {
			t.Fatalf("an unsigned CAR gives %v", err)
		}
	})
}

// FuzzImportNode: a root node of any bytes is a canonical tree without
// children, or an ErrBadCAR.
func FuzzImportNode(f *testing.F) {
	key := []byte("com.example.note/3jqfcqzm3fo2j") // of height 0
	value := dagCBOR([]byte{0xa0})
	for _, node := range []mst.NodeData{
		{Entries: []mst.EntryData{}},
		{Entries: []mst.EntryData{{KeySuffix: key, Value: value}}},
		{Entries: []mst.EntryData{{PrefixLen: 5, KeySuffix: key, Value: value}}},
		{Entries: []mst.EntryData{{PrefixLen: -1, KeySuffix: key, Value: value}}},
		{Left: &value, Entries: []mst.EntryData{}},
		{Entries: []mst.EntryData{{KeySuffix: key, Value: value, Right: &value}}},
	} {
		raw, _, err := node.Bytes()
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Add([]byte{0xa2, 0x61, 'e', 0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) // 2^64-1 entries
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) == 0 || len(raw) > maxImportBlock-commitCIDLength {
			return
		}
		root := dagCBOR(raw)
		s, err := fillSpool(&memoryFile{}, bytes.NewReader(appendCARBlock(appendCARHeader(nil, root), root, raw)))
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		checkWalk(t, &foreignRepo{did: "did:web:scout.test", spool: s, root: root})
	})
}

// checkWalk walks a repo. It is refused with ErrBadCAR, or canonical, which
// means: the very tree that indigo makes of its records.
func checkWalk(t *testing.T, repo *foreignRepo) {
	t.Helper()
	leaves := map[string]cid.Cid{}
	err := repo.walk(visitor{
		node: func(position, cid.Cid, []byte) error { return nil },
		record: func(path string, c cid.Cid) error {
			leaves[path] = c
			if _, _, err := repo.record(path, c); err != nil {
				require.ErrorIs(t, err, ErrBadCAR)
			}
			return nil
		},
	})
	if err != nil {
		require.ErrorIs(t, err, ErrBadCAR)
		return
	}
	tree, err := mst.LoadTreeFromMap(leaves)
	require.NoError(t, err)
	again, err := tree.RootCID()
	require.NoError(t, err)
	require.Equal(t, repo.root.String(), again.String())
}

// memoryFile is a spoolFile without a file: a run of the fuzzer costs no system call.
type memoryFile struct{ bytes.Buffer }

func (f *memoryFile) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(f.Bytes()).ReadAt(p, at)
}

func (f *memoryFile) Close() error { return nil }

// FuzzImportRepo gets past hashes and signatures, where a mutated CAR never
// comes: the input is the blocks of a repo from the leaves up, and each link in
// a block is made to name one of the blocks before it. The last is the root of
// the tree; the commit over it is signed. Whatever it is, it is a canonical
// repo or an ErrBadCAR.
func FuzzImportRepo(f *testing.F) {
	const did = "did:web:scout.test"
	key, err := atcrypto.GeneratePrivateKeyP256()
	require.NoError(f, err)
	public, err := key.PublicKey()
	require.NoError(f, err)
	open := func(t testing.TB, script []byte) *foreignRepo {
		made, blocks := relinked(script)
		if len(made) == 0 {
			return nil
		}
		commit, err := signCommit(repo.Commit{DID: did, Version: repo.ATPROTO_REPO_VERSION, Data: made[len(made)-1], Rev: "3jqfcqzm3fo2j"}, key)
		require.NoError(t, err)
		car := append(appendCARBlock(appendCARHeader(nil, commit.cid), commit.cid, commit.raw), blocks...)
		s, err := fillSpool(&memoryFile{}, bytes.NewReader(car))
		require.NoError(t, err)
		foreign, err := openForeign(did, s, []atcrypto.PublicKey{public})
		require.NoError(t, err)
		return foreign
	}
	for _, records := range []int{0, 1, 2, 10, 60} {
		script := scriptOf(f, records)
		seen := 0
		require.NoError(f, open(f, script).walk(visitor{
			node:   func(position, cid.Cid, []byte) error { return nil },
			record: func(string, cid.Cid) error { seen++; return nil },
		}))
		require.Equal(f, records, seen)
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if foreign := open(t, script); foreign != nil {
			checkWalk(t, foreign)
		}
	})
}

// relinked makes the blocks of a script: each is its length in two bytes, then its content.
func relinked(script []byte) (made []cid.Cid, blocks []byte) {
	for len(script) > 2 {
		size := min(int(binary.BigEndian.Uint16(script)), len(script)-2)
		raw := relink(bytes.Clone(script[2:2+size]), made)
		script = script[2+size:]
		if size > 0 {
			c := dagCBOR(raw)
			made, blocks = append(made, c), appendCARBlock(blocks, c, raw)
		}
	}
	return made, blocks
}

// linkHead stands before the 36 bytes of a CID in DAG-CBOR.
var linkHead = []byte("\xd8\x2a\x58\x25\x00")

// relink makes each link in a block name one of the blocks before it, as the
// last byte of its CID says: how many back.
func relink(raw []byte, made []cid.Cid) []byte {
	for at := 0; len(made) > 0; {
		i := bytes.Index(raw[at:], linkHead)
		if i < 0 || at+i+len(linkHead)+commitCIDLength > len(raw) {
			break
		}
		to := raw[at+i+len(linkHead):][:commitCIDLength]
		back := int(to[commitCIDLength-1]) % len(made)
		copy(to, made[len(made)-1-back].Bytes())
		at += i + len(linkHead) + commitCIDLength
	}
	return raw
}

// scriptOf is what FuzzImportRepo makes a good repo of so many records from.
func scriptOf(f *testing.F, records int) []byte {
	f.Helper()
	nodes := blockRecorder{byCID: map[cid.Cid][]byte{}}
	stored := nodes.byCID
	leaves := map[string]cid.Cid{}
	var order []cid.Cid // leaves first
	for i := range records {
		raw, err := atdata.MarshalCBOR(map[string]any{"$type": "com.example.note", "n": int64(i)})
		require.NoError(f, err)
		c := dagCBOR(raw)
		stored[c] = raw
		leaves[fmt.Sprintf("com.example.note/%013d", i)] = c
		order = append(order, c)
	}
	tree, err := mst.LoadTreeFromMap(leaves)
	require.NoError(f, err)
	root, err := tree.WriteDiffBlocks(f.Context(), &nodes)
	require.NoError(f, err)
	var visit func(c cid.Cid)
	visit = func(c cid.Cid) { // children before parents
		var node mst.NodeData
		require.NoError(f, node.UnmarshalCBOR(bytes.NewReader(stored[c])))
		if node.Left != nil {
			visit(*node.Left)
		}
		for _, e := range node.Entries {
			if e.Right != nil {
				visit(*e.Right)
			}
		}
		order = append(order, c)
	}
	visit(*root)
	index := map[cid.Cid]int{}
	var script []byte
	for i, c := range order {
		index[c] = i
		raw := bytes.Clone(stored[c])
		for at := 0; ; {
			j := bytes.Index(raw[at:], linkHead)
			if j < 0 {
				break
			}
			to := raw[at+j+len(linkHead):][:commitCIDLength]
			_, linked, err := cid.CidFromBytes(to)
			require.NoError(f, err)
			back := i - 1 - index[linked]
			require.Less(f, back, 256)
			to[commitCIDLength-1] = byte(back)
			at += j + len(linkHead) + commitCIDLength
		}
		script = binary.BigEndian.AppendUint16(script, uint16(len(raw)))
		script = append(script, raw...)
	}
	return script
}
