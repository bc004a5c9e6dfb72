package index

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

// How chains are kept flat. Observations point back at what they supersede, so
// the counted edges form trees. Each node carries the number of its tree (the
// chain), a position along it, and the number of its branch: the path that
// goes, at each fork, on into the child that is chosen. A branch knows its
// head. So the head of any member, how far behind it is, and the members in
// order are one look-up each, and adding to the end of a chain, or to its
// beginning, writes a constant number of rows. Everything else (a fork, two
// chains that turn out to be one, a deleted head) marks the chain as tangled,
// and untangle computes its shape anew, once per transaction, in memory.

// nodeRow is an observation, or the tombstone of one, in its chain.
type nodeRow struct {
	URI        string `gorm:"column:uri"`
	Did        string
	Rkey       string
	CID        string `gorm:"column:cid"`
	Live       bool
	Future     bool
	TargetURI  string `gorm:"column:target_uri"`
	TargetCID  string `gorm:"column:target_cid"`
	Edge       string
	Chain      int64
	Branch     int64
	Position   int64
	Forked     bool
	Bereft     bool
	ObservedAt string
	IndexedAt  string
}

const nodeColumns = "uri, did, rkey, cid, live, future, target_uri, target_cid, edge, chain, branch, position, forked, bereft, observed_at, indexed_at"

// counted tells that the node's edge links it into the chain of its target.
func (n *nodeRow) counted() bool {
	return n.Edge == string(EdgeExact) || n.Edge == string(EdgeWeak)
}

type branchRow struct {
	Branch  int64
	Chain   int64
	Main    bool
	HeadURI string `gorm:"column:head_uri"`
}

func (w *writer) label() int64 {
	n := w.nextLabel
	w.nextLabel++
	return n
}

func (w *writer) nodes(where string, args ...any) ([]nodeRow, error) {
	var rows []nodeRow
	if err := w.tx.Raw("SELECT "+nodeColumns+" FROM chain_nodes WHERE "+where, args...).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("read chain nodes: %w", err)
	}
	return rows, nil
}

func (w *writer) branch(id int64) (branchRow, error) {
	var b branchRow
	err := w.tx.Raw("SELECT branch, chain, main, head_uri FROM chain_branches WHERE branch = ?", id).Scan(&b).Error
	return b, err
}

func (w *writer) addBranch(b branchRow) error {
	return w.tx.Exec("INSERT INTO chain_branches (branch, chain, main, head_uri) VALUES (?, ?, ?, ?)", b.Branch, b.Chain, b.Main, b.HeadURI).Error
}

func (w *writer) setHead(branch int64, uri string) error {
	return w.tx.Exec("UPDATE chain_branches SET head_uri = ? WHERE branch = ?", uri, branch).Error
}

func (w *writer) insertNode(n *nodeRow) error {
	err := w.tx.Exec("INSERT INTO chain_nodes ("+nodeColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		n.URI, n.Did, n.Rkey, n.CID, n.Live, n.Future, n.TargetURI, n.TargetCID, n.Edge, n.Chain, n.Branch, n.Position,
		n.Forked, n.Bereft, n.ObservedAt, n.IndexedAt).Error
	if err != nil {
		return fmt.Errorf("insert chain node %s: %w", n.URI, err)
	}
	return nil
}

// addNode takes an observation that is witnessed for the first time into the
// chains, and tells whether it is the head of its branch, as far as that can
// be said before untangle.
func (w *writer) addNode(row *journalRow, live bool) (head bool, err error) {
	f, err := decodeFacts(row.Facts)
	if err != nil {
		return false, err
	}
	n := &nodeRow{
		URI: row.URI, Did: row.Did, Rkey: row.Rkey, CID: row.CID, Live: live,
		Future: lexicons.FutureKey(row.Rkey, textTime(row.WitnessedAt)), ObservedAt: f.ObservedAt, IndexedAt: row.WitnessedAt,
	}
	var target *nodeRow
	if f.Supersedes != nil {
		n.TargetURI, n.TargetCID = f.Supersedes.URI, f.Supersedes.CID
		if target, err = w.link(n); err != nil {
			return false, err
		}
	}
	waiting, err := w.nodes("target_uri = ? AND edge = ?", n.URI, string(EdgePending))
	if err != nil {
		return false, err
	}
	switch {
	case len(waiting) == 0 && target == nil:
		return live, w.startChain(n)
	case len(waiting) == 0:
		if done, err := w.extendChain(n, target); done || err != nil {
			return true, err
		}
		if done, err := w.forkChain(n, target); done || err != nil {
			return true, err
		}
	case len(waiting) == 1 && target == nil:
		if done, err := w.prependToChain(n, &waiting[0]); done || err != nil {
			return false, err
		}
	}
	return live, w.joinChains(n, target, waiting)
}

// link decides what the node's supersedes link is worth, and finds its target
// when it counts.
func (w *writer) link(n *nodeRow) (*nodeRow, error) {
	uri := syntax.ATURI(n.TargetURI)
	if uri.Collection() != lexicons.ObservationNSID || n.TargetURI == n.URI {
		n.Edge = string(EdgeIgnored)
		return nil, nil
	}
	trusted, err := w.trusted(n.Did, uri.Authority().String())
	if err != nil {
		return nil, err
	}
	if !trusted {
		n.Edge = string(EdgeProposal)
		return nil, nil
	}
	found, err := w.nodes("uri = ?", n.TargetURI)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		n.Edge = string(EdgePending)
		return nil, nil
	}
	n.Edge = strength(n.TargetCID, found[0].CID)
	return &found[0], nil
}

// strength compares the CID that a link pins with the one first seen there.
func strength(pinned, seen string) string {
	if pinned == seen {
		return string(EdgeExact)
	}
	return string(EdgeWeak)
}

// trusted tells whether a supersedes link between two DIDs counts: they are
// one, or members of one trust group.
func (w *writer) trusted(a, b string) (bool, error) {
	if a == b {
		return true, nil
	}
	var n int64
	err := w.tx.Raw("SELECT COUNT(*) FROM trust_members m JOIN trust_members o ON o.circle = m.circle WHERE m.did = ? AND o.did = ?", a, b).Scan(&n).Error
	return n > 0, err
}

func (w *writer) startChain(n *nodeRow) error {
	n.Chain = w.label()
	n.Branch = n.Chain
	b := branchRow{Branch: n.Branch, Chain: n.Chain, Main: true}
	if n.Live {
		b.HeadURI = n.URI
	}
	if err := w.addBranch(b); err != nil {
		return err
	}
	return w.insertNode(n)
}

// extendChain puts a live node behind a live head that nothing else supersedes.
func (w *writer) extendChain(n, target *nodeRow) (bool, error) {
	if !n.Live || !target.Live {
		return false, nil
	}
	b, err := w.branch(target.Branch)
	if err != nil || b.HeadURI != target.URI {
		return false, err
	}
	others, err := w.nodes("target_uri = ? AND edge IN ? LIMIT 1", target.URI, []string{string(EdgeExact), string(EdgeWeak)})
	if err != nil || len(others) > 0 {
		return false, err
	}
	n.Chain, n.Branch, n.Position = target.Chain, target.Branch, target.Position+1
	if err := w.insertNode(n); err != nil {
		return false, err
	}
	if err := w.setHead(n.Branch, n.URI); err != nil {
		return false, err
	}
	w.lostHeads = append(w.lostHeads, target.URI)
	if err := w.tellHead(ref{URI: target.URI, CID: target.CID}, ref{URI: n.URI, CID: n.CID}); err != nil {
		return false, err
	}
	return true, w.tx.Exec("UPDATE observations SET head = FALSE WHERE uri = ?", target.URI).Error
}

// forkChain puts a live node beside another that supersedes the same one. Where it
// is the one that the branch goes on into from now on, the rest of that becomes a
// branch of its own, which it stays: each node moves once, so that a thousand forks
// of one observation cost a thousand times what one does.
func (w *writer) forkChain(n, target *nodeRow) (bool, error) {
	if !n.Live || w.tangled[target.Chain] {
		return false, nil
	}
	b, err := w.branch(target.Branch)
	if err != nil || b.HeadURI == "" {
		return false, err
	}
	next, err := w.nodes("branch = ? AND position = ?", b.Branch, target.Position+1)
	if err != nil || len(next) == 0 {
		return false, err
	}
	head, err := w.nodes("uri = ?", b.HeadURI)
	if err != nil || len(head) == 0 {
		return false, err
	}
	beside := &next[0]
	alive := head[0].Position > target.Position // something of the branch lives from there on
	is := beside.successor()
	is.Alive = alive
	other := branchRow{Branch: w.label(), Chain: target.Chain}
	n.Chain, n.Branch, n.Position, n.Forked = target.Chain, other.Branch, target.Position+1, alive
	if lexicons.CompareSuccessors(n.successor(), is) < 0 {
		n.Branch = b.Branch
		if err := w.partBranch(&b, &other, &head[0], target.Position, alive, n); err != nil {
			return false, err
		}
	} else {
		other.HeadURI = n.URI
	}
	if err := w.addBranch(other); err != nil {
		return false, err
	}
	if alive && !beside.Forked {
		w.restale[syntax.ATURI(beside.URI)] = true
		if err := w.tx.Exec("UPDATE chain_nodes SET forked = TRUE WHERE uri = ?", beside.URI).Error; err != nil {
			return false, err
		}
	}
	return true, w.insertNode(n)
}

// partBranch makes what comes behind a position of branch b the branch other, and n
// the head of b. alive tells that b's head, old, is behind the position.
func (w *writer) partBranch(b, other *branchRow, old *nodeRow, position int64, alive bool, n *nodeRow) error {
	err := w.tx.Exec("UPDATE chain_nodes SET branch = ? WHERE branch = ? AND position > ?", other.Branch, b.Branch, position).Error
	if err != nil {
		return err
	}
	if alive {
		other.HeadURI = old.URI
	} else if err := w.dethrone(old); err != nil {
		return err
	}
	if err := w.setHead(b.Branch, n.URI); err != nil {
		return err
	}
	w.lostHeads = append(w.lostHeads, old.URI)
	if alive && !b.Main {
		return nil // it is the head of its own branch, as it was
	}
	return w.tellHead(ref{URI: old.URI, CID: old.CID}, ref{URI: n.URI, CID: n.CID})
}

// dethrone makes the head of a branch, whose successors were deleted, none again.
func (w *writer) dethrone(n *nodeRow) error {
	w.restale[syntax.ATURI(n.URI)] = true
	if err := w.tx.Exec("UPDATE chain_nodes SET bereft = FALSE WHERE uri = ?", n.URI).Error; err != nil {
		return err
	}
	return w.tx.Exec("UPDATE observations SET head = FALSE WHERE uri = ?", n.URI).Error
}

// prependToChain puts a node before the root of a chain that waited for it.
func (w *writer) prependToChain(n, root *nodeRow) (bool, error) {
	b, err := w.branch(root.Branch)
	if err != nil || !b.Main || b.HeadURI == "" || w.tangled[root.Chain] {
		return false, err
	}
	n.Chain, n.Branch, n.Position = root.Chain, root.Branch, root.Position-1
	if err := w.insertNode(n); err != nil {
		return false, err
	}
	w.restale[syntax.ATURI(root.URI)] = true
	return true, w.tx.Exec("UPDATE chain_nodes SET edge = ? WHERE uri = ?", strength(root.TargetCID, n.CID), root.URI).Error
}

// joinChains links the node with its target and with those that waited for
// it, and leaves the shape to untangle.
func (w *writer) joinChains(n, target *nodeRow, waiting []nodeRow) error {
	if err := w.startChain(n); err != nil {
		return err
	}
	w.tangled[n.Chain], w.joined[n.URI] = true, true
	if target != nil {
		w.tangled[target.Chain] = true
	}
	for i := range waiting {
		c := &waiting[i]
		w.tangled[c.Chain] = true
		w.restale[syntax.ATURI(c.URI)] = true
		if err := w.tx.Exec("UPDATE chain_nodes SET edge = ? WHERE uri = ?", strength(c.TargetCID, n.CID), c.URI).Error; err != nil {
			return err
		}
	}
	return nil
}

// buryNode makes a node a tombstone, which still connects its chain.
func (w *writer) buryNode(uri syntax.ATURI) error {
	found, err := w.nodes("uri = ?", uri)
	if err != nil || len(found) == 0 || !found[0].Live {
		return err
	}
	n := &found[0]
	if err := w.tx.Exec("UPDATE chain_nodes SET live = FALSE WHERE uri = ?", uri).Error; err != nil {
		return err
	}
	b, err := w.branch(n.Branch)
	if err != nil {
		return err
	}
	if b.HeadURI == n.URI && !w.tangled[n.Chain] {
		if done, err := w.fallBack(n); done || err != nil {
			return err
		}
	}
	if b.HeadURI == n.URI || b.HeadURI == "" || n.Bereft {
		w.tangled[n.Chain] = true // the head moves, and with it perhaps the choice at a fork
	}
	return nil
}

// fallBack makes the one before it the head of a chain that does not fork, when its
// head n was deleted.
func (w *writer) fallBack(n *nodeRow) (bool, error) {
	var forked bool
	if err := w.tx.Raw("SELECT EXISTS (SELECT 1 FROM chain_branches WHERE chain = ? AND branch <> ?)", n.Chain, n.Branch).Scan(&forked).Error; err != nil || forked {
		return false, err
	}
	before, err := w.nodes("branch = ? AND live AND position < ? ORDER BY position DESC LIMIT 1", n.Branch, n.Position)
	if err != nil {
		return false, err
	}
	w.lostHeads = append(w.lostHeads, n.URI)
	if err := w.tx.Exec("UPDATE chain_nodes SET bereft = FALSE WHERE uri = ?", n.URI).Error; err != nil {
		return false, err
	}
	old := ref{URI: n.URI, CID: n.CID}
	if len(before) == 0 {
		if err := w.setHead(n.Branch, ""); err != nil {
			return false, err
		}
		return true, w.tellHead(old, ref{})
	}
	head := &before[0]
	w.restale[syntax.ATURI(head.URI)] = true
	if err := w.setHead(n.Branch, head.URI); err != nil {
		return false, err
	}
	if err := w.tx.Exec("UPDATE chain_nodes SET bereft = TRUE WHERE uri = ?", head.URI).Error; err != nil {
		return false, err
	}
	if err := w.tx.Exec("UPDATE observations SET head = TRUE WHERE uri = ?", head.URI).Error; err != nil {
		return false, err
	}
	return true, w.tellHead(old, ref{URI: head.URI, CID: head.CID})
}

// untangle computes the shape of the tangled chains anew and writes what changed.
func (w *writer) untangle() error {
	if len(w.tangled) == 0 {
		return nil
	}
	// All at once: those that became one must be seen together.
	var rows []nodeRow
	var before []branchRow
	var lost []string
	for chains := range slices.Chunk(slices.Sorted(maps.Keys(w.tangled)), MaxBatch) {
		part, err := w.nodes("chain IN ?", chains)
		if err != nil {
			return err
		}
		rows = append(rows, part...)
		var branches []branchRow
		if err := w.tx.Raw("DELETE FROM chain_branches WHERE chain IN ? RETURNING branch, chain, main, head_uri", chains).Scan(&branches).Error; err != nil {
			return err
		}
		before = append(before, branches...)
		for _, b := range branches {
			lost = append(lost, b.HeadURI)
		}
	}
	was := slices.Clone(rows)
	wasHead := make(map[string]bool, len(lost))
	for _, uri := range lost {
		wasHead[uri] = true
	}
	for i := range rows {
		if !rows[i].Live {
			lost = append(lost, rows[i].URI) // it led to itself if to nothing else
		}
	}
	w.lostHeads = append(w.lostHeads, lost...)
	branches := newForest(rows).shape(w.label)
	heads := make(map[string]bool, len(branches))
	for _, b := range branches {
		heads[b.HeadURI] = true
		if err := w.addBranch(b); err != nil {
			return err
		}
	}
	for i := range rows {
		n, old := &rows[i], &was[i]
		if *n != *old {
			err := w.tx.Exec("UPDATE chain_nodes SET edge = ?, chain = ?, branch = ?, position = ?, forked = ?, bereft = ? WHERE uri = ?",
				n.Edge, n.Chain, n.Branch, n.Position, n.Forked, n.Bereft, n.URI).Error
			if err != nil {
				return err
			}
		}
		if n.Edge != old.Edge || n.Forked != old.Forked || n.Bereft != old.Bereft {
			w.restale[syntax.ATURI(n.URI)] = true
		}
		if heads[n.URI] != wasHead[n.URI] {
			if err := w.tx.Exec("UPDATE observations SET head = ? WHERE uri = ?", heads[n.URI], n.URI).Error; err != nil {
				return err
			}
		}
	}
	w.tangled = map[int64]bool{}
	return w.tellHeads(was, rows, before, branches)
}

// tellHeads notes which heads moved when chains were shaped anew, from the nodes
// and branches before to those now: of each chosen one that another is, and of the
// others those that are none any more. What joined chains just now was nobody's
// head before.
func (w *writer) tellHeads(was, is []nodeRow, before, now []branchRow) error {
	nodes := make(map[string]*nodeRow, len(is))
	parts := map[int64]map[int64]bool{} // the chains that a chain became
	for i := range is {
		nodes[is[i].URI] = &is[i]
		if parts[was[i].Chain] == nil {
			parts[was[i].Chain] = map[int64]bool{}
		}
		parts[was[i].Chain][is[i].Chain] = true
	}
	heads, ofBranch, ofChain := map[string]bool{}, map[int64]string{}, map[int64]string{}
	for _, b := range now {
		heads[b.HeadURI], ofBranch[b.Branch] = true, b.HeadURI
		if b.Main {
			ofChain[b.Chain] = b.HeadURI
		}
	}
	slices.SortFunc(before, func(a, b branchRow) int { return cmp.Compare(a.HeadURI, b.HeadURI) })
	for _, b := range before {
		old := nodes[b.HeadURI]
		if old == nil || w.joined[old.URI] {
			continue
		}
		var leadTo []string
		switch {
		case b.Main: // in each part
			for chain := range parts[b.Chain] {
				leadTo = append(leadTo, ofChain[chain])
			}
		case !heads[old.URI]:
			leadTo = append(leadTo, cmp.Or(ofBranch[old.Branch], ofChain[old.Chain]))
		}
		for _, uri := range compact(leadTo) {
			to := ref{}
			if n := nodes[uri]; n != nil {
				to = ref{URI: n.URI, CID: n.CID}
			}
			if uri == old.URI {
				continue
			}
			if err := w.tellHead(ref{URI: old.URI, CID: old.CID}, to); err != nil {
				return err
			}
		}
	}
	return nil
}
