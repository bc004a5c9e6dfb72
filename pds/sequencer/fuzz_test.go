package sequencer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/sequencer"
)

// FuzzSubscribe is a client that sends any query and, once it is let in, any
// bytes: the host answers in HTTP or websocket frames, begins where the cursor
// says, and lets go of the connection.
func FuzzSubscribe(f *testing.F) {
	const pruned, last = 2, 5
	db := dbtest.Open(f, migrations.PDS, migrations.SQLite)
	longAgo := start(f, db, func(c *sequencer.Config) {
		c.Now = func() time.Time { return time.Now().Add(-1000 * time.Hour) }
	})
	publish(f, db, longAgo, repeat(scout, pruned)...)
	s := start(f, db)
	removed, err := s.Prune(f.Context())
	require.NoError(f, err)
	require.EqualValues(f, pruned, removed)
	publish(f, db, s, repeat(scout, last-pruned)...)

	panicked := make(chan any, 1)
	server := subscriptions(f, s)
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				panicked <- p
			}
		}()
		server.ServeHTTP(w, r)
	}))
	f.Cleanup(ts.Close)
	address := ts.Listener.Addr().String()

	goodbye := []byte{0x88, 0x80, 0, 0, 0, 0} // a close frame of a client
	for _, query := range []string{"", "cursor=0", "cursor=2", "cursor=4", "cursor=5", "cursor=6", "cursor=-1", "cursor=9223372036854775807", "cursor=9223372036854775808", "cursor=x", "cursor=1&cursor=2", "cursor=%zz", "cursor=", "%00"} {
		f.Add(query, goodbye)
	}
	f.Add("cursor=2", []byte{0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}) // a text of 2^64-1 bytes
	f.Add("cursor=2", []byte{0x89, 0x81, 1, 2, 3, 4, 5, 0xf1, 0x00, 0x7f})
	f.Fuzz(func(t *testing.T, query string, said []byte) {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
		_, err = fmt.Fprintf(conn, "GET /xrpc/com.atproto.sync.subscribeRepos?%s HTTP/1.1\r\nHost: x.test\r\nConnection: Upgrade\r\n"+
			"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n%s", line(query), append(said, goodbye...))
		require.NoError(t, err)
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		if resp.StatusCode != http.StatusSwitchingProtocols {
			require.Equal(t, http.StatusBadRequest, resp.StatusCode, query)
			return
		}
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		if opcode, err := in.ReadByte(); err == nil { // not when what was said broke it off
			require.Contains(t, []byte{0x82, 0x88, 0x8a}, opcode, "an event, a goodbye or a pong")
		}
		_, err = io.Copy(io.Discard, in) // until the host lets go
		require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "the connection is held")
		select {
		case p := <-panicked:
			t.Fatalf("panic: %v", p)
		default:
		}
	})
}

// nobody has no credential.
type nobody struct{}

func (nobody) Authenticate(*http.Request, syntax.NSID) (xrpc.Viewer, error) {
	return xrpc.Viewer{}, nil
}

// line keeps a query in the request line: what would end it is escaped.
func line(query string) string {
	for i := 0; i < len(query); i++ {
		if query[i] <= ' ' || query[i] >= 0x7f {
			return url.PathEscape(query)
		}
	}
	return query
}

// subscriptions is the route as the host registers it, open to all.
func subscriptions(f *testing.F, s *sequencer.Sequencer) *xrpc.Server {
	f.Helper()
	catalog, err := lexicons.Load()
	require.NoError(f, err)
	server, err := xrpc.New(xrpc.Config{Catalog: catalog, Authenticator: nobody{}, Visibility: xrpc.Public, Log: slog.New(slog.DiscardHandler)})
	require.NoError(f, err)
	type params struct {
		Cursor *int64 `param:"cursor"`
	}
	require.NoError(f, xrpc.Subscription(server, "com.atproto.sync.subscribeRepos", xrpc.Open,
		func(_ context.Context, call *xrpc.Call, in params) error {
			return s.Serve(call.Writer, call.Request, in.Cursor, nil)
		}))
	return server
}
