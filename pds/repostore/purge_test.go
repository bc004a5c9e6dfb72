package repostore_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/repostore"
)

// purgeOf names versions of notes, and blobs.
func purgeOf(notes map[syntax.ATURI]*lexicons.Record, blobs ...repostore.Blob) *repostore.Purge {
	p := &repostore.Purge{ID: syntax.NewTIDNow(0), At: time.Now(), Actor: "admin"}
	for uri, rec := range notes {
		p.Records = append(p.Records, repostore.PurgedRecord{StrongRef: lexicons.StrongRef{URI: uri, CID: rec.CID}})
	}
	for _, b := range blobs {
		p.Blobs = append(p.Blobs, repostore.PurgedBlob{CID: b.CID})
	}
	return p
}

func noteURI(did syntax.DID, rkey string) syntax.ATURI {
	return syntax.ATURI("at://" + string(did) + "/" + string(noteNSID) + "/" + rkey)
}

// everyStep makes all steps of a purge that are the repos'.
func (h *host) everyStep(p *repostore.Purge) {
	h.t.Helper()
	announce := func(context.Context, *gorm.DB, syntax.DID) (bool, error) { return true, nil }
	require.NoError(h.t, h.PurgeRecords(h.t.Context(), p, "repo"))
	require.NoError(h.t, h.PurgeEvents(h.t.Context(), p, "events", announce))
	require.NoError(h.t, h.PurgeBlobs(h.t.Context(), p, "blobs"))
	remains, err := h.PurgeRemains(h.t.Context(), p)
	require.NoError(h.t, err)
	require.Equal(h.t, map[string]int64{"records": 0, "events": 0, "blobs": 0, "references": 0, "objects": 0}, remains)
}

// A purge that is taken over from a receipt takes along what a restore brought
// back elsewhere, with all that refers to its blobs, and the counters stay right.
func TestPurgeTakesCopiesAlong(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did, other := h.account("scout"), h.account("other")
		blob := blobOf(t, "seen")
		h.addBlob(did, blob)
		h.addBlob(other, blob)
		leaked := note(t, "the same words")
		h.apply(did, create(tid(1), leaked), create(tid(2), note(t, "others")))
		h.apply(other, create(tid(3), leaked), create(tid(4), withBlobs(t, "refers to it", blob)))

		p := purgeOf(map[syntax.ATURI]*lexicons.Record{noteURI(did, tid(1)): leaked}, blob)
		require.ErrorIs(t, h.BeginPurge(t.Context(), p), repostore.ErrPurgeBlocked)
		fresh, err := h.AdmitPurge(t.Context(), p)
		require.NoError(t, err)
		require.True(t, fresh)
		remains, err := h.PurgeRemains(t.Context(), p)
		require.NoError(t, err)
		require.Equal(t, map[string]int64{"records": 2, "events": 1, "blobs": 2, "references": 1, "objects": 1}, remains)
		h.everyStep(p)
		require.Len(t, p.Records, 2, "the copy is a part of it from now on")
		stored, err := h.GetPurge(t.Context(), p.ID)
		require.NoError(t, err)
		require.Len(t, stored.Records, 2)
		for _, d := range []syntax.DID{did, other} {
			usage, err := h.Usage(t.Context(), d)
			require.NoError(t, err)
			require.Equal(t, repostore.Usage{Records: 1}, usage)
		}
		fresh, err = h.AdmitPurge(t.Context(), p)
		require.NoError(t, err)
		require.False(t, fresh)
		h.everyStep(p) // again
		require.ErrorIs(t, h.refused(other, create(tid(5), leaked)), repostore.ErrPurged)
		require.ErrorIs(t, h.refused(did, create(tid(5), note(t, "fine")), create(tid(6), withBlobs(t, "refers to it", blob))), repostore.ErrPurged)
		_, err = h.AddBlob(t.Context(), did, blob, repostore.Policy{})
		require.ErrorIs(t, err, repostore.ErrPurged)
		require.ErrorIs(t, h.ClaimObject(t.Context(), blob.CID, blob.Size), repostore.ErrPurged)
	})
}

// Bytes on their way somewhere are waited for: their mover would bring them back.
func TestPurgeWaitsForAMover(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		blob := h.addBlob(h.account("scout"), blobOf(t, "seen"))
		p := purgeOf(nil, blob)
		require.NoError(t, h.BeginPurge(t.Context(), p))
		require.Equal(t, blob.Size, p.Blobs[0].Size)
		for state, busy := range map[string]bool{"trashing": true, "emptying": true, "quarantining": true, "trashed": false} {
			require.NoError(t, db.Write.Exec("UPDATE blob_objects SET state = ?", state).Error)
			err := h.PurgeBlobs(t.Context(), p, "blobs")
			if busy {
				require.ErrorIs(t, err, repostore.ErrObjectBusy, state)
			} else {
				require.NoError(t, err)
				h.addBlobAgain(blob)
			}
		}
	})
}

// addBlobAgain makes the row of an object as an upload would that was under way.
func (h *host) addBlobAgain(b repostore.Blob) {
	h.t.Helper()
	at := migrations.FormatTime(time.Now())
	require.NoError(h.t, h.db.Write.Exec("INSERT INTO blob_objects (size, cid, state, touched_at, changed_at) VALUES (?, ?, 'live', ?, ?)", b.Size, b.CID.Bytes(), at, at).Error)
}

// An import that was checked before something was purged does not bring it back,
// and neither does what it refers to.
func TestPurgeDuringAnImport(t *testing.T) {
	eachPair(t, func(t *testing.T, from, to *host) {
		did := from.account("scout")
		blob := from.addBlob(did, blobOf(t, "seen"))
		leaked := note(t, "leaked")
		from.apply(did, create(tid(1), leaked), create(tid(2), withBlobs(t, "refers to it", blob)))
		car := from.carOf(did)
		to.account("scout")
		purged := false
		_, err := to.Import(t.Context(), did, bytes.NewReader(car), repostore.ImportOptions{
			Keys: []atcrypto.PublicKey{from.publicKey(did)}, Announce: active(true),
			Remark: func(*lexicons.Record, syntax.RecordKey) {
				if !purged {
					require.NoError(t, to.BeginPurge(t.Context(), purgeOf(map[syntax.ATURI]*lexicons.Record{noteURI(did, tid(1)): leaked})))
				}
				purged = true
			},
		})
		require.ErrorIs(t, err, repostore.ErrContended)
		_, err = to.importing(did, car, from.publicKey(did))
		require.ErrorIs(t, err, repostore.ErrPurged)
		require.ErrorContains(t, err, leaked.CID.String())

		// A record that waits for its blob refers to it.
		without := newHost(t, dbtest.Open(t, migrations.PDS, to.db.Dialect))
		without.account("scout")
		_, err = without.importing(did, car, from.publicKey(did))
		require.NoError(t, err)
		impact, err := without.PurgeImpact(t.Context(), nil, []cid.Cid{blob.CID}, false)
		require.NoError(t, err)
		require.Equal(t, []syntax.ATURI{noteURI(did, tid(2))}, impact.Blobs[0].Others.URIs)
		require.ErrorIs(t, without.BeginPurge(t.Context(), purgeOf(nil, blob)), repostore.ErrPurgeBlocked)
	})
}
