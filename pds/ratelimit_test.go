package pds_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/pds"
)

// The reference host gives 3000 requests per address and 30 sign-ins in five
// minutes (300 a day), 5000 points of writes an hour and 35000 a day, 100 new
// accounts and 10 renamings (50 a day) in five minutes; here it is ten times
// that.
func TestDefaultLimits(t *testing.T) {
	const day = 24 * time.Hour
	got := pds.DefaultLimits()
	require.Equal(t, pds.Limit{Points: 30_000, Window: 5 * time.Minute}, got.Requests)
	require.Equal(t, []pds.Limit{{Points: 300, Window: 5 * time.Minute}, {Points: 3000, Window: day}}, got.SignIns)
	require.Equal(t, []int64{50_000, 350_000}, []int64{got.WritesPerHour, got.WritesPerDay})
	for _, want := range []pds.MethodLimit{
		{Method: "com.atproto.server.createAccount", Limit: pds.Limit{Points: 1000, Window: 5 * time.Minute}},
		{Method: "com.atproto.identity.updateHandle", Limit: pds.Limit{Points: 100, Window: 5 * time.Minute}, ByAccount: true},
		{Method: "com.atproto.identity.updateHandle", Limit: pds.Limit{Points: 500, Window: day}, ByAccount: true},
		{Method: "com.atproto.server.requestAccountDelete", Limit: pds.Limit{Points: 50, Window: time.Hour}, ByAccount: true},
	} {
		require.Contains(t, got.Methods, want)
	}
}

// standing checks the four headers of a limited answer.
func (r reply) standing(t *testing.T, limit pds.Limit, remaining int, ends time.Time) {
	t.Helper()
	got := map[string]string{}
	for _, name := range []string{"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "ratelimit-policy"} {
		got[name] = r.Header.Get(name)
	}
	require.Equal(t, map[string]string{
		"ratelimit-limit":     strconv.FormatInt(limit.Points, 10),
		"ratelimit-remaining": strconv.Itoa(remaining),
		"ratelimit-reset":     strconv.FormatInt(ends.Unix(), 10),
		"ratelimit-policy":    fmt.Sprintf("%d;w=%d", limit.Points, int(limit.Window.Seconds())),
	}, got, string(r.Body))
}

// limited checks a refusal by a limit.
func (r reply) limited(t *testing.T, limit pds.Limit, remaining int, ends, now time.Time) {
	t.Helper()
	message := r.refused(t, 429, "RateLimitExceeded")
	wait := int(ends.Sub(now).Seconds())
	require.True(t, strings.HasSuffix(message, fmt.Sprintf("; try again in %d seconds", wait)), message)
	require.Equal(t, strconv.Itoa(wait), r.Header.Get("Retry-After"))
	r.standing(t, limit, remaining, ends)
}

// from is a call of describeServer by a client at an address.
func (h *host) from(t *testing.T, address, credential string) reply {
	t.Helper()
	return h.do(t, http.MethodGet, "/xrpc/com.atproto.server.describeServer", credential, nil, "X-Forwarded-For", address)
}

// A client that tries one made-up account after the other is stopped by its
// address, and so is one that guesses the admin's password; others go on.
func TestGuessesAreLimitedByAddress(t *testing.T) {
	limits := pds.Limits{SignIns: []pds.Limit{{Points: 3, Window: time.Minute}}, SignInsFrom: pds.Limit{Points: 6, Window: time.Minute}}
	eachHost(t, setting{limits: limits}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		signIn := func(address, who, password string) reply {
			body := fmt.Sprintf(`{"identifier":%q,"password":%q}`, who, password)
			return h.do(t, http.MethodPost, "/xrpc/com.atproto.server.createSession", "", strings.NewReader(body), "X-Forwarded-For", address, "Content-Type", "application/json")
		}
		for i := range 6 {
			signIn("192.0.2.1", fmt.Sprintf("u%d.test", i), "wrong").refused(t, 401, "AuthenticationRequired")
		}
		signIn("192.0.2.1", "u7.test", "wrong").refused(t, 429, "RateLimitExceeded")
		signIn("192.0.2.2", a.handle, a.password).ok(t)

		wrong := "Basic " + base64.StdEncoding.EncodeToString([]byte("admin:wrong"))
		ask := func(address, credential string) reply {
			return h.do(t, http.MethodGet, "/xrpc/com.atproto.admin.getAccountInfo?did="+a.did, credential, nil, "X-Forwarded-For", address)
		}
		for range 3 {
			ask("192.0.2.3", admin()).ok(t)
			ask("192.0.2.3", wrong).refused(t, 401, "AuthenticationRequired")
		}
		ask("192.0.2.3", wrong).refused(t, 429, "RateLimitExceeded")
		ask("192.0.2.3", admin()).refused(t, 429, "RateLimitExceeded")
		ask("192.0.2.4", admin()).ok(t)
	})
}

func TestRequestsAreLimitedByAddress(t *testing.T) {
	limit := pds.Limit{Points: 4, Window: 5 * time.Minute}
	time0 := newClock()
	eachHost(t, setting{limits: pds.Limits{Requests: limit}, clock: time0}, func(t *testing.T, h *host) {
		began := time0.Now()
		ends := began.Add(limit.Window)
		const here = "192.0.2.1"
		for left := 3; left >= 1; left-- {
			r := h.from(t, here, "")
			r.ok(t)
			r.standing(t, limit, left, ends)
			require.Contains(t, r.Header.Get("Access-Control-Expose-Headers"), "ratelimit-remaining")
			time0.advance(time.Second)
		}
		// A credential that was refused may be a guess: it counts.
		guess := h.do(t, http.MethodGet, "/xrpc/com.atproto.server.getSession", "Basic YWRtaW46d3Jvbmc=", nil, "X-Forwarded-For", here)
		guess.refused(t, 401, "AuthenticationRequired")
		guess.standing(t, limit, 0, ends)
		h.from(t, here, "").limited(t, limit, 0, ends, time0.Now())
		h.do(t, http.MethodGet, "/xrpc/no-method", "Basic YWRtaW46d3Jvbmc=", nil, "X-Forwarded-For", here).limited(t, limit, 0, ends, time0.Now())
		h.do(t, http.MethodGet, "/xrpc/org.example.proxied", "", nil, "X-Forwarded-For", here).limited(t, limit, 0, ends, time0.Now())

		h.from(t, "192.0.2.2", "").standing(t, limit, 3, time0.Now().Add(limit.Window))
		for _, path := range []string{"/xrpc/_health", "/livez", "/.well-known/did.json"} {
			require.NotEqual(t, 429, h.do(t, http.MethodGet, path, "", nil, "X-Forwarded-For", here).Status, path)
		}
		byAdmin := h.do(t, http.MethodGet, "/xrpc/com.atproto.sync.listRepos", admin(), nil, "X-Forwarded-For", here)
		byAdmin.ok(t)
		require.Empty(t, byAdmin.Header.Get("ratelimit-limit"))

		time0.advance(ends.Add(-time.Second).Sub(time0.Now()))
		h.from(t, here, "").limited(t, limit, 0, ends, time0.Now())
		time0.advance(time.Second)
		h.from(t, here, "").standing(t, limit, 3, time0.Now().Add(limit.Window))
		time0.advance(limit.Window)
	})
}

func TestAnIPv6NetworkIsOneClient(t *testing.T) {
	limit := pds.Limit{Points: 2, Window: time.Minute}
	eachHost(t, setting{limits: pds.Limits{Requests: limit}}, func(t *testing.T, h *host) {
		h.from(t, "2001:db8:1:2::1", "").ok(t)
		h.from(t, "2001:db8:1:2:ffff::9", "").ok(t)
		h.from(t, "2001:db8:1:2::3", "").refused(t, 429, "RateLimitExceeded")
		h.from(t, "2001:db8:1:3::1", "").ok(t)
	})
}

// signIn attempts to sign in from an address.
func (h *host) signIn(t *testing.T, address, identifier, password string) reply {
	t.Helper()
	body, err := json.Marshal(object{"identifier": identifier, "password": password})
	require.NoError(t, err)
	return h.do(t, http.MethodPost, "/xrpc/com.atproto.server.createSession", "", strings.NewReader(string(body)),
		"Content-Type", "application/json", "X-Forwarded-For", address)
}

func TestSignInsAreLimitedByAccountAndAddress(t *testing.T) {
	limit := pds.Limit{Points: 3, Window: 5 * time.Minute}
	time0 := newClock()
	eachHost(t, setting{limits: pds.Limits{SignIns: []pds.Limit{limit}}, clock: time0}, func(t *testing.T, h *host) {
		a, other := h.agent(t, "scout"), h.agent(t, "neighbour")
		ends := time0.Now().Add(limit.Window)
		const attacker = "203.0.113.9"
		h.signIn(t, attacker, a.handle, "guess one").refused(t, 401, "AuthenticationRequired")
		h.signIn(t, attacker, " @SCOUT.test", "guess two").refused(t, 401, "AuthenticationRequired")
		third := h.signIn(t, attacker, a.handle, a.password)
		third.ok(t)
		third.standing(t, limit, 0, ends)
		h.signIn(t, attacker, a.handle, a.password).limited(t, limit, 0, ends, time0.Now())

		h.signIn(t, attacker, other.handle, other.password).ok(t)
		h.signIn(t, "192.0.2.1", a.handle, a.password).ok(t) // nobody locks an account out from elsewhere
		for range 3 {
			h.signIn(t, attacker, strings.Repeat("x", 100_000), "guess").refused(t, 401, "AuthenticationRequired")
		}
		h.signIn(t, attacker, strings.Repeat("x", 200_000), "guess").refused(t, 429, "RateLimitExceeded")

		time0.advance(limit.Window)
		h.signIn(t, attacker, a.handle, a.password).ok(t)
	})
}

func TestWritesAreLimitedByAccount(t *testing.T) {
	hour, day := pds.Limit{Points: 12, Window: time.Hour}, pds.Limit{Points: 20, Window: 24 * time.Hour}
	time0 := newClock()
	eachHost(t, setting{limits: pds.Limits{WritesPerHour: hour.Points, WritesPerDay: day.Points}, clock: time0}, func(t *testing.T, h *host) {
		a, other := h.agent(t, "scout"), h.agent(t, "neighbour")
		record := func(text string) object { return object{"$type": note, "text": text} }
		began := time0.Now()

		created := h.create(t, a, note, record("one"), "rkey", "one") // 3
		created.ok(t)
		created.standing(t, hour, 9, began.Add(time.Hour))
		put := h.put(t, a, note, "two", record("two")) // 2
		put.ok(t)
		put.standing(t, hour, 7, began.Add(time.Hour))
		h.create(t, a, note, object{"$type": "org.example.other"}).refused(t, 400, "InvalidRequest") // costs nothing

		tooMuch := h.apply(t, a, []object{creating(note, "", record("a")), creating(note, "", record("b")), updating(note, "one", record("c"))}) // 8
		tooMuch.limited(t, hour, 7, began.Add(time.Hour), time0.Now())
		batch := h.apply(t, a, []object{creating(note, "b", record("b")), updating(note, "one", record("c")), deleting(note, "two")}) // 6
		batch.ok(t)
		batch.standing(t, hour, 1, began.Add(time.Hour))
		deleted := h.delete(t, a, note, "one") // 1
		deleted.ok(t)
		deleted.standing(t, hour, 0, began.Add(time.Hour))
		h.delete(t, a, note, "b").limited(t, hour, 0, began.Add(time.Hour), time0.Now())
		h.create(t, other, note, record("mine")).ok(t)
		h.query(t, a.access, "com.atproto.server.getSession").ok(t) // reading goes on

		// The next hour: of the day's points 8 are left.
		time0.advance(time.Hour)
		for range 2 {
			h.create(t, a, note, record("later")).ok(t)
		}
		h.create(t, a, note, record("too late")).limited(t, day, 2, began.Add(24*time.Hour), time0.Now())
		h.put(t, a, note, "last", record("last")).standing(t, day, 0, began.Add(24*time.Hour))
		h.delete(t, a, note, "last").limited(t, day, 0, began.Add(24*time.Hour), time0.Now())
	})
}

func TestNoLimitsNoHeaders(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		r := h.from(t, "192.0.2.1", "")
		r.ok(t)
		require.Empty(t, r.Header.Get("ratelimit-limit"))
	})
}

func TestLimitsAreBoundedInMemory(t *testing.T) {
	keys, err := pds.LimitKeys(70_000)
	require.NoError(t, err)
	require.Equal(t, 65_536, keys)
}
