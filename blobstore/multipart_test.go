package blobstore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/buckettest"
	"herbarium.garden/blobstore/s3test"
)

const smallestPart = 5 << 20 // of S3

// inParts is a bucket that sends everything through the transfer manager.
func inParts(t *testing.T, spec string) *blobstore.S3 {
	t.Helper()
	b, err := blobstore.OpenBucket(t.Context(), spec)
	require.NoError(t, err)
	bucket := b.(*blobstore.S3)
	bucket.SendInParts(-1, smallestPart)
	return bucket
}

func TestS3InParts(t *testing.T) {
	t.Parallel()
	spec := s3test.Start(t)
	var opened int
	buckettest.Run(t, func(t *testing.T) blobstore.Bucket {
		opened++
		return inParts(t, strings.Replace(spec, "/test?", fmt.Sprintf("/test/%d?", opened), 1))
	})
}

func TestPutParts(t *testing.T) {
	t.Parallel()
	b := inParts(t, s3test.Start(t))
	data := numbered(3*smallestPart + 17)
	digest := sha256.Sum256(data)
	size := int64(len(data))
	ctx := t.Context()
	require.NoError(t, b.Put(ctx, "good", bytes.NewReader(data), size, digest))
	require.NoError(t, b.Put(ctx, "even", bytes.NewReader(data[:2*smallestPart]), 2*smallestPart, sha256.Sum256(data[:2*smallestPart])))
	for key, want := range map[string][]byte{"good": data, "even": data[:2*smallestPart]} {
		r, err := b.Get(ctx, key, 0, -1)
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		requireSame(t, want, got)
		require.NoError(t, r.Close())
	}

	// What fails leaves no object and no parts that nobody sees.
	broken := errors.New("broken")
	canceled, cancel := context.WithCancel(ctx)
	for name, c := range map[string]struct {
		ctx    context.Context
		source io.ReadSeeker
		digest [32]byte
		want   error
	}{
		"another digest":  {ctx, bytes.NewReader(data), sha256.Sum256([]byte("other")), blobstore.ErrCorrupt},
		"a broken source": {ctx, &hookedSource{bytes.NewReader(data), 2 * smallestPart, func() error { return broken }}, digest, broken},
		"ended context": {canceled, &hookedSource{bytes.NewReader(data), 2 * smallestPart, func() error {
			cancel()
			return nil
		}}, digest, context.Canceled},
	} {
		require.ErrorIs(t, b.Put(c.ctx, "bad", c.source, size, c.digest), c.want, name)
		_, err := b.Stat(ctx, "bad")
		require.ErrorIs(t, err, blobstore.ErrNotFound, name)
		left, err := b.AbortUploads(ctx, time.Now().Add(time.Hour))
		require.NoError(t, err)
		require.Zero(t, left, name)
	}
}

// hookedSource calls hook when it is read past a place.
type hookedSource struct {
	*bytes.Reader
	at   int64
	hook func() error
}

func (h *hookedSource) Read(p []byte) (int, error) {
	if h.Size()-int64(h.Len()) >= h.at {
		if err := h.hook(); err != nil {
			return 0, err
		}
	}
	return h.Reader.Read(p[:min(len(p), 1<<20)])
}

func TestAbortUploads(t *testing.T) {
	t.Parallel()
	b := inParts(t, s3test.Start(t))
	s, err := blobstore.New(blobstore.Config{Bucket: b, SpoolDir: t.TempDir()})
	require.NoError(t, err)
	for i := range 3 {
		require.NoError(t, b.BeginUpload(t.Context(), fmt.Sprintf("objects/%d", i)))
	}
	for _, c := range []struct {
		before time.Time
		want   int
	}{{time.Now().Add(-time.Hour), 0}, {time.Now().Add(time.Hour), 3}, {time.Now().Add(time.Hour), 0}} {
		n, err := s.AbortUploads(t.Context(), c.before)
		require.NoError(t, err)
		require.Equal(t, c.want, n)
	}
}
