package repostore

import (
	"bytes"
	"errors"
	"testing"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
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
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, car []byte) {
		s, err := newSpool(dir, bytes.NewReader(car))
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
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) == 0 || len(raw) > maxImportBlock-commitCIDLength {
			return
		}
		root := dagCBOR(raw)
		s, err := newSpool(dir, bytes.NewReader(appendCARBlock(appendCARHeader(nil, root), root, raw)))
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		leaves := map[string]cid.Cid{}
		repo := foreignRepo{did: "did:web:scout.test", spool: s, root: root}
		err = repo.walk(visitor{
			node:   func(position, cid.Cid, []byte) error { return nil },
			record: func(path string, c cid.Cid) error { leaves[path] = c; return nil },
		})
		if err != nil {
			require.ErrorIs(t, err, ErrBadCAR)
			return
		}
		// Canonical means: the very tree that indigo makes of those records.
		tree, err := mst.LoadTreeFromMap(leaves)
		require.NoError(t, err)
		again, err := tree.RootCID()
		require.NoError(t, err)
		require.Equal(t, root.String(), again.String())
	})
}
