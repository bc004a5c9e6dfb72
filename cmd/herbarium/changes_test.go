package main_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// @atproto/xrpc-server reads the frames of subscribeChanges, @atproto/lexicon
// accepts each message.
func TestChangesAreReadByXRPCServer(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		in := start(t, append([]string{"HERBARIUM_INVITES=open"}, env...)...)
		var folders []string
		for _, folder := range []string{"garden/herbarium", "com/atproto/repo"} {
			dir, err := filepath.Abs(filepath.Join("../../lexicons", folder))
			require.NoError(t, err)
			folders = append(folders, dir)
		}
		t.Log(node(t, "changes.mjs", in.url, strings.Join(folders, ",")))
	})
}

// dialChanges opens subscribeChanges after cursor with an account's session.
func dialChanges(ctx context.Context, in *instance, token string, cursor int64) (*websocket.Conn, error) {
	query := url.Values{"cursor": {fmt.Sprint(cursor)}}
	address := "ws" + strings.TrimPrefix(in.url, "http") + "/xrpc/garden.herbarium.subscribeChanges?" + query.Encode()
	conn, _, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
	return conn, err
}

// accessToken is that of an account's session.
func accessToken(t *testing.T, client *atclient.APIClient) string {
	t.Helper()
	auth, ok := client.Auth.(*atclient.PasswordAuth)
	require.True(t, ok)
	access, _ := auth.GetTokens()
	return access
}

// change is a message of subscribeChanges.
type change struct {
	seq   int64
	kind  string
	uri   string
	frame string
}

func readChange(ctx context.Context, conn *websocket.Conn) (change, error) {
	_, frame, err := conn.Read(ctx)
	if err != nil {
		return change{}, err
	}
	// A frame of this test is a message: its header ends where the body begins, a
	// map with at least a seq, time and kind.
	for n := 1; n < len(frame); n++ {
		if _, err := atdata.UnmarshalCBOR(frame[:n]); err != nil {
			continue
		}
		body, err := atdata.UnmarshalCBOR(frame[n:])
		if err != nil {
			return change{}, err
		}
		c := change{frame: string(frame)}
		c.seq, _ = body["seq"].(int64)
		c.kind, _ = body["kind"].(string)
		c.uri, _ = body["uri"].(string)
		if c.seq == 0 {
			return c, fmt.Errorf("not a change: %v", body)
		}
		return c, nil
	}
	return change{}, errors.New("a frame without a header")
}

// readChanges reads from cursor up to and including the creation of a record.
func readChanges(ctx context.Context, in *instance, token string, cursor int64, last string) (all []change, err error) {
	conn, err := dialChanges(ctx, in, token, cursor)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.CloseNow() }()
	for {
		c, err := readChange(ctx, conn)
		if err != nil {
			return all, err
		}
		all = append(all, c)
		if c.kind == "created" && c.uri == last {
			return all, nil
		}
	}
}

// Whoever follows across crashes, going on from the last message, has heard what
// is read from the beginning afterwards: each acknowledged write once, without a
// gap and without a repeat. In the end the host says goodbye.
func TestChangesAcrossCrashes(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, env []string) {
		in := start(t, append(env, "HERBARIUM_RATE_LIMITS=off", "HERBARIUM_LOG_LEVEL=warn")...)
		const writers = 4
		clients := make([]*atclient.APIClient, writers)
		for i := range clients {
			clients[i] = in.account(fmt.Sprintf("follow-%d.test", i))
		}
		token := accessToken(t, clients[0])
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()

		following, stopFollowing := context.WithCancel(ctx)
		defer stopFollowing()
		var heard []change
		followed := make(chan error, 1)
		const end = "the-end"
		last := "at://" + clients[0].AccountDID.String() + "/com.example.note/" + end
		go func() {
			for {
				cursor := int64(0)
				if len(heard) > 0 {
					cursor = heard[len(heard)-1].seq
				}
				more, err := readChanges(following, in, token, cursor, last)
				heard = append(heard, more...)
				if err == nil || following.Err() != nil {
					followed <- err
					return
				}
				time.Sleep(20 * time.Millisecond) // it may be down
			}
		}()

		var mu sync.Mutex
		acknowledged := map[string]bool{} // guarded by mu
		count := func() int { mu.Lock(); defer mu.Unlock(); return len(acknowledged) }
		writing, stopWriting := context.WithCancel(ctx)
		group, _ := errgroup.WithContext(writing)
		for i, client := range clients {
			group.Go(func() error {
				for n := 0; writing.Err() == nil; n++ {
					var made struct{ URI string }
					err := client.Post(writing, "com.atproto.repo.createRecord", map[string]any{
						"repo": client.AccountDID, "collection": "com.example.note", "rkey": fmt.Sprintf("%d-%d", i, n), "record": map[string]any{"text": "note"},
					}, &made)
					if err == nil {
						mu.Lock()
						acknowledged[made.URI] = true
						mu.Unlock()
					}
				}
				return nil
			})
		}
		busy := func(from int) {
			eventually(t, time.Minute, "writes are acknowledged", func() error {
				if n := count() - from; n < 10*writers {
					return fmt.Errorf("%d so far", n)
				}
				return nil
			})
		}
		busy(0)
		in.kill() // while all write, and one reads
		in.launch()
		busy(count())
		stopWriting()
		require.NoError(t, group.Wait())
		require.NoError(t, clients[0].Post(ctx, "com.atproto.repo.createRecord", map[string]any{
			"repo": clients[0].AccountDID, "collection": "com.example.note", "rkey": end, "record": map[string]any{"text": "note"},
		}, nil))
		require.NoError(t, <-followed)

		all, err := readChanges(ctx, in, token, 0, last)
		require.NoError(t, err)
		require.Equal(t, all, heard)
		created := map[string]int{}
		for _, c := range all {
			if c.kind == "created" {
				created[c.uri]++
				require.Equal(t, 1, created[c.uri], c.uri)
			}
		}
		for uri := range acknowledged {
			require.Equal(t, 1, created[uri], uri)
		}

		conn, err := dialChanges(ctx, in, token, all[len(all)-1].seq)
		require.NoError(t, err)
		in.terminate()
		for err == nil { // what a writer asked for that did not wait for the answer
			_, err = readChange(ctx, conn)
		}
		require.Equal(t, websocket.StatusGoingAway, websocket.CloseStatus(err), "%v", err)
	})
}

// A stream ends with the session that opened it.
func TestFollowingEndsWithTheSession(t *testing.T) {
	t.Parallel()
	in := start(t)
	client := in.account("follower.test")
	conn, err := dialChanges(t.Context(), in, accessToken(t, client), 0)
	require.NoError(t, err)
	require.NoError(t, client.Auth.(*atclient.PasswordAuth).Logout(t.Context(), client.Client))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err == nil {
		_, err = readChange(ctx, conn)
	}
	require.Equal(t, websocket.StatusPolicyViolation, websocket.CloseStatus(err), "%v", err)
}
