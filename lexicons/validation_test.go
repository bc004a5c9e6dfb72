package lexicons_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

const (
	author = syntax.DID("did:web:scout.test")
	other  = syntax.DID("did:web:gardener.test")

	tid1 = "3mfkucsx22222" // 2026-02-24T00:00:00Z
	tid2 = "3mfkuctvkm222" // a second later
	tid3 = "3mfkxo46d2222" // an hour later
)

// edit returns base with changes laid over it; a nil value removes a field.
func edit(base map[string]any, changes map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range base {
		out[k] = v
	}
	for k, v := range changes {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

// record parses a Go literal by way of JSON, as a client would send it.
func record(t testing.TB, collection syntax.NSID, value map[string]any) *lexicons.Record {
	t.Helper()
	raw, err := json.Marshal(value)
	require.NoError(t, err)
	rec, err := lexicons.ParseJSON(collection, raw)
	require.NoError(t, err)
	return rec
}

var (
	observation = map[string]any{
		"source":     map[string]any{"kind": "command", "value": "uname -a"},
		"method":     "shell",
		"observedAt": "2026-02-24T00:00:00Z",
		"text":       "Linux",
		"generator":  map[string]any{"run": tid1, "device": "bench"},
		"createdAt":  "2026-02-24T00:00:01Z",
	}
	session = map[string]any{
		"title":     "Sort the seeds",
		"summary":   "# Goal\nsort",
		"updatedAt": "2026-02-24T00:00:00Z",
		"startedAt": "2026-02-23T00:00:00Z",
		"status":    "active",
		"machine":   "bench",
		"repo":      "git@example.org:garden/seeds.git",
	}
	chatSession = map[string]any{"createdAt": "2026-02-24T00:00:00Z", "title": "On seeds"}
	message     = map[string]any{
		"session":   "at://" + string(author) + "/click.aligned.chat.session/" + tid1,
		"role":      "assistant",
		"text":      "The seeds in drawer four are mustard.",
		"createdAt": "2026-02-24T00:00:00Z",
		"model":     "example/model-1",
		"steps": []any{
			map[string]any{"tool": "open-drawer", "summary": "drawer four"},
			map[string]any{"tool": "look", "failed": true},
		},
	}
	class = map[string]any{
		"name": "sorter", "description": "sorts seeds", "createdAt": "2026-02-24T00:00:00Z",
		"skills": []any{strongRef(skillURI(tid1))},
	}
	skill = map[string]any{
		"name": "sorting", "description": "when seeds are mixed", "content": "Look, then sort.",
		"createdAt": "2026-02-24T00:00:00Z",
		"tools":     []any{map[string]any{"name": "sort-seeds", "description": "sorts", "inputSchema": map[string]any{"type": "object"}}},
	}
	claim = map[string]any{
		"text":      "Drawer four has mustard. I think it is old.",
		"generator": map[string]any{"run": tid1},
		"createdAt": "2026-02-24T00:00:00Z",
		"citations": []any{citation(0, 24)},
		"basis":     []any{map[string]any{"span": span(25, 43), "kind": "opinion"}},
	}
)

func strongRef(uri string) map[string]any { return map[string]any{"uri": uri, "cid": dataCID} }
func span(from, to int) map[string]any    { return map[string]any{"byteStart": from, "byteEnd": to} }
func observationURI(rkey string) string {
	return "at://" + string(author) + "/garden.engram.agents.observation/" + rkey
}
func skillURI(rkey string) string {
	return "at://" + string(author) + "/com.publicdomainrelay.temp.agent.skill/" + rkey
}
func classURI(rkey string) string {
	return "at://" + string(author) + "/com.publicdomainrelay.temp.agent.class/" + rkey
}
func citation(from, to int) map[string]any {
	return map[string]any{"span": span(from, to), "relation": "restates", "target": strongRef(observationURI(tid1))}
}

var samples = map[syntax.NSID]map[string]any{
	lexicons.ObservationNSID: observation,
	lexicons.SessionNSID:     session,
	lexicons.ChatSessionNSID: chatSession,
	lexicons.MessageNSID:     message,
	lexicons.ClassNSID:       class,
	lexicons.SkillNSID:       skill,
	lexicons.ClaimNSID:       claim,
}

func TestSamplesAreValid(t *testing.T) {
	for nsid, value := range samples {
		rec := record(t, nsid, value)
		status, err := catalog(t).Validate(rec, tid1, lexicons.ValidateKnown)
		require.NoError(t, err, nsid)
		require.Equal(t, lexicons.StatusValid, status)
		require.NoError(t, lexicon.ValidateRecord(catalog(t), rec.Value, string(nsid), 0), "another validator says the same")
	}
}

func TestValidationModes(t *testing.T) {
	cat := catalog(t)
	unknown := record(t, "com.example.blah", map[string]any{"a": 1})

	status, err := cat.Validate(unknown, "x", lexicons.ValidateKnown)
	require.NoError(t, err)
	require.Equal(t, lexicons.StatusUnknown, status)

	_, err = cat.Validate(unknown, "x", lexicons.ValidateRequired)
	requireFinding(t, err, lexicons.CodeUnknownLexicon, "")

	status, err = cat.Validate(unknown, "x", lexicons.ValidateSkip)
	require.NoError(t, err)
	require.Equal(t, lexicons.StatusSkipped, status)

	// A known collection that is not enforced may skip its lexicon.
	schema := record(t, "com.atproto.lexicon.schema", map[string]any{"a": 1})
	_, err = cat.Validate(schema, "x", lexicons.ValidateSkip)
	require.NoError(t, err)
	_, err = cat.Validate(schema, "com.example.blah", lexicons.ValidateKnown)
	requireFinding(t, err, lexicons.CodeInvalidRecord, "/lexicon")

	for nsid := range samples {
		// Before anything is looked at: the record is invalid in every other way too.
		bad := record(t, nsid, map[string]any{"text": 1})
		_, err = cat.Validate(bad, "not a key", lexicons.ValidateSkip)
		var refused *lexicons.Refused
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "ValidationRequired", refused.Name())
		require.Equal(t, err, lexicons.RequireValidation(nsid, lexicons.ValidateSkip))
		require.NoError(t, lexicons.RequireValidation(nsid, lexicons.ValidateKnown))
	}
	require.NoError(t, lexicons.RequireValidation("com.example.blah", lexicons.ValidateSkip))
}

func TestValidateFindsPaths(t *testing.T) {
	for _, c := range []struct {
		name       string
		collection syntax.NSID
		change     map[string]any
		path       string // "" for valid
	}{
		{"required missing", lexicons.ObservationNSID, map[string]any{"method": nil}, "/method"},
		{"nested required missing", lexicons.ObservationNSID, map[string]any{"source": map[string]any{"kind": "url"}}, "/source/value"},
		{"wrong kind", lexicons.ObservationNSID, map[string]any{"text": 7}, "/text"},
		{"explicit null", lexicons.ObservationNSID, map[string]any{"supersedes": json.RawMessage("null")}, "/supersedes"},
		{"no time zone", lexicons.ObservationNSID, map[string]any{"observedAt": "2026-02-24T00:00:00"}, "/observedAt"},
		{"-00:00", lexicons.ObservationNSID, map[string]any{"observedAt": "2026-02-24T00:00:00-00:00"}, "/observedAt"},
		{"run is no TID", lexicons.ObservationNSID, map[string]any{"generator": map[string]any{"run": "today"}}, "/generator/run"},
		{"method of 256 bytes", lexicons.ObservationNSID, map[string]any{"method": strings.Repeat("é", 128)}, ""},
		{"method of 257 bytes", lexicons.ObservationNSID, map[string]any{"method": strings.Repeat("é", 128) + "x"}, "/method"},
		{"10,000 graphemes", lexicons.ObservationNSID, map[string]any{"text": strings.Repeat("🌱", 10000)}, ""},
		{"10,001 graphemes", lexicons.ObservationNSID, map[string]any{"text": strings.Repeat("🌱", 10000) + "x"}, "/text"},
		{"a family is one grapheme", lexicons.ChatSessionNSID, map[string]any{"title": strings.Repeat("👨‍👩‍👧‍👧", 25)}, ""},
		{"unknown source kind", lexicons.ObservationNSID, map[string]any{"source": map[string]any{"kind": "dream", "value": "x"}}, ""},
		{"unknown field", lexicons.MessageNSID, map[string]any{"withheld": true}, ""},
		{"content is no blob", lexicons.ObservationNSID, map[string]any{"content": "x"}, "/content"},
		{"content is a legacy blob", lexicons.ObservationNSID, map[string]any{"content": map[string]any{"cid": blobCID, "mimeType": "image/png"}}, "/content"},
		{"wrong $type on a ref", lexicons.ObservationNSID, map[string]any{"source": map[string]any{"$type": "garden.engram.agents.defs#span", "kind": "url", "value": "x"}}, "/source/$type"},
		{"right $type on a ref", lexicons.ObservationNSID, map[string]any{"source": map[string]any{"$type": "garden.engram.agents.defs#source", "kind": "url", "value": "x"}}, ""},
		{"main ref named without fragment", lexicons.ClassNSID, map[string]any{"parent": map[string]any{"$type": "com.atproto.repo.strongRef", "uri": classURI(tid2), "cid": dataCID}}, ""},
		{"item of an array", lexicons.ClassNSID, map[string]any{"skills": []any{strongRef(skillURI(tid1)), map[string]any{"uri": "x", "cid": dataCID}}}, "/skills/1/uri"},
		{"array too long", lexicons.MessageNSID, map[string]any{"mentions": repeat("did:web:a.test", 51)}, "/mentions"},
		{"mention is a handle", lexicons.MessageNSID, map[string]any{"mentions": []any{"a.test"}}, "/mentions/0"},
		{"negative span", lexicons.ClaimNSID, map[string]any{"citations": []any{citation(-1, 3)}}, "/citations/0/span/byteStart"},
		{"selector known", lexicons.ClaimNSID, selector(map[string]any{"$type": "garden.engram.agents.defs#textQuote", "exact": "mustard"}), ""},
		{"selector known and wrong", lexicons.ClaimNSID, selector(map[string]any{"$type": "garden.engram.agents.defs#textQuote"}), "/citations/0/selector/exact"},
		{"selector of a type not known here", lexicons.ClaimNSID, selector(map[string]any{"$type": "com.example.selector#xpath", "x": 1}), ""},
		{"selector with a relative $type", lexicons.ClaimNSID, selector(map[string]any{"$type": "#textQuote", "exact": "x"}), "/citations/0/selector/$type"},
		{"selector with a garbage $type", lexicons.ClaimNSID, selector(map[string]any{"$type": "hello world"}), "/citations/0/selector/$type"},
		{"selector without $type", lexicons.ClaimNSID, selector(map[string]any{"exact": "x"}), "/citations/0/selector/$type"},
		{"selector is a record", lexicons.ClaimNSID, selector(edit(chatSession, map[string]any{"$type": "click.aligned.chat.session"})), ""},
		{"selector is a bad record", lexicons.ClaimNSID, selector(map[string]any{"$type": "click.aligned.chat.session"}), "/citations/0/selector/createdAt"},
		{"selector is a method", lexicons.ClaimNSID, selector(map[string]any{"$type": "com.atproto.repo.getRecord"}), "/citations/0/selector/$type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := record(t, c.collection, edit(samples[c.collection], c.change))
			_, err := catalog(t).Validate(rec, tid1, lexicons.ValidateKnown)
			if c.path == "" {
				require.NoError(t, err)
				return
			}
			requireFinding(t, err, lexicons.CodeInvalidRecord, c.path)
		})
	}
}

func selector(s map[string]any) map[string]any {
	return map[string]any{"citations": []any{edit(citation(0, 5), map[string]any{"selector": s})}}
}

func repeat(s string, n int) []any {
	var out []any
	for range n {
		out = append(out, s)
	}
	return out
}

func TestValidateReportsAllFaults(t *testing.T) {
	rec := record(t, lexicons.ObservationNSID, edit(observation, map[string]any{"text": 7, "method": nil, "createdAt": "now"}))
	_, err := catalog(t).Validate(rec, "not-a-tid", lexicons.ValidateKnown)
	var refused *lexicons.Refused
	require.ErrorAs(t, err, &refused)
	var places []string
	for _, f := range refused.Findings {
		places = append(places, f.Code+" "+f.Path)
	}
	require.Equal(t, []string{"InvalidRecordKey ", "InvalidRecord /method", "InvalidRecord /createdAt", "InvalidRecord /text"}, places)
}

func TestRecordKeyTypes(t *testing.T) {
	cat, err := lexicons.LoadFS(fstest.MapFS{
		"literal.json": {Data: []byte(`{"lexicon":1,"id":"com.example.self","defs":{"main":{"type":"record","key":"literal:self","record":{"type":"object","properties":{}}}}}`)},
		"any.json":     {Data: []byte(`{"lexicon":1,"id":"com.example.any","defs":{"main":{"type":"record","key":"any","record":{"type":"object","properties":{}}}}}`)},
		"tid.json":     {Data: []byte(`{"lexicon":1,"id":"com.example.tid","defs":{"main":{"type":"record","key":"tid","record":{"type":"object","properties":{}}}}}`)},
		"nsid.json":    {Data: []byte(`{"lexicon":1,"id":"com.example.nsid","defs":{"main":{"type":"record","key":"nsid","record":{"type":"object","properties":{}}}}}`)},
	})
	require.NoError(t, err)
	for _, c := range []struct {
		collection syntax.NSID
		rkey       syntax.RecordKey
		ok         bool
	}{
		{"com.example.self", "self", true},
		{"com.example.self", "other", false},
		{"com.example.any", "2026-02-24T10:00:00", true},
		{"com.example.any", "a/b", false},
		{"com.example.any", "a b", false},
		{"com.example.any", "..", false},
		{"com.example.any", syntax.RecordKey(strings.Repeat("a", 512)), true},
		{"com.example.any", syntax.RecordKey(strings.Repeat("a", 513)), false},
		{"com.example.tid", tid1, true},
		{"com.example.tid", "3MFKUCSX22222", false},
		{"com.example.tid", "self", false},
		{"com.example.nsid", "com.example.any", true},
		{"com.example.nsid", "self", false},
	} {
		rec := record(t, c.collection, map[string]any{})
		_, err := cat.Validate(rec, c.rkey, lexicons.ValidateRequired)
		if c.ok {
			require.NoError(t, err, c.rkey)
		} else {
			requireFinding(t, err, lexicons.CodeInvalidRecordKey, "")
		}
	}
}

func TestBlobSchemaMIME(t *testing.T) {
	cat, err := lexicons.LoadFS(fstest.MapFS{"a.json": {Data: []byte(`{"lexicon":1,"id":"com.example.pic","defs":{"main":{"type":"record","key":"any","record":{"type":"object","properties":{
		"pic":{"type":"blob","accept":["image/*","text/plain"],"maxSize":100}}}}}}`)}})
	require.NoError(t, err)
	for _, c := range []struct {
		mime string
		size int
		path string
	}{
		{"image/png", 100, ""},
		{"IMAGE/PNG", 1, ""},
		{"text/plain; charset=utf-8", 1, ""},
		{"text/html", 1, "/pic/mimeType"},
		{"image/png", 101, "/pic/size"},
	} {
		rec := record(t, "com.example.pic", map[string]any{"pic": blobValue(c.mime, c.size)})
		_, err := cat.Validate(rec, "x", lexicons.ValidateRequired)
		if c.path == "" {
			require.NoError(t, err, c.mime)
		} else {
			requireFinding(t, err, lexicons.CodeInvalidRecord, c.path)
		}
	}
}

func blobValue(mime string, size int) map[string]any {
	return map[string]any{"$type": "blob", "ref": map[string]any{"$link": blobCID}, "mimeType": mime, "size": size}
}

func TestJudgeQuarantines(t *testing.T) {
	cat := catalog(t)
	verdict := cat.Judge(record(t, lexicons.ObservationNSID, observation), tid1)
	require.Empty(t, verdict.Findings)
	require.False(t, verdict.Quarantine)

	verdict = cat.Judge(record(t, lexicons.ObservationNSID, edit(observation, map[string]any{"method": nil})), tid1)
	require.True(t, verdict.Quarantine)
	require.Equal(t, "/method", verdict.Findings[0].Path)
	require.NoError(t, lexicons.RefusedBy(verdict.Findings), "an index refuses nothing")

	verdict = cat.Judge(record(t, lexicons.ObservationNSID, observation), "not-a-tid")
	require.True(t, verdict.Quarantine)

	verdict = cat.Judge(record(t, lexicons.SkillNSID, edit(skill, map[string]any{"content": nil})), tid1)
	require.False(t, verdict.Quarantine, "classes still point at skills older than the field")
	require.Len(t, verdict.Findings, 1)

	verdict = cat.Judge(record(t, "com.example.blah", map[string]any{}), "x")
	require.Equal(t, lexicons.Verdict{}, verdict)
}
