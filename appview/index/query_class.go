package index

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

type classRow struct {
	URI     string `gorm:"column:uri"`
	Name    string
	NameKey string
	SortAt  string
}

const classColumns = "t.uri, t.name, t.name_key, t.sort_at"

// classes hydrates class rows: parent and skills come from the record.
func (x *Index) classes(ctx context.Context, v Viewer, rows []classRow) ([]Class, error) {
	items := make([]Class, len(rows))
	for i, r := range rows {
		items[i] = Class{Record: Record{URI: syntax.ATURI(r.URI)}, Name: r.Name, SortAt: textTime(r.SortAt)}
	}
	if err := hydrate(ctx, x, v, items, func(c *Class) *Record { return &c.Record }); err != nil {
		return nil, err
	}
	for i := range items {
		rec, err := lexicons.ParseCBOR(lexicons.ClassNSID, items[i].CBOR)
		if err != nil {
			continue // deleted between the two queries
		}
		c := lexicons.ReadClass(rec.Value)
		items[i].Parent, items[i].Skills, items[i].Malformed = c.Parent, c.Skills, c.MalformedParent
	}
	return items, nil
}

// class reads one class; nil when it is not here.
func (x *Index) class(ctx context.Context, v Viewer, uri syntax.ATURI) (*Class, error) {
	if v.Past() {
		return x.pastClass(ctx, v, uri)
	}
	q := newQuery(classColumns, "classes t")
	q.where("t.uri = ?", uri)
	q.visible(v, lexicons.ClassNSID)
	var rows []classRow
	if err := q.all(x.db.Read.WithContext(ctx), &rows); err != nil {
		return nil, fmt.Errorf("read class %s: %w", uri, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	items, err := x.classes(ctx, v, rows)
	if err != nil {
		return nil, err
	}
	return &items[0], nil
}

// ListClasses lists classes by name, then URI.
func (x *Index) ListClasses(ctx context.Context, v Viewer, f ClassFilter, p Page) (List[Class], error) {
	q := newQuery(classColumns, "classes t")
	q.whereIf(f.DID != "", "t.did = ?", f.DID)
	q.whereIf(f.Name != "", "t.name_key = ?", indexKey(f.Name))
	q.visible(v, lexicons.ClassNSID)
	if p.After != nil {
		q.where("(t.name_key, t.uri) > (?, ?)", p.After.Key, p.After.URI)
	}
	var rows []classRow
	if err := q.page(x.db.Read.WithContext(ctx), "t.name_key, t.uri", p, &rows); err != nil {
		return List[Class]{}, fmt.Errorf("list classes: %w", err)
	}
	page := collect(rows, p, func(r *classRow) (classRow, Position) {
		return *r, Position{Key: r.NameKey, URI: r.URI}
	})
	items, err := x.classes(ctx, v, page.Items)
	return List[Class]{Items: items, Next: page.Next}, err
}
