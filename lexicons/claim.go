package lexicons

import "time"

// Span is a range of a record's own text in UTF-8 bytes, end exclusive.
type Span struct {
	Start, End int64
}

// Citation is a part of a text that rests on another record.
type Citation struct {
	Span     Span
	Relation string // quotes, restates, derivedFrom, contradicts, corrects, or a value not known here
	Target   *StrongRef
	Named    string         // the target's URI as written; Target is nil when it is no strongRef
	Selector map[string]any // open union: textQuote, byteRange, jsonPointer of garden.engram.agents.defs; nil for the whole record
	Via      []StrongRef
	Path     string // RFC 6901 pointer to the citation in its record
}

// Basis is a part of a text that is the author's own.
type Basis struct {
	Span Span
	Kind string // inference, opinion, question, proposal, or a value not known here
	Path string
}

// Claim reads a garden.herbarium.claim: a text that says what it rests on.
type Claim struct {
	Text      string
	Citations []Citation
	Basis     []Basis
	Generator Generator
	CreatedAt time.Time
}

// ReadClaim reads the fields of a claim.
func ReadClaim(value map[string]any) Claim {
	f := fields(value)
	c := Claim{
		Text:      f.str("text"),
		Generator: readGenerator(f.object("generator")),
		CreatedAt: f.time("createdAt"),
	}
	for i, v := range f.list("citations") {
		if m, ok := v.(map[string]any); ok {
			c.Citations = append(c.Citations, readCitation(m, pointerAt("/citations", i)))
		}
	}
	for i, v := range f.list("basis") {
		if m, ok := v.(map[string]any); ok {
			b := fields(m)
			c.Basis = append(c.Basis, Basis{Span: readSpan(b.object("span")), Kind: b.str("kind"), Path: pointerAt("/basis", i)})
		}
	}
	return c
}

func readCitation(m map[string]any, path string) Citation {
	f := fields(m)
	c := Citation{
		Span:     readSpan(f.object("span")),
		Relation: f.str("relation"),
		Target:   f.strongRef("target"),
		Named:    f.object("target").str("uri"),
		Selector: f.object("selector"),
		Via:      f.strongRefs("via"),
		Path:     path,
	}
	if c.Selector == nil && f["selector"] != nil {
		c.Selector = map[string]any{} // something that is no selector is not the whole record
	}
	return c
}

func readSpan(f fields) Span { return Span{Start: f.int("byteStart"), End: f.int("byteEnd")} }

// MaxCitations is how many citations of one record are read: as many as the
// lexicon lets a claim have.
const MaxCitations = 256

// FindCitations finds the citations of any record by their structure: an object
// with span, relation and target, wherever it stands. So record types that do
// not exist yet are read like a claim. The order is that of the canonical CBOR;
// what comes after MaxCitations is left out.
func FindCitations(value map[string]any) []Citation {
	var found []Citation
	walkValue(value, func(at *trail, v any) bool {
		m, ok := v.(map[string]any)
		if len(found) == MaxCitations {
			return false
		}
		if !ok {
			return true
		}
		f := fields(m)
		if f.object("span") == nil || f.str("relation") == "" || f.object("target") == nil {
			return true
		}
		found = append(found, readCitation(m, at.String()))
		return false
	})
	return found
}
