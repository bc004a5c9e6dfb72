package repostore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/repostore"
)

// blobWorld is what TestCollectModel knows of a host and its bucket.
type blobWorld struct {
	*collector
	rt        *rapid.T
	accounts  []syntax.DID
	specimens []repostore.Blob
	keys      int

	held     map[holding]repostore.Blob
	uploaded map[syntax.DID]map[cid.Cid]time.Time // since when the grace counts
	rotten   map[cid.Cid]bool                     // were changed behind everybody's back, and not put right since

	moving bool // a collection or an isolation is under way
	died   bool // one was, and was killed
	inside int  // how much may still happen in the midst of it
}

// holding is a record that refers to a blob.
type holding struct {
	did  syntax.DID
	rkey string
}

func newBlobWorld(t *testing.T, rt *rapid.T, db *migrations.DB, round int) *blobWorld {
	w := &blobWorld{
		collector: newCollector(t, db), rt: rt,
		held: map[holding]repostore.Blob{}, uploaded: map[syntax.DID]map[cid.Cid]time.Time{}, rotten: map[cid.Cid]bool{},
	}
	for _, name := range []string{"a", "b"} {
		did := w.account(fmt.Sprint(name, round))
		w.accounts = append(w.accounts, did)
		w.uploaded[did] = map[cid.Cid]time.Time{}
	}
	for i := range 3 {
		w.specimens = append(w.specimens, specimen(t, round*10+i))
	}
	return w
}

func (w *blobWorld) anAccount() syntax.DID {
	return rapid.SampledFrom(w.accounts).Draw(w.rt, "account")
}

func (w *blobWorld) aSpecimen() repostore.Blob {
	return rapid.SampledFrom(w.specimens).Draw(w.rt, "specimen")
}

// upload is false when the upload has to be made again, and is told so.
func (w *blobWorld) uploads(did syntax.DID, b repostore.Blob) bool {
	// The bytes are right from when they are written, be it acknowledged or not.
	err := w.ClaimObject(w.t.Context(), b.CID, b.Size)
	if err == nil {
		w.put(b.CID)
		_, err = w.AddBlob(w.t.Context(), did, b, repostore.Policy{})
	}
	if errors.Is(err, repostore.ErrObjectBusy) {
		return false
	}
	require.NoError(w.rt, err)
	delete(w.rotten, b.CID)
	w.uploaded[did][b.CID] = w.now()
	return true
}

func (w *blobWorld) refers(did syntax.DID, b repostore.Blob) error {
	w.keys++
	h := holding{did, fmt.Sprint("k", w.keys)}
	_, err := w.Apply(w.t.Context(), did, []repostore.Write{create(h.rkey, w.noteWith(b))}, repostore.Options{})
	if err == nil {
		w.held[h] = b
		w.uploaded[did][b.CID] = w.now()
	}
	return err
}

func (w *blobWorld) letGo(h holding) {
	w.apply(h.did, remove(noteNSID, h.rkey))
	w.uploaded[h.did][w.held[h].CID] = w.now()
	delete(w.held, h)
}

// do makes one step that is no collection and no check.
func (w *blobWorld) do(step string) {
	switch step {
	case "upload":
		w.uploads(w.anAccount(), w.aSpecimen())
	case "claim and die":
		if err := w.ClaimObject(w.t.Context(), w.aSpecimen().CID, 11); !errors.Is(err, repostore.ErrObjectBusy) {
			require.NoError(w.rt, err)
		}
	case "claim, write and die":
		b := w.aSpecimen()
		if err := w.ClaimObject(w.t.Context(), b.CID, b.Size); !errors.Is(err, repostore.ErrObjectBusy) {
			require.NoError(w.rt, err)
			w.put(b.CID)
		}
	case "refer":
		did, b := w.anAccount(), w.aSpecimen()
		at, ok := w.uploaded[did][b.CID]
		if err := w.refers(did, b); ok && w.now().Sub(at) < grace && !w.rotten[b.CID] {
			require.NoError(w.rt, err, "what was uploaded within the grace can be referred to")
		}
	case "upload and refer":
		if did, b := w.anAccount(), w.aSpecimen(); w.uploads(did, b) {
			require.NoError(w.rt, w.refers(did, b))
		}
	case "let go":
		for h := range w.held {
			w.letGo(h)
			return
		}
	case "rot":
		b := w.aSpecimen()
		w.bin.mu.Lock()
		if w.live[b.CID] == right && b.CID != w.read { // but not between the reading and the copying
			w.live[b.CID], w.rotten[b.CID] = damaged, true
		}
		w.bin.mu.Unlock()
	case "repair": // from a backup that has it all
		b := w.aSpecimen()
		o, on, err := w.Object(w.t.Context(), b.CID)
		require.NoError(w.rt, err)
		if !on || !o.Owned {
			return // a check mends what an account has
		}
		err = w.ClaimObject(w.t.Context(), b.CID, b.Size)
		if err == nil {
			w.put(b.CID)
			err = w.ObjectMended(w.t.Context(), b.CID)
		}
		if errors.Is(err, repostore.ErrObjectBusy) {
			return
		}
		require.NoError(w.rt, err)
		delete(w.rotten, b.CID)
	case "wait":
		w.advance(rapid.SampledFrom([]time.Duration{time.Minute, grace / 2}).Draw(w.rt, "time"))
	case "wait longer":
		w.advance(rapid.SampledFrom([]time.Duration{grace, trashTime}).Draw(w.rt, "time"))
	}
}

// move makes a collection or a check, in the midst of which other steps are made,
// and which may be killed there.
func (w *blobWorld) move(move func() error) {
	w.inside = rapid.IntRange(0, 4).Draw(w.rt, "steps inside")
	w.meanwhile = func() error {
		if w.inside > 0 {
			w.inside--
			step := rapid.SampledFrom([]string{
				"nothing", "die", "upload and refer", "upload and refer", "claim and die", "let go", "rot", "repair",
			}).Draw(w.rt, "inside")
			if step == "die" {
				w.died = true
				return errDied
			}
			w.do(step)
		}
		w.check()
		return nil
	}
	w.moving = true
	err := move()
	w.moving = false
	w.meanwhile = func() error { return nil }
	if !errors.Is(err, errDied) {
		require.NoError(w.rt, err)
	}
}

func (w *blobWorld) collection() error {
	_, err := w.Collect(w.t.Context(), w.bin, w.collector.collection())
	return err
}

// scrub reads what is due and takes away what it finds damaged.
func (w *blobWorld) scrub() error {
	ctx := w.t.Context()
	if err := w.ResumeIsolations(ctx, w.bin); err != nil {
		return err
	}
	list, err := w.DueObjects(ctx, w.now().Add(time.Second), repostore.Object{}, 10)
	if err != nil {
		return err
	}
	for _, o := range list {
		switch w.in(w.live, o.CID) {
		case right:
			err = w.ObjectRight(ctx, o.CID)
		case damaged:
			_, err = w.host.Isolate(ctx, w.bin, o.CID)
		default:
			err = w.ObjectMissing(ctx, o.CID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// check holds what is always so.
func (w *blobWorld) check() {
	for h, b := range w.held {
		if w.rotten[b.CID] {
			continue // lost until somebody brings the bytes
		}
		live, anywhere := w.has(b.CID)
		require.True(w.rt, anywhere, "%s of %s is gone", b.CID, h.did)
		require.True(w.rt, live || w.died || w.moving, "%s of %s was not brought back", b.CID, h.did)
		blob, _, err := w.GetBlob(w.t.Context(), h.did, b.CID)
		require.NoError(w.rt, err)
		require.False(w.rt, blob.Quarantined && !w.moving && !w.died, "%s of %s is right, and not served", b.CID, h.did)
	}
}

// TestCollectModel lets uploads, references, dereferences, damage, repairs and the
// death of the mover come in any order, also in the middle of a collection or an
// isolation. What a record refers to can always be read, unless it was damaged
// and nobody has brought the bytes since; in the end everything else is gone.
func TestCollectModel(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		round := 0
		rapid.Check(t, func(rt *rapid.T) {
			round++
			w := newBlobWorld(t, rt, db, round)
			steps := []string{
				"collect", "collect", "collect", "collect after the grace", "scrub", "scrub", "claim and die", "claim, write and die", "let go", "refer",
				"repair", "rot", "upload", "upload and refer", "upload and refer", "wait", "wait longer",
			}
			for range rapid.IntRange(1, 25).Draw(rt, "steps") {
				switch step := rapid.SampledFrom(steps).Draw(rt, "step"); step {
				case "collect after the grace":
					w.advance(grace + time.Minute)
					w.move(w.collection)
				case "collect":
					w.move(w.collection)
				case "scrub":
					w.move(w.scrub)
				default:
					w.do(step)
				}
				w.check()
			}
			// Once nobody dies any more, whatever was damaged is found, and a reader finds
			// what is right where it is to be.
			w.advance(2 * time.Hour)
			require.NoError(rt, w.scrub())
			for h, b := range w.held {
				blob, _, err := w.GetBlob(t.Context(), h.did, b.CID)
				require.NoError(rt, err)
				require.True(rt, blob.Quarantined || w.in(w.live, b.CID) != damaged, "%s of %s is damaged and served", b.CID, h.did)
			}
			for h := range w.held {
				w.letGo(h)
			}
			for range 4 {
				w.advance(trashTime + grace + time.Hour)
				require.NoError(rt, w.collection())
			}
			require.Empty(rt, w.live, "collected")
			require.Empty(rt, w.trash, "emptied")
			require.Empty(rt, w.ward, "cleared")
			w.stop()
		})
	})
}
