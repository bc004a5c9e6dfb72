package ingest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
)

// maxTreeDepth bounds an MST: a key's height is counted in pairs of zero bits
// of a SHA-256.
const maxTreeDepth = 129

// leaf is a record in a tree.
type leaf struct {
	path string
	cid  cid.Cid
}

// walker looks at every node of a tree that a car holds before any other code
// does: indigo's loader panics on a prefix longer than the key before it,
// follows one node named twice twice (and so on down), and has no bound on
// depth.
type walker struct {
	car     *car
	seen    map[cid.Cid]bool
	order   []cid.Cid // the nodes that are here, parents first
	leaves  []leaf
	missing int // nodes that are named and not here
}

// walk visits the tree below root. It checks what could harm a reader, not
// that the tree is canonical.
func (c *car) walk(root cid.Cid) (*walker, error) {
	w := &walker{car: c, seen: map[cid.Cid]bool{}}
	return w, w.node(root, 0)
}

func (w *walker) node(id cid.Cid, depth int) error {
	if depth > maxTreeDepth {
		return errors.New("the tree is too deep")
	}
	if w.seen[id] {
		return fmt.Errorf("the tree names node %s twice", id)
	}
	w.seen[id] = true
	raw, ok := w.car.blocks[id]
	if !ok {
		w.missing++
		return nil
	}
	w.order = append(w.order, id)
	node, err := mst.NodeDataFromCBOR(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("node %s: %w", id, err)
	}
	if node.Left != nil {
		if err := w.node(*node.Left, depth+1); err != nil {
			return err
		}
	}
	var key []byte
	for _, e := range node.Entries {
		if e.PrefixLen < 0 || e.PrefixLen > int64(len(key)) {
			return fmt.Errorf("node %s: prefix of %d bytes on a key of %d", id, e.PrefixLen, len(key))
		}
		key = append(bytes.Clone(key[:e.PrefixLen]), e.KeySuffix...)
		if !mst.IsValidKey(key) {
			return fmt.Errorf("node %s: %q is no record path", id, key)
		}
		w.leaves = append(w.leaves, leaf{path: string(key), cid: e.Value})
		if e.Right != nil {
			if err := w.node(*e.Right, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// emptyRoot is the root of a tree without records.
func emptyRoot() (cid.Cid, error) {
	tree := mst.NewEmptyTree()
	root, err := tree.RootCID()
	if err != nil {
		return cid.Undef, err
	}
	return *root, nil
}

// rebuildsTo checks that the leaves make the very tree that root names: with
// it, that nothing is missing, out of order, at the wrong height or repeated.
func rebuildsTo(leaves []leaf, root cid.Cid) error {
	all := make(map[string]cid.Cid, len(leaves))
	for _, l := range leaves {
		if _, twice := all[l.path]; twice {
			return fmt.Errorf("the tree has %s twice", l.path)
		}
		all[l.path] = l.cid
	}
	tree, err := mst.LoadTreeFromMap(all)
	if err != nil {
		return err
	}
	got, err := tree.RootCID()
	if err != nil {
		return err
	}
	if !got.Equals(root) {
		return fmt.Errorf("the records make a tree with root %s, the commit names %s", got, root)
	}
	return nil
}

// parsePath reads the path of a record and bounds it.
func parsePath(did syntax.DID, path string) (syntax.NSID, syntax.RecordKey, error) {
	collection, rkey, err := syntax.ParseRepoPath(path)
	if err != nil {
		return "", "", fmt.Errorf("record path %q: %w", path, err)
	}
	if len("at://")+len(did)+1+len(path) > maxURI {
		return "", "", fmt.Errorf("record path of %d bytes is too long", len(path))
	}
	return collection, rkey, nil
}
