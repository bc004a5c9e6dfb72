package sequencer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/sequencer"
)

const (
	scout  syntax.DID = "did:web:scout.test"
	ranger syntax.DID = "did:web:ranger.test"
)

var (
	recordCID = cid.MustParse("bafyreihu7ll3vlzbxt7ju5l4nmdctv2kruoxyoqn7gnnhxvnqfrxfk4dfu")
	commitCID = cid.MustParse("bafyreie5cvv4h45feadgeuwhbcutmh6t2ceseocckahdoe6uat64zmz454")
)

// start makes a sequencer, with an adjusted Config.
func start(t testing.TB, db *migrations.DB, adjust ...func(*sequencer.Config)) *sequencer.Sequencer {
	t.Helper()
	cfg := sequencer.Config{DB: db, Log: slog.New(slog.DiscardHandler)}
	for _, f := range adjust {
		f(&cfg)
	}
	s, err := sequencer.New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// run keeps the sequencer polling until the test ends.
func run(t testing.TB, s *sequencer.Sequencer) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
}

// commit appends drafts in a transaction of its own and does not publish them.
func commit(t testing.TB, db *migrations.DB, s *sequencer.Sequencer, drafts ...sequencer.Draft) sequencer.Batch {
	t.Helper()
	var b sequencer.Batch
	require.NoError(t, db.Tx(context.Background(), func(tx *gorm.DB) (err error) {
		b, err = s.Append(context.Background(), tx, drafts...)
		return err
	}))
	return b
}

func publish(t testing.TB, db *migrations.DB, s *sequencer.Sequencer, drafts ...sequencer.Draft) int64 {
	t.Helper()
	b := commit(t, db, s, drafts...)
	s.Published(b)
	return b.Last()
}

func identity(did syntax.DID) sequencer.Draft { return sequencer.IdentityDraft{DID: did} }

// repeat is n drafts about a DID.
func repeat(did syntax.DID, n int) []sequencer.Draft {
	drafts := make([]sequencer.Draft, n)
	for i := range drafts {
		drafts[i] = identity(did)
	}
	return drafts
}

func seqs(events []sequencer.Event) []int64 {
	list := make([]int64, len(events))
	for i, e := range events {
		list[i] = e.Seq
	}
	return list
}

// from reads seqs after a cursor.
func from(t testing.TB, s *sequencer.Sequencer, cursor int64) []int64 {
	t.Helper()
	events, err := s.ReadFrom(t.Context(), cursor, 1000)
	require.NoError(t, err)
	return seqs(events)
}

func TestAppendNumbersInOrderAndRollbackTakesItBack(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		s := start(t, db)
		require.Equal(t, int64(3), publish(t, db, s, identity(scout), identity(ranger), identity(scout)))

		failed := errors.New("the commit fails")
		err := db.Tx(t.Context(), func(tx *gorm.DB) error {
			b, err := s.Append(t.Context(), tx, repeat(ranger, 5)...)
			require.NoError(t, err)
			require.Equal(t, int64(8), b.Last())
			return failed
		})
		require.ErrorIs(t, err, failed)
		require.Equal(t, []int64{1, 2, 3}, from(t, s, 0))

		require.Equal(t, int64(4), publish(t, db, s, sequencer.AccountDraft{DID: scout, Active: true}))
		events, err := s.ReadFrom(t.Context(), 0, 1000)
		require.NoError(t, err)
		require.Equal(t, []int64{1, 2, 3, 4}, seqs(events))
		require.Equal(t, sequencer.Account, events[3].Kind, "not what was rolled back under the same seq")
		last, err := s.Last(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(4), last)

		require.Zero(t, commit(t, db, s).Last(), "no drafts, no seq")
	})
}

func TestManyRowsInOneAppend(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		s := start(t, db)
		require.Equal(t, int64(157), publish(t, db, s, repeat(scout, 157)...))
		fromMemory, err := s.ReadFrom(t.Context(), 0, 1000)
		require.NoError(t, err)
		require.Len(t, fromMemory, 157)
		fromStore, err := start(t, db).ReadFrom(t.Context(), 0, 1000)
		require.NoError(t, err)
		require.Equal(t, fromMemory, fromStore, "the stored bytes are the sent bytes")
	})
}

func TestBadDraftsAreRefusedBeforeTheDatabase(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		s := start(t, db)
		good := sequencer.CommitDraft{DID: scout, Rev: "3kabcdefghij2", Commit: commitCID, Blocks: []byte("car")}
		with := func(change func(*sequencer.CommitDraft)) sequencer.Draft { d := good; change(&d); return d }
		for name, d := range map[string]sequencer.Draft{
			"no did":           identity(""),
			"no rev":           with(func(d *sequencer.CommitDraft) { d.Rev = "" }),
			"no commit":        with(func(d *sequencer.CommitDraft) { d.Commit = cid.Undef }),
			"no blocks":        with(func(d *sequencer.CommitDraft) { d.Blocks = nil }),
			"blocks too large": with(func(d *sequencer.CommitDraft) { d.Blocks = make([]byte, sequencer.MaxBlocks+1) }),
			"too many ops":     with(func(d *sequencer.CommitDraft) { d.Ops = make([]sequencer.Op, sequencer.MaxOps+1) }),
			"update sans prev": with(func(d *sequencer.CommitDraft) {
				d.Ops = []sequencer.Op{{Action: "update", Path: "a.b.c/1", CID: &recordCID}}
			}),
			"delete sans prev": with(func(d *sequencer.CommitDraft) { d.Ops = []sequencer.Op{{Action: "delete", Path: "a.b.c/1"}} }),
			"create with prev": with(func(d *sequencer.CommitDraft) {
				d.Ops = []sequencer.Op{{Action: "create", CID: &recordCID, Prev: &recordCID}}
			}),
			"unknown action":     with(func(d *sequencer.CommitDraft) { d.Ops = []sequencer.Op{{Action: "move", CID: &recordCID}} }),
			"empty sync":         sequencer.SyncDraft{DID: scout, Rev: "3kabcdefghij2"},
			"active with status": sequencer.AccountDraft{DID: scout, Active: true, Status: "takendown"},
			"inactive, no why":   sequencer.AccountDraft{DID: scout},
		} {
			t.Run(name, func(t *testing.T) {
				_, err := s.Append(t.Context(), nil, d) // no transaction: it must not be touched
				require.ErrorIs(t, err, sequencer.ErrBadDraft)
			})
		}
	})
}

// A process that dies between the commit and Published loses nothing, and the
// next one goes on with the next seq.
func TestRestartAfterTheCommit(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		s := start(t, db)
		publish(t, db, s, identity(scout))
		commit(t, db, s, identity(scout), identity(ranger)) // dies here

		again := start(t, db)
		require.Equal(t, []int64{2, 3}, from(t, again, 1))
		require.Equal(t, int64(4), publish(t, db, again, identity(scout)))
		require.Equal(t, []int64{1, 2, 3, 4}, from(t, again, 0))
	})
}

func TestSeqOutlivesTheEvents(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		later := time.Now().Add(100 * time.Hour)
		s := start(t, db)
		publish(t, db, s, repeat(scout, 9)...)
		old := start(t, db, func(c *sequencer.Config) { c.Now = func() time.Time { return later } })
		removed, err := old.Prune(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(9), removed)

		again := start(t, db)
		require.Empty(t, from(t, again, 0))
		require.Equal(t, int64(10), publish(t, db, again, identity(scout)))
		oldest, err := again.Oldest(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(9), oldest)
	})
}

func TestSequenceThatRanBackwardsStops(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		s := start(t, db)
		publish(t, db, s, repeat(scout, 5)...)
		require.NoError(t, db.Write.WithContext(t.Context()).Exec("UPDATE event_sequence SET last_seq = 2").Error)

		_, err := sequencer.New(t.Context(), sequencer.Config{DB: db})
		require.ErrorIs(t, err, sequencer.ErrSequence)
		err = db.Tx(t.Context(), func(tx *gorm.DB) error {
			_, err := s.Append(t.Context(), tx, identity(scout))
			return err
		})
		require.ErrorIs(t, err, sequencer.ErrSequence)
	})
}

func TestAdvanceAfterARestore(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		s := start(t, db)
		publish(t, db, s, repeat(scout, 3)...)
		require.NoError(t, s.Advance(t.Context(), 1000))
		require.NoError(t, s.Advance(t.Context(), 10), "never lowers")
		require.Equal(t, int64(1001), publish(t, db, s, identity(scout)))
		require.Equal(t, []int64{3, 1001}, from(t, s, 2))
	})
}

// Two appenders race between commit and Published: the order of the calls does
// not matter.
func TestPublishedOutOfOrder(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		s := start(t, db)
		publish(t, db, s, identity(scout))
		a := commit(t, db, s, repeat(scout, 2)...)
		b := commit(t, db, s, repeat(ranger, 2)...)
		s.Published(b)
		require.NoError(t, s.Wait(t.Context(), 1))
		require.Equal(t, []int64{2, 3, 4, 5}, from(t, s, 1))
		s.Published(a)
		require.Equal(t, []int64{2, 3, 4, 5}, from(t, s, 1))
		require.Equal(t, []int64{5}, from(t, s, 4))
	})
}

func TestWaitWakesForPublishedAndNotForWhatWasErased(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		s := start(t, db)
		publish(t, db, s, identity(scout), identity(ranger))
		require.NoError(t, s.Wait(t.Context(), 1))

		erase(t, db, s, ranger)
		blocked, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, s.Wait(blocked, 1), context.DeadlineExceeded, "event 2 is gone: a reader must not spin on it")

		woke := make(chan error, 1)
		go func() { woke <- s.Wait(t.Context(), 1) }()
		publish(t, db, s, identity(scout))
		require.NoError(t, <-woke)
		require.Equal(t, []int64{3}, from(t, s, 1))
	})
}

func erase(t testing.TB, db *migrations.DB, s *sequencer.Sequencer, did syntax.DID, drafts ...sequencer.Draft) {
	t.Helper()
	var b sequencer.Batch
	require.NoError(t, db.Tx(context.Background(), func(tx *gorm.DB) (err error) {
		if err := s.Erase(context.Background(), tx, did); err != nil {
			return err
		}
		b, err = s.Append(context.Background(), tx, drafts...)
		return err
	}))
	s.Erased(did)
	s.Published(b)
}

func TestEraseLeavesOnlyTheEndOfAnAccount(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		fast := func(c *sequencer.Config) { c.PollEvery = 5 * time.Millisecond }
		s, replica := start(t, db, fast), start(t, db, fast)
		publish(t, db, s, identity(scout), identity(ranger), identity(scout), identity(ranger))
		for seq := range int64(4) { // the other process has them in memory, too
			batch := commit(t, db, replica, identity(scout))
			replica.Published(batch)
			require.Equal(t, 5+seq, batch.Last())
		}
		require.Equal(t, []int64{5, 6, 7, 8}, from(t, replica, 4))
		erase(t, db, s, scout)
		run(t, replica)
		require.Eventually(t, func() bool { return len(from(t, replica, 4)) == 0 }, 5*time.Second, time.Millisecond, "the other process forgets them")

		erase(t, db, s, scout, sequencer.AccountDraft{DID: scout, Status: "deleted"})
		for _, s := range []*sequencer.Sequencer{s, replica, start(t, db)} {
			require.Equal(t, []int64{2, 4, 9}, from(t, s, 0))
		}
	})
}

func TestPruneKeepsToRetentionAndHoldsBackForAReader(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		clock := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		cursor := int64(2)
		s := start(t, db, func(c *sequencer.Config) {
			c.Now = func() time.Time { return clock }
			c.HoldBack = func(context.Context) (int64, error) { return cursor, nil }
		})
		prune := func() []int64 {
			_, err := s.Prune(t.Context())
			require.NoError(t, err)
			return from(t, start(t, db), 0)
		}
		publish(t, db, s, repeat(scout, 4)...)
		clock = clock.Add(71 * time.Hour)
		publish(t, db, s, repeat(scout, 2)...)
		require.Equal(t, []int64{1, 2, 3, 4, 5, 6}, prune(), "nothing is old")
		clock = clock.Add(2 * time.Hour)
		require.Equal(t, []int64{3, 4, 5, 6}, prune(), "the index has read up to 2")
		cursor = 6
		require.Equal(t, []int64{5, 6}, prune(), "5 and 6 are young")
		cursor = 0
		clock = clock.Add(29 * 24 * time.Hour)
		require.Equal(t, []int64{5, 6}, prune(), "held back")
		clock = clock.Add(25 * time.Hour)
		require.Empty(t, prune(), "but not for ever")

		broken := start(t, db, func(c *sequencer.Config) {
			c.HoldBack = func(context.Context) (int64, error) { return 0, errors.New("the index is away") }
		})
		publish(t, db, broken, identity(scout))
		_, err := broken.Prune(t.Context())
		require.ErrorContains(t, err, "the index is away")
	})
}

// Commit order is seq order: whoever reads an event has read, or can read,
// every one before it, with several processes appending at once.
func TestNobodySeesAHoleThatFillsLater(t *testing.T) {
	const (
		appenders = 4 // of each process
		each      = 20
	)
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		fast := func(c *sequencer.Config) { c.PollEvery = 2 * time.Millisecond }
		processes := []*sequencer.Sequencer{start(t, db, fast), start(t, db, fast)}
		run(t, processes[0])
		run(t, processes[1])
		var wg sync.WaitGroup
		for p, s := range processes {
			for a := range appenders {
				wg.Go(func() {
					did := syntax.DID(fmt.Sprintf("did:web:a%d.p%d.test", a, p))
					for range each {
						var b sequencer.Batch
						err := db.Tx(context.Background(), func(tx *gorm.DB) (err error) {
							b, err = s.Append(context.Background(), tx, repeat(did, 1+rand.IntN(3))...)
							if err == nil && rand.IntN(5) == 0 {
								err = errRollback
							}
							return err
						})
						if err == nil {
							s.Published(b)
						} else if !errors.Is(err, errRollback) {
							t.Error(err)
						}
					}
				})
			}
		}
		over := make(chan struct{})
		go func() { wg.Wait(); close(over) }()
		for _, s := range processes {
			cursor := int64(0)
			for done := false; !done; {
				select {
				case <-over:
					done = true // one more round, to the end
				default:
				}
				for {
					events, err := s.ReadFrom(t.Context(), cursor, 7)
					require.NoError(t, err)
					if len(events) == 0 {
						break
					}
					for _, e := range events {
						require.Equal(t, cursor+1, e.Seq)
						cursor = e.Seq
					}
				}
			}
			last, err := s.Last(t.Context())
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				for _, seq := range from(t, s, cursor) {
					require.Equal(t, cursor+1, seq)
					cursor = seq
				}
				return cursor == last
			}, 5*time.Second, time.Millisecond)
		}
	})
}

var errRollback = errors.New("rolled back on purpose")
