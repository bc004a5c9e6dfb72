package pds_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/buckettest"
	"herbarium.garden/pds"
	"herbarium.garden/pds/repostore"
)

// A bucket that fails at any step of uploads and collections costs answers, and
// no bytes: whatever a record was let refer to can be read once the bucket is
// well again, and when nothing refers to anything the bucket is emptied.
func TestCollectionOverAFailingBucket(t *testing.T) {
	now := newClock()
	bucket := buckettest.NewFaulty(blobstore.NewMemory())
	eachHost(t, setting{clock: now, bucket: bucket}, func(t *testing.T, h *host) {
		bucket.Heal()
		random := rand.New(rand.NewPCG(7, 11))
		a := h.agent(t, "scout")
		wait := func(d time.Duration) { // and sign in again, for a token lives two hours
			now.advance(d)
			a.access = "Bearer " + h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.handle, "password": a.password}).ok(t).str("accessJwt")
		}
		faults := []buckettest.Fault{buckettest.None, buckettest.Refused, buckettest.Persisted, buckettest.Cut, buckettest.Half}
		disturb := func() {
			bucket.Fail(func(op buckettest.Op, _ string) buckettest.Fault {
				switch fault := faults[random.IntN(len(faults))]; {
				case random.IntN(2) == 0:
					return buckettest.None
				case fault == buckettest.Half && op != buckettest.Move, fault == buckettest.Cut && op != buckettest.Get && op != buckettest.List:
					return buckettest.Refused
				default:
					return fault
				}
			})
		}

		held := map[string][]byte{} // by record key
		var uploads, refused, collections, cutOff int
		var total repostore.Collected
		collect := func() {
			did, err := h.pds.CollectBlobs(t.Context(), false)
			collections++
			if err != nil {
				cutOff++
			}
			total.Trashed.Count += did.Trashed.Count
			total.Emptied.Count += did.Emptied.Count
			total.Revived += did.Revived
		}
		for range 120 {
			disturb()
			switch content := fmt.Appendf(nil, "specimen %d", random.IntN(8)); random.IntN(6) {
			case 0, 1, 2:
				r := h.upload(t, a, content, "text/plain")
				uploads++
				if r.Status != 200 {
					require.Equal(t, 500, r.Status, "%s", r.Body)
					refused++
					continue
				}
				if random.IntN(3) > 0 {
					held[rkeyOf(h.create(t, a, note, object{"blob": blobOf(r.ok(t))}).ok(t))] = content
				}
			case 3:
				for rkey := range held {
					if len(held) < 4 {
						break
					}
					h.delete(t, a, note, rkey).ok(t)
					delete(held, rkey)
				}
			case 4:
				bucket.Heal() // signing in needs none of it
				wait(pds.DefaultBlobGrace / 2)
				disturb()
				collect()
			default:
				collect()
			}
		}
		bucket.Heal()
		wait(2 * time.Hour) // whoever died over an object counts as dead
		collect()
		require.NotEmpty(t, held)
		for _, content := range held {
			require.Equal(t, content, h.getBlob(t, a.access, a.did, rawCID(t, content)).Body)
		}
		for rkey := range held {
			h.delete(t, a, note, rkey).ok(t)
		}
		for range 3 {
			wait(pds.DefaultBlobGrace + pds.DefaultBlobTrash)
			collect()
		}
		require.NoError(t, bucket.List(t.Context(), "", "", func(at blobstore.Object) error {
			return fmt.Errorf("%s is left", at.Key)
		}))
		require.NotZero(t, refused)
		require.NotZero(t, cutOff)
		t.Logf("%d uploads, %d refused; %d collections, %d cut off; %d objects trashed, %d deleted, %d revived",
			uploads, refused, collections, cutOff, total.Trashed.Count, total.Emptied.Count, total.Revived)
	})
}
