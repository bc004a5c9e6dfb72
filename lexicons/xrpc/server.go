package xrpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/labstack/echo/v4"
)

// DefaultMaxBody bounds a JSON request body when Config.MaxBody is zero, in
// bytes; the reference host has the same limit for records.
const DefaultMaxBody = 1_000_000

// DefaultBodyGrace is Config.BodyGrace when that is zero.
const DefaultBodyGrace = 30 * time.Second

// Visibility says who may use the routes of class Read.
type Visibility string

// The two visibilities of a deployment (DESIGN.md section 1, "Who may read").
const (
	Team   Visibility = "team"   // members only; the default
	Public Visibility = "public" // anybody
)

// Catalog is the part of the lexicon catalog that registration and input
// checks need: the definition behind an NSID, or behind "nsid#name".
// lexicons.Catalog satisfies it, and so does indigo's lexicon.BaseCatalog.
type Catalog interface {
	Resolve(ref string) (*lexicon.Schema, error)
}

// Handler answers one request. It writes to call.Writer itself, or returns an
// error before it has written anything. The context carries the call (CallFrom).
type Handler func(ctx context.Context, call *Call) error

// Config is what a Server is made of. Catalog, Authenticator and Visibility
// are required.
type Config struct {
	Catalog       Catalog
	Authenticator Authenticator
	Visibility    Visibility

	// ServiceDID is the DID of this service, in the audience that an rpc:
	// permission names. Without it no such permission reaches a method here.
	ServiceDID syntax.DID
	// Published tells that some collections are public in visibility team: the
	// routes of class Published then admit anybody.
	Published bool
	// Log gets one line per request; slog.Default() when nil. It never sees a
	// query string, a body or a header.
	Log *slog.Logger
	// TrustedProxies are the networks whose X-Forwarded-For is believed. With
	// none, the client is the peer of the TCP connection.
	TrustedProxies []netip.Prefix
	// MaxBody bounds a JSON request body in bytes, before and after
	// decompression; DefaultMaxBody when zero.
	MaxBody int64
	// BodyGrace is how long a request body may take whatever its pace;
	// DefaultBodyGrace when zero. Beyond it a body must keep a pace of 8 KiB a second.
	BodyGrace time.Duration
	// Admit, when set, is asked after authentication, also after one that
	// failed, and before the handler: the place of rate limits. It may set
	// response headers; its error is the answer.
	Admit func(ctx context.Context, call *Call) error
	// Audit, when set, is asked before a procedure that is called with an
	// operator's credential is carried out, and before a query registered with
	// the option Audited. Its error is the answer and nothing is carried out;
	// else it answers what is told the output, or the refusal. input is the
	// handler's.
	Audit func(ctx context.Context, call *Call, input any) (settle func(output any, refusal *Error), err error)
	// Observe, when set, is told about each finished request: the place of
	// metrics. It must not block.
	Observe func(Observation)

	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Observation is one finished request, as metrics want it. Its strings come
// from registration, never from the client, so they are safe as labels.
type Observation struct {
	Route    string // the NSID, the pattern of a plain route, or "unknown"
	Verb     string // "GET", "POST", …, "other"
	Status   int    // HTTP status; 499 when the client went away first
	Duration time.Duration
	Sent     int64 // bytes of the response body
}

// Server is an http.Handler that routes /xrpc/<NSID> to registered methods and
// other paths to plain routes. Registration is not safe for use together with
// serving: register everything first.
type Server struct {
	cfg      Config
	log      *slog.Logger
	now      func() time.Time
	echo     *echo.Echo
	methods  map[syntax.NSID]*route // by NSID: the method space is flat, a map is its router
	plain    []*route
	fallback *route
	divert   func(*Call) bool // nil: never
	// translators map errors of other packages to *Error, first match wins.
	translators []func(error) *Error
}

// New checks the configuration and makes a server without methods.
func New(cfg Config) (*Server, error) {
	switch {
	case cfg.Catalog == nil:
		return nil, errors.New("xrpc: Config.Catalog is required")
	case cfg.Authenticator == nil:
		return nil, errors.New("xrpc: Config.Authenticator is required")
	case cfg.Visibility != Team && cfg.Visibility != Public:
		return nil, fmt.Errorf("xrpc: Config.Visibility is %q, want %q or %q", cfg.Visibility, Team, Public)
	case cfg.MaxBody < 0:
		return nil, fmt.Errorf("xrpc: Config.MaxBody is %d, want 0 or more", cfg.MaxBody)
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = DefaultMaxBody
	}
	if cfg.BodyGrace == 0 {
		cfg.BodyGrace = DefaultBodyGrace
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Server{
		cfg:     cfg,
		log:     cfg.Log,
		now:     cfg.Now,
		echo:    echo.New(),
		methods: make(map[syntax.NSID]*route),
	}
	s.fallback = &route{
		info:   RouteInfo{Path: xrpcPrefix + "*", Access: Read},
		handle: methodNotImplemented,
	}
	s.echo.HideBanner, s.echo.HidePort = true, true
	s.echo.IPExtractor = extractor(cfg.TrustedProxies)
	s.echo.HTTPErrorHandler = func(error, echo.Context) {} // edge has answered
	s.echo.Use(s.edge)
	s.echo.Any(xrpcPrefix+":nsid", s.dispatch)
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// Route registers a plain (not XRPC) route: an HTTP verb, a path in which
// ":name" and a final "*" are wildcards, its class and its handler.
func (s *Server) Route(verb, path string, access Access, h Handler) error {
	rt := &route{info: RouteInfo{Verb: verb, Path: path, Access: access}, handle: h}
	if err := rt.check(); err != nil {
		return fmt.Errorf("register %s %s: %w", verb, path, err)
	}
	if slices.ContainsFunc(s.plain, func(o *route) bool { return o.info.Verb == verb && o.info.Path == path }) {
		return fmt.Errorf("register %s %s: already registered", verb, path)
	}
	s.plain = append(s.plain, rt)
	serve := func(c echo.Context) error { return s.serve(c, rt) }
	s.echo.Add(verb, path, serve)
	if verb == http.MethodGet {
		s.echo.Add(http.MethodHead, path, serve)
	}
	return nil
}

// Fallback registers what answers a method that nothing else was registered
// for, such as a proxy to another service. call.NSID is valid syntax. Without
// a fallback the answer is 501 MethodNotImplemented, class Read.
func (s *Server) Fallback(access Access, h Handler, opts ...Option) error {
	rt := &route{info: RouteInfo{Path: xrpcPrefix + "*", Access: access}, handle: h}
	rt.apply(opts)
	if err := rt.check(); err != nil {
		return fmt.Errorf("register fallback: %w", err)
	}
	s.fallback = rt
	return nil
}

// Divert makes the fallback answer those calls of registered methods for which
// when reports true: a caller may want another service's answer to a method
// that is served here too. call.NSID is set; nobody was asked who calls yet.
func (s *Server) Divert(when func(call *Call) bool) { s.divert = when }

// Translate adds a mapping from another package's errors to answers: f returns
// nil for an error that it does not know. A package that registers methods
// keeps its table of sentinel errors here, so that handlers can return them as
// they are. *Error, *lexicons.Refused and a body over its limit need no mapping.
func (s *Server) Translate(f func(err error) *Error) { s.translators = append(s.translators, f) }

// RouteInfo tells about one registered route.
type RouteInfo struct {
	NSID   syntax.NSID // "" for a plain route and for the fallback
	Verb   string      // "GET" or "POST" for a method; "" for any
	Path   string      // as registered; "/xrpc/<NSID>" for a method
	Access Access
}

// Routes lists every route with its class, ordered by path, then verb: what
// the test of DESIGN.md invariant 10 goes through.
func (s *Server) Routes() []RouteInfo {
	all := []RouteInfo{s.fallback.info}
	for _, rt := range s.methods {
		all = append(all, rt.info)
	}
	for _, rt := range s.plain {
		all = append(all, rt.info)
	}
	slices.SortFunc(all, func(a, b RouteInfo) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return strings.Compare(a.Verb, b.Verb)
	})
	return all
}
