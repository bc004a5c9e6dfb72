package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/appview/ingest"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

const (
	ada = syntax.DID("did:web:ada.test")
	bob = syntax.DID("did:web:bob.test")
)

// note is a record of a collection that nobody has a lexicon for.
func note(text string) map[string]any {
	return map[string]any{"$type": "test.herbarium.note", "text": text}
}

func notePath(n int) string { return fmt.Sprintf("test.herbarium.note/n%05d", n) }

func noteURI(did syntax.DID, n int) syntax.ATURI {
	return syntax.ATURI("at://" + string(did) + "/" + notePath(n))
}

func newIndex(t testing.TB, db *migrations.DB) *index.Index {
	t.Helper()
	catalog, err := lexicons.Load()
	require.NoError(t, err)
	x, err := index.New(index.Config{DB: db, Rules: lexicons.NewRules(catalog, lexicons.Settings{})})
	require.NoError(t, err)
	return x
}

func newConsumer(t *testing.T, h *host, x ingest.Index, change ...func(*ingest.Config)) *ingest.Consumer {
	t.Helper()
	cfg := ingest.Config{
		Source: h, Fetcher: h, Index: x, Directory: h,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Backoff: time.Millisecond, PageSize: 7,
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := ingest.New(cfg)
	require.NoError(t, err)
	return c
}

// run starts a consumer that ends with the test.
func run(t *testing.T, h *host, x ingest.Index, change ...func(*ingest.Config)) *ingest.Consumer {
	t.Helper()
	c := newConsumer(t, h, x, change...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return c
}

func waitFor(t *testing.T, c *ingest.Consumer, r *hostedRepo) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, c.WaitFor(ctx, r.did, syntax.TID(r.rev)), "status: %+v", c.Status())
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 20*time.Second, 5*time.Millisecond)
}

func TestFollowsARepo(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		h, x := newHost(), newIndex(t, db)
		r := h.open(t, ada)
		c := run(t, h, x)
		h.emit(frame(t, "#identity", &comatproto.SyncSubscribeRepos_Identity{Did: string(ada), Time: "2026-01-01T00:00:00Z"}))
		for n := range 40 {
			h.emit(frame(t, "#commit", r.write(t, change{notePath(n), note(fmt.Sprint("text ", n))})))
		}
		h.emit(frame(t, "#commit", r.write(t, change{notePath(3), note("other")}, change{notePath(4), nil}, change{notePath(77), note("new")})))
		waitFor(t, c, r)

		rec, err := x.Record(t.Context(), index.Viewer{}, noteURI(ada, 3))
		require.NoError(t, err)
		value, err := lexicons.DecodeCBOR(rec.CBOR)
		require.NoError(t, err)
		require.Equal(t, "other", value["text"])
		rec, err = x.Record(t.Context(), index.Viewer{}, noteURI(ada, 4))
		require.NoError(t, err)
		require.Equal(t, index.StateDeleted, rec.State)
		status, err := x.Status(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 40, status.Records["test.herbarium.note"])
		require.EqualValues(t, 43, status.Journal)
		require.Zero(t, c.Status().Rejected)
		require.Zero(t, h.fetches(), "a repo that is in step is never fetched")
		did, err := x.ResolveHandle(t.Context(), "ada.test")
		require.NoError(t, err)
		require.Equal(t, ada, did)
	})
}

func TestEmptiedTreeIsFollowed(t *testing.T) {
	// indigo's tree keeps a height when its last high key goes, and signs a root that no one else computes.
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		h, x := newHost(), newIndex(t, db)
		r := h.open(t, ada)
		c := run(t, h, x)
		for n := range 30 { // a quarter of the keys has a height
			h.emit(frame(t, "#commit", r.write(t, change{notePath(n), note("x")})))
			h.emit(frame(t, "#commit", r.write(t, change{notePath(n), nil})))
		}
		waitFor(t, c, r)
		require.Zero(t, c.Status().Rejected)
	})
}

func TestGapLeadsToResync(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		h, x := newHost(), newIndex(t, db)
		r := h.open(t, ada)
		c := run(t, h, x)
		h.emit(frame(t, "#commit", r.write(t, change{notePath(1), note("a")}, change{notePath(2), note("b")})))
		waitFor(t, c, r)
		r.write(t, change{notePath(1), nil}, change{notePath(2), note("c")}) // never announced
		h.emit(frame(t, "#commit", r.write(t, change{notePath(3), note("d")})))
		waitFor(t, c, r)
		eventually(t, func() bool { return c.Status().Resynced == 1 })

		rec, err := x.Record(t.Context(), index.Viewer{}, noteURI(ada, 1))
		require.NoError(t, err)
		require.Equal(t, index.StateDeleted, rec.State)
		versions, err := x.Versions(t.Context(), index.Viewer{}, noteURI(ada, 2), index.Page{})
		require.NoError(t, err)
		require.Len(t, versions.Items, 2)
		require.True(t, versions.Items[1].Baseline, "nobody saw the commit that wrote it")

		h.emit(frame(t, "#commit", r.write(t, change{notePath(4), note("e")})))
		waitFor(t, c, r)
		require.EqualValues(t, 1, c.Status().Resynced, "in step again")
	})
}

func TestOutdatedCursorTakesAllReposWhole(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		h, x := newHost(), newIndex(t, db)
		a, b := h.open(t, ada), h.open(t, bob)
		for n := range 5 {
			h.emit(frame(t, "#commit", a.write(t, change{notePath(n), note("a")})))
			h.emit(frame(t, "#commit", b.write(t, change{notePath(n), note("b")})))
		}
		h.forget(8)
		c := run(t, h, x)
		waitFor(t, c, a)
		waitFor(t, c, b)
		eventually(t, func() bool { return c.Status().Resynced == 2 && c.Status().Cursor == 10 })
		did, err := x.ResolveHandle(t.Context(), "bob.test")
		require.NoError(t, err)
		require.Equal(t, bob, did)
		h.emit(frame(t, "#commit", a.write(t, change{notePath(9), note("a")})))
		waitFor(t, c, a)
		eventually(t, func() bool { return c.Status().Cursor == 11 })
		require.EqualValues(t, 2, c.Status().Resynced)
	})
}

// An account that was deleted while nobody listened is in no event that is left.
func TestRepoThatTheHostNoLongerListsIsDeleted(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		h, x := newHost(), newIndex(t, db)
		a, b := h.open(t, ada), h.open(t, bob)
		ctx, stop := context.WithCancel(t.Context())
		c, stopped := newConsumer(t, h, x), make(chan error, 1)
		go func() { stopped <- c.Run(ctx) }()
		h.emit(frame(t, "#commit", a.write(t, change{notePath(1), note("a")})))
		h.emit(frame(t, "#commit", b.write(t, change{notePath(1), note("b")})))
		waitFor(t, c, a)
		waitFor(t, c, b)
		stop()
		require.NoError(t, <-stopped)

		h.emit(frame(t, "#commit", b.write(t, change{notePath(2), note("b")})))
		h.mu.Lock()
		delete(h.repos, ada)
		h.mu.Unlock()
		h.forget(3)
		c = run(t, h, x)
		waitFor(t, c, b)
		eventually(t, func() bool { return c.Status().Cursor == 3 })
		rec, err := x.Record(t.Context(), index.Viewer{Admin: true}, noteURI(ada, 1))
		require.NoError(t, err)
		require.Equal(t, index.StateDeleted, rec.State)
		require.Nil(t, rec.CBOR)
		_, err = x.Record(t.Context(), index.Viewer{}, noteURI(bob, 2))
		require.NoError(t, err)
	})
}

func TestHostThatFailsIsAskedAgain(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		h, x := newHost(), newIndex(t, db)
		a, b := h.open(t, ada), h.open(t, bob)
		h.down = true
		a.write(t, change{notePath(1), note("never announced")})
		c := run(t, h, x)
		h.emit(frame(t, "#commit", a.write(t, change{notePath(2), note("a")})))
		h.emit(frame(t, "#commit", b.write(t, change{notePath(1), note("b")})))
		waitFor(t, c, b)
		known, err := x.Repo(t.Context(), ada)
		require.NoError(t, err)
		require.Equal(t, index.SyncDesynchronized, known.Sync)
		reachable := func(is bool) func() bool {
			return func() bool {
				known, err := x.Repo(t.Context(), ada)
				return err == nil && (known.Unreachable == "") == is
			}
		}
		eventually(t, reachable(false))
		h.mu.Lock()
		h.down = false
		h.mu.Unlock()
		waitFor(t, c, a)
		require.True(t, reachable(true)(), "what was learned ends it")
	})
}

func TestAccountStatusHidesAndDeletes(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		h, x := newHost(), newIndex(t, db)
		r := h.open(t, ada)
		c := run(t, h, x)
		h.emit(frame(t, "#commit", r.write(t, change{notePath(1), note("a")})))
		account := func(active bool, status string) {
			m := &comatproto.SyncSubscribeRepos_Account{Did: string(ada), Active: active, Time: "2026-01-01T00:00:00Z"}
			if status != "" {
				m.Status = &status
			}
			seq := h.emit(frame(t, "#account", m))
			eventually(t, func() bool { return c.Status().Cursor >= seq })
		}
		account(false, "deactivated")
		_, err := x.Record(t.Context(), index.Viewer{}, noteURI(ada, 1))
		require.ErrorIs(t, err, index.ErrNotFound)
		account(true, "")
		_, err = x.Record(t.Context(), index.Viewer{}, noteURI(ada, 1))
		require.NoError(t, err)
		account(false, "deleted")
		rec, err := x.Record(t.Context(), index.Viewer{Admin: true}, noteURI(ada, 1))
		require.NoError(t, err)
		require.Equal(t, index.StateDeleted, rec.State)
		require.Nil(t, rec.CBOR)
	})
}

// flaky fails around the real index, as a process that dies or a database that is away would.
type flaky struct {
	*index.Index
	before, after atomic.Int64 // how many calls of Apply fail before or after the real one
}

var errAway = errors.New("database is away")

func (f *flaky) Apply(ctx context.Context, source string, cursor int64, events []index.Event) error {
	if f.before.Add(-1) >= 0 {
		return errAway
	}
	if err := f.Index.Apply(ctx, source, cursor, events); err != nil {
		return err
	}
	if f.after.Add(-1) >= 0 {
		return errAway
	}
	return nil
}

func TestNothingIsLostOrDoubledWhenApplyFails(t *testing.T) {
	for name, set := range map[string]func(*flaky){
		"before the transaction":                      func(f *flaky) { f.before.Store(9) },
		"after the transaction, before it is known":   func(f *flaky) { f.after.Store(9) },
		"every event of a page, then each on its own": func(f *flaky) { f.before.Store(3); f.after.Store(3) },
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
				h, f := newHost(), &flaky{Index: newIndex(t, db)}
				set(f)
				r := h.open(t, ada)
				for n := range 20 {
					h.emit(frame(t, "#commit", r.write(t, change{notePath(n), note("x")})))
				}
				c := run(t, h, f)
				waitFor(t, c, r)
				status, err := f.Status(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, 20, status.Journal)
				eventually(t, func() bool { return c.Status().Cursor == 20 })
				require.Zero(t, c.Status().Rejected)
			})
		})
	}
}
