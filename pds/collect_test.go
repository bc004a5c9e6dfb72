package pds_test

import (
	"testing"
	"time"

	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/pds"
)

func TestBlobsAreCollected(t *testing.T) {
	now := newClock()
	eachHost(t, setting{clock: now}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		content := []byte("bytes that no record wants")
		ref := blobOf(h.upload(t, a, content, "text/plain").ok(t))
		name, err := cid.Decode(rawCID(t, content))
		require.NoError(t, err)
		places, err := blobstore.New(blobstore.Config{Bucket: h.bucket, SpoolDir: t.TempDir()})
		require.NoError(t, err)

		did, err := h.pds.CollectBlobs(t.Context(), false)
		require.NoError(t, err)
		require.Zero(t, did, "within the grace nothing goes")
		now.advance(pds.DefaultBlobGrace + time.Minute)
		did, err = h.pds.CollectBlobs(t.Context(), false)
		require.NoError(t, err)
		require.EqualValues(t, 1, did.Trashed.Count)
		_, err = places.Stat(t.Context(), name)
		require.ErrorIs(t, err, blobstore.ErrNotFound)

		signIn := func() { // a token lives two hours
			a.access = "Bearer " + h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.handle, "password": a.password}).ok(t).str("accessJwt")
		}
		signIn()
		h.create(t, a, note, object{"blob": ref}).refused(t, 400, "BlobNotFound")
		h.upload(t, a, content, "text/plain").ok(t)
		h.create(t, a, note, object{"blob": ref}).ok(t)
		now.advance(pds.DefaultBlobGrace + pds.DefaultBlobTrash)
		did, err = h.pds.CollectBlobs(t.Context(), false)
		require.NoError(t, err)
		require.Zero(t, did, "a record refers to it")
		signIn()
		require.Equal(t, content, h.getBlob(t, a.access, a.did, name.String()).Body)
	})
}

// What a dead mover left in the trash is found there.
func TestAReferencedBlobIsFoundInTheTrash(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		content := []byte("bytes of a record")
		h.create(t, a, note, object{"blob": blobOf(h.upload(t, a, content, "text/plain").ok(t))}).ok(t)
		name, err := cid.Decode(rawCID(t, content))
		require.NoError(t, err)
		places, err := blobstore.New(blobstore.Config{Bucket: h.bucket, SpoolDir: t.TempDir()})
		require.NoError(t, err)
		require.NoError(t, places.Trash(t.Context(), name))

		require.Equal(t, content, h.getBlob(t, a.access, a.did, name.String()).Body)
		_, err = places.Stat(t.Context(), name)
		require.NoError(t, err, "it is back in its place")
	})
}
