package pds_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBadInput sends what no client should: each gets a 4xx with a stable
// name, writes nothing, and leaves the server at work.
func TestBadInput(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		body := func(record string) string {
			return `{"repo":"` + a.did + `","collection":"` + note + `","record":` + record + `}`
		}
		const at = "/xrpc/com.atproto.repo.createRecord"
		seq := h.lastSeq(t)
		for _, tc := range []struct {
			name, body, contentType string
			status                  int
			error                   string
		}{
			{"not JSON", `{"repo":`, "application/json", 400, "InvalidRequest"},
			{"JSON and more", body("{}") + "{}", "application/json", 400, "InvalidRequest"},
			{"empty", "", "application/json", 400, "InvalidRequest"},
			{"null", "null", "application/json", 400, "InvalidRequest"},
			{"a list", "[]", "application/json", 400, "InvalidRequest"},
			{"no record", `{"repo":"` + a.did + `","collection":"` + note + `"}`, "application/json", 400, "InvalidRequest"},
			{"record is a string", body(`"x"`), "application/json", 400, "InvalidRequest"},
			{"a float", body(`{"n":1.5}`), "application/json", 400, "InvalidRequest"},
			{"an integer past 2^53-1", body(`{"n":9007199254740992}`), "application/json", 400, "InvalidRequest"},
			{"an integer past -(2^53-1)", body(`{"n":-9007199254740992}`), "application/json", 400, "InvalidRequest"},
			{"an integer past int64", body(`{"n":18446744073709551616}`), "application/json", 400, "InvalidRequest"},
			{"20,000 levels of lists", body(`{"n":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`), "application/json", 400, "InvalidRequest"},
			{"20,000 levels of objects", body(strings.Repeat(`{"n":`, 20_000) + "1" + strings.Repeat("}", 20_000)), "application/json", 400, "InvalidRequest"},
			{"100 levels", body(`{"n":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`), "application/json", 400, "InvalidRequest"},
			{"wrong $type", body(`{"$type":"org.example.other"}`), "application/json", 400, "InvalidRequest"},
			{"$type is a number", body(`{"$type":7}`), "application/json", 400, "InvalidRequest"},
			{"a bad link", body(`{"l":{"$link":"nonsense"}}`), "application/json", 400, "InvalidRequest"},
			{"a link with company", body(`{"l":{"$link":"bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a","x":1}}`), "application/json", 400, "InvalidRequest"},
			{"bad bytes", body(`{"b":{"$bytes":"%%%"}}`), "application/json", 400, "InvalidRequest"},
			{"a name twice", body(`{"n":1,"n":2}`), "application/json", 400, "InvalidRequest"},
			{"half a surrogate pair", body(`{"t":"\ud800"}`), "application/json", 400, "InvalidRequest"},
			{"not UTF-8", body("{\"t\":\"\xff\"}"), "application/json", 400, "InvalidRequest"},
			{"bad collection", strings.Replace(body("{}"), note, "nodots", 1), "application/json", 400, "InvalidRequest"},
			{"bad repo", strings.Replace(body("{}"), a.did, "did:", 1), "application/json", 400, "InvalidRequest"},
			{"as text", body("{}"), "text/plain", 400, "InvalidRequest"},
			{"without a type", body("{}"), "", 400, "InvalidRequest"},
			{"over the limit", body(`{"t":"` + strings.Repeat("x", 1_000_001) + `"}`), "application/json", 413, "PayloadTooLarge"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				var headers []string
				if tc.contentType != "" {
					headers = []string{"Content-Type", tc.contentType}
				}
				h.do(t, http.MethodPost, at, a.access, strings.NewReader(tc.body), headers...).refused(t, tc.status, tc.error)
			})
		}
		h.do(t, http.MethodGet, at, a.access, nil).refused(t, 405, "InvalidRequest")
		h.do(t, http.MethodPost, "/xrpc/com.atproto.repo.listRecords", a.access, strings.NewReader("{}"), "Content-Type", "application/json").refused(t, 405, "InvalidRequest")
		for _, m := range []string{
			h.query(t, a.access, "com.atproto.sync.getBlob", "did", a.did, "cid", "bafynope").refused(t, 400, "InvalidRequest"),
			h.query(t, a.access, "com.atproto.repo.getRecord", "repo", a.did, "collection", note, "rkey", "x", "cid", "bafynope").refused(t, 400, "InvalidRequest"),
		} {
			require.Contains(t, m, `"bafynope" is not in the format cid, want a CID such as bafyrei`)
		}
		require.Contains(t, h.query(t, a.access, "com.atproto.sync.getRepo", "did", "did:nothing").refused(t, 400, "InvalidRequest"), "want did:plc:… or did:web:…")
		h.query(t, a.access, "com.atproto.sync.getRepo", "did", a.did, "since", "not a rev").refused(t, 400, "InvalidRequest")
		h.query(t, a.access, "com.atproto.sync.listRepos", "cursor", "made up").refused(t, 400, "InvalidRequest")
		h.query(t, a.access, "com.atproto.sync.listBlobs", "did", a.did, "cursor", "made up").refused(t, 400, "InvalidRequest")
		h.query(t, a.access, "com.atproto.repo.listRecords", "repo", a.did, "collection", note, "cursor", "a/b").refused(t, 400, "InvalidRequest")
		require.Equal(t, seq, h.lastSeq(t), "nothing was written")
		h.create(t, a, note, object{"goes": "on"}).ok(t)
	})
}
