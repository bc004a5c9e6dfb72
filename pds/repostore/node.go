package repostore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/repo/mst"
	blocks "github.com/ipfs/go-block-format"
	"github.com/ipfs/go-cid"
	blockstore "github.com/ipfs/go-ipfs-blockstore"
	"github.com/multiformats/go-multihash"
)

// block is one block of a CAR.
type block struct {
	cid cid.Cid
	raw []byte
}

// dagCBOR computes the CID of a DAG-CBOR block.
func dagCBOR(raw []byte) cid.Cid {
	digest := sha256.Sum256(raw)
	hash, err := multihash.Encode(digest[:], multihash.SHA2_256)
	if err != nil {
		panic(err) // 32 bytes are a SHA-256
	}
	return cid.NewCidV1(cid.DagCBOR, hash)
}

// storedNode is an MST node with its block. It is shared between goroutines
// and never changed.
type storedNode struct {
	cid   cid.Cid
	block []byte
	node  mst.Node // without children; Height is -1 when it holds no key
}

// hydrated answers a copy to work on. Keys, values and child CIDs are only
// ever replaced by the tree, never written into, so they are shared.
func (s *storedNode) hydrated(height int) *mst.Node {
	n := &mst.Node{
		Entries: make([]mst.NodeEntry, len(s.node.Entries), len(s.node.Entries)+2),
		Height:  height, // a node without a key does not know its own (trap E)
		CID:     s.node.CID,
	}
	copy(n.Entries, s.node.Entries)
	return n
}

// newStoredNode keeps an encoded node of a working tree.
func newStoredNode(n *mst.Node, raw []byte) *storedNode {
	kept := &storedNode{cid: *n.CID, block: raw}
	kept.node = mst.Node{Entries: make([]mst.NodeEntry, len(n.Entries)), Height: -1}
	kept.node.CID = &kept.cid
	for i := range n.Entries {
		e := &n.Entries[i]
		if e.IsValue() {
			kept.node.Height = n.Height
			kept.node.Entries[i] = mst.NodeEntry{Key: e.Key, Value: e.Value}
		} else {
			kept.node.Entries[i] = mst.NodeEntry{ChildCID: e.ChildCID}
		}
	}
	return kept
}

// decodeNode reads the block of a node and holds it against its CID: what we
// stored ourselves and cannot read back must stop the write.
func decodeNode(c cid.Cid, raw []byte) (s *storedNode, err error) {
	// NodeData.Node panics on a prefix longer than the key before it (trap F).
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("%w: MST node %s: %v", ErrCorrupt, c, p)
		}
	}()
	if dagCBOR(raw) != c {
		return nil, fmt.Errorf("%w: MST node %s holds other bytes", ErrCorrupt, c)
	}
	data, err := mst.NodeDataFromCBOR(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("%w: MST node %s: %w", ErrCorrupt, c, err)
	}
	kept := &storedNode{cid: c, block: raw}
	kept.node = data.Node(&kept.cid)
	return kept, nil
}

// blockRecorder is as much of a blockstore as WriteDiffBlocks calls.
type blockRecorder struct {
	blockstore.Blockstore // nil: only Put is called
	blocks                []block
	byCID                 map[cid.Cid][]byte
}

func (r *blockRecorder) Put(_ context.Context, b blocks.Block) error {
	r.blocks = append(r.blocks, block{cid: b.Cid(), raw: b.RawData()})
	r.byCID[b.Cid()] = b.RawData()
	return nil
}
