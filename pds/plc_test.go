package pds_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// plcLog is a PLC directory that takes what it is given and can be away.
// Whether operations are right is tested where they are made.
type plcLog struct {
	mu   sync.Mutex
	away bool
	log  map[string][]json.RawMessage // by DID
}

func newPLC(t *testing.T) (*plcLog, *url.URL) {
	t.Helper()
	p := &plcLog{log: map[string][]json.RawMessage{}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	return p, at
}

func (p *plcLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	did, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	var op json.RawMessage
	switch {
	case p.away:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&op) == nil:
		p.log[did] = append(p.log[did], op)
	case strings.HasSuffix(r.URL.Path, "/log"):
		_ = json.NewEncoder(w).Encode(p.log[did])
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (p *plcLog) leave(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

// last is the handle that the newest operation names.
func (p *plcLog) last(t *testing.T, did string) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NotEmpty(t, p.log[did])
	var op struct {
		AlsoKnownAs []string `json:"alsoKnownAs"`
	}
	require.NoError(t, json.Unmarshal(p.log[did][len(p.log[did])-1], &op))
	return strings.TrimPrefix(op.AlsoKnownAs[0], "at://")
}

func TestAccountsInAPLCDirectory(t *testing.T) {
	plc, at := newPLC(t)
	eachHost(t, setting{plc: at}, func(t *testing.T, h *host) {
		plc.leave(true)
		sign := object{"handle": "scout.test", "password": "long enough"}
		h.procedure(t, admin(), "com.atproto.server.createAccount", sign).refused(t, 502, "UpstreamFailure")
		require.Zero(t, h.lastSeq(t))
		h.query(t, "", "com.atproto.identity.resolveHandle", "handle", "scout.test").refused(t, 400, "HandleNotFound")

		plc.leave(false)
		a, other := h.agent(t, "scout"), h.agent(t, "other")
		require.True(t, strings.HasPrefix(a.did, "did:plc:"))
		require.Equal(t, "scout.test", plc.last(t, a.did))
		h.create(t, a, note, object{}).ok(t)

		rename := func(handle string) reply {
			return h.procedure(t, a.access, "com.atproto.identity.updateHandle", object{"handle": handle})
		}
		rename(other.handle).refused(t, 400, "InvalidRequest")
		require.Equal(t, "scout.test", plc.last(t, a.did), "a name that is not free never gets into the log")
		plc.leave(true)
		rename("ranger.test").refused(t, 502, "UpstreamFailure")
		require.Equal(t, a.did, h.query(t, "", "com.atproto.identity.resolveHandle", "handle", "scout.test").ok(t).str("did"), "what failed changed nothing")
		h.query(t, "", "com.atproto.identity.resolveHandle", "handle", "ranger.test").refused(t, 400, "HandleNotFound")
		plc.leave(false)
		require.Equal(t, 200, rename("ranger.test").Status)
		require.Equal(t, "ranger.test", plc.last(t, a.did))

		wanted := h.query(t, a.access, "com.atproto.identity.getRecommendedDidCredentials").ok(t)
		require.Equal(t, []any{"at://ranger.test"}, wanted.list("alsoKnownAs"))
		require.Len(t, wanted.list("rotationKeys"), 1)
	})
}
