package pds_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/buckettest"
	"herbarium.garden/pds"
)

// Whoever uploads or asks for bytes that another account has cannot tell by the
// time it takes: the host does the same as if nobody had them.
func TestWhatAnotherAccountHasDoesNotShow(t *testing.T) {
	bucket := buckettest.NewFaulty(blobstore.NewMemory())
	eachHost(t, setting{bucket: bucket}, func(t *testing.T, h *host) {
		owner, other := h.agent(t, "owner"), h.agent(t, "other")
		content := []byte("what somebody saw " + string(h.did))
		calls := func(do func()) []buckettest.Op {
			bucket.Heal() // forgets the calls before
			do()
			return bucket.Calls()
		}
		first := calls(func() { h.upload(t, owner, content, "text/plain").ok(t) })
		require.Equal(t, []buckettest.Op{buckettest.Put}, first)
		h.create(t, owner, note, object{"blob": blobOf(h.upload(t, owner, content, "text/plain").ok(t))}).ok(t)

		// What another has, and what nobody has.
		ask := func(content []byte) (r reply, ops []buckettest.Op) {
			ops = calls(func() { r = h.getBlob(t, other.access, other.did, rawCID(t, content)) })
			r.refused(t, 400, "BlobNotFound")
			return r, ops
		}
		others, opsOthers := ask(content)
		nobodys, opsNobodys := ask([]byte("what nobody saw"))
		require.Equal(t, len(nobodys.Body), len(others.Body))
		require.Empty(t, opsOthers)
		require.Empty(t, opsNobodys)

		require.Equal(t, first, calls(func() { h.upload(t, other, content, "text/plain").ok(t) }))
		h.getBlob(t, other.access, other.did, rawCID(t, content)).refused(t, 400, "BlobNotFound")
	})
}

// Bytes that were changed and of which nobody knows yet: an upload of the same
// bytes puts the right ones there.
func TestAnUploadMendsWhatWasNotFoundYet(t *testing.T) {
	eachVault(t, setting{}, func(t *testing.T, v *vault) {
		a, other := v.agent(t, "scout"), v.agent(t, "other")
		s := v.specimen(t, a, "seen", "what was seen")
		v.flip(t, s.name)
		v.upload(t, other, s.content, "application/x-own").ok(t)
		v.serves(t, a, s)
		require.Empty(t, v.check(t, pds.BlobCheck{Sample: 1}))
	})
}

// Damaged bytes that no account has any more are kept for a while to be looked
// at, and then go too, together with those of a blob that was uploaded anew.
func TestTheQuarantineIsEmptied(t *testing.T) {
	now := newClock()
	eachVault(t, setting{clock: now}, func(t *testing.T, v *vault) {
		a := v.agent(t, "scout")
		damaged, mended := v.specimen(t, a, "damaged", "what was seen"), v.specimen(t, a, "mended", "what else was seen")
		for _, s := range []specimen{damaged, mended} {
			v.flip(t, s.name)
		}
		require.Len(t, v.check(t, pds.BlobCheck{Sample: 1, Quarantine: true}), 2)
		v.upload(t, a, mended.content, "application/x-own").ok(t)
		collect := func() (did [3]int64) {
			collected, err := v.pds.CollectBlobs(t.Context(), false)
			require.NoError(t, err)
			return [3]int64{collected.Trashed.Count, collected.Emptied.Count, collected.Cleared.Count}
		}
		now.advance(pds.DefaultBlobTrash + pds.DefaultBlobGrace)
		require.Zero(t, collect(), "records refer to both")
		v.file(t, "quarantine", damaged.name)

		a.access = "Bearer " + v.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.handle, "password": a.password}).ok(t).str("accessJwt")
		v.delete(t, a, note, "damaged").ok(t)
		v.delete(t, a, note, "mended").ok(t)
		require.Zero(t, collect(), "the grace begins when the last record lets go")
		now.advance(pds.DefaultBlobGrace + time.Minute)
		require.Equal(t, [3]int64{1, 0, 1}, collect())
		now.advance(pds.DefaultBlobTrash + time.Minute)
		require.Equal(t, [3]int64{0, 1, 0}, collect())
		for _, place := range []blobstore.Place{blobstore.Live, blobstore.Trash, blobstore.Quarantine} {
			require.NoError(t, v.bucket.List(t.Context(), string(place), "", func(at blobstore.Object) error {
				return fmt.Errorf("%s is left", at.Key)
			}))
		}
		require.Zero(t, collect())
	})
}

// Nothing damaged gets into the trash, from which an upload that comes in the
// midst of the move would have its right bytes replaced.
func TestACollectionTakesDamageToTheQuarantine(t *testing.T) {
	now := newClock()
	eachVault(t, setting{clock: now}, func(t *testing.T, v *vault) {
		a := v.agent(t, "scout")
		damaged := v.specimen(t, a, "damaged", "what was seen")
		v.specimen(t, a, "right", "what else was seen")
		v.flip(t, damaged.name)
		v.delete(t, a, note, "damaged").ok(t)
		v.delete(t, a, note, "right").ok(t)
		now.advance(pds.DefaultBlobGrace + time.Minute)
		collected, err := v.pds.CollectBlobs(t.Context(), false)
		require.NoError(t, err)
		require.Equal(t, [2]int64{1, 1}, [2]int64{collected.Trashed.Count, collected.Damaged.Count})
		v.file(t, "quarantine", damaged.name)
		a.access = "Bearer " + v.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.handle, "password": a.password}).ok(t).str("accessJwt")
		v.upload(t, a, damaged.content, "application/x-own").ok(t)
		require.Empty(t, v.check(t, pds.BlobCheck{Sample: 1}))
	})
}

// A mover that died while it took a damaged object away keeps nobody from
// uploading it for ever.
func TestADeadIsolationIsTakenOver(t *testing.T) {
	now := newClock()
	eachHost(t, setting{clock: now}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		content := []byte("what was seen")
		h.upload(t, a, content, "text/plain").ok(t)
		name, err := cid.Decode(rawCID(t, content))
		require.NoError(t, err)
		_, err = h.repos.Isolate(t.Context(), deadWard{}, name)
		require.ErrorIs(t, err, errDeadWard)
		h.upload(t, a, content, "text/plain").refused(t, 503, "ServiceUnavailable")
		now.advance(90 * time.Minute)
		h.upload(t, a, content, "text/plain").ok(t)
		h.create(t, a, note, object{"blob": object{"$type": "blob", "ref": object{"$link": name.String()}, "mimeType": "text/plain", "size": len(content)}}).ok(t)
	})
}

var errDeadWard = errors.New("the mover died")

// deadWard finds damage and dies over it.
type deadWard struct{}

func (deadWard) Damaged(context.Context, cid.Cid) (bool, error) { return true, nil }
func (deadWard) Isolate(context.Context, cid.Cid) error         { return errDeadWard }

// A check of everything lists the bucket and asks for no object by itself, also
// when it takes the CIDs in several parts.
func TestACheckListsTheBucket(t *testing.T) {
	bucket := buckettest.NewFaulty(blobstore.NewMemory())
	now := newClock()
	eachHost(t, setting{bucket: bucket, clock: now}, func(t *testing.T, h *host) {
		bucket.Heal()
		a := h.agent(t, "scout")
		var names []string
		for i := range 40 {
			content := fmt.Appendf(nil, "specimen %d of %s", i, h.did)
			h.put(t, a, note, fmt.Sprint("r", i), object{"blob": blobOf(h.upload(t, a, content, "text/plain").ok(t))}).ok(t)
			names = append(names, rawCID(t, content))
		}
		gone, err := cid.Decode(names[7])
		require.NoError(t, err)
		store, err := blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: t.TempDir()})
		require.NoError(t, err)
		require.NoError(t, store.Delete(t.Context(), gone))
		orphan, err := store.Receive(t.Context(), strings.NewReader("nobody's, "+string(h.did)), "")
		require.NoError(t, err)
		now.advance(pds.DefaultBlobGrace + time.Hour)
		for _, atOnce := range []int64{100, 9, 1} {
			bucket.Heal()
			var found []string
			report, err := h.pds.CheckBlobsAtOnce(t.Context(), pds.BlobCheck{}, atOnce, func(f pds.BlobFault) error {
				found = append(found, string(f.Kind)+" "+f.CID.String())
				return nil
			})
			require.NoError(t, err)
			require.ElementsMatch(t, []string{"missing " + gone.String(), "orphan " + orphan.CID.String()}, found)
			require.EqualValues(t, 40, report.Blobs)
			require.EqualValues(t, 40, report.Listed)
			asked := 0
			for _, op := range bucket.Calls() {
				if op == buckettest.Stat {
					asked++
				}
			}
			require.Equal(t, 1, asked, "only of the one that the listing did not show")
		}
		require.NoError(t, store.Delete(t.Context(), orphan.CID)) // the bucket is another database's too
		for _, name := range names {
			c, err := cid.Decode(name)
			require.NoError(t, err)
			require.NoError(t, store.Delete(t.Context(), c))
		}
	})
}

// What an account stores tells what of it is damaged and what is missing.
func TestUsageTellsOfDamage(t *testing.T) {
	eachVault(t, setting{}, func(t *testing.T, v *vault) {
		a, b := v.agent(t, "one"), v.agent(t, "two")
		flipped, gone := v.specimen(t, a, "x", "flipped"), v.specimen(t, a, "y", "gone")
		v.specimen(t, b, "x", "gone")
		v.flip(t, flipped.name)
		require.NoError(t, os.Remove(v.file(t, "objects", gone.name)))
		v.check(t, pds.BlobCheck{Sample: 1, Quarantine: true})
		usage := map[string][2]any{}
		for _, item := range v.query(t, admin(), "garden.herbarium.admin.listStorage").ok(t).list("accounts") {
			u := object(item.(map[string]any))
			usage[u.str("did")] = [2]any{u["quarantinedBlobs"], u["missingBlobs"]}
		}
		require.Equal(t, map[string][2]any{
			a.did: {json.Number("1"), json.Number("1")}, b.did: {json.Number("0"), json.Number("1")},
		}, usage)
		status := v.query(t, admin(), "garden.herbarium.admin.getStorageStatus").ok(t)
		require.Equal(t, json.Number("3"), status.at("accounts", "blobs"))
		require.Equal(t, json.Number("1"), status.at("live", "blobs"), "gone is one object of two accounts, and flipped is in quarantine")
		require.Equal(t, json.Number("1"), status.at("missing"))
	})
}

// Checks can be narrowed to an account, and to what was uploaded lately.
func TestACheckOfSomeBlobs(t *testing.T) {
	now := newClock()
	eachVault(t, setting{clock: now}, func(t *testing.T, v *vault) {
		a, b := v.agent(t, "one"), v.agent(t, "two")
		early := v.specimen(t, a, "x", "early")
		now.advance(time.Hour)
		late := v.specimen(t, b, "x", "late")
		for _, s := range []specimen{early, late} {
			v.flip(t, s.name)
		}
		found := func(check pds.BlobCheck) (names []string) {
			check.Sample = 1
			for _, f := range v.check(t, check) {
				names = append(names, f.CID.String())
			}
			return names
		}
		require.ElementsMatch(t, []string{early.name, late.name}, found(pds.BlobCheck{}))
		require.Equal(t, []string{early.name}, found(pds.BlobCheck{DID: syntax.DID(a.did)}))
		require.Equal(t, []string{late.name}, found(pds.BlobCheck{Since: now.Now().Add(-time.Minute)}))
		none, err := v.pds.CheckBlobs(t.Context(), pds.BlobCheck{DID: syntax.DID(a.did), Since: now.Now().Add(-time.Minute), Sample: 1}, func(f pds.BlobFault) error {
			return fmt.Errorf("found %v", f)
		})
		require.NoError(t, err)
		require.Zero(t, none)
	})
}
