package lexicons

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"
)

// ErrUnknownSchema is returned by Resolve for a reference that no loaded schema defines.
var ErrUnknownSchema = errors.New("schema not found in catalog")

// MaxSchemaSize bounds one lexicon file, in bytes.
const MaxSchemaSize = 1 << 20

// Catalog is an immutable set of schemas. It never touches the network: a
// reference that it does not hold is unknown, and an unknown $type in an open
// union is valid. A Catalog is safe for concurrent use; a reload builds a new
// one and swaps the pointer.
//
// It satisfies indigo's lexicon.Catalog.
type Catalog struct {
	defs    map[string]lexicon.Schema // by full reference, "nsid#fragment"
	methods []Method                  // sorted by NSID
}

var _ lexicon.Catalog = (*Catalog)(nil)

// Load reads the schemas that are embedded in this package. They are complete:
// a reference to a schema that is not among them is an error.
func Load() (*Catalog, error) {
	c, err := LoadFS(schemas)
	if err != nil {
		return nil, err
	}
	if err := c.checkRefs(); err != nil {
		return nil, fmt.Errorf("load lexicons: %w", err)
	}
	return c, nil
}

// LoadFS reads every .json file below the root of fsys as a lexicon file. A
// file that is no lexicon and two definitions of one name are errors. A
// reference that leads out of fsys fails the data that needs it.
func LoadFS(fsys fs.FS) (*Catalog, error) {
	c := &Catalog{defs: map[string]lexicon.Schema{}}
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
		if err := c.add(raw); err != nil {
			return fmt.Errorf("schema %s: %w", path, err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load lexicons: %w", err)
	}
	slices.SortFunc(c.methods, func(a, b Method) int { return strings.Compare(string(a.NSID), string(b.NSID)) })
	return c, nil
}

func (c *Catalog) add(raw []byte) error {
	var sf lexicon.SchemaFile
	if err := json.Unmarshal(raw, &sf); err != nil {
		return err
	}
	if err := sf.FinishParse(); err != nil {
		return err
	}
	if err := sf.CheckSchema(); err != nil {
		return err
	}
	nsid, err := syntax.ParseNSID(sf.ID)
	if err != nil {
		return err
	}
	for name, def := range sf.Defs {
		id := sf.ID + "#" + name
		if _, taken := c.defs[id]; taken {
			return fmt.Errorf("%s is defined twice", id)
		}
		c.defs[id] = lexicon.Schema{ID: id, Def: def.Inner}
		if m, ok := methodOf(nsid, def.Inner); ok {
			c.methods = append(c.methods, m)
		}
	}
	return nil
}

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

// checkRefs makes sure that every reference of every schema leads somewhere.
func (c *Catalog) checkRefs() error {
	for id, schema := range c.defs {
		var dangling string
		eachRef(schema.Def, func(ref string) {
			full := fullRef(nsidOf(id), ref)
			if _, err := c.Resolve(full); err != nil {
				dangling = full
			}
		})
		if dangling != "" {
			return fmt.Errorf("%s refers to %s: %w", id, dangling, ErrUnknownSchema)
		}
	}
	return nil
}

// eachRef calls visit for every reference in a definition, as it is written.
func eachRef(def any, visit func(ref string)) {
	body := func(b *lexicon.SchemaBody) {
		if b != nil && b.Schema != nil {
			eachRef(b.Schema.Inner, visit)
		}
	}
	switch d := def.(type) {
	case lexicon.SchemaRecord:
		eachRef(d.Record, visit)
	case lexicon.SchemaObject:
		for _, p := range d.Properties {
			eachRef(p.Inner, visit)
		}
	case lexicon.SchemaArray:
		eachRef(d.Items.Inner, visit)
	case lexicon.SchemaRef:
		visit(d.Ref)
	case lexicon.SchemaUnion:
		for _, ref := range d.Refs {
			visit(ref)
		}
	case lexicon.SchemaQuery:
		body(d.Output)
	case lexicon.SchemaProcedure:
		body(d.Input)
		body(d.Output)
	case lexicon.SchemaSubscription:
		eachRef(d.Message.Schema, visit)
	}
}
