package account

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	lru "github.com/hashicorp/golang-lru/v2"

	"herbarium.garden/migrations"
)

const (
	accountCacheSize = 16384 // about 0.5 KiB each
	maxEnded         = 65536 // ended sessions in memory; more are looked up
	// staleAfter is how old the last look at the database may be before memory
	// is not trusted any more.
	staleAfter = 5 * time.Second
	// pollOverlap is read again by each poll: a transaction on another replica
	// may commit this much later than the time it wrote, and clocks differ.
	pollOverlap = time.Minute
)

// accountCache holds accounts, their policies and their DID documents as last read. A read that
// began before a change must not be added after it, hence the generations.
type accountCache struct {
	mu        sync.Mutex
	changes   uint64 // guarded by mu
	accounts  *lru.Cache[syntax.DID, Account]
	policies  *lru.Cache[syntax.DID, Policy]
	documents *lru.Cache[syntax.DID, *Document] // never changed once in here
}

func newAccountCache() (*accountCache, error) {
	accounts, err := lru.New[syntax.DID, Account](accountCacheSize)
	if err != nil {
		return nil, err
	}
	policies, err := lru.New[syntax.DID, Policy](accountCacheSize)
	if err != nil {
		return nil, err
	}
	documents, err := lru.New[syntax.DID, *Document](accountCacheSize)
	return &accountCache{accounts: accounts, policies: policies, documents: documents}, err
}

func (c *accountCache) generation() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// addAs adds to one of the caches what was read since the generation.
func addAs[V any](c *accountCache, to *lru.Cache[syntax.DID, V], did syntax.DID, value V, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes == generation {
		to.Add(did, value)
	}
}

func (c *accountCache) forget(did syntax.DID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.accounts.Remove(did)
	c.policies.Remove(did)
	c.documents.Remove(did)
}

func (c *accountCache) forgetAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.accounts.Purge()
	c.policies.Purge()
	c.documents.Purge()
}

// endedSessions remembers the sessions that ended while access tokens of
// theirs may still be in use.
type endedSessions struct {
	now func() time.Time

	mu         sync.RWMutex
	at         map[string]time.Time // sid -> when; guarded by mu
	polled     time.Time            // last complete look at the database; guarded by mu
	overflowed bool                 // at is not complete; guarded by mu
}

func newEndedSessions(now func() time.Time) *endedSessions {
	return &endedSessions{now: now, at: map[string]time.Time{}}
}

// fresh reports whether memory may be trusted.
func (e *endedSessions) fresh() bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.now().Sub(e.polled) <= staleAfter
}

// check answers whether the session ended, and whether memory can tell.
func (e *endedSessions) check(sid string) (ended, certain bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if _, ended = e.at[sid]; ended {
		return true, true
	}
	return false, !e.overflowed && e.now().Sub(e.polled) <= staleAfter
}

// add takes in sessions that ended; started says when a complete look at the
// database began, zero if this is not one.
func (e *endedSessions) add(sids []string, started time.Time) {
	now := e.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for sid, at := range e.at {
		if now.Sub(at) > AccessLifetime+pollOverlap {
			delete(e.at, sid)
		}
	}
	if !started.IsZero() {
		e.overflowed = false // this look went back far enough, see since
	}
	for _, sid := range sids {
		if _, known := e.at[sid]; !known && len(e.at) >= maxEnded {
			e.overflowed = true
			break
		}
		e.at[sid] = now
	}
	if !started.IsZero() {
		e.polled = started
	}
}

// since is where the next look begins.
func (e *endedSessions) since(now time.Time) time.Time {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.polled.IsZero() || e.overflowed {
		return now.Add(-AccessLifetime - pollOverlap)
	}
	return e.polled.Add(-pollOverlap)
}

// Poll looks once for sessions that ended and accounts that changed on other
// replicas. Run does it every PollEvery.
func (s *Store) Poll(ctx context.Context) error {
	started := s.cfg.Now()
	since := migrations.FormatTime(s.ended.since(started))
	var sids, dids []string
	db := s.cfg.DB.Read.WithContext(ctx)
	if err := db.Raw("SELECT sid FROM sessions WHERE ended_at >= ? ORDER BY ended_at LIMIT ?", since, maxEnded+1).Scan(&sids).Error; err != nil {
		return fmt.Errorf("poll ended sessions: %w", err)
	}
	if err := db.Raw("SELECT did FROM accounts WHERE changed_at >= ? ORDER BY changed_at LIMIT ?", since, accountCacheSize+1).Scan(&dids).Error; err != nil {
		return fmt.Errorf("poll changed accounts: %w", err)
	}
	if len(dids) > accountCacheSize {
		s.cache.forgetAll()
	}
	for _, did := range dids {
		s.Forget(syntax.DID(did))
	}
	s.ended.add(sids, started)
	return nil
}

// Forget drops what memory holds of the account. Call it after the commit of a
// transaction that a …Tx method took part in; other replicas notice by
// themselves within PollEvery.
func (s *Store) Forget(did syntax.DID) {
	s.cache.forget(did)
	s.keys.Remove(keyPlace{string(did), purposeSigning})
}
