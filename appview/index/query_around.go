package index

import (
	"context"
	"fmt"
	"strconv"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

// Successors are the live observations that directly supersede the one at uri
// and count, the most recently witnessed first, at most MaxLimit; more than one
// is a fork. Proposals of others are not among them, however many there are.
func (x *Index) Successors(ctx context.Context, v Viewer, uri syntax.ATURI) ([]Member, error) {
	if v.Past() {
		past, err := x.pastChain(ctx, v, uri)
		if err != nil {
			return nil, err
		}
		return past.successors(), nil
	}
	n, err := x.node(ctx, v, uri)
	if err != nil {
		return nil, err
	}
	root, err := x.root(ctx, n.Chain)
	if err != nil {
		return nil, err
	}
	q := newQuery(nodeColumnsOfT, "chain_nodes t")
	q.where("t.target_uri = ? AND t.edge IN ? AND t.live", uri, []string{string(EdgeExact), string(EdgeWeak)})
	q.visible(v, lexicons.ObservationNSID)
	rows, err := x.readNodes(ctx, q, " ORDER BY t.indexed_at DESC, t.uri DESC LIMIT "+strconv.Itoa(MaxLimit))
	if err != nil {
		return nil, err
	}
	members := make([]Member, len(rows))
	for i := range rows {
		members[i] = rows[i].export(root.Position)
	}
	return members, nil
}

// CountSource counts the observations of one source, by anybody, heads and
// superseded ones alike. It stops at most, so that a source that is looked at
// all day costs no more than another.
func (x *Index) CountSource(ctx context.Context, v Viewer, kind, value string, most int) (int, error) {
	q := newQuery("1", "observations t")
	q.where("t.source_kind = ? AND t.source_key = ?", clean(kind), indexKey(value))
	q.visible(v, lexicons.ObservationNSID)
	var n int
	if err := x.db.Read.WithContext(ctx).Raw("SELECT COUNT(*) FROM ("+q.sql()+" LIMIT ?) s", append(q.args, most)...).Scan(&n).Error; err != nil {
		return 0, fmt.Errorf("count observations of a source: %w", err)
	}
	return n, nil
}
