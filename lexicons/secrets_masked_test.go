package lexicons_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/secrettest"
)

// variants are a record with text in the place of each of its strings, one at a
// time, as a member's name, and where no text may stand.
func variants(value map[string]any, text string) []map[string]any {
	var out []map[string]any
	var walk func(v any, set func(any) map[string]any)
	walk = func(v any, set func(any) map[string]any) {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				walk(v[name], func(item any) map[string]any {
					object := maps.Clone(v)
					object[name] = item
					return set(object)
				})
			}
			for _, item := range []any{1.5, "text", map[string]any{"$link": text}, map[string]any{"$bytes": text}} {
				object := maps.Clone(v)
				object[text] = item
				out = append(out, set(object))
			}
		case []any:
			for i := range v {
				walk(v[i], func(item any) map[string]any {
					list := slices.Clone(v)
					list[i] = item
					return set(list)
				})
			}
		}
		out = append(out, set(text))
	}
	walk(value, func(v any) map[string]any {
		object, _ := v.(map[string]any)
		return object
	})
	return slices.DeleteFunc(out, func(v map[string]any) bool { return v == nil })
}

// Wherever a credential stands in a record, valid or not, and whichever it is:
// no finding and no error repeats it.
func TestNoFindingRepeatsASecret(t *testing.T) {
	cat := catalog(t)
	rules := lexicons.NewRules(cat, lexicons.Settings{})
	for _, rule := range lexicons.SecretRules() {
		text, secret := secrettest.Of(rule.ID)
		for nsid, sample := range samples {
			w := newWorld()
			w.put(t, nsid, tid1, sample)
			for _, value := range variants(sample, text) {
				found := allFindings(t, cat, rules, w, nsid, value)
				shown, err := json.Marshal(found)
				require.NoError(t, err)
				require.False(t, secrettest.Repeats(string(shown), secret), "%s: %s: %s", nsid, rule.ID, shown)
			}
		}
	}
}

// allFindings is all that is said of an update, from its JSON to the rules on state.
func allFindings(t *testing.T, cat *lexicons.Catalog, rules *lexicons.Rules, w *world, nsid syntax.NSID, value map[string]any) []lexicons.Finding {
	raw, err := json.Marshal(value)
	require.NoError(t, err)
	rec, err := lexicons.ParseJSON(nsid, raw)
	if err != nil {
		return said(t, err)
	}
	var found []lexicons.Finding
	if _, err := cat.Validate(rec, tid1, lexicons.ValidateRequired); err != nil {
		found = said(t, err)
	}
	uri := uriOf(nsid, tid1)
	ch := lexicons.Change{Action: lexicons.Update, DID: author, URI: uri, RecordKey: tid1, Record: rec, Prev: w.records[uri], Now: now}
	checked, err := rules.Check(context.Background(), ch, w)
	require.NoError(t, err)
	return append(found, checked...)
}

// said is an error's findings, and its text as one more.
func said(t *testing.T, err error) []lexicons.Finding {
	var refused *lexicons.Refused
	require.True(t, errors.As(err, &refused), "%v", err)
	return append([]lexicons.Finding{{Message: err.Error()}}, refused.Findings...)
}
