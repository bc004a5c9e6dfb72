package repostore

import (
	"bytes"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
)

// foreignRepo is a spooled CAR as a repo. Nothing of it is believed: not its
// hashes (the spool has checked those), not its tree, not its signature.
type foreignRepo struct {
	did   syntax.DID
	spool *spool
	root  cid.Cid // of the MST
	rev   syntax.TID
	count int64 // of its records, once it was walked

	purged int // how many CIDs were purged when its records were held against them
}

// openForeign reads the commit of a CAR and checks that it is of did and was
// signed by one of the keys.
func openForeign(did syntax.DID, s *spool, keys []atcrypto.PublicKey) (*foreignRepo, error) {
	raw, ok, err := s.block(s.root)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: its root, the commit %s, is missing", ErrBadCAR, s.root)
	}
	commit, err := decodeCommit(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: its commit, the root %s: %w", ErrBadCAR, s.root, err)
	}
	if commit.DID != string(did) {
		return nil, fmt.Errorf("%w: it is the repo of %s", ErrBadCAR, commit.DID)
	}
	rev, err := syntax.ParseTID(commit.Rev)
	if err != nil {
		return nil, fmt.Errorf("%w: the rev of its commit: %w", ErrBadCAR, err)
	}
	for _, key := range keys {
		if commit.VerifySignature(key) == nil {
			return &foreignRepo{did: did, spool: s, root: commit.Data, rev: rev}, nil
		}
	}
	return nil, fmt.Errorf("%w: its commit %s is not signed by a key of %s; export the repo again at its present host", ErrBadCAR, s.root, did)
}

// decodeCommit reads a commit and checks its form, not what it says.
func decodeCommit(raw []byte) (*repo.Commit, error) {
	var commit repo.Commit
	if err := decode(func() error { return commit.UnmarshalCBOR(bytes.NewReader(raw)) }); err != nil {
		return nil, err
	}
	if err := commit.VerifyStructure(); err != nil {
		return nil, err
	}
	return &commit, nil
}

// decode runs a decoder of foreign bytes. That it panics is their fault.
func decode(decoder func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoder panics: %v", p)
		}
	}()
	return decoder()
}

// visitor is told of a tree in depth-first pre-order, which is the order of
// positions for nodes and of paths for records.
type visitor struct {
	node   func(pos position, c cid.Cid, raw []byte) error
	record func(path string, c cid.Cid) error
}

// walk visits the whole tree and refuses it unless it is complete and
// canonical. Each node is checked where it stands: its keys are in order,
// within the range that its parent leaves, and each of the node's height; its
// children are exactly one lower; it is encoded the one way. The nodes are
// then those, and stand at those positions, that a tree built from the records
// would have. Heights fall at each step, so neither depth nor a circle needs
// another bound.
func (f *foreignRepo) walk(v visitor) error {
	node, raw, err := f.node(f.root)
	if err != nil {
		return err
	}
	if len(node.Entries) == 0 {
		if node.Left != nil {
			return fmt.Errorf("%w: its root node %s holds no key", ErrBadCAR, f.root)
		}
		return v.node(position{}, f.root, raw)
	}
	w := walk{foreignRepo: f, visitor: v}
	return w.visit(f.root, node, raw, mst.HeightForKey(node.Entries[0].KeySuffix), "")
}

// node reads and decodes a node and checks that it is encoded the one way.
func (f *foreignRepo) node(c cid.Cid) (*mst.NodeData, []byte, error) {
	raw, ok, err := f.spool.block(c)
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		return nil, nil, fmt.Errorf("%w: its MST node %s is missing", ErrBadCAR, c)
	}
	node, err := canonicalNode(c, raw)
	return node, raw, err
}

// canonicalNode decodes a node and checks that it is encoded the one way.
func canonicalNode(c cid.Cid, raw []byte) (*mst.NodeData, error) {
	var node mst.NodeData
	if err := decode(func() error { return node.UnmarshalCBOR(bytes.NewReader(raw)) }); err != nil {
		return nil, fmt.Errorf("%w: MST node %s: %w", ErrBadCAR, c, err)
	}
	again, _, err := node.Bytes()
	if err != nil || !bytes.Equal(again, raw) {
		return nil, fmt.Errorf("%w: MST node %s is not encoded as DAG-CBOR is", ErrBadCAR, c)
	}
	return &node, nil
}

// walk is a visit under way.
type walk struct {
	*foreignRepo
	visitor
	last string // the key before, "" before the first
}

// visit visits a node that must stand at height, with every key below upper
// ("" for no bound). That the keys lie above the node's lower key is their order.
func (w *walk) visit(c cid.Cid, node *mst.NodeData, raw []byte, height int, upper string) error {
	if len(node.Entries) == 0 && node.Left == nil {
		return fmt.Errorf("%w: MST node %s is empty", ErrBadCAR, c)
	}
	keys, err := keysOf(c, node, height)
	if err != nil {
		return err
	}
	if err := w.visitor.node(position{w.last, height}, c, raw); err != nil {
		return err
	}
	above := func(i int) string { // the upper bound of what stands before the ith key
		if i < len(keys) {
			return keys[i]
		}
		return upper
	}
	if err := w.child(node.Left, height, above(0)); err != nil {
		return err
	}
	for i, key := range keys {
		if key <= w.last || (upper != "" && key >= upper) {
			return fmt.Errorf("%w: MST node %s has %q out of order", ErrBadCAR, c, key)
		}
		w.last = key
		if err := w.visitor.record(key, node.Entries[i].Value); err != nil {
			return err
		}
		if err := w.child(node.Entries[i].Right, height, above(i+1)); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) child(c *cid.Cid, height int, upper string) error {
	if c == nil {
		return nil
	}
	if height == 0 {
		return fmt.Errorf("%w: its MST has node %s below the ground", ErrBadCAR, c)
	}
	node, raw, err := w.foreignRepo.node(*c)
	if err != nil {
		return err
	}
	return w.visit(*c, node, raw, height-1, upper)
}

// keysOf answers the whole keys of a node that stands at height.
func keysOf(c cid.Cid, node *mst.NodeData, height int) ([]string, error) {
	keys := make([]string, len(node.Entries))
	var last []byte
	for i, e := range node.Entries {
		if e.PrefixLen < 0 || e.PrefixLen > int64(len(last)) {
			return nil, fmt.Errorf("%w: MST node %s shares %d bytes with a key of %d", ErrBadCAR, c, e.PrefixLen, len(last))
		}
		key := append(bytes.Clone(last[:e.PrefixLen]), e.KeySuffix...)
		if !mst.IsValidKey(key) {
			return nil, fmt.Errorf("%w: MST node %s has a key of %d bytes", ErrBadCAR, c, len(key))
		}
		if shared := mst.CountPrefixLen(last, key); int64(shared) != e.PrefixLen {
			return nil, fmt.Errorf("%w: MST node %s shares %d bytes between keys that have %d in common", ErrBadCAR, c, e.PrefixLen, shared)
		}
		if at := mst.HeightForKey(key); at != height {
			return nil, fmt.Errorf("%w: MST node %s stands at height %d and has %q, of height %d", ErrBadCAR, c, height, key, at)
		}
		keys[i], last = string(key), key
	}
	return keys, nil
}

// record reads what the tree names at a path. It is atproto data of its
// collection; whether it is what its lexicon wants is not asked here.
func (f *foreignRepo) record(path string, c cid.Cid) (*lexicons.Record, syntax.RecordKey, error) {
	collection, rkey, err := syntax.ParseRepoPath(path)
	if err != nil || path != string(collection)+"/"+string(rkey) {
		return nil, "", fmt.Errorf("%w: %q is no record path", ErrBadCAR, path)
	}
	raw, ok, err := f.spool.block(c)
	if err != nil {
		return nil, "", err
	}
	if !ok {
		return nil, "", fmt.Errorf("%w: the record %s of %s is missing", ErrBadCAR, c, path)
	}
	record, err := lexicons.ParseCBOR(collection, raw)
	if err != nil {
		// Not wrapped: it is no refusal of the rules but of the file.
		return nil, "", fmt.Errorf("%w: the record of %s: %s", ErrBadCAR, path, err.Error())
	}
	return record, rkey, nil
}
