package blobstore_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
)

// in lists the CIDs of a place.
func in(t *testing.T, s *blobstore.Store, place blobstore.Place) (cids []string) {
	t.Helper()
	require.NoError(t, s.WalkIn(t.Context(), place, "", func(e blobstore.Entry) error {
		cids = append(cids, e.CID.String())
		return nil
	}))
	return cids
}

func TestTrash(t *testing.T) {
	t.Parallel()
	eachStore(t, 0, func(t *testing.T, s *blobstore.Store, _ string, _ func(string) string) {
		ctx, c := t.Context(), receive(t, s, "hello world").CID
		kept := receive(t, s, "kept").CID

		for range 2 { // a second time is no error
			require.NoError(t, s.Trash(ctx, c))
			require.Equal(t, []string{helloCID}, in(t, s, blobstore.Trash))
			require.Equal(t, []string{kept.String()}, in(t, s, blobstore.Live))
		}
		_, err := s.Open(ctx, c)
		require.ErrorIs(t, err, blobstore.ErrNotFound, "what is in the trash is not served")
		_, err = s.Rehash(ctx, blobstore.Trash, c, nil)
		require.NoError(t, err)

		for range 2 {
			require.NoError(t, s.Restore(ctx, c))
			require.Equal(t, "hello world", readAll(t, s, c))
			require.Empty(t, in(t, s, blobstore.Trash))
		}

		// An upload brings it back as well; then the trash is just emptied.
		require.NoError(t, s.Trash(ctx, c))
		receive(t, s, "hello world")
		require.NoError(t, s.Restore(ctx, c))
		require.Empty(t, in(t, s, blobstore.Trash))
		require.Equal(t, "hello world", readAll(t, s, c))

		require.NoError(t, s.Trash(ctx, c))
		for range 2 {
			require.NoError(t, s.Discard(ctx, blobstore.Trash, c))
		}
		require.ErrorIs(t, s.Restore(ctx, c), blobstore.ErrNotFound)
		require.ErrorIs(t, s.Trash(ctx, c), blobstore.ErrNotFound)
		_, err = s.StatIn(ctx, blobstore.Trash, c)
		require.ErrorIs(t, err, blobstore.ErrNotFound)
		require.ErrorIs(t, s.Trash(ctx, cid.MustParse("bafyreihu7ll3vlzbxt7ju5l4nmdctv2kruoxyoqn7gnnhxvnqfrxfk4dfu")), blobstore.ErrNotFound, "a record's CID")
		require.Equal(t, "kept", readAll(t, s, kept))
	})
}

func TestIsolateAndRepair(t *testing.T) {
	t.Parallel()
	eachStoreOfFiles(t, 0, func(t *testing.T, s *blobstore.Store, _ string, object func(string) string) {
		ctx := t.Context()
		body := strings.Repeat("evidence ", 50_000)
		c := receive(t, s, body).CID
		backup, err := blobstore.New(blobstore.Config{Bucket: blobstore.NewMemory(), SpoolDir: t.TempDir()})
		require.NoError(t, err)

		at, err := s.Stat(ctx, c)
		require.NoError(t, err)
		flipped := []byte(body)
		flipped[len(body)/2] ^= 1
		require.NoError(t, os.WriteFile(object(at.Key), flipped, 0o600))
		size, err := s.Rehash(ctx, blobstore.Live, c, nil)
		require.ErrorIs(t, err, blobstore.ErrCorrupt)
		require.EqualValues(t, len(body), size)

		// A damaged copy repairs nothing.
		require.ErrorIs(t, s.Repair(ctx, c, s, always), blobstore.ErrCorrupt)
		require.ErrorIs(t, s.Repair(ctx, c, backup, always), blobstore.ErrNotFound)

		require.NoError(t, s.Isolate(ctx, c))
		require.Equal(t, []string{c.String()}, in(t, s, blobstore.Quarantine))
		_, err = s.Open(ctx, c)
		require.ErrorIs(t, err, blobstore.ErrNotFound, "never served")

		receive(t, backup, body)
		require.NoError(t, s.Repair(ctx, c, backup, always))
		require.NoError(t, s.Verify(ctx, c))
		require.Equal(t, []string{c.String()}, in(t, s, blobstore.Quarantine), "for people to look at")
		require.NoError(t, s.Discard(ctx, blobstore.Quarantine, c))
		require.Empty(t, in(t, s, blobstore.Quarantine))
	})
}

func TestRehashIsPaced(t *testing.T) {
	t.Parallel()
	s, err := blobstore.New(blobstore.Config{Bucket: blobstore.NewMemory(), SpoolDir: t.TempDir()})
	require.NoError(t, err)
	const size = 1_000_000
	c := receive(t, s, strings.Repeat("x", size)).CID
	told := 0
	_, err = s.Rehash(t.Context(), blobstore.Live, c, func(_ context.Context, bytes int) error {
		require.LessOrEqual(t, bytes, 64<<10, "the burst that is asked for")
		told += bytes
		return nil
	})
	require.NoError(t, err)
	require.InDelta(t, size, told, 128<<10)

	stop := errors.New("stop")
	_, err = s.Rehash(t.Context(), blobstore.Live, c, func(context.Context, int) error { return stop })
	require.ErrorIs(t, err, stop)
	require.NotErrorIs(t, err, blobstore.ErrCorrupt)
}

// always is the claim of a repair that nobody is in the way of.
func always() error { return nil }
