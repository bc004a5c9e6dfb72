package pds_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons/xrpc"
)

// open are the routes that answer without a credential in visibility team:
// DESIGN section 1, "Who may read". OPTIONS is tested apart.
var open = []string{
	"/", "/robots.txt", "/livez", "/readyz", "/xrpc/_health",
	"/.well-known/atproto-did", "/.well-known/did.json",
	"/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/oauth/", // 404: TestNoOAuth
	"/tls-check", // says no more than atproto-did does, to the TLS proxy in front
	"/xrpc/com.atproto.server.describeServer",
	"/xrpc/com.atproto.server.createAccount",
	"/xrpc/com.atproto.server.createSession",
	"/xrpc/com.atproto.server.refreshSession",
	"/xrpc/com.atproto.server.deleteSession",
	"/xrpc/com.atproto.server.deleteAccount",        // asks for the password and a token
	"/xrpc/com.atproto.server.requestPasswordReset", // tells nothing
	"/xrpc/com.atproto.server.resetPassword",        // asks for a token
	"/xrpc/com.atproto.identity.resolveHandle",
	"/xrpc/garden.herbarium.createSession", // key login
}

// TestEveryRouteHasItsGate calls every registered route as nobody, as an
// account, as its neighbour and as the admin. Parameters are left out on
// purpose: who asks is looked at before what is asked.
func TestEveryRouteHasItsGate(t *testing.T) {
	for _, visibility := range []xrpc.Visibility{xrpc.Team, xrpc.Public} {
		t.Run(string(visibility), func(t *testing.T) {
			eachHost(t, setting{visibility: visibility}, func(t *testing.T, h *host) {
				owner := h.agent(t, "scout")
				other := h.agent(t, "neighbour")
				for _, route := range h.server.Routes() {
					path := strings.TrimSuffix(route.Path, "*")
					if path == "/xrpc/" {
						path = "/xrpc/org.example.unknown"
					}
					verb := route.Verb
					if verb == "" {
						verb = http.MethodGet
					}
					t.Run(verb+" "+path, func(t *testing.T) {
						require.NotEqual(t, xrpc.Unclassified, route.Access)
						require.Equal(t, slices.Contains(open, path), route.Access == xrpc.Open,
							"whether a route is open is DESIGN's to say")
						owner, other := owner, other
						if strings.HasSuffix(path, "deactivateAccount") {
							owner, other = h.agent(t, "leaver"), h.agent(t, "goer")
						}
						requireGate(t, h, visibility, route.Access, verb, path, owner, other)
					})
				}
			})
		})
	}
}

// requireGate checks who gets past the gate of one route.
func requireGate(t *testing.T, h *host, visibility xrpc.Visibility, access xrpc.Access, verb, path string, owner, other agent) {
	t.Helper()
	if path == "/xrpc/com.atproto.server.deleteSession" || path == "/xrpc/com.atproto.server.refreshSession" {
		h.do(t, verb, path, "", nil).refused(t, 401, "AuthMissing")
		return
	}
	if strings.HasSuffix(path, "subscribeRepos") {
		require.Equal(t, 426, h.do(t, http.MethodGet, path, "", nil).Status) // its gate: TestSubscribeReposWithoutWebsocket
		return
	}
	passes := map[string]bool{"": false, owner.access: true, other.access: true, admin(): true}
	switch access {
	case xrpc.Open:
		passes[""] = true
	case xrpc.Read, xrpc.Published:
		passes[""] = visibility == xrpc.Public
	case xrpc.AccessToken:
		passes[admin()] = false
	case xrpc.AdminOnly:
		passes[owner.access], passes[other.access] = false, false
	case xrpc.Member:
	default:
		t.Fatalf("no expectation for access %v", access)
	}
	for credential, want := range passes {
		r := h.do(t, verb, path, credential, nil)
		name := ""
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") && verb != http.MethodHead {
			name = r.object(t).str("error")
		}
		stopped := r.Status == 401 || r.Status == 403 || name == "InvalidToken"
		if strings.HasSuffix(path, "uploadBlob") && credential == admin() {
			continue // a member, but no account to keep a blob for
		}
		require.Equal(t, want, !stopped, "as %q: %d %s", credential, r.Status, r.Body)
		if credential == "" && !want {
			require.Equal(t, "AuthMissing", name)
		}
	}
	// A credential that is no good is told so, never taken for none.
	if access != xrpc.Open {
		h.do(t, verb, path, "Bearer nonsense", nil).refusedUnlessHead(t, verb, 400, "InvalidToken")
		h.do(t, verb, path, "Unknown nonsense", nil).refusedUnlessHead(t, verb, 400, "InvalidToken")
		h.do(t, verb, path, "Basic YWRtaW46d3Jvbmc=", nil).refusedUnlessHead(t, verb, 401, "AuthenticationRequired")
	}
}

func (r reply) refusedUnlessHead(t *testing.T, verb string, status int, name string) {
	t.Helper()
	if verb != http.MethodHead {
		r.refused(t, status, name)
	}
}

func TestPreflightNeedsNoCredential(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		r := h.do(t, http.MethodOptions, "/xrpc/com.atproto.repo.createRecord", "", nil,
			"Origin", "https://app.example.org", "Access-Control-Request-Headers", "authorization,content-type")
		require.Equal(t, 204, r.Status)
		require.Equal(t, "*", r.Header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, "authorization,content-type", r.Header.Get("Access-Control-Allow-Headers"))
	})
}

func TestPlainRoutes(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		require.Contains(t, string(h.do(t, "GET", "/", "", nil).Body), "Herbarium")
		require.Contains(t, string(h.do(t, "GET", "/robots.txt", "", nil).Body), "Allow: /")
		require.Equal(t, "test", h.do(t, "GET", "/xrpc/_health", "", nil).ok(t).str("version"))
		require.Equal(t, 200, h.do(t, "HEAD", "/xrpc/_health", "", nil).Status)
		require.Equal(t, 200, h.do(t, "GET", "/livez", "", nil).Status)
		require.Equal(t, 200, h.do(t, "GET", "/readyz", "", nil).Status)

		proof := h.do(t, "GET", "/.well-known/atproto-did", "", nil, "Host", "Scout.test:2583")
		require.Equal(t, 200, proof.Status)
		require.Equal(t, a.did, string(proof.Body))
		require.Equal(t, 404, h.do(t, "GET", "/.well-known/atproto-did", "", nil, "Host", "nobody.test").Status)

		document := h.do(t, "GET", "/.well-known/did.json", "", nil, "Host", "scout.test").ok(t)
		require.Equal(t, a.did, document.str("id"))
		h.do(t, "GET", "/.well-known/did.json", "", nil, "Host", "elsewhere.example.org").refused(t, 404, "NotFound")
		service := h.do(t, "GET", "/.well-known/did.json", "", nil, "Host", strings.TrimPrefix(strings.ReplaceAll(string(h.did), "%3A", ":"), "did:web:")).ok(t)
		require.Equal(t, h.did, syntax.DID(service.str("id")))

		require.Equal(t, 200, h.do(t, "GET", "/tls-check?domain=scout.test", "", nil).Status)
		require.Equal(t, 404, h.do(t, "GET", "/tls-check?domain=nobody.test", "", nil).Status)
		require.Equal(t, 404, h.do(t, "GET", "/tls-check", "", nil).Status)
	})
}

func TestNoOAuth(t *testing.T) {
	for _, visibility := range []xrpc.Visibility{xrpc.Team, xrpc.Public} {
		t.Run(string(visibility), func(t *testing.T) {
			eachHost(t, setting{visibility: visibility}, func(t *testing.T, h *host) {
				for _, path := range []string{
					"/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server",
					"/oauth/par", "/oauth/authorize", "/oauth/authorize/redirect", "/oauth/token", "/oauth/revoke", "/oauth/jwks",
				} {
					for _, verb := range []string{"GET", "POST"} {
						r := h.do(t, verb, path, "", nil)
						require.Contains(t, r.refused(t, 404, "NotFound"), "createSession")
						require.Equal(t, "*", r.Header.Get("Access-Control-Allow-Origin"), "a browser's client may read that")
					}
					require.Equal(t, 404, h.do(t, "HEAD", path, "", nil).Status)
				}
				h.do(t, "GET", "/account", "", nil).refused(t, 404, "NotFound")
				h.do(t, "POST", "/robots.txt", "", nil).refused(t, 405, "InvalidRequest")
			})
		})
	}
}

func TestHealthTellsOfALostDatabase(t *testing.T) {
	eachHost(t, setting{damaged: true}, func(t *testing.T, h *host) {
		read, err := h.db.Read.DB()
		require.NoError(t, err)
		require.NoError(t, read.Close())
		sick := h.do(t, "GET", "/xrpc/_health", "", nil)
		require.Equal(t, 503, sick.Status)
		require.Equal(t, object{"version": "test", "error": "Service Unavailable"}, sick.object(t))
		require.Equal(t, 503, h.do(t, "GET", "/readyz", "", nil).Status)
		require.Equal(t, 200, h.do(t, "GET", "/livez", "", nil).Status, "a restart would not help")
		message := h.query(t, "", "com.atproto.identity.resolveHandle", "handle", "unheard-of.test").refused(t, 500, "InternalServerError")
		require.NotContains(t, message, "sql", "the text of a fault stays here")
	})
}
