package lexicons_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"herbarium.garden/lexicons"
)

// Two validators on the same schemas: a sample with one value somewhere
// replaced or taken out is valid for both or for neither. The pool has no
// $type, where ours is stricter on purpose.
func TestValidatorAgreesWithIndigo(t *testing.T) {
	cat := catalog(t)
	pool := []any{nil, true, 0, -1, 1 << 40, "", "x", tid1, string(author), dataCID, observationURI(tid1), "2026-02-24T00:00:00Z",
		[]any{}, []any{"x"}, map[string]any{}, strongRef(skillURI(tid1)), blobValue("a/b", 1), map[string]any{"$bytes": "YQ"}}
	rapid.Check(t, func(rt *rapid.T) {
		nsid := rapid.SampledFrom([]string{
			"garden.engram.agents.observation", "garden.engram.session", "click.aligned.chat.session", "click.aligned.chat.message",
			"com.publicdomainrelay.temp.agent.class", "com.publicdomainrelay.temp.agent.skill", "garden.herbarium.claim",
		}).Draw(rt, "collection")
		raw, err := json.Marshal(samples[nsidOf(nsid)])
		require.NoError(rt, err)
		var value map[string]any
		require.NoError(rt, json.Unmarshal(raw, &value))
		mutate(rt, value, pool)

		raw, err = json.Marshal(value)
		require.NoError(rt, err)
		rec, err := lexicons.ParseJSON(nsidOf(nsid), raw)
		require.NoError(rt, err)
		_, ours := cat.Validate(rec, tid1, lexicons.ValidateRequired)
		theirs := lexicon.ValidateRecord(cat, rec.Value, nsid, 0)
		require.Equal(rt, theirs == nil, ours == nil, "%s\nours: %v\ntheirs: %v", raw, ours, theirs)
	})
}

// mutate changes one place of v: it goes down by chance and replaces or
// removes what it comes to.
func mutate(t *rapid.T, v any, pool []any) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return
		}
		name := rapid.SampledFrom(sortedNames(v)).Draw(t, "name")
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0:
			delete(v, name)
		case 1:
			v[name] = rapid.SampledFrom(pool).Draw(t, "value")
		default:
			mutate(t, v[name], pool)
		}
	case []any:
		if len(v) == 0 {
			return
		}
		at := rapid.IntRange(0, len(v)-1).Draw(t, "at")
		if rapid.Bool().Draw(t, "replace") {
			v[at] = rapid.SampledFrom(pool).Draw(t, "value")
			return
		}
		mutate(t, v[at], pool)
	}
}

func sortedNames(m map[string]any) []string {
	return slices.Sorted(maps.Keys(m))
}
