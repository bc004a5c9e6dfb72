package blobstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
)

// numbered is size bytes of which no two ranges of some length are alike.
func numbered(size int) []byte {
	data := make([]byte, 0, size+8)
	for i := 0; len(data) < size; i++ {
		data = fmt.Appendf(data, "%d,", i)
	}
	return data[:size]
}

// The reader of Open serves ranges through http.ServeContent, on every driver.
func TestServeContent(t *testing.T) {
	t.Parallel()
	eachStore(t, 0, func(t *testing.T, s *blobstore.Store, _ string, _ func(string) string) {
		data := numbered(9 << 20) // more than two windows of the ranged reader
		info, err := s.Receive(t.Context(), bytes.NewReader(data), "text/plain")
		require.NoError(t, err)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			blob, err := s.Open(r.Context(), info.CID)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			defer blob.Close()
			w.Header().Set("Content-Type", info.MimeType)
			http.ServeContent(w, r, "", time.Time{}, blob)
		}))
		defer server.Close()

		ask := func(ranges string) *http.Response {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			require.NoError(t, err)
			if ranges != "" {
				request.Header.Set("Range", ranges)
			}
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			t.Cleanup(func() { _ = response.Body.Close() })
			return response
		}
		for ranges, want := range map[string][]byte{
			"":                        data,
			"bytes=0-99":              data[:100],
			"bytes=4194300-4194310":   data[4194300:4194311], // over the end of a window
			"bytes=-7":                data[len(data)-7:],
			"bytes=9437183-":          data[9437183:],
			"bytes=5000000-999999999": data[5000000:],
		} {
			response := ask(ranges)
			got, err := io.ReadAll(response.Body)
			require.NoError(t, err, ranges)
			requireSame(t, want, got)
			require.EqualValues(t, len(want), response.ContentLength, ranges)
		}
		require.Equal(t, http.StatusRequestedRangeNotSatisfiable, ask("bytes=9437184-").StatusCode)

		several := ask("bytes=8000000-8000009,10-19,-5")
		require.Equal(t, http.StatusPartialContent, several.StatusCode)
		_, parameters, err := mime.ParseMediaType(several.Header.Get("Content-Type"))
		require.NoError(t, err)
		parts := multipart.NewReader(several.Body, parameters["boundary"])
		for _, want := range [][]byte{data[8000000:8000010], data[10:20], data[len(data)-5:]} {
			part, err := parts.NextPart()
			require.NoError(t, err)
			got, err := io.ReadAll(part)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		}
	})
}

// A directory's reader is the file itself: that is what makes sendfile possible.
func TestDirOpensFile(t *testing.T) {
	t.Parallel()
	b, err := blobstore.OpenDir(t.TempDir())
	require.NoError(t, err)
	s, err := blobstore.New(blobstore.Config{Bucket: b, SpoolDir: t.TempDir()})
	require.NoError(t, err)
	r, err := s.Open(t.Context(), receive(t, s, "hello world").CID)
	require.NoError(t, err)
	defer r.Close()
	require.IsType(t, (*os.File)(nil), r)
}

// flakyBucket hides OpenSeeker, counts requests and lets each transfer break
// after some bytes.
type flakyBucket struct {
	memory   *blobstore.Memory
	breakAt  int64 // bytes of each transfer; negative: never
	requests atomic.Int64
	asked    atomic.Int64 // bytes asked for
}

func (f *flakyBucket) Put(ctx context.Context, key string, r io.ReadSeeker, size int64, digest [32]byte) error {
	return f.memory.Put(ctx, key, r, size, digest)
}

func (f *flakyBucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	f.requests.Add(1)
	f.asked.Add(length)
	r, err := f.memory.Get(ctx, key, offset, length)
	if err != nil || f.breakAt < 0 {
		return r, err
	}
	cut := io.MultiReader(io.LimitReader(r, f.breakAt), readerFunc(func([]byte) (int, error) { return 0, errCut }))
	return io.NopCloser(cut), nil
}

func (f *flakyBucket) Stat(ctx context.Context, key string) (blobstore.Object, error) {
	return f.memory.Stat(ctx, key)
}
func (f *flakyBucket) Move(ctx context.Context, from, to string) error {
	return f.memory.Move(ctx, from, to)
}
func (f *flakyBucket) Delete(ctx context.Context, key string) error { return f.memory.Delete(ctx, key) }
func (f *flakyBucket) List(ctx context.Context, prefix, after string, fn func(blobstore.Object) error) error {
	return f.memory.List(ctx, prefix, after, fn)
}

var errCut = errors.New("connection reset")

func flakyStore(t *testing.T, breakAt int64) (*blobstore.Store, *flakyBucket) {
	t.Helper()
	bucket := &flakyBucket{memory: blobstore.NewMemory(), breakAt: breakAt}
	s, err := blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: t.TempDir()})
	require.NoError(t, err)
	return s, bucket
}

// A transfer that is cut is taken up where it stopped.
func TestReadGoesOnAfterCut(t *testing.T) {
	t.Parallel()
	s, bucket := flakyStore(t, 100_000)
	data := numbered(1 << 20)
	info, err := s.Receive(t.Context(), bytes.NewReader(data), "")
	require.NoError(t, err)
	requireSame(t, data, []byte(readAll(t, s, info.CID)))
	require.EqualValues(t, 11, bucket.requests.Load(), "ten cuts, and the rest")
	require.NoError(t, s.Verify(t.Context(), info.CID))
}

// A bucket that gives nothing any more is an error after a few attempts, and not
// the end of the blob, nor a corrupt one.
func TestReadGivesUp(t *testing.T) {
	t.Parallel()
	s, bucket := flakyStore(t, 0)
	info := receive(t, s, "hello world")
	r, err := s.Open(t.Context(), info.CID)
	require.NoError(t, err)
	_, err = io.ReadAll(r)
	require.ErrorIs(t, err, errCut)
	require.EqualValues(t, 3, bucket.requests.Load())
	err = s.Verify(t.Context(), info.CID)
	require.ErrorIs(t, err, errCut)
	require.NotErrorIs(t, err, blobstore.ErrCorrupt)
}

// Seeking asks for nothing, and a read for one window.
func TestReadAsksLittle(t *testing.T) {
	t.Parallel()
	s, bucket := flakyStore(t, -1)
	data := numbered(20 << 20)
	info, err := s.Receive(t.Context(), bytes.NewReader(data), "")
	require.NoError(t, err)

	r, err := s.Open(t.Context(), info.CID)
	require.NoError(t, err)
	end, err := r.Seek(0, io.SeekEnd)
	require.NoError(t, err)
	require.EqualValues(t, len(data), end)
	n, err := r.Read(make([]byte, 1))
	require.Zero(t, n)
	require.Equal(t, io.EOF, err)
	_, err = r.Seek(1_000_000, io.SeekStart)
	require.NoError(t, err)
	require.Zero(t, bucket.requests.Load())

	_, err = io.ReadFull(r, make([]byte, 10))
	require.NoError(t, err)
	require.EqualValues(t, 1, bucket.requests.Load())
	require.LessOrEqual(t, bucket.asked.Load(), int64(4<<20))
	require.NoError(t, r.Close())

	bucket.requests.Store(0)
	requireSame(t, data, []byte(readAll(t, s, info.CID)))
	require.EqualValues(t, 3, bucket.requests.Load(), "4 + 8 + 8 MiB")

	_, err = r.Seek(-1, io.SeekStart)
	require.Error(t, err)
	_, err = r.Seek(0, 9)
	require.Error(t, err)
}

// What ends the request ends the transfer.
func TestReadEndsWithContext(t *testing.T) {
	t.Parallel()
	s, _ := flakyStore(t, -1)
	info := receive(t, s, strings.Repeat("x", 100))
	ctx, cancel := context.WithCancel(t.Context())
	r, err := s.Open(ctx, info.CID)
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(r)
	require.ErrorIs(t, err, context.Canceled)
}
