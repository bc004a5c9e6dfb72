//go:build soak

package main_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// soakDuration is how long a soak writes, on each backend: HERBARIUM_TEST_SOAK.
func soakDuration(t *testing.T) time.Duration {
	text := os.Getenv("HERBARIUM_TEST_SOAK")
	if text == "" {
		return 2 * time.Minute
	}
	duration, err := time.ParseDuration(text)
	require.NoError(t, err)
	return duration
}

// TestSoakKill is TestKillWhile64ClientsWrite with eight kills.
func TestSoakKill(t *testing.T) {
	const kills = 8
	duration := soakDuration(t)
	eachBackend(t, func(t *testing.T, env []string) { killWhileClientsWrite(t, env, kills, duration/(kills+1)) })
}

// TestSoak lets agents write for HERBARIUM_TEST_SOAK (2 minutes by default)
// while the process is killed again and again, then holds what the host, its
// firehose and its index have against what was acknowledged.
func TestSoak(t *testing.T) {
	duration := soakDuration(t)
	eachBackend(t, func(t *testing.T, env []string) {
		in := start(t, append(env, "HERBARIUM_LOG_LEVEL=warn", "HERBARIUM_RATE_LIMITS=off")...)
		writers := make([]*soakWriter, 6)
		for i := range writers {
			writers[i] = &soakWriter{client: in.account(fmt.Sprintf("soak-%d.test", i)), acked: map[string]string{}, clock: syntax.NewTIDClock(uint(i))}
		}
		ctx, stop := context.WithTimeout(t.Context(), duration)
		defer stop()
		group, ctx := errgroup.WithContext(ctx)
		for _, w := range writers {
			group.Go(func() error { return w.write(ctx) })
		}
		kills := 0
		for pause := time.NewTicker(duration / 8); ; {
			select {
			case <-pause.C:
				in.kill()
				in.launch()
				kills++
				continue
			case <-ctx.Done():
			}
			pause.Stop()
			break
		}
		require.NoError(t, group.Wait())

		total := 0
		want := map[string]bool{}
		for _, w := range writers {
			total += len(w.acked)
			stored := exported(t, in, *w.client.AccountDID)
			for uri, c := range w.acked {
				want[uri] = true
				path := strings.TrimPrefix(uri, "at://"+w.client.AccountDID.String()+"/")
				require.Equal(t, c, stored[path].String(), uri)
			}
			require.LessOrEqual(t, len(stored)-len(w.acked), w.unsure, "only writes without an answer may be there besides")
		}
		marker := createNote(t, writers[0].client, "the end")
		seen := map[string]int{}
		all, _ := commits(t, in, 0, func(c *comatproto.SyncSubscribeRepos_Commit) bool { return contains(c, marker) })
		for _, c := range all {
			for _, op := range c.Ops {
				seen["at://"+c.Repo+"/"+op.Path]++
			}
		}
		for uri := range want {
			require.Equal(t, 1, seen[uri], uri)
		}
		// The index caught up: each chain has its newest observation as the head.
		for _, w := range writers {
			if w.newest == nil {
				continue
			}
			eventually(t, time.Minute, "the index has the newest of "+w.client.AccountDID.String(), func() error {
				var got struct {
					Observation struct {
						Chain struct{ IsHead bool } `json:"chain"`
					} `json:"observation"`
				}
				if err := in.admin().Get(t.Context(), "garden.herbarium.getObservation", map[string]any{"uri": w.newest["uri"]}, &got); err != nil {
					return err
				}
				if !got.Observation.Chain.IsHead {
					return fmt.Errorf("%s is no head", w.newest["uri"])
				}
				return nil
			})
		}
		t.Logf("%d acknowledged writes in %s, %d kills, %d writes without an answer", total, duration, kills, unsure(writers))
	})
}

// soakWriter is one agent: a chain of observations, each superseding the one before.
type soakWriter struct {
	client *atclient.APIClient
	clock  *syntax.TIDClock
	acked  map[string]string // uri -> cid
	newest map[string]string // strongRef of the chain's head, as far as it was acknowledged
	unsure int               // writes that got no answer
}

func unsure(writers []*soakWriter) int {
	n := 0
	for _, w := range writers {
		n += w.unsure
	}
	return n
}

func (w *soakWriter) write(ctx context.Context) error {
	for n := 0; ctx.Err() == nil; n++ {
		now := time.Now().UTC().Format(syntax.AtprotoDatetimeLayout)
		record := map[string]any{
			"$type": "garden.engram.agents.observation", "method": "soak", "observedAt": now, "createdAt": now,
			"source": map[string]any{"kind": "command", "value": "soak"}, "text": fmt.Sprintf("observation %d: %d", n, rand.Uint64()),
			"generator": map[string]any{"run": w.clock.Next()},
		}
		if w.newest != nil {
			record["supersedes"] = w.newest
		}
		rkey := w.clock.Next().String()
		var out struct{ URI, CID string }
		// Not the soak's context: its end must not cut a write off.
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		err := w.client.Post(call, "com.atproto.repo.createRecord", map[string]any{
			"repo": w.client.AccountDID, "collection": record["$type"], "rkey": rkey, "record": record,
		}, &out)
		cancel()
		switch {
		case err == nil:
			w.acked[out.URI] = out.CID
			w.newest = map[string]string{"uri": out.URI, "cid": out.CID}
		case refused(err) == nil || refused(err).StatusCode >= http.StatusInternalServerError:
			// No answer: it may have landed, so a new chain starts.
			w.unsure++
			w.newest = nil
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		default:
			return fmt.Errorf("write %d: %w", n, err)
		}
	}
	return nil
}

// refused is the answer of the host, nil when there was none.
func refused(err error) *atclient.APIError {
	var answer *atclient.APIError
	errors.As(err, &answer)
	return answer
}
