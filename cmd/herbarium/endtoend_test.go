package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// The demo, then a program that shares no code with ours checks every URI, CID
// and blob that it printed against exported CARs with verified signatures.
func TestDemoAndIndependentVerifier(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		in := start(t, env...)
		manifest := filepath.Join(t.TempDir(), "manifest.json")
		out, err := in.herbarium(t.Context(), "demo", "--url", in.url, "--manifest", manifest)
		require.NoError(t, err, out)
		for _, want := range []string{
			"ImmutableRecord", "RecordTombstoned", "AlreadySuperseded", "; head at://", // refusals with their repair
			"handed over: machine", "release-keeper inherits from observer", "TestLedger", // views
		} {
			require.Contains(t, out, want)
		}
		node(t, "verify-demo.mjs", manifest, in.url)
	})
}

// kill -9 in the middle of the demo: every acknowledged write is there after
// the restart, the index catches up, and no seq goes backwards.
func TestKillDuringDemo(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		in := start(t, env...)
		// Who follows the firehose now must not be contradicted after the crash.
		follower := make(chan map[int64]string, 1)
		next := subscribe(t, in, 0)
		go func() { follower <- follow(t.Context(), next) }()
		acked := newAckProxy(t, in.url)
		finished := make(chan string, 1)
		go func() {
			out, err := in.herbarium(t.Context(), "demo", "--url", acked.url)
			finished <- fmt.Sprintf("%v\n%s", err, out)
		}()
		// In the part in which scout only creates observations.
		eventually(t, 2*time.Minute, "the demo is under way", func() error {
			select {
			case out := <-finished:
				t.Fatalf("the demo ended early: %s", out)
			default:
			}
			if n := len(acked.records()); n < 15 {
				return fmt.Errorf("%d writes acknowledged", n)
			}
			return nil
		})
		in.kill()
		<-finished
		writes := acked.records()
		in.launch()

		byRepo := map[syntax.DID]map[string]cid.Cid{}
		for uri, want := range writes {
			at, err := syntax.ParseATURI(uri)
			require.NoError(t, err)
			did, err := at.Authority().AsDID()
			require.NoError(t, err)
			if byRepo[did] == nil {
				byRepo[did] = exported(t, in, did)
			}
			got, ok := byRepo[did][at.Path()]
			require.True(t, ok, "%s was acknowledged and is not in the exported repo", uri)
			require.Equal(t, want, got.String(), uri)
		}

		// The stream from its start has each acknowledged write, once, in rising
		// seqs; a write after the restart comes after all of them.
		after := in.account("after-the-crash.test")
		marker := createNote(t, after, "written after the crash")
		seen := map[string]int{}
		all, last := commits(t, in, 0, func(c *comatproto.SyncSubscribeRepos_Commit) bool { return contains(c, marker) })
		revs := map[int64]string{}
		for _, c := range all {
			revs[c.Seq] = c.Repo + " " + c.Rev
			for _, op := range c.Ops {
				seen["at://"+c.Repo+"/"+op.Path]++
			}
		}
		for uri := range writes {
			require.Equal(t, 1, seen[uri], uri)
		}
		before := <-follower
		require.NotEmpty(t, before)
		for seq, rev := range before {
			require.Equal(t, rev, revs[seq], "seq %d was given to another commit", seq)
			require.Less(t, seq, last)
		}

		// The index catches up with everything.
		for uri := range writes {
			eventually(t, 30*time.Second, "the index has "+uri, func() error {
				return in.admin().Get(t.Context(), "garden.herbarium.getRecord", map[string]any{"uri": uri}, nil)
			})
		}
	})
}

// Eight clients write to one repo at once: every acknowledged record is in the
// exported MST and on the firehose, once.
func TestEightWritersOfOneRepo(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		const writers, each = 8, 20
		in := start(t, env...)
		client := in.account("shared.test")
		var (
			mu    sync.Mutex
			acked = map[string]string{}
		)
		group, _ := errgroup.WithContext(t.Context())
		for w := range writers {
			group.Go(func() error {
				for n := range each {
					uri, c, err := tryNote(t.Context(), client, fmt.Sprintf("writer %d, note %d", w, n))
					if err != nil {
						return err
					}
					mu.Lock()
					acked[uri] = c
					mu.Unlock()
				}
				return nil
			})
		}
		require.NoError(t, group.Wait())
		require.Len(t, acked, writers*each)
		stored := exported(t, in, *client.AccountDID)
		require.Len(t, stored, writers*each)
		seen := map[string]int{}
		marker := createNote(t, client, "the last one")
		all, _ := commits(t, in, 0, func(c *comatproto.SyncSubscribeRepos_Commit) bool { return contains(c, marker) })
		for _, c := range all {
			for _, op := range c.Ops {
				seen["at://"+c.Repo+"/"+op.Path]++
			}
		}
		for uri, want := range acked {
			path := strings.TrimPrefix(uri, "at://"+client.AccountDID.String()+"/")
			require.Equal(t, want, stored[path].String(), uri)
			require.Equal(t, 1, seen[uri], uri)
		}
	})
}

// The npm package @atproto/api does what people use it for.
func TestAtprotoAPIClient(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		in := start(t, env...)
		t.Log(node(t, "api-client.mjs", in.url, adminPassword))
	})
}

func TestShutdownOnSIGTERM(t *testing.T) {
	in := start(t)
	next := subscribe(t, in, 0)
	require.Equal(t, 0, in.terminate())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := next(ctx)
	require.ErrorContains(t, err, "StatusGoingAway", "subscribers are told")
}

// exported is what the exported CAR of a repo holds, by path; the CAR's
// structure and signature are checked with indigo.
func exported(t *testing.T, in *instance, did syntax.DID) map[string]cid.Cid {
	t.Helper()
	req := atclient.NewAPIRequest(http.MethodGet, "com.atproto.sync.getRepo", nil)
	req.QueryParams = url.Values{"did": {did.String()}}
	resp, err := in.admin().Do(t.Context(), req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	_, loaded, err := repo.LoadRepoFromCAR(t.Context(), resp.Body)
	require.NoError(t, err)
	require.False(t, loaded.MST.IsPartial())
	require.NoError(t, loaded.MST.Verify())
	records := map[string]cid.Cid{}
	require.NoError(t, loaded.MST.WriteToMap(records))
	return records
}

func contains(c *comatproto.SyncSubscribeRepos_Commit, uri string) bool {
	for _, op := range c.Ops {
		if "at://"+c.Repo+"/"+op.Path == uri {
			return true
		}
	}
	return false
}

// tryNote creates a record of an unknown collection.
func tryNote(ctx context.Context, client *atclient.APIClient, text string) (uri, c string, err error) {
	var out struct{ URI, CID string }
	err = client.Post(ctx, "com.atproto.repo.createRecord", map[string]any{
		"repo": client.AccountDID, "collection": "com.example.note",
		"record": map[string]any{"$type": "com.example.note", "text": text},
	}, &out)
	return out.URI, out.CID, err
}

func createNote(t *testing.T, client *atclient.APIClient, text string) string {
	t.Helper()
	uri, _, err := tryNote(t.Context(), client, text)
	require.NoError(t, err)
	return uri
}

// ackProxy passes requests on to the host and remembers each record that the
// host acknowledged to have created.
type ackProxy struct {
	url   string
	mu    sync.Mutex
	acked map[string]string // uri -> cid
}

func newAckProxy(t *testing.T, target string) *ackProxy {
	t.Helper()
	to, err := url.Parse(target)
	require.NoError(t, err)
	p := &ackProxy{acked: map[string]string{}}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode != http.StatusOK || !strings.HasSuffix(resp.Request.URL.Path, "/com.atproto.repo.createRecord") {
				return nil
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				return err
			}
			resp.Body = io.NopCloser(bytes.NewReader(body))
			var out struct{ URI, CID string }
			if err := json.Unmarshal(body, &out); err != nil {
				return err
			}
			p.mu.Lock()
			p.acked[out.URI] = out.CID
			p.mu.Unlock()
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

func (p *ackProxy) records() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	copied := make(map[string]string, len(p.acked))
	for uri, c := range p.acked {
		copied[uri] = c
	}
	return copied
}
