package blobstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/s3test"
)

// Computed without this code: b + base32(01 55 12 20 ‖ SHA-256), by Python.
const (
	emptyCID = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"
	helloCID = "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e" // "hello world"
)

// storeTest is a test of a Store over one driver. object gives the path of the
// file that holds an object, for tests that damage it; nil in memory.
type storeTest func(t *testing.T, s *blobstore.Store, spool string, object func(key string) string)

// eachStore runs a test over every driver.
func eachStore(t *testing.T, limit int64, test storeTest) {
	t.Helper()
	onStore(t, "memory", limit, test, func(*testing.T) (blobstore.Bucket, func(string) string) { return blobstore.NewMemory(), nil })
	eachStoreOfFiles(t, limit, test)
}

// eachStoreOfFiles runs a test over every driver whose objects are files.
func eachStoreOfFiles(t *testing.T, limit int64, test storeTest) {
	t.Helper()
	onStore(t, "dir", limit, test, func(t *testing.T) (blobstore.Bucket, func(string) string) {
		root := t.TempDir()
		b, err := blobstore.OpenDir(root)
		require.NoError(t, err)
		return b, func(key string) string { return filepath.Join(root, key) }
	})
	onStore(t, "s3", limit, test, func(t *testing.T) (blobstore.Bucket, func(string) string) {
		server := s3test.StartServer(t)
		b, err := blobstore.OpenBucket(t.Context(), server.Spec)
		require.NoError(t, err)
		return b, func(key string) string { return filepath.Join(server.Dir, server.Prefix, key) }
	})
}

func onStore(t *testing.T, name string, limit int64, test storeTest, open func(t *testing.T) (blobstore.Bucket, func(string) string)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		bucket, object := open(t)
		spool := filepath.Join(t.TempDir(), "spool")
		s, err := blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: spool, Limit: limit})
		require.NoError(t, err)
		test(t, s, spool, object)
	})
}

func receive(t *testing.T, s *blobstore.Store, body string) blobstore.Info {
	t.Helper()
	info, err := s.Receive(t.Context(), strings.NewReader(body), "text/plain")
	require.NoError(t, err)
	return info
}

func readAll(t *testing.T, s *blobstore.Store, c cid.Cid) string {
	t.Helper()
	r, err := s.Open(t.Context(), c)
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return string(data)
}

func stored(t *testing.T, s *blobstore.Store) (entries []blobstore.Entry) {
	t.Helper()
	require.NoError(t, s.Walk(t.Context(), "", func(e blobstore.Entry) error {
		entries = append(entries, e)
		return nil
	}))
	return entries
}

// requireEmptyDir fails when there is any file in or below dir.
func requireEmptyDir(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			t.Errorf("left behind: %s", path)
		}
		return err
	}))
}

func TestReceive(t *testing.T) {
	t.Parallel()
	eachStore(t, 1<<20, func(t *testing.T, s *blobstore.Store, spool string, _ func(string) string) {
		for body, want := range map[string]string{"": emptyCID, "hello world": helloCID} {
			info := receive(t, s, body)
			require.Equal(t, want, info.CID.String())
			require.EqualValues(t, len(body), info.Size)
			require.Equal(t, "text/plain", info.MimeType)
			require.Equal(t, body, readAll(t, s, info.CID))
			require.NoError(t, s.Verify(t.Context(), info.CID))

			again := receive(t, s, body)
			require.Equal(t, info, again)
		}
		require.Len(t, stored(t, s), 2, "one object per CID")
		requireEmptyDir(t, spool)
	})
}

func TestReceiveLimit(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	eachStore(t, limit, func(t *testing.T, s *blobstore.Store, spool string, _ func(string) string) {
		require.EqualValues(t, limit, s.Limit())
		body := strings.Repeat("x", limit+1)

		info := receive(t, s, body[:limit])
		require.EqualValues(t, limit, info.Size, "exactly the limit")

		_, err := s.Receive(t.Context(), strings.NewReader(body), "text/plain")
		require.ErrorIs(t, err, blobstore.ErrTooLarge, "one byte over")

		// Reading stops: an endless body costs no more than the limit.
		endless := &countingReader{r: endlessZeros{}}
		_, err = s.Receive(t.Context(), endless, "text/plain")
		require.ErrorIs(t, err, blobstore.ErrTooLarge)
		require.LessOrEqual(t, endless.n, int64(limit+1))

		require.Len(t, stored(t, s), 1)
		requireEmptyDir(t, spool)
	})
}

type endlessZeros struct{}

func (endlessZeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func TestReceiveBrokenOff(t *testing.T) {
	t.Parallel()
	eachStore(t, 0, func(t *testing.T, s *blobstore.Store, spool string, _ func(string) string) {
		half := strings.Repeat("half of it ", 20_000)

		gone := io.MultiReader(strings.NewReader(half), iotest.ErrReader(io.ErrUnexpectedEOF))
		_, err := s.Receive(t.Context(), gone, "text/plain")
		require.ErrorIs(t, err, blobstore.ErrSource, "the client's connection broke")
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)

		ctx, cancel := context.WithCancel(t.Context())
		aborted := io.MultiReader(strings.NewReader(half), readerFunc(func(p []byte) (int, error) {
			cancel()
			return copy(p, "one more"), nil
		}), endlessZeros{})
		_, err = s.Receive(ctx, aborted, "text/plain")
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, blobstore.ErrSource)

		require.Empty(t, stored(t, s))
		requireEmptyDir(t, spool)
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestReceiveTheSameAtOnce(t *testing.T) {
	t.Parallel()
	eachStore(t, 0, func(t *testing.T, s *blobstore.Store, spool string, _ func(string) string) {
		body := strings.Repeat("observed by ten agents at once. ", 10_000)
		infos := make([]blobstore.Info, 10)
		errs := make([]error, 10)
		var all sync.WaitGroup
		for i := range infos {
			all.Go(func() {
				infos[i], errs[i] = s.Receive(t.Context(), iotest.HalfReader(strings.NewReader(body)), "text/plain")
			})
		}
		all.Wait()
		for i := range infos {
			require.NoError(t, errs[i])
			require.Equal(t, infos[0], infos[i])
		}
		require.Len(t, stored(t, s), 1)
		require.Equal(t, body, readAll(t, s, infos[0].CID))
		requireEmptyDir(t, spool)
	})
}

// A blob's memory must not grow with its size: neither one that comes in, nor one
// that goes out or is verified.
func TestMemoryIsFlat(t *testing.T) { // not parallel: it measures the process
	const size, uploads = 32 << 20, 4
	for name, open := range map[string]func(t *testing.T) string{
		"dir": func(t *testing.T) string { return "dir:" + t.TempDir() },
		"s3":  func(t *testing.T) string { return s3test.Start(t) },
	} {
		t.Run(name, func(t *testing.T) {
			bucket, err := blobstore.OpenBucket(t.Context(), open(t))
			require.NoError(t, err)
			s, err := blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: t.TempDir()})
			require.NoError(t, err)

			// All that is ever allocated, freed or not, is a bound for what is held
			// at once, and does not depend on the collector's timing.
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			errs := make([]error, uploads)
			var all sync.WaitGroup
			for i := range uploads {
				all.Go(func() {
					own := io.MultiReader(strings.NewReader(fmt.Sprint(i)), io.LimitReader(endlessZeros{}, size))
					info, err := s.Receive(t.Context(), own, "")
					if err == nil {
						err = s.Verify(t.Context(), info.CID)
					}
					errs[i] = err
				})
			}
			all.Wait()
			runtime.ReadMemStats(&after)
			for _, err := range errs {
				require.NoError(t, err)
			}
			allocated := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d uploads of %d MiB allocated %d KiB", uploads, size>>20, allocated>>10)
			require.Less(t, allocated, uint64(size/4))
		})
	}
}

func TestStatDelete(t *testing.T) {
	t.Parallel()
	eachStore(t, 0, func(t *testing.T, s *blobstore.Store, _ string, _ func(string) string) {
		hello := cid.MustParse(helloCID)
		_, err := s.Stat(t.Context(), hello)
		require.ErrorIs(t, err, blobstore.ErrNotFound)
		_, err = s.Open(t.Context(), hello)
		require.ErrorIs(t, err, blobstore.ErrNotFound)
		require.ErrorIs(t, s.Verify(t.Context(), hello), blobstore.ErrNotFound)
		require.NoError(t, s.Delete(t.Context(), hello), "a missing blob")

		receive(t, s, "hello world")
		at, err := s.Stat(t.Context(), hello)
		require.NoError(t, err)
		require.Equal(t, hello, at.CID)
		require.EqualValues(t, 11, at.Size)
		require.NoError(t, s.Delete(t.Context(), hello))
		_, err = s.Stat(t.Context(), hello)
		require.ErrorIs(t, err, blobstore.ErrNotFound)
	})
}

// A CID that can be no blob's is not found, and does not become a path.
func TestForeignCIDs(t *testing.T) {
	t.Parallel()
	s, err := blobstore.New(blobstore.Config{Bucket: blobstore.NewMemory(), SpoolDir: t.TempDir()})
	require.NoError(t, err)
	for name, c := range map[string]cid.Cid{
		"undefined": cid.Undef,
		"version 0": cid.MustParse("QmdfTbBqBPQ7VNxZEYEj14VmRuZBkqFbiwReogJgS1zR1n"),
		"dag-cbor":  cid.MustParse("bafyreic4ij67eiaxqqpcr3fam6bu5ve5gtomnmjj4ueits72rgknmij4nq"),
		"sha-512":   mustSHA512(t),
	} {
		_, err := s.Stat(t.Context(), c)
		require.ErrorIs(t, err, blobstore.ErrNotFound, name)
		_, err = s.Open(t.Context(), c)
		require.ErrorIs(t, err, blobstore.ErrNotFound, name)
		require.ErrorIs(t, s.Verify(t.Context(), c), blobstore.ErrNotFound, name)
		require.NoError(t, s.Delete(t.Context(), c), name)
	}
}

func mustSHA512(t *testing.T) cid.Cid {
	t.Helper()
	c, err := cid.V1Builder{Codec: cid.Raw, MhType: 0x13}.Sum([]byte("x"))
	require.NoError(t, err)
	return c
}

func TestWalk(t *testing.T) {
	t.Parallel()
	bucket := blobstore.NewMemory()
	s, err := blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: t.TempDir()})
	require.NoError(t, err)
	want := map[cid.Cid]int64{}
	for i := range 20 {
		info := receive(t, s, strings.Repeat("x", i))
		want[info.CID] = info.Size
	}
	// Not ours: one outside, one inside, and one CID in the wrong shard.
	for _, key := range []string{"other/object", "objects/zz/stray", "objects/aa/" + helloCID} {
		require.NoError(t, bucket.Put(t.Context(), key, strings.NewReader("?"), 1, [32]byte{}))
	}

	var strays []string
	var last string
	for { // in pages of three, as a job does that stops and goes on
		var n int
		stop := errors.New("page is full")
		err := s.Walk(t.Context(), last, func(e blobstore.Entry) error {
			if n == 3 {
				return stop
			}
			n++
			require.Greater(t, e.Key, last)
			last = e.Key
			if !e.CID.Defined() {
				strays = append(strays, e.Key)
				return nil
			}
			require.Equal(t, want[e.CID], e.Size)
			delete(want, e.CID)
			return nil
		})
		if err == nil {
			break
		}
		require.Equal(t, stop, err)
	}
	require.Empty(t, want)
	require.ElementsMatch(t, []string{"objects/zz/stray", "objects/aa/" + helloCID}, strays)
}

func TestReady(t *testing.T) {
	t.Parallel()
	eachStore(t, 0, func(t *testing.T, s *blobstore.Store, _ string, object func(string) string) {
		require.NoError(t, s.Ready(t.Context()))
		if object != nil { // the whole bucket goes away
			root := strings.TrimSuffix(object("x"), "x")
			root = strings.TrimSuffix(root, "test/") // of the s3 server
			require.NoError(t, os.RemoveAll(root))
			require.Error(t, s.Ready(t.Context()))
		}
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]blobstore.Config{
		"no bucket":       {SpoolDir: t.TempDir()},
		"no spool":        {Bucket: blobstore.NewMemory()},
		"negative limit":  {Bucket: blobstore.NewMemory(), SpoolDir: t.TempDir(), Limit: -1},
		"spool is a file": {Bucket: blobstore.NewMemory(), SpoolDir: file},
	} {
		_, err := blobstore.New(c)
		require.Error(t, err, name)
	}
	s, err := blobstore.New(blobstore.Config{Bucket: blobstore.NewMemory(), SpoolDir: t.TempDir()})
	require.NoError(t, err)
	require.EqualValues(t, blobstore.DefaultLimit, s.Limit())
}

// requireSame compares without printing megabytes when they differ.
func requireSame(t *testing.T, want, got []byte) {
	t.Helper()
	require.Equal(t, len(want), len(got))
	require.True(t, bytes.Equal(want, got), "the bytes differ")
}
