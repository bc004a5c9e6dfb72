package xrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

// schemas resolves references of one method's lexicon.
type schemas struct {
	catalog Catalog
	nsid    syntax.NSID // base of relative references ("#name")
}

// resolve follows a reference to its definition and to the walker that
// resolves what that definition refers to in turn.
func (s schemas) resolve(ref string) (any, schemas, error) {
	full := s.full(ref)
	def, err := s.catalog.Resolve(full)
	if err != nil {
		return nil, s, fmt.Errorf("lexicon of %s: %w", s.nsid, err)
	}
	base, _, _ := strings.Cut(full, "#")
	return def.Def, schemas{s.catalog, syntax.NSID(base)}, nil
}

func (s schemas) full(ref string) string {
	if strings.HasPrefix(ref, "#") {
		return string(s.nsid) + ref
	}
	return ref
}

// object follows references until an object definition; ok is false when def
// ends elsewhere (a union).
func (s schemas) object(def any) (lexicon.SchemaObject, schemas, bool, error) {
	for range 8 { // a chain of references this long is a loop
		switch d := def.(type) {
		case lexicon.SchemaObject:
			return d, s, true, nil
		case lexicon.SchemaRef:
			next, base, err := s.resolve(d.Ref)
			if err != nil {
				return lexicon.SchemaObject{}, s, false, err
			}
			def, s = next, base
		default:
			return lexicon.SchemaObject{}, s, false, nil
		}
	}
	return lexicon.SchemaObject{}, s, false, fmt.Errorf("lexicon of %s: references go round", s.nsid)
}

// maxSafeInteger is the largest integer that the data model has (2^53 - 1).
const maxSafeInteger = 1<<53 - 1

// check compares a JSON value with a definition. It looks as deep as the
// definition goes: what a lexicon calls unknown, such as a record, stays
// unread. path names the value in messages, "" for the whole body.
func (s schemas) check(def any, raw json.RawMessage, path string) error {
	switch d := def.(type) {
	case lexicon.SchemaBoolean:
		var v bool
		if json.Unmarshal(raw, &v) != nil || isNull(raw) {
			return wrong(path, "want a boolean")
		}
		return constraint(path, lexicons.CheckScalar(d, v))
	case lexicon.SchemaInteger:
		v, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || v > maxSafeInteger || v < -maxSafeInteger {
			return wrong(path, "want "+lexicons.Describe(d)+", within -(2^53-1) and 2^53-1")
		}
		return constraint(path, lexicons.CheckScalar(d, v))
	case lexicon.SchemaString:
		var v string
		if json.Unmarshal(raw, &v) != nil || isNull(raw) {
			return wrong(path, "want "+lexicons.Describe(d))
		}
		return constraint(path, lexicons.CheckScalar(d, v))
	case lexicon.SchemaArray:
		return s.checkArray(d, raw, path)
	case lexicon.SchemaObject:
		return s.checkObject(d, raw, path)
	case lexicon.SchemaRef:
		next, base, err := s.resolve(d.Ref)
		if err != nil {
			return err
		}
		return base.check(next, raw, path)
	case lexicon.SchemaUnion:
		return s.checkUnion(d, raw, path)
	default: // unknown, blob, bytes, cid-link: objects of the data model, for their reader to parse
		if first(raw) != '{' {
			return wrong(path, "want an object")
		}
		return nil
	}
}

func (s schemas) checkArray(d lexicon.SchemaArray, raw json.RawMessage, path string) error {
	var items []json.RawMessage
	if first(raw) != '[' || json.Unmarshal(raw, &items) != nil {
		return wrong(path, "want an array")
	}
	if err := checkLength(d, len(items)); err != nil {
		return constraint(path, err)
	}
	for i, item := range items {
		if err := s.check(d.Items.Inner, item, path+"["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	return nil
}

func checkLength(d lexicon.SchemaArray, n int) error {
	switch {
	case d.MaxLength != nil && n > *d.MaxLength:
		return fmt.Errorf("%d items, want at most %d", n, *d.MaxLength)
	case d.MinLength != nil && n < *d.MinLength:
		return fmt.Errorf("%d items, want at least %d", n, *d.MinLength)
	}
	return nil
}

func (s schemas) checkObject(d lexicon.SchemaObject, raw json.RawMessage, path string) error {
	fields, err := objectFields(raw)
	if err != nil {
		return wrong(path, err.Error())
	}
	for _, name := range d.Required {
		if _, ok := fields[name]; !ok {
			return wrong(join(path, name), "required, but absent; want "+lexicons.Describe(d.Properties[name].Inner))
		}
	}
	for name, value := range fields {
		def, ok := d.Properties[name]
		if !ok {
			// encoding/json matches names in any case: a field that differs from a
			// known one by case alone would get past this check and into its place.
			if twin := foldedTwin(d.Properties, name); twin != "" {
				return wrong(join(path, name), "not a field of this method; did you mean "+strconv.Quote(twin)+"?")
			}
			continue
		}
		if isNull(value) && slices.Contains(d.Nullable, name) {
			continue
		}
		if err := s.check(def.Inner, value, join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

func foldedTwin(properties map[string]lexicon.SchemaDef, name string) string {
	for known := range properties {
		if strings.EqualFold(known, name) {
			return known
		}
	}
	return ""
}

func (s schemas) checkUnion(d lexicon.SchemaUnion, raw json.RawMessage, path string) error {
	fields, err := objectFields(raw)
	if err != nil {
		return wrong(path, err.Error())
	}
	var kind string
	if json.Unmarshal(fields["$type"], &kind) != nil || kind == "" {
		return wrong(join(path, "$type"), "required: it names which variant this object is; want one of "+strings.Join(s.variants(d), ", "))
	}
	for _, full := range s.variants(d) {
		if full == kind {
			def, base, err := s.resolve(full)
			if err != nil {
				return err
			}
			return base.check(def, raw, path)
		}
	}
	if d.Closed != nil && *d.Closed {
		return wrong(join(path, "$type"), "want one of "+strings.Join(s.variants(d), ", "))
	}
	return nil
}

// variants are the full names of a union's members.
func (s schemas) variants(d lexicon.SchemaUnion) []string {
	names := make([]string, len(d.Refs))
	for i, ref := range d.Refs {
		names[i] = s.full(ref)
	}
	return names
}

// objectFields reads one level of a JSON object. A repeated name is an error:
// two readers of the same text could each see another value.
func objectFields(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if first(raw) != '{' {
		return nil, errors.New("want an object")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, errors.New("want an object")
	}
	fields := make(map[string]json.RawMessage)
	for dec.More() {
		token, err := dec.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, errors.New("want an object")
		}
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("the field %q appears twice", name)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, errors.New("want an object")
		}
		fields[name] = value
	}
	return fields, nil
}

func first(raw json.RawMessage) byte {
	if raw = bytes.TrimLeft(raw, " \t\r\n"); len(raw) > 0 {
		return raw[0]
	}
	return 0
}

func isNull(raw json.RawMessage) bool { return first(raw) == 'n' }

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func wrong(path, what string) error {
	if path == "" {
		return InvalidRequest("the request body: %s", what)
	}
	return InvalidRequest("the field %s: %s", path, what)
}

func constraint(path string, err error) error {
	if err == nil {
		return nil
	}
	return wrong(path, err.Error())
}
