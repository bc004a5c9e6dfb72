package appview

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"herbarium.garden/lexicons"
)

// maskedValue is a record as a view may show it: user names and passwords in
// URLs are masked wherever they stand. It tells where, as sorted pointers.
func maskedValue(record map[string]any) (map[string]any, []string) {
	m := masker{}
	shown, _ := m.value("", record).(map[string]any)
	slices.Sort(m.masked)
	return shown, m.masked
}

// masker copies a value with credentials masked and remembers where.
type masker struct{ masked []string }

func (m *masker) value(path string, v any) any {
	switch v := v.(type) {
	case string:
		out, masked := lexicons.MaskCredentials(v)
		if masked {
			m.masked = append(m.masked, path)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = m.value(pointerTo(path, name), member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = m.value(pointerTo(path, strconv.Itoa(i)), item)
		}
		return out
	default:
		return v
	}
}

// viewValue is atproto data as JSON, nil for none.
func viewValue(v map[string]any) json.RawMessage {
	if v == nil {
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil // not atproto data; the index keeps none such
	}
	return raw
}

// locatedRef is a strong reference and where in a record it stands.
type locatedRef struct {
	path      string
	ref       lexicons.StrongRef
	malformed string // the URI as written of what was meant as a reference and is none
}

// malformed tells of an object that looks like a strong reference that is none:
// it names an AT URI and a CID, but no record by a DID, or no CID.
func malformed(v map[string]any) (string, bool) {
	uri, _ := v["uri"].(string)
	_, pins := v["cid"].(string)
	return uri, pins && strings.HasPrefix(uri, "at://")
}

// strongRefs finds the strong references anywhere in a value, in order of
// path, at most limit of them; those too that are malformed.
func strongRefs(v any, limit int) []locatedRef {
	var found []locatedRef
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if len(found) == limit {
			return
		}
		switch v := v.(type) {
		case map[string]any:
			if ref, err := lexicons.ReadStrongRef(v); err == nil {
				found = append(found, locatedRef{path: path, ref: ref})
				return
			}
			if uri, bad := malformed(v); bad {
				found = append(found, locatedRef{path: path, malformed: uri})
				return
			}
			for _, name := range slices.Sorted(maps.Keys(v)) {
				walk(pointerTo(path, name), v[name])
			}
		case []any:
			for i, item := range v {
				walk(pointerTo(path, strconv.Itoa(i)), item)
			}
		}
	}
	walk("", v)
	return found
}
