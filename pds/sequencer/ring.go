package sequencer

import (
	"slices"
	"sort"
	"sync"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// Bounds of the ring: what live readers, and those who fell a little behind,
// are served without the database.
const (
	ringEvents = 8192
	ringBytes  = 32 << 20
)

// ring is the recent end of the log in memory, and the bell that wakes readers.
type ring struct {
	mu     sync.Mutex
	events []Event // guarded by mu: ascending; all events with after < seq <= head that the database has
	after  int64   // guarded by mu: where the ring begins, exclusive
	head   int64   // guarded by mu: highest seq known to be committed
	bytes  int     // guarded by mu: of the frames
	bell   chan struct{}
}

func newRing(head int64) *ring {
	return &ring{after: head, head: head, bell: make(chan struct{})}
}

// add takes in a committed batch. Batches may come out of order, for two
// appenders race between commit and Published, and other processes' batches
// never come: where the batch does not follow on the ring, the ring starts anew
// with it, and readers find the rest in the database, which has everything
// before a committed seq.
func (r *ring) add(batch []Event) {
	if len(batch) == 0 {
		return
	}
	first, last := batch[0].Seq, batch[len(batch)-1].Seq
	r.mu.Lock()
	defer r.mu.Unlock()
	if last <= r.head {
		return
	}
	if first != r.head+1 {
		r.events, r.bytes, r.after = nil, 0, first-1
	}
	r.events = append(r.events, batch...)
	for _, e := range batch {
		r.bytes += len(e.Frame)
	}
	r.head = last
	r.trim()
	r.ring()
}

// trim keeps the ring within its bounds. Called with mu held.
func (r *ring) trim() {
	drop := 0
	for n := len(r.events); n-drop > ringEvents || r.bytes > ringBytes && drop < n; drop++ {
		r.bytes -= len(r.events[drop].Frame)
		r.after = r.events[drop].Seq
	}
	// The head of the slice is given up, not copied away: append moves the rest
	// when the array is full, which happens once in a ring's length.
	clear(r.events[:drop])
	r.events = r.events[drop:]
}

// ring wakes every waiting reader. Called with mu held.
func (r *ring) ring() {
	close(r.bell)
	r.bell = make(chan struct{})
}

// notice learns that the log goes up to head, without the events.
func (r *ring) notice(head int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if head <= r.head {
		return
	}
	r.events, r.bytes, r.after, r.head = nil, 0, head, head
	r.ring()
}

// forget empties the ring; readers turn to the database.
func (r *ring) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events, r.bytes, r.after = nil, 0, r.head
}

// drop removes the events of one DID.
func (r *ring) drop(did syntax.DID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := make([]Event, 0, len(r.events)) // a new array: readers may hold parts of the old
	for _, e := range r.events {
		if e.DID != did {
			kept = append(kept, e)
		} else {
			r.bytes -= len(e.Frame)
		}
	}
	r.events = kept
}

// read returns up to limit events after cursor; ok is false when the ring does
// not reach back that far.
func (r *ring) read(cursor int64, limit int) (events []Event, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cursor < r.after {
		return nil, false
	}
	i := sort.Search(len(r.events), func(i int) bool { return r.events[i].Seq > cursor })
	return slices.Clone(r.events[i:min(i+limit, len(r.events))]), true
}

// tell says whether the log has an event after cursor: yes, no, or the ring
// cannot know. bell rings when that may have changed; it was taken before the
// answer, so waiting for it after a look elsewhere misses nothing.
func (r *ring) tell(cursor int64) (has, known bool, bell <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.head <= cursor:
		return false, true, r.bell
	case cursor < r.after:
		return false, false, r.bell
	}
	n := len(r.events)
	return n > 0 && r.events[n-1].Seq > cursor, true, r.bell
}

func (r *ring) last() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.head
}
