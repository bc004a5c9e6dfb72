package index

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

type observationRow struct {
	URI         string `gorm:"column:uri"`
	SourceKind  string
	SourceValue string
	Method      string
	Run         string
	Device      string
	Harness     string
	Model       string
	ObservedAt  string
	CreatedAt   string
	Head        bool
	SortAt      string
	Edge        string
	TargetURI   string `gorm:"column:target_uri"`
	TargetCID   string `gorm:"column:target_cid"`
}

const observationColumns = "t.uri, t.source_kind, t.source_value, t.method, t.run, t.device, t.harness, t.model, t.observed_at, t.created_at, t.head, t.sort_at, n.edge, n.target_uri, n.target_cid"

const observationTables = "observations t JOIN chain_nodes n ON n.uri = t.uri"

func (r *observationRow) export() Observation {
	return Observation{
		Record:     Record{URI: syntax.ATURI(r.URI)},
		SourceKind: r.SourceKind, SourceValue: r.SourceValue, Method: r.Method, Run: syntax.TID(r.Run),
		Device: r.Device, Harness: r.Harness, Model: r.Model,
		ObservedAt: textTime(r.ObservedAt), CreatedAt: textTime(r.CreatedAt), SortAt: textTime(r.SortAt),
		Supersedes: strongRef(r.TargetURI, r.TargetCID), Edge: Edge(r.Edge), Head: r.Head,
	}
}

// strongRef is a stored link; nil for none.
func strongRef(uri, c string) *lexicons.StrongRef {
	if uri == "" {
		return nil
	}
	return &lexicons.StrongRef{URI: syntax.ATURI(uri), CID: parseCID(c)}
}

// Observation is the observation at uri. ErrNotFound for a tombstone.
func (x *Index) Observation(ctx context.Context, v Viewer, uri syntax.ATURI) (*Observation, error) {
	found, err := x.Observations(ctx, v, []syntax.ATURI{uri})
	if err != nil {
		return nil, err
	}
	return one(found, uri)
}

// Observations hydrates: those of uris that are shown to v, in three queries.
// At most MaxBatch URIs.
func (x *Index) Observations(ctx context.Context, v Viewer, uris []syntax.ATURI) (map[syntax.ATURI]Observation, error) {
	out := make(map[syntax.ATURI]Observation, len(uris))
	if len(uris) == 0 {
		return out, nil
	}
	if err := batch(len(uris)); err != nil {
		return nil, err
	}
	q := newQuery(observationColumns, observationTables)
	q.where("t.uri IN ?", uris)
	q.visible(v, lexicons.ObservationNSID)
	var rows []observationRow
	if err := q.all(x.db.Read.WithContext(ctx), &rows); err != nil {
		return nil, fmt.Errorf("read observations: %w", err)
	}
	items := make([]Observation, len(rows))
	for i := range rows {
		items[i] = rows[i].export()
	}
	if err := x.fillObservations(ctx, v, items); err != nil {
		return nil, err
	}
	for _, o := range items {
		out[o.URI] = o
	}
	return out, nil
}

// fillObservations adds records and content blobs.
func (x *Index) fillObservations(ctx context.Context, v Viewer, items []Observation) error {
	if err := hydrate(ctx, x, v, items, func(o *Observation) *Record { return &o.Record }); err != nil {
		return err
	}
	for i := range items {
		o := &items[i]
		rec, err := lexicons.ParseCBOR(o.Collection, o.CBOR)
		if err != nil {
			continue // deleted between the two queries
		}
		if content := lexicons.ReadObservation(rec.Value).Content; content != nil {
			o.Blob = &Blob{DID: o.DID, CID: content.CID, MimeType: content.MimeType, Size: content.Size, URI: o.URI}
		}
	}
	return nil
}

// ListObservations lists observations, the newest (SortAt) first.
func (x *Index) ListObservations(ctx context.Context, v Viewer, f ObservationFilter, p Page) (List[Observation], error) {
	q := newQuery(observationColumns, observationTables)
	q.whereIf(!f.AllVersions, "t.head")
	q.whereIf(f.DID != "", "t.did = ?", f.DID)
	q.whereIf(f.SourceKind != "", "t.source_kind = ?", clean(f.SourceKind))
	q.whereIf(f.SourceValue != "", "t.source_key = ?", indexKey(f.SourceValue))
	q.whereIf(f.Method != "", "t.method = ?", indexKey(f.Method))
	q.whereIf(f.Run != "", "t.run = ?", f.Run)
	q.whereIf(f.Device != "", "t.device = ?", indexKey(f.Device))
	q.whereIf(f.Model != "", "t.model = ?", indexKey(f.Model))
	q.between(f.Since, f.Until)
	q.until(v, "n.indexed_at")
	q.visible(v, lexicons.ObservationNSID)
	q.before(p, "t.sort_at")
	var rows []observationRow
	if err := q.page(x.db.Read.WithContext(ctx), "t.sort_at DESC, t.uri DESC", p, &rows); err != nil {
		return List[Observation]{}, fmt.Errorf("list observations: %w", err)
	}
	list := collect(rows, p, func(r *observationRow) (Observation, Position) {
		return r.export(), Position{Key: r.SortAt, URI: r.URI}
	})
	return list, x.fillObservations(ctx, v, list.Items)
}

// between narrows to a range of the sort key.
func (q *query) between(since, until time.Time) {
	if !since.IsZero() {
		q.where("t.sort_at >= ?", migrations.FormatTime(since))
	}
	if !until.IsZero() {
		q.where("t.sort_at < ?", migrations.FormatTime(until))
	}
}

func (n *nodeRow) export(root int64) Member {
	return Member{
		URI: syntax.ATURI(n.URI), DID: syntax.DID(n.Did), CID: parseCID(n.CID), Position: n.Position - root,
		Live: n.Live, Edge: Edge(n.Edge), Supersedes: strongRef(n.TargetURI, n.TargetCID), Branch: n.Branch,
		ObservedAt: textTime(n.ObservedAt), IndexedAt: textTime(n.IndexedAt),
	}
}

const nodeColumnsOfT = "t.uri, t.did, t.rkey, t.cid, t.live, t.future, t.target_uri, t.target_cid, t.edge, t.chain, t.branch, t.position, t.forked, t.bereft, t.observed_at, t.indexed_at"

// readNodes reads chain nodes outside a transaction.
func (x *Index) readNodes(ctx context.Context, q *query, tail string) ([]nodeRow, error) {
	var rows []nodeRow
	if err := x.db.Read.WithContext(ctx).Raw(q.sql()+tail, q.args...).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("read chain: %w", err)
	}
	return rows, nil
}

// node finds the chain node of uri for a viewer.
func (x *Index) node(ctx context.Context, v Viewer, uri syntax.ATURI) (*nodeRow, error) {
	q := newQuery(nodeColumnsOfT, "chain_nodes t")
	q.where("t.uri = ?", uri)
	q.visible(v, lexicons.ObservationNSID)
	q.whereIf(!v.Admin, "EXISTS (SELECT 1 FROM records c WHERE c.uri = t.uri AND c.state <> ?)", string(StateQuarantined))
	rows, err := x.readNodes(ctx, q, "")
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("chain of %s: %w", uri, ErrNotFound)
	}
	return &rows[0], nil
}

// root finds the oldest member of a chain.
func (x *Index) root(ctx context.Context, chain int64) (*nodeRow, error) {
	q := newQuery(nodeColumnsOfT, "chain_nodes t")
	q.where("t.chain = ?", chain)
	rows, err := x.readNodes(ctx, q, " ORDER BY t.position, t.uri LIMIT 1")
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errors.New("a chain without members")
	}
	return &rows[0], nil
}

// Chain is where the observation at uri, or its tombstone, stands: six
// queries, whatever the length of the chain.
func (x *Index) Chain(ctx context.Context, v Viewer, uri syntax.ATURI) (*Chain, error) {
	if v.Past() {
		past, err := x.pastChain(ctx, v, uri)
		if err != nil {
			return nil, err
		}
		c := past.chain()
		c.Proposals, err = x.pastProposals(ctx, v, uri)
		return c, err
	}
	n, err := x.node(ctx, v, uri)
	if err != nil {
		return nil, err
	}
	root, err := x.root(ctx, n.Chain)
	if err != nil {
		return nil, err
	}
	c := &Chain{Self: n.export(root.Position), Root: root.export(root.Position)}
	// A chain that never forked is as long as its positions reach; only others are counted.
	if err := x.db.Read.WithContext(ctx).Raw(`SELECT CASE
			WHEN NOT EXISTS (SELECT 1 FROM chain_branches WHERE chain = r.chain AND branch <> r.branch)
			THEN (SELECT MAX(position) FROM chain_nodes WHERE chain = r.chain) - r.position + 1
			ELSE (SELECT COUNT(*) FROM chain_nodes WHERE chain = r.chain) END
			FROM chain_nodes r WHERE r.uri = ?`,
		root.URI).Scan(&c.Length).Error; err != nil {
		return nil, fmt.Errorf("count chain of %s: %w", uri, err)
	}
	if err := x.chainHeads(ctx, v, n, root, c); err != nil {
		return nil, err
	}
	q := newQuery(nodeColumnsOfT, "chain_nodes t")
	q.where("t.target_uri = ? AND t.edge = ? AND t.live", uri, string(EdgeProposal))
	q.visible(v, lexicons.ObservationNSID)
	proposals, err := x.readNodes(ctx, q, " ORDER BY t.rkey DESC, t.uri DESC LIMIT "+strconv.Itoa(MaxLimit))
	if err != nil {
		return nil, err
	}
	for i := range proposals {
		c.Proposals = append(c.Proposals, proposals[i].export(proposals[i].Position))
	}
	return c, nil
}

func (x *Index) chainHeads(ctx context.Context, v Viewer, n, root *nodeRow, c *Chain) error {
	q := newQuery(nodeColumnsOfT, "chain_branches b JOIN chain_nodes t ON t.uri = b.head_uri")
	q.where("b.chain = ? AND b.head_uri <> ''", n.Chain)
	q.visible(v, lexicons.ObservationNSID)
	heads, err := x.readNodes(ctx, q, " ORDER BY b.main DESC, t.future, t.rkey DESC, t.uri DESC LIMIT "+strconv.Itoa(MaxLimit))
	if err != nil {
		return err
	}
	for i := range heads {
		c.Heads = append(c.Heads, heads[i].export(root.Position))
	}
	c.Forked = len(heads) > 1

	q = newQuery(nodeColumnsOfT, "chain_branches b JOIN chain_nodes t ON t.uri = b.head_uri")
	q.where("b.branch = ?", n.Branch)
	q.visible(v, lexicons.ObservationNSID)
	own, err := x.readNodes(ctx, q, "")
	if err != nil || len(own) == 0 {
		return err
	}
	head := own[0].export(root.Position)
	c.Head = &head
	c.StepsBehind = max(0, own[0].Position-n.Position)
	return nil
}

// ChainMembers are the members of the chain of uri in order of position, then URI. Knows Reverse.
func (x *Index) ChainMembers(ctx context.Context, v Viewer, uri syntax.ATURI, p Page) (List[Member], error) {
	if v.Past() {
		past, err := x.pastChain(ctx, v, uri)
		if err != nil {
			return List[Member]{}, err
		}
		return past.page(p)
	}
	n, err := x.node(ctx, v, uri)
	if err != nil {
		return List[Member]{}, err
	}
	root, err := x.root(ctx, n.Chain)
	if err != nil {
		return List[Member]{}, err
	}
	direction, beyond := p.order()
	q := newQuery(nodeColumnsOfT, "chain_nodes t")
	q.where("t.chain = ?", n.Chain)
	q.visible(v, lexicons.ObservationNSID)
	if p.After != nil {
		position, err := strconv.ParseInt(p.After.Key, 10, 64)
		if err != nil {
			return List[Member]{}, fmt.Errorf("chain of %s after %q: %w", uri, p.After.Key, ErrPosition)
		}
		q.where("(t.position, t.uri) "+beyond+" (?, ?)", position+root.Position, p.After.URI)
	}
	var rows []nodeRow
	if err := q.page(x.db.Read.WithContext(ctx), "t.position"+direction+", t.uri"+direction, p, &rows); err != nil {
		return List[Member]{}, fmt.Errorf("list chain of %s: %w", uri, err)
	}
	return collect(rows, p, func(r *nodeRow) (Member, Position) {
		m := r.export(root.Position)
		return m, Position{Key: strconv.FormatInt(m.Position, 10), URI: r.URI}
	}), nil
}
