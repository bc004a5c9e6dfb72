package pds_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// corpusRecord is a record of the lexicons' corpus.
type corpusRecord struct {
	collection, name, key string
	text                  string // JSON, of an author did:web:scout.test under key
}

// The key under which the corpus refers to a record from within, and its time.
const corpusKey = "3mfkucsx22222"

var corpusTime = time.Date(2026, 2, 24, 0, 0, 0, 0, time.UTC)

func corpus(t *testing.T) (all []corpusRecord) {
	t.Helper()
	const folder = "../lexicons/testdata/"
	files, err := os.ReadDir(folder + "corpus")
	require.NoError(t, err)
	for _, f := range files {
		var sample object
		raw, err := os.ReadFile(folder + "records/" + f.Name())
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, &sample))
		raw, err = os.ReadFile(folder + "corpus/" + f.Name())
		require.NoError(t, err)
		var cases []struct {
			Name, Key string
			Change    object
		}
		require.NoError(t, json.Unmarshal(raw, &cases))
		for _, c := range cases {
			record := maps.Clone(sample)
			for field, value := range c.Change {
				if value == nil {
					delete(record, field)
				} else {
					record[field] = value
				}
			}
			text, err := json.Marshal(record)
			require.NoError(t, err)
			all = append(all, corpusRecord{strings.TrimSuffix(f.Name(), ".json"), c.Name, c.Key, string(text)})
		}
	}
	return all
}

// One engine serves the write, its dry run and the index, so none of them may
// say of a record what another does not. Each record of the corpus goes through
// all three: the dry run has to answer as the write does, and an index that
// finds the record in some repo has to find in it what the host does, but for
// what the codebook leaves to one of the two.
func TestHostDryRunAndIndexAgree(t *testing.T) {
	all := corpus(t)
	require.Greater(t, len(all), 150)
	now := newClock()
	now.now = corpusTime.Add(2 * time.Second)
	eachHost(t, setting{clock: now}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		require.Equal(t, "did:web:scout.test", a.did)
		x := newWitness(t, h, now)
		for i, c := range all {
			if c.key == "" {
				c.key = syntax.NewTIDFromTime(corpusTime.Add(time.Duration(i)*time.Millisecond), 0).String()
			}
			own := "at://did:web:scout.test/" + c.collection + "/"
			record := json.RawMessage(strings.ReplaceAll(c.text, own+corpusKey+`"`, own+c.key+`"`))
			name := c.collection + ": " + c.name

			dry := h.procedure(t, a.access, "garden.herbarium.validateRecord", object{
				"repo": a.did, "collection": c.collection, "rkey": c.key, "record": record, "action": "create",
			}).ok(t)
			written := h.create(t, a, c.collection, record, "rkey", c.key).object(t)
			require.Equal(t, dry["error"], written["error"], name)
			require.Equal(t, dry["message"], written["message"], name)
			require.Equal(t, dry["valid"], written["error"] == nil, name)
			// A write stops at the first stage that refuses it; the dry run goes on, to tell all at once.
			said := codes(written.list("findings"), always)
			foreseen := codes(dry.list("findings"), always)
			require.Subset(t, foreseen, said, name)
			if dry["valid"] == true {
				require.Equal(t, foreseen, said, name)
			}

			shared := func(code string) bool {
				entry, ok := lexicons.LookUpCode(code)
				require.True(t, ok, code)
				return len(entry.Host) > 0 && len(entry.Index) > 0
			}
			host := codes(dry.list("findings"), func(f object) bool { return shared(f.str("code")) })
			require.Equal(t, host, x.judge(t, c, record, shared), "%s, in the index", name)
			if written["error"] == nil {
				h.delete(t, a, c.collection, c.key).ok(t)
			}
		}
	})
}

func always(object) bool { return true }

// codes are "code path" of findings, in an order of their own.
func codes(findings []any, keep func(object) bool) []string {
	said := []string{}
	for _, f := range findings {
		if f := object(f.(map[string]any)); keep(f) {
			said = append(said, f.str("code")+" "+f.str("path"))
		}
	}
	slices.Sort(said)
	return said
}

// witness is an index that finds records of did:web:scout.test in its repo.
type witness struct {
	*index.Index
	revs uint
}

func newWitness(t *testing.T, h *host, now *clock) *witness {
	catalog, err := lexicons.Load()
	require.NoError(t, err)
	db := dbtest.Open(t, migrations.Appview, h.db.Dialect)
	x, err := index.New(index.Config{DB: db, Rules: lexicons.NewRules(catalog, lexicons.Settings{}), Now: now.Now})
	require.NoError(t, err)
	w := &witness{Index: x}
	w.apply(t, &index.Identity{DID: "did:web:scout.test", Handle: "scout.test"})
	return w
}

func (w *witness) apply(t *testing.T, e index.Event) {
	require.NoError(t, w.Apply(t.Context(), "host", 0, []index.Event{e}))
}

// judge lets a record stand for a moment, and answers what is found in it.
func (w *witness) judge(t *testing.T, c corpusRecord, raw []byte, keep func(code string) bool) []string {
	record, err := lexicons.ParseJSON(syntax.NSID(c.collection), raw)
	require.NoError(t, err)
	op := index.Operation{
		Action: lexicons.Create, Collection: record.Collection, RecordKey: syntax.RecordKey(c.key), CID: record.CID, Record: record.CBOR,
	}
	w.commit(t, op)
	uri := syntax.ATURI("at://did:web:scout.test/" + c.collection + "/" + c.key)
	found, err := w.Findings(t.Context(), index.Viewer{Admin: true}, []syntax.ATURI{uri})
	require.NoError(t, err)
	said := []string{}
	for _, f := range found[uri] {
		if keep(f.Code) {
			said = append(said, f.Code+" "+f.Path)
		}
	}
	slices.Sort(said)
	w.commit(t, index.Operation{Action: lexicons.Delete, Collection: record.Collection, RecordKey: op.RecordKey, Prev: op.CID})
	return said
}

func (w *witness) commit(t *testing.T, op index.Operation) {
	w.revs++
	block := []byte{byte(w.revs >> 8), byte(w.revs)}
	c, err := cid.V1Builder{Codec: cid.DagCBOR, MhType: 0x12}.Sum(block)
	require.NoError(t, err)
	rev := syntax.NewTIDFromTime(corpusTime.Add(time.Duration(w.revs)*time.Microsecond), 0)
	w.apply(t, &index.Commit{DID: "did:web:scout.test", Rev: rev, CID: c, Data: c, Ops: []index.Operation{op}, Proof: []index.Block{{CID: c, Data: block}}})
}
