package repostore

import (
	"context"
	"slices"
	"sync"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// actor is a DID that writes just now: its queue, its published head and the
// layers on it that are not stored yet.
type actor struct {
	did syntax.DID
	// turn has room for one token: whoever put it there prepares.
	turn chan struct{}

	// users are the callers in Apply and the layers in the committer's queue.
	// With the last one the actor goes. Guarded by Store.mu.
	users int

	mu     sync.Mutex
	base   *repoRow // the published head; nil: read it. Guarded by mu
	layers []*layer // on base, the oldest first. Guarded by mu
	epoch  uint64   // counts how often layers were dropped. Guarded by mu
}

// enter joins the actor of did.
func (s *Store) enter(did syntax.DID) *actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.actors[did]
	if a == nil {
		a = &actor{did: did, turn: make(chan struct{}, 1)}
		if row, ok := s.heads.Get(did); ok {
			a.base = &row
		}
		s.actors[did] = a
	}
	a.users++
	return a
}

// leave is the end of an enter.
func (s *Store) leave(a *actor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.users--; a.users > 0 {
		return
	}
	delete(s.actors, a.did)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.base != nil {
		s.heads.Add(a.did, *a.base)
	} else {
		s.heads.Remove(a.did)
	}
}

// keep holds the actor for a layer that was queued.
func (s *Store) keep(a *actor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.users++
}

// foundation is what a write is prepared on.
type foundation struct {
	base   repoRow
	fresh  bool // base was read just now
	layers []*layer
	epoch  uint64
}

// foundation answers what the next write of the DID sees. The caller has the turn.
func (s *Store) foundation(ctx context.Context, a *actor) (foundation, error) {
	a.mu.Lock()
	f := foundation{layers: slices.Clone(a.layers), epoch: a.epoch}
	if a.base != nil {
		f.base = *a.base
		a.mu.Unlock()
		return f, nil
	}
	a.mu.Unlock()
	// Without a base there are no layers, and none can come while we have the turn.
	row, err := reader{s.db.Read}.repo(ctx, a.did)
	f.base, f.fresh = row, true
	if err != nil {
		return f, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.base = &row
	return f, nil
}

// tip is the repo that the next commit follows.
func (f foundation) tip() repoRow {
	if n := len(f.layers); n > 0 {
		return f.layers[n-1].row()
	}
	return f.base
}

// push puts a prepared layer on top; false when the layers under it were
// dropped in the meantime.
func (a *actor) push(l *layer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.epoch != l.epoch {
		return false
	}
	a.layers = append(a.layers, l)
	return true
}

// holds tells whether a layer was not dropped.
func (a *actor) holds(l *layer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.epoch == l.epoch
}

// drop forgets everything in memory about the repo: the next write reads it.
func (a *actor) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.base, a.layers = nil, nil
	a.epoch++
}

// forgetBase forgets a base that turned out to be stale, unless somebody did already.
func (a *actor) forgetBase(stale repoRow) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.base != nil && *a.base == stale && len(a.layers) == 0 {
		a.base = nil
	}
}

// publish makes the head of a stored chain, the oldest of the layers, the base.
func (a *actor) publish(chain []*layer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	row := chain[len(chain)-1].row()
	a.base = &row
	a.layers = slices.Clone(a.layers[len(chain):])
}

// queue is what waits for the committer, in the order of preparing.
type queue struct {
	wake chan struct{} // has room for one token: something waits

	mu     sync.Mutex
	layers []*layer // guarded by mu
	closed bool     // guarded by mu
}

func (q *queue) push(l *layer) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.layers = append(q.layers, l)
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

// take removes up to limit layers, fewer when they are heavy.
func (q *queue) take(limit, bytes int) []*layer {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.layers) && n < limit && (n == 0 || bytes >= q.layers[n].size()) {
		bytes -= q.layers[n].size()
		n++
	}
	batch := slices.Clone(q.layers[:n])
	q.layers = slices.Delete(q.layers, 0, n)
	return batch
}

// close refuses further layers and answers those that wait.
func (q *queue) close() []*layer {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	rest := q.layers
	q.layers = nil
	return rest
}

// Waiting counts the commits that wait for the committer.
func (s *Store) Waiting() int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return len(s.queue.layers)
}
