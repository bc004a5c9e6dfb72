package lexicons

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"
)

// ErrUnknownSchema is returned by Resolve for a reference that no loaded schema defines.
var ErrUnknownSchema = errors.New("schema not found in catalog")

// Catalog is an immutable set of schemas. It never touches the network: a
// reference that it does not hold is unknown, and an unknown $type in an open
// union is valid. A Catalog is safe for concurrent use; With makes another one.
//
// It satisfies indigo's lexicon.Catalog.
type Catalog struct {
	files   map[syntax.NSID]*Lexicon
	defs    map[string]lexicon.Schema // by full reference, "nsid#fragment"
	methods []Method                  // sorted by NSID

	base  *Catalog                 // what With was called on; nil of a catalog that was loaded
	added map[syntax.NSID]*Lexicon // what With was called with
}

var _ lexicon.Catalog = (*Catalog)(nil)

// Load reads the schemas that are embedded in this package. They are complete:
// a reference to a schema that is not among them is an error.
func Load() (*Catalog, error) {
	c, err := LoadFS(schemas)
	if err != nil {
		return nil, err
	}
	if dangling := c.dangling(); len(dangling) > 0 {
		return nil, fmt.Errorf("load lexicons: %s: %w", dangling[0], ErrUnknownSchema)
	}
	return c, nil
}

// LoadFS reads every .json file below the root of fsys as a lexicon file. A
// file that is no lexicon and two definitions of one name are errors. A
// reference that leads out of fsys fails the data that needs it.
func LoadFS(fsys fs.FS) (*Catalog, error) {
	c := newCatalog()
	err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".json") {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Size() > MaxSchemaSize {
			return fmt.Errorf("schema %s: %d bytes, at most %d", path, info.Size(), MaxSchemaSize)
		}
		raw, err := fs.ReadFile(fsys, path)
		if err != nil {
			return err
		}
		l, err := ParseLexicon(raw)
		if err != nil {
			return fmt.Errorf("schema %s: %w", path, err)
		}
		if c.files[l.NSID] != nil {
			return fmt.Errorf("schema %s: %s is defined twice", path, l.NSID)
		}
		c.add(l)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load lexicons: %w", err)
	}
	c.sortMethods()
	return c, nil
}

func newCatalog() *Catalog {
	return &Catalog{files: map[syntax.NSID]*Lexicon{}, defs: map[string]lexicon.Schema{}}
}

func (c *Catalog) sortMethods() {
	slices.SortFunc(c.methods, func(a, b Method) int { return strings.Compare(string(a.NSID), string(b.NSID)) })
}

func (c *Catalog) add(l *Lexicon) {
	c.files[l.NSID] = l
	for name, def := range l.defs {
		id := string(l.NSID) + "#" + name
		c.defs[id] = lexicon.Schema{ID: id, Def: def}
		if m, ok := methodOf(l.NSID, def); ok {
			c.methods = append(c.methods, m)
		}
	}
}

// With is the loaded catalog below c with these lexicons instead of what was
// added to that before. One that c was loaded with is replaced by what is added
// under its NSID, unless that would refuse a record which the loaded one takes:
// a program that was brought up to date wins over what its operator once added
// to the older one.
func (c *Catalog) With(added ...*Lexicon) *Catalog {
	base := c.loaded()
	n := newCatalog()
	n.base, n.added = base, make(map[syntax.NSID]*Lexicon, len(added))
	for _, l := range added {
		n.added[l.NSID] = l
	}
	for nsid, l := range base.files {
		if base.Replaceable(n.added[nsid]) {
			continue
		}
		n.add(l)
	}
	for nsid, l := range n.added {
		if n.files[nsid] == nil {
			n.add(l)
		}
	}
	n.sortMethods()
	return n
}

// loaded is the catalog without what was added to it.
func (c *Catalog) loaded() *Catalog {
	if c.base != nil {
		return c.base
	}
	return c
}

// Replaceable tells whether l may stand in the place of what c was loaded with
// under its NSID: no record that was valid may be invalid by it. False for nil
// and where there is nothing in that place.
func (c *Catalog) Replaceable(l *Lexicon) bool {
	if l == nil || c.loaded().files[l.NSID] == nil {
		return false
	}
	return !slices.ContainsFunc(Compare(c.loaded().files[l.NSID], l), func(d Difference) bool { return d.RefusesOld })
}

// Lexicon is the file of nsid that is in force; nil when there is none.
func (c *Catalog) Lexicon(nsid syntax.NSID) *Lexicon { return c.files[nsid] }

// Loaded tells whether the catalog was loaded with a file of nsid.
func (c *Catalog) Loaded(nsid syntax.NSID) bool { return c.loaded().files[nsid] != nil }

// Added are the lexicons that were added, in order of NSID, those that are not
// in force included.
func (c *Catalog) Added() []*Lexicon {
	out := make([]*Lexicon, 0, len(c.added))
	for _, nsid := range slices.Sorted(maps.Keys(c.added)) {
		out = append(out, c.added[nsid])
	}
	return out
}

// NSIDs are all that there is a file of, in order.
func (c *Catalog) NSIDs() []syntax.NSID { return slices.Sorted(maps.Keys(c.files)) }

// Resolve finds the definition that ref names: an NSID with an optional
// #fragment, "#main" when absent. ErrUnknownSchema when it is not here.
func (c *Catalog) Resolve(ref string) (*lexicon.Schema, error) {
	if !strings.Contains(ref, "#") {
		ref += "#main"
	}
	s, ok := c.defs[ref]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrUnknownSchema, ref)
	}
	return &s, nil
}

// Known reports whether collection is the NSID of a record schema held here.
func (c *Catalog) Known(collection syntax.NSID) bool {
	_, ok := c.record(collection)
	return ok
}

// RecordKeyType is the `key` of a record schema: "tid", "nsid", "any" or
// "literal:…". False when collection is not Known.
func (c *Catalog) RecordKeyType(collection syntax.NSID) (string, bool) {
	r, ok := c.record(collection)
	return r.Key, ok
}

func (c *Catalog) record(collection syntax.NSID) (lexicon.SchemaRecord, bool) {
	r, ok := c.defs[string(collection)+"#main"].Def.(lexicon.SchemaRecord)
	return r, ok
}

// dangling are the references of all schemas that lead nowhere, each as
// "definition refers to definition", sorted.
func (c *Catalog) dangling() []string {
	var found []string
	for id, schema := range c.defs {
		eachRef(schema.Def, func(ref string) {
			full := fullRef(nsidOf(id), ref)
			if _, err := c.Resolve(full); err != nil {
				found = append(found, id+" refers to "+full)
			}
		})
	}
	slices.Sort(found)
	return slices.Compact(found)
}
