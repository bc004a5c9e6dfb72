package main_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/events"
	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

// dialFirehose opens subscribeRepos after cursor with the operator's credential.
func dialFirehose(ctx context.Context, in *instance, cursor int64) (*websocket.Conn, error) {
	address := "ws" + strings.TrimPrefix(in.url, "http") + fmt.Sprintf("/xrpc/com.atproto.sync.subscribeRepos?cursor=%d", cursor)
	credential := base64.StdEncoding.EncodeToString([]byte("admin:" + adminPassword))
	conn, _, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Basic " + credential}}})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(8 << 20)
	return conn, nil
}

// readFrame reads one frame and decodes it with indigo.
func readFrame(ctx context.Context, conn *websocket.Conn) (event *events.XRPCStreamEvent, frame []byte, err error) {
	if _, frame, err = conn.Read(ctx); err != nil {
		return nil, nil, err
	}
	event = &events.XRPCStreamEvent{}
	return event, frame, event.Deserialize(bytes.NewReader(frame))
}

// subscribe opens subscribeRepos after cursor and answers a function that
// reads the next event. The connection ends with the test.
func subscribe(t *testing.T, in *instance, cursor int64) func(ctx context.Context) (*events.XRPCStreamEvent, error) {
	t.Helper()
	conn, err := dialFirehose(t.Context(), in, cursor)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return func(ctx context.Context) (*events.XRPCStreamEvent, error) {
		event, _, err := readFrame(ctx, conn)
		return event, err
	}
}

// commits reads the stream after cursor up to and including the commit that
// done accepts, and checks that seqs rise. It answers the commits and the last seq.
func commits(t *testing.T, in *instance, cursor int64, done func(*comatproto.SyncSubscribeRepos_Commit) bool) ([]*comatproto.SyncSubscribeRepos_Commit, int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := subscribe(t, in, cursor)
	var all []*comatproto.SyncSubscribeRepos_Commit
	last := cursor
	for {
		event, err := next(ctx)
		require.NoError(t, err, "after %d commits", len(all))
		seq, ok := event.GetSequence()
		require.True(t, ok, "an event without seq: %+v", event)
		require.Greater(t, seq, last)
		last = seq
		if event.RepoCommit == nil {
			continue
		}
		all = append(all, event.RepoCommit)
		if done(event.RepoCommit) {
			return all, last
		}
	}
}

// follow reads until the stream breaks off, and answers each commit by its seq.
func follow(ctx context.Context, next func(context.Context) (*events.XRPCStreamEvent, error)) map[int64]string {
	seen := map[int64]string{}
	for {
		event, err := next(ctx)
		if err != nil {
			return seen
		}
		if c := event.RepoCommit; c != nil {
			seen[c.Seq] = c.Repo + " " + c.Rev
		}
	}
}
