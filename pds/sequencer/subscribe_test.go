package sequencer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/events"
	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/sequencer"
)

// serve serves the sequencer's subscriptions over HTTP.
func serve(t testing.TB, s *sequencer.Sequencer) string {
	t.Helper()
	return serveUnder(t, context.Background(), s)
}

// serveUnder does so with requests whose contexts come from base.
func serveUnder(t testing.TB, base context.Context, s *sequencer.Sequencer) string { //nolint:revive // t comes first
	t.Helper()
	ts := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var cursor *int64
		if given := r.URL.Query().Get("cursor"); given != "" {
			n, err := strconv.ParseInt(given, 10, 64)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			cursor = &n
		}
		if err := s.Serve(w, r, cursor, nil); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	ts.Config.BaseContext = func(net.Listener) context.Context { return base }
	ts.Start()
	t.Cleanup(ts.Close)
	t.Cleanup(func() { _ = s.Close() })
	return "ws" + strings.TrimPrefix(ts.URL, "http")
}

// dial subscribes; query is "" or "?cursor=N".
func dial(t testing.TB, url, query string) *websocket.Conn {
	t.Helper()
	conn, res, err := websocket.Dial(t.Context(), url+query, nil)
	require.NoError(t, err)
	if res.Body != nil {
		_ = res.Body.Close()
	}
	conn.SetReadLimit(8 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

// receive reads one frame.
func receive(t testing.TB, conn *websocket.Conn) *events.XRPCStreamEvent {
	t.Helper()
	e, err := read(t.Context(), conn)
	require.NoError(t, err)
	return e
}

func read(ctx context.Context, conn *websocket.Conn) (*events.XRPCStreamEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	kind, frame, err := conn.Read(ctx)
	if err != nil {
		return nil, err
	}
	if kind != websocket.MessageBinary {
		return nil, errors.New("not a binary message")
	}
	e := new(events.XRPCStreamEvent)
	return e, e.Deserialize(bytes.NewReader(frame))
}

// subscribed waits until n connections are open.
func subscribed(t testing.TB, s *sequencer.Sequencer, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(s.Subscribers()) == n }, 5*time.Second, time.Millisecond)
}

func TestCursors(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		old := time.Now().Add(-100 * time.Hour)
		s := start(t, db)
		url := serve(t, s)

		atZero := dial(t, url, "?cursor=0") // nothing stored: no error
		subscribed(t, s, 1)
		past := start(t, db, func(c *sequencer.Config) { c.Now = func() time.Time { return old } })
		s.Published(commit(t, db, past, repeat(scout, 3)...))
		publish(t, db, s, repeat(scout, 2)...)
		for seq := range int64(5) {
			require.Equal(t, seq+1, receive(t, atZero).Sequence())
		}

		require.Equal(t, int64(3), receive(t, dial(t, url, "?cursor=2")).Sequence(), "exclusive")
		require.Equal(t, int64(1), receive(t, dial(t, url, "?cursor=-5")).Sequence())

		future := dial(t, url, "?cursor=6")
		require.Equal(t, "FutureCursor", receive(t, future).Error.Error)
		_, err := read(t.Context(), future)
		require.Equal(t, websocket.StatusPolicyViolation, websocket.CloseStatus(err))

		_, err = s.Prune(t.Context())
		require.NoError(t, err)
		s = start(t, db) // without the old events in memory
		url = serve(t, s)
		outdated := dial(t, url, "?cursor=1")
		require.Equal(t, "OutdatedCursor", receive(t, outdated).RepoInfo.Name)
		require.Equal(t, int64(4), receive(t, outdated).Sequence(), "then from where the window starts")
		require.Equal(t, int64(4), receive(t, dial(t, url, "?cursor=3")).Sequence(), "just in the window: no notice")

		live, atEnd := dial(t, url, ""), dial(t, url, "?cursor=5")
		subscribed(t, s, 4)
		publish(t, db, s, identity(scout))
		require.Equal(t, int64(6), receive(t, live).Sequence(), "live only")
		require.Equal(t, int64(6), receive(t, atEnd).Sequence())
	})
}

// Holes from erasure are no outdated cursor.
func TestErasedBeginningIsNotOutdated(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		s := start(t, db)
		publish(t, db, s, identity(scout), identity(scout), identity(ranger))
		erase(t, db, s, scout)
		for name, s := range map[string]*sequencer.Sequencer{"memory": s, "store": start(t, db)} {
			t.Run(name, func(t *testing.T) {
				require.Equal(t, int64(3), receive(t, dial(t, serve(t, s), "?cursor=0")).Sequence())
			})
		}
	})
}

// The change from past to present neither loses nor doubles an event, on many
// connections that start anywhere while events keep coming.
func TestCutover(t *testing.T) {
	const (
		connections = 50
		before      = 300
		during      = 700
	)
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		first := start(t, db)
		publish(t, db, first, repeat(scout, before)...)
		s := start(t, db) // the past is only in the database
		run(t, s)
		url := serve(t, s)
		var wg sync.WaitGroup
		errs := make(chan error, connections)
		for i := range connections {
			wg.Go(func() {
				cursor := int64(i * before / connections)
				conn := dial(t, url, fmt.Sprintf("?cursor=%d", cursor))
				for cursor < before+during {
					e, err := read(t.Context(), conn)
					if err != nil {
						errs <- fmt.Errorf("connection %d after %d: %w", i, cursor, err)
						return
					}
					if e.Sequence() != cursor+1 {
						errs <- fmt.Errorf("connection %d: %d after %d", i, e.Sequence(), cursor)
						return
					}
					cursor++
				}
			})
		}
		for range during / 2 {
			publish(t, db, s, repeat(ranger, 2)...)
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			t.Error(err)
		}
	})
}

// On Postgres, and after a crash between commit and Published, events come by
// polling.
func TestEventsOfAnotherProcessArrive(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		here := start(t, db, func(c *sequencer.Config) { c.PollEvery = 5 * time.Millisecond })
		there := start(t, db)
		run(t, here)
		conn := dial(t, serve(t, here), "")
		subscribed(t, here, 1)
		for seq := int64(1); seq <= 6; seq += 2 {
			publish(t, db, there, identity(scout))
			publish(t, db, here, identity(ranger))
			require.Equal(t, seq, receive(t, conn).Sequence())
			require.Equal(t, seq+1, receive(t, conn).Sequence())
		}
	})
}

func TestCloseSaysGoingAway(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		s := start(t, db)
		base, shutDown := context.WithCancel(t.Context())
		url := serveUnder(t, base, s)
		conns := []*websocket.Conn{dial(t, url, ""), dial(t, url, "?cursor=0")}
		subscribed(t, s, 2)
		shutDown() // the requests' contexts end first: that must not cut the connections
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		for _, conn := range conns {
			_, err := read(t.Context(), conn)
			require.Equal(t, websocket.StatusGoingAway, websocket.CloseStatus(err), "%v", err)
		}
		require.NoError(t, <-closed)
		require.Empty(t, s.Subscribers())
		_, res, err := websocket.Dial(t.Context(), url, nil)
		require.Error(t, err)
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		require.Equal(t, int64(1), publish(t, db, s, identity(scout)), "appending goes on")
	})
}

func TestTooManySubscribers(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		s := start(t, db, func(c *sequencer.Config) { c.MaxSubscribers = 1 })
		url := serve(t, s)
		conn := dial(t, url, "")
		_, res, err := websocket.Dial(t.Context(), url, nil)
		require.Error(t, err)
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		require.NoError(t, conn.CloseNow())
		subscribed(t, s, 0)
		dial(t, url, "")
	})
}

// big is a commit of about a megabyte.
func big() sequencer.Draft {
	return sequencer.CommitDraft{DID: scout, Rev: "3kabcdefghij2", Commit: commitCID, Blocks: make([]byte, 1_000_000)}
}

// A client that takes nothing is cut off at the write deadline and holds nobody
// up meanwhile.
func TestClientThatDoesNotRead(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		s := start(t, db, func(c *sequencer.Config) { c.WriteTimeout = 2 * time.Second })
		url := serve(t, s)
		dial(t, url, "?cursor=0") // and never reads
		good := dial(t, url, "?cursor=0")
		subscribed(t, s, 2)
		const many = 24 // megabytes: more than the socket buffers take
		for range many {
			publish(t, db, s, big())
		}
		for seq := range int64(many) {
			require.Equal(t, seq+1, receive(t, good).Sequence())
		}
		subscribed(t, s, 1)
		require.Eventually(t, func() bool { return s.Subscribers()[0].Lag == 0 }, 5*time.Second, time.Millisecond)
	})
}

// A reader whose next events were pruned is told so; it must not skip them.
func TestReaderOvertakenByRetention(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		now := time.Now()
		var mu sync.Mutex
		s := start(t, db, func(c *sequencer.Config) {
			c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
		})
		url := serve(t, s)
		slow := dial(t, url, "?cursor=0")
		subscribed(t, s, 1)
		const many = 60 // megabytes: more than ring and socket buffers hold together
		for range many {
			publish(t, db, s, big())
		}
		require.Positive(t, s.Subscribers()[0].Lag)
		mu.Lock()
		now = now.Add(100 * time.Hour)
		mu.Unlock()
		_, err := s.Prune(t.Context())
		require.NoError(t, err)
		publish(t, db, s, identity(scout))

		cursor := int64(0)
		for {
			e := receive(t, slow)
			if e.Error != nil {
				require.Equal(t, "ConsumerTooSlow", e.Error.Error)
				break
			}
			require.Equal(t, cursor+1, e.Sequence(), "no event is skipped in silence")
			cursor++
		}
		require.Less(t, cursor, int64(many))
		_, err = read(t.Context(), slow)
		require.Equal(t, websocket.StatusPolicyViolation, websocket.CloseStatus(err))
	})
}

// A silent connection is pinged; a peer that is gone without a word is found out.
func TestPing(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		s := start(t, db, func(c *sequencer.Config) {
			c.PingEvery, c.WriteTimeout = 10*time.Millisecond, time.Second
		})
		url := serve(t, s)
		alive := dial(t, url, "")
		alive.CloseRead(t.Context()) // answers pings
		subscribed(t, s, 1)
		dial(t, url, "") // reads nothing, so it answers none
		subscribed(t, s, 2)
		subscribed(t, s, 1)
		require.NoError(t, alive.Ping(t.Context()))
	})
}

// What a client says is ignored, within bounds.
func TestClientThatSpeaks(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		s := start(t, db)
		conn := dial(t, serve(t, s), "")
		require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte("hello")))
		subscribed(t, s, 1)
		publish(t, db, s, identity(scout))
		require.Equal(t, int64(1), receive(t, conn).Sequence())
		require.NoError(t, conn.Write(t.Context(), websocket.MessageText, make([]byte, 4096)))
		_, err := read(t.Context(), conn)
		require.Equal(t, websocket.StatusMessageTooBig, websocket.CloseStatus(err))
		subscribed(t, s, 0)
	})
}

func BenchmarkCatchUp(b *testing.B) {
	db := dbtest.Open(b, migrations.PDS, migrations.SQLite)
	s := start(b, db)
	draft := sequencer.CommitDraft{DID: scout, Rev: "3kabcdefghij2", Commit: commitCID, Blocks: make([]byte, 3000)}
	const stored = 20_000
	for range stored / 100 {
		drafts := make([]sequencer.Draft, 100)
		for i := range drafts {
			drafts[i] = draft
		}
		publish(b, db, s, drafts...)
	}
	url := serve(b, start(b, db)) // from the database
	b.ResetTimer()
	for range b.N {
		conn := dial(b, url, "?cursor=0")
		for range stored {
			_, _, err := conn.Read(b.Context())
			require.NoError(b, err)
		}
		_ = conn.CloseNow()
	}
	b.ReportMetric(float64(stored*b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkAppend(b *testing.B) {
	db := dbtest.Open(b, migrations.PDS, migrations.SQLite)
	s := start(b, db)
	draft := sequencer.CommitDraft{DID: scout, Rev: "3kabcdefghij2", Commit: commitCID, Blocks: make([]byte, 3000)}
	drafts := make([]sequencer.Draft, 64)
	for i := range drafts {
		drafts[i] = draft
	}
	b.ResetTimer()
	for range b.N {
		publish(b, db, s, drafts...)
	}
	b.ReportMetric(float64(64*b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkLive is one append, with its commit, until every subscriber has it.
func BenchmarkLive(b *testing.B) {
	for _, subscribers := range []int{1, 100} {
		b.Run(fmt.Sprintf("subscribers=%d", subscribers), func(b *testing.B) {
			db := dbtest.Open(b, migrations.PDS, migrations.SQLite)
			s := start(b, db)
			url := serve(b, s)
			conns := make([]*websocket.Conn, subscribers)
			for i := range conns {
				conns[i] = dial(b, url, "")
			}
			subscribed(b, s, subscribers)
			draft := sequencer.CommitDraft{DID: scout, Rev: "3kabcdefghij2", Commit: commitCID, Blocks: make([]byte, 3000)}
			b.ResetTimer()
			for range b.N {
				publish(b, db, s, draft)
				for _, conn := range conns {
					_, _, err := conn.Read(b.Context())
					require.NoError(b, err)
				}
			}
		})
	}
}

// A subscription ends when its reader may no longer read.
func TestSubscriptionEndsWithItsCredential(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		s, err := sequencer.New(t.Context(), sequencer.Config{DB: db, ReadmitEvery: 5 * time.Millisecond})
		require.NoError(t, err)
		var may atomic.Bool
		may.Store(true)
		asked := make(chan struct{}, 1)
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = s.Serve(w, r, nil, func(context.Context) bool {
				select {
				case asked <- struct{}{}:
				default:
				}
				return may.Load()
			})
		}))
		t.Cleanup(ts.Close)
		t.Cleanup(func() { _ = s.Close() })
		conn := dial(t, "ws"+strings.TrimPrefix(ts.URL, "http"), "")
		<-asked
		may.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, _, err = conn.Read(ctx)
		require.Equal(t, websocket.StatusPolicyViolation, websocket.CloseStatus(err), "%v", err)
	})
}
