package appview_test

import (
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

// operate calls a procedure of the operator's.
func (s *site) operate(method, body string) *httptest.ResponseRecorder {
	s.t.Helper()
	q := httptest.NewRequestWithContext(s.t.Context(), http.MethodPost, "/xrpc/garden.herbarium."+method, strings.NewReader(body))
	q.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, q)
	return w
}

func TestTrustGroupsOverXRPC(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada, bob := newAuthor("did:web:ada.test"), newAuthor("did:web:bob.test")
		c, first := ada.put(t, lexicons.ObservationNSID, string(tid(1)), observation("ada's", nil))
		s.apply(c)
		c, second := bob.put(t, lexicons.ObservationNSID, string(tid(2)), observation("bob's", object{"supersedes": ref(first)}))
		s.apply(c)
		chain := func() any { return at(t, s.get("getObservation", "uri", string(first.URI)), "observation", "chain") }
		require.Equal(t, string(first.URI), at(t, chain(), "head", "uri"))
		require.Equal(t, string(second.URI), at(t, chain(), "proposals", 0, "uri"))

		s.viewer = xrpc.Viewer{Kind: xrpc.Admin, Member: true}
		require.Equal(t, 200, s.operate("admin.putTrustGroup", `{"name":"lab","members":["did:web:bob.test","did:web:ada.test"]}`).Code)
		require.Equal(t, []any{object{
			"name": "lab", "members": []any{"did:web:ada.test", "did:web:bob.test"}, "source": "admin", "changedAt": "2026-11-30T12:00:00.000Z",
		}}, s.get("admin.listTrustGroups")["groups"])
		require.Equal(t, string(second.URI), at(t, chain(), "head", "uri"))
		require.Equal(t, true, at(t, chain(), "supersededBy", 0, "trusted"), "it counts, and is marked")
		require.NotContains(t, chain(), "proposals")

		for _, body := range []string{
			`{"name":"lab 2","members":["did:web:a.test","did:web:b.test"]}`,
			`{"name":"other","members":["did:web:a.test","did:web:a.test"]}`,
			`{"name":"other","members":["did:web:ada.test","did:web:c.test"]}`,
			`{"name":"other","members":["did:web:a.test","did:web:c.test"],"memebrs":[]}`,
		} {
			refused := s.operate("admin.putTrustGroup", body)
			require.Equal(t, 400, refused.Code, body)
			require.Contains(t, refused.Body.String(), "InvalidRequest")
		}
		require.Len(t, s.get("admin.listTrustGroups")["groups"], 1)

		require.Equal(t, 200, s.operate("admin.deleteTrustGroup", `{"name":"lab"}`).Code)
		require.Equal(t, string(first.URI), at(t, chain(), "head", "uri"))
		require.Empty(t, s.get("admin.listTrustGroups")["groups"])
		require.Equal(t, 400, s.operate("admin.deleteTrustGroup", `{"name":"lab"}`).Code)
	})
}
