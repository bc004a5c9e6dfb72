package pds_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds"
)

// relay is one that a test answers for.
type relay struct {
	url   *url.URL
	asked chan string // bodies of requests, each of which waits for its answer
	reply chan int    // statuses
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	r := &relay{asked: make(chan string), reply: make(chan int)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if req.Header.Get("Authorization") != "" || req.Header.Get("Content-Type") != "application/json" {
			body = []byte("wrong headers")
		}
		select {
		case r.asked <- req.Method + " " + req.URL.Path + " " + string(body):
		case <-req.Context().Done():
			return
		}
		status := <-r.reply
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(status)
		if status != http.StatusOK {
			_, _ = io.WriteString(w, `{"error":"HostBanned","message":"go away"}`)
		}
	}))
	t.Cleanup(server.Close)
	var err error
	r.url, err = url.Parse(server.URL)
	require.NoError(t, err)
	return r
}

// crawling is a Crawler whose pauses the test ends.
type crawling struct {
	t      *testing.T
	pauses chan pause
	log    *lockedLog
}

type pause struct {
	d   time.Duration
	end chan time.Time
}

type lockedLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (c *crawling) paused(d time.Duration) pause {
	c.t.Helper()
	select {
	case p := <-c.pauses:
		require.Equal(c.t, d, p.d)
		return p
	case <-time.After(30 * time.Second):
		c.t.Fatalf("no pause of %s", d)
		return pause{}
	}
}

func (p pause) over() { p.end <- time.Time{} }

func startCrawler(t *testing.T, h *host, relays ...*relay) *crawling {
	t.Helper()
	c := &crawling{t: t, pauses: make(chan pause), log: &lockedLog{}}
	public, err := url.Parse(h.url)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	cfg := pds.CrawlerConfig{
		PublicURL: public, Visibility: xrpc.Public, Events: h.events, DevLoopback: true,
		Log: slog.New(slog.NewTextHandler(c.log, nil)),
		After: func(d time.Duration) <-chan time.Time {
			p := pause{d, make(chan time.Time, 1)}
			select {
			case c.pauses <- p:
			case <-ctx.Done():
			}
			return p.end
		},
	}
	for _, r := range relays {
		cfg.Relays = append(cfg.Relays, r.url)
	}
	crawler, err := pds.NewCrawler(cfg)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- crawler.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the crawler ended with %v", err)
		}
	})
	return c
}

func (r *relay) takes(t *testing.T, h *host, status int) {
	t.Helper()
	select {
	case got := <-r.asked:
		require.Equal(t, `POST /xrpc/com.atproto.sync.requestCrawl {"hostname":"`+strings.TrimPrefix(h.url, "http://")+`"}`, got)
		r.reply <- status
	case <-time.After(30 * time.Second):
		t.Fatal("the relay was not asked")
	}
}

func (r *relay) idle(t *testing.T) {
	t.Helper()
	select {
	case got := <-r.asked:
		t.Fatalf("the relay was asked: %s", got)
	default:
	}
}

const crawlEvery = 20 * time.Minute

func TestRequestCrawl(t *testing.T) {
	eachHost(t, setting{visibility: xrpc.Public}, func(t *testing.T, h *host) {
		r := newRelay(t)
		c := startCrawler(t, h, r)
		r.idle(t)
		a := h.agent(t, "scout") // the first account: now there is something to crawl
		r.takes(t, h, 200)
		p := c.paused(crawlEvery)
		require.Contains(t, c.log.String(), "the relay was asked to crawl this host")
		h.create(t, a, note, object{"n": 1}).ok(t)
		h.create(t, a, note, object{"n": 2}).ok(t)
		r.idle(t) // 20 minutes at least
		p.over()
		r.takes(t, h, 200) // for what was written in between
		c.paused(crawlEvery).over()
		r.idle(t) // nothing was written
		h.create(t, a, note, object{"n": 3}).ok(t)
		r.takes(t, h, 200)

		// While somebody listens nobody needs to be asked.
		conn, resp, err := websocket.Dial(t.Context(), strings.Replace(h.url, "http", "ws", 1)+"/xrpc/com.atproto.sync.subscribeRepos", nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
		require.Eventually(t, func() bool { return len(h.events.Subscribers()) == 1 }, 10*time.Second, time.Millisecond)
		h.create(t, a, note, object{"n": 4}).ok(t)
		c.paused(crawlEvery).over()
		look := c.paused(time.Minute)
		r.idle(t)
		require.NoError(t, conn.Close(websocket.StatusNormalClosure, ""))
		require.Eventually(t, func() bool { return len(h.events.Subscribers()) == 0 }, 10*time.Second, time.Millisecond)
		look.over()
		h.create(t, a, note, object{"n": 5}).ok(t)
		r.takes(t, h, 200)
		c.paused(crawlEvery)
	})
}

func TestRequestCrawlTriesAgain(t *testing.T) {
	eachHost(t, setting{visibility: xrpc.Public}, func(t *testing.T, h *host) {
		h.agent(t, "scout")
		r := newRelay(t)
		c := startCrawler(t, h, r)
		wait := time.Minute
		for _, status := range []int{500, 403, 302, 404, 429, 500, 500, 500} { // a redirect is not followed
			r.takes(t, h, status)
			c.paused(wait).over()
			wait *= 2
		}
		require.Contains(t, c.log.String(), "error=HostBanned")
		require.Contains(t, c.log.String(), `message="go away"`)
		r.takes(t, h, 500)
		c.paused(4 * time.Hour).over()
		r.takes(t, h, 200)
		c.paused(crawlEvery)
	})
}

// A relay that hangs, or is gone, keeps none from being asked.
func TestRequestCrawlAsksEachRelay(t *testing.T) {
	eachHost(t, setting{visibility: xrpc.Public}, func(t *testing.T, h *host) {
		h.agent(t, "scout")
		hanging, good := newRelay(t), newRelay(t)
		gone := newRelay(t)
		gone.url = &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
		c := startCrawler(t, h, hanging, gone, good)
		require.Equal(t, time.Minute, (<-c.pauses).d, "the one that is gone")
		good.takes(t, h, 200)
		c.paused(crawlEvery)
		hanging.takes(t, h, 200)
		c.paused(crawlEvery)
	})
}

func TestCrawlerRefuses(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		public, err := url.Parse("https://pds.example.org")
		require.NoError(t, err)
		for name, relay := range map[string]string{
			"http": "http://relay.example.org", "loopback": "http://127.0.0.1:2470", "file": "file:///etc/passwd", "nothing": "",
		} {
			t.Run(name, func(t *testing.T) {
				u, err := url.Parse(relay)
				require.NoError(t, err)
				_, err = pds.NewCrawler(pds.CrawlerConfig{Relays: []*url.URL{u}, PublicURL: public, Visibility: xrpc.Public, Events: h.events})
				require.ErrorContains(t, err, "https")
			})
		}
		relay, err := url.Parse("https://relay.example.org")
		require.NoError(t, err)
		_, err = pds.NewCrawler(pds.CrawlerConfig{Relays: []*url.URL{relay}, PublicURL: public, Visibility: xrpc.Team, Events: h.events})
		require.ErrorContains(t, err, "team")
	})
}
