package pds_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/pds"
)

// elsewhere is a service of another host, and a directory that knows it.
func elsewhere(t *testing.T, handler http.Handler) func(*testing.T) identity.Directory {
	t.Helper()
	upstream := httptest.NewServer(handler)
	t.Cleanup(upstream.Close)
	closed := httptest.NewServer(handler)
	closed.Close()
	dir := identity.NewMockDirectory()
	dir.Insert(identity.Identity{
		DID:    "did:web:view.example.org",
		Handle: syntax.HandleInvalid,
		Services: map[string]identity.ServiceEndpoint{
			"view":     {Type: "View", URL: upstream.URL},
			"gone":     {Type: "View", URL: closed.URL},
			"insecure": {Type: "View", URL: "http://view.example.org"},
			"internal": {Type: "View", URL: "http://169.254.169.254/latest"},
			"userinfo": {Type: "View", URL: strings.Replace(upstream.URL, "http://", "http://a:b@", 1)},
			"file":     {Type: "View", URL: "file:///etc/passwd"},
		},
	})
	return func(*testing.T) identity.Directory { return dir }
}

const viewMethod = "org.example.view.getThings"

func TestProxy(t *testing.T) {
	var seen *http.Request
	var seenBody []byte
	others := elsewhere(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Clone(r.Context())
		seenBody, _ = io.ReadAll(r.Body)
		switch r.URL.Query().Get("do") {
		case "refuse":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"TheirOwn","message":"no"}`)
		case "redirect":
			http.Redirect(w, r, "http://127.0.0.1/", http.StatusFound)
		default:
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Atproto-Repo-Rev", "3kabc")
			w.Header().Set("Set-Cookie", "a=b")
			_, _ = io.WriteString(w, "<script>alert(1)</script>")
		}
	}))
	eachHost(t, setting{others: others}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		const service = "did:web:view.example.org#view"
		ask := func(query string, headers ...string) reply {
			return h.do(t, http.MethodGet, "/xrpc/"+viewMethod+query, a.access, nil, headers...)
		}
		got := ask("?list=a&list=b", "Atproto-Proxy", service, "Accept-Language", "de", "Cookie", "secret=1", "X-Forwarded-For", "1.2.3.4", "Atproto-Accept-Labelers", "did:web:l.example.org")
		require.Equal(t, 200, got.Status)
		require.Equal(t, "<script>alert(1)</script>", string(got.Body))
		require.Equal(t, "3kabc", got.Header.Get("Atproto-Repo-Rev"))
		require.Empty(t, got.Header.Get("Set-Cookie"))
		require.Equal(t, "default-src 'none'; sandbox", got.Header.Get("Content-Security-Policy"), "a page from elsewhere is not run in our origin")
		require.Equal(t, "/xrpc/"+viewMethod, seen.URL.Path)
		require.Equal(t, "list=a&list=b", seen.URL.RawQuery)
		require.Equal(t, "de", seen.Header.Get("Accept-Language"))
		require.Equal(t, "did:web:l.example.org", seen.Header.Get("Atproto-Accept-Labelers"))
		require.Empty(t, seen.Header.Get("Cookie"))
		require.Empty(t, seen.Header.Get("X-Forwarded-For"))
		require.Empty(t, seen.Header.Get("Atproto-Proxy"))

		token := strings.TrimPrefix(seen.Header.Get("Authorization"), "Bearer ")
		require.NotContains(t, a.access, token, "the user's token stays here")
		raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
		require.NoError(t, err)
		var claims pds.ServiceClaims
		require.NoError(t, json.Unmarshal(raw, &claims))
		require.Equal(t, a.did, claims.Issuer)
		require.Equal(t, "did:web:view.example.org", claims.Audience)
		require.Equal(t, syntax.NSID(viewMethod), claims.Method)
		require.LessOrEqual(t, claims.Expires, nowUnix()+60)

		r := h.do(t, http.MethodPost, "/xrpc/org.example.view.doThing", a.access, strings.NewReader(`{"x":1}`), "Content-Type", "application/json", "Atproto-Proxy", service)
		require.Equal(t, 200, r.Status)
		require.Equal(t, `{"x":1}`, string(seenBody))
		ask("?do=refuse", "Atproto-Proxy", service).refused(t, 400, "TheirOwn")
		ask("?do=redirect", "Atproto-Proxy", service).refused(t, 502, "UpstreamFailure")
		ask("", "Atproto-Proxy", "did:web:view.example.org#gone").refused(t, 502, "UpstreamFailure")

		for _, bad := range []string{"insecure", "internal", "userinfo", "file", "nothing"} {
			ask("", "Atproto-Proxy", "did:web:view.example.org#"+bad).refused(t, 400, "InvalidRequest")
		}
		for _, bad := range []string{"did:web:view.example.org", "view.example.org#view", "#view", "did:web:view.example.org#"} {
			ask("", "Atproto-Proxy", bad).refused(t, 400, "InvalidRequest")
		}
		require.Contains(t, ask("").refused(t, 400, "InvalidRequest"), "No service configured")
		h.do(t, http.MethodGet, "/xrpc/"+viewMethod, "", nil, "Atproto-Proxy", service).refused(t, 401, "AuthMissing")
		h.do(t, http.MethodGet, "/xrpc/"+viewMethod, admin(), nil, "Atproto-Proxy", service).refused(t, 400, "InvalidToken")
		ask("", "Atproto-Proxy", string(h.did)+"#herbarium_appview").refused(t, 501, "MethodNotImplemented")
		validate := func(service string) reply {
			body, err := json.Marshal(object{"repo": a.did, "collection": note, "record": object{}})
			require.NoError(t, err)
			return h.do(t, http.MethodPost, "/xrpc/garden.herbarium.validateRecord", a.access, bytes.NewReader(body), "Content-Type", "application/json", "Atproto-Proxy", string(h.did)+service)
		}
		for _, ours := range []string{"#herbarium_appview", "#atproto_pds"} {
			validate(ours).ok(t)
		}
		for _, none := range []string{"#nope", "#", "", "#atproto_pds#atproto_pds"} {
			for _, r := range []reply{validate(none), ask("", "Atproto-Proxy", string(h.did)+none)} {
				message := r.refused(t, 400, "InvalidRequest")
				require.Contains(t, message, "#atproto_pds")
				require.Contains(t, message, "#herbarium_appview")
			}
		}
		seen = nil
		h.do(t, http.MethodPost, "/xrpc/com.atproto.server.requestEmailUpdate", a.access, nil, "Atproto-Proxy", service).refused(t, 400, "InvalidRequest")
		h.do(t, http.MethodGet, "/xrpc/com.atproto.sync.getLatestCommit?did="+a.did, a.access, nil, "Atproto-Proxy", string(h.did)+"#herbarium_appview").ok(t)
		h.do(t, http.MethodGet, "/xrpc/com.atproto.sync.getLatestCommit?did="+a.did, a.access, nil, "Atproto-Proxy", service).ok(t)
		require.Nil(t, seen, "what concerns the account, and what a host serves of itself, does not go out")

		ours := h.procedure(t, a.access, "garden.herbarium.validateRecord", object{"repo": a.did, "collection": note, "record": object{}})
		require.Equal(t, true, ours.ok(t).at("valid"))
		theirs := h.do(t, http.MethodPost, "/xrpc/garden.herbarium.validateRecord", a.access, strings.NewReader("{}"), "Content-Type", "application/json", "Atproto-Proxy", service)
		require.Contains(t, string(theirs.Body), "<script>", "the index of another Herbarium can be asked for what ours serves too")

		made := h.procedure(t, a.access, "com.atproto.server.createAppPassword", object{"name": "harness"}).ok(t)
		out := h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.handle, "password": made.str("password")}).ok(t)
		app := "Bearer " + out.str("accessJwt")
		seen = nil
		h.do(t, http.MethodGet, "/xrpc/chat.bsky.convo.listConvos", app, nil, "Atproto-Proxy", service).refused(t, 400, "InvalidToken")
		require.Nil(t, seen)
		require.Equal(t, 200, h.do(t, http.MethodGet, "/xrpc/"+viewMethod, app, nil, "Atproto-Proxy", service).Status)
	})
}

func TestProxyTimeout(t *testing.T) {
	others := elsewhere(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	client := pds.NewProxyClient(true)
	client.Timeout = 50 * time.Millisecond
	eachHost(t, setting{others: others, proxy: client}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		h.do(t, http.MethodGet, "/xrpc/"+viewMethod, a.access, nil, "Atproto-Proxy", "did:web:view.example.org#view").refused(t, 504, "UpstreamTimeout")
	})
}

func TestProxyReachesPublicAddressesOnly(t *testing.T) {
	t.Parallel()
	inside := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(inside.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, inside.URL, nil)
	require.NoError(t, err)
	_, err = pds.NewProxyClient(false).Do(req) //nolint:bodyclose // there is no answer
	require.Error(t, err)
	resp, err := pds.NewProxyClient(true).Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}

func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	for address, public := range map[string]bool{
		"93.184.215.14:443":           true,
		"93.184.215.14:80":            true,
		"93.184.215.14:22":            false,
		"[2606:2800:21f:cb07::1]:443": true,
		"127.0.0.1:443":               false,
		"10.1.2.3:443":                false,
		"172.16.0.1:443":              false,
		"192.168.1.1:443":             false,
		"100.64.0.1:443":              false, // carrier NAT
		"169.254.169.254:80":          false, // metadata of clouds
		"0.0.0.0:443":                 false,
		"255.255.255.255:443":         false,
		"224.0.0.1:443":               false,
		"[::1]:443":                   false,
		"[::]:443":                    false,
		"[fe80::1]:443":               false,
		"[fd00::1]:443":               false,
		"[::ffff:127.0.0.1]:443":      false, // IPv4-mapped
		"[::ffff:169.254.169.254]:80": false,
		"[64:ff9b::a9fe:a9fe]:80":     false, // NAT64
		"[2002:a9fe:a9fe::1]:80":      false, // 6to4
		"[2001:0:7f00:1::1]:443":      false, // Teredo
		"[2001:4860:4860::8888]:443":  true,
		"localhost:443":               false, // a name is never dialled as such
		"93.184.215.14":               false,
	} {
		network := "tcp4"
		if address[0] == '[' {
			network = "tcp6"
		}
		err := pds.PublicAddress(network, address)
		require.Equal(t, public, err == nil, "%s: %v", address, err)
	}
	require.Error(t, pds.PublicAddress("udp4", "93.184.215.14:443"))
}

// A name that leads inside, now or at the second look, gets nowhere, and
// neither does a redirect to it.
func TestProxyDoesNotResolveItsWayInside(t *testing.T) {
	t.Parallel()
	var reached bool
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	t.Cleanup(inside.Close)
	port := inside.URL[strings.LastIndexByte(inside.URL, ':')+1:]
	for _, target := range []string{"http://localhost:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://127.1:" + port, "http://2130706433:" + port} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		require.NoError(t, err)
		_, err = pds.NewProxyClient(false).Do(req) //nolint:bodyclose // there is no answer
		require.Error(t, err, target)
	}
	require.False(t, reached)
}

// A DID document may name any address: a private one is not dialled, and the
// answer tells nothing of our network.
func TestProxyTargetsInsideOurNetwork(t *testing.T) {
	dir := identity.NewMockDirectory()
	services := map[string]identity.ServiceEndpoint{}
	for name, url := range map[string]string{
		"mapped": "https://[::ffff:127.0.0.1]", "private": "https://10.0.0.1", "metadata": "https://169.254.169.254", "name": "https://localhost",
	} {
		services[name] = identity.ServiceEndpoint{Type: "View", URL: url}
	}
	dir.Insert(identity.Identity{DID: "did:web:view.example.org", Handle: syntax.HandleInvalid, Services: services})
	client := pds.NewProxyClient(false)
	eachHost(t, setting{others: func(*testing.T) identity.Directory { return dir }, proxy: client}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		for name := range services {
			message := h.do(t, http.MethodGet, "/xrpc/"+viewMethod, a.access, nil, "Atproto-Proxy", "did:web:view.example.org#"+name).refused(t, 502, "UpstreamFailure")
			require.NotContains(t, message, "127.0.0.1", "our network is not told about")
			require.NotContains(t, message, "not a public")
		}
		h.do(t, http.MethodGet, "/xrpc/"+viewMethod, a.access, nil, "Atproto-Proxy", "did:web:unknown.example.org#view").refused(t, 400, "InvalidRequest")
	})
}
