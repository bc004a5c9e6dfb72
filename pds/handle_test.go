package pds_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// names is what DNS and the web say of handles.
type names struct {
	mu  sync.Mutex
	txt map[string][]string // by the name that is asked for
	web map[string]string   // body of atproto-did, by host; "" sends on without end
}

func (n *names) set(change func(n *names)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.txt, n.web = map[string][]string{}, map[string]string{}
	change(n)
}

func (n *names) LookupTXT(_ context.Context, name string) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if records, ok := n.txt[name]; ok {
		return records, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func (n *names) RoundTrip(req *http.Request) (*http.Response, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	body, ok := n.web[req.URL.Host]
	res := &http.Response{StatusCode: 200, Header: http.Header{}, Request: req}
	switch {
	case !ok || req.URL.Path != "/.well-known/atproto-did" || req.URL.Scheme != "https":
		res.StatusCode = 404
	case strings.HasPrefix(body, "https://"):
		res.StatusCode = 302
		res.Header.Set("Location", body)
		body = ""
	case body == "":
		res.StatusCode = 302
		res.Header.Set("Location", req.URL.String())
	}
	res.Body = io.NopCloser(strings.NewReader(body))
	return res, nil
}

// A handle under a domain of others is taken by whom DNS or the web names, and
// by nobody else; what is refused changes nothing.
func TestHandlesOfOtherDomains(t *testing.T) {
	world := &names{}
	eachHost(t, setting{dns: world, web: world}, func(t *testing.T, h *host) {
		a, other := h.agent(t, "scout"), h.agent(t, "other")
		const handle, record = "scout.example.com", "_atproto.scout.example.com"
		rename := func(a agent, to string) reply {
			return h.procedure(t, a.access, "com.atproto.identity.updateHandle", object{"handle": to})
		}
		known := func() string {
			return h.do(t, "GET", "/.well-known/did.json", "", nil, "Host", a.handle).ok(t).list("alsoKnownAs")[0].(string)
		}
		did, wrong := "did="+a.did, "did="+other.did
		for name, test := range map[string]struct {
			txt  []string
			web  string
			good bool
		}{
			"nothing":                         {},
			"DNS":                             {txt: []string{did}, good: true},
			"DNS among other records":         {txt: []string{"v=spf1 -all", "did=nonsense", did, did}, good: true},
			"DNS names another":               {txt: []string{wrong}},
			"DNS names two":                   {txt: []string{did, wrong}},
			"DNS names two, the web the one":  {txt: []string{wrong, did}, web: a.did},
			"DNS names another, the web us":   {txt: []string{wrong}, web: a.did},
			"the web":                         {web: a.did + "\n", good: true},
			"the web, where DNS says nothing": {txt: []string{"v=spf1 -all"}, web: a.did, good: true},
			"the web names another":           {web: other.did},
			"the web, elsewhere":              {web: "https://moved.example.com/.well-known/atproto-did", good: true},
			"the web sends round in circles":  {web: "https://" + handle + "/.well-known/atproto-did"},
			"the web is a page":               {web: "<html>"},
			"the web does not end":            {web: a.did + strings.Repeat(" ", 1<<20)},
		} {
			t.Run(name, func(t *testing.T) {
				world.set(func(n *names) {
					if test.txt != nil {
						n.txt[record] = test.txt
					}
					if test.web != "" {
						n.web[handle] = test.web
					}
					n.web["moved.example.com"] = a.did
				})
				seq := h.lastSeq(t)
				r := rename(a, "Scout.Example.com")
				if !test.good {
					require.Contains(t, r.refused(t, 400, "InvalidRequest"), handle)
					require.Equal(t, "at://"+a.handle, known(), "what failed changed nothing")
					require.Equal(t, seq, h.lastSeq(t))
					return
				}
				require.Equal(t, 200, r.Status, string(r.Body))
				require.Equal(t, "at://"+handle, known())
				require.Equal(t, seq+1, h.lastSeq(t))
				require.Equal(t, 200, rename(a, handle).Status)
				require.Equal(t, seq+2, h.lastSeq(t), "announced again though nothing changed")
				require.Equal(t, a.did, h.query(t, "", "com.atproto.identity.resolveHandle", "handle", handle).ok(t).str("did"))
				require.Equal(t, handle, h.query(t, a.access, "com.atproto.server.getSession").ok(t).str("handle"))
				require.Equal(t, 200, rename(a, a.handle).Status)
			})
		}
		world.set(func(n *names) { n.txt[record] = []string{did} })
		rename(other, handle).refused(t, 400, "InvalidRequest")
		h.procedure(t, admin(), "com.atproto.admin.updateAccountHandle", object{"did": other.did, "handle": handle}).refused(t, 400, "InvalidRequest")
		rename(a, "scout.example.local").refused(t, 400, "InvalidHandle")
		rename(a, "admin.test").refused(t, 400, "HandleNotAvailable")
		require.Equal(t, 200, h.procedure(t, admin(), "com.atproto.admin.updateAccountHandle", object{"did": a.did, "handle": "admin.test"}).Status, "the admin may overrule")
	})
}

func TestRacingChangesOfHandleLeaveOneWinner(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		racers := []agent{h.agent(t, "one-racer"), h.agent(t, "two-racer"), h.agent(t, "three-racer")}
		answers := make([]reply, len(racers))
		var wg sync.WaitGroup
		for i, a := range racers {
			wg.Go(func() {
				answers[i] = h.procedure(t, a.access, "com.atproto.identity.updateHandle", object{"handle": "prize.test"})
			})
		}
		wg.Wait()
		won := ""
		for i, r := range answers {
			if r.Status == 200 {
				require.Empty(t, won)
				won = racers[i].did
				continue
			}
			r.refused(t, 400, "InvalidRequest")
		}
		require.Equal(t, won, h.query(t, "", "com.atproto.identity.resolveHandle", "handle", "prize.test").ok(t).str("did"))
	})
}
