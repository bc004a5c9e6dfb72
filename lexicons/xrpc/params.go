package xrpc

import (
	"encoding"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
)

// params is how one method's query string becomes its struct.
type params []paramField

type paramField struct {
	name     string
	index    []int // of the struct field
	def      any   // lexicon.SchemaString, SchemaInteger, SchemaBoolean or SchemaArray of one
	required bool
}

// planParams compares a struct with a lexicon's parameters, both ways.
func planParams(t reflect.Type, schema *lexicon.SchemaParams, ignored []string) (params, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("parameters are a %s, want a struct", t)
	}
	if schema == nil {
		schema = &lexicon.SchemaParams{}
	}
	var plan params
	seen := slices.Clone(ignored)
	for _, field := range reflect.VisibleFields(t) {
		if field.Anonymous {
			continue
		}
		name, ok := field.Tag.Lookup("param")
		if !ok || !field.IsExported() {
			return nil, fmt.Errorf("field %s: want an exported field with a param tag", field.Name)
		}
		def, ok := schema.Properties[name]
		if !ok {
			return nil, fmt.Errorf("field %s: the lexicon has no parameter %q", field.Name, name)
		}
		if slices.Contains(seen, name) {
			return nil, fmt.Errorf("field %s: the parameter %q is named twice", field.Name, name)
		}
		required := slices.Contains(schema.Required, name)
		if err := fitParam(field.Type, def.Inner, required); err != nil {
			return nil, fmt.Errorf("field %s: parameter %q: %w", field.Name, name, err)
		}
		seen = append(seen, name)
		plan = append(plan, paramField{name, field.Index, def.Inner, required})
	}
	for _, name := range ignored {
		if _, ok := schema.Properties[name]; !ok {
			return nil, fmt.Errorf("ignores %q, which the lexicon does not have", name)
		}
	}
	for name := range schema.Properties {
		if !slices.Contains(seen, name) {
			return nil, fmt.Errorf("no field for the lexicon's parameter %q (Ignores says that this is meant)", name)
		}
	}
	return plan, nil
}

var (
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
	cidType  = reflect.TypeFor[cid.Cid]()

	// formatOf says which string format a syntax type parses.
	formatOf = map[reflect.Type]string{
		reflect.TypeFor[syntax.AtIdentifier](): "at-identifier",
		reflect.TypeFor[syntax.ATURI]():        "at-uri",
		reflect.TypeFor[syntax.CID]():          "cid",
		reflect.TypeFor[syntax.Datetime]():     "datetime",
		reflect.TypeFor[syntax.DID]():          "did",
		reflect.TypeFor[syntax.Handle]():       "handle",
		reflect.TypeFor[syntax.NSID]():         "nsid",
		reflect.TypeFor[syntax.RecordKey]():    "record-key",
		reflect.TypeFor[syntax.TID]():          "tid",
		cidType:                                "cid",
	}
)

// fitParam reports whether a field can hold what the lexicon allows.
func fitParam(t reflect.Type, def any, required bool) error {
	if d, ok := def.(lexicon.SchemaArray); ok {
		if t.Kind() != reflect.Slice {
			return fmt.Errorf("%s cannot hold an array", t)
		}
		return fitParam(t.Elem(), d.Items.Inner, true)
	}
	pointer := t.Kind() == reflect.Pointer
	if pointer {
		t = t.Elem()
	}
	switch d := def.(type) {
	case lexicon.SchemaBoolean:
		if t.Kind() != reflect.Bool {
			return fmt.Errorf("%s cannot hold a boolean", t)
		}
	case lexicon.SchemaInteger:
		if !isInteger(t) {
			return fmt.Errorf("%s cannot hold an integer", t)
		}
		if !required && d.Default == nil && !pointer {
			return fmt.Errorf("optional without a default: want *%s, or absent and 0 look the same", t)
		}
	case lexicon.SchemaString:
		return fitString(t, d)
	default:
		return fmt.Errorf("unexpected definition %T", def)
	}
	return nil
}

func fitString(t reflect.Type, d lexicon.SchemaString) error {
	if t.Kind() != reflect.String && !reflect.PointerTo(t).Implements(textType) {
		return fmt.Errorf("%s cannot hold a string", t)
	}
	want, ok := formatOf[t]
	if ok && (d.Format == nil || *d.Format != want) {
		return fmt.Errorf("%s parses format %q, the lexicon says %q", t, want, deref(d.Format))
	}
	return nil
}

func isInteger(t reflect.Type) bool {
	return t.Kind() == reflect.Int || t.Kind() == reflect.Int64
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// decode fills dst, the struct that the plan was made for, from a query
// string. Unknown parameters are ignored and an empty value counts as absent,
// as on the reference host; a single-valued parameter given twice is refused.
func (p params) decode(query string, dst reflect.Value) error {
	if len(p) == 0 {
		return nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return InvalidRequest("the query string is malformed")
	}
	for _, f := range p {
		given := slices.DeleteFunc(values[f.name], func(v string) bool { return v == "" })
		if err := f.decode(given, dst.FieldByIndex(f.index)); err != nil {
			return InvalidRequest("the parameter %s: %s", f.name, err)
		}
	}
	return nil
}

func (f paramField) decode(given []string, dst reflect.Value) error {
	for _, v := range given {
		if !utf8.ValidString(v) {
			return errors.New("not UTF-8")
		}
	}
	if len(given) == 0 {
		if set := setDefault(f.def, dst); set || !f.required {
			return nil
		}
		return fmt.Errorf("required, but absent; want %s", lexicons.Describe(f.def))
	}
	if d, ok := f.def.(lexicon.SchemaArray); ok {
		if err := checkLength(d, len(given)); err != nil {
			return err
		}
		list := reflect.MakeSlice(dst.Type(), len(given), len(given))
		for i, v := range given {
			if err := decodeScalar(d.Items.Inner, v, list.Index(i)); err != nil {
				return err
			}
		}
		dst.Set(list)
		return nil
	}
	if len(given) > 1 {
		return errors.New("given more than once")
	}
	return decodeScalar(f.def, given[0], dst)
}

// decodeScalar parses text as the definition says and checks its constraints.
func decodeScalar(def any, text string, dst reflect.Value) error {
	switch d := def.(type) {
	case lexicon.SchemaBoolean:
		if text != "true" && text != "false" {
			return errors.New(`want "true" or "false"`)
		}
		if err := lexicons.CheckScalar(d, text == "true"); err != nil {
			return err
		}
		pointee(dst).SetBool(text == "true")
	case lexicon.SchemaInteger:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > maxSafeInteger || n < -maxSafeInteger {
			return fmt.Errorf("want %s", lexicons.Describe(d))
		}
		if err := lexicons.CheckScalar(d, n); err != nil {
			return err
		}
		pointee(dst).SetInt(n)
	case lexicon.SchemaString:
		if err := lexicons.CheckScalar(d, text); err != nil {
			return err
		}
		return setString(d, dst, text)
	}
	return nil
}

// setString gives dst a text of definition d. Its type may be stricter than
// the format, and what it says then is for programmers.
func setString(d lexicon.SchemaString, dst reflect.Value, text string) error {
	dst = pointee(dst)
	if u, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok {
		err := u.UnmarshalText([]byte(text))
		if err != nil && d.Format != nil {
			return lexicons.FormatError(*d.Format, text)
		}
		return err
	}
	dst.SetString(text)
	return nil
}

// setDefault gives dst the definition's default, if it has one.
func setDefault(def any, dst reflect.Value) bool {
	switch d := def.(type) {
	case lexicon.SchemaBoolean:
		if d.Default != nil {
			pointee(dst).SetBool(*d.Default)
			return true
		}
	case lexicon.SchemaInteger:
		if d.Default != nil {
			pointee(dst).SetInt(int64(*d.Default))
			return true
		}
	case lexicon.SchemaString:
		if d.Default != nil {
			return setString(d, dst, *d.Default) == nil
		}
	}
	return false
}

// pointee is what dst points to, made if need be, or dst itself.
func pointee(dst reflect.Value) reflect.Value {
	if dst.Kind() != reflect.Pointer {
		return dst
	}
	if dst.IsNil() {
		dst.Set(reflect.New(dst.Type().Elem()))
	}
	return dst.Elem()
}
