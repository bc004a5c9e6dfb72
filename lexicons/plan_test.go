package lexicons_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

// recordType is a lexicon file of a record type with these fields.
func recordType(nsid, fields string) string {
	return `{"lexicon":1,"id":"` + nsid + `","defs":{"main":{"type":"record","key":"any","record":{"type":"object","properties":{` + fields + `}}}}}`
}

func nsids(names ...string) []syntax.NSID {
	out := make([]syntax.NSID, len(names))
	for i, n := range names {
		out[i] = syntax.NSID(n)
	}
	return out
}

func TestPlan(t *testing.T) {
	was := catalog(t).With(
		parseLexicon(t, recordType("com.example.note", `"text":{"type":"string","maxLength":10},"at":{"type":"ref","ref":"com.example.defs#place"}`)),
		parseLexicon(t, `{"lexicon":1,"id":"com.example.defs","defs":{"place":{"type":"object","properties":{}}}}`),
	)
	session := string(catalog(t).Lexicon(lexicons.SessionNSID).Source)
	for _, c := range []struct {
		name      string
		put       []string
		remove    []syntax.NSID
		force     bool
		problem   string // "" when it may be carried out
		steps     map[string]lexicons.StepAction
		concerned []string // among them
		spared    []string // not among them
	}{
		{name: "a new record type", put: []string{recordType("com.example.new", ``)},
			steps: map[string]lexicons.StepAction{"com.example.new": lexicons.StepAdd}, concerned: []string{"com.example.new"}, spared: []string{"com.example.note", "garden.engram.session"}},
		{name: "two that refer to each other", put: []string{
			recordType("com.example.a", `"x":{"type":"ref","ref":"com.example.b#part"}`),
			`{"lexicon":1,"id":"com.example.b","defs":{"part":{"type":"object","properties":{"y":{"type":"union","refs":["com.example.a"]}}}}}`,
		}, steps: map[string]lexicons.StepAction{"com.example.a": lexicons.StepAdd, "com.example.b": lexicons.StepAdd}, concerned: []string{"com.example.a"}},
		{name: "one that refers to nothing", put: []string{recordType("com.example.a", `"x":{"type":"ref","ref":"com.example.b#part"}`)},
			problem: "com.example.a#main refers to com.example.b#part, which is not here; add the lexicon that defines it too"},
		{name: "the same again", put: []string{recordType("com.example.note", `"text":{"type":"string","maxLength":10},"at":{"type":"ref","ref":"com.example.defs#place"}`)},
			steps: map[string]lexicons.StepAction{"com.example.note": lexicons.StepKeep}, spared: []string{"com.example.note"}},
		{name: "a compatible change below", put: []string{`{"lexicon":1,"id":"com.example.defs","defs":{"place":{"type":"object","properties":{"name":{"type":"string"}}}}}`},
			steps: map[string]lexicons.StepAction{"com.example.defs": lexicons.StepChange}, concerned: []string{"com.example.note"}},
		{name: "a change that refuses old records", put: []string{recordType("com.example.note", `"text":{"type":"string","maxLength":9},"at":{"type":"ref","ref":"com.example.defs#place"}`)},
			problem: "com.example.note breaks with its old version: /defs/main/record/properties/text/maxLength: the bound was 10, and is 9; publish it under another name, or force it"},
		{name: "a change that others would refuse", put: []string{recordType("com.example.note", `"text":{"type":"string","maxLength":11},"at":{"type":"ref","ref":"com.example.defs#place"}`)},
			problem: "the bound was 10, and is 11"},
		{name: "forced", force: true, put: []string{recordType("com.example.note", `"text":{"type":"integer"}`)},
			steps: map[string]lexicons.StepAction{"com.example.note": lexicons.StepChange}, concerned: []string{"com.example.note"}},
		{name: "a new optional field of our own", put: []string{strings.Replace(session, `"title":`, `"mood":{"type":"string"},"title":`, 1)},
			steps: map[string]lexicons.StepAction{"garden.engram.session": lexicons.StepChange}, concerned: []string{"garden.engram.session"}},
		{name: "our own, narrowed by force", force: true, put: []string{strings.Replace(session, `"required":`, `"nullable":[],"required":`, 1) + " "},
			steps: map[string]lexicons.StepAction{"garden.engram.session": lexicons.StepChange}},
		{name: "our own, another type", force: true, put: []string{recordType("garden.engram.session", `"title":{"type":"integer"}`)},
			problem: "garden.engram.session belongs to the program, and /defs/main"},
		{name: "removed", remove: nsids("com.example.note"),
			steps: map[string]lexicons.StepAction{"com.example.note": lexicons.StepRemove}, concerned: []string{"com.example.note"}},
		{name: "removed with what depends on it", remove: nsids("com.example.note", "com.example.defs"),
			steps: map[string]lexicons.StepAction{"com.example.note": lexicons.StepRemove, "com.example.defs": lexicons.StepRemove}},
		{name: "removed before what depends on it", remove: nsids("com.example.defs"), force: true, problem: "com.example.note#main refers to com.example.defs#place, which is not here"},
		{name: "removed, never added", remove: nsids("com.example.unknown"), problem: "com.example.unknown was not added here"},
		{name: "removed, the program's", remove: nsids("garden.engram.session"), force: true, problem: "garden.engram.session belongs to the program and cannot be removed"},
		{name: "twice", put: []string{recordType("com.example.a", ``), recordType("com.example.a", `"x":{"type":"string"}`)}, problem: "com.example.a is named twice"},
		{name: "put and removed", put: []string{recordType("com.example.a", ``)}, remove: nsids("com.example.a"), problem: "com.example.a is named twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			proposal := lexicons.Proposal{Remove: c.remove, Force: c.force}
			for _, raw := range c.put {
				proposal.Put = append(proposal.Put, parseLexicon(t, raw))
			}
			plan := was.Plan(proposal)
			if c.problem != "" {
				require.Contains(t, strings.Join(plan.Problems, "\n"), c.problem)
				return
			}
			require.Empty(t, plan.Problems)
			steps := map[string]lexicons.StepAction{}
			for _, s := range plan.Steps {
				steps[string(s.NSID)] = s.Action
			}
			require.Equal(t, c.steps, steps)
			require.Subset(t, plan.Concerned, nsids(c.concerned...))
			for _, nsid := range c.spared {
				require.NotContains(t, plan.Concerned, nsidOf(nsid))
			}
		})
	}
	require.Len(t, was.Added(), 2, "a plan changes nothing")
}

// An open union takes any type, so what a new lexicon defines may stand there.
func TestOpenUnionsAreConcerned(t *testing.T) {
	was := catalog(t).With(
		parseLexicon(t, recordType("com.example.open", `"embed":{"type":"union","refs":[]}`)),
		parseLexicon(t, recordType("com.example.outer", `"in":{"type":"ref","ref":"com.example.inner#part"}`)),
		parseLexicon(t, `{"lexicon":1,"id":"com.example.inner","defs":{"part":{"type":"object","properties":{"x":{"type":"array","items":{"type":"union","refs":["#part"]}}}}}}`),
		parseLexicon(t, recordType("com.example.closed", `"embed":{"type":"union","closed":true,"refs":["com.example.closed2#part"]}`)),
		parseLexicon(t, `{"lexicon":1,"id":"com.example.closed2","defs":{"part":{"type":"object","properties":{}}}}`),
	)
	plan := was.Plan(lexicons.Proposal{Put: []*lexicons.Lexicon{parseLexicon(t, `{"lexicon":1,"id":"com.example.far","defs":{"thing":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}}}`)}})
	require.Empty(t, plan.Problems)
	require.Subset(t, plan.Concerned, nsids("com.example.open", "com.example.outer"))
	require.NotContains(t, plan.Concerned, nsidOf("com.example.closed"))

	rec := record(t, "com.example.open", map[string]any{"embed": map[string]any{"$type": "com.example.far#thing"}})
	require.False(t, was.Judge(rec, "x").Quarantine)
	require.True(t, plan.Catalog.Judge(rec, "x").Quarantine)
}

// A program that was brought up to date wins over what was added to its older
// self, where both cannot be.
func TestWithKeepsWhatIsLoaded(t *testing.T) {
	narrower := parseLexicon(t, recordType("garden.engram.session", `"title":{"type":"integer"}`))
	with := catalog(t).With(narrower)
	require.Equal(t, catalog(t).Lexicon(lexicons.SessionNSID), with.Lexicon(lexicons.SessionNSID))
	require.Equal(t, []*lexicons.Lexicon{narrower}, with.Added(), "it is still listed, and can be removed")
	plan := with.Plan(lexicons.Proposal{Remove: nsids("garden.engram.session")})
	require.Empty(t, plan.Problems)
	require.Empty(t, plan.Catalog.Added())
	require.Empty(t, plan.Concerned, "it was not in force")

	// One that says what the program says is kept when somebody else decided so.
	own := parseLexicon(t, string(catalog(t).Lexicon(lexicons.SessionNSID).Source))
	require.False(t, catalog(t).Plan(lexicons.Proposal{Put: []*lexicons.Lexicon{own}}).Changes())
	become := with.Become([]*lexicons.Lexicon{own})
	require.True(t, become.Changes())
	require.Empty(t, become.Concerned)
	require.Equal(t, []*lexicons.Lexicon{own}, become.Catalog.Added())
	require.False(t, become.Catalog.Become([]*lexicons.Lexicon{own}).Changes())

	require.Equal(t, lexicons.NewRules(catalog(t), lexicons.Settings{}).Edition(), lexicons.NewRules(with, lexicons.Settings{}).Edition())
	require.NotEqual(t, lexicons.NewRules(with, lexicons.Settings{}).Edition(), lexicons.NewRules(with, lexicons.Settings{Messages: lexicons.MessageOff}).Edition())
}

func TestPlanBounds(t *testing.T) {
	var many []*lexicons.Lexicon
	for n := range lexicons.MaxAdded + 1 {
		many = append(many, parseLexicon(t, recordType(fmt.Sprintf("com.example.type%d", n), ``)))
	}
	require.Contains(t, strings.Join(catalog(t).Plan(lexicons.Proposal{Put: many}).Problems, "\n"), "at most 500")
	var large []*lexicons.Lexicon
	for n := range 9 {
		large = append(large, parseLexicon(t, recordType(fmt.Sprintf("com.example.type%d", n), `"x":{"type":"string","description":"`+strings.Repeat("x", lexicons.MaxSchemaSize-300)+`"}`)))
	}
	require.Contains(t, strings.Join(catalog(t).Plan(lexicons.Proposal{Put: large}).Problems, "\n"), "bytes together")
}

func TestParseLexiconRefuses(t *testing.T) {
	for name, c := range map[string]struct{ raw, says string }{
		"no JSON":                {`{`, "json-syntax"},
		"a name twice":           {`{"lexicon":1,"id":"com.example.a","defs":{},"defs":{}}`, "duplicate-key"},
		"too deep":               {`{"lexicon":1,"id":"com.example.a","defs":{"x":` + strings.Repeat(`{"type":"array","items":`, 80) + `1` + strings.Repeat("}", 80) + `}}`, "too-deep"},
		"another language":       {`{"lexicon":2,"id":"com.example.a","defs":{}}`, "version"},
		"no NSID":                {`{"lexicon":1,"id":"example","defs":{}}`, "NSID"},
		"another record":         {`{"$type":"com.example.b","lexicon":1,"id":"com.example.a","defs":{}}`, "$type"},
		"a reference by itself":  {`{"lexicon":1,"id":"com.example.a","defs":{"x":{"type":"ref","ref":"#x"}}}`, "named definition"},
		"a union by itself":      {`{"lexicon":1,"id":"com.example.a","defs":{"x":{"type":"union","refs":["#x"]}}}`, "named definition"},
		"a reference to no name": {recordType("com.example.a", `"x":{"type":"ref","ref":"https://example.com"}`), "is none"},
		"a name of a definition": {`{"lexicon":1,"id":"com.example.a","defs":{"x y":{"type":"token"}}}`, "no name of a definition"},
		"a record elsewhere":     {`{"lexicon":1,"id":"com.example.a","defs":{"x":{"type":"record","key":"tid","record":{"type":"object","properties":{}}}}}`, "main"},
		"a key that is none":     {`{"lexicon":1,"id":"com.example.a","defs":{"main":{"type":"record","key":"literal:..","record":{"type":"object","properties":{}}}}}`, "key"},
		"required, not defined":  {`{"lexicon":1,"id":"com.example.a","defs":{"main":{"type":"object","required":["x"],"properties":{}}}}`, "required"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := lexicons.ParseLexicon([]byte(c.raw))
			require.ErrorIs(t, err, lexicons.ErrLexicon)
			require.ErrorContains(t, err, c.says)
		})
	}
}
