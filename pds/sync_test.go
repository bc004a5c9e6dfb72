package pds_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	indigorepo "github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/events"
	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

// keyOf is the #atproto key that an account's DID document shows.
func (h *host) keyOf(t *testing.T, a agent) atcrypto.PublicKey {
	t.Helper()
	document := h.do(t, "GET", "/.well-known/did.json", "", nil, "Host", a.handle).ok(t)
	for _, m := range document.list("verificationMethod") {
		method := object(m.(map[string]any))
		if strings.HasSuffix(method.str("id"), "#atproto") {
			key, err := atcrypto.ParsePublicMultibase(method.str("publicKeyMultibase"))
			require.NoError(t, err)
			return key
		}
	}
	t.Fatal("the document has no #atproto key")
	return nil
}

func TestExportedRepoVerifies(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		want := map[string]string{}
		for range 20 {
			out := h.create(t, a, observation, observed("seen")).ok(t)
			want[observation+"/"+rkeyOf(out)] = out.str("cid")
		}
		car := h.query(t, a.access, "com.atproto.sync.getRepo", "did", a.did)
		require.Equal(t, "application/vnd.ipld.car", car.Header.Get("Content-Type"))
		require.Equal(t, want, recordsOfCAR(t, car.Body))
		commit, root, err := indigorepo.LoadCommitFromCAR(t.Context(), bytes.NewReader(car.Body))
		require.NoError(t, err)
		require.NoError(t, commit.VerifySignature(h.keyOf(t, a)))
		latest := h.query(t, a.access, "com.atproto.sync.getLatestCommit", "did", a.did).ok(t)
		require.Equal(t, root.String(), latest.str("cid"))
		require.Equal(t, commit.Rev, latest.str("rev"), "the rev told is the rev signed")

		before := latest.str("rev")
		h.create(t, a, observation, observed("one more")).ok(t)
		newer := h.query(t, a.access, "com.atproto.sync.getRepo", "did", a.did, "since", before)
		require.Less(t, len(newer.Body), len(car.Body))
		_, _, err = indigorepo.LoadCommitFromCAR(t.Context(), bytes.NewReader(newer.Body))
		require.NoError(t, err)
		h.query(t, a.access, "com.atproto.sync.getRepo", "did", "did:web:nobody.test").refused(t, 400, "RepoNotFound")
	})
}

func TestRecordProofs(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		for range 10 {
			h.create(t, a, observation, observed("seen")).ok(t)
		}
		out := h.create(t, a, observation, observed("to be proven")).ok(t)
		prove := func(rkey string) *indigorepo.Repo {
			r := h.query(t, a.access, "com.atproto.sync.getRecord", "did", a.did, "collection", observation, "rkey", rkey)
			require.Equal(t, 200, r.Status, string(r.Body))
			commit, repo, err := indigorepo.LoadRepoFromCAR(t.Context(), bytes.NewReader(r.Body))
			require.NoError(t, err)
			require.NoError(t, commit.VerifySignature(h.keyOf(t, a)))
			return repo
		}
		found, err := prove(rkeyOf(out)).MST.Get([]byte(observation + "/" + rkeyOf(out)))
		require.NoError(t, err)
		require.Equal(t, out.str("cid"), found.String())
		absent, err := prove("3zzzzzzzzzz2z").MST.Get([]byte(observation + "/3zzzzzzzzzz2z"))
		require.NoError(t, err)
		require.Nil(t, absent, "a missing record is proven to be missing")
	})
}

func TestListRepos(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		var want []string
		for _, name := range []string{"first", "second", "third"} {
			want = append(want, h.agent(t, name).did)
		}
		var got []string
		cursor := ""
		for {
			out := h.query(t, admin(), "com.atproto.sync.listRepos", "limit", "2", "cursor", cursor).ok(t)
			for _, r := range out.list("repos") {
				entry := object(r.(map[string]any))
				got = append(got, entry.str("did"))
				require.Equal(t, true, entry.at("active"))
				require.Len(t, entry.str("rev"), 13)
			}
			if cursor = out.str("cursor"); cursor == "" {
				break
			}
		}
		require.Equal(t, want, got, "in the order of creation")
	})
}

func TestSubscribeRepos(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		first := h.create(t, a, note, object{"n": 1}).ok(t)
		h.put(t, a, note, rkeyOf(first), object{"n": 2}).ok(t)
		h.delete(t, a, note, rkeyOf(first)).ok(t)
		next := h.subscribe(t, admin(), "?cursor=0")

		seen := map[string]int{}
		var last int64
		for last < h.lastSeq(t) {
			event := next()
			require.Greater(t, event.Sequence(), last)
			last = event.Sequence()
			switch {
			case event.RepoCommit != nil:
				seen["commit"]++
				commit := event.RepoCommit
				require.False(t, commit.TooBig)
				require.Equal(t, seen["commit"] > 1, commit.PrevData != nil, "all but the first commit have prevData")
				_, err := indigorepo.VerifyCommitMessage(t.Context(), commit)
				require.NoError(t, err)
			case event.RepoSync != nil:
				seen["sync"]++
			case event.RepoIdentity != nil:
				seen["identity"]++
				require.Equal(t, a.handle, *event.RepoIdentity.Handle)
			case event.RepoAccount != nil:
				seen["account"]++
				require.True(t, event.RepoAccount.Active)
			}
		}
		require.Equal(t, map[string]int{"identity": 1, "account": 1, "commit": 4, "sync": 1}, seen)

		h.create(t, a, note, object{"live": true}).ok(t)
		live := next()
		require.Equal(t, last+1, live.Sequence())
		require.NotNil(t, live.RepoCommit.PrevData)

		future := h.subscribe(t, admin(), "?cursor=99999999")()
		require.NotNil(t, future.Error)
		require.Equal(t, "FutureCursor", future.Error.Error)
	})
}

func TestSubscribeReposWithoutWebsocket(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		r := h.do(t, http.MethodGet, "/xrpc/com.atproto.sync.subscribeRepos", "", nil)
		require.Equal(t, 426, r.Status)
		require.Contains(t, strings.ToLower(r.object(t).str("message")), "websocket")
		_, resp, err := websocket.Dial(t.Context(), h.url+"/xrpc/com.atproto.sync.subscribeRepos", nil)
		require.Error(t, err)
		require.Equal(t, 401, resp.StatusCode, "in visibility team the stream needs a credential")
		require.NoError(t, resp.Body.Close())
	})
}

// subscribe opens the event stream and returns what reads the next event of it.
func (h *host) subscribe(t *testing.T, credential, query string) func() *events.XRPCStreamEvent {
	t.Helper()
	conn, resp, err := websocket.Dial(t.Context(), h.url+"/xrpc/com.atproto.sync.subscribeRepos"+query,
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {credential}}})
	require.NoError(t, err)
	if resp.Body != nil {
		_ = resp.Body.Close()
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(3 << 20)
	return func() *events.XRPCStreamEvent {
		ctx, cancel := contextFor(t, 10*time.Second)
		defer cancel()
		kind, frame, err := conn.Read(ctx)
		require.NoError(t, err)
		require.Equal(t, websocket.MessageBinary, kind)
		var event events.XRPCStreamEvent
		require.NoError(t, event.Deserialize(bytes.NewReader(frame)))
		return &event
	}
}
