package index

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// QuarantineFilter narrows ListQuarantine; zero fields do not.
type QuarantineFilter struct {
	DID        syntax.DID
	Collection syntax.NSID
	Code       string // of a finding on the record
}

// ListQuarantine lists the quarantined records by URI, for the operator, as
// Records gives them.
func (x *Index) ListQuarantine(ctx context.Context, f QuarantineFilter, p Page) (List[Record], error) {
	q := newQuery("t.uri", "records t")
	q.where("t.state = 'quarantined'") // word for word: the partial index has it so
	q.whereIf(f.Collection != "", "t.collection = ?", f.Collection)
	// All URIs of a DID lie between these, in the order of the index.
	q.whereIf(f.DID != "", "t.uri > ? AND t.uri < ?", "at://"+string(f.DID)+"/", "at://"+string(f.DID)+"0")
	q.whereIf(f.Code != "", "EXISTS (SELECT 1 FROM findings f WHERE f.uri = t.uri AND f.code = ?)", clean(f.Code))
	if p.After != nil {
		q.where("t.uri > ?", p.After.URI)
	}
	var rows []syntax.ATURI
	if err := q.page(x.db.Read.WithContext(ctx), "t.uri", p, &rows); err != nil {
		return List[Record]{}, fmt.Errorf("list quarantine: %w", err)
	}
	list := collect(rows, p, func(uri *syntax.ATURI) (Record, Position) { return Record{URI: *uri}, Position{URI: string(*uri)} })
	return list, hydrate(ctx, x, Viewer{Admin: true}, list.Items, func(r *Record) *Record { return r })
}

// Quarantined counts the quarantined records.
func (x *Index) Quarantined(ctx context.Context) (n int64, err error) {
	if err := x.db.Read.WithContext(ctx).Raw("SELECT COUNT(*) FROM records WHERE state = 'quarantined'").Scan(&n).Error; err != nil {
		return 0, fmt.Errorf("count quarantine: %w", err)
	}
	return n, nil
}
