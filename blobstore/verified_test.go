package blobstore_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
)

func TestOpenVerifiedReadsAsOpen(t *testing.T) {
	t.Parallel()
	eachStore(t, 0, func(t *testing.T, s *blobstore.Store, _ string, _ func(string) string) {
		for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 300_000} {
			data := numbered(size)
			info, err := s.Receive(t.Context(), bytes.NewReader(data), "")
			require.NoError(t, err)
			for _, whole := range []bool{true, false} {
				r, err := s.OpenVerified(t.Context(), info.CID, whole)
				require.NoError(t, err)
				require.NoError(t, iotest.TestReader(r, data), "%d bytes, whole %v", size, whole)
				require.NoError(t, r.Close())
			}
		}
	})
}

// Flip a byte anywhere, or cut some off: no reader gets to the end, and one that
// wants a part gets nothing.
func TestOpenVerifiedNeverEndsWell(t *testing.T) {
	t.Parallel()
	eachStoreOfFiles(t, 0, func(t *testing.T, s *blobstore.Store, _ string, object func(string) string) {
		for _, size := range []int{1, 1000, 64<<10 + 1, 300_000} {
			data := numbered(size)
			info, err := s.Receive(t.Context(), bytes.NewReader(data), "")
			require.NoError(t, err)
			at, err := s.Stat(t.Context(), info.CID)
			require.NoError(t, err)
			for _, place := range []int{0, rand.IntN(size), size - 1} {
				flipped := bytes.Clone(data)
				flipped[place] ^= 1
				for name, bad := range map[string][]byte{"flipped": flipped, "cut": data[:place]} {
					require.NoError(t, os.WriteFile(object(at.Key), bad, 0o600))
					requireFailedTransfer(t, s, info, len(data)-(64<<10))
					_, err = s.OpenVerified(t.Context(), info.CID, false)
					require.ErrorIs(t, err, blobstore.ErrCorrupt, "%s at %d of %d", name, place, size)
				}
			}
		}
	})
}

// requireFailedTransfer serves a damaged blob with its length and finds that the
// client notices, and has got no more than a verifying reader lets out.
func requireFailedTransfer(t *testing.T, s *blobstore.Store, info blobstore.Info, atMost int) {
	t.Helper()
	r, err := s.OpenVerified(t.Context(), info.CID, true)
	require.NoError(t, err)
	defer r.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "300000")
		if _, err := io.Copy(w, r); err != nil {
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		return // not even the header came
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.Error(t, err)
	require.LessOrEqual(t, len(got), max(0, atMost))
	_, err = r.Read(make([]byte, 1))
	require.ErrorIs(t, err, blobstore.ErrCorrupt, "and again")
}

// A part is verified with the whole, once an hour.
func TestOpenVerifiedRemembers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	bucket := &flakyBucket{memory: blobstore.NewMemory(), breakAt: -1}
	s, err := blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: t.TempDir(), Now: func() time.Time { return now }})
	require.NoError(t, err)
	data := numbered(1 << 20)
	info, err := s.Receive(t.Context(), bytes.NewReader(data), "")
	require.NoError(t, err)
	requests := func() int64 {
		bucket.requests.Store(0)
		r, err := s.OpenVerified(t.Context(), info.CID, false)
		require.NoError(t, err)
		defer r.Close()
		_, err = r.Seek(1000, io.SeekStart)
		require.NoError(t, err)
		part := make([]byte, 10)
		_, err = io.ReadFull(r, part)
		require.NoError(t, err)
		require.Equal(t, data[1000:1010], part)
		return bucket.requests.Load()
	}
	require.EqualValues(t, 2, requests(), "all of it, then the part")
	require.EqualValues(t, 1, requests())
	now = now.Add(time.Hour)
	require.EqualValues(t, 2, requests())
}
