package lexicons

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"
)

// MaxSchemaSize bounds one lexicon file, in bytes.
const MaxSchemaSize = 1 << 20

// maxSchemaDepth bounds how deep the JSON of a lexicon file nests. The deepest
// that is published anywhere needs less than half of it.
const maxSchemaDepth = 64

// ErrLexicon is returned for a file that is no lexicon; the text says why.
var ErrLexicon = errors.New("not a lexicon")

// Lexicon is one lexicon file: the definitions under one NSID. It is immutable.
type Lexicon struct {
	NSID   syntax.NSID
	Source []byte         // the file as it was read
	defs   map[string]any // by name: "main", "view", …
}

// ParseLexicon reads a lexicon file and checks it by itself: the language of
// lexicons (https://atproto.com/specs/lexicon), and that its references are
// names. Whether these lead anywhere, a Catalog knows. The JSON is held to what
// records are held to: no name twice in one object, no numbers but integers,
// bounded nesting. The error is ErrLexicon.
func ParseLexicon(raw []byte) (*Lexicon, error) {
	l, err := parseLexicon(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLexicon, err)
	}
	return l, nil
}

func parseLexicon(raw []byte) (*Lexicon, error) {
	if len(raw) > MaxSchemaSize {
		return nil, fmt.Errorf("%d bytes, at most %d", len(raw), MaxSchemaSize)
	}
	if _, err := readJSON(raw, maxSchemaDepth); err != nil {
		return nil, err
	}
	var file lexicon.SchemaFile
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, err
	}
	if err := file.FinishParse(); err != nil {
		return nil, err
	}
	if err := file.CheckSchema(); err != nil {
		return nil, err
	}
	nsid, err := syntax.ParseNSID(file.ID)
	if err != nil {
		return nil, fmt.Errorf("id: %w", err)
	}
	if file.Type != "" && file.Type != string(SchemaNSID) {
		return nil, fmt.Errorf("$type is %q, want %s or none", clip(file.Type), SchemaNSID)
	}
	l := &Lexicon{NSID: nsid, Source: slices.Clone(raw), defs: make(map[string]any, len(file.Defs))}
	for _, name := range slices.Sorted(maps.Keys(file.Defs)) {
		l.defs[name] = file.Defs[name].Inner
		if err := l.checkDef(name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return l, nil
}

// checkDef adds what CheckSchema leaves out.
func (l *Lexicon) checkDef(name string) error {
	def := l.defs[name]
	if !isTypeName(string(l.NSID) + "#" + name) {
		return errors.New("no name of a definition, want letters and digits, a letter first")
	}
	if record, ok := def.(lexicon.SchemaRecord); ok {
		if key, ok := strings.CutPrefix(record.Key, "literal:"); ok {
			if _, err := syntax.ParseRecordKey(key); err != nil {
				return fmt.Errorf("key: %w", err)
			}
		}
	}
	var malformed error
	eachRef(def, func(ref string) {
		if full := fullRef(string(l.NSID), ref); !isTypeName(full) {
			malformed = fmt.Errorf("the reference %q is none, want an NSID with an optional #fragment", clip(ref))
		}
	})
	return malformed
}

// same tells whether two files are one, to the byte.
func (l *Lexicon) same(other *Lexicon) bool { return bytes.Equal(l.Source, other.Source) }

// isRecord tells whether the lexicon defines a record type.
func (l *Lexicon) isRecord() bool {
	_, ok := l.defs["main"].(lexicon.SchemaRecord)
	return ok
}

// Kind says what the main definition is, in the lexicon language's own words;
// "defs" when there is none.
func (l *Lexicon) Kind() string {
	switch l.defs["main"].(type) {
	case nil:
		return "defs"
	case lexicon.SchemaRecord:
		return "record"
	case lexicon.SchemaQuery:
		return "query"
	case lexicon.SchemaProcedure:
		return "procedure"
	case lexicon.SchemaSubscription:
		return "subscription"
	case lexicon.SchemaPermissionSet:
		return "permission-set"
	}
	return "object"
}

// eachRef calls visit for every reference in a definition, as it is written.
func eachRef(def any, visit func(ref string)) {
	eachDef(def, func(d any) {
		switch d := d.(type) {
		case lexicon.SchemaRef:
			visit(d.Ref)
		case lexicon.SchemaUnion:
			for _, ref := range d.Refs {
				visit(ref)
			}
		}
	})
}

// eachDef calls visit for a definition and for all that are nested in it.
func eachDef(def any, visit func(def any)) {
	body := func(b *lexicon.SchemaBody) {
		if b != nil && b.Schema != nil {
			eachDef(b.Schema.Inner, visit)
		}
	}
	visit(def)
	switch d := def.(type) {
	case lexicon.SchemaRecord:
		eachDef(d.Record, visit)
	case lexicon.SchemaObject:
		for _, p := range d.Properties {
			eachDef(p.Inner, visit)
		}
	case lexicon.SchemaArray:
		eachDef(d.Items.Inner, visit)
	case lexicon.SchemaQuery:
		body(d.Output)
	case lexicon.SchemaProcedure:
		body(d.Input)
		body(d.Output)
	case lexicon.SchemaSubscription:
		eachDef(d.Message.Schema, visit)
	}
}
