package lexicons_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
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

// corpusCase is a record of testdata/corpus and what it comes to.
type corpusCase struct {
	Name     string         `json:"name"`
	Key      string         `json:"key"`      // tid1 when absent
	Change   map[string]any `json:"change"`   // laid over the sample of the collection; null removes
	Floor    []string       `json:"floor"`    // what its lexicon has against it: code and path
	Findings []string       `json:"findings"` // what the rules remark, as summary spells it
}

// TestCorpus holds the record rules to the corpus. The sample of each collection
// has no finding, so that a case shows what its change does.
func TestCorpus(t *testing.T) {
	for collection := range samples {
		t.Run(string(collection), func(t *testing.T) {
			raw, err := os.ReadFile("testdata/corpus/" + string(collection) + ".json")
			require.NoError(t, err)
			dec := json.NewDecoder(bytes.NewReader(raw))
			dec.DisallowUnknownFields()
			var cases []corpusCase
			require.NoError(t, dec.Decode(&cases))
			for _, c := range cases {
				t.Run(c.Name, func(t *testing.T) { testCorpusCase(t, collection, c) })
			}
		})
	}
}

func testCorpusCase(t *testing.T, collection syntax.NSID, c corpusCase) {
	ch := change(t, collection, cmp.Or(c.Key, tid1), edit(samples[collection], c.Change))
	var floor []string
	for _, f := range catalog(t).Judge(ch.Record, ch.RecordKey).Findings {
		floor = append(floor, f.Code+" "+f.Path)
	}
	require.Equal(t, c.Floor, floor)
	if c.Floor != nil {
		return // the rules read what the lexicon has let through
	}
	testFindings(t, ch, c.Findings)
}

func testFindings(t *testing.T, ch lexicons.Change, want []string) {
	t.Helper()
	found := lexicons.NewRules(catalog(t), lexicons.Settings{}).CheckRecord(ch)
	require.Equal(t, append([]string{}, want...), summary(found))
	refuses := slices.ContainsFunc(found, func(f lexicons.Finding) bool { return f.Refusal != "" })
	require.Equal(t, refuses, lexicons.RefusedBy(found) != nil)
	for _, f := range found {
		require.NotEmpty(t, f.Message)
		require.Equal(t, f.Refusal != "", f.Repair != "", "a refusal says how to mend it: %s", f.Code)
	}
}

// What is too long for the corpus, and what must not look like a credential in a file.
func TestRecordRulesBesideTheCorpus(t *testing.T) {
	command := func(value string) map[string]any { return map[string]any{"kind": "command", "value": value} }
	for name, c := range map[string]struct {
		collection syntax.NSID
		change     map[string]any
		want       string
	}{
		"too many skills":       {lexicons.ClassNSID, map[string]any{"skills": manySkills(257)}, "!too-many-skills /skills InvalidRequest"},
		"secret in the text":    {lexicons.ObservationNSID, map[string]any{"text": "key " + "AKIA" + "QWERTYUIOPASDFGH"}, "!SecretDetected /text SecretDetected"},
		"secret in the command": {lexicons.ObservationNSID, map[string]any{"source": command("curl -H x:gl" + "pat-" + "Zx3kQ9vT1mB7cW5dR2sY")}, "!SecretDetected /source/value SecretDetected"},
		"perhaps a secret":      {lexicons.ObservationNSID, map[string]any{"text": "eyJhbGciOiJub25lIn0." + "eyJzdWIiOiJzZWVkcyJ9." + "c2lnbmF0dXJlLXBhcnQ"}, "secret-suspect /text"},
	} {
		t.Run(name, func(t *testing.T) {
			testFindings(t, change(t, c.collection, tid1, edit(samples[c.collection], c.change)), []string{c.want})
		})
	}
}

func manySkills(n int) []any {
	var refs []any
	tid := syntax.NewTIDClock(0)
	for range n {
		refs = append(refs, strongRef(skillURI(tid.Next().String())))
	}
	return refs
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
