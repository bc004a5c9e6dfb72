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
		items[i].Parent, items[i].Skills = c.Parent, c.Skills
	}
	return items, nil
}

// class reads one class; nil when it is not here.
func (x *Index) class(ctx context.Context, v Viewer, uri syntax.ATURI) (*Class, error) {
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

// Class resolves the class at uri: two queries per parent and two for all
// skills and pinned versions.
func (x *Index) Class(ctx context.Context, v Viewer, uri syntax.ATURI) (*Resolution, error) {
	class, err := x.class(ctx, v, uri)
	if err != nil {
		return nil, err
	}
	if class == nil {
		return nil, fmt.Errorf("class %s: %w", uri, ErrNotFound)
	}
	res := &Resolution{Class: *class}
	if err := x.parents(ctx, v, res); err != nil {
		return nil, err
	}
	return res, x.classRefs(ctx, v, res)
}

func (x *Index) parents(ctx context.Context, v Viewer, res *Resolution) error {
	seen := map[syntax.ATURI]bool{res.Class.URI: true}
	for next := res.Class.Parent; next != nil; {
		if seen[next.URI] {
			res.Cycle = true
			return nil
		}
		if len(res.Parents) == MaxParents {
			res.TooDeep = true
			return nil
		}
		seen[next.URI] = true
		parent, err := x.class(ctx, v, next.URI)
		if err != nil {
			return err
		}
		if parent == nil {
			return nil // the view shows it by its strongRef and state
		}
		res.Parents = append(res.Parents, *parent)
		next = parent.Parent
	}
	return nil
}

// classRefs reads the skills, and the versions that a strongRef pins.
func (x *Index) classRefs(ctx context.Context, v Viewer, res *Resolution) error {
	res.Skills, res.Versions = map[syntax.ATURI]Record{}, map[string]Version{}
	var uris []syntax.ATURI
	var refs []lexicons.StrongRef
	for _, c := range append([]Class{res.Class}, res.Parents...) {
		if c.Parent != nil {
			refs = append(refs, *c.Parent)
		}
		for _, s := range c.Skills {
			uris, refs = append(uris, s.URI), append(refs, s)
		}
	}
	for len(uris) > 0 {
		n := min(len(uris), MaxBatch)
		records, err := x.Records(ctx, v, uris[:n])
		if err != nil {
			return err
		}
		for uri, rec := range records {
			res.Skills[uri] = rec
		}
		uris = uris[n:]
	}
	for len(refs) > 0 {
		n := min(len(refs), MaxBatch)
		versions, err := x.PinnedVersions(ctx, v, refs[:n])
		if err != nil {
			return err
		}
		for key, version := range versions {
			res.Versions[key] = version
		}
		refs = refs[n:]
	}
	return nil
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
