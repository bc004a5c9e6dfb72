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

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/repostore"
)

// errDied is what a mover returns that was killed: whatever came after did not happen.
var errDied = errors.New("the mover died")

// content is what a place has of a CID.
type content int

const (
	nothing content = iota
	right
	damaged // other bytes than the CID says, and as many
)

// bin is the bytes of a bucket, as far as collections and checks move them. Each
// of its methods is the steps that a real bucket takes, with meanwhile called
// before, between and after them.
type bin struct {
	mu                sync.Mutex
	live, trash, ward map[cid.Cid]content
	read              cid.Cid      // found right and being moved
	meanwhile         func() error // may write to the store, or kill the mover
}

func newBin() *bin {
	return &bin{live: map[cid.Cid]content{}, trash: map[cid.Cid]content{}, ward: map[cid.Cid]content{}, meanwhile: func() error { return nil }}
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

// move copies and then deletes what was copied, whatever that is by then. It does
// nothing when there is nothing to copy.
func (b *bin) move(c cid.Cid, from, to map[cid.Cid]content) error {
	copied := false
	return b.steps(func() {
		if copied = from[c] != nothing; copied {
			to[c] = from[c]
		}
	}, func() {
		if copied {
			delete(from, c)
		}
	})
}

func (b *bin) Trash(_ context.Context, c cid.Cid) error {
	var found content
	if err := b.steps(func() {
		if found = b.live[c]; found == right {
			b.read = c
		}
	}); err != nil {
		return err
	}
	defer func() { b.read = cid.Undef }()
	if found == damaged {
		return repostore.ErrObjectDamaged
	}
	return b.move(c, b.live, b.trash)
}

func (b *bin) Restore(_ context.Context, c cid.Cid) error {
	if b.in(b.live, c) == nothing {
		return b.move(c, b.trash, b.live)
	}
	return b.steps(func() { delete(b.trash, c) })
}

func (b *bin) Empty(_ context.Context, c cid.Cid) error {
	return b.steps(func() { delete(b.trash, c) }, func() { delete(b.ward, c) })
}

func (b *bin) Damaged(_ context.Context, c cid.Cid) (is bool, err error) {
	err = b.steps(func() { is = b.live[c] != right })
	return is, err
}

func (b *bin) Isolate(_ context.Context, c cid.Cid) error { return b.move(c, b.live, b.ward) }

// put writes the right bytes where readers look.
func (b *bin) put(c cid.Cid) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live[c] = right
}

func (b *bin) in(place map[cid.Cid]content, c cid.Cid) content {
	b.mu.Lock()
	defer b.mu.Unlock()
	return place[c]
}

// has says whether the right bytes are where readers look, and whether they are
// there or in the trash.
func (b *bin) has(c cid.Cid) (live, anywhere bool) {
	live = b.in(b.live, c) == right
	return live, live || b.in(b.trash, c) == right
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
	c.put(b.CID)
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

func (h *host) deleteRepo(did syntax.DID) {
	h.t.Helper()
	require.NoError(h.t, h.db.Tx(h.t.Context(), func(tx *gorm.DB) error { return h.DeleteRepo(h.t.Context(), tx, did) }))
}
