package repostore

import (
	"context"
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
	"herbarium.garden/pds/sequencer"
)

// layer is one prepared commit: all that it changes, and nothing stored yet.
// Layers of one DID lie on each other; each is read by the writes prepared
// after it and never changed once it is in the committer's queue.
type layer struct {
	actor *actor
	epoch uint64 // of the actor when it was prepared: another one means that the layer was dropped

	repoID      int64
	base, head  Head
	commitBlock []byte
	baseCount   int64                    // of records, before this commit
	count       int64                    // and with it
	nodes       map[position]*storedNode // nil where no node stands any more
	records     map[string]*recordChange
	tombstones  map[string]*lexicons.Tombstone // nil where a tombstone gives way to a new record
	edges       map[string]edge                // by the successor's path
	successors  map[syntax.ATURI][]string      // the same edges from their targets
	event       sequencer.CommitDraft

	done chan struct{} // closed once err is decided
	err  error         // nil: committed
}

// recordChange is what one commit does to a path.
type recordChange struct {
	cid   cid.Cid // cid.Undef: deleted
	cbor  []byte
	rev   syntax.TID
	blobs []lexicons.BlobRef
	fresh bool // nothing stood at the path before
}

func (c *recordChange) deleted() bool { return !c.cid.Defined() }

// row is the repo once the layer is stored.
func (l *layer) row() repoRow { return repoRow{id: l.repoID, Head: l.head, records: l.count} }

// size is roughly what the layer adds to a transaction, in bytes.
func (l *layer) size() int { return 2 * len(l.event.Blocks) }

// merged is the sum of consecutive layers of one DID: only the last state of
// each position and path is stored, whatever the steps that the events show.
type merged struct {
	nodes      map[position]nodeAt
	records    map[string]*recordChange
	tombstones map[string]*lexicons.Tombstone
	edges      map[string]edge
}

// edge is a link of a chain.
type edge struct {
	target lexicons.StrongRef
	rev    syntax.TID // of the commit that wrote the successor
}

// nodeAt is a node and the rev of the commit that put it there.
type nodeAt struct {
	*storedNode // nil: none
	rev         syntax.TID
}

func mergeLayers(layers []*layer) merged {
	m := merged{
		nodes:      make(map[position]nodeAt, len(layers[0].nodes)),
		records:    make(map[string]*recordChange, len(layers)),
		tombstones: map[string]*lexicons.Tombstone{},
		edges:      map[string]edge{},
	}
	for _, l := range layers {
		for pos, n := range l.nodes {
			m.nodes[pos] = nodeAt{n, l.head.Rev}
		}
		for path, change := range l.records {
			if before, ok := m.records[path]; ok && before.fresh != change.fresh {
				last := *change
				last.fresh = before.fresh
				change = &last
			}
			m.records[path] = change
		}
		for path, t := range l.tombstones {
			m.tombstones[path] = t
		}
		for path, e := range l.edges {
			m.edges[path] = e
		}
	}
	return m
}

// mostTombstones bounds what a batch reads ahead.
const mostTombstones = 1000

// view is a repo as the next write of its DID sees it: what is stored, under
// the layers that are not, the oldest first. A layer that has been stored in
// the meantime may stay: it says what the tables say.
type view struct {
	store  *Store
	did    syntax.DID
	repoID int64
	head   Head
	layers []*layer
	read   reader
	stones map[string]*lexicons.Tombstone // read before; the rules and the batch ask for the same ones
}

// node is part of nodeSource.
func (v *view) node(ctx context.Context, pos position, want cid.Cid) (*storedNode, error) {
	for i := len(v.layers) - 1; i >= 0; i-- {
		if n, ok := v.layers[i].nodes[pos]; ok {
			if n == nil || n.cid != want {
				return nil, errMoved
			}
			return n, nil
		}
	}
	if n, ok := v.store.nodes.Get(want); ok {
		return n, nil
	}
	n, err := v.read.node(ctx, v.repoID, pos, want)
	if err == nil {
		v.store.remember(n)
	}
	return n, err
}

// top is part of nodeSource.
func (v *view) top(ctx context.Context, want cid.Cid) (*storedNode, error) {
	for i := len(v.layers) - 1; i >= 0; i-- {
		for pos, n := range v.layers[i].nodes {
			if pos.lower == "" && n != nil && n.cid == want {
				return n, nil
			}
		}
	}
	if n, ok := v.store.nodes.Get(want); ok {
		return n, nil
	}
	n, err := v.read.top(ctx, v.repoID, want)
	if err == nil {
		v.store.remember(n)
	}
	return n, err
}

// record answers what stands at path, nil for nothing.
func (v *view) record(ctx context.Context, path string) (*recordChange, error) {
	for i := len(v.layers) - 1; i >= 0; i-- {
		if change, ok := v.layers[i].records[path]; ok {
			if change.deleted() {
				return nil, nil
			}
			return change, nil
		}
	}
	return v.read.record(ctx, v.did, path)
}

// tombstone answers the tombstone at path, nil for none.
func (v *view) tombstone(ctx context.Context, path string) (*lexicons.Tombstone, error) {
	for i := len(v.layers) - 1; i >= 0; i-- {
		if t, ok := v.layers[i].tombstones[path]; ok {
			return t, nil
		}
	}
	if stone, ok := v.stones[path]; ok {
		return stone, nil
	}
	stone, err := v.read.tombstone(ctx, v.did, path)
	if err == nil {
		v.stones[path] = stone
	}
	return stone, err
}

// readAhead reads the tombstones of many paths at once: all that lie in their
// range. When those are too many, each path is looked up when its turn comes.
func (v *view) readAhead(ctx context.Context, paths []string) error {
	if len(paths) < 2 {
		return nil
	}
	stones, err := v.read.tombstones(ctx, v.did, slices.Min(paths), slices.Max(paths), mostTombstones)
	if err != nil || len(stones) == mostTombstones {
		return err
	}
	for _, path := range paths {
		v.stones[path] = stones[path]
	}
	return nil
}
