package index

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// maxPastNodes bounds the observations that a past chain is put together from.
const maxPastNodes = 50_000

// pastNode is a chain node as it stood at a moment.
type pastNode struct {
	Node      nodeRow `gorm:"embedded"`
	State     string
	DeletedAt string
	Shown     bool // to the viewer
}

// pastChain is the shape that a chain had at a moment: what is left of it now,
// less what came later, linked by the trust that held then.
type pastChain struct {
	nodes    []nodeRow // of the one tree that self is in, by position, then URI
	shown    map[string]bool
	branches []branchRow
	self     *nodeRow
	at       map[string]*nodeRow
}

// pastTrust are the trust groups of a moment: the circle of each member.
type pastTrust map[string]string

func (t pastTrust) trusted(a, b string) bool { return a == b || t[a] != "" && t[a] == t[b] }

func (t pastTrust) members() []string {
	dids := []string{""} // an empty list is no SQL
	for did := range t {
		dids = append(dids, did)
	}
	return dids
}

func trustAt(tx *gorm.DB, moment string) (pastTrust, error) {
	var rows []trustRow
	err := tx.Raw(`SELECT name, members FROM trust_journal WHERE seq IN (SELECT MAX(seq) FROM trust_journal WHERE changed_at <= ? GROUP BY name)`, moment).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read past trust groups: %w", err)
	}
	trust := pastTrust{}
	for _, r := range rows {
		for _, did := range strings.Fields(r.Members) {
			trust[did] = r.Name
		}
	}
	return trust, nil
}

// pastChain puts together the chain that uri was in at v's moment, in one
// snapshot; ErrNotFound when it was not witnessed by then or is not for v.
func (x *Index) pastChain(ctx context.Context, v Viewer, uri syntax.ATURI) (*pastChain, error) {
	var p *pastChain
	err := x.db.ReadTx(ctx, func(tx *gorm.DB) error {
		moment := migrations.FormatTime(v.Moment)
		q := newQuery("t.chain", "chain_nodes t")
		q.where("t.uri = ?", uri)
		q.until(v, "t.indexed_at")
		q.visible(v, lexicons.ObservationNSID)
		q.whereIf(!v.Admin, "EXISTS (SELECT 1 FROM records c WHERE c.uri = t.uri AND c.state <> ?)", string(StateQuarantined))
		var chain []int64
		if err := q.all(tx, &chain); err != nil {
			return err
		}
		if len(chain) == 0 {
			return ErrNotFound
		}
		trust, err := trustAt(tx, moment)
		if err != nil {
			return err
		}
		nodes, err := pastNodes(tx, v, chain, trust)
		if err != nil {
			return err
		}
		p = shapePast(nodes, trust, moment, string(uri))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("past chain of %s: %w", uri, err)
	}
	return p, nil
}

// pastNodes are the nodes of a chain, and of those that were linked with it when
// others were trusted or a circle was not closed yet.
func pastNodes(tx *gorm.DB, v Viewer, chains []int64, trust pastTrust) ([]pastNode, error) {
	visible := newQuery("", "")
	visible.visible(v, lexicons.ObservationNSID)
	visible.where("1 = 1")
	apart := []string{string(EdgeProposal), string(EdgeIgnored)}
	members := trust.members()
	known := map[int64]bool{}
	var all []pastNode
	for len(chains) > 0 {
		for _, c := range chains {
			known[c] = true
		}
		q := newQuery(nodeColumnsOfT+", c.state, c.deleted_at, ("+strings.Join(visible.conditions, " AND ")+") AS shown", "chain_nodes t JOIN records c ON c.uri = t.uri")
		q.args = append(q.args, visible.args...)
		q.where("t.chain IN ?", chains)
		q.until(v, "t.indexed_at")
		var rows []pastNode
		if err := tx.Raw(q.sql()+" LIMIT ?", append(q.args, maxPastNodes+1-len(all))...).Scan(&rows).Error; err != nil {
			return nil, err
		}
		if all = append(all, rows...); len(all) > maxPastNodes {
			return nil, fmt.Errorf("more than %d observations: %w", maxPastNodes, ErrPastTooLong)
		}
		near := " AND o.chain <> t.chain AND (t.did = o.did OR t.did IN ? AND o.did IN ?)"
		var next []int64
		err := tx.Raw(`SELECT o.chain FROM chain_nodes t JOIN chain_nodes o ON o.uri = t.target_uri WHERE t.chain IN ? AND t.edge IN ?`+near+`
			UNION SELECT o.chain FROM chain_nodes t JOIN chain_nodes o ON o.target_uri = t.uri WHERE t.chain IN ? AND o.edge IN ?`+near,
			chains, apart, members, members, chains, apart, members, members).Scan(&next).Error
		if err != nil {
			return nil, err
		}
		chains = slices.DeleteFunc(next, func(c int64) bool { return known[c] })
	}
	return all, nil
}

// shapePast links the nodes as they were linked at a moment and keeps the tree of self.
func shapePast(nodes []pastNode, trust pastTrust, moment, self string) *pastChain {
	p := &pastChain{shown: map[string]bool{}, at: map[string]*nodeRow{}}
	then := make(map[string]string, len(nodes)) // the CID first seen at each URI
	for i := range nodes {
		then[nodes[i].Node.URI] = nodes[i].Node.CID
	}
	rows := make([]nodeRow, len(nodes))
	for i := range nodes {
		n := nodes[i].Node
		n.Live = n.Live || nodes[i].State == string(StateDeleted) && nodes[i].DeletedAt > moment
		n.Edge = pastEdge(&n, then, trust)
		n.Chain, n.Branch, n.Position = int64(i+1), int64(i+1), 0 // nothing of today's numbering
		p.shown[n.URI] = nodes[i].Shown
		rows[i] = n
	}
	label := int64(len(rows))
	branches := newForest(rows).shape(func() int64 { label++; return label })
	var tree int64
	for i := range rows {
		if rows[i].URI == self {
			tree = rows[i].Chain
		}
	}
	root := int64(0)
	for _, n := range rows {
		if n.Chain == tree {
			p.nodes = append(p.nodes, n)
			root = min(root, n.Position)
		}
	}
	slices.SortFunc(p.nodes, func(a, b nodeRow) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), strings.Compare(a.URI, b.URI))
	})
	for i := range p.nodes {
		p.at[p.nodes[i].URI] = &p.nodes[i]
	}
	p.self = p.at[self]
	for _, b := range branches {
		if b.Chain == tree {
			p.branches = append(p.branches, b)
		}
	}
	return p
}

// pastEdge is what a link was worth at a moment, but for circles.
func pastEdge(n *nodeRow, then map[string]string, trust pastTrust) string {
	uri := syntax.ATURI(n.TargetURI)
	switch {
	case n.TargetURI == "":
		return string(EdgeNone)
	case uri.Collection() != lexicons.ObservationNSID || n.TargetURI == n.URI:
		return string(EdgeIgnored)
	case !trust.trusted(n.Did, uri.Authority().String()):
		return string(EdgeProposal)
	}
	seen, ok := then[n.TargetURI]
	if !ok {
		return string(EdgePending)
	}
	return strength(n.TargetCID, seen)
}

func (p *pastChain) member(n *nodeRow) Member { return n.export(p.nodes[0].Position) }

// shownHead is the head of a branch, when there is one that the viewer is shown.
func (p *pastChain) shownHead(b branchRow) *nodeRow {
	if b.HeadURI == "" || !p.shown[b.HeadURI] {
		return nil
	}
	return p.at[b.HeadURI]
}

func (p *pastChain) chain() *Chain {
	c := &Chain{Self: p.member(p.self), Root: p.member(&p.nodes[0]), Length: int64(len(p.nodes))}
	var others []nodeRow
	for _, b := range p.branches {
		head := p.shownHead(b)
		switch {
		case head == nil:
			continue
		case b.Main:
			c.Heads = append(c.Heads, p.member(head))
		default:
			others = append(others, *head)
		}
		if b.Branch == p.self.Branch {
			m := p.member(head)
			c.Head, c.StepsBehind = &m, max(0, head.Position-p.self.Position)
		}
	}
	slices.SortFunc(others, func(a, b nodeRow) int {
		return lexicons.CompareSuccessors(a.successor(), b.successor())
	})
	for i := range others {
		c.Heads = append(c.Heads, p.member(&others[i]))
	}
	c.Heads = c.Heads[:min(len(c.Heads), MaxLimit)]
	c.Forked = len(c.Heads) > 1
	return c
}

// pastProposals are the observations of others that said they supersede uri, and
// were not trusted to.
func (x *Index) pastProposals(ctx context.Context, v Viewer, uri syntax.ATURI) ([]Member, error) {
	moment := migrations.FormatTime(v.Moment)
	trust, err := trustAt(x.db.Read.WithContext(ctx), moment)
	if err != nil {
		return nil, err
	}
	author := uri.Authority().String()
	near := []string{author}
	for did := range trust {
		if trust.trusted(did, author) {
			near = append(near, did)
		}
	}
	q := newQuery(nodeColumnsOfT, "chain_nodes t JOIN records c ON c.uri = t.uri")
	q.where("t.target_uri = ? AND t.did NOT IN ? AND (t.live OR c.state = ? AND c.deleted_at > ?)", uri, near, string(StateDeleted), moment)
	q.until(v, "t.indexed_at")
	q.visible(v, lexicons.ObservationNSID)
	rows, err := x.readNodes(ctx, q, " ORDER BY t.rkey DESC, t.uri DESC LIMIT "+strconv.Itoa(MaxLimit))
	if err != nil {
		return nil, err
	}
	members := make([]Member, len(rows))
	for i := range rows {
		rows[i].Edge = string(EdgeProposal)
		members[i] = rows[i].export(rows[i].Position)
	}
	return members, nil
}

// successors are the live nodes that directly superseded self and counted.
func (p *pastChain) successors() []Member {
	var rows []nodeRow
	for _, n := range p.nodes {
		if n.TargetURI == p.self.URI && n.counted() && n.Live && p.shown[n.URI] {
			rows = append(rows, n)
		}
	}
	slices.SortFunc(rows, func(a, b nodeRow) int {
		return cmp.Or(strings.Compare(b.IndexedAt, a.IndexedAt), strings.Compare(b.URI, a.URI))
	})
	members := []Member{}
	for i := range rows[:min(len(rows), MaxLimit)] {
		members = append(members, p.member(&rows[i]))
	}
	return members
}

// page is a page of the members in order of position, then URI.
func (p *pastChain) page(at Page) (List[Member], error) {
	rows := slices.DeleteFunc(slices.Clone(p.nodes), func(n nodeRow) bool { return !p.shown[n.URI] })
	if at.Reverse {
		slices.Reverse(rows)
	}
	if at.After != nil {
		position, err := strconv.ParseInt(at.After.Key, 10, 64)
		if err != nil {
			return List[Member]{}, fmt.Errorf("past chain after %q: %w", at.After.Key, ErrPosition)
		}
		rows = slices.DeleteFunc(rows, func(n nodeRow) bool {
			past := cmp.Or(cmp.Compare(p.member(&n).Position, position), strings.Compare(n.URI, at.After.URI))
			return past == 0 || (past < 0) != at.Reverse
		})
	}
	rows = rows[:min(len(rows), at.limit()+1)]
	return collect(rows, at, func(r *nodeRow) (Member, Position) {
		m := p.member(r)
		return m, Position{Key: strconv.FormatInt(m.Position, 10), URI: r.URI}
	}), nil
}
