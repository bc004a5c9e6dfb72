package repostore_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"pgregory.net/rapid"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/repostore"
)

// errDied is what a mover returns that was killed: whatever came after did not happen.
var errDied = errors.New("the mover died")

// bin is the bytes of a bucket, as far as a collection moves them. Each of its
// methods is the two steps that a real bucket takes, with meanwhile called
// before, between and after them.
type bin struct {
	mu          sync.Mutex
	live, trash map[cid.Cid]bool
	meanwhile   func() error // may write to the store, or kill the mover
}

func newBin() *bin {
	return &bin{live: map[cid.Cid]bool{}, trash: map[cid.Cid]bool{}, meanwhile: func() error { return nil }}
}

func (b *bin) steps(steps ...func()) error {
	for _, step := range steps {
		if err := b.meanwhile(); err != nil {
			return err
		}
		b.mu.Lock()
		step()
		b.mu.Unlock()
	}
	return b.meanwhile()
}

func (b *bin) Trash(_ context.Context, c cid.Cid) error {
	var copied bool
	return b.steps(func() {
		if copied = b.live[c]; copied {
			b.trash[c] = true
		}
	}, func() {
		if copied { // what came since has no copy
			delete(b.live, c)
		}
	})
}

func (b *bin) Restore(_ context.Context, c cid.Cid) error {
	return b.steps(func() {
		if b.trash[c] {
			b.live[c] = true
		}
	})
}

func (b *bin) Empty(_ context.Context, c cid.Cid) error {
	return b.steps(func() { delete(b.trash, c) })
}

func (b *bin) has(c cid.Cid) (live, anywhere bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live[c], b.live[c] || b.trash[c]
}

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

const (
	grace     = 24 * time.Hour
	trashTime = 7 * 24 * time.Hour
)

// collector is a host with a bucket and a clock.
type collector struct {
	*host
	*bin
	*clock
}

func newCollector(t testing.TB, db *migrations.DB) *collector {
	time0 := &clock{at: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)}
	return &collector{host: newHost(t, db, func(c *repostore.Config) { c.Now = time0.now }), bin: newBin(), clock: time0}
}

func (c *collector) collection() repostore.Collection {
	now := c.now()
	return repostore.Collection{Abandoned: now.Add(-grace), Trashed: now.Add(-trashTime), Stalled: now.Add(-time.Hour)}
}

func (c *collector) collect() repostore.Collected {
	c.t.Helper()
	did, err := c.Collect(c.t.Context(), c.bin, c.collection())
	require.NoError(c.t, err)
	return did
}

// upload stores bytes as the PDS does: claim, write, record.
func (c *collector) upload(did syntax.DID, b repostore.Blob) error {
	if err := c.ClaimObject(c.t.Context(), b.CID, b.Size); err != nil {
		return err
	}
	c.bin.mu.Lock()
	c.live[b.CID] = true
	c.bin.mu.Unlock()
	_, err := c.AddBlob(c.t.Context(), did, b, repostore.Policy{})
	return err
}

func specimen(t testing.TB, n int) repostore.Blob {
	content := fmt.Appendf(nil, "specimen %d", n)
	sum := sha256.Sum256(content)
	hash, err := multihash.Encode(sum[:], multihash.SHA2_256)
	require.NoError(t, err)
	return repostore.Blob{CID: cid.NewCidV1(cid.Raw, hash), MimeType: "text/plain", Size: int64(len(content))}
}

func (c *collector) noteWith(b repostore.Blob) *lexicons.Record {
	return record(c.t, noteNSID, map[string]any{"text": "with a blob", "blob": map[string]any{
		"$type": "blob", "ref": map[string]any{"$link": b.CID.String()}, "mimeType": b.MimeType, "size": b.Size,
	}})
}

func TestCollectTakesWhatNobodyRefersTo(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		c := newCollector(t, db)
		scout, other := c.account("scout"), c.account("other")
		kept, dropped, never := specimen(t, 1), specimen(t, 2), specimen(t, 3)
		for _, b := range []repostore.Blob{kept, dropped, never} {
			require.NoError(t, c.upload(scout, b))
		}
		require.NoError(t, c.upload(other, dropped))
		c.apply(scout, create("kept", c.noteWith(kept)), create("dropped", c.noteWith(dropped)))

		c.advance(grace + time.Minute)
		dry := c.collection()
		dry.DryRun = true
		would, err := c.Collect(t.Context(), c.bin, dry)
		require.NoError(t, err)
		require.Equal(t, repostore.Tally{Count: 2, Bytes: never.Size + dropped.Size}, would.Expired, "one that no record took, and the other account's")
		require.Zero(t, would.Trashed, "as long as an account has them, the bytes are somebody's")
		live, _ := c.has(never.CID)
		require.True(t, live, "a dry run moves nothing")

		did := c.collect()
		require.Equal(t, would.Expired, did.Expired)
		require.Equal(t, repostore.Tally{Count: 1, Bytes: never.Size}, did.Trashed)
		live, anywhere := c.has(never.CID)
		require.False(t, live)
		require.True(t, anywhere)

		// Its grace begins anew when the last record lets go of it.
		c.apply(scout, remove(noteNSID, "dropped"))
		require.Zero(t, c.collect().Expired)
		c.advance(grace + time.Minute)
		did = c.collect()
		require.EqualValues(t, 1, did.Expired.Count)
		require.EqualValues(t, 1, did.Trashed.Count)

		c.advance(trashTime + time.Minute)
		require.EqualValues(t, 2, c.collect().Emptied.Count)
		require.Empty(t, c.trash)
		live, _ = c.has(kept.CID)
		require.True(t, live)
		require.Equal(t, repostore.Collected{}, c.collect(), "nothing is left to do")
	})
}

func TestAnUploadBringsBackWhatIsInTheTrash(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		c := newCollector(t, db)
		scout := c.account("scout")
		b := specimen(t, 1)
		require.NoError(t, c.upload(scout, b))
		c.advance(grace + time.Minute)
		require.EqualValues(t, 1, c.collect().Trashed.Count)

		require.NoError(t, c.upload(scout, b))
		live, _ := c.has(b.CID)
		require.True(t, live, "the bytes are written anew")
		c.apply(scout, create("a", c.noteWith(b)))
		c.advance(trashTime + grace)
		require.Equal(t, repostore.Collected{}, c.collect())
	})
}

func TestTheEndOfAnAccountStartsTheGrace(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		c := newCollector(t, db)
		scout := c.account("scout")
		b := specimen(t, 1)
		require.NoError(t, c.upload(scout, b))
		c.apply(scout, create("a", c.noteWith(b)))
		c.advance(10 * grace)
		c.deleteRepo(scout)
		require.Zero(t, c.collect().Trashed)
		c.advance(grace + time.Minute)
		require.EqualValues(t, 1, c.collect().Trashed.Count)
	})
}

// TestCollectModel lets uploads, references, dereferences, ends of accounts and
// the death of the mover come in any order, also in the middle of a collection,
// and holds that what a record refers to can always be read, and that in the
// end everything else is gone.
func TestCollectModel(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		round := 0
		rapid.Check(t, func(rt *rapid.T) {
			round++
			c := newCollector(t, db)
			accounts := []syntax.DID{c.account(fmt.Sprintf("a%d", round)), c.account(fmt.Sprintf("b%d", round))}
			var specimens []repostore.Blob
			for i := range 3 {
				specimens = append(specimens, specimen(t, round*10+i))
			}
			type holding struct {
				did  syntax.DID
				rkey string
			}
			held := map[holding]repostore.Blob{}
			uploaded := map[syntax.DID]map[cid.Cid]time.Time{accounts[0]: {}, accounts[1]: {}}
			keys := 0

			pick := func() (syntax.DID, repostore.Blob) {
				return rapid.SampledFrom(accounts).Draw(rt, "account"), rapid.SampledFrom(specimens).Draw(rt, "specimen")
			}
			write := map[string]func(){
				"upload": func() {
					did, b := pick()
					err := c.upload(did, b)
					if errors.Is(err, repostore.ErrObjectBusy) {
						return // to be made again, and told so
					}
					require.NoError(rt, err)
					uploaded[did][b.CID] = c.now()
				},
				"claim and die": func() {
					_, b := pick()
					require.NoError(rt, c.ClaimObject(t.Context(), b.CID, b.Size))
				},
				"refer": func() {
					did, b := pick()
					keys++
					h := holding{did, fmt.Sprintf("k%d", keys)}
					_, err := c.Apply(t.Context(), did, []repostore.Write{create(h.rkey, c.noteWith(b))}, repostore.Options{})
					if at, ok := uploaded[did][b.CID]; ok && c.now().Sub(at) < grace {
						require.NoError(rt, err, "what was uploaded within the grace can be referred to")
					}
					if err == nil {
						held[h] = b
						uploaded[did][b.CID] = c.now()
					}
				},
				"upload and refer": func() {
					did, b := pick()
					if err := c.upload(did, b); errors.Is(err, repostore.ErrObjectBusy) {
						return // to be made again, and told so
					} else {
						require.NoError(rt, err)
					}
					keys++
					h := holding{did, fmt.Sprintf("k%d", keys)}
					c.apply(did, create(h.rkey, c.noteWith(b)))
					held[h] = b
					uploaded[did][b.CID] = c.now()
				},
				"let go": func() {
					for h, b := range held {
						c.apply(h.did, remove(noteNSID, h.rkey))
						delete(held, h)
						uploaded[h.did][b.CID] = c.now()
						return
					}
				},
				"wait":        func() { c.advance(rapid.SampledFrom([]time.Duration{time.Minute, grace / 2}).Draw(rt, "time")) },
				"wait longer": func() { c.advance(rapid.SampledFrom([]time.Duration{grace, trashTime}).Draw(rt, "time")) },
			}
			names := []string{"claim and die", "let go", "refer", "upload", "upload and refer", "wait", "wait longer"}
			died, moving := false, false
			check := func() {
				for h, b := range held {
					live, anywhere := c.has(b.CID)
					require.True(rt, anywhere, "%s of %s is gone", b.CID, h.did)
					require.True(rt, live || died || moving, "%s of %s was not brought back", b.CID, h.did)
				}
			}
			collect := func() {
				if rapid.Bool().Draw(rt, "after the grace") {
					c.advance(grace + time.Minute)
				}
				inside := rapid.IntRange(0, 4).Draw(rt, "writes inside")
				c.meanwhile = func() error {
					if inside > 0 {
						inside--
						switch name := rapid.SampledFrom([]string{"nothing", "die", "upload and refer", "upload and refer", "claim and die", "let go"}).Draw(rt, "inside"); name {
						case "nothing":
						case "die":
							died = true
							return errDied
						default:
							write[name]()
						}
					}
					check()
					return nil
				}
				moving = true
				_, err := c.Collect(t.Context(), c.bin, c.collection())
				moving = false
				if !errors.Is(err, errDied) {
					require.NoError(rt, err)
				}
				c.meanwhile = func() error { return nil }
			}
			for range rapid.IntRange(1, 25).Draw(rt, "steps") {
				if rapid.IntRange(0, 3).Draw(rt, "collect") == 0 {
					collect()
				} else {
					write[rapid.SampledFrom(names).Draw(rt, "step")]()
				}
				check()
			}
			// In the end a reader finds what is held where it is to be, and nothing
			// else is left.
			for h := range held {
				c.apply(h.did, remove(noteNSID, h.rkey))
			}
			clear(held)
			for range 4 {
				c.advance(trashTime + grace + time.Hour)
				c.collect()
			}
			require.Empty(rt, c.live, "collected")
			require.Empty(rt, c.trash, "emptied")
			c.stop()
		})
	})
}

func (h *host) deleteRepo(did syntax.DID) {
	h.t.Helper()
	require.NoError(h.t, h.db.Tx(h.t.Context(), func(tx *gorm.DB) error { return h.DeleteRepo(h.t.Context(), tx, did) }))
}
