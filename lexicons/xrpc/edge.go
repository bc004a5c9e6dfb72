package xrpc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/labstack/echo/v4"
)

// statusClientGone is what the log and metrics call a request whose client
// went away before the answer (nginx's number; nothing is sent).
const statusClientGone = 499

// extractor finds the client's address. echo trusts loopback and private
// networks by default, and since 4.16.3 the bare RealIP trusts nothing: only
// the networks that were named count here.
func extractor(trusted []netip.Prefix) echo.IPExtractor {
	if len(trusted) == 0 {
		return echo.ExtractIPDirect()
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range trusted {
		p = p.Masked()
		options = append(options, echo.TrustIPRange(&net.IPNet{
			IP:   p.Addr().AsSlice(),
			Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
		}))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}

// edge wraps every request, routed or not: it makes the Call, answers what
// went wrong, and logs and measures what was answered. It returns no error.
func (s *Server) edge(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		started := s.now()
		r, response := c.Request(), c.Response()
		call := &Call{RequestID: rand.Text()[:16], Writer: answer{response}, param: c.Param}
		if ip, err := netip.ParseAddr(c.RealIP()); err == nil {
			call.ClientIP = ip.Unmap()
		}
		r = r.WithContext(context.WithValue(r.Context(), callKey{}, call))
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = pace(response.Writer, r.Body, s.cfg.BodyGrace)
		}
		c.SetRequest(r)
		call.Request = r

		header := response.Header()
		header.Set("X-Request-Id", call.RequestID)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Access-Control-Allow-Origin", "*")
		header.Set("Access-Control-Expose-Headers", exposedHeaders)

		var aborted bool
		err := contained(func() error {
			if r.Method == http.MethodOptions {
				return preflight(call)
			}
			return next(c)
		})
		status := response.Status
		switch {
		case err == nil:
		case response.Committed:
			// Half an answer is out. Breaking the connection off is the only way
			// left to say that it is not whole.
			aborted = status != http.StatusSwitchingProtocols
		case r.Context().Err() != nil && !tooSlow(err): // whatever err is, nobody is there to be told
			status = statusClientGone
		default:
			err = s.refuse(call, err)
			status = response.Status
		}
		s.record(call, status, response.Size, s.now().Sub(started), err)
		if aborted {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
}

// panicked is a panic of a handler, kept with its stack for the log.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// contained runs fn and turns a panic into an error. net/http's own signal to
// break a connection off passes through.
func contained(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler { //nolint:errorlint // panicked with as is, never wrapped
				panic(p)
			}
			err = &panicked{value: p, stack: debug.Stack()}
		}
	}()
	return fn()
}

// record logs the request and tells metrics. err is what kept it from being
// answered as asked; only a fault of ours is logged with its text.
func (s *Server) record(call *Call, status int, sent int64, took time.Duration, err error) {
	route, path := "unknown", call.Request.URL.Path
	if rt := call.route; rt != nil {
		route = rt.info.Path
		if rt.info.NSID != "" {
			route = string(rt.info.NSID)
		}
	}
	verb := call.Request.Method
	if !verbs[verb] {
		verb = "other"
	}
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("method", verb), slog.String("path", path), slog.Int("status", status),
		slog.Float64("ms", float64(took.Microseconds())/1000), slog.Int64("bytes", sent),
		slog.String("ip", call.ClientIP.String()), slog.String("request_id", call.RequestID),
	}
	if call.Viewer.DID != "" {
		attrs = append(attrs, slog.String("did", call.Viewer.DID.String()))
	}
	if call.refused != "" {
		attrs = append(attrs, slog.String("error", call.refused))
	}
	if err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("err", err.Error()))
		if p := (*panicked)(nil); errors.As(err, &p) {
			attrs = append(attrs, slog.String("stack", string(p.stack)))
		}
	}
	if status == statusClientGone {
		level = slog.LevelInfo
	}
	s.log.LogAttrs(call.Request.Context(), level, "request", attrs...)
	if s.cfg.Observe != nil {
		s.cfg.Observe(Observation{Route: route, Verb: verb, Status: status, Duration: took, Sent: sent})
	}
}

// exposedHeaders are the response headers that a browser's script may read.
const exposedHeaders = "ratelimit-limit, ratelimit-remaining, ratelimit-reset, ratelimit-policy, retry-after, " +
	"atproto-repo-rev, atproto-content-labelers, dpop-nonce, www-authenticate, x-request-id"

// preflight answers OPTIONS on any path. The requested header list is echoed:
// a "*" would not cover Authorization.
func preflight(call *Call) error {
	header := call.Writer.Header()
	header.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
	header.Add("Vary", "Access-Control-Request-Headers")
	if asked := call.Request.Header.Get("Access-Control-Request-Headers"); asked != "" {
		header.Set("Access-Control-Allow-Headers", asked)
	}
	header.Set("Access-Control-Max-Age", "86400")
	header.Del("Access-Control-Expose-Headers")
	call.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// dispatch finds the method of an XRPC request.
func (s *Server) dispatch(c echo.Context) error {
	call := CallFrom(c.Request().Context())
	nsid, err := syntax.ParseNSID(c.Param("nsid"))
	if err != nil {
		// No method can have this name, so there is nothing to fall back to; who
		// may not ask for methods is not told even that.
		call.route = &route{info: RouteInfo{Path: xrpcPrefix + "*", Access: Read}}
		if err := s.gate(c.Request().Context(), call, call.route); err != nil {
			return err
		}
		return InvalidRequest("the path names no method: want /xrpc/<NSID>")
	}
	call.NSID = nsid
	rt, ok := s.methods[nsid]
	if !ok || s.divert != nil && s.divert(call) {
		return s.serve(c, s.fallback)
	}
	return s.serve(c, rt)
}

// serve takes a routed request through the gates to its handler.
func (s *Server) serve(c echo.Context, rt *route) error {
	ctx := c.Request().Context()
	call := CallFrom(ctx)
	call.route = rt
	if rt.info.Access == OwnGate {
		// Pages with a session of their own are nobody else's script's business.
		call.Writer.Header().Del("Access-Control-Allow-Origin")
		call.Writer.Header().Del("Access-Control-Expose-Headers")
	}
	if rt.early != nil {
		if err := rt.early(call); err != nil {
			return err
		}
	}
	if err := s.gate(ctx, call, rt); err != nil {
		return err
	}
	if rt.info.NSID != "" && !rt.answers(call.Request.Method) {
		err := Errorf(http.StatusMethodNotAllowed, "InvalidRequest", "%s is called with %s, not %s", rt.info.NSID, rt.info.Verb, strings.ToUpper(call.Request.Method))
		err.Header = map[string]string{"Allow": rt.info.Verb}
		return err
	}
	return rt.handle(ctx, call)
}

// gate asks who calls, whether the class admits them, and Admit. A credential
// that was refused counts for Admit like any other: it may be a guess.
func (s *Server) gate(ctx context.Context, call *Call, rt *route) error {
	refused := s.identify(call, rt)
	if s.cfg.Admit != nil {
		if err := s.cfg.Admit(ctx, call); err != nil {
			return err
		}
	}
	return refused
}

func methodNotImplemented(_ context.Context, call *Call) error {
	return Errorf(http.StatusNotImplemented, "MethodNotImplemented", "the method %s is not implemented here", call.NSID)
}
