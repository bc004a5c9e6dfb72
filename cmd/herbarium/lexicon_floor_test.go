package main_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

// mutations is how many records the two validators are compared on, beside the corpus.
const mutations = 10_000

// The lexicons are the floor: what @atproto/lexicon of npm says of a record,
// our catalog says. Compared on the corpus and on mutations of it, the same in
// each run.
func TestLexiconFloorAgainstNPM(t *testing.T) {
	catalog, err := lexicons.Load()
	require.NoError(t, err)
	dir := t.TempDir()
	schemas := filepath.Join(dir, "lexicons")
	require.NoError(t, os.Mkdir(schemas, 0o700))
	for _, nsid := range catalog.NSIDs() {
		l := catalog.Lexicon(nsid)
		require.NoError(t, os.WriteFile(filepath.Join(schemas, string(nsid)+".json"), l.Source, 0o600))
	}
	records := corpus(t)
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, r := range records {
		require.NoError(t, encoder.Encode(r))
	}
	asked, answered := filepath.Join(dir, "records"), filepath.Join(dir, "verdicts")
	require.NoError(t, os.WriteFile(asked, lines.Bytes(), 0o600))
	node(t, "lexicon-floor.mjs", schemas, asked, answered)
	raw, err := os.ReadFile(answered)
	require.NoError(t, err)
	verdicts := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	require.Len(t, verdicts, len(records))

	refused, explained := 0, map[string]int{}
	for i, r := range records {
		ours := floor(t, catalog, r)
		theirs := verdicts[i]
		if theirs != "" {
			refused++
		}
		if (ours == "") == (theirs == "") {
			continue
		}
		why := explain(ours, theirs)
		if why == "" {
			value, _ := json.Marshal(r)
			t.Errorf("ours: %q\ntheirs: %q\n%s", ours, theirs, value)
			if explained["?"]++; explained["?"] > 15 {
				t.FailNow()
			}
		}
		explained[why]++
	}
	t.Logf("%d records, %d refused by npm, explained disagreements %v", len(records), refused, explained)
}

// disagreements are where the two differ on purpose, by what one of them says.
var disagreements = []struct{ ours, theirs, why string }{
	{`"2026-02-24T00:00:00" is not in the format datetime`, "", "atproto's datetimes have a time zone; npm takes one without"},
	{"", "must be a cid string", "npm decodes a CID; the format is a syntax, and the rules refuse such a strongRef as ref-malformed"},
}

func explain(ours, theirs string) string {
	for _, d := range disagreements {
		if d.ours != "" && strings.Contains(ours, d.ours) || d.theirs != "" && strings.Contains(theirs, d.theirs) {
			return d.why
		}
	}
	return ""
}

type floorCase struct {
	Collection syntax.NSID    `json:"collection"`
	Record     map[string]any `json:"record"`
}

// floor is what our catalog says; "" for valid.
func floor(t *testing.T, catalog *lexicons.Catalog, r floorCase) string {
	raw, err := json.Marshal(r.Record)
	require.NoError(t, err)
	record, err := lexicons.ParseJSON(r.Collection, raw)
	if err == nil {
		_, err = catalog.Validate(record, "3mfkucsx22222", lexicons.ValidateRequired)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// corpus are the samples of lexicons/testdata/records and mutations of them.
func corpus(t *testing.T) []floorCase {
	files, err := filepath.Glob("../../lexicons/testdata/records/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var samples [][]byte
	var all []floorCase
	read := func(raw []byte) floorCase {
		var value map[string]any
		require.NoError(t, json.Unmarshal(raw, &value))
		return floorCase{syntax.NSID(value["$type"].(string)), value}
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		samples = append(samples, raw)
		all = append(all, read(raw))
	}
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range mutations {
		r := read(samples[i%len(samples)])
		mutate(dice, r.Record)
		all = append(all, r)
	}
	return all
}

// mutate replaces or removes one value somewhere.
func mutate(dice *rand.Rand, v any) {
	pool := []any{nil, true, 0, -1, 1 << 40, "", "x", "3mfkucsx22222", "did:web:scout.test", "2026-02-24T00:00:00Z", "2026-02-24T00:00:00", "2026-02-24T00:00:00-00:00",
		"at://did:web:scout.test/com.example.a/1", "at://scout.test", "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a",
		strings.Repeat("é", 130), strings.Repeat("👩‍👩‍👧", 70), strings.Repeat("x", 5001), []any{}, []any{"x"}, map[string]any{}, map[string]any{"$bytes": "YQ"}}
	switch v := v.(type) {
	case map[string]any:
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(v)), func(n string) bool { return strings.HasPrefix(n, "$") })
		if len(names) == 0 {
			return
		}
		name := names[dice.IntN(len(names))]
		switch dice.IntN(4) {
		case 0:
			delete(v, name)
		case 1:
			v[name] = pool[dice.IntN(len(pool))]
		default:
			mutate(dice, v[name])
			if _, leaf := v[name].(string); leaf {
				v[name] = pool[dice.IntN(len(pool))]
			}
		}
	case []any:
		if len(v) > 0 {
			at := dice.IntN(len(v))
			if dice.IntN(2) == 0 {
				v[at] = pool[dice.IntN(len(pool))]
			} else {
				mutate(dice, v[at])
			}
		}
	}
}
