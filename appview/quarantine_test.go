package appview_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// call sends a procedure and gives its status and answer.
func (s *site) call(method string, body object) (int, object) {
	s.t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(s.t, err)
	req := httptest.NewRequest(http.MethodPost, "/xrpc/garden.herbarium."+method, strings.NewReader(string(raw)))
	req.Header.Set("Content-Type", "application/json")
	res := httptest.NewRecorder()
	s.server.ServeHTTP(res, req)
	if res.Code == http.StatusOK {
		require.Empty(s.t, misfits(s.catalog, method, res.Body.Bytes()), "%s: %s", method, res.Body)
	}
	var out object
	require.NoError(s.t, json.Unmarshal(res.Body.Bytes(), &out))
	return res.Code, out
}

// Only the operator sees what is in quarantine, and has it judged again; for
// all others it is nowhere.
func TestQuarantineIsTheOperators(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s, ada := newSite(t, db), newAuthor("did:web:ada.test")
		require.NoError(t, s.index.Adopt(t.Context()))
		s.apply(ada.identity("ada.test"))
		bad := observation("flawed", nil)
		delete(bad, "method")
		c, flawed := ada.put(t, lexicons.ObservationNSID, string(tid(10)), bad)
		s.apply(c)
		c, good := ada.put(t, lexicons.ObservationNSID, string(tid(20)), observation("sound", object{"supersedes": ref(flawed)}))
		s.apply(c)

		list := s.get("listObservations", "allVersions", "true")
		require.Len(t, list["observations"], 1)
		name, codes := s.refuse("getRecord", "uri", string(flawed.URI))
		require.Equal(t, "RecordNotFound", name)
		require.Equal(t, []string{"quarantined"}, codes)
		require.Empty(t, s.get("listFindings", "code", "InvalidRecord")["findings"])

		s.viewer = xrpc.Viewer{Kind: xrpc.Admin, Member: true, Active: true}
		out := s.get("admin.listQuarantine", "author", "ada.test")
		require.Equal(t, string(flawed.URI), at(t, out, "records", 0, "uri"))
		require.Equal(t, "ada.test", at(t, out, "records", 0, "author", "handle"))
		require.Equal(t, "InvalidRecord", at(t, out, "records", 0, "findings", 0, "code"))
		require.Equal(t, "/method", at(t, out, "records", 0, "findings", 0, "path"))
		require.Empty(t, s.get("admin.listQuarantine", "collection", "com.example.other")["records"])

		loose := looser(t, "method")
		require.NoError(t, s.index.SetLexicons(t.Context(), []*lexicons.Lexicon{loose}))
		status, answer := s.call("admin.revalidate", object{"uris": []any{string(flawed.URI), string(good.URI), "at://did:web:ada.test/com.example.none/x"}})
		require.Equal(t, http.StatusOK, status)
		require.Len(t, answer["records"], 2, "what is not here is left out")
		require.Equal(t, "ok", at(t, answer, "records", 0, "state"))
		require.Empty(t, s.get("admin.listQuarantine")["records"])

		status, answer = s.call("admin.revalidate", object{"all": true})
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, []any{string(lexicons.ObservationNSID)}, answer["collections"])
		require.NotEmpty(t, s.get("admin.listQuarantine")["revalidations"])
		for _, bad := range []object{{}, {"all": true, "uris": []any{string(good.URI)}}, {"all": true, "collections": []any{"com.example.a"}}} {
			status, answer = s.call("admin.revalidate", bad)
			require.Equal(t, http.StatusBadRequest, status)
			require.Contains(t, answer["message"], "send uris, or collections, or all")
		}

		s.viewer = xrpc.Viewer{Kind: xrpc.Account, Member: true, Active: true}
		require.Equal(t, "at", s.get("getRecord", "uri", string(flawed.URI))["uri"].(string)[:2], "released for all")
		require.Equal(t, http.StatusForbidden, s.ask("admin.listQuarantine").Code)
	})
}

// looser is the program's lexicon of observations that does not ask for a field.
func looser(t *testing.T, field string) *lexicons.Lexicon {
	t.Helper()
	catalog, err := lexicons.Load()
	require.NoError(t, err)
	source := string(catalog.Lexicon(lexicons.ObservationNSID).Source)
	require.Contains(t, source, `"`+field+`",`)
	l, err := lexicons.ParseLexicon([]byte(strings.Replace(source, `"`+field+`",`, "", 1)))
	require.NoError(t, err)
	return l
}
