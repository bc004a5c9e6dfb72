package xrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons/xrpc"
)

// The methods of the lexicons in testdata.
const (
	listThings = "garden.test.listThings"
	putThing   = "garden.test.putThing"
	ping       = "garden.test.ping"
	stop       = "garden.test.stop"
	export     = "garden.test.export"
	upload     = "garden.test.upload"
	subscribe  = "garden.test.subscribe"
)

type listParams struct {
	Repo       syntax.AtIdentifier `param:"repo"`
	Collection syntax.NSID         `param:"collection"`
	CID        syntax.CID          `param:"cid"`
	Limit      int                 `param:"limit"`
	Depth      *int64              `param:"depth"`
	Reverse    bool                `param:"reverse"`
	Order      string              `param:"order"`
	Tags       []string            `param:"tags"`
	Since      syntax.Datetime     `param:"since"`
	Cursor     string              `param:"cursor"`
}

type thing struct {
	Name  string     `json:"name"`
	Owner syntax.DID `json:"owner,omitempty"`
	Tags  []string   `json:"tags"`
	Inner *thing     `json:"inner,omitempty"`
}

type listOutput struct {
	Cursor string  `json:"cursor,omitempty"`
	Things []thing `json:"things"`
}

type putInput struct {
	Repo       syntax.AtIdentifier       `json:"repo"`
	Record     json.RawMessage           `json:"record"`
	Validate   *bool                     `json:"validate"`
	Copies     int                       `json:"copies"`
	SwapRecord xrpc.Nullable[syntax.CID] `json:"swapRecord"`
	Subject    json.RawMessage           `json:"subject"`
	Writes     []struct {
		Name string `json:"name"`
	} `json:"writes"`
}

type putOutput struct {
	URI string     `json:"uri"`
	CID syntax.CID `json:"cid,omitempty"`
}

func catalog(t testing.TB) xrpc.Catalog {
	t.Helper()
	c := lexicon.NewBaseCatalog()
	require.NoError(t, c.LoadDirectory("testdata/lexicons"))
	return c
}

// credentials maps Authorization headers to viewers; any other one is expired.
type credentials map[string]xrpc.Viewer

func (c credentials) Authenticate(r *http.Request, _ syntax.NSID) (xrpc.Viewer, error) {
	shown := r.Header.Get("Authorization")
	if shown == "" {
		return xrpc.Viewer{Kind: xrpc.Anonymous}, nil
	}
	v, ok := c[shown]
	if !ok {
		return xrpc.Viewer{}, xrpc.Errorf(400, "ExpiredToken", "the token has expired")
	}
	return v, nil
}

var people = credentials{
	"Bearer account":  {Kind: xrpc.Account, DID: "did:web:scout.test", Member: true, Active: true},
	"Bearer refresh":  {Kind: xrpc.Refresh, DID: "did:web:scout.test", Member: true},
	"Bearer service":  {Kind: xrpc.Service, DID: "did:web:team.test", Member: true},
	"Bearer stranger": {Kind: xrpc.Service, DID: "did:web:stranger.test"},
	"Bearer token":    {Kind: xrpc.Token, Member: true},
	"Basic admin":     {Kind: xrpc.Admin, Member: true},
}

// site is a server under test, spoken to over real HTTP.
type site struct {
	*xrpc.Server
	url string
	log *syncBuffer
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newSite(t *testing.T, adjust func(*xrpc.Config)) *site {
	t.Helper()
	log := &syncBuffer{}
	cfg := xrpc.Config{
		Catalog:       catalog(t),
		Authenticator: people,
		Visibility:    xrpc.Team,
		Log:           slog.New(slog.NewJSONHandler(log, nil)),
	}
	if adjust != nil {
		adjust(&cfg)
	}
	s, err := xrpc.New(cfg)
	require.NoError(t, err)
	return &site{Server: s, log: log}
}

// start begins to serve; registration is over.
func (s *site) start(t *testing.T) *site {
	t.Helper()
	ts := httptest.NewServer(s)
	t.Cleanup(ts.Close)
	s.url = ts.URL
	return s
}

type answer struct {
	status int
	header http.Header
	body   string
}

// error is the error name of the answer.
func (a answer) error(t *testing.T) string {
	t.Helper()
	var body struct{ Error, Message string }
	require.NoError(t, json.Unmarshal([]byte(a.body), &body), a.body)
	require.NotEmpty(t, body.Message)
	return body.Error
}

func (s *site) do(t *testing.T, verb, path, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), verb, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return answer{res.StatusCode, res.Header, string(raw)}
}

func (s *site) get(t *testing.T, path string, header ...string) answer {
	t.Helper()
	return s.do(t, http.MethodGet, path, "", header...)
}

func (s *site) post(t *testing.T, path, body string, header ...string) answer {
	t.Helper()
	return s.do(t, http.MethodPost, path, body, append([]string{"Content-Type", "application/json"}, header...)...)
}

func noThings(context.Context, xrpc.Viewer, listParams) (*listOutput, error) {
	return &listOutput{}, nil
}

func TestNewChecksItsConfig(t *testing.T) {
	good := xrpc.Config{Catalog: catalog(t), Authenticator: people, Visibility: xrpc.Team}
	_, err := xrpc.New(good)
	require.NoError(t, err)
	for name, spoil := range map[string]func(*xrpc.Config){
		"no catalog":       func(c *xrpc.Config) { c.Catalog = nil },
		"no authenticator": func(c *xrpc.Config) { c.Authenticator = nil },
		"no visibility":    func(c *xrpc.Config) { c.Visibility = "" },
		"negative limit":   func(c *xrpc.Config) { c.MaxBody = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			bad := good
			spoil(&bad)
			_, err := xrpc.New(bad)
			require.Error(t, err)
		})
	}
}

func TestRegistrationRefusesWhatDoesNotFitTheLexicon(t *testing.T) {
	type params = listParams
	type output = listOutput
	query := func(s *site) error { return xrpc.Query(s.Server, listThings, xrpc.Read, noThings) }
	for name, c := range map[string]struct {
		register func(s *site) error
		says     string
	}{
		"unclassified": {func(s *site) error {
			return xrpc.Query(s.Server, listThings, xrpc.Unclassified, noThings)
		}, "not classified"},
		"plain route unclassified": {func(s *site) error {
			return s.Route("GET", "/", 0, func(context.Context, *xrpc.Call) error { return nil })
		}, "not classified"},
		"unknown method": {func(s *site) error {
			return xrpc.Query(s.Server, "garden.test.nothing", xrpc.Read, noThings)
		}, "not found"},
		"twice": {func(s *site) error {
			if err := query(s); err != nil {
				return err
			}
			return query(s)
		}, "already registered"},
		"query as procedure": {func(s *site) error {
			return xrpc.Procedure(s.Server, listThings, xrpc.Read, func(context.Context, xrpc.Viewer, xrpc.None) (*output, error) { return nil, nil })
		}, "no procedure"},
		"parameter missing": {func(s *site) error {
			type few struct {
				Repo string `param:"repo"`
			}
			return xrpc.Query(s.Server, listThings, xrpc.Read, func(context.Context, xrpc.Viewer, few) (*output, error) { return nil, nil })
		}, "no field for the lexicon's parameter"},
		"parameter unknown": {func(s *site) error {
			type more struct {
				params
				Colour string `param:"colour"`
			}
			return xrpc.Query(s.Server, listThings, xrpc.Read, func(context.Context, xrpc.Viewer, more) (*output, error) { return nil, nil })
		}, `no parameter "colour"`},
		"wrong syntax type": {func(s *site) error {
			type wrong struct {
				Repo syntax.DID `param:"repo"`
			}
			return xrpc.Query(s.Server, listThings, xrpc.Read, func(context.Context, xrpc.Viewer, wrong) (*output, error) { return nil, nil })
		}, `"at-identifier"`},
		"optional integer that cannot be absent": {func(s *site) error {
			type wrong struct {
				Depth int `param:"depth"`
			}
			return xrpc.Query(s.Server, listThings, xrpc.Read, func(context.Context, xrpc.Viewer, wrong) (*output, error) { return nil, nil })
		}, "want *int"},
		"output field unknown": {func(s *site) error {
			type wrong struct {
				Things []thing `json:"things"`
				Total  int     `json:"total"`
			}
			return xrpc.Query(s.Server, listThings, xrpc.Read, func(context.Context, xrpc.Viewer, params) (*wrong, error) { return nil, nil })
		}, "no such field"},
		"required output left out when empty": {func(s *site) error {
			type wrong struct {
				Things []thing `json:"things,omitempty"`
			}
			return xrpc.Query(s.Server, listThings, xrpc.Read, func(context.Context, xrpc.Viewer, params) (*wrong, error) { return nil, nil })
		}, "left out when empty"},
		"mistake in a nested view": {func(s *site) error {
			type wrong struct {
				Things []struct {
					Name string `json:"name"`
				} `json:"things"`
			}
			return xrpc.Query(s.Server, listThings, xrpc.Read, func(context.Context, xrpc.Viewer, params) (*wrong, error) { return nil, nil })
		}, "things[].tags"},
		"input field missing": {func(s *site) error {
			type few struct {
				Repo   string          `json:"repo"`
				Record json.RawMessage `json:"record"`
			}
			return xrpc.Procedure(s.Server, putThing, xrpc.AccessToken, func(context.Context, xrpc.Viewer, few) (*putOutput, error) { return nil, nil })
		}, "Ignores"},
		"ignoring what is not there": {func(s *site) error {
			return xrpc.Query(s.Server, listThings, xrpc.Read, noThings, xrpc.Ignores("colour"))
		}, `ignores "colour"`},
		"upload without a limit": {func(s *site) error {
			return xrpc.Upload(s.Server, upload, xrpc.AccessToken, func(context.Context, *xrpc.Call, io.Reader) (*struct {
				Size int64 `json:"size"`
			}, error) {
				return nil, nil
			})
		}, "MaxBody"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, c.register(newSite(t, nil)), c.says)
		})
	}
}

func TestRoutesListsEveryRouteWithItsClass(t *testing.T) {
	s := newSite(t, nil)
	require.NoError(t, xrpc.Query(s.Server, listThings, xrpc.Read, noThings))
	require.NoError(t, s.Route("GET", "/robots.txt", xrpc.Open, func(context.Context, *xrpc.Call) error { return nil }))
	require.Equal(t, []xrpc.RouteInfo{
		{Verb: "GET", Path: "/robots.txt", Access: xrpc.Open},
		{Path: "/xrpc/*", Access: xrpc.Read},
		{NSID: listThings, Verb: "GET", Path: "/xrpc/garden.test.listThings", Access: xrpc.Read},
	}, s.Routes())
}

// Who is admitted to which class, in which visibility.
func TestAccess(t *testing.T) {
	classes := map[string]xrpc.Access{
		"open": xrpc.Open, "read": xrpc.Read, "member": xrpc.Member, "access": xrpc.AccessToken,
		"refresh": xrpc.RefreshToken, "admin": xrpc.AdminOnly, "own": xrpc.OwnGate,
	}
	shown := []string{"", "Bearer account", "Bearer refresh", "Bearer service", "Bearer stranger", "Bearer token", "Basic admin", "Bearer expired"}
	const ok = "ok"
	want := map[xrpc.Visibility]map[string][]string{
		xrpc.Team: {
			"open":    {ok, ok, ok, ok, ok, ok, ok, ok},
			"read":    {"AuthMissing", ok, "InvalidToken", ok, "Forbidden", ok, ok, "ExpiredToken"},
			"member":  {"AuthMissing", ok, "InvalidToken", ok, "Forbidden", ok, ok, "ExpiredToken"},
			"access":  {"AuthMissing", ok, "InvalidToken", "InvalidToken", "InvalidToken", "InvalidToken", "InvalidToken", "ExpiredToken"},
			"refresh": {"AuthMissing", "InvalidToken", ok, "InvalidToken", "InvalidToken", "InvalidToken", "InvalidToken", "ExpiredToken"},
			"admin":   {"AuthMissing", "Forbidden", "InvalidToken", "Forbidden", "Forbidden", "Forbidden", ok, "ExpiredToken"},
			"own":     {ok, ok, ok, ok, ok, ok, ok, ok},
		},
		xrpc.Public: {
			"open":    {ok, ok, ok, ok, ok, ok, ok, ok},
			"read":    {ok, ok, "InvalidToken", ok, ok, ok, ok, "ExpiredToken"},
			"member":  {"AuthMissing", ok, "InvalidToken", ok, "Forbidden", ok, ok, "ExpiredToken"},
			"access":  {"AuthMissing", ok, "InvalidToken", "InvalidToken", "InvalidToken", "InvalidToken", "InvalidToken", "ExpiredToken"},
			"refresh": {"AuthMissing", "InvalidToken", ok, "InvalidToken", "InvalidToken", "InvalidToken", "InvalidToken", "ExpiredToken"},
			"admin":   {"AuthMissing", "Forbidden", "InvalidToken", "Forbidden", "Forbidden", "Forbidden", ok, "ExpiredToken"},
			"own":     {ok, ok, ok, ok, ok, ok, ok, ok},
		},
	}
	for visibility, table := range want {
		s := newSite(t, func(c *xrpc.Config) { c.Visibility = visibility })
		for name, access := range classes {
			require.NoError(t, s.Route("GET", "/"+name, access, func(_ context.Context, call *xrpc.Call) error {
				_, err := io.WriteString(call.Writer, `{"error":"ok","message":"-"}`)
				return err
			}))
		}
		s.start(t)
		for class, expected := range table {
			for i, credential := range shown {
				t.Run(string(visibility)+"/"+class+"/"+credential, func(t *testing.T) {
					a := s.get(t, "/"+class, "Authorization", credential)
					require.Equal(t, expected[i], a.error(t))
					if expected[i] == "AuthMissing" {
						require.Equal(t, 401, a.status)
						require.NotEmpty(t, a.header.Get("WWW-Authenticate"))
					}
					if expected[i] == "Forbidden" {
						require.Equal(t, 403, a.status)
					}
					if class != "open" && class != "own" {
						require.Equal(t, "private", a.header.Get("Cache-Control"))
						require.Contains(t, a.header.Values("Vary"), "Authorization")
					}
				})
			}
		}
	}
}

func TestOpenMethodLooksAtCredentialsOnlyWhenAsked(t *testing.T) {
	s := newSite(t, nil)
	var seen xrpc.Call
	note := func(_ context.Context, call *xrpc.Call, _ struct {
		Fail string `param:"fail"`
	}) error {
		seen = *call
		return nil
	}
	require.NoError(t, xrpc.Stream(s.Server, export, xrpc.Open, note, xrpc.ReadsCredential()))
	require.NoError(t, xrpc.Query(s.Server, listThings, xrpc.Open, func(ctx context.Context, v xrpc.Viewer, _ listParams) (*listOutput, error) {
		seen = *xrpc.CallFrom(ctx)
		require.Equal(t, seen.Viewer, v)
		return &listOutput{}, nil
	}))
	s.start(t)

	require.Equal(t, 200, s.get(t, "/xrpc/"+export, "Authorization", "Bearer account").status)
	require.Equal(t, syntax.DID("did:web:scout.test"), seen.Viewer.DID)
	require.Equal(t, 200, s.get(t, "/xrpc/"+export, "Authorization", "Bearer expired").status)
	require.ErrorContains(t, seen.CredentialErr, "ExpiredToken")
	require.False(t, seen.Viewer.Known())
	require.Equal(t, 200, s.get(t, "/xrpc/"+listThings+"?repo=a.test", "Authorization", "Bearer expired").status)
	require.NoError(t, seen.CredentialErr)
}
