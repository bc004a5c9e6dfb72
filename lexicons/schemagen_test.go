package lexicons_test

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// genSchema draws a lexicon file with a record type and two definitions that
// its fields may refer to.
func genSchema(t *rapid.T) map[string]any {
	return map[string]any{
		"lexicon": 1, "id": "com.example.made",
		"defs": map[string]any{
			"main": map[string]any{"type": "record", "key": rapid.SampledFrom([]string{"tid", "any"}).Draw(t, "key"), "record": genObject(t, 2)},
			"one":  genObject(t, 0),
			"two":  genObject(t, 0),
		},
	}
}

func genObject(t *rapid.T, depth int) map[string]any {
	properties, required, nullable := map[string]any{}, []any{}, []any{}
	for _, name := range []string{"a", "b", "c"} {
		if rapid.Bool().Draw(t, "has") {
			properties[name] = genDef(t, depth)
			if rapid.IntRange(0, 2).Draw(t, "required") == 0 {
				required = append(required, name)
			}
			if rapid.IntRange(0, 3).Draw(t, "nullable") == 0 {
				nullable = append(nullable, name)
			}
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "nullable": nullable}
}

func genDef(t *rapid.T, depth int) map[string]any {
	kinds := []string{"string", "integer", "boolean", "bytes", "cid-link", "blob", "unknown"}
	if depth > 0 {
		kinds = append(kinds, "array", "object", "ref", "union", "array", "ref", "union")
	}
	def := map[string]any{"type": rapid.SampledFrom(kinds).Draw(t, "type")}
	for _, name := range constraintsOf[def["type"].(string)] {
		if rapid.IntRange(0, 3).Draw(t, "constrained") == 0 {
			def[name] = genConstraint(t, def["type"].(string), name)
		}
	}
	switch def["type"] {
	case "array":
		def["items"] = genDef(t, depth-1)
	case "object":
		return genObject(t, depth-1)
	case "ref":
		def["ref"] = rapid.SampledFrom([]string{"#one", "#two"}).Draw(t, "ref")
	case "union":
		def["refs"] = [][]any{{"#one"}, {"#two"}, {"#one", "#two"}}[rapid.IntRange(0, 2).Draw(t, "refs")]
	}
	return def
}

var constraintsOf = map[string][]string{
	"string":  {"minLength", "maxLength", "minGraphemes", "maxGraphemes", "enum", "const", "format", "knownValues"},
	"integer": {"minimum", "maximum", "enum", "const"}, "boolean": {"const"}, "bytes": {"minLength", "maxLength"},
	"array": {"minLength", "maxLength"}, "blob": {"accept", "maxSize"}, "union": {"closed"},
}

var words = []any{"", "x", "xyz", "did:web:a.test"}

func genConstraint(t *rapid.T, kind, name string) any {
	switch name {
	case "minLength", "minGraphemes", "minimum":
		return rapid.IntRange(0, 2).Draw(t, name)
	case "maxLength", "maxGraphemes", "maximum", "maxSize":
		return rapid.IntRange(1, 4).Draw(t, name)
	case "format":
		return rapid.SampledFrom([]string{"did", "uri"}).Draw(t, name)
	case "closed":
		return rapid.Bool().Draw(t, name)
	case "accept":
		return [][]any{{"image/*"}, {"image/png"}, {"*/*"}, {"image/png", "text/plain"}}[rapid.IntRange(0, 3).Draw(t, name)]
	case "knownValues":
		return []any{rapid.SampledFrom(words).Draw(t, name)}
	}
	value := func() any {
		switch kind {
		case "integer":
			return rapid.IntRange(0, 3).Draw(t, name)
		case "boolean":
			return rapid.Bool().Draw(t, name)
		}
		return rapid.SampledFrom(words).Draw(t, name)
	}
	if name == "enum" {
		return []any{value(), value()}
	}
	return value()
}

// changeSchema changes one thing somewhere in a definition.
func changeSchema(t *rapid.T, schema map[string]any) {
	defs := schema["defs"].(map[string]any)
	name := rapid.SampledFrom([]string{"main", "main", "one"}).Draw(t, "definition")
	def, depth := defs[name].(map[string]any), 0
	if name == "main" {
		depth = 1 // only there: a required field that leads to itself has no value
	}
	for {
		if def["type"] == "record" {
			if rapid.IntRange(0, 9).Draw(t, "key") == 0 {
				def["key"] = rapid.SampledFrom([]string{"tid", "any", "nsid"}).Draw(t, "key")
				return
			}
			def = def["record"].(map[string]any)
		}
		switch def["type"] {
		case "object":
			properties := def["properties"].(map[string]any)
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "field")
			inner, has := properties[name].(map[string]any)
			switch how := rapid.IntRange(0, 6).Draw(t, "how"); {
			case !has || how == 0:
				properties[name] = genDef(t, depth)
				return
			case how == 1:
				delete(properties, name)
				def["required"], def["nullable"] = without(def["required"], name), without(def["nullable"], name)
				return
			case how == 2:
				def["required"] = toggled(def["required"], name)
				return
			case how == 3:
				def["nullable"] = toggled(def["nullable"], name)
				return
			default:
				def = inner
			}
		case "array":
			if rapid.Bool().Draw(t, "items") {
				def = def["items"].(map[string]any)
				continue
			}
			changeConstraint(t, def)
			return
		case "union":
			if rapid.Bool().Draw(t, "refs") {
				def["refs"] = [][]any{{"#one"}, {"#two"}, {"#one", "#two"}}[rapid.IntRange(0, 2).Draw(t, "to")]
				return
			}
			changeConstraint(t, def)
			return
		case "ref":
			def["ref"] = rapid.SampledFrom([]string{"#one", "#two"}).Draw(t, "to")
			return
		default:
			changeConstraint(t, def)
			return
		}
	}
}

func changeConstraint(t *rapid.T, def map[string]any) {
	kind := def["type"].(string)
	names := constraintsOf[kind]
	if len(names) == 0 {
		def["type"] = "integer"
		return
	}
	name := rapid.SampledFrom(names).Draw(t, "constraint")
	if _, has := def[name]; has && rapid.Bool().Draw(t, "drop") {
		delete(def, name)
		return
	}
	def[name] = genConstraint(t, kind, name)
}

func without(list any, name string) []any {
	return slices.DeleteFunc(slices.Clone(list.([]any)), func(v any) bool { return v == name })
}

func toggled(list any, name string) []any {
	if slices.Contains(list.([]any), any(name)) {
		return without(list, name)
	}
	return append(slices.Clone(list.([]any)), name)
}

func recordDef(schema map[string]any) map[string]any {
	return schema["defs"].(map[string]any)["main"].(map[string]any)["record"].(map[string]any)
}

// genValue draws a value that mostly fits a definition of a schema.
func genValue(t *rapid.T, schema, def map[string]any) (any, bool) {
	enum, _ := def["enum"].([]any)
	if constant, ok := def["const"]; ok {
		enum = []any{constant}
	}
	if len(enum) > 0 {
		v := rapid.SampledFrom(enum).Draw(t, "value")
		if n, ok := v.(float64); ok {
			return int64(n), true // a cloned schema has JSON's numbers
		}
		if n, ok := v.(int); ok {
			return int64(n), true
		}
		return v, true
	}
	switch def["type"] {
	case "string":
		return rapid.SampledFrom(words).Draw(t, "text"), true
	case "integer":
		return int64(rapid.IntRange(0, 4).Draw(t, "number")), true
	case "boolean":
		return rapid.Bool().Draw(t, "truth"), true
	case "bytes":
		return map[string]any{"$bytes": base64.RawStdEncoding.EncodeToString(make([]byte, rapid.IntRange(0, 4).Draw(t, "bytes")))}, true
	case "cid-link":
		return map[string]any{"$link": dataCID}, true
	case "blob":
		return blobValue(rapid.SampledFrom([]string{"image/png", "image/gif", "text/plain"}).Draw(t, "mime"), rapid.IntRange(1, 4).Draw(t, "size")), true
	case "unknown":
		return map[string]any{"any": "thing"}, true
	case "array":
		items := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			v, ok := genValue(t, schema, def["items"].(map[string]any))
			if !ok {
				return nil, false
			}
			items = append(items, v)
		}
		return items, true
	case "ref":
		return genValue(t, schema, definition(schema, def["ref"].(string)))
	case "union":
		refs := def["refs"].([]any)
		ref := refs[rapid.IntRange(0, len(refs)-1).Draw(t, "variant")].(string)
		v, ok := genValue(t, schema, definition(schema, ref))
		if !ok {
			return nil, false
		}
		m := maps.Clone(v.(map[string]any))
		m["$type"] = "com.example.made" + ref
		return m, true
	case "object":
		properties, m := def["properties"].(map[string]any), map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			required := slices.Contains(def["required"].([]any), any(name))
			if !required && rapid.Bool().Draw(t, "absent") {
				continue
			}
			if slices.Contains(def["nullable"].([]any), any(name)) && rapid.IntRange(0, 3).Draw(t, "null") == 0 {
				m[name] = nil
				continue
			}
			v, ok := genValue(t, schema, properties[name].(map[string]any))
			if !ok {
				return nil, false
			}
			m[name] = v
		}
		return m, true
	}
	return nil, false
}

func definition(schema map[string]any, ref string) map[string]any {
	return schema["defs"].(map[string]any)[strings.TrimPrefix(ref, "#")].(map[string]any)
}

func cloneJSON(t *rapid.T, v map[string]any) map[string]any {
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(raw, &out))
	return out
}
