package repostore

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/ipfs/go-cid"
)

// position is where an MST node stands: the last key before its range ("" at
// the left edge) and its height. Two nodes never share one: nodes of one
// height have disjoint ranges with a key between them.
type position struct {
	lower  string
	height int
}

// nodeSource answers the stored nodes of one repo.
type nodeSource interface {
	// node answers the node at pos, which must be want.
	node(ctx context.Context, pos position, want cid.Cid) (*storedNode, error)
	// top answers the root node and its height.
	top(ctx context.Context, want cid.Cid) (*storedNode, error)
}

// tree is the part of a repo's MST that a batch has needed so far.
//
// Every node whose position a change of key k can move is hydrated by
// hydrate(k): a position moves only when k becomes, or was, the node's lower
// key (or when the node is split or merged, on k's path). Then the node's range
// begins or ends at k, and so does the range of each of its ancestors below
// k's own node, so that lower <= k <= upper holds for every entry on the way
// down to it. A node that was never loaded therefore still stands where its
// parent's entries say.
type tree struct {
	mst    mst.Tree
	source nodeSource
	loaded map[position]*storedNode // what is stored at the positions read
}

func openTree(ctx context.Context, source nodeSource, root cid.Cid) (*tree, error) {
	top, err := source.top(ctx, root)
	if err != nil {
		return nil, err
	}
	t := &tree{source: source, loaded: make(map[position]*storedNode, 16)}
	if len(top.node.Entries) == 0 {
		// An empty node that was read has no height, a fresh one has (trap E).
		t.mst = mst.NewEmptyTree()
		t.loaded[position{}] = top
		return t, nil
	}
	if top.node.Height < 0 {
		return nil, fmt.Errorf("%w: root node %s has no key", ErrCorrupt, root)
	}
	t.mst.Root = top.hydrated(top.node.Height)
	t.loaded[position{height: top.node.Height}] = top
	return t, nil
}

// hydrate loads the nodes that reading or changing key needs: its path, and
// the edges of the subtrees beside it, which a split, a merge or a covering
// proof touches.
func (t *tree) hydrate(ctx context.Context, key string) error {
	return t.hydrateNode(ctx, t.mst.Root, "", nil, []byte(key))
}

func (t *tree) hydrateNode(ctx context.Context, n *mst.Node, lower string, upper, key []byte) error {
	for i := range n.Entries {
		e := &n.Entries[i]
		if e.IsValue() {
			lower = string(e.Key)
			continue
		}
		next := upper
		if i+1 < len(n.Entries) {
			next = n.Entries[i+1].Key
		}
		if string(key) < lower || (next != nil && bytes.Compare(key, next) > 0) {
			continue
		}
		if e.Child == nil {
			pos := position{lower: lower, height: n.Height - 1}
			stored, err := t.source.node(ctx, pos, *e.ChildCID)
			if err != nil {
				return err
			}
			t.loaded[pos] = stored
			e.Child = stored.hydrated(pos.height)
		}
		if err := t.hydrateNode(ctx, e.Child, lower, next, key); err != nil {
			return err
		}
	}
	return nil
}

// get answers the CID at key, nil for none.
func (t *tree) get(ctx context.Context, key string) (*cid.Cid, error) {
	if err := t.hydrate(ctx, key); err != nil {
		return nil, err
	}
	return t.mst.Get([]byte(key))
}

// set puts value at key, or removes key when value is nil. After an error the
// tree may be half changed: throw it away (trap D).
func (t *tree) set(ctx context.Context, key string, value *cid.Cid) error {
	if err := t.hydrate(ctx, key); err != nil {
		return err
	}
	// ApplyOp makes a key slice of its own, which the tree keeps (trap H).
	if _, err := repo.ApplyOp(&t.mst, key, value); err != nil {
		return fmt.Errorf("change MST at %s: %w", key, err)
	}
	if t.mst.IsEmpty() {
		// The emptied root keeps its height, and the next key would get a root
		// that is only a pointer (trap A).
		t.mst = mst.NewEmptyTree()
	}
	return nil
}

// treeDiff is what a changed tree means for the store and for the event.
type treeDiff struct {
	root cid.Cid
	// proof holds the changed nodes and the unchanged ones that prove the
	// change, root first.
	proof []block
	// nodes are the positions whose node is another now; nil where none stands any more.
	nodes map[position]*storedNode
}

// diff encodes the changed nodes and compares the positions.
func (t *tree) diff(ctx context.Context) (*treeDiff, error) {
	// WriteDiffBlocks comes before anything that computes the root: that
	// clears the marks of what has changed (trap B).
	recorder := &blockRecorder{byCID: make(map[cid.Cid][]byte, 16)}
	root, err := t.mst.WriteDiffBlocks(ctx, recorder)
	if err != nil {
		return nil, fmt.Errorf("encode MST: %w", err)
	}
	slices.Reverse(recorder.blocks)
	d := &treeDiff{root: *root, proof: recorder.blocks, nodes: make(map[position]*storedNode, len(recorder.blocks)+2)}
	loaded := make(map[cid.Cid][]byte, len(t.loaded))
	for _, n := range t.loaded {
		loaded[n.cid] = n.block
	}
	now := make(map[position]struct{}, len(t.loaded)+2)
	var walk func(n *mst.Node, lower string) error
	walk = func(n *mst.Node, lower string) error {
		pos := position{lower: lower, height: n.Height}
		now[pos] = struct{}{}
		if before := t.loaded[pos]; before == nil || before.cid != *n.CID {
			raw, ok := recorder.byCID[*n.CID]
			if !ok {
				// The node only moved.
				if raw, ok = loaded[*n.CID]; !ok {
					return fmt.Errorf("encode MST: node %s at %q has no block", n.CID, lower)
				}
			}
			d.nodes[pos] = newStoredNode(n, raw)
		}
		for i := range n.Entries {
			switch e := &n.Entries[i]; {
			case e.IsValue():
				lower = string(e.Key)
			case e.Child != nil:
				if err := walk(e.Child, lower); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := walk(t.mst.Root, ""); err != nil {
		return nil, err
	}
	for pos := range t.loaded {
		if _, ok := now[pos]; !ok {
			d.nodes[pos] = nil
		}
	}
	return d, nil
}

// pathTo answers the nodes from the root down to where key stands or would
// stand, and the CID at key, nil for none: all that a proof needs.
func pathTo(ctx context.Context, source nodeSource, root cid.Cid, key string) ([]*storedNode, *cid.Cid, error) {
	n, err := source.top(ctx, root)
	if err != nil {
		return nil, nil, err
	}
	path := []*storedNode{n}
	pos := position{height: n.node.Height}
	for {
		var child *cid.Cid
		for i := range n.node.Entries {
			e := &n.node.Entries[i]
			if e.IsChild() {
				child = e.ChildCID
				continue
			}
			if string(e.Key) == key {
				return path, e.Value, nil
			}
			if string(e.Key) > key {
				break
			}
			pos.lower, child = string(e.Key), nil
		}
		if child == nil {
			return path, nil, nil
		}
		pos.height--
		if n, err = source.node(ctx, pos, *child); err != nil {
			return nil, nil, err
		}
		path = append(path, n)
	}
}
