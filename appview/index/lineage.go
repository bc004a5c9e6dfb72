package index

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

// MaxParents bounds how far a class's parents are followed.
const MaxParents = 32

// LineEnd says why the line of a class's ancestors ends.
type LineEnd string

// The ends of a line.
const (
	LineRoot       LineEnd = "root"       // the last one has no parent
	LineCycle      LineEnd = "cycle"      // it leads back into itself
	LineTooDeep    LineEnd = "too-deep"   // there are more than MaxParents
	LineUnresolved LineEnd = "unresolved" // the next one is not here, or is no class
)

// Resolution is a class with its ancestors.
type Resolution struct {
	Class   Class
	Parents []Ancestor // nearest first
	End     LineEnd
	Missing *lexicons.StrongRef // the parent that could not be followed; nil but for LineUnresolved
}

// Ancestor is a class of the line in the version that the reference to it pins
// or, where that is not held, in the one that is there now.
type Ancestor struct {
	Pin   lexicons.StrongRef
	Exact bool // CBOR is the pinned version
	CBOR  []byte
}

// Class resolves the class at uri. Each ancestor is taken in the version that is
// pinned, so what is in a line is what its author meant, whatever became of the
// classes since; and a line of pinned versions cannot be a circle. It takes five
// queries, and three more for each ancestor that only an old version leads to.
func (x *Index) Class(ctx context.Context, v Viewer, uri syntax.ATURI) (*Resolution, error) {
	class, err := x.class(ctx, v, uri)
	if err != nil {
		return nil, err
	}
	if class == nil {
		return nil, fmt.Errorf("class %s: %w", uri, ErrNotFound)
	}
	res := &Resolution{Class: *class, End: LineRoot}
	l := &lineage{x: x, v: v, current: map[syntax.ATURI]Record{}, pinned: map[string]Version{}, asked: map[string]bool{}}
	seen := map[syntax.ATURI]bool{uri: true}
	for next := class.Parent; next != nil; {
		if seen[next.URI] {
			res.End = LineCycle
			return res, nil
		}
		if len(res.Parents) == MaxParents {
			res.End = LineTooDeep
			return res, nil
		}
		seen[next.URI] = true
		parent, err := l.ancestor(ctx, *next)
		if err != nil {
			return nil, fmt.Errorf("resolve class %s: %w", uri, err)
		}
		if parent == nil {
			res.End, res.Missing = LineUnresolved, next
			return res, nil
		}
		res.Parents = append(res.Parents, *parent)
		next = parentOf(parent.CBOR)
	}
	return res, nil
}

// parentOf reads the parent of a stored class; nil for none.
func parentOf(content []byte) *lexicons.StrongRef {
	rec, err := lexicons.ParseCBOR(lexicons.ClassNSID, content)
	if err != nil {
		return nil
	}
	return lexicons.ReadClass(rec.Value).Parent
}

// lineage is what was read so far to follow a line.
type lineage struct {
	x       *Index
	v       Viewer
	current map[syntax.ATURI]Record
	pinned  map[string]Version
	asked   map[string]bool // pins, by VersionKey
}

// ancestor is the class that a reference leads to; nil when there is none here.
func (l *lineage) ancestor(ctx context.Context, pin lexicons.StrongRef) (*Ancestor, error) {
	if pin.URI.Collection() != lexicons.ClassNSID {
		return nil, nil
	}
	key := VersionKey(pin.URI, pin.CID)
	if !l.asked[key] {
		if err := l.load(ctx, pin); err != nil {
			return nil, err
		}
	}
	current := l.current[pin.URI]
	if version := l.pinned[key]; version.CBOR != nil {
		return &Ancestor{Pin: pin, Exact: true, CBOR: version.CBOR}, nil
	}
	if current.CBOR == nil {
		return nil, nil
	}
	return &Ancestor{Pin: pin, Exact: current.CID.Equals(pin.CID), CBOR: current.CBOR}, nil
}

// load reads the class that pin names, all that it descends from as things are
// now, and every version that one of these pins and that is another.
func (l *lineage) load(ctx context.Context, pin lexicons.StrongRef) error {
	var uris []syntax.ATURI
	err := l.x.db.Read.WithContext(ctx).Raw(`WITH RECURSIVE line (uri, parent, depth) AS (
			SELECT uri, parent_uri, 0 FROM classes WHERE uri = ?
			UNION ALL SELECT c.uri, c.parent_uri, l.depth + 1 FROM classes c JOIN line l ON c.uri = l.parent WHERE l.depth < ?
		) SELECT DISTINCT uri FROM line`, pin.URI, MaxParents).Scan(&uris).Error
	if err != nil {
		return fmt.Errorf("read line of %s: %w", pin.URI, err)
	}
	records, err := l.x.Records(ctx, l.v, uris)
	if err != nil {
		return err
	}
	pins := []lexicons.StrongRef{pin}
	for uri, rec := range records {
		l.current[uri] = rec
		if parent := parentOf(rec.CBOR); parent != nil {
			pins = append(pins, *parent)
		}
	}
	var old []lexicons.StrongRef
	for _, p := range pins {
		l.asked[VersionKey(p.URI, p.CID)] = true
		if !l.current[p.URI].CID.Equals(p.CID) {
			old = append(old, p)
		}
	}
	versions, err := l.x.PinnedVersions(ctx, l.v, old)
	if err != nil {
		return err
	}
	for key, version := range versions {
		l.pinned[key] = version
	}
	return nil
}
