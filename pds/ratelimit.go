package pds

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/repostore"
)

// Limits are how much may be asked of this process. The zero value limits
// nothing but the accounts that have limits of their own (account.Policy); the
// admin is never limited.
type Limits struct {
	Requests Limit   // a point for each call of a method, by client address
	SignIns  []Limit // a point for each attempt, good or bad, by account and client address; all of them hold
	// SignInsFrom takes a point for each attempt from a client address, whoever
	// it is made for: each costs a core for a while.
	SignInsFrom Limit
	// The points of writes (writePoints), by account; 0: no limit. Both hold.
	WritesPerHour, WritesPerDay int64
	Methods                     []MethodLimit
}

// MethodLimit takes a point for each call of one method. Several of one method
// all hold.
type MethodLimit struct {
	Method syntax.NSID
	Limit  Limit
	// ByAccount counts for the account whose token the call shows, and no other
	// calls; otherwise it counts for the client address.
	ByAccount bool
}

// tolerance is how many times the reference host's points are given here: its
// limits are made for people, and agents write more than those.
const tolerance = 10

// DefaultLimits are the reference host's limits, with tolerance. Its limit on
// the number of uploads is left out: an agent uploads with each observation,
// and has a quota of bytes.
func DefaultLimits() Limits {
	const day = 24 * time.Hour
	limits := Limits{
		Requests:      Limit{tolerance * 3000, 5 * time.Minute},
		SignIns:       []Limit{{tolerance * 30, 5 * time.Minute}, {tolerance * 300, day}},
		SignInsFrom:   Limit{tolerance * 300, 5 * time.Minute},
		WritesPerHour: tolerance * 5000,
		WritesPerDay:  tolerance * 35_000,
		Methods: []MethodLimit{
			{"com.atproto.server.createAccount", Limit{tolerance * 100, 5 * time.Minute}, false},
			{"com.atproto.server.deleteAccount", Limit{tolerance * 50, 5 * time.Minute}, false},
			{"com.atproto.server.resetPassword", Limit{tolerance * 50, 5 * time.Minute}, false},
			{"com.atproto.server.requestPasswordReset", Limit{tolerance * 15, time.Hour}, false},
			{"com.atproto.server.requestPasswordReset", Limit{tolerance * 50, day}, false},
			{"com.atproto.identity.updateHandle", Limit{tolerance * 10, 5 * time.Minute}, true},
			{"com.atproto.identity.updateHandle", Limit{tolerance * 50, day}, true},
		},
	}
	// What makes a one-time token.
	for _, method := range []syntax.NSID{
		"com.atproto.server.requestAccountDelete", "com.atproto.server.requestEmailConfirmation",
		"com.atproto.server.requestEmailUpdate", "com.atproto.identity.requestPlcOperationSignature",
	} {
		limits.Methods = append(limits.Methods,
			MethodLimit{method, Limit{tolerance * 5, time.Hour}, true}, MethodLimit{method, Limit{tolerance * 15, day}, true})
	}
	return limits
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

// meters are all that this process counts. Those of writes count also where
// they limit nothing: an account may have points of its own.
type meters struct {
	requests      *meter
	signIns       []*meter
	signInsFrom   *meter
	writesPerHour *meter
	writesPerDay  *meter
	byAddress     map[syntax.NSID][]*meter // of single methods
	byAccount     map[syntax.NSID][]*meter
}

func newMeters(limits Limits) (m meters, err error) {
	if m.requests, err = newMeter("requests", limits.Requests); err != nil {
		return m, err
	}
	for _, limit := range limits.SignIns {
		one, err := newMeter("signIns", limit)
		if err != nil {
			return m, err
		}
		m.signIns = append(m.signIns, one)
	}
	if m.signInsFrom, err = newMeter("signInsFrom", limits.SignInsFrom); err != nil {
		return m, err
	}
	if m.writesPerHour, err = newMeter("writesPerHour", Limit{limits.WritesPerHour, time.Hour}); err != nil {
		return m, err
	}
	if m.writesPerDay, err = newMeter("writesPerDay", Limit{limits.WritesPerDay, 24 * time.Hour}); err != nil {
		return m, err
	}
	m.byAddress, m.byAccount = map[syntax.NSID][]*meter{}, map[syntax.NSID][]*meter{}
	for _, of := range limits.Methods {
		one, err := newMeter(string(of.Method), of.Limit)
		if err != nil {
			return m, err
		}
		by := m.byAddress
		if of.ByAccount {
			by = m.byAccount
		}
		by[of.Method] = append(by[of.Method], one)
	}
	return m, nil
}

// writes are the meters of an account's writes, with its own points where it
// has some.
func (m meters) writes(policy account.Policy) []*meter {
	hour, day := m.writesPerHour, m.writesPerDay
	if policy.WritesPerHour != nil {
		hour = hour.withPoints(*policy.WritesPerHour)
	}
	if policy.WritesPerDay != nil {
		day = day.withPoints(*policy.WritesPerDay)
	}
	return []*meter{hour, day}
}

// ofAccounts are the meters of methods that count for an account, by name.
func (m meters) ofAccounts() []*meter {
	var all []*meter
	for _, method := range slices.Sorted(maps.Keys(m.byAccount)) {
		all = append(all, m.byAccount[method]...)
	}
	return all
}

// Admit is the hook of the XRPC server that limits the calls of a client
// address, and those of the methods that have a limit of their own. Plain
// routes (health, DID documents) are not limited.
func (p *PDS) Admit(_ context.Context, call *xrpc.Call) error {
	path := call.Request.URL.Path
	if !strings.HasPrefix(path, "/xrpc/") || path == healthPath {
		return nil
	}
	address := addressKey(call.ClientIP)
	if err := p.limiter.charge(call, address, 1, p.meters.requests); err != nil {
		return err
	}
	if err := p.limiter.charge(call, address, 1, p.meters.byAddress[call.NSID]...); err != nil {
		return err
	}
	if call.Viewer.Kind != xrpc.Account {
		return nil
	}
	return p.limiter.charge(call, string(call.Viewer.DID), 1, p.meters.byAccount[call.NSID]...)
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
	address := addressKey(call.ClientIP)
	if err := p.limiter.charge(call, address, 1, p.meters.signInsFrom); err != nil {
		return err
	}
	name := strings.ToLower(strings.TrimPrefix(strings.TrimSpace(identifier), "@"))
	return p.limiter.charge(call, address+" "+name, 1, p.meters.signIns...)
}

// maxSigningIn is how many sign-ins of one client address may be under way at
// once. Those with a main password wait for a core; with this, one address
// cannot take all the places where they wait.
const maxSigningIn = 16

// crowd counts what is under way, by key.
type crowd struct {
	mu sync.Mutex
	by map[string]int
}

// enter answers how to leave, or false when there are most already.
func (c *crowd) enter(key string, most int) (leave func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by[key] >= most {
		return nil, false
	}
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.by[key]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.by[key]--; c.by[key] == 0 {
			delete(c.by, key)
		}
	}, true
}

// enterSignIn takes a place among the sign-ins of the caller's address, until
// leave.
func (p *PDS) enterSignIn(ctx context.Context) (leave func(), err error) {
	call := xrpc.CallFrom(ctx)
	if call == nil {
		return func() {}, nil
	}
	leave, ok := p.signingIn.enter(addressKey(call.ClientIP), maxSigningIn)
	if !ok {
		err := xrpc.Errorf(http.StatusTooManyRequests, "RateLimitExceeded", "%d sign-ins from your address are being checked; try again when one has ended", maxSigningIn)
		err.Header = map[string]string{"Retry-After": "1"}
		return nil, err
	}
	return leave, nil
}

// guesses bounds the attempts at the admin's password, as those at an
// account's. Right ones cost nothing.
type guesses struct {
	limiter *limiter
	meters  []*meter
}

// spent refuses an address that has guessed too often, whatever it sends now.
func (g guesses) spent(call *xrpc.Call) error {
	if call == nil {
		return nil
	}
	for _, m := range g.meters {
		if s := g.limiter.look(m, addressKey(call.ClientIP)+" "+adminUser); m.limits() && s.left() < 1 {
			return tooMany(s, 1, g.limiter.now())
		}
	}
	return nil
}

// wrong counts a guess.
func (g guesses) wrong(call *xrpc.Call) {
	if call != nil {
		g.limiter.take(g.meters, addressKey(call.ClientIP)+" "+adminUser, 1)
	}
}

// chargeWrites counts writes of the calling account, just before they are
// applied.
func (p *PDS) chargeWrites(ctx context.Context, writes ...repostore.Write) error {
	call := xrpc.CallFrom(ctx)
	if call == nil {
		return nil
	}
	policy, err := p.accounts.Policy(ctx, call.Viewer.DID)
	if err != nil {
		return err
	}
	var points int64
	for _, w := range writes {
		points += writePoints(w.Action)
	}
	return p.limiter.charge(call, string(call.Viewer.DID), points, p.meters.writes(policy)...)
}
