package index

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

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
	Missing *lexicons.StrongRef // the parent that could not be followed; nil but for LineUnresolved, and when it is malformed
}

// Ancestor is a class of the line in the version that the reference to it pins
// or, where that is not held, in the one that is there now.
type Ancestor struct {
	Pin     lexicons.StrongRef
	Exact   bool // Content is the pinned version
	Content lexicons.Class
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
	res := &Resolution{Class: *class, End: endOf(class.Malformed)}
	l := &lineage{x: x, v: v, current: map[syntax.ATURI]version{}, pinned: map[string]version{}, asked: map[string]bool{}}
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
		next, res.End = parent.Content.Parent, endOf(parent.Content.MalformedParent)
	}
	return res, nil
}

// endOf is how a line ends with a class without a parent, or with something in
// its place that is none.
func endOf(malformed string) LineEnd {
	if malformed != "" {
		return LineUnresolved
	}
	return LineRoot
}

// version is a class in one version.
type version struct {
	cid     cid.Cid
	content lexicons.Class
}

// readVersion reads stored content; false when there is none.
func readVersion(c cid.Cid, content []byte) (version, bool) {
	rec, err := lexicons.ParseCBOR(lexicons.ClassNSID, content)
	if content == nil || err != nil {
		return version{}, false
	}
	return version{cid: c, content: lexicons.ReadClass(rec.Value)}, true
}

// lineage is what was read so far to follow a line.
type lineage struct {
	x       *Index
	v       Viewer
	current map[syntax.ATURI]version
	pinned  map[string]version // by VersionKey
	asked   map[string]bool    // pins, by VersionKey
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
	if pinned, held := l.pinned[key]; held {
		return &Ancestor{Pin: pin, Exact: true, Content: pinned.content}, nil
	}
	current, held := l.current[pin.URI]
	if !held {
		return nil, nil
	}
	return &Ancestor{Pin: pin, Exact: current.cid.Equals(pin.CID), Content: current.content}, nil
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
		class, held := readVersion(rec.CID, rec.CBOR)
		if !held {
			continue
		}
		l.current[uri] = class
		if class.content.Parent != nil {
			pins = append(pins, *class.content.Parent)
		}
	}
	var old []lexicons.StrongRef
	for _, p := range pins {
		l.asked[VersionKey(p.URI, p.CID)] = true
		if !l.current[p.URI].cid.Equals(p.CID) {
			old = append(old, p)
		}
	}
	versions, err := l.x.PinnedVersions(ctx, l.v, old)
	if err != nil {
		return err
	}
	for key, v := range versions {
		if class, held := readVersion(v.CID, v.CBOR); held {
			l.pinned[key] = class
		}
	}
	return nil
}
