package appview_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview"
	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// cramped is a listener whose connections take few bytes that nobody reads.
type cramped struct{ net.Listener }

func (l cramped) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		err = tcp.SetWriteBuffer(4096)
	}
	return conn, err
}

// serve serves the site's subscriptions, and what makes them live, as long as the test.
func (s *site) serve() (address string) {
	t := s.t
	t.Helper()
	server := httptest.NewUnstartedServer(s.server)
	server.Listener = cramped{server.Listener}
	server.Start()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.views.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		server.Close()
	})
	return "ws" + strings.TrimPrefix(server.URL, "http") + "/xrpc/garden.herbarium.subscribeChanges"
}

// told is one message of a stream.
type told struct {
	kind  string
	body  object
	frame string
}

// stream is an open subscription.
type stream struct {
	s    *site
	conn *websocket.Conn
}

// follow subscribes; params are names and values in turn.
func (s *site) follow(address string, params ...string) *stream {
	s.t.Helper()
	before := len(s.views.Followers())
	query := url.Values{}
	for i := 0; i < len(params); i += 2 {
		query.Add(params[i], params[i+1])
	}
	narrow := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return conn, conn.(*net.TCPConn).SetReadBuffer(4096)
	}}}
	conn, res, err := websocket.Dial(s.t.Context(), address+"?"+query.Encode(), &websocket.DialOptions{HTTPClient: narrow})
	require.NoError(s.t, err)
	if res.Body != nil {
		_ = res.Body.Close()
	}
	s.t.Cleanup(func() { _ = conn.CloseNow() })
	if !slices.Contains(params, "cursor") {
		require.Eventually(s.t, func() bool { return len(s.views.Followers()) > before }, 10*time.Second, time.Millisecond)
	}
	return &stream{s, conn}
}

// next reads a message, which must fit its lexicon.
func (f *stream) next() told {
	f.s.t.Helper()
	m, err := f.read()
	require.NoError(f.s.t, err)
	return m
}

func (f *stream) read() (told, error) {
	t := f.s.t
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	kind, frame, err := f.conn.Read(ctx)
	if err != nil {
		return told{}, err
	}
	require.Equal(t, websocket.MessageBinary, kind)
	for n := 1; n < len(frame); n++ { // a header is its own prefix
		header, err := atdata.UnmarshalCBOR(frame[:n])
		if err != nil {
			continue
		}
		body, err := atdata.UnmarshalCBOR(frame[n:])
		require.NoError(t, err)
		if header["op"] == int64(-1) {
			return told{"error", body, string(frame)}, nil
		}
		require.Equal(t, int64(1), header["op"])
		name := header["t"].(string)
		def, err := f.s.catalog.Resolve("garden.herbarium.subscribeChanges" + name)
		require.NoError(t, err)
		var wrong []string
		for _, finding := range f.s.catalog.CheckValue("garden.herbarium.subscribeChanges", def.Def, body) {
			wrong = append(wrong, finding.Path+": "+finding.Message)
		}
		require.Empty(t, append(wrong, strangers(f.s.catalog, "garden.herbarium.subscribeChanges", def.Def, body, "")...), "%s %v", name, body)
		return told{name, body, string(frame)}, nil
	}
	t.Fatal("no header in the frame")
	return told{}, nil
}

// until reads up to and including the message that last accepts.
func (f *stream) until(last func(told) bool) (all []told) {
	f.s.t.Helper()
	for {
		m := f.next()
		all = append(all, m)
		if last(m) {
			return all
		}
		require.Less(f.s.t, len(all), 10_000)
	}
}

// about accepts the message that a record of this key was created.
func about(rkey string) func(told) bool {
	return func(m told) bool {
		uri, _ := m.body["uri"].(string)
		return m.body["kind"] == "created" && strings.HasSuffix(uri, "/"+rkey)
	}
}

func bodies(all []told) (frames []string) {
	for _, m := range all {
		frames = append(frames, m.frame)
	}
	return frames
}

// What is heard live is what is read later from any place, and a filter leaves
// out the rest.
func TestChangesAreFollowed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		address := s.serve()
		ada, bob := newAuthor("did:web:ada.test"), newAuthor("did:web:bob.test")
		early, _ := ada.put(t, lexicons.ObservationNSID, string(tid(1)), observation("before", nil))
		s.apply(early)
		live := s.follow(address)
		first, one := ada.put(t, lexicons.ObservationNSID, string(tid(2)), observation("the build is green", nil))
		s.apply(first)
		m := live.next()
		require.Equal(t, "#record", m.kind)
		require.Equal(t, object{
			"seq": m.body["seq"], "time": "2026-11-30T12:00:00.000Z", "kind": "created", "uri": string(one.URI), "did": "did:web:ada.test",
			"collection": string(lexicons.ObservationNSID), "cid": one.CID.String(), "rev": string(first.Rev),
		}, m.body)
		// The second change at the same moment: one microsecond more.
		require.Equal(t, noon.UnixMicro()+1, m.body["seq"])

		all := []told{m}
		said, _ := bob.put(t, lexicons.ClaimNSID, string(tid(3)), claimOf("green", object{
			"span": object{"byteStart": 0, "byteEnd": 5}, "relation": "quotes", "target": ref(one), "selector": quote("green"),
		}))
		s.apply(said)
		second, two := ada.put(t, lexicons.ObservationNSID, string(tid(4)), observation("it is red", object{"supersedes": ref(one)}))
		s.apply(second)
		require.NoError(t, s.index.RecheckCitations(t.Context(), noContent{}))
		started, _ := bob.put(t, lexicons.SessionNSID, string(tid(5)), session(object{"repo": "https://git.example/a.git"}))
		s.apply(started, &index.Account{DID: ada.did, Status: "deactivated"}, &index.Account{DID: ada.did, Active: true})
		require.NoError(t, s.index.Reindex(t.Context()))
		end, _ := bob.put(t, noteNSID, "end", object{"text": "over"})
		s.apply(end)
		all = append(all, live.until(about("end"))...)
		var kinds []string
		for _, m := range all {
			kinds = append(kinds, m.body["kind"].(string))
		}
		require.Equal(t, []string{
			"created", "created", "created", "head", "citation", "findingAdded", "created", "session", "account", "account", "reindexed", "created",
		}, kinds)
		require.Equal(t, object{"uri": string(two.URI), "cid": two.CID.String()}, all[3].body["new"])
		require.Equal(t, object{"uri": string(one.URI), "cid": one.CID.String()}, all[3].body["old"])
		require.Equal(t, "lost", all[4].body["support"])
		require.Equal(t, lexicons.CodeEvidenceGone, all[5].body["code"])
		require.Equal(t, "active", all[7].body["status"])

		from := func(cursor any, params ...string) *stream {
			return s.follow(address, append(params, "cursor", fmt.Sprint(cursor))...)
		}
		before := s.follow(address, "cursor", "0").until(about("end"))
		require.Equal(t, bodies(all), bodies(before[1:]), "what is read later is what was heard")
		for i := range all[:len(all)-1] {
			require.Equal(t, bodies(all[i+1:]), bodies(from(all[i].body["seq"]).until(about("end"))))
		}
		for name, c := range map[string]struct {
			params []string
			wants  func(object) bool
		}{
			"collection": {[]string{"collection", string(lexicons.ObservationNSID), "collection", string(noteNSID)}, func(b object) bool {
				return b["collection"] == nil || b["collection"] == string(lexicons.ObservationNSID) || b["collection"] == string(noteNSID)
			}},
			"did":  {[]string{"did", "did:web:bob.test"}, func(b object) bool { return b["did"] == nil || b["did"] == "did:web:bob.test" }},
			"kind": {[]string{"kind", "created", "kind", "head"}, func(b object) bool { return b["kind"] == "created" || b["kind"] == "head" }},
			"all three": {[]string{"kind", "created", "did", "did:web:bob.test", "collection", string(noteNSID)}, func(b object) bool {
				return b["kind"] == "created" && b["collection"] == string(noteNSID)
			}},
		} {
			var want []told
			for _, m := range before {
				if c.wants(m.body) {
					want = append(want, m)
				}
			}
			require.Equal(t, bodies(want), bodies(from(0, c.params...).until(about("end"))), name)
		}
	})
}

// Where a stream may start, and what it says there.
func TestCursorsOfChanges(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db, noteNSID)
		address := s.serve()
		bob := newAuthor("did:web:bob.test")
		write := func(rkey string) {
			c, _ := bob.put(t, noteNSID, rkey, object{"text": rkey})
			s.apply(c)
		}
		write("one")
		write("two")
		future := s.follow(address, "cursor", fmt.Sprint(noon.UnixMicro()+2))
		m := future.next()
		require.Equal(t, "error", m.kind)
		require.Equal(t, "FutureCursor", m.body["error"])
		_, err := future.read()
		require.Equal(t, websocket.StatusPolicyViolation, websocket.CloseStatus(err))
		// To nobody the future begins now, whenever something happened last.
		s.now, s.viewer = noon.Add(time.Hour), xrpc.Viewer{Kind: xrpc.Anonymous}
		require.Equal(t, "FutureCursor", s.follow(address, "cursor", fmt.Sprint(s.now.UnixMicro()+1)).next().body["error"])
		patient := s.follow(address, "cursor", fmt.Sprint(s.now.UnixMicro()-1))
		s.viewer = xrpc.Viewer{Kind: xrpc.Account, Member: true, Active: true}
		write("three")
		require.True(t, about("three")(patient.next()))

		removed, err := s.index.PruneChanges(t.Context(), 30*time.Minute)
		require.NoError(t, err)
		require.EqualValues(t, 2, removed)
		outdated := s.follow(address, "cursor", fmt.Sprint(noon.UnixMicro()))
		m = outdated.next()
		require.Equal(t, "#info", m.kind)
		require.Equal(t, "OutdatedCursor", m.body["name"])
		require.True(t, about("three")(outdated.next()))
		require.True(t, about("three")(s.follow(address, "cursor", fmt.Sprint(noon.UnixMicro()+1)).next()), "just in the window: no notice")

		for name, wrong := range map[string][]string{
			"a kind": {"kind", "created", "kind", "exploded"}, "a DID": {"did", "bob.test"}, "a collection": {"collection", "note"}, "a cursor": {"cursor", "last"},
		} {
			query := url.Values{}
			for i := 0; i < len(wrong); i += 2 {
				query.Add(wrong[i], wrong[i+1])
			}
			_, res, err := websocket.Dial(t.Context(), address+"?"+query.Encode(), nil)
			require.Error(t, err, name)
			require.Equal(t, http.StatusBadRequest, res.StatusCode, name)
		}
	})
}

// A reader that takes nothing is cut off, and nobody waits for it.
func TestSlowFollowerIsCutOff(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := followedSite(t, db, appview.Follow{WriteTimeout: time.Second})
		address := s.serve()
		slow, fast := s.follow(address), s.follow(address)
		bob := newAuthor("did:web:bob.test")
		const many = 1000 // more than the socket buffers take
		var ops []index.Operation
		for n := range many {
			c, _ := bob.put(t, noteNSID, fmt.Sprintf("note-%d", n), object{"text": "note"})
			ops = append(ops, c.Ops...)
		}
		last := bob.commit(t, ops[0])
		last.Ops = ops
		s.apply(last)
		for n := range many {
			require.True(t, about(fmt.Sprintf("note-%d", n))(fast.next()), n)
		}
		require.Eventually(t, func() bool { return len(s.views.Followers()) == 1 }, 20*time.Second, time.Millisecond)
		for n := 0; ; n++ {
			m, err := slow.read()
			if err != nil || m.kind == "error" && m.body["error"] == "ConsumerTooSlow" {
				require.Less(t, n, many)
				break
			}
			require.True(t, about(fmt.Sprintf("note-%d", n))(m), "nothing is left out in silence")
		}
	})
}

// There are as many as there may be, and strangers take no place of a member.
func TestPlacesOfFollowers(t *testing.T) {
	t.Parallel()
	s := followedSite(t, dbtest.Open(t, migrations.Appview, migrations.SQLite), appview.Follow{MaxSubscribers: 1}, noteNSID)
	address, member := s.serve(), s.viewer
	for _, viewer := range []xrpc.Viewer{{Kind: xrpc.Anonymous}, member} {
		s.viewer = viewer
		s.follow(address)
		_, res, err := websocket.Dial(t.Context(), address, nil)
		require.Error(t, err)
		require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	}
}

// Who may read is asked again, and whoever may not any more hears no more.
func TestFollowingEndsWithTheCredential(t *testing.T) {
	t.Parallel()
	var member atomic.Bool
	member.Store(true)
	asked := make(chan xrpc.Viewer, 1)
	s := followedSite(t, dbtest.Open(t, migrations.Appview, migrations.SQLite), appview.Follow{
		ReadmitEvery: 5 * time.Millisecond,
		StillMember: func(_ context.Context, _ *http.Request, v xrpc.Viewer) bool {
			select {
			case asked <- v:
			default:
			}
			return member.Load()
		},
	}, noteNSID)
	address := s.serve()
	f := s.follow(address)
	require.True(t, (<-asked).Member)
	s.viewer = xrpc.Viewer{Kind: xrpc.Anonymous}
	stranger := s.follow(address)
	member.Store(false)
	_, err := f.read()
	require.Equal(t, websocket.StatusPolicyViolation, websocket.CloseStatus(err), "%v", err)
	bob := newAuthor("did:web:bob.test")
	c, _ := bob.put(t, noteNSID, "public", object{"text": "public"})
	s.apply(c)
	require.True(t, about("public")(stranger.next()), "what anybody may hear needs no credential")
}

// What another process applied is heard too, and a host that ends says goodbye.
func TestChangesOfAnotherProcessArrive(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		here, there := newSite(t, db), newSite(t, db)
		f := here.follow(here.serve())
		bob := newAuthor("did:web:bob.test")
		var keys []string
		for n := range 6 {
			keys = append(keys, fmt.Sprint("note-", n))
			c, _ := bob.put(t, noteNSID, keys[n], object{"text": "note"})
			[]*site{here, there}[n%2].apply(c)
		}
		for _, key := range keys {
			require.True(t, about(key)(f.next()))
		}
	})
}

func TestFollowersAreToldGoodbye(t *testing.T) {
	t.Parallel()
	s := newSite(t, dbtest.Open(t, migrations.Appview, migrations.SQLite))
	server := httptest.NewServer(s.server)
	t.Cleanup(server.Close)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.views.Run(ctx) }()
	f := s.follow("ws" + strings.TrimPrefix(server.URL, "http") + "/xrpc/garden.herbarium.subscribeChanges")
	stop()
	_, err := f.read()
	require.Equal(t, websocket.StatusGoingAway, websocket.CloseStatus(err), "%v", err)
	require.NoError(t, <-done)
}

// heard is all that a viewer is told of, but for when.
func heard(t *testing.T, s *site, v index.Viewer) (all []string) {
	t.Helper()
	for cursor := int64(0); ; {
		page, err := s.index.Changes(t.Context(), cursor, 500)
		require.NoError(t, err)
		if len(page) == 0 {
			return all
		}
		for i := range page {
			c := &page[i]
			cursor = c.Seq
			told, err := s.index.Tells(t.Context(), v, c)
			require.NoError(t, err)
			if told {
				all = append(all, fmt.Sprint(c.Kind, c.URI, c.CID, c.Rev, c.At, c.Old, c.New, c.Code, c.Severity, c.Support, c.Status, c.Version, c.HandOver, c.Active))
			}
		}
	}
}

// BenchmarkFollow is one commit that is applied until every follower has heard of it.
func BenchmarkFollow(b *testing.B) {
	for _, followers := range []int{1, 100} {
		b.Run(fmt.Sprintf("followers=%d", followers), func(b *testing.B) {
			s := newSite(b, dbtest.Open(b, migrations.Appview, migrations.SQLite))
			address, bob := s.serve(), newAuthor("did:web:bob.test")
			var all []*stream
			for range followers {
				all = append(all, s.follow(address))
			}
			for n := 0; b.Loop(); n++ {
				c, _ := bob.put(b, noteNSID, fmt.Sprint(n), object{"text": "note"})
				s.apply(c)
				for _, f := range all {
					_, _, err := f.conn.Read(b.Context())
					require.NoError(b, err)
				}
			}
		})
	}
}
