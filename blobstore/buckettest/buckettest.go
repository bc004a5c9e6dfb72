package buckettest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
)

// Run runs the suite. open gives an empty bucket of its own to each call.
func Run(t *testing.T, open func(t *testing.T) blobstore.Bucket) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(t *testing.T, b blobstore.Bucket)
	}{
		{"what is put is got", testRoundTrip},
		{"put replaces", testReplace},
		{"put reads its source from the start", testSourceRewound},
		{"a failed put leaves what was there", testFailedPut},
		{"ranges", testRanges},
		{"seeking, where offered", testSeekOpener},
		{"missing objects", testMissing},
		{"move", testMove},
		{"move ends what a crash cut off", testMoveAgain},
		{"delete", testDelete},
		{"a prefix of a key is no object", testKeyBelowKey},
		{"list in key order", testList},
		{"list ends with the callback's error", testListStops},
		{"bad keys", testBadKeys},
		{"an ended context", testContext},
		{"many at once", testConcurrent},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func put(t *testing.T, b blobstore.Bucket, key string, data []byte) {
	t.Helper()
	err := b.Put(t.Context(), key, bytes.NewReader(data), int64(len(data)), sha256.Sum256(data))
	require.NoError(t, err)
}

func get(t *testing.T, b blobstore.Bucket, key string, offset, length int64) []byte {
	t.Helper()
	r, err := b.Get(t.Context(), key, offset, length)
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return data
}

func list(t *testing.T, b blobstore.Bucket, prefix, after string) (keys []string) {
	t.Helper()
	err := b.List(t.Context(), prefix, after, func(o blobstore.Object) error {
		keys = append(keys, o.Key)
		return nil
	})
	require.NoError(t, err)
	return keys
}

// pattern is size bytes of which no two ranges of some length are alike.
func pattern(size int) []byte {
	data := make([]byte, 0, size+8)
	for i := 0; len(data) < size; i++ {
		data = fmt.Appendf(data, "%d,", i)
	}
	return data[:size]
}

func testRoundTrip(t *testing.T, b blobstore.Bucket) {
	for _, size := range []int{0, 1, 4096, 3<<20 + 17} {
		data := pattern(size)
		key := fmt.Sprintf("round/trip/%d", size)
		before := time.Now()
		put(t, b, key, data)

		require.True(t, bytes.Equal(data, get(t, b, key, 0, -1)), "the bytes of %d", size)
		at, err := b.Stat(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, key, at.Key)
		require.EqualValues(t, size, at.Size)
		// Servers give whole seconds.
		require.WithinRange(t, at.Modified, before.Add(-2*time.Second), time.Now().Add(2*time.Second))
	}
}

func testReplace(t *testing.T, b blobstore.Bucket) {
	put(t, b, "k", []byte("first, and longer"))
	put(t, b, "k", []byte("second"))
	put(t, b, "k", []byte("second"))
	require.Equal(t, "second", string(get(t, b, "k", 0, -1)))
	require.Equal(t, []string{"k"}, list(t, b, "", ""))
}

func testSourceRewound(t *testing.T, b blobstore.Bucket) {
	data := pattern(1000)
	source := bytes.NewReader(data)
	_, err := source.Seek(500, io.SeekStart) // as after hashing it
	require.NoError(t, err)
	require.NoError(t, b.Put(t.Context(), "k", source, 1000, sha256.Sum256(data)))
	require.Equal(t, data, get(t, b, "k", 0, -1))
}

// brokenSource fails in the middle of every pass over it.
type brokenSource struct {
	*bytes.Reader
	failAt int64
}

var errSource = errors.New("the source broke")

func (s *brokenSource) Read(p []byte) (int, error) {
	at, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	if at >= s.failAt {
		return 0, errSource
	}
	return s.Reader.Read(p[:min(int64(len(p)), s.failAt-at)])
}

func testFailedPut(t *testing.T, b blobstore.Bucket) {
	put(t, b, "kept", []byte("what was there"))
	data := pattern(200_000)
	digest := sha256.Sum256(data)
	for _, key := range []string{"kept", "new/object"} {
		for name, source := range map[string]struct {
			r    io.ReadSeeker
			size int64
		}{
			"breaks":   {&brokenSource{bytes.NewReader(data), 100_000}, 200_000},
			"is short": {bytes.NewReader(data[:100_000]), 200_000},
			"is long":  {bytes.NewReader(data), 100_000},
		} {
			err := b.Put(t.Context(), key, source.r, source.size, digest)
			require.Error(t, err, "a source that %s", name)
		}
	}
	require.Equal(t, "what was there", string(get(t, b, "kept", 0, -1)))
	_, err := b.Stat(t.Context(), "new/object")
	require.ErrorIs(t, err, blobstore.ErrNotFound)
	require.Equal(t, []string{"kept"}, list(t, b, "", ""))
}

func testRanges(t *testing.T, b blobstore.Bucket) {
	data := pattern(10_000)
	put(t, b, "k", data)
	for _, c := range []struct{ offset, length, from, to int64 }{
		{0, -1, 0, 10_000},
		{0, 1, 0, 1},
		{0, 10_000, 0, 10_000},
		{0, 20_000, 0, 10_000},
		{4_000, 100, 4_000, 4_100},
		{4_000, -1, 4_000, 10_000},
		{9_999, 1, 9_999, 10_000},
		{9_999, 50, 9_999, 10_000},
		{0, 0, 0, 0},
		{5, 0, 5, 5},
	} {
		got := get(t, b, "k", c.offset, c.length)
		require.Equal(t, string(data[c.from:c.to]), string(got), "offset %d, length %d", c.offset, c.length)
	}
	for _, c := range []struct{ offset, length int64 }{{10_000, 1}, {10_000, -1}, {10_001, 5}, {1 << 40, -1}, {10_000, 0}, {-1, 5}, {-1, -1}} {
		_, err := b.Get(t.Context(), "k", c.offset, c.length)
		require.ErrorIs(t, err, blobstore.ErrRange, "offset %d, length %d", c.offset, c.length)
	}

	put(t, b, "empty", nil)
	require.Empty(t, get(t, b, "empty", 0, -1))
	require.Empty(t, get(t, b, "empty", 0, 10))
	_, err := b.Get(t.Context(), "empty", 1, -1)
	require.ErrorIs(t, err, blobstore.ErrRange)
}

func testSeekOpener(t *testing.T, b blobstore.Bucket) {
	opener, ok := b.(blobstore.SeekOpener)
	if !ok {
		return // it is optional
	}
	data := pattern(10_000)
	put(t, b, "k", data)
	r, err := opener.OpenSeeker(t.Context(), "k")
	require.NoError(t, err)
	end, err := r.Seek(0, io.SeekEnd)
	require.NoError(t, err)
	require.EqualValues(t, len(data), end)
	_, err = r.Seek(-100, io.SeekEnd)
	require.NoError(t, err)
	tail, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, data[9_900:], tail)

	// What is open stays readable: a collector may delete it meanwhile.
	require.NoError(t, b.Delete(t.Context(), "k"))
	_, err = r.Seek(0, io.SeekStart)
	require.NoError(t, err)
	whole, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, data, whole)
	require.NoError(t, r.Close())

	_, err = opener.OpenSeeker(t.Context(), "k")
	require.ErrorIs(t, err, blobstore.ErrNotFound)
}

func testMissing(t *testing.T, b blobstore.Bucket) {
	put(t, b, "there/x", []byte("x"))
	for _, key := range []string{"missing", "there/y", "no/such/place", "there"} {
		_, err := b.Stat(t.Context(), key)
		require.ErrorIs(t, err, blobstore.ErrNotFound, "stat %s", key)
		for _, length := range []int64{-1, 5, 0} {
			_, err = b.Get(t.Context(), key, 0, length)
			require.ErrorIs(t, err, blobstore.ErrNotFound, "get %s, length %d", key, length)
		}
	}
}

func testMove(t *testing.T, b blobstore.Bucket) {
	data := pattern(300_000)
	put(t, b, "from/a", data)
	put(t, b, "to/x/a", []byte("is replaced"))
	put(t, b, "from/b", nil)
	before := time.Now()
	require.NoError(t, b.Move(t.Context(), "from/a", "to/x/a"))
	require.NoError(t, b.Move(t.Context(), "from/b", "to/y/b"), "in a new place, and empty")
	require.Equal(t, []string{"to/x/a", "to/y/b"}, list(t, b, "", ""))
	require.True(t, bytes.Equal(data, get(t, b, "to/x/a", 0, -1)))
	require.Empty(t, get(t, b, "to/y/b", 0, -1))
	at, err := b.Stat(t.Context(), "to/x/a")
	require.NoError(t, err)
	require.WithinRange(t, at.Modified, before.Add(-2*time.Second), time.Now().Add(2*time.Second), "when it was moved")

	require.ErrorIs(t, b.Move(t.Context(), "no/such", "to/z"), blobstore.ErrNotFound)
	require.ErrorIs(t, b.Move(t.Context(), "to", "to/z"), blobstore.ErrNotFound, "what looks like a directory")
	require.Equal(t, []string{"to/x/a", "to/y/b"}, list(t, b, "", ""))
	for _, key := range []string{"", "../x", "a//b", ".hidden"} {
		require.ErrorIs(t, b.Move(t.Context(), key, "to/z"), blobstore.ErrKey, key)
		require.ErrorIs(t, b.Move(t.Context(), "to/x/a", key), blobstore.ErrKey, key)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Move(ended, "to/x/a", "to/z"), context.Canceled)
	require.True(t, bytes.Equal(data, get(t, b, "to/x/a", 0, -1)))
}

// A move can stop after the object has its new name and before it has lost the
// old one, or after both when nobody was told.
func testMoveAgain(t *testing.T, b blobstore.Bucket) {
	put(t, b, "from", []byte("the same"))
	put(t, b, "to", []byte("the same"))
	for range 3 {
		require.NoError(t, b.Move(t.Context(), "from", "to"))
		require.Equal(t, []string{"to"}, list(t, b, "", ""))
		require.Equal(t, "the same", string(get(t, b, "to", 0, -1)))
	}
}

func testDelete(t *testing.T, b blobstore.Bucket) {
	put(t, b, "a/b", []byte("1"))
	put(t, b, "a/c", []byte("2"))
	require.NoError(t, b.Delete(t.Context(), "a/b"))
	require.NoError(t, b.Delete(t.Context(), "a/b"), "a second time")
	require.NoError(t, b.Delete(t.Context(), "never/was"))
	require.NoError(t, b.Delete(t.Context(), "a"), "what looks like a directory")
	_, err := b.Stat(t.Context(), "a/b")
	require.ErrorIs(t, err, blobstore.ErrNotFound)
	require.Equal(t, []string{"a/c"}, list(t, b, "", ""))

	put(t, b, "a/b", []byte("again"))
	require.Equal(t, "again", string(get(t, b, "a/b", 0, -1)))
}

func testKeyBelowKey(t *testing.T, b blobstore.Bucket) {
	put(t, b, "a", []byte("an object"))
	_, err := b.Stat(t.Context(), "a/b")
	require.ErrorIs(t, err, blobstore.ErrNotFound)
	require.NoError(t, b.Delete(t.Context(), "a/b"))
	require.Equal(t, "an object", string(get(t, b, "a", 0, -1)))
}

func testList(t *testing.T, b blobstore.Bucket) {
	require.Empty(t, list(t, b, "", ""), "an empty bucket")

	// In the order of bytes, in which '-' and '.' come before '/'.
	keys := []string{"A/x", "a-b", "a.b/c", "a/b", "a/c/d", "a/c/e", "ab", "b/1", "b/10", "b/2"}
	for i := range keys {
		put(t, b, keys[(i*7)%len(keys)], []byte("some"))
	}
	for _, c := range []struct {
		prefix, after string
		want          []string
	}{
		{"", "", keys},
		{"a", "", keys[1:7]},
		{"a/", "", keys[3:6]},
		{"a/c", "", keys[4:6]},
		{"b/1", "", keys[7:9]},
		{"z", "", nil},
		{"a/b/c", "", nil},
		{"", "a/b", keys[4:]},
		{"", "a/bb", keys[4:]},
		{"", "a/c", keys[4:]},
		{"", "a/c/d", keys[5:]},
		{"a/", "a/c/d", keys[5:6]},
		{"a/", "b/2", nil},
		{"b/", "a", keys[7:]},
		{"", "b/2", nil},
	} {
		require.Equal(t, c.want, list(t, b, c.prefix, c.after), "prefix %q after %q", c.prefix, c.after)
	}
	err := b.List(t.Context(), "b/", "", func(o blobstore.Object) error {
		require.EqualValues(t, 4, o.Size)
		require.WithinDuration(t, time.Now(), o.Modified, time.Minute)
		return nil
	})
	require.NoError(t, err)
}

func testListStops(t *testing.T, b blobstore.Bucket) {
	for i := range 5 {
		put(t, b, fmt.Sprintf("k/%d", i), []byte("x"))
	}
	stop := errors.New("enough")
	var seen int
	err := b.List(t.Context(), "", "", func(blobstore.Object) error {
		if seen++; seen == 2 {
			return stop
		}
		return nil
	})
	require.Equal(t, stop, err, "as it is, not wrapped")
	require.Equal(t, 2, seen)
}

func testBadKeys(t *testing.T, b blobstore.Bucket) {
	for _, key := range []string{
		"", "/", "/etc/passwd", "..", "../x", "a/../../x", "a/..", "a/./b", "a//b", "a/", ".hidden", "a/.tmp-1",
		"a\x00b", "a\\b", "a b", "é", "C:x", strings.Repeat("a", 256), strings.Repeat("a/", 300) + "a",
	} {
		_, err := b.Stat(t.Context(), key)
		require.ErrorIs(t, err, blobstore.ErrKey, "stat %q", key)
		_, err = b.Get(t.Context(), key, 0, -1)
		require.ErrorIs(t, err, blobstore.ErrKey, "get %q", key)
		require.ErrorIs(t, b.Delete(t.Context(), key), blobstore.ErrKey, "delete %q", key)
		err = b.Put(t.Context(), key, strings.NewReader(""), 0, sha256.Sum256(nil))
		require.ErrorIs(t, err, blobstore.ErrKey, "put %q", key)
		if opener, ok := b.(blobstore.SeekOpener); ok {
			_, err = opener.OpenSeeker(t.Context(), key)
			require.ErrorIs(t, err, blobstore.ErrKey, "open %q", key)
		}
	}
	require.Empty(t, list(t, b, "", ""))
}

func testContext(t *testing.T, b blobstore.Bucket) {
	put(t, b, "k", []byte("x"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Put(ended, "n", strings.NewReader("y"), 1, sha256.Sum256([]byte("y"))), context.Canceled)
	_, err := b.Stat(ended, "k")
	require.ErrorIs(t, err, context.Canceled)
	_, err = b.Get(ended, "k", 0, -1)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, b.Delete(ended, "k"), context.Canceled)
	err = b.List(ended, "", "", func(blobstore.Object) error { return nil })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"k"}, list(t, b, "", ""))
}

func testConcurrent(t *testing.T, b blobstore.Bucket) {
	data := pattern(300_000)
	digest := sha256.Sum256(data)
	failures := make(chan error, 64)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { // the same object from all
			failures <- b.Put(t.Context(), "same/object", bytes.NewReader(data), int64(len(data)), digest)
		})
		all.Go(func() { // and one of its own, in new directories
			failures <- b.Put(t.Context(), fmt.Sprintf("own/%d/object", i%3+10*i), bytes.NewReader(data), int64(len(data)), digest)
		})
		all.Go(func() { // a reader sees all of it or nothing
			r, err := b.Get(t.Context(), "same/object", 0, -1)
			if errors.Is(err, blobstore.ErrNotFound) {
				return
			}
			if err != nil {
				failures <- err
				return
			}
			defer r.Close()
			got, err := io.ReadAll(r)
			if err == nil && !bytes.Equal(got, data) {
				err = fmt.Errorf("read a part: %d bytes", len(got))
			}
			failures <- err
		})
	}
	all.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	require.Len(t, list(t, b, "", ""), 9)
}
