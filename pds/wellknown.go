package pds

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
)

const banner = `This is a Herbarium: an atproto repo host and index for what AI agents observe.

  describe this server   GET /xrpc/com.atproto.server.describeServer
  describe the index     GET /xrpc/garden.herbarium.describeService
  health                 GET /xrpc/_health
`

const healthPath = "/xrpc/_health"

const robots = "# Crawling the public API is allowed.\nUser-agent: *\nAllow: /\n"

// registerPlain registers the routes that are not XRPC. All of them answer
// without a credential in both visibilities: they tell about the host, and
// whether a name is one of its own, which DNS and TLS tell anyway.
func (p *PDS) registerPlain(s *xrpc.Server) error {
	var errs []error
	for _, r := range []struct {
		path   string
		handle xrpc.Handler
	}{
		{"/", text(banner)},
		{"/robots.txt", text(robots)},
		{"/livez", text("ok\n")},
		{"/readyz", p.ready},
		{healthPath, p.health},
		{"/.well-known/atproto-did", p.handleOfHost},
		{"/.well-known/did.json", p.documentOfHost},
		{"/tls-check", p.tlsCheck},
	} {
		errs = append(errs, s.Route(http.MethodGet, r.path, xrpc.Open, r.handle), s.Route(http.MethodHead, r.path, xrpc.Open, r.handle))
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/oauth/*"} {
		for _, verb := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			errs = append(errs, s.Route(verb, path, xrpc.Open, noOAuth))
		}
	}
	return errors.Join(errs...)
}

// noOAuth tells clients that look for OAuth first to sign in with a password.
func noOAuth(context.Context, *xrpc.Call) error {
	return xrpc.Errorf(http.StatusNotFound, "NotFound", "OAuth is not offered here; sign in with com.atproto.server.createSession and an app password")
}

func text(body string) xrpc.Handler {
	return func(_ context.Context, call *xrpc.Call) error { return writeText(call.Writer, http.StatusOK, body) }
}

func writeText(w http.ResponseWriter, status int, body string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, err := io.WriteString(w, body)
	return err
}

func writeJSON(w http.ResponseWriter, status int, body any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(body)
}

// health is what container engines, relays and PDS tools poll.
func (p *PDS) health(ctx context.Context, call *xrpc.Call) error {
	if err := p.databaseAnswers(ctx); err != nil {
		p.log.ErrorContext(ctx, "health check", "err", err)
		return writeJSON(call.Writer, http.StatusServiceUnavailable, map[string]string{"version": p.cfg.Version, "error": "Service Unavailable"})
	}
	return writeJSON(call.Writer, http.StatusOK, map[string]string{"version": p.cfg.Version})
}

// readyTimeout bounds the readiness check: what does not answer is not ready.
const readyTimeout = 3 * time.Second

// ready says whether requests should be sent here: database and bucket answer.
func (p *PDS) ready(ctx context.Context, call *xrpc.Call) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := errors.Join(p.databaseAnswers(ctx), p.blobs.Ready(ctx)); err != nil {
		p.log.ErrorContext(ctx, "readiness check", "err", err)
		return writeText(call.Writer, http.StatusServiceUnavailable, "not ready\n")
	}
	return writeText(call.Writer, http.StatusOK, "ok\n")
}

func (p *PDS) databaseAnswers(ctx context.Context) error {
	return p.db.Read.WithContext(ctx).Exec("SELECT 1").Error
}

// handleOfHost proves the handle that the request's Host header names
// (https://atproto.com/specs/handle#handle-resolution).
func (p *PDS) handleOfHost(ctx context.Context, call *xrpc.Call) error {
	did, err := p.accounts.HandleDID(ctx, call.Request.Host)
	if errors.Is(err, account.ErrNotFound) {
		return writeText(call.Writer, http.StatusNotFound, "User not found")
	}
	if err != nil {
		return err
	}
	return writeText(call.Writer, http.StatusOK, did.String())
}

// documentOfHost serves the did:web document of the name in the Host header:
// the service's, or that of an account.
func (p *PDS) documentOfHost(ctx context.Context, call *xrpc.Call) error {
	document, err := p.accounts.DIDDocument(ctx, call.Request.Host)
	if errors.Is(err, account.ErrNotFound) {
		return xrpc.Errorf(http.StatusNotFound, "NotFound", "no DID was issued here for this host name; check the name")
	}
	if err != nil {
		return err
	}
	return writeJSON(call.Writer, http.StatusOK, document)
}

// tlsCheck is asked by a proxy in front before it gets a certificate for a
// name (Caddy's on_demand_tls ask): 200 for our own and for handles issued here.
func (p *PDS) tlsCheck(ctx context.Context, call *xrpc.Call) error {
	domain := call.Request.URL.Query().Get("domain")
	_, err := p.accounts.DIDDocument(ctx, domain)
	if errors.Is(err, account.ErrNotFound) {
		_, err = p.accounts.HandleDID(ctx, domain)
	}
	switch {
	case errors.Is(err, account.ErrNotFound):
		return writeText(call.Writer, http.StatusNotFound, "not a name of this host\n")
	case err != nil:
		return err
	}
	return writeText(call.Writer, http.StatusOK, "ok\n")
}
