package lexicons_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/internal/structural"
)

var loadOnce = sync.OnceValues(lexicons.Load)

func catalog(t testing.TB) *lexicons.Catalog {
	t.Helper()
	cat, err := loadOnce()
	require.NoError(t, err)
	return cat
}

// The published schema record is kept to the byte: its CID is the one under
// which its authors publish it.
func TestPublishedSchemaCID(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("garden", "engram", "session.json"))
	require.NoError(t, err)
	rec, err := lexicons.ParseJSON("com.atproto.lexicon.schema", raw)
	require.NoError(t, err)
	require.Equal(t, "bafyreic4ij67eiaxqqpcr3fam6bu5ve5gtomnmjj4ueits72rgknmij4nq", rec.CID.String())
	_, err = catalog(t).Validate(rec, "garden.engram.session", lexicons.ValidateRequired)
	require.NoError(t, err)
}

// The files of com.atproto.* and app.bsky.* are what the generator makes of the
// pinned module: no more, no less, and no other text.
func TestStructuralFilesMatchModule(t *testing.T) {
	dir, err := indigoDir()
	require.NoError(t, err)
	want, err := structural.Files(dir)
	require.NoError(t, err)

	have := map[string]bool{}
	for _, root := range []string{"app", filepath.Join("com", "atproto")} {
		require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				have[path] = true
			}
			return err
		}))
	}
	for path, content := range want {
		require.True(t, have[path], "%s is missing; run go generate", path)
		delete(have, path)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(content), string(got), path)
		requireSameStructure(t, filepath.Join(dir, "lexicons", path), got)
	}
	require.Empty(t, have, "files that the generator does not make")
}

// requireSameStructure compares with the module's file by another way than
// the generator's: both sides parsed as schemas, descriptions blanked.
func requireSameStructure(t *testing.T, path string, ours []byte) {
	t.Helper()
	theirs, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(ours), `"description": "`)
	var a, b lexicon.SchemaFile
	require.NoError(t, json.Unmarshal(ours, &a))
	require.NoError(t, json.Unmarshal(theirs, &b))
	if strings.HasPrefix(b.ID, "app.bsky.") { // only what is reached is kept
		require.NotEmpty(t, a.Defs, path)
		maps.DeleteFunc(b.Defs, func(name string, _ lexicon.SchemaDef) bool { return a.Defs[name].Inner == nil })
	}
	require.Equal(t, len(b.Defs), len(a.Defs), path)
	blank := func(sf lexicon.SchemaFile) string {
		raw, err := json.Marshal(sf)
		require.NoError(t, err)
		var v any
		require.NoError(t, json.Unmarshal(raw, &v))
		blankDescriptions(v)
		raw, err = json.Marshal(v)
		require.NoError(t, err)
		return string(raw)
	}
	require.Equal(t, blank(b), blank(a), path)
}

func blankDescriptions(v any) {
	switch v := v.(type) {
	case map[string]any:
		if d, ok := v["description"]; ok && !isObject(d) {
			delete(v, "description")
		}
		for _, member := range v {
			blankDescriptions(member)
		}
	case []any:
		for _, item := range v {
			blankDescriptions(item)
		}
	}
}

func isObject(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

func TestCatalogKnowsRecordTypes(t *testing.T) {
	cat := catalog(t)
	for nsid, key := range map[string]string{
		"garden.engram.agents.observation":       "tid",
		"garden.engram.session":                  "any",
		"click.aligned.chat.session":             "tid",
		"click.aligned.chat.message":             "tid",
		"com.publicdomainrelay.temp.agent.class": "tid",
		"com.publicdomainrelay.temp.agent.skill": "tid",
		"garden.herbarium.claim":                 "tid",
		"com.atproto.lexicon.schema":             "nsid",
	} {
		got, ok := cat.RecordKeyType(nsidOf(nsid))
		require.True(t, ok, nsid)
		require.Equal(t, key, got, nsid)
		require.True(t, cat.Known(nsidOf(nsid)), nsid)
	}
	require.False(t, cat.Known("app.bsky.feed.post"))
	require.False(t, cat.Known("com.atproto.repo.createRecord"), "a method is no record type")
	require.False(t, cat.Known("garden.engram.agents.defs"))
	_, err := cat.Resolve("app.bsky.feed.post")
	require.ErrorIs(t, err, lexicons.ErrUnknownSchema)
}

func TestCatalogMethods(t *testing.T) {
	cat := catalog(t)
	m, ok := cat.Method("com.atproto.repo.createRecord")
	require.True(t, ok)
	require.Equal(t, lexicons.Procedure, m.Kind)
	require.Equal(t, "application/json", m.Input.Encoding)
	require.Contains(t, m.Input.Schema.Inner.(lexicon.SchemaObject).Properties, "collection")

	m, ok = cat.Method("com.atproto.repo.listRecords")
	require.True(t, ok)
	require.Equal(t, lexicons.Query, m.Kind)
	require.Contains(t, m.Parameters.Properties, "limit")

	m, ok = cat.Method("com.atproto.sync.subscribeRepos")
	require.True(t, ok)
	require.Equal(t, lexicons.Subscription, m.Kind)
	require.NotEmpty(t, m.Message.Refs)

	_, ok = cat.Method("com.atproto.repo.strongRef")
	require.False(t, ok)

	var last string
	for m := range cat.Methods() {
		require.Less(t, last, string(m.NSID), "sorted, each once")
		last = string(m.NSID)
	}
}

func TestLoadFSRefuses(t *testing.T) {
	const schema = `{"lexicon":1,"id":"com.example.thing","defs":{"main":{"type":"object","properties":{}}}}`
	for name, files := range map[string]fstest.MapFS{
		"not JSON":      {"a.json": {Data: []byte(`{`)}},
		"not a lexicon": {"a.json": {Data: []byte(`{"lexicon":2,"id":"com.example.thing","defs":{}}`)}},
		"defined twice": {"a.json": {Data: []byte(schema)}, "b.json": {Data: []byte(schema)}},
		"too large":     {"a.json": {Data: make([]byte, lexicons.MaxSchemaSize+1)}},
	} {
		_, err := lexicons.LoadFS(files)
		require.Error(t, err, name)
	}
	_, err := lexicons.LoadFS(fstest.MapFS{"a.json": {Data: []byte(schema)}, "notes.txt": {Data: []byte("{")}})
	require.NoError(t, err)
}

// A reference out of the catalog is not fetched and not passed over.
func TestDanglingReference(t *testing.T) {
	cat, err := lexicons.LoadFS(fstest.MapFS{"a.json": {Data: []byte(`{"lexicon":1,"id":"com.example.thing","defs":{"main":{"type":"record","key":"any","record":{"type":"object","properties":{
		"a":{"type":"ref","ref":"com.example.elsewhere#x"}}}}}}`)}})
	require.NoError(t, err)
	_, err = cat.Validate(record(t, "com.example.thing", map[string]any{}), "x", lexicons.ValidateRequired)
	require.NoError(t, err)
	_, err = cat.Validate(record(t, "com.example.thing", map[string]any{"a": map[string]any{}}), "x", lexicons.ValidateRequired)
	requireFinding(t, err, lexicons.CodeInvalidRecord, "/a")
}
