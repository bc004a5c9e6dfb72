package pds

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"herbarium.garden/lexicons/xrpc"
)

// Limit is so many points in a window of time. Without points it limits nothing.
type Limit struct {
	Points int64
	Window time.Duration // whole seconds
}

func (l Limit) check() error {
	if l.Points < 0 || l.Points > 0 && l.Window < time.Second {
		return fmt.Errorf("limit of %d points in %s: want points, and 1 s at least", l.Points, l.Window)
	}
	return nil
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
	now func() time.Time
	mu  sync.Mutex // guards the windows of all meters: points are taken from several at once, or from none
}

// meter counts for one limit. Each has a memory of its own, so that a flood
// against one makes no other forget.
type meter struct {
	name    string // as the views of the limits call it
	limit   Limit
	windows *simplelru.LRU[string, *window]
}

// window is fixed: it begins with the first points of its key, as at the
// reference host, and gives all of them back at its end.
type window struct {
	used int64
	ends time.Time
}

func newMeter(name string, limit Limit) (*meter, error) {
	if err := limit.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	windows, err := simplelru.NewLRU[string, *window](rememberedWindows, nil)
	return &meter{name: name, limit: limit, windows: windows}, err
}

// withPoints is the meter with another number of points, for a key that has
// its own. The windows are the same ones.
func (m *meter) withPoints(points int64) *meter {
	own := *m
	own.limit.Points = points
	return &own
}

// limits reports whether the meter limits anything.
func (m *meter) limits() bool { return m.limit.Points > 0 }

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
	limit Limit
	used  int64
	ends  time.Time // when all points are back; zero while none is used
}

// left may not go below nothing: a limit may have been lowered.
func (s standing) left() int64 { return max(0, s.limit.Points-s.used) }

// limitKey is a key as it is kept: a part of a longer one would keep the whole
// in memory.
func limitKey(key string) string { return strings.Clone(key[:min(len(key), maxLimitKey)]) }

// take takes points of a key from all meters, or from none if one has too few
// left. It answers the tightest standing, that of the refusing meter if there
// is one; ok is true, and the standing zero, when no meter limits anything.
func (l *limiter) take(meters []*meter, key string, points int64) (tightest standing, ok bool) {
	key = limitKey(key)
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	windows := make([]*window, len(meters))
	for i, m := range meters {
		if !m.limits() {
			continue
		}
		w := m.window(key, now)
		if s := (standing{m.limit, w.used, w.ends}); s.left() < points {
			return s, false
		}
		windows[i] = w
	}
	for i, w := range windows {
		if w == nil {
			continue
		}
		w.used += points
		if s := (standing{meters[i].limit, w.used, w.ends}); tightest.limit == (Limit{}) || s.left() < tightest.left() {
			tightest = s
		}
	}
	return tightest, true
}

// look answers how a key stands and takes nothing.
func (l *limiter) look(m *meter, key string) standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w, ok := m.windows.Peek(limitKey(key)); ok && l.now().Before(w.ends) && w.used > 0 {
		return standing{m.limit, w.used, w.ends}
	}
	return standing{limit: m.limit}
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
		remainingHeader: strconv.FormatInt(s.left(), 10),
		resetHeader:     strconv.FormatInt(ceilSecond(s.ends), 10),
		policyHeader:    fmt.Sprintf("%d;w=%d", s.limit.Points, int64(s.limit.Window/time.Second)),
	}
}

// ceilSecond rounds up: who waits until then must not come too early.
func ceilSecond(t time.Time) int64 { return t.Add(time.Second - 1).Unix() }

// charge takes points and tells the caller how it stands: of the limits that
// one call meets, the headers show that with the fewest points left.
func (l *limiter) charge(call *xrpc.Call, key string, points int64, meters ...*meter) error {
	if call == nil || call.Viewer.IsAdmin() {
		return nil
	}
	s, ok := l.take(meters, key, points)
	if !ok {
		return tooMany(s, points, l.now())
	}
	if s.limit == (Limit{}) {
		return nil
	}
	header := call.Writer.Header()
	if shown, err := strconv.ParseInt(header.Get(remainingHeader), 10, 64); err == nil && shown <= s.left() {
		return nil
	}
	for name, value := range s.headers() {
		header.Set(name, value)
	}
	return nil
}

func tooMany(s standing, points int64, now time.Time) *xrpc.Error {
	wait := max(1, ceilSecond(s.ends)-now.Unix())
	repair := fmt.Sprintf("try again in %d seconds", wait)
	if points > s.limit.Points {
		repair = "it never fits: send fewer writes in one call, or ask the operator for more points"
	}
	err := xrpc.Errorf(http.StatusTooManyRequests, "RateLimitExceeded",
		"Rate Limit Exceeded: this costs %d of %d points per %s, %d are left; %s", points, s.limit.Points, s.limit.Window, s.left(), repair)
	err.Header = s.headers()
	err.Header["Retry-After"] = strconv.FormatInt(wait, 10)
	return err
}
