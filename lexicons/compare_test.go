package lexicons_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/lex/lexlint"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"herbarium.garden/lexicons"
)

// schemaOf is a lexicon file whose record type has these fields, of which some
// are required, and a definition "part".
func schemaOf(fields string, required string) string {
	return `{"lexicon":1,"id":"com.example.thing","defs":{"main":{"type":"record","key":"tid","record":{"type":"object","required":[` + required +
		`],"properties":{` + fields + `}}},"part":{"type":"object","properties":{}}}}`
}

func parseLexicon(t require.TestingT, raw string) *lexicons.Lexicon {
	l, err := lexicons.ParseLexicon([]byte(raw))
	require.NoError(t, err, raw)
	return l
}

// The rules of lexicon evolution (atproto.com/specs/lexicon): all old data must
// be valid under the new version and new data under the old one; new fields
// must be optional, non-optional fields stay, types do not change, fields are
// not renamed.
func TestCompare(t *testing.T) {
	field := func(def string) string { return schemaOf(`"a":`+def, "") }
	const old, fresh = "refuses old", "admits new"
	for _, c := range []struct {
		name          string
		before, after string
		path          string // of the first difference that breaks most
		want          []string
	}{
		{"nothing", field(`{"type":"string"}`), field(`{"type":"string"}`), "", nil},
		{"a description", field(`{"type":"string"}`), field(`{"type":"string","description":"new words"}`), "", nil},
		{"a default", field(`{"type":"integer","default":1}`), field(`{"type":"integer","default":2}`), "", nil},
		{"new fields must be optional: one that is", schemaOf(`"a":{"type":"string"}`, ""), schemaOf(`"a":{"type":"string"},"b":{"type":"string"}`, ""), "/defs/main/record/properties/b", nil},
		{"new fields must be optional: one that is not", schemaOf(`"a":{"type":"string"}`, ""), schemaOf(`"a":{"type":"string"},"b":{"type":"string"}`, `"b"`), "/defs/main/record/properties/b", []string{old}},
		{"a field becomes required", schemaOf(`"a":{"type":"string"}`, ""), schemaOf(`"a":{"type":"string"}`, `"a"`), "/defs/main/record/properties/a", []string{old}},
		{"a field is not required any more", schemaOf(`"a":{"type":"string"}`, `"a"`), schemaOf(`"a":{"type":"string"}`, ""), "/defs/main/record/properties/a", []string{fresh}},
		{"non-optional fields can not be removed", schemaOf(`"a":{"type":"string"}`, `"a"`), schemaOf(``, ""), "/defs/main/record/properties/a", []string{fresh}},
		{"an optional field is removed", schemaOf(`"a":{"type":"string"}`, ""), schemaOf(``, ""), "/defs/main/record/properties/a", nil},
		{"fields can not be renamed", schemaOf(`"a":{"type":"string"}`, `"a"`), schemaOf(`"b":{"type":"string"}`, `"b"`), "/defs/main/record/properties/a", []string{fresh, old}},
		{"types can not change", field(`{"type":"string"}`), field(`{"type":"integer"}`), "/defs/main/record/properties/a", []string{old, fresh}},
		{"types can not change: of items", field(`{"type":"array","items":{"type":"string"}}`), field(`{"type":"array","items":{"type":"integer"}}`), "/defs/main/record/properties/a/items", []string{old, fresh}},
		{"types can not change: the kind of key", field(`{"type":"string"}`), `{"lexicon":1,"id":"com.example.thing","defs":{"main":{"type":"record","key":"nsid","record":{"type":"object","properties":{"a":{"type":"string"}}}},"part":{"type":"object","properties":{}}}}`, "/defs/main/key", []string{old, fresh}},
		{"shorter", field(`{"type":"string","maxLength":10}`), field(`{"type":"string","maxLength":9}`), "/defs/main/record/properties/a/maxLength", []string{old}},
		{"longer", field(`{"type":"string","maxLength":10}`), field(`{"type":"string","maxLength":11}`), "/defs/main/record/properties/a/maxLength", []string{fresh}},
		{"a bound where there was none", field(`{"type":"string"}`), field(`{"type":"string","maxGraphemes":9}`), "/defs/main/record/properties/a/maxGraphemes", []string{old}},
		{"a least length that grows", field(`{"type":"bytes","minLength":1}`), field(`{"type":"bytes","minLength":2}`), "/defs/main/record/properties/a/minLength", []string{old}},
		{"a least length that goes", field(`{"type":"array","minLength":1,"items":{"type":"cid-link"}}`), field(`{"type":"array","items":{"type":"cid-link"}}`), "/defs/main/record/properties/a/minLength", []string{fresh}},
		{"a narrower range", field(`{"type":"integer","minimum":0,"maximum":9}`), field(`{"type":"integer","minimum":1,"maximum":9}`), "/defs/main/record/properties/a/minimum", []string{old}},
		{"an enum where there was none", field(`{"type":"string"}`), field(`{"type":"string","enum":["x"]}`), "/defs/main/record/properties/a/enum", []string{old}},
		{"an enum that grows", field(`{"type":"string","enum":["x"]}`), field(`{"type":"string","enum":["x","y"]}`), "/defs/main/record/properties/a/enum", []string{fresh}},
		{"an enum that shrinks", field(`{"type":"integer","enum":[1,2]}`), field(`{"type":"integer","enum":[2]}`), "/defs/main/record/properties/a/enum", []string{old}},
		{"another const", field(`{"type":"boolean","const":true}`), field(`{"type":"boolean","const":false}`), "/defs/main/record/properties/a/const", []string{old, fresh}},
		{"known values are open", field(`{"type":"string","knownValues":["x"]}`), field(`{"type":"string","knownValues":["y"]}`), "/defs/main/record/properties/a/knownValues", nil},
		{"a format", field(`{"type":"string"}`), field(`{"type":"string","format":"did"}`), "/defs/main/record/properties/a/format", []string{old}},
		{"nullable", schemaOf(`"a":{"type":"string"}`, ""), `{"lexicon":1,"id":"com.example.thing","defs":{"main":{"type":"record","key":"tid","record":{"type":"object","nullable":["a"],"properties":{"a":{"type":"string"}}}},"part":{"type":"object","properties":{}}}}`, "/defs/main/record/nullable", []string{fresh}},
		{"another reference", field(`{"type":"ref","ref":"#part"}`), field(`{"type":"ref","ref":"com.atproto.repo.strongRef"}`), "/defs/main/record/properties/a/ref", []string{old, fresh}},
		{"a reference, spelled in full", field(`{"type":"ref","ref":"#part"}`), field(`{"type":"ref","ref":"com.example.thing#part"}`), "", nil},
		{"a closed union narrows", field(`{"type":"union","closed":true,"refs":["#part","com.example.b"]}`), field(`{"type":"union","closed":true,"refs":["#part"]}`), "/defs/main/record/properties/a/refs", []string{old}},
		{"a closed union widens", field(`{"type":"union","closed":true,"refs":["#part"]}`), field(`{"type":"union","closed":true,"refs":["#part","com.example.b"]}`), "/defs/main/record/properties/a/refs", []string{fresh}},
		{"an open union changes", field(`{"type":"union","refs":["#part"]}`), field(`{"type":"union","refs":["com.example.b"]}`), "/defs/main/record/properties/a/refs", nil},
		{"an open union closes", field(`{"type":"union","refs":["#part"]}`), field(`{"type":"union","closed":true,"refs":["#part"]}`), "/defs/main/record/properties/a/closed", []string{old}},
		{"a blob of fewer types", field(`{"type":"blob","accept":["image/*"]}`), field(`{"type":"blob","accept":["image/png"]}`), "/defs/main/record/properties/a/accept", []string{old}},
		{"a smaller blob", field(`{"type":"blob","maxSize":2}`), field(`{"type":"blob","maxSize":1}`), "/defs/main/record/properties/a/maxSize", []string{old}},
		{"a definition is removed", field(`{"type":"string"}`), `{"lexicon":1,"id":"com.example.thing","defs":{"main":{"type":"record","key":"tid","record":{"type":"object","properties":{"a":{"type":"string"}}}}}}`, "/defs/part", []string{fresh}},
		{"a parameter becomes required",
			`{"lexicon":1,"id":"com.example.get","defs":{"main":{"type":"query","parameters":{"type":"params","properties":{"q":{"type":"string"}}}}}}`,
			`{"lexicon":1,"id":"com.example.get","defs":{"main":{"type":"query","parameters":{"type":"params","required":["q"],"properties":{"q":{"type":"string"}}}}}}`,
			"/defs/main/parameters/properties/q", []string{old}},
		{"another body",
			`{"lexicon":1,"id":"com.example.get","defs":{"main":{"type":"query","output":{"encoding":"application/json"}}}}`,
			`{"lexicon":1,"id":"com.example.get","defs":{"main":{"type":"query","output":{"encoding":"text/plain"}}}}`,
			"/defs/main/output", []string{old, fresh}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := lexicons.Compare(parseLexicon(t, c.before), parseLexicon(t, c.after))
			var got []string
			var paths []string
			for _, d := range found {
				require.NotEmpty(t, d.Message)
				paths = append(paths, d.Path)
				if d.RefusesOld {
					got = append(got, old)
				}
				if d.AdmitsNew {
					got = append(got, fresh)
				}
			}
			require.Equal(t, c.want, got, "%+v", found)
			if c.path == "" {
				require.Empty(t, found)
			} else {
				require.Contains(t, paths, c.path)
			}
		})
	}
}

// What the verdict promises, on generated schemas and changes of them: a record
// that was valid is valid when nothing refuses old records, and one that is
// valid was so before when nothing admits new ones. What the field's own linter
// calls an error breaks here too.
func TestCompareKeepsItsPromise(t *testing.T) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // the linter speaks
	base, agreed, checked := catalog(t), map[string]int{}, 0
	rapid.Check(t, func(t *rapid.T) {
		was := genSchema(t)
		is := cloneJSON(t, was)
		for range rapid.IntRange(1, 2).Draw(t, "changes") {
			changeSchema(t, is)
		}
		before, okBefore := lexiconOf(was)
		after, okAfter := lexiconOf(is)
		if !okBefore || !okAfter {
			return // a change may leave what is no lexicon
		}
		refusesOld, admitsNew := false, false
		for _, d := range lexicons.Compare(before, after) {
			refusesOld, admitsNew = refusesOld || d.RefusesOld, admitsNew || d.AdmitsNew
		}
		agreed[fmt.Sprint(refusesOld, admitsNew)]++
		for _, issue := range lexlint.BreakingChanges(schemaFile(t, was), schemaFile(t, is)) {
			if issue.LintLevel == "error" && !byText[issue.LintName] {
				require.True(t, refusesOld || admitsNew, "%v", issue)
			}
		}
		old, fresh := base.With(before), base.With(after)
		for range 4 {
			if value, ok := genValue(t, was, recordDef(was)); ok && !refusesOld {
				checked += requireStillValid(t, value, old, fresh)
			}
			if value, ok := genValue(t, is, recordDef(is)); ok && !admitsNew {
				checked += requireStillValid(t, value, fresh, old)
			}
		}
	})
	for _, kind := range []string{"false false", "true false", "false true", "true true"} {
		require.NotZero(t, agreed[kind], "no change that %s", kind)
	}
	require.Greater(t, checked, 20, "values that were valid on the one side")
}

// requireStillValid checks that a record which is valid here is so there, and
// counts it; the generator aims at valid ones, and sometimes misses.
func requireStillValid(t *rapid.T, value any, here, there *lexicons.Catalog) int {
	raw, err := json.Marshal(value)
	require.NoError(t, err)
	rec, err := lexicons.ParseJSON("com.example.made", raw)
	require.NoError(t, err)
	if _, err := here.Validate(rec, tid1, lexicons.ValidateRequired); err != nil {
		return 0
	}
	_, err = there.Validate(rec, tid1, lexicons.ValidateRequired)
	require.NoError(t, err, "%v", value)
	return 1
}

// byText are what the linter finds where only the text differs: a value listed
// twice, a const beside an enum of the same, a nullable field that is new, a
// union that says it is open.
var byText = map[string]bool{"object-nullable": true, "const-value": true, "enum-values": true, "union-open-closed": true}

func lexiconOf(schema map[string]any) (*lexicons.Lexicon, bool) {
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, false
	}
	l, err := lexicons.ParseLexicon(raw)
	return l, err == nil
}

func schemaFile(t *rapid.T, schema map[string]any) *lexicon.SchemaFile {
	raw, err := json.Marshal(schema)
	require.NoError(t, err)
	var sf lexicon.SchemaFile
	require.NoError(t, json.Unmarshal(raw, &sf))
	require.NoError(t, sf.FinishParse())
	return &sf
}
