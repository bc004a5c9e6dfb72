package pds

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/repostore"
)

// Limit is so many points in a window of time. The zero Limit limits nothing.
type Limit struct {
	Points int64
	Window time.Duration // whole seconds
}

// Limits are how much may be asked of this process. The zero value limits
// nothing; the admin is never limited.
type Limits struct {
	Requests Limit   // a point for each call of a method, by client address
	SignIns  Limit   // a point for each attempt, good or bad, by account and client address
	Writes   []Limit // writePoints, by account; all of them hold
}

// tolerance is how many times the reference host's points are given here: its
// limits are made for people, and agents write more than those.
const tolerance = 10

// DefaultLimits are the reference host's limits, with tolerance.
func DefaultLimits() Limits {
	return Limits{
		Requests: Limit{tolerance * 3000, 5 * time.Minute},
		SignIns:  Limit{tolerance * 30, 5 * time.Minute},
		Writes:   []Limit{{tolerance * 5000, time.Hour}, {tolerance * 35_000, 24 * time.Hour}},
	}
}

// writePoints is what one write costs, as at the reference host, whatever the
// repo makes of it. A write that is refused before it reaches the repo costs
// nothing.
func writePoints(action lexicons.Action) int64 {
	switch action {
	case lexicons.Update, repostore.Put:
		return 2
	case lexicons.Delete, repostore.Remove:
		return 1
	default:
		return 3
	}
}

// rememberedWindows is how many keys each limit counts for at once; past it,
// who was quiet longest starts anew. About 200 bytes each.
const rememberedWindows = 1 << 16

// maxLimitKey bounds a key that a client chooses, in bytes: what is longer is
// cut, and shares its points with its like.
const maxLimitKey = 256

// limiter counts points in the memory of this process: with several replicas
// each counts what it serves itself.
type limiter struct {
	now      func() time.Time
	requests []*meter
	signIns  []*meter
	writes   []*meter

	mu sync.Mutex // guards the windows of all meters: points are taken from several at once, or from none
}

// meter counts for one limit. Each has a memory of its own, so that a flood
// against one makes no other forget.
type meter struct {
	limit   Limit
	windows *simplelru.LRU[string, *window]
}

// window is fixed: it begins with the first points of its key, as at the
// reference host, and gives all of them back at its end.
type window struct {
	used int64
	ends time.Time
}

func newLimiter(limits Limits, now func() time.Time) (*limiter, error) {
	l := &limiter{now: now}
	for _, kind := range []struct {
		to     *[]*meter
		limits []Limit
	}{
		{&l.requests, []Limit{limits.Requests}}, {&l.signIns, []Limit{limits.SignIns}}, {&l.writes, limits.Writes},
	} {
		for _, limit := range kind.limits {
			if limit == (Limit{}) {
				continue
			}
			if limit.Points < 1 || limit.Window < time.Second {
				return nil, fmt.Errorf("limit of %d points in %s: want 1 point and 1 s at least", limit.Points, limit.Window)
			}
			windows, err := simplelru.NewLRU[string, *window](rememberedWindows, nil)
			if err != nil {
				return nil, err
			}
			*kind.to = append(*kind.to, &meter{limit: limit, windows: windows})
		}
	}
	return l, nil
}

func (m *meter) window(key string, now time.Time) *window {
	if w, ok := m.windows.Get(key); ok && now.Before(w.ends) {
		return w
	}
	w := &window{ends: now.Add(m.limit.Window)}
	m.windows.Add(key, w)
	return w
}

// standing is how a key stands against one limit.
type standing struct {
	limit     Limit
	remaining int64
	ends      time.Time
}

// take takes points of a key from all meters, or from none if one has too few
// left. It answers the tightest standing, that of the refusing meter if there
// is one.
func (l *limiter) take(meters []*meter, key string, points int64) (tightest standing, ok bool) {
	key = strings.Clone(key[:min(len(key), maxLimitKey)]) // a part would keep the whole in memory
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	windows := make([]*window, len(meters))
	for i, m := range meters {
		w := m.window(key, now)
		if left := m.limit.Points - w.used; left < points {
			return standing{m.limit, left, w.ends}, false
		}
		windows[i] = w
	}
	for i, m := range meters {
		windows[i].used += points
		if left := m.limit.Points - windows[i].used; i == 0 || left < tightest.remaining {
			tightest = standing{m.limit, left, windows[i].ends}
		}
	}
	return tightest, true
}

// The headers of a limited answer, on success as on refusal.
const (
	limitHeader     = "Ratelimit-Limit"     // points of the window
	remainingHeader = "Ratelimit-Remaining" // points left
	resetHeader     = "Ratelimit-Reset"     // when all are back, in seconds since 1970
	policyHeader    = "Ratelimit-Policy"    // points;w=seconds
)

func (s standing) headers() map[string]string {
	return map[string]string{
		limitHeader:     strconv.FormatInt(s.limit.Points, 10),
		remainingHeader: strconv.FormatInt(s.remaining, 10),
		resetHeader:     strconv.FormatInt(ceilSecond(s.ends), 10),
		policyHeader:    fmt.Sprintf("%d;w=%d", s.limit.Points, int64(s.limit.Window/time.Second)),
	}
}

// ceilSecond rounds up: who waits until then must not come too early.
func ceilSecond(t time.Time) int64 { return t.Add(time.Second - 1).Unix() }

// charge takes points and tells the caller how it stands: of the limits that
// one call meets, the headers show that with the fewest points left.
func (l *limiter) charge(call *xrpc.Call, meters []*meter, key string, points int64) error {
	if len(meters) == 0 || call == nil || call.Viewer.IsAdmin() {
		return nil
	}
	s, ok := l.take(meters, key, points)
	if !ok {
		return tooMany(s, points, l.now())
	}
	header := call.Writer.Header()
	if shown, err := strconv.ParseInt(header.Get(remainingHeader), 10, 64); err == nil && shown <= s.remaining {
		return nil
	}
	for name, value := range s.headers() {
		header.Set(name, value)
	}
	return nil
}

func tooMany(s standing, points int64, now time.Time) *xrpc.Error {
	wait := max(1, ceilSecond(s.ends)-now.Unix())
	err := xrpc.Errorf(http.StatusTooManyRequests, "RateLimitExceeded",
		"Rate Limit Exceeded: this costs %d of %d points per %s, %d are left; try again in %d seconds", points, s.limit.Points, s.limit.Window, s.remaining, wait)
	err.Header = s.headers()
	err.Header["Retry-After"] = strconv.FormatInt(wait, 10)
	return err
}

// Admit is the hook of the XRPC server that limits the calls of a client
// address. Plain routes (health, DID documents) are not limited.
func (p *PDS) Admit(_ context.Context, call *xrpc.Call) error {
	path := call.Request.URL.Path
	if !strings.HasPrefix(path, "/xrpc/") || path == healthPath {
		return nil
	}
	return p.limiter.charge(call, p.limiter.requests, addressKey(call.ClientIP), 1)
}

// addressKey is whom an address counts for. Whoever has one IPv6 address has
// the other 2^64 of its network too.
func addressKey(ip netip.Addr) string {
	if ip.Is6() {
		if network, err := ip.Prefix(64); err == nil {
			return network.String()
		}
	}
	return ip.String()
}

// chargeSignIn counts an attempt to sign in to what the client calls the
// account. With the address in the key nobody can lock an account out from
// elsewhere. A handle, a DID and an e-mail address of one account count apart:
// if they did not, the points left would tell which belong together.
func (p *PDS) chargeSignIn(ctx context.Context, identifier string) error {
	call := xrpc.CallFrom(ctx)
	if call == nil {
		return nil
	}
	name := strings.ToLower(strings.TrimPrefix(strings.TrimSpace(identifier), "@"))
	return p.limiter.charge(call, p.limiter.signIns, addressKey(call.ClientIP)+" "+name, 1)
}

// chargeWrites counts writes of the calling account, just before they are
// applied.
func (p *PDS) chargeWrites(ctx context.Context, writes ...repostore.Write) error {
	call := xrpc.CallFrom(ctx)
	if call == nil {
		return nil
	}
	var points int64
	for _, w := range writes {
		points += writePoints(w.Action)
	}
	return p.limiter.charge(call, p.limiter.writes, string(call.Viewer.DID), points)
}
