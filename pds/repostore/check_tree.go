package repostore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
)

// treeChecker walks a stored tree: what the nodes say must come next is held
// against what comes next in the tables, which have the same order.
type treeChecker struct {
	*repoChecker
	nodes, records *feed
	refs           [2]*feed // references, and those that are awaited
	root           position
	last           string // the key before, "" before the first
}

// feed is a table of one repo, one row ahead.
type feed struct {
	pager
	row *exportRow // nil at the end
}

func newFeed(fetch func(p *pager, limit int) error) (*feed, error) {
	f := &feed{pager: pager{fetch: fetch}}
	return f, f.advance()
}

func (f *feed) advance() (err error) {
	f.row, err = f.pager.next()
	return err
}

// checkTree checks nodes, records and references.
func (c *repoChecker) checkTree(ctx context.Context) (err error) {
	w := treeChecker{repoChecker: c}
	if w.nodes, err = newFeed(func(p *pager, limit int) error { return p.fetchNodes(c.tx, c.row.id, "", limit) }); err != nil {
		return err
	}
	if w.records, err = newFeed(func(p *pager, limit int) error { return p.fetchRecords(c.tx, c.row.id, "", limit) }); err != nil {
		return err
	}
	for i, table := range []string{"blob_refs", "awaited_blobs"} {
		if w.refs[i], err = newFeed(func(p *pager, limit int) error { return p.fetchReferences(c.tx, table, c.row.id, limit) }); err != nil {
			return err
		}
	}
	height, err := c.rootHeight()
	if err != nil {
		return err
	}
	w.root = position{height: height}
	if err := w.visit(ctx, c.row.Data, height, ""); err != nil {
		return err
	}
	// Whatever is left, no node has named.
	if err := w.passNodes(position{lower: "\xff"}); err != nil {
		return err
	}
	if err := w.passRecords("\xff", true); err != nil {
		return err
	}
	return w.passReferences("\xff", true)
}

// rootHeight answers where the root stands: its own row says so, or else that
// of the highest node of the left edge.
func (c *repoChecker) rootHeight() (height int, err error) {
	_, err = one(c.tx, "SELECT height FROM nodes WHERE repo_id = ? AND lower_key = '' ORDER BY CASE WHEN cid = ? THEN 0 ELSE 1 END, height DESC LIMIT 1",
		[]any{c.row.id, c.row.Data.Bytes()}, &height)
	return height, err
}

// fetchReferences reads a table of references in the order of their paths.
func (p *pager) fetchReferences(tx *gorm.DB, table string, repoID int64, limit int) error {
	path, key := "", []byte{}
	if p.last != nil {
		path, key = p.last.path, p.last.cid
	}
	return p.collect(tx, "SELECT path, 0, cid, NULL FROM "+table+` WHERE repo_id = ? AND path >= ? AND (path > ? OR cid > ?) ORDER BY path, cid LIMIT ?`,
		repoID, path, path, key, limit)
}

// visit checks the node that must stand after the last key at this height, and
// all below it; upper bounds its keys, "" for no bound.
func (w *treeChecker) visit(ctx context.Context, want cid.Cid, height int, upper string) error {
	at := position{w.last, height}
	node, err := w.node(at, want)
	if err != nil {
		return err
	}
	if node == nil {
		return w.skip(at, upper)
	}
	keys, wrong := keysOf(want, node, height)
	switch {
	case wrong != nil:
	case len(node.Entries) == 0 && (at == w.root) == (node.Left != nil):
		// Below the root, a node without keys leads on to where some are. The root
		// has none only when there is nothing at all.
		wrong = errors.New("it holds no key")
	case len(node.Entries) == 0 && at == w.root && height > 0:
		wrong = errors.New("an empty tree has no height")
	case height == 0 && hasChild(node):
		wrong = errors.New("it has a child below the ground")
	}
	for i := 0; wrong == nil && i < len(keys); i++ {
		if keys[i] <= w.last && i == 0 || i > 0 && keys[i] <= keys[i-1] || upper != "" && keys[i] >= upper {
			wrong = fmt.Errorf("%q is out of order", keys[i])
		}
	}
	if wrong != nil {
		if err := w.tell(NodeMalformed, at.String(), "", plain(wrong)); err != nil {
			return err
		}
		return w.skip(at, upper)
	}
	return w.entries(ctx, node, keys, height, upper)
}

// entries goes through what a node names, in order.
func (w *treeChecker) entries(ctx context.Context, node *mst.NodeData, keys []string, height int, upper string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	child := func(c *cid.Cid, next int) error {
		if c == nil {
			return nil
		}
		bound := upper
		if next < len(keys) {
			bound = keys[next]
		}
		return w.visit(ctx, *c, height-1, bound)
	}
	if err := child(node.Left, 0); err != nil {
		return err
	}
	for i, key := range keys {
		w.last = key
		if err := w.record(key, node.Entries[i].Value); err != nil {
			return err
		}
		if err := child(node.Entries[i].Right, i+1); err != nil {
			return err
		}
	}
	return nil
}

func hasChild(node *mst.NodeData) bool {
	if node.Left != nil {
		return true
	}
	for _, e := range node.Entries {
		if e.Right != nil {
			return true
		}
	}
	return false
}

// node takes the node at a position, which must be want; nil after it told why not.
func (w *treeChecker) node(at position, want cid.Cid) (*mst.NodeData, error) {
	if err := w.passNodes(at); err != nil {
		return nil, err
	}
	row := w.nodes.row
	if row == nil || comparePositions(row.path, row.height, at) != 0 {
		return nil, w.tell(NodeMissing, at.String(), want.String(), "")
	}
	w.tally.Nodes++
	raw, named := row.block, string(row.cid) == want.KeyString()
	sum := dagCBOR(raw)
	kind, found := RepoFaultKind(""), sum.String()
	switch {
	case named && sum != want:
		kind = NodeDamaged
	case !named:
		kind, found = NodeMismatch, nameOf(row.cid)
	}
	if kind != "" {
		if err := w.tell(kind, at.String(), want.String(), found); err != nil {
			return nil, err
		}
	}
	if err := w.nodes.advance(); err != nil || sum != want {
		return nil, err
	}
	node, err := canonicalNode(want, raw)
	if err != nil {
		return nil, w.tell(NodeMalformed, at.String(), "", plain(err))
	}
	return node, nil
}

// passNodes tells of the nodes before a position: the tree does not reach them.
func (w *treeChecker) passNodes(before position) error {
	for row := w.nodes.row; row != nil && comparePositions(row.path, row.height, before) < 0; row = w.nodes.row {
		w.tally.Nodes++
		if err := w.tell(NodeExtra, position{row.path, row.height}.String(), "", nameOf(row.cid)); err != nil {
			return err
		}
		if err := w.nodes.advance(); err != nil {
			return err
		}
	}
	return nil
}

// skip passes what lies below a node that cannot be read. Its bytes are still
// held against their CIDs; whether they belong there is not known.
func (w *treeChecker) skip(at position, upper string) error {
	for row := w.nodes.row; row != nil && (upper == "" || row.path < upper); row = w.nodes.row {
		w.tally.Nodes++
		if sum := dagCBOR(row.block); string(row.cid) != sum.KeyString() {
			if err := w.tell(NodeDamaged, position{row.path, row.height}.String(), nameOf(row.cid), sum.String()); err != nil {
				return err
			}
		}
		if err := w.nodes.advance(); err != nil {
			return err
		}
	}
	if upper == "" {
		upper = "\xff"
	}
	return w.passRecords(upper, false)
}

// record takes the record at a path, which must be want.
func (w *treeChecker) record(path string, want cid.Cid) error {
	if err := w.passRecords(path, true); err != nil {
		return err
	}
	row := w.records.row
	if row == nil || row.path != path {
		if err := w.tell(RecordMissing, w.uri(path), want.String(), ""); err != nil {
			return err
		}
		return w.dropReferences(path)
	}
	sum := dagCBOR(row.block)
	kind, found := RepoFaultKind(""), sum.String()
	switch named := string(row.cid) == want.KeyString(); {
	case named && sum != want:
		kind = RecordDamaged
	case !named:
		kind, found = RecordMismatch, nameOf(row.cid)
	}
	if kind != "" {
		if err := w.tell(kind, w.uri(path), want.String(), found); err != nil {
			return err
		}
	}
	return w.takeRecord(sum == want)
}

// passRecords passes the records before a path, which no node named; with
// reached, no node could have, and each is told.
func (w *treeChecker) passRecords(before string, reached bool) error {
	for row := w.records.row; row != nil && row.path < before; row = w.records.row {
		sum := dagCBOR(row.block)
		whole := string(row.cid) == sum.KeyString()
		if reached {
			if err := w.tell(RecordExtra, w.uri(row.path), "", nameOf(row.cid)); err != nil {
				return err
			}
		} else if !whole {
			if err := w.tell(RecordDamaged, w.uri(row.path), nameOf(row.cid), sum.String()); err != nil {
				return err
			}
		}
		if err := w.takeRecord(whole); err != nil {
			return err
		}
	}
	return nil
}

// takeRecord passes the record that comes next, and its references; whole says
// that its bytes can be believed.
func (w *treeChecker) takeRecord(whole bool) error {
	row := w.records.row
	w.tally.Records++
	if err := w.passReferences(row.path, true); err != nil {
		return err
	}
	if !whole {
		if err := w.dropReferences(row.path); err != nil {
			return err
		}
		return w.records.advance()
	}
	record, err := parseRow(row.path, row.block)
	if err != nil {
		if err := w.tell(RecordMalformed, w.uri(row.path), "atproto data of its collection", plain(err)); err != nil {
			return err
		}
		if err := w.dropReferences(row.path); err != nil {
			return err
		}
		return w.records.advance()
	}
	if err := w.holdReferences(row.path, record.Blobs); err != nil {
		return err
	}
	return w.records.advance()
}

// parseRow reads a stored record.
func parseRow(path string, raw []byte) (*lexicons.Record, error) {
	collection, rkey, err := syntax.ParseRepoPath(path)
	if err != nil || path != string(collection)+"/"+string(rkey) {
		return nil, errors.New("its path is none")
	}
	return lexicons.ParseCBOR(collection, raw)
}

// holdReferences holds the references of a path against what its record names.
func (w *treeChecker) holdReferences(path string, blobs []lexicons.BlobRef) error {
	named := make(map[string]bool, len(blobs)) // true once a row has it
	for _, b := range blobs {
		named[b.CID.KeyString()] = false
	}
	for _, table := range w.refs {
		for ; table.row != nil && table.row.path == path; w.tally.References++ {
			if _, ok := named[string(table.row.cid)]; ok {
				named[string(table.row.cid)] = true
			} else if err := w.tell(ReferenceExtra, w.uri(path), "", nameOf(table.row.cid)); err != nil {
				return err
			}
			if err := table.advance(); err != nil {
				return err
			}
		}
	}
	for _, b := range blobs {
		if !named[b.CID.KeyString()] {
			named[b.CID.KeyString()] = true
			if err := w.tell(ReferenceMissing, w.uri(path), b.CID.String(), ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// passReferences passes those before a path; with told, as of no record.
func (w *treeChecker) passReferences(before string, told bool) error {
	for _, table := range w.refs {
		for ; table.row != nil && table.row.path < before; w.tally.References++ {
			if told {
				if err := w.tell(ReferenceExtra, w.uri(table.row.path), "", nameOf(table.row.cid)); err != nil {
					return err
				}
			}
			if err := table.advance(); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropReferences passes those of a record that cannot be read.
func (w *treeChecker) dropReferences(path string) error {
	if err := w.passReferences(path, true); err != nil {
		return err
	}
	return w.passReferences(path+"\x00", false)
}

func (w *treeChecker) uri(path string) string { return string(recordURI(w.did, path)) }

// String names a position in a fault.
func (p position) String() string { return fmt.Sprintf("mst/%d/%s", p.height, p.lower) }

// plain is what an error of an import's checks says of a stored repo.
func plain(err error) string {
	return strings.TrimPrefix(err.Error(), ErrBadCAR.Error()+": ")
}
