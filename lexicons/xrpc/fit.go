package xrpc

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/lexicon"
)

// direction says which way a body goes; the rules of fitting differ a little.
type direction int

const (
	input direction = iota
	output
)

// jsonField is a struct field as encoding/json sees it.
type jsonField struct {
	name      string
	index     []int
	typ       reflect.Type
	omittable bool // left out when empty
	extra     bool // `xrpc:"extra"`
}

func jsonFields(t reflect.Type) []jsonField {
	var fields []jsonField
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get("json")
		if f.Anonymous && tag == "" || !f.IsExported() || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			name = f.Name
		}
		fields = append(fields, jsonField{
			name: name, index: f.Index, typ: f.Type,
			omittable: strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero"),
			extra:     f.Tag.Get("xrpc") == "extra",
		})
	}
	return fields
}

// fitting compares Go types with lexicon definitions at registration, so that
// a body that no client could send or read is found before there is one.
type fitting struct {
	schemas
	way     direction
	ignored []string // of the top level
	seen    map[string]bool
}

// fitBody compares a body's type with its definition.
func fitBody(s schemas, way direction, t reflect.Type, def any, ignored []string) error {
	f := fitting{schemas: s, way: way, ignored: ignored, seen: map[string]bool{}}
	return f.fit(t, def, "")
}

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	timeType        = reflect.TypeFor[time.Time]()
)

// fit compares one type with one definition. A type with its own JSON methods
// and an interface are taken at their word.
func (f fitting) fit(t reflect.Type, def any, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Interface {
		return nil
	}
	if d, ok := def.(lexicon.SchemaString); ok {
		switch t {
		case cidType:
			return mismatch(path, "cid.Cid is written as an object in JSON; use syntax.CID")
		case timeType:
			return mismatch(path, "time.Time does not keep to the datetime format; use syntax.Datetime")
		}
		if f.customJSON(t) {
			return nil
		}
		if err := fitString(t, d); err != nil {
			return mismatch(path, err.Error())
		}
		return nil
	}
	if f.customJSON(t) {
		return nil
	}
	switch d := def.(type) {
	case lexicon.SchemaBoolean:
		if t.Kind() != reflect.Bool {
			return mismatch(path, fmt.Sprintf("%s cannot hold a boolean", t))
		}
	case lexicon.SchemaInteger:
		if !isInteger(t) {
			return mismatch(path, fmt.Sprintf("%s cannot hold an integer; use int or int64", t))
		}
	case lexicon.SchemaArray:
		if t.Kind() != reflect.Slice {
			return mismatch(path, fmt.Sprintf("%s cannot hold an array", t))
		}
		return f.fit(t.Elem(), d.Items.Inner, path+"[]")
	case lexicon.SchemaObject, lexicon.SchemaRef:
		return f.fitReferred(t, def, path)
	default: // union, unknown, blob, bytes, cid-link
		if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
			return mismatch(path, fmt.Sprintf("%s cannot hold an object", t))
		}
	}
	return nil
}

func (f fitting) fitReferred(t reflect.Type, def any, path string) error {
	obj, base, ok, err := f.object(def)
	if err != nil {
		return err
	}
	f.schemas = base
	if !ok {
		if ref, isRef := def.(lexicon.SchemaRef); isRef { // to a string, an array, a union, …
			next, base, err := f.resolve(ref.Ref)
			if err != nil {
				return err
			}
			f.schemas = base
			if _, again := next.(lexicon.SchemaRef); !again {
				return f.fit(t, next, path)
			}
		}
		return nil
	}
	if t.Kind() == reflect.Map {
		return nil
	}
	if t.Kind() != reflect.Struct {
		return mismatch(path, fmt.Sprintf("%s cannot hold an object", t))
	}
	if ref, isRef := def.(lexicon.SchemaRef); isRef {
		once := t.String() + " " + f.full(ref.Ref)
		if f.seen[once] { // a definition may contain itself
			return nil
		}
		f.seen[once] = true
	}
	return f.fitObject(t, obj, path)
}

func (f fitting) fitObject(t reflect.Type, obj lexicon.SchemaObject, path string) error {
	seen := f.ignored
	f.ignored = nil // they are of the top level
	for _, name := range seen {
		if _, ok := obj.Properties[name]; !ok {
			return mismatch(join(path, name), "ignored, but the lexicon does not have it")
		}
	}
	for _, field := range jsonFields(t) {
		where := join(path, field.name)
		def, ok := obj.Properties[field.name]
		if !ok {
			if field.extra && f.way == output || field.name == "$type" {
				continue
			}
			return mismatch(where, "the lexicon has no such field")
		}
		seen = append(slices.Clip(seen), field.name)
		if f.way == output {
			if err := f.fitPresence(field, def.Inner, obj, where); err != nil {
				return err
			}
		}
		if err := f.fit(field.typ, def.Inner, where); err != nil {
			return err
		}
	}
	for name := range obj.Properties {
		needed := f.way == input && path == "" || slices.Contains(obj.Required, name)
		if needed && !slices.Contains(seen, name) {
			return mismatch(join(path, name), "the lexicon's field has none in the struct (Ignores says that this is meant)")
		}
	}
	return nil
}

// fitPresence checks that a field is there when it must be, and is left out
// rather than sent as something that is not valid.
func (f fitting) fitPresence(field jsonField, def any, obj lexicon.SchemaObject, where string) error {
	required := slices.Contains(obj.Required, field.name)
	if required && field.omittable {
		return mismatch(where, "required by the lexicon, but left out when empty")
	}
	if required || field.omittable || slices.Contains(obj.Nullable, field.name) {
		return nil
	}
	if field.typ.Kind() == reflect.Pointer {
		return mismatch(where, "optional and a pointer: without omitempty it would be sent as null")
	}
	if d, ok := def.(lexicon.SchemaString); ok && d.Format != nil {
		return mismatch(where, "optional with a format: without omitempty an empty string would be sent")
	}
	return nil
}

func (f fitting) customJSON(t reflect.Type) bool {
	if f.way == input {
		return reflect.PointerTo(t).Implements(jsonUnmarshaler)
	}
	return t.Implements(jsonMarshaler) || reflect.PointerTo(t).Implements(jsonMarshaler)
}

func mismatch(path, what string) error {
	if path == "" {
		return fmt.Errorf("the body does not fit its lexicon: %s", what)
	}
	return fmt.Errorf("the field %s does not fit its lexicon: %s", path, what)
}

// holdsSlices reports whether values of t can hold slices that
// encoding/json would write as null.
func holdsSlices(t reflect.Type, seen map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Array, reflect.Map:
		return holdsSlices(t.Elem(), seen)
	case reflect.Interface:
		return true
	case reflect.Slice:
		return t.Elem().Kind() != reflect.Uint8
	case reflect.Struct:
		if seen[t] {
			return false
		}
		seen[t] = true
		return slices.ContainsFunc(jsonFields(t), func(f jsonField) bool { return holdsSlices(f.typ, seen) })
	default:
		return false
	}
}

// fillSlices makes every nil slice in v an empty one: clients of a lexicon
// with a required array fail on null.
func fillSlices(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fillSlices(v.Elem())
		}
	case reflect.Interface:
		if !v.IsNil() && v.Elem().Kind() == reflect.Pointer {
			fillSlices(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		if v.IsNil() && v.CanSet() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fillSlices(v.Index(i))
		}
	case reflect.Struct:
		if v.Type().PkgPath() == timeType.PkgPath() {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() || v.Type().Field(i).Anonymous {
				fillSlices(v.Field(i))
			}
		}
	default:
	}
}
