package pds_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds"
	"herbarium.garden/pds/repostore"
)

// listener is an index that knows what it was told, and nothing else.
type listener struct {
	pds.PurgeIndex // nothing is purged here

	mu       sync.Mutex
	down     []syntax.ATURI // in order
	lexicons []*lexicons.Lexicon
	deaf     bool          // every call fails
	hearing  chan struct{} // when not nil, TakeDown says here that it was called,
	heard    chan struct{} // and ends when this says so
}

var errDeaf = errors.New("the index does not answer")

func (l *listener) SetLexicons(_ context.Context, added []*lexicons.Lexicon) error {
	return l.change(func() { l.lexicons = added })
}

func (l *listener) TrySetLexicons(context.Context, []*lexicons.Lexicon) ([]lexicons.Effect, error) {
	return []lexicons.Effect{{Collection: "com.example.leaf", Seen: 3, Quarantined: 1, Examples: []syntax.ATURI{"at://did:web:scout.test/com.example.leaf/x"}, Partial: true}}, nil
}

func (l *listener) TakeDown(_ context.Context, uri syntax.ATURI) error {
	if l.hearing != nil {
		l.hearing <- struct{}{}
		<-l.heard
	}
	return l.change(func() {
		if i, known := slices.BinarySearch(l.down, uri); !known {
			l.down = slices.Insert(l.down, i, uri)
		}
	})
}

func (l *listener) LiftTakedown(_ context.Context, uri syntax.ATURI) error {
	return l.change(func() {
		l.down = slices.DeleteFunc(l.down, func(u syntax.ATURI) bool { return u == uri })
	})
}

func (l *listener) TakenDown(_ context.Context, after syntax.ATURI, limit int) (page []syntax.ATURI, err error) {
	err = l.change(func() {
		for _, uri := range l.down {
			if uri > after && len(page) < limit {
				page = append(page, uri)
			}
		}
	})
	return page, err
}

func (l *listener) change(do func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deaf {
		return errDeaf
	}
	do()
	return nil
}

func (l *listener) set(deaf bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf = deaf
}

func (l *listener) knows() []syntax.ATURI {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.down)
}

// eachHostWithIndex is eachHost with an index that only listens.
func eachHostWithIndex(t *testing.T, fn func(t *testing.T, h *host, l *listener)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		t.Helper()
		l := &listener{}
		fn(t, newHost(t, db, setting{index: l}), l)
	})
}

// takeDown sends updateSubjectStatus for a record.
func (h *host) takeDown(t *testing.T, record object, applied bool) reply {
	t.Helper()
	return h.procedure(t, admin(), "com.atproto.admin.updateSubjectStatus", object{
		"subject":  object{"$type": "com.atproto.repo.strongRef", "uri": record.str("uri"), "cid": record.str("cid")},
		"takedown": object{"applied": applied},
	})
}

// Whether a record is taken down is this host's to say; an index that could not
// be told hears of it later.
func TestIndexHearsOfTakedowns(t *testing.T) {
	eachHostWithIndex(t, func(t *testing.T, h *host, l *listener) {
		a := h.agent(t, "scout")
		made := h.create(t, a, note, object{"text": "x"}).ok(t)
		uri := syntax.ATURI(made.str("uri"))
		h.takeDown(t, made, true).ok(t)
		require.Equal(t, []syntax.ATURI{uri}, l.knows())
		h.takeDown(t, made, true).ok(t)
		h.takeDown(t, made, false).ok(t)
		require.Empty(t, l.knows())

		for _, applied := range []bool{true, false} {
			l.set(true)
			h.takeDown(t, made, applied).refused(t, 500, "InternalServerError")
			status := h.query(t, admin(), "com.atproto.admin.getSubjectStatus", "uri", made.str("uri")).ok(t)
			require.Equal(t, applied, status.at("takedown", "applied"))
			require.ErrorIs(t, h.pds.SyncTakedowns(t.Context()), errDeaf)
			l.set(false)
			require.NoError(t, h.pds.SyncTakedowns(t.Context()))
			require.Equal(t, applied, slices.Contains(l.knows(), uri))
		}
	})
}

// The index is told of every record, page by page, and of no blob; what it
// believes beyond that, it unlearns.
func TestIndexIsToldEverything(t *testing.T) {
	eachHostWithIndex(t, func(t *testing.T, h *host, l *listener) {
		did := syntax.DID("did:web:scout.test")
		c, err := cid.Decode(rawCID(t, []byte("x")))
		require.NoError(t, err)
		var want []syntax.ATURI
		for n := range 1100 {
			collection, key := syntax.NSID(note), syntax.RecordKey(fmt.Sprintf("r%04d", n))
			stale := syntax.ATURI(fmt.Sprintf("at://%s/%s/%s-not", did, collection, key))
			require.NoError(t, l.TakeDown(t.Context(), stale))
			if n%2 == 0 {
				want = append(want, syntax.ATURI(fmt.Sprintf("at://%s/%s/%s", did, collection, key)))
				require.NoError(t, h.repos.TakeDown(t.Context(), repostore.RecordSubject(did, collection, key), repostore.Takedown{CID: c}))
			}
		}
		require.NoError(t, h.repos.TakeDown(t.Context(), repostore.BlobSubject(did, c), repostore.Takedown{CID: c}))
		require.NoError(t, h.pds.SyncTakedowns(t.Context()))
		require.Equal(t, want, l.knows())
	})
}

// Two calls that cross leave the index with what is true in the end.
func TestTakedownsThatCross(t *testing.T) {
	eachHostWithIndex(t, func(t *testing.T, h *host, l *listener) {
		a := h.agent(t, "scout")
		made := h.create(t, a, note, object{"text": "x"}).ok(t)
		l.hearing, l.heard = make(chan struct{}), make(chan struct{})
		var calls sync.WaitGroup
		calls.Go(func() { h.takeDown(t, made, true) })
		<-l.hearing // the index is being told, and takes its time
		calls.Go(func() { h.takeDown(t, made, false) })
		require.Eventually(t, func() bool {
			status := h.query(t, admin(), "com.atproto.admin.getSubjectStatus", "uri", made.str("uri")).ok(t)
			return status.at("takedown", "applied") == false
		}, 10*time.Second, time.Millisecond, "the second call is through here")
		l.heard <- struct{}{}
		calls.Wait()
		require.Empty(t, l.knows())
	})
}
