package lexicons_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

var now = time.Date(2026, 2, 24, 0, 0, 2, 0, time.UTC)

// world is a Snapshot with state: what a repo holds, held, and was given.
type world struct {
	records map[syntax.ATURI]*lexicons.StoredRecord
	tombs   map[syntax.ATURI]*lexicons.Tombstone
	blobs   map[cid.Cid]*lexicons.StoredBlob
	heads   map[syntax.ATURI]*lexicons.StrongRef
	err     error
}

func newWorld() *world {
	return &world{
		records: map[syntax.ATURI]*lexicons.StoredRecord{},
		tombs:   map[syntax.ATURI]*lexicons.Tombstone{},
		blobs:   map[cid.Cid]*lexicons.StoredBlob{},
		heads:   map[syntax.ATURI]*lexicons.StrongRef{},
	}
}

func (w *world) Record(_ context.Context, uri syntax.ATURI) (*lexicons.StoredRecord, error) {
	return w.records[uri], w.err
}

func (w *world) Tombstone(_ context.Context, uri syntax.ATURI) (*lexicons.Tombstone, error) {
	return w.tombs[uri], w.err
}

func (w *world) LiveSuccessor(_ context.Context, uri syntax.ATURI) (*lexicons.StrongRef, error) {
	return w.heads[uri], w.err
}

func (w *world) Blob(_ context.Context, _ syntax.DID, c cid.Cid) (*lexicons.StoredBlob, error) {
	return w.blobs[c], w.err
}

var _ lexicons.Snapshot = (*world)(nil)

func uriOf(collection syntax.NSID, rkey string) syntax.ATURI {
	return syntax.ATURI("at://" + string(author) + "/" + string(collection) + "/" + rkey)
}

// put lets a record stand in the world and answers its strongRef.
func (w *world) put(t testing.TB, collection syntax.NSID, rkey string, value map[string]any) map[string]any {
	rec := record(t, collection, value)
	uri := uriOf(collection, rkey)
	w.records[uri] = &lexicons.StoredRecord{URI: uri, CID: rec.CID, CBOR: rec.CBOR}
	return map[string]any{"uri": uri.String(), "cid": rec.CID.String()}
}

func change(t testing.TB, collection syntax.NSID, rkey string, value map[string]any) lexicons.Change {
	return lexicons.Change{
		Action:    lexicons.Create,
		DID:       author,
		URI:       uriOf(collection, rkey),
		RecordKey: syntax.RecordKey(rkey),
		Record:    record(t, collection, value),
		Now:       now,
	}
}

// update is a change of a record that stands in w.
func (w *world) update(t testing.TB, collection syntax.NSID, rkey string, value map[string]any) lexicons.Change {
	ch := change(t, collection, rkey, value)
	ch.Action = lexicons.Update
	ch.Prev = w.records[ch.URI]
	require.NotNil(t, ch.Prev)
	return ch
}

// summary lists findings as "code path", with "!" before those that refuse and
// the refusal behind.
func summary(findings []lexicons.Finding) []string {
	out := []string{}
	for _, f := range findings {
		s := f.Code + " " + f.Path
		if f.Refusal != "" {
			s = "!" + s + " " + f.Refusal
		}
		out = append(out, s)
	}
	return out
}

type ruleCase struct {
	name   string
	change map[string]any // laid over the sample of the collection
	want   []string
}

// testRecordRules runs each case through CheckRecord, the sample itself first:
// it has no finding, so that a case shows what its change does.
func testRecordRules(t *testing.T, collection syntax.NSID, cases []ruleCase) {
	t.Helper()
	cases = append([]ruleCase{{"sample", nil, nil}}, cases...)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rules := lexicons.NewRules(catalog(t), lexicons.Settings{})
			ch := change(t, collection, tid1, edit(samples[collection], c.change))
			if c.want == nil {
				c.want = []string{}
			}
			found := rules.CheckRecord(ch)
			require.Equal(t, c.want, summary(found))
			refuses := slices.ContainsFunc(found, func(f lexicons.Finding) bool { return f.Refusal != "" })
			require.Equal(t, refuses, lexicons.RefusedBy(found) != nil)
			for _, f := range found {
				require.NotEmpty(t, f.Message)
				require.Equal(t, f.Refusal != "", f.Repair != "", "a refusal says how to mend it: %s", f.Code)
			}
		})
	}
}

func TestObservationRules(t *testing.T) {
	source := func(kind, value string) map[string]any {
		return map[string]any{"source": map[string]any{"kind": kind, "value": value}}
	}
	testRecordRules(t, lexicons.ObservationNSID, []ruleCase{
		{"empty method", map[string]any{"method": ""}, []string{"!empty-method /method InvalidRequest"}},
		{"empty source", source("command", ""), []string{"!empty-source-value /source/value InvalidRequest"}},
		{"empty text without content", map[string]any{"text": ""}, []string{"empty-text /text"}},
		{"empty text with content", map[string]any{"text": "", "content": blobValue("image/png", 3)}, nil},
		{"unknown source kind", source("dream", "x"), []string{"unknown-value /source/kind"}},

		{"observed 4 minutes after created", map[string]any{"observedAt": "2026-02-24T00:04:01Z"}, nil},
		{"observed 6 minutes after created", map[string]any{"observedAt": "2026-02-24T00:06:01Z"}, []string{"future /observedAt", "time-order /observedAt"}},
		{"same instant in another zone", map[string]any{"observedAt": "2026-02-24T02:00:00+02:00"}, nil},
		{"an hour ahead", map[string]any{"createdAt": "2026-02-24T01:00:00Z"}, []string{"future /createdAt"}},
		{"a day and a minute ahead", map[string]any{"createdAt": "2026-02-25T00:01:03Z"}, []string{"!future /createdAt InvalidRequest", "tid-skew /createdAt"}},
		{"created two days before its record key", map[string]any{"createdAt": "2026-02-22T00:00:00Z"}, []string{"time-order /observedAt", "tid-skew /createdAt", "run-implausible /generator/run"}},

		{"URL", source("url", "https://example.org/a?b#c"), nil},
		{"URL with @ in the path", source("url", "https://example.org/@user"), nil},
		{"URL with a password", source("url", "https://user:pw@example.org/"), []string{"!CredentialInUrl /source/value CredentialInUrl"}},
		{"URL with a user alone", source("url", "HTTPS://token@example.org/"), []string{"!CredentialInUrl /source/value CredentialInUrl"}},
		{"URL with a raw slash in the password", source("url", "https://user:p/w@example.org/"), []string{"!CredentialInUrl /source/value CredentialInUrl"}},
		{"relative URL", source("url", "/a/b"), []string{"source-malformed /source/value"}},
		{"not http", source("url", "ftp://example.org/"), []string{"source-malformed /source/value"}},
		{"command with a URL is a command", source("command", "curl https://example.org"), nil},

		{"run from before agents", map[string]any{"generator": map[string]any{"run": "3j2eyd2a22222"}}, []string{"run-implausible /generator/run"}},
		{"run minted after creation", map[string]any{"generator": map[string]any{"run": tid3}}, []string{"run-implausible /generator/run"}},
		{"transcript by handle", map[string]any{"generator": map[string]any{"run": tid1, "transcript": strongRef("at://scout.test/com.example.t/1")}}, []string{"!ref-malformed /generator/transcript InvalidRequest"}},

		{"supersedes", map[string]any{"supersedes": strongRef(observationURI(tid2))}, nil},
		{"supersedes by handle", map[string]any{"supersedes": strongRef("at://scout.test/garden.engram.agents.observation/" + tid2)}, []string{"!ref-malformed /supersedes InvalidRequest"}},
		{"supersedes a repo", map[string]any{"supersedes": strongRef("at://" + string(author))}, []string{"!ref-malformed /supersedes InvalidRequest"}},
		{"supersedes a session", map[string]any{"supersedes": strongRef("at://" + string(author) + "/garden.engram.session/x")}, []string{"!supersedes-wrong-type /supersedes/uri InvalidRequest"}},
		{"supersedes itself", map[string]any{"supersedes": strongRef(observationURI(tid1))}, []string{"!supersedes-self /supersedes/uri InvalidRequest"}},

		{"secret in the text", map[string]any{"text": "key " + "AKIA" + "QWERTYUIOPASDFGH"}, []string{"!SecretDetected /text SecretDetected"}},
		{"secret in the command", source("command", "curl -H x:gl"+"pat-"+"Zx3kQ9vT1mB7cW5dR2sY"), []string{"!SecretDetected /source/value SecretDetected"}},
		{"perhaps a secret", map[string]any{"text": "eyJhbGciOiJub25lIn0." + "eyJzdWIiOiJzZWVkcyJ9." + "c2lnbmF0dXJlLXBhcnQ"}, []string{"secret-suspect /text"}},

		{"blob of another codec", map[string]any{"content": map[string]any{"$type": "blob", "ref": map[string]any{"$link": dataCID}, "mimeType": "a/b", "size": 1}}, []string{"!blob-codec /content/ref InvalidRequest"}},
		{"legacy blob anywhere", map[string]any{"extra": []any{map[string]any{"cid": blobCID, "mimeType": "a/b"}}}, []string{"!legacy-blob /extra/0 InvalidRequest"}},
		{"one blob with two sizes", map[string]any{"content": blobValue("a/b", 1), "extra": blobValue("a/b", 2)}, []string{"!blob-mismatch /content InvalidRequest"}},
		{"one blob twice", map[string]any{"content": blobValue("a/b", 1), "extra": blobValue("a/b", 1)}, nil},
	})
}

func TestSessionRules(t *testing.T) {
	testRecordRules(t, lexicons.SessionNSID, []ruleCase{
		{"empty title", map[string]any{"title": ""}, []string{"empty-title /title"}},
		{"empty summary", map[string]any{"summary": ""}, []string{"empty-summary /summary"}},
		{"started after updated", map[string]any{"startedAt": "2026-02-24T00:00:00.001Z"}, []string{"!time-order /startedAt InvalidRequest"}},
		{"started with the update", map[string]any{"startedAt": "2026-02-24T01:00:00+01:00"}, nil},
		{"never started", map[string]any{"startedAt": nil}, nil},
		{"updated 4 minutes ahead", map[string]any{"updatedAt": "2026-02-24T00:04:00Z"}, nil},
		{"updated 10 minutes ahead", map[string]any{"updatedAt": "2026-02-24T00:10:00Z"}, []string{"future /updatedAt"}},
		{"updated two days ahead", map[string]any{"updatedAt": "2026-02-26T00:00:00Z"}, []string{"!future /updatedAt InvalidRequest"}},
		{"unknown status", map[string]any{"status": "napping"}, []string{"unknown-value /status"}},
		{"remote with a token", map[string]any{"repo": "https://x-access-token:tok@example.org/a.git"}, []string{"!CredentialInUrl /repo CredentialInUrl"}},
		{"ssh remote", map[string]any{"repo": "ssh://git@example.org/a.git"}, nil},
		{"ssh remote with a password", map[string]any{"repo": "ssh://git:pw@example.org/a.git"}, []string{"!CredentialInUrl /repo CredentialInUrl"}},
		{"https remote", map[string]any{"repo": "https://example.org/a.git"}, nil},
		{"no remote", map[string]any{"repo": nil}, nil},
		{"a name for a remote", map[string]any{"repo": "the seeds project"}, []string{"repo-unparsed /repo"}},
	})
}

func TestChatSessionRules(t *testing.T) {
	testRecordRules(t, lexicons.ChatSessionNSID, []ruleCase{
		{"discussed in a post", map[string]any{"discussion": "at://" + string(other) + "/app.bsky.feed.post/" + tid1}, nil},
		{"discussed elsewhere", map[string]any{"discussion": "at://" + string(other) + "/com.example.note/1"}, []string{"discussion-not-post /discussion"}},
		{"from the day after tomorrow", map[string]any{"createdAt": "2026-02-26T00:00:00Z"}, []string{"!future /createdAt InvalidRequest"}},
	})
}

func TestMessageRules(t *testing.T) {
	const post = "/app.bsky.feed.post/" + tid1
	testRecordRules(t, lexicons.MessageNSID, []ruleCase{
		{"session by handle", map[string]any{"session": "at://scout.test/click.aligned.chat.session/" + tid1}, []string{"!session-malformed /session InvalidRequest"}},
		{"session of another collection", map[string]any{"session": "at://" + string(author) + "/garden.engram.session/" + tid1}, []string{"!session-malformed /session InvalidRequest"}},
		{"session without TID", map[string]any{"session": "at://" + string(author) + "/click.aligned.chat.session/self"}, []string{"!session-malformed /session InvalidRequest"}},
		{"session in another repo", map[string]any{"session": "at://" + string(other) + "/click.aligned.chat.session/" + tid1}, []string{"foreign-turn /session"}},
		{"unknown role", map[string]any{"role": "oracle"}, []string{"unknown-value /role"}},
		{"assistant without model", map[string]any{"model": nil}, []string{"model-missing /model"}},
		{"user with a model", map[string]any{"role": "user", "steps": nil}, []string{"role-mismatch /role"}},
		{"user with steps", map[string]any{"role": "user", "model": nil}, []string{"role-mismatch /role"}},
		{"user", map[string]any{"role": "user", "model": nil, "steps": nil}, nil},
		{"withheld", map[string]any{"withheld": true, "text": "", "model": nil, "steps": nil}, nil},
		{"withheld with text", map[string]any{"withheld": true, "model": nil, "steps": nil}, []string{"!withheld-has-content /text InvalidRequest"}},
		{"withheld with everything", map[string]any{"withheld": true, "refs": []any{strongRef("at://" + string(other) + post)}, "mentions": []any{string(other)}}, []string{
			"!withheld-has-content /text InvalidRequest", "!withheld-has-content /model InvalidRequest", "!withheld-has-content /steps InvalidRequest",
			"!withheld-has-content /refs InvalidRequest", "!withheld-has-content /mentions InvalidRequest"}},
		{"withheld is a word", map[string]any{"withheld": "true"}, []string{"!InvalidRecord /withheld InvalidRequest"}},
		{"not withheld", map[string]any{"withheld": false}, nil},
		{"nothing said", map[string]any{"text": " ", "steps": nil}, []string{"empty-turn /text"}},
		{"only steps", map[string]any{"text": ""}, nil},
		{"refs", map[string]any{"refs": []any{strongRef("at://" + string(other) + post)}}, nil},
		{"refs by handle", map[string]any{"refs": []any{strongRef("at://scout.test" + post)}}, []string{"!ref-malformed /refs/0 InvalidRequest"}},
		{"refs twice", map[string]any{"refs": []any{strongRef("at://" + string(other) + post), strongRef("at://" + string(other) + post)}}, []string{"duplicate-refs /refs/1"}},
		{"mentions twice", map[string]any{"mentions": []any{string(other), string(author), string(other)}}, []string{"duplicate-mentions /mentions/2"}},
	})
}

func TestClassRules(t *testing.T) {
	testRecordRules(t, lexicons.ClassNSID, []ruleCase{
		{"no skills", map[string]any{"skills": []any{}}, nil},
		{"skill of another collection", map[string]any{"skills": []any{strongRef(classURI(tid1))}}, []string{"!skill-wrong-type /skills/0/uri InvalidRequest"}},
		{"skill by handle", map[string]any{"skills": []any{strongRef("at://scout.test/com.publicdomainrelay.temp.agent.skill/" + tid1)}}, []string{"!ref-malformed /skills/0 InvalidRequest"}},
		{"skill twice", map[string]any{"skills": []any{strongRef(skillURI(tid1)), strongRef(skillURI(tid1))}}, []string{"skill-duplicate /skills/1"}},
		{"too many skills", map[string]any{"skills": manySkills(257)}, []string{"!too-many-skills /skills InvalidRequest"}},
		{"parent", map[string]any{"parent": strongRef(classURI(tid2))}, nil},
		{"parent of another collection", map[string]any{"parent": strongRef(skillURI(tid2))}, []string{"!parent-wrong-type /parent/uri InvalidRequest"}},
		{"parent is itself", map[string]any{"parent": strongRef(classURI(tid1))}, []string{"!parent-self /parent/uri InvalidRequest"}},
		{"entry tool", map[string]any{"entryTool": "sort-seeds_2.0:x"}, nil},
		{"entry tool climbs", map[string]any{"entryTool": "../../bin/sh"}, []string{"!tool-name-unsafe /entryTool InvalidRequest"}},
		{"entry tool is a dot", map[string]any{"entryTool": ".."}, []string{"!tool-name-unsafe /entryTool InvalidRequest"}},
		{"unknown bootstrap", map[string]any{"bootstrap": "telepathy"}, []string{"unknown-value /bootstrap"}},
		{"sub-agent with a password", map[string]any{"bootstrap": "atproto-password", "spawnsSubAgent": true}, []string{"bootstrap-mismatch /bootstrap"}},
		{"agent with welcome mat", map[string]any{"bootstrap": "welcome-mat-on-enroll"}, []string{"bootstrap-mismatch /bootstrap"}},
		{"sub-agent with welcome mat", map[string]any{"bootstrap": "welcome-mat-on-enroll", "spawnsSubAgent": true}, nil},
	})
}

func manySkills(n int) []any {
	var refs []any
	tid := syntax.NewTIDClock(0)
	for range n {
		refs = append(refs, strongRef(skillURI(tid.Next().String())))
	}
	return refs
}

func TestSkillRules(t *testing.T) {
	tool := func(changes map[string]any) map[string]any {
		return map[string]any{"tools": []any{edit(map[string]any{"name": "t", "description": "d", "inputSchema": map[string]any{}}, changes)}}
	}
	property := func(p map[string]any) map[string]any { return map[string]any{"property_references": []any{p}} }
	testRecordRules(t, lexicons.SkillNSID, []ruleCase{
		{"createdAt is no datetime", map[string]any{"createdAt": "yesterday"}, []string{"created-unparsed /createdAt"}},
		{"no tools", map[string]any{"tools": nil}, nil},
		{"tools is a word", map[string]any{"tools": "hammer"}, []string{"tool-invalid /tools"}},
		{"tool is a word", map[string]any{"tools": []any{"hammer"}}, []string{"tool-invalid /tools/0"}},
		{"tool", tool(nil), nil},
		{"tool without name", tool(map[string]any{"name": nil}), []string{"tool-invalid /tools/0/name"}},
		{"tool without description", tool(map[string]any{"description": nil}), []string{"tool-invalid /tools/0/description"}},
		{"tool whose schema is text", tool(map[string]any{"inputSchema": "{}"}), []string{"tool-invalid /tools/0/inputSchema"}},
		{"tool with a slash", tool(map[string]any{"name": "a/b"}), []string{"!tool-name-unsafe /tools/0/name InvalidRequest"}},
		{"example by handle", map[string]any{"examples": []any{strongRef("at://scout.test/com.example.a/1")}}, []string{"!ref-malformed /examples/0 InvalidRequest"}},
		{"property by ref", property(map[string]any{"path": ".a", "ref": strongRef(skillURI(tid2))}), nil},
		{"property by string", property(map[string]any{"path": ".a", "string": "x"}), nil},
		{"property by inline strongRef", property(edit(strongRef(skillURI(tid2)), map[string]any{"path": ".a"})), nil},
		{"property by nothing", property(map[string]any{"path": ".a"}), []string{"property-ref-empty /property_references/0"}},
		{"property path without point", property(map[string]any{"path": "a", "string": "x"}), []string{"property-path /property_references/0/path"}},
	})
}

func TestClaimRules(t *testing.T) {
	cites := func(changes map[string]any) map[string]any {
		return map[string]any{"citations": []any{edit(citation(0, 24), changes)}}
	}
	pointer := func(p string) map[string]any {
		return cites(map[string]any{"selector": map[string]any{"$type": "garden.engram.agents.defs#jsonPointer", "pointer": p}})
	}
	messageRef := strongRef("at://" + string(other) + "/click.aligned.chat.message/" + tid1)
	testRecordRules(t, lexicons.ClaimNSID, []ruleCase{
		{"empty span", cites(map[string]any{"span": span(3, 3)}), []string{"span-empty /citations/0/span"}},
		{"inverted span", cites(map[string]any{"span": span(4, 3)}), []string{"!span-inverted /citations/0/span InvalidRequest"}},
		{"span to the last byte", map[string]any{"citations": []any{citation(0, 24)}, "basis": []any{map[string]any{"span": span(24, 43), "kind": "opinion"}}}, nil},
		{"span past the end", map[string]any{"basis": []any{map[string]any{"span": span(25, 44), "kind": "opinion"}}}, []string{"!span-out-of-range /basis/0/span/byteEnd InvalidRequest"}},
		{"span starts inside an emoji", map[string]any{"text": "🌱 grows", "basis": nil, "citations": []any{citation(2, 5)}}, []string{"!span-splits-char /citations/0/span/byteStart InvalidRequest"}},
		{"span ends inside an emoji", map[string]any{"text": "🌱 grows", "basis": nil, "citations": []any{citation(0, 3)}}, []string{"!span-splits-char /citations/0/span/byteEnd InvalidRequest"}},
		{"span is an emoji", map[string]any{"text": "🌱 grows", "basis": nil, "citations": []any{citation(0, 4)}}, nil},
		{"cited and own", map[string]any{"basis": []any{map[string]any{"span": span(23, 30), "kind": "opinion"}}}, []string{"span-overlap /basis/0"}},
		{"own first, then cited", map[string]any{"citations": []any{citation(30, 40)}}, []string{"span-overlap /citations/0"}},
		{"two citations of one part", map[string]any{"citations": []any{citation(0, 10), citation(5, 15)}}, nil},
		{"pointer to the whole", pointer(""), nil},
		{"pointer with escapes", pointer("/a~1b/0/~0"), nil},
		{"pointer to the next item", pointer("/-"), nil},
		{"pointer without slash", pointer("a"), []string{"!pointer-syntax /citations/0/selector/pointer InvalidRequest"}},
		{"pointer with a bare tilde", pointer("/a~"), []string{"!pointer-syntax /citations/0/selector/pointer InvalidRequest"}},
		{"pointer with ~2", pointer("/~2"), []string{"!pointer-syntax /citations/0/selector/pointer InvalidRequest"}},
		{"inverted byte range", cites(map[string]any{"selector": map[string]any{"$type": "garden.engram.agents.defs#byteRange", "byteStart": 2, "byteEnd": 1}}), []string{"!span-inverted /citations/0/selector InvalidRequest"}},
		{"unknown selector", cites(map[string]any{"selector": map[string]any{"$type": "com.example.xpath"}}), []string{"unknown-value /citations/0/selector/$type"}},
		{"unknown relation", cites(map[string]any{"relation": "dreams"}), []string{"unknown-value /citations/0/relation"}},
		{"unknown kind of basis", map[string]any{"basis": []any{map[string]any{"span": span(25, 43), "kind": "mood"}}}, []string{"unknown-value /basis/0/kind"}},
		{"target by handle", cites(map[string]any{"target": strongRef("at://scout.test/garden.engram.agents.observation/" + tid1)}), []string{"!ref-malformed /citations/0/target InvalidRequest"}},
		{"target is a claim", cites(map[string]any{"target": strongRef("at://" + string(other) + "/garden.herbarium.claim/" + tid1)}), []string{"cites-non-observation /citations/0/target"}},
		{"via", cites(map[string]any{"via": []any{messageRef}}), nil},
		{"via twice", cites(map[string]any{"via": []any{messageRef, messageRef}}), []string{"via-duplicate /citations/0/via/1"}},
		{"via its target", cites(map[string]any{"via": []any{strongRef(observationURI(tid1))}}), []string{"via-loop /citations/0/via/0", "via-not-message /citations/0/via/0"}},
		{"via itself", cites(map[string]any{"via": []any{strongRef("at://" + string(author) + "/garden.herbarium.claim/" + tid1)}}), []string{"via-loop /citations/0/via/0", "via-not-message /citations/0/via/0"}},
		{"run minted after creation", map[string]any{"generator": map[string]any{"run": tid3}}, []string{"run-implausible /generator/run"}},
		{"says nothing", map[string]any{"text": "", "citations": nil, "basis": nil}, []string{"empty-text /text"}},
	})
}

func TestRulesPassOnSnapshotErrors(t *testing.T) {
	w := newWorld()
	w.err = errors.New("the database is away")
	rules := lexicons.NewRules(catalog(t), lexicons.Settings{})
	for collection, value := range map[syntax.NSID]map[string]any{
		lexicons.ObservationNSID: edit(observation, map[string]any{"supersedes": strongRef(observationURI(tid2))}),
		lexicons.MessageNSID:     message,
		lexicons.ClassNSID:       class,
	} {
		_, err := rules.Check(context.Background(), change(t, collection, tid1, value), w)
		require.ErrorIs(t, err, w.err, collection)
	}
}

func TestSettingsValidate(t *testing.T) {
	require.NoError(t, lexicons.Settings{}.Validate())
	require.Error(t, lexicons.Settings{Supersedes: "off"}.Validate())
	require.Error(t, lexicons.Settings{Secrets: "maybe"}.Validate())
	require.Error(t, lexicons.Settings{Messages: "reject"}.Validate())
	require.Error(t, lexicons.Settings{BlobLimit: -1}.Validate())
}

// Arrays without a limit cannot make an answer without a limit, nor hide a
// refusal behind flags.
func TestFindingsAreBounded(t *testing.T) {
	var entries []any
	for range 5000 {
		entries = append(entries, map[string]any{"path": "x"})
	}
	value := edit(skill, map[string]any{"property_references": entries})
	rules := lexicons.NewRules(catalog(t), lexicons.Settings{})
	require.Len(t, rules.CheckRecord(change(t, lexicons.SkillNSID, tid1, value)), 100)

	value["property_references"] = append(entries, map[string]any{"path": ".", "ref": strongRef("at://scout.test/com.example.a/1")})
	found := rules.CheckRecord(change(t, lexicons.SkillNSID, tid1, value))
	require.Len(t, found, 101)
	requireRefusal(t, found, "InvalidRequest", found[100].Repair)
	require.Equal(t, "/property_references/5000/ref", found[100].Path)

	rec := record(t, lexicons.SkillNSID, edit(skill, map[string]any{"examples": repeat("x", 5000)}))
	_, err := catalog(t).Validate(rec, tid1, lexicons.ValidateKnown)
	var refused *lexicons.Refused
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Findings, 20)
}
