package lexicons

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"
)

// maxFindings bounds what one validation reports: enough to mend a record in
// one go, too little to make an answer large.
const maxFindings = 20

// CheckValue validates data against one schema definition (a field's, a body's
// or a whole record's Def); relative references in it resolve against base.
// Paths start at data itself. Findings are violations that refuse with
// InvalidRequest, at most twenty, in a fixed order; none means valid.
func (c *Catalog) CheckValue(base syntax.NSID, def any, data any) []Finding {
	v := validator{cat: c}
	v.check(string(base), def, data)
	return v.found
}

// CheckScalar checks a boolean, an integer (as int64) or a string against its
// definition: parameters and bodies are told what records are. The error is
// the first fault and what would have been right, for a client to read.
func CheckScalar(def any, value any) error {
	var v validator
	v.check("", def, value)
	if len(v.found) == 0 {
		return nil
	}
	return errors.New(v.found[0].Message)
}

// validator walks a value along its schema. It does what indigo's validator
// does, and besides: it goes on after the first fault, knows where it is,
// checks the $type of referenced objects, takes a record as a union variant,
// and refuses a $type that is no NSID with optional fragment.
//
// Recursion ends because every reference leads to a definition that consumes a
// level of data, and data is at most MaxDepth deep.
type validator struct {
	cat   *Catalog
	at    trail
	found []Finding
	// unknown, when set, is told of strings outside their knownValues, which are valid.
	unknown func(path, value string, known []string)
}

func (v *validator) fail(format string, args ...any) {
	v.failAt(v.at.String(), format, args...)
}

func (v *validator) failAt(path, format string, args ...any) {
	if len(v.found) < maxFindings {
		v.found = append(v.found, Finding{
			Code:     CodeInvalidRecord,
			Severity: Violation,
			Path:     path,
			Message:  fmt.Sprintf(format, args...),
			Refusal:  RefusalInvalidRequest,
		})
	}
}

// want reports a value of the wrong kind.
func (v *validator) want(def any, data any) {
	v.fail("%s, want %s", kindOf(data), Describe(def))
}

func (v *validator) check(base string, def any, data any) {
	if len(v.found) >= maxFindings {
		return
	}
	switch s := def.(type) {
	case lexicon.SchemaRecord:
		v.object(base, s.Record, data)
	case lexicon.SchemaObject:
		v.object(base, s, data)
	case lexicon.SchemaArray:
		v.array(base, s, data)
	case lexicon.SchemaRef:
		v.ref(base, s.Ref, data)
	case lexicon.SchemaUnion:
		v.union(base, s, data)
	case lexicon.SchemaUnknown:
		if _, ok := data.(map[string]any); !ok {
			v.want(s, data)
		}
	case lexicon.SchemaString:
		v.str(s, data)
	case lexicon.SchemaInteger:
		v.integer(s, data)
	case lexicon.SchemaBoolean:
		b, ok := data.(bool)
		if !ok {
			v.want(s, data)
		} else if s.Const != nil && b != *s.Const {
			v.fail("%v, want %v", b, *s.Const)
		}
	case lexicon.SchemaBytes:
		b, ok := data.(atdata.Bytes)
		if !ok {
			v.want(s, data)
			return
		}
		v.length("bytes", len(b), s.MinLength, s.MaxLength)
	case lexicon.SchemaCIDLink:
		if _, ok := data.(atdata.CIDLink); !ok {
			v.want(s, data)
		}
	case lexicon.SchemaBlob:
		v.blob(s, data)
	default:
		v.fail("the lexicon has %s here, which no data can be", Describe(def))
	}
}

func (v *validator) object(base string, s lexicon.SchemaObject, data any) {
	m, ok := data.(map[string]any)
	if !ok {
		v.want(s, data)
		return
	}
	for _, name := range s.Required {
		if _, ok := m[name]; !ok {
			v.failAt(v.at.at(name), "the required field is missing, want %s", Describe(s.Properties[name].Inner))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field, ok := m[name]
		if !ok || field == nil && s.IsNullable(name) {
			continue
		}
		v.at.enter(name)
		v.check(base, s.Properties[name].Inner, field)
		v.at.leave()
	}
}

func (v *validator) array(base string, s lexicon.SchemaArray, data any) {
	items, ok := data.([]any)
	if !ok {
		v.want(s, data)
		return
	}
	v.length("items", len(items), s.MinLength, s.MaxLength)
	for i, item := range items {
		v.at.enterAt(i)
		v.check(base, s.Items.Inner, item)
		v.at.leave()
	}
}

func (v *validator) length(unit string, n int, least, most *int) {
	if least != nil && n < *least {
		v.fail("%d %s, want at least %d", n, unit, *least)
	}
	if most != nil && n > *most {
		v.fail("%d %s, want at most %d", n, unit, *most)
	}
}

func (v *validator) ref(base, ref string, data any) {
	full := fullRef(base, ref)
	s, err := v.cat.Resolve(full)
	if err != nil {
		v.fail("the lexicon refers to %s, which is not here", full)
		return
	}
	if _, isObject := s.Def.(lexicon.SchemaObject); isObject {
		if m, ok := data.(map[string]any); ok {
			if t, typed := m["$type"].(string); typed && mainRef(t) != mainRef(full) {
				v.failAt(v.at.at("$type"), "the type is %q, want %q or none", clip(t), strings.TrimSuffix(full, "#main"))
				return
			}
		}
	}
	v.check(nsidOf(full), s.Def, data)
}

func (v *validator) union(base string, s lexicon.SchemaUnion, data any) {
	m, ok := data.(map[string]any)
	if !ok {
		v.want(s, data)
		return
	}
	t, ok := m["$type"].(string)
	if !ok {
		v.failAt(v.at.at("$type"), "the required $type is missing, want one of %s", strings.Join(fullRefs(base, s.Refs), ", "))
		return
	}
	if !isTypeName(t) {
		v.failAt(v.at.at("$type"), "%q is no type name, want an NSID with an optional #fragment", clip(t))
		return
	}
	for _, ref := range s.Refs {
		if full := fullRef(base, ref); mainRef(full) == mainRef(t) {
			v.ref(base, full, data)
			return
		}
	}
	if s.Closed != nil && *s.Closed {
		v.failAt(v.at.at("$type"), "%q is not in the closed union, want one of %s", clip(t), strings.Join(fullRefs(base, s.Refs), ", "))
		return
	}
	variant, err := v.cat.Resolve(t)
	if err != nil {
		return // an open union takes what is not known here
	}
	switch variant.Def.(type) {
	case lexicon.SchemaObject, lexicon.SchemaRecord:
		v.check(nsidOf(t), variant.Def, data)
	default:
		v.failAt(v.at.at("$type"), "%q is %s, want an object type", clip(t), Describe(variant.Def))
	}
}

func (v *validator) integer(s lexicon.SchemaInteger, data any) {
	n, ok := data.(int64)
	switch {
	case !ok:
		v.want(s, data)
	case s.Const != nil && n != int64(*s.Const),
		s.Minimum != nil && n < int64(*s.Minimum),
		s.Maximum != nil && n > int64(*s.Maximum),
		len(s.Enum) > 0 && !slices.Contains(s.Enum, int(n)):
		v.fail("%d, want %s", n, describeInteger(s))
	}
}

// blob checks the form alone. Whether the blob was uploaded, and its CID's
// codec, are rules (rules_blob.go).
func (v *validator) blob(s lexicon.SchemaBlob, data any) {
	b, ok := data.(atdata.Blob)
	if !ok {
		if isLegacyBlob(data) {
			v.fail("a blob in the form of 2023 (cid, mimeType), want $type blob with ref, mimeType and size as uploadBlob answers it")
			return
		}
		v.want(s, data)
		return
	}
	if len(s.Accept) > 0 && !slices.ContainsFunc(s.Accept, func(pattern string) bool { return acceptsMIME(pattern, b.MimeType) }) {
		v.failAt(v.at.at("mimeType"), "the MIME type is %q, want one of %s", clip(b.MimeType), strings.Join(s.Accept, ", "))
	}
	if s.MaxSize != nil && b.Size > int64(*s.MaxSize) {
		v.failAt(v.at.at("size"), "%d bytes, want at most %d", b.Size, *s.MaxSize)
	}
}

// acceptsMIME matches a MIME type with a pattern such as image/*; letter case
// and parameters ("; charset=…") do not count.
func acceptsMIME(pattern, mime string) bool {
	essence, _, _ := strings.Cut(strings.ToLower(mime), ";")
	essence = strings.TrimSpace(essence)
	pattern = strings.ToLower(pattern)
	if pattern == "*/*" {
		return essence != ""
	}
	if prefix, wild := strings.CutSuffix(pattern, "*"); wild {
		return strings.HasPrefix(essence, prefix)
	}
	return essence == pattern
}

// isLegacyBlob recognises {cid, mimeType}, which stays a plain object here: as
// a blob it would be encoded in another form than it came in.
func isLegacyBlob(data any) bool {
	m, ok := data.(map[string]any)
	if !ok || len(m) != 2 {
		return false
	}
	c, okCID := m["cid"].(string)
	_, okMIME := m["mimeType"].(string)
	if !okCID || !okMIME {
		return false
	}
	_, err := syntax.ParseCID(c)
	return err == nil
}

// fullRef makes a reference independent of the schema it stands in.
func fullRef(base, ref string) string {
	ref = strings.TrimPrefix(ref, "lex:")
	if strings.HasPrefix(ref, "#") {
		return base + ref
	}
	return ref
}

func fullRefs(base string, refs []string) []string {
	full := make([]string, len(refs))
	for i, ref := range refs {
		full[i] = fullRef(base, ref)
	}
	return full
}

// mainRef gives a reference its fragment.
func mainRef(ref string) string {
	if strings.Contains(ref, "#") {
		return ref
	}
	return ref + "#main"
}

func nsidOf(ref string) string {
	nsid, _, _ := strings.Cut(ref, "#")
	return nsid
}

// isTypeName reports whether t is an NSID with an optional fragment.
func isTypeName(t string) bool {
	nsid, fragment, has := strings.Cut(t, "#")
	if _, err := syntax.ParseNSID(nsid); err != nil {
		return false
	}
	if !has {
		return true
	}
	for i, c := range fragment {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return fragment != ""
}
