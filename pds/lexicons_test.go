package pds_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

// leafType is a lexicon of com.example.leaf whose text has at most so many bytes.
func leafType(t *testing.T, most int) object {
	t.Helper()
	var file object
	require.NoError(t, json.Unmarshal([]byte(fmt.Sprintf(`{"lexicon":1,"id":"com.example.leaf","defs":{"main":{"type":"record","key":"any",
		"record":{"type":"object","properties":{"text":{"type":"string","maxLength":%d}}}}}}`, most)), &file))
	return file
}

func (h *host) addLexicons(t *testing.T, more object, files ...object) reply {
	t.Helper()
	in := object{"lexicons": files}
	for name, value := range more {
		in[name] = value
	}
	return h.procedure(t, admin(), "garden.herbarium.admin.addLexicon", in)
}

func (l *listener) told() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	nsids := []string{}
	for _, lexicon := range l.lexicons {
		nsids = append(nsids, string(lexicon.NSID))
	}
	return nsids
}

// Writes are judged by a lexicon from the moment when it is there, and until it
// is not; the dry run agrees.
func TestWritesFollowTheLexicons(t *testing.T) {
	eachHostWithIndex(t, func(t *testing.T, h *host, l *listener) {
		const leaf = "com.example.leaf"
		a := h.agent(t, "scout")
		long := object{"text": "does not fit"}
		h.create(t, a, leaf, long, "validate", true).refused(t, 400, "InvalidRequest")
		require.Equal(t, "unknown", h.create(t, a, leaf, long).ok(t).str("validationStatus"))

		tried := h.addLexicons(t, object{"dryRun": true}, leafType(t, 5)).ok(t)
		require.Equal(t, false, tried["applied"])
		require.Contains(t, tried.list("concerned"), leaf)
		require.Len(t, tried.list("effects"), 1)
		require.Equal(t, true, tried.list("effects")[0].(map[string]any)["partial"])
		require.Equal(t, "unknown", h.create(t, a, leaf, long).ok(t).str("validationStatus"))
		require.Empty(t, l.told())

		done := h.addLexicons(t, nil, leafType(t, 5)).ok(t)
		require.Equal(t, true, done["applied"])
		require.Equal(t, []string{leaf}, l.told())
		require.Contains(t, h.create(t, a, leaf, long).refused(t, 400, "InvalidRequest"), "InvalidRecord at /text")
		dry := h.dryRun(t, a, object{"collection": leaf, "record": long})
		require.Equal(t, false, dry["valid"])
		require.Equal(t, "valid", h.create(t, a, leaf, object{"text": "fits"}, "validate", true).ok(t).str("validationStatus"))
		require.Equal(t, "valid", h.create(t, a, leaf, object{"text": "fits"}).ok(t).str("validationStatus"))
		h.create(t, a, leaf, long, "validate", false).ok(t)

		h.procedure(t, admin(), "garden.herbarium.admin.removeLexicon", object{"nsids": []string{leaf}}).ok(t)
		require.Equal(t, "unknown", h.create(t, a, leaf, long).ok(t).str("validationStatus"))
		require.Empty(t, l.told())
	})
}

func TestAddLexiconRefuses(t *testing.T) {
	eachHostWithIndex(t, func(t *testing.T, h *host, l *listener) {
		h.addLexicons(t, nil, leafType(t, 5)).ok(t)
		for name, c := range map[string]struct {
			in   object
			says string
		}{
			"nothing":          {object{"lexicons": []object{}}, "lexicons"},
			"no lexicon":       {object{"lexicons": []object{{"lexicon": 1}}}, "lexicons/0: not a lexicon"},
			"a breaking one":   {object{"lexicons": []object{leafType(t, 4)}}, "breaks with its old version: /defs/main/record/properties/text/maxLength: the bound was 5, and is 4; publish it under another name, or force it"},
			"an unknown field": {object{"lexicons": []object{leafType(t, 5)}, "forced": true}, "forced"},
		} {
			t.Run(name, func(t *testing.T) {
				message := h.procedure(t, admin(), "garden.herbarium.admin.addLexicon", c.in).refused(t, 400, "InvalidRequest")
				require.Contains(t, message, c.says)
			})
		}
		tried := h.addLexicons(t, object{"dryRun": true}, leafType(t, 4)).ok(t)
		require.Len(t, tried.list("problems"), 1)
		require.Equal(t, true, object(tried.list("steps")[0].(map[string]any)["changes"].([]any)[0].(map[string]any))["refusesOld"])
		h.addLexicons(t, object{"force": true}, leafType(t, 4)).ok(t)

		// An index that could not be told hears of it later, from whichever replica.
		l.set(true)
		h.procedure(t, admin(), "garden.herbarium.admin.removeLexicon", object{"nsids": []string{"com.example.leaf"}}).refused(t, 500, "InternalServerError")
		require.ErrorIs(t, h.pds.SyncLexicons(t.Context()), errDeaf)
		l.set(false)
		require.NoError(t, h.pds.SyncLexicons(t.Context()))
		require.Empty(t, l.told())
	})
}

// The program's own types can grow as their publishers let them grow, and never
// shrink: rules and readers stand on them.
func TestOwnTypesGrowAndNeverShrink(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		const session = "garden.engram.session"
		file := func() object {
			return object(h.query(t, admin(), "garden.herbarium.admin.getLexicon", "nsid", session).ok(t).at("lexicon").(map[string]any))
		}
		fields := func(f object) map[string]any { return f.at("defs", "main", "record", "properties").(map[string]any) }
		a := h.agent(t, "scout")
		value := object{"title": "t", "summary": "s", "updatedAt": "2026-11-30T10:00:00.000Z", "mood": 5}
		h.put(t, a, session, "one", value).ok(t)

		grown := file()
		fields(grown)["mood"] = object{"type": "string"}
		h.addLexicons(t, nil, grown).ok(t)
		require.Contains(t, h.put(t, a, session, "two", value).refused(t, 400, "InvalidRequest"), "InvalidRecord at /mood")
		value["mood"] = "calm"
		require.Equal(t, "valid", h.put(t, a, session, "two", value).ok(t).str("validationStatus"))

		shrunk := file()
		fields(shrunk)["title"] = object{"type": "string", "maxLength": 1}
		message := h.addLexicons(t, object{"force": true}, shrunk).refused(t, 400, "InvalidRequest")
		require.Contains(t, message, "garden.engram.session belongs to the program")
		require.Contains(t, message, "/defs/main/record/properties/title/maxLength")

		h.procedure(t, admin(), "garden.herbarium.admin.removeLexicon", object{"nsids": []string{session}}).ok(t)
		require.NotContains(t, fields(file()), "mood")
	})
}

func TestListAndGetLexicons(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		h.addLexicons(t, nil, leafType(t, 5), object{"lexicon": 1, "id": "com.example.defs", "defs": object{"part": object{"type": "object", "properties": object{}}}}).ok(t)
		added := h.query(t, admin(), "garden.herbarium.admin.listLexicons", "origin", "added").ok(t)
		require.Len(t, added.list("lexicons"), 2)
		require.Equal(t, "defs", added.list("lexicons")[0].(map[string]any)["kind"])
		require.Equal(t, "record", added.list("lexicons")[1].(map[string]any)["kind"])

		var all []string
		for cursor := ""; ; {
			page := h.query(t, admin(), "garden.herbarium.admin.listLexicons", "limit", "40", "cursor", cursor).ok(t)
			for _, item := range page.list("lexicons") {
				all = append(all, item.(map[string]any)["nsid"].(string))
			}
			if cursor = page.str("cursor"); cursor == "" {
				break
			}
		}
		catalog, err := lexicons.Load()
		require.NoError(t, err)
		require.Len(t, all, len(catalog.NSIDs())+2)
		require.IsIncreasing(t, all)

		shown := h.query(t, admin(), "garden.herbarium.admin.getLexicon", "nsid", "com.example.leaf").ok(t)
		require.Equal(t, "added", shown.str("origin"))
		require.Equal(t, "com.example.leaf", shown.str("lexicon", "id"))
		require.Equal(t, "program", h.query(t, admin(), "garden.herbarium.admin.getLexicon", "nsid", "garden.engram.session").ok(t).str("origin"))
		h.query(t, admin(), "garden.herbarium.admin.getLexicon", "nsid", "com.example.none").refused(t, 400, "NotFound")

		entry := h.audited(t, "method", "garden.herbarium.admin.addLexicon")[0]
		raw, err := json.Marshal(entry["input"])
		require.NoError(t, err)
		require.Contains(t, string(raw), "com.example.leaf")
		require.False(t, strings.Contains(string(raw), "maxLength"), "the log has names, not files")
	})
}
