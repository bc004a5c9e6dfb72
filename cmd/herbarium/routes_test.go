package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/config"
	"herbarium.garden/lexicons/xrpc"
)

// openRoutes are all that answers without a credential in visibility team
// (the design's list; OPTIONS aside). The answer of /tls-check says no more
// than atproto-did does.
var openRoutes = []string{
	"/", "/.well-known/atproto-did", "/.well-known/did.json",
	"/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource", "/livez", "/oauth/*", "/readyz", "/robots.txt", "/tls-check",
	"/xrpc/_health",
	"/xrpc/com.atproto.identity.resolveHandle",
	"/xrpc/com.atproto.server.createAccount",
	"/xrpc/com.atproto.server.createSession",
	"/xrpc/com.atproto.server.deleteAccount",
	"/xrpc/com.atproto.server.deleteSession",
	"/xrpc/com.atproto.server.describeServer",
	"/xrpc/com.atproto.server.refreshSession",
	"/xrpc/com.atproto.server.requestPasswordReset",
	"/xrpc/com.atproto.server.resetPassword",
	"/xrpc/garden.herbarium.createSession",
	"/xrpc/garden.herbarium.describeService",
}

// Every route of the assembled program, as nobody: an open one is on the list,
// any other says AuthMissing in team, whatever its parameters.
func TestRoutesWithoutACredential(t *testing.T) {
	for _, visibility := range []string{config.VisibilityTeam, config.VisibilityPublic} {
		t.Run(visibility, func(t *testing.T) {
			cfg, err := config.Load(config.Input{Environ: []string{"HERBARIUM_DATA_DIR=" + t.TempDir(), "HERBARIUM_VISIBILITY=" + visibility}})
			require.NoError(t, err)
			s, err := assemble(t.Context(), cfg, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			defer func() { require.NoError(t, s.close()) }()
			server := s.api.(*xrpc.Server)

			var open []string
			for _, route := range server.Routes() {
				if route.Access == xrpc.Open {
					open = append(open, route.Path)
					continue
				}
				verb, path := route.Verb, strings.Replace(route.Path, "/xrpc/*", "/xrpc/org.example.unknown", 1)
				if verb == "" {
					verb = http.MethodGet
				}
				answer := httptest.NewRecorder()
				server.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), verb, path, nil))
				var body struct{ Error string }
				require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &body), "%s %s: %s", verb, path, answer.Body)
				switch {
				case strings.Contains(path, ".subscribe"):
					require.Equal(t, http.StatusUpgradeRequired, answer.Code, "a plain GET is told what is missing, never an auth error")
				case visibility == config.VisibilityPublic && (route.Access == xrpc.Read || route.Access == xrpc.Published):
					require.NotEqual(t, "AuthMissing", body.Error, "%s %s", verb, path)
				default:
					require.Equal(t, http.StatusUnauthorized, answer.Code, "%s %s: %s", verb, path, answer.Body)
					require.Equal(t, "AuthMissing", body.Error, "%s %s", verb, path)
				}
			}
			slices.Sort(open)
			require.Equal(t, openRoutes, slices.Compact(open))
		})
	}
}

func TestRateLimitsAreOnUnlessSwitchedOff(t *testing.T) {
	for setting, want := range map[string]string{"": "30000", "HERBARIUM_RATE_LIMITS=off": ""} {
		cfg, err := config.Load(config.Input{Environ: []string{"HERBARIUM_DATA_DIR=" + t.TempDir(), setting}})
		require.NoError(t, err)
		s, err := assemble(t.Context(), cfg, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		answer := httptest.NewRecorder()
		s.api.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/xrpc/com.atproto.server.describeServer", nil))
		require.Equal(t, http.StatusOK, answer.Code)
		require.Equal(t, want, answer.Header().Get("ratelimit-limit"), "with %q", setting)
		require.NoError(t, s.close())
	}
}
