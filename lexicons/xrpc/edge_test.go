package xrpc_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

type noParams struct {
	Fail string `param:"fail"`
}

// exports is a site whose export method runs h.
func exports(t *testing.T, adjust func(*xrpc.Config), h func(ctx context.Context, call *xrpc.Call, p noParams) error) *site {
	t.Helper()
	s := newSite(t, adjust)
	require.NoError(t, xrpc.Stream(s.Server, export, xrpc.Open, h))
	return s
}

const exportPath = "/xrpc/" + export

func TestErrorsAreAnsweredAndInternalOnesHidden(t *testing.T) {
	errGone := errors.New("row 17 is gone")
	s := exports(t, nil, func(_ context.Context, _ *xrpc.Call, p noParams) error {
		switch p.Fail {
		case "answer":
			return &xrpc.Error{Status: 429, Name: "RateLimitExceeded", Message: "slow down <please>", Header: map[string]string{"ratelimit-reset": "9"}}
		case "refused":
			return &lexicons.Refused{Findings: []lexicons.Finding{{Code: "ImmutableRecord", Severity: lexicons.Violation, Message: "observations stay", Repair: "head at://x bafy", Refusal: "ImmutableRecord"}}}
		case "translated":
			return errGone
		case "panic":
			panic("secret of the house")
		default:
			return errors.New("secret of the database")
		}
	})
	s.Translate(func(err error) *xrpc.Error {
		if errors.Is(err, errGone) {
			return xrpc.Errorf(400, "RecordNotFound", "no such record")
		}
		return nil
	})
	s.start(t)

	a := s.get(t, exportPath+"?fail=answer")
	require.Equal(t, 429, a.status)
	require.Equal(t, `{"error":"RateLimitExceeded","message":"slow down <please>"}`, a.body)
	require.Equal(t, "9", a.header.Get("ratelimit-reset"))
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), `"error":"RateLimitExceeded"`) }, time.Second, time.Millisecond)

	a = s.get(t, exportPath+"?fail=refused")
	require.Equal(t, 400, a.status)
	require.Equal(t, `{"error":"ImmutableRecord","message":"ImmutableRecord: observations stay; head at://x bafy",`+
		`"findings":[{"code":"ImmutableRecord","severity":"violation","path":"","message":"observations stay","repair":"head at://x bafy"}]}`, a.body)

	a = s.get(t, exportPath+"?fail=translated")
	require.Equal(t, "RecordNotFound", a.error(t))

	for _, fault := range []string{"panic", "other"} {
		a = s.get(t, exportPath+"?fail="+fault)
		require.Equal(t, 500, a.status)
		require.Equal(t, "InternalServerError", a.error(t))
		require.NotContains(t, a.body, "secret")
		id := a.header.Get("X-Request-Id")
		require.Len(t, id, 16)
		require.Eventually(t, func() bool { return strings.Contains(s.log.String(), id) }, time.Second, time.Millisecond, "the log comes after the answer")
		var lines int
		for line := range strings.Lines(s.log.String()) {
			if strings.Contains(line, id) {
				lines++
				require.Contains(t, line, "secret of the")
				require.Contains(t, line, `"level":"ERROR"`)
			}
		}
		require.Equal(t, 1, lines, "logged once")
	}
	require.NotContains(t, s.log.String(), "fail=", "query strings stay out of the log")
}

func TestAClientThatLeavesIsNoFault(t *testing.T) {
	entered := make(chan struct{})
	s := exports(t, nil, func(ctx context.Context, _ *xrpc.Call, _ noParams) error {
		close(entered)
		<-ctx.Done()
		return errors.New("interrupted")
	}).start(t)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+exportPath, nil)
	require.NoError(t, err)
	go func() { <-entered; cancel() }()
	_, err = http.DefaultClient.Do(req) //nolint:bodyclose // there is no answer
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), `"status":499`) }, 5*time.Second, time.Millisecond)
	require.NotContains(t, s.log.String(), `"level":"ERROR"`)
}

// Half a CAR must not look like a whole one.
func TestAnErrorAfterTheFirstByteBreaksTheConnectionOff(t *testing.T) {
	s := exports(t, nil, func(_ context.Context, call *xrpc.Call, _ noParams) error {
		_, _ = io.WriteString(call.Writer, "half")
		_ = http.NewResponseController(call.Writer).Flush()
		return errors.New("the disk is gone")
	}).start(t)
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+exportPath, nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	_, err = io.ReadAll(res.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "the disk is gone") }, time.Second, time.Millisecond)
}

func TestMethodsThatAreNotThere(t *testing.T) {
	s := newSite(t, nil)
	require.NoError(t, xrpc.Query(s.Server, listThings, xrpc.Open, noThings))
	require.NoError(t, s.Route("GET", "/robots.txt", xrpc.Open, func(_ context.Context, call *xrpc.Call) error {
		_, err := io.WriteString(call.Writer, "User-agent: *\n")
		return err
	}))
	s.start(t)
	for name, c := range map[string]struct {
		verb, path, credential string
		status                 int
		name                   string
	}{
		"unknown, nobody":      {"GET", "/xrpc/garden.test.nothing", "", 401, "AuthMissing"},
		"unknown, member":      {"GET", "/xrpc/garden.test.nothing", "Bearer account", 501, "MethodNotImplemented"},
		"no method, nobody":    {"GET", "/xrpc/nothing", "", 401, "AuthMissing"},
		"no method, member":    {"GET", "/xrpc/nothing", "Bearer account", 400, "InvalidRequest"},
		"wrong verb":           {"POST", "/xrpc/" + listThings, "", 405, "InvalidRequest"},
		"unknown path":         {"GET", "/nothing", "", 404, "NotFound"},
		"wrong verb, plain":    {"POST", "/robots.txt", "", 405, "InvalidRequest"},
		"subpath of a method":  {"GET", "/xrpc/" + listThings + "/x", "Bearer account", 400, "InvalidRequest"},
		"escaped slash inside": {"GET", "/xrpc/a%2Fb", "Bearer account", 400, "InvalidRequest"},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.do(t, c.verb, c.path, "", "Authorization", c.credential)
			require.Equal(t, c.status, a.status, a.body)
			require.Equal(t, c.name, a.error(t))
		})
	}
	a := s.do(t, "POST", "/xrpc/"+listThings, "")
	require.Equal(t, "GET", a.header.Get("Allow"))
	a = s.do(t, "HEAD", "/xrpc/"+listThings+"?repo=a.test", "")
	require.Equal(t, 200, a.status)
	require.Empty(t, a.body)
	require.Equal(t, 200, s.do(t, "HEAD", "/robots.txt", "").status)
}

func TestFallbackGetsUnknownMethods(t *testing.T) {
	s := newSite(t, nil)
	require.NoError(t, s.Fallback(xrpc.AccessToken, func(_ context.Context, call *xrpc.Call) error {
		_, err := io.WriteString(call.Writer, string(call.NSID)+" for "+call.Viewer.DID.String())
		return err
	}))
	s.start(t)
	require.Equal(t, 401, s.get(t, "/xrpc/app.bsky.feed.getTimeline").status)
	a := s.post(t, "/xrpc/app.bsky.feed.getTimeline", "{}", "Authorization", "Bearer account")
	require.Equal(t, "app.bsky.feed.getTimeline for did:web:scout.test", a.body)
}

func TestOutputKeepsTextAndEmptyLists(t *testing.T) {
	s := newSite(t, nil)
	require.NoError(t, xrpc.Query(s.Server, listThings, xrpc.Open, func(_ context.Context, _ xrpc.Viewer, p listParams) (*listOutput, error) {
		if p.Reverse {
			return nil, nil
		}
		return &listOutput{Things: []thing{{Name: "<a> & b", Inner: &thing{Name: "c"}}}}, nil
	}))
	s.start(t)
	a := s.get(t, "/xrpc/"+listThings+"?repo=a.test")
	require.Equal(t, `{"things":[{"name":"<a> & b","tags":[],"inner":{"name":"c","tags":[]}}]}`, a.body)
	require.Equal(t, "application/json; charset=utf-8", a.header.Get("Content-Type"))
	require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
	require.Equal(t, 500, s.get(t, "/xrpc/"+listThings+"?repo=a.test&reverse=true").status, "neither output nor error")
}

func TestCORS(t *testing.T) {
	s := exports(t, nil, func(context.Context, *xrpc.Call, noParams) error { return nil })
	require.NoError(t, s.Route("GET", "/console/*", xrpc.OwnGate, func(context.Context, *xrpc.Call) error { return nil }))
	s.start(t)
	a := s.do(t, "OPTIONS", "/xrpc/garden.test.anything", "", "Origin", "https://a.test",
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type")
	require.Equal(t, 204, a.status)
	require.Equal(t, "*", a.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "authorization,content-type", a.header.Get("Access-Control-Allow-Headers"))
	require.Equal(t, "86400", a.header.Get("Access-Control-Max-Age"))
	require.Contains(t, a.header.Get("Access-Control-Allow-Methods"), "POST")

	for _, path := range []string{exportPath, "/xrpc/garden.test.nothing", "/nothing"} {
		a = s.get(t, path)
		require.Equal(t, "*", a.header.Get("Access-Control-Allow-Origin"))
		for _, name := range []string{"ratelimit-reset", "atproto-repo-rev", "dpop-nonce"} {
			require.Contains(t, a.header.Get("Access-Control-Expose-Headers"), name)
		}
	}
	require.Empty(t, s.get(t, "/console/x").header.Get("Access-Control-Allow-Origin"))
}

// The client address comes from X-Forwarded-For only when the peer is trusted.
func TestClientAddress(t *testing.T) {
	for name, c := range map[string]struct {
		trusted []netip.Prefix
		want    string
	}{
		"nobody is trusted":     {nil, "127.0.0.1"},
		"another network":       {[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, "127.0.0.1"},
		"the peer":              {[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "203.0.113.9"},
		"the peer and the next": {[]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("203.0.113.9/24")}, "198.51.100.4"},
	} {
		t.Run(name, func(t *testing.T) {
			var got netip.Addr
			s := exports(t, func(cfg *xrpc.Config) { cfg.TrustedProxies = c.trusted }, func(_ context.Context, call *xrpc.Call, _ noParams) error {
				got = call.ClientIP
				return nil
			}).start(t)
			s.get(t, exportPath, "X-Forwarded-For", "198.51.100.4, 203.0.113.9", "X-Real-IP", "192.0.2.1")
			require.Equal(t, c.want, got.String())
		})
	}
}

func TestHooksSeeTheCall(t *testing.T) {
	observations := make(chan xrpc.Observation, 3)
	s := exports(t, func(c *xrpc.Config) {
		c.Observe = func(o xrpc.Observation) { o.Duration = 0; observations <- o }
		c.Admit = func(_ context.Context, call *xrpc.Call) error {
			call.Writer.Header().Set("ratelimit-remaining", "0")
			if call.Request.URL.Query().Get("fail") == "limit" {
				return xrpc.Errorf(429, "RateLimitExceeded", "later")
			}
			return nil
		}
	}, func(_ context.Context, call *xrpc.Call, _ noParams) error {
		_, err := io.WriteString(call.Writer, "1234")
		return err
	}).start(t)
	require.Equal(t, 200, s.get(t, exportPath).status)
	a := s.get(t, exportPath+"?fail=limit")
	require.Equal(t, 429, a.status)
	require.Equal(t, "0", a.header.Get("ratelimit-remaining"))
	s.do(t, "BREW", "/tea", "")
	observed := []xrpc.Observation{<-observations, <-observations, <-observations}
	require.Equal(t, []xrpc.Observation{
		{Route: export, Verb: "GET", Status: 200, Sent: 4},
		{Route: export, Verb: "GET", Status: 429, Sent: int64(len(a.body))},
		{Route: "unknown", Verb: "other", Status: 404, Sent: observed[2].Sent},
	}, observed)
}

func TestPlainGetOfASubscriptionIsToldToUpgrade(t *testing.T) {
	type params struct {
		Cursor *int64 `param:"cursor"`
	}
	s := newSite(t, nil)
	require.NoError(t, xrpc.Subscription(s.Server, subscribe, xrpc.Read, func(_ context.Context, call *xrpc.Call, p params) error {
		call.Writer.WriteHeader(http.StatusTeapot)
		return nil
	}))
	s.start(t)
	a := s.get(t, "/xrpc/"+subscribe)
	require.Equal(t, 426, a.status)
	require.Contains(t, a.body, "websocket")
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket"}
	require.Equal(t, 401, s.get(t, "/xrpc/"+subscribe, upgrade...).status)
	require.Equal(t, http.StatusTeapot, s.get(t, "/xrpc/"+subscribe, append(upgrade, "Authorization", "Bearer account")...).status)
	require.Equal(t, 400, s.get(t, "/xrpc/"+subscribe+"?cursor=x", append(upgrade, "Authorization", "Bearer account")...).status)
}

func TestFromHTTP(t *testing.T) {
	s := newSite(t, nil)
	require.NoError(t, s.Route("GET", "/files/*", xrpc.Member, xrpc.FromHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := xrpc.CallFrom(r.Context())
		_, _ = io.WriteString(w, call.Param("*")+" for "+call.Viewer.DID.String())
	}))))
	s.start(t)
	require.Equal(t, "a/b.css for did:web:scout.test", s.get(t, "/files/a/b.css", "Authorization", "Bearer account").body)
}

// A guess at a credential must not be free.
func TestAdmitIsAskedAboutWhoWasRefused(t *testing.T) {
	s := newSite(t, func(c *xrpc.Config) {
		c.Visibility = xrpc.Team
		c.Admit = func(context.Context, *xrpc.Call) error { return xrpc.Errorf(429, "RateLimitExceeded", "later") }
	}).start(t)
	for _, path := range []string{"/xrpc/org.example.unknown", "/xrpc/no-method"} {
		require.Equal(t, 429, s.get(t, path).status, path)
	}
}
