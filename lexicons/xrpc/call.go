package xrpc

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// Call is one request on its way through the server. Handlers read it; only
// the server writes it.
type Call struct {
	NSID      syntax.NSID // the method; "" on a plain route
	Viewer    Viewer      // who asks, as far as the route looked (see ReadsCredential)
	ClientIP  netip.Addr  // by TrustedProxies; the zero Addr when unknown
	RequestID string      // also in the response header X-Request-Id and in the log

	// CredentialErr is why the credential shown on an Open route with
	// ReadsCredential was not accepted; nil when none was shown or it was good.
	CredentialErr error

	Request *http.Request
	Writer  http.ResponseWriter // can be flushed and hijacked

	route   *route                   // what answers; nil when nothing is registered there
	param   func(name string) string // wildcards of a plain route
	refused string                   // error name of the answer, for the log
}

// Param is the value of a ":name" wildcard of a plain route, or of its final
// "*" under the name "*".
func (c *Call) Param(name string) string { return c.param(name) }

type callKey struct{}

// CallFrom is the call that a handler's context carries, nil outside of one.
func CallFrom(ctx context.Context) *Call {
	call, _ := ctx.Value(callKey{}).(*Call)
	return call
}

// FromHTTP makes a Handler of a standard one, for Server.Route. The request
// it sees carries the call (CallFrom(r.Context())).
func FromHTTP(h http.Handler) Handler {
	return func(_ context.Context, call *Call) error {
		h.ServeHTTP(call.Writer, call.Request)
		return nil
	}
}
