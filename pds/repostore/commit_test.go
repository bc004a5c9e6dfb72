package repostore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"pgregory.net/rapid"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/repostore"
	"herbarium.garden/pds/sequencer"
)

// together runs fn n times at once and waits.
func together(n int, fn func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { fn(i) })
	}
	all.Wait()
}

// Eight clients write to one repo at once: every acknowledged record is in the
// exported MST and on the firehose, once.
func TestManyWritersOfOneRepo(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		const writers, each = 8, 25
		var acked sync.Map
		together(writers, func(w int) {
			for i := range each {
				rkey := tid(w*each + i)
				result, err := h.Apply(t.Context(), did, []repostore.Write{create(rkey, note(t, rkey))}, repostore.Options{})
				if err != nil {
					t.Error(err)
					return
				}
				acked.Store(string(noteNSID)+"/"+rkey, *result.Writes[0].CID)
			}
		})
		held := h.consistent(did)
		require.Len(t, held, writers*each)
		acked.Range(func(path, c any) bool {
			require.Equal(t, c, held[path.(string)])
			return true
		})
		times := map[string]int{}
		for _, commit := range h.commits(did) {
			for _, op := range commit.Ops {
				times[op.Path]++
			}
		}
		require.Len(t, times, writers*each)
		for path, n := range times {
			require.Equal(t, 1, n, path)
		}
	})
}

// Writes that wait come together in one transaction, also those of one DID.
func TestGroupCommit(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := idleHost(t, db)
		var dids []syntax.DID
		for i := range 4 {
			dids = append(dids, h.account(fmt.Sprint("scout", i)))
		}
		const each = 5
		done := make(chan struct{})
		go func() {
			defer close(done)
			together(len(dids)*each, func(i int) {
				_, err := h.Apply(t.Context(), dids[i%len(dids)], []repostore.Write{create(tid(i), note(t, fmt.Sprint(i)))}, repostore.Options{})
				if err != nil {
					t.Error(err)
				}
			})
		}()
		require.Eventually(t, func() bool { return h.Waiting() == len(dids)*each }, 10*time.Second, time.Millisecond)
		h.run()
		<-done
		require.Equal(t, repostore.Stats{Commits: int64(len(dids) * each), Transactions: 1}, h.Stats())
		for _, did := range dids {
			require.Len(t, h.consistent(did), each)
		}
	})
}

// Two processes on one database write to one repo: each conflict drops only
// that repo's chain, and everything acknowledged is there.
func TestTwoProcessesOnOneDatabase(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		one := newHost(t, db)
		shared, own := one.account("shared"), one.account("own")
		two := newHost(t, db, func(c *repostore.Config) { c.Keys = one.keyring })
		two.keyring = one.keyring
		const each = 12
		together(6, func(w int) {
			h := []*host{one, two}[w%2]
			for i := range each {
				rkey := tid(w*each + i)
				for attempt := 0; ; attempt++ {
					_, err := h.Apply(t.Context(), shared, []repostore.Write{create(rkey, note(t, rkey))}, repostore.Options{})
					if err == nil {
						break
					}
					if !errors.Is(err, repostore.ErrContended) || attempt > 20 {
						t.Error(err)
						return
					}
				}
				if w == 0 {
					if _, err := h.Apply(t.Context(), own, []repostore.Write{create(rkey, note(t, rkey))}, repostore.Options{}); err != nil {
						t.Error(err)
					}
				}
			}
		})
		require.Len(t, one.consistent(shared), 6*each)
		require.Len(t, two.consistent(own), each)
	})
}

// What a process remembers of a head is never the ground of a refusal or a
// no-op when another process has moved on.
func TestStaleHeadRefusesNothing(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		one := newHost(t, db)
		did := one.account("scout")
		two := newHost(t, db, func(c *repostore.Config) { c.Keys = one.keyring })
		a, b := note(t, "a"), note(t, "b")
		two.apply(did, create(tid(1), a))
		first := two.apply(did, create(tid(2), a))
		one.apply(did, remove(noteNSID, tid(1)), update(tid(2), b))

		require.True(t, two.apply(did, create(tid(1), a)).Writes[0].Changed, "it was deleted meanwhile")
		one.apply(did, update(tid(2), a), update(tid(1), b))
		require.True(t, two.apply(did, put(tid(1), a)).Writes[0].Changed, "the same was not what stood there any more")
		head, err := one.Head(t.Context(), did)
		require.NoError(t, err)
		one.apply(did, create(tid(3), a))
		_, err = two.Apply(t.Context(), did, []repostore.Write{create(tid(4), a)}, repostore.Options{SwapCommit: &head.Commit})
		require.ErrorIs(t, err, repostore.ErrInvalidSwap, "prepared on a stale head, refused on the true one")
		_, err = two.Apply(t.Context(), did, []repostore.Write{create(tid(4), a)}, repostore.Options{SwapCommit: &first.Commit.CID})
		require.ErrorIs(t, err, repostore.ErrInvalidSwap)
		one.consistent(did)
	})
}

// A COMMIT that fails takes back all of its batch: the state is the
// database's, callers are told, and writes go on.
func TestFailedCommit(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did, other := h.account("scout"), h.account("keeper")
		h.apply(did, create(tid(0), note(t, "before")))
		before := h.consistent(did)

		repair := breakCommits(t, db)
		together(6, func(i int) {
			_, err := h.Apply(t.Context(), []syntax.DID{did, other}[i%2], []repostore.Write{create(tid(1+i), note(t, "lost"))}, repostore.Options{})
			if err == nil {
				t.Error("acknowledged without a commit")
			}
		})
		require.Equal(t, before, h.consistent(did))
		require.Empty(t, h.consistent(other))
		repair()

		h.apply(did, create(tid(1), note(t, "after")))
		h.apply(other, create(tid(2), note(t, "after")))
		require.Len(t, h.consistent(did), 2)
		require.Len(t, h.consistent(other), 1)
	})
}

// breakCommits makes each transaction that appends an event fail at its
// COMMIT, by a deferred foreign key.
func breakCommits(t *testing.T, db *migrations.DB) (repair func()) {
	t.Helper()
	run := func(statements ...string) {
		for _, statement := range statements {
			require.NoError(t, db.Write.WithContext(context.WithoutCancel(t.Context())).Exec(statement).Error)
		}
	}
	run("CREATE TABLE parents (id BIGINT PRIMARY KEY)",
		"CREATE TABLE orphans (id BIGINT REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)")
	if db.Dialect == migrations.SQLite {
		run("CREATE TRIGGER orphan AFTER INSERT ON events BEGIN INSERT INTO orphans VALUES (1); END")
		return func() { run("DROP TRIGGER orphan") }
	}
	run("CREATE FUNCTION orphan() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO orphans VALUES (1); RETURN NULL; END'",
		"CREATE TRIGGER orphan AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION orphan()")
	return func() { run("DROP TRIGGER orphan ON events") }
}

// One repo's trouble inside the transaction leaves the others' commits alone.
func TestOneChainFailsAlone(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		for name, trouble := range map[string]struct { // the names are parts of DIDs, too
			happens func(h *host, bad syntax.DID) error // between prepare and commit
			answer  func(t *testing.T, err error)
		}{
			"repo": {
				func(h *host, bad syntax.DID) error {
					return db.Tx(t.Context(), func(tx *gorm.DB) error { return h.DeleteRepo(t.Context(), tx, bad) })
				},
				func(t *testing.T, err error) { require.ErrorIs(t, err, repostore.ErrRepoNotFound) },
			},
			"blob": {
				func(*host, syntax.DID) error {
					return db.Write.WithContext(t.Context()).Exec("DELETE FROM blobs").Error
				},
				func(t *testing.T, err error) { requireRefusal(t, "BlobNotFound", err) },
			},
		} {
			t.Run(name, func(t *testing.T) {
				h := idleHost(t, db)
				good, bad := h.account(name+"-good"), h.account(name+"-bad")
				a := blobOf(t, name)
				h.addBlob(bad, a)
				kept, lost := make(chan error, 1), make(chan error, 1)
				apply := func(did syntax.DID, rec *lexicons.Record, answer chan error) {
					_, err := h.Apply(t.Context(), did, []repostore.Write{create(tid(1), rec)}, repostore.Options{})
					answer <- err
				}
				go apply(good, note(t, "kept"), kept)
				go apply(bad, withBlobs(t, "lost", a), lost)
				require.Eventually(t, func() bool { return h.Waiting() == 2 }, 10*time.Second, time.Millisecond)
				require.NoError(t, trouble.happens(h, bad))
				h.run()
				require.NoError(t, <-kept)
				trouble.answer(t, <-lost)
				require.Len(t, h.consistent(good), 1)
				require.Equal(t, int64(1), h.Stats().Conflicts)
			})
		}
	})
}

// A batch that replaces every record of a repo: relays undo it in an order in
// which the tree is empty for a moment. Either they can verify the commit or it
// is refused.
func TestBatchThatReplacesEverything(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		refused := 0
		for size := 1; size <= 30; size++ {
			did := h.account(fmt.Sprint("scout", size))
			var first, second, removal []repostore.Write
			for i := range size {
				first = append(first, create(tid(2*i), note(t, "a")))
				removal = append(removal, remove(noteNSID, tid(2*i)))
				second = append(second, create(tid(2*i+1), note(t, "b")))
			}
			h.apply(did, first...)
			_, err := h.Apply(t.Context(), did, append(removal[:size:size], second...), repostore.Options{})
			if err != nil {
				refused++
				requireRefusal(t, "InvalidRequest", err)
				h.apply(did, removal...)
				h.apply(did, second...)
			}
			require.Len(t, h.consistent(did), size)
		}
		t.Logf("%d of 30 were refused", refused)
	})
}

// brokenKeys panics for one DID.
type brokenKeys struct {
	*keyring
	broken atomic.Bool
}

func (k *brokenKeys) SigningKey(ctx context.Context, did syntax.DID) (atcrypto.PrivateKey, error) {
	if k.broken.Load() {
		panic("the key store is on fire")
	}
	return k.keyring.SigningKey(ctx, did)
}

func TestPanicFailsOneWriteOnly(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		keys := &brokenKeys{}
		h := newHost(t, db, func(c *repostore.Config) {
			keys.keyring = c.Keys.(*keyring)
			c.Keys = keys
		})
		did := h.account("scout")
		keys.broken.Store(true)
		require.ErrorContains(t, h.refused(did, create(tid(1), note(t, "a"))), "on fire")
		keys.broken.Store(false)
		h.apply(did, create(tid(1), note(t, "a")))
		require.Len(t, h.consistent(did), 1)
	})
}

func TestEndOfContextAndOfRun(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := idleHost(t, db)
		did := h.account("scout")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := h.Apply(ctx, did, []repostore.Write{create(tid(1), note(t, "late"))}, repostore.Options{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		h.run()
		require.Eventually(t, func() bool { return h.Stats().Commits == 1 }, 10*time.Second, time.Millisecond, "it may still land")
		h.stop()
		_, err = h.Apply(t.Context(), did, []repostore.Write{create(tid(2), note(t, "too late"))}, repostore.Options{})
		require.ErrorIs(t, err, repostore.ErrClosed)
		require.Len(t, h.consistent(did), 1)
	})
}

// The rev increases whatever the clock does.
func TestRevIncreasesUnderAnyClock(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		var clock atomic.Int64
		clock.Store(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixNano())
		h := newHost(t, db, func(c *repostore.Config) {
			c.Now = func() time.Time { return time.Unix(0, clock.Load()) }
		})
		did := h.account("scout")
		rev := func() syntax.TID {
			head, err := h.Head(t.Context(), did)
			require.NoError(t, err)
			return head.Rev
		}
		last := rev()
		for i, step := range []time.Duration{0, 0, time.Nanosecond, -time.Hour, 0, -time.Hour, 3 * time.Hour} {
			clock.Add(int64(step))
			h.apply(did, create(tid(i), note(t, "n")))
			require.Greater(t, rev(), last)
			last = rev()
		}
		clock.Add(-int64(48 * time.Hour))
		require.ErrorContains(t, h.refused(did, create(tid(90), note(t, "n"))), "ahead of the clock")
		h.consistent(did)
	})
}

// Any history of batches, as a strict consumer follows it; the node table
// holds exactly the nodes of the head.
func TestAnyHistoryVerifies(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db, func(c *repostore.Config) { c.CachedNodes = 8 })
		fewerChecks(t, 15)
		accounts := 0
		rapid.Check(t, func(r *rapid.T) {
			accounts++
			did := h.account(fmt.Sprint("scout", accounts))
			stands := map[string]bool{}
			for range rapid.IntRange(1, 12).Draw(r, "batches") {
				used := map[int]bool{}
				var writes []repostore.Write
				for range rapid.IntRange(1, 6).Draw(r, "writes") {
					n := rapid.IntRange(0, 60).Draw(r, "n")
					if used[n] {
						continue
					}
					used[n] = true
					rkey := tid(n * 37)
					if rapid.IntRange(0, 2).Draw(r, "kind") > 0 {
						writes = append(writes, put(rkey, note(t, fmt.Sprint(rapid.IntRange(0, 3).Draw(r, "text")))))
						stands[rkey] = true
					} else {
						writes = append(writes, remove(noteNSID, rkey))
						delete(stands, rkey)
					}
				}
				h.apply(did, writes...)
			}
			held := h.consistent(did)
			require.Len(r, held, len(stands))
			require.Equal(r, nodesOf(t, held), storedNodes(t, db, did))
		})
	})
}

// fewerChecks lowers rapid's default number of checks for a slow property; a
// number given on the command line stands.
func fewerChecks(t *testing.T, n int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if was := checks.Value.String(); was == checks.DefValue {
		require.NoError(t, checks.Value.Set(fmt.Sprint(n)))
		t.Cleanup(func() { require.NoError(t, checks.Value.Set(was)) })
	}
}

func nodesOf(t *testing.T, records map[string]cid.Cid) map[string]int {
	t.Helper()
	tree, err := mst.LoadTreeFromMap(records)
	require.NoError(t, err)
	_, err = tree.RootCID()
	require.NoError(t, err)
	count := map[string]int{}
	var walk func(n *mst.Node)
	walk = func(n *mst.Node) {
		count[n.CID.String()]++
		for _, e := range n.Entries {
			if e.Child != nil {
				walk(e.Child)
			}
		}
	}
	walk(tree.Root)
	return count
}

func storedNodes(t *testing.T, db *migrations.DB, did syntax.DID) map[string]int {
	t.Helper()
	rows, err := db.Read.WithContext(t.Context()).Raw("SELECT nodes.cid FROM nodes JOIN repos ON repos.id = nodes.repo_id WHERE repos.did = ?", string(did)).Rows()
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	count := map[string]int{}
	for rows.Next() {
		var key []byte
		require.NoError(t, rows.Scan(&key))
		c, err := cid.Cast(key)
		require.NoError(t, err)
		count[c.String()]++
	}
	require.NoError(t, rows.Err())
	return count
}

// A log whose seq runs backwards is our own corruption: the committer stops,
// loudly, and acknowledges nothing.
func TestBrokenSequenceStopsTheCommitter(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := idleHost(t, db)
		did := h.account("scout")
		require.NoError(t, db.Write.WithContext(t.Context()).Exec("UPDATE event_sequence SET last_seq = 0").Error)
		ended := make(chan error, 1)
		go func() { ended <- h.Run(t.Context()) }()
		require.ErrorIs(t, h.refused(did, create(tid(1), note(t, "a"))), sequencer.ErrSequence)
		require.ErrorIs(t, <-ended, sequencer.ErrSequence)
		require.ErrorIs(t, h.refused(did, create(tid(1), note(t, "a"))), repostore.ErrClosed)
	})
}
