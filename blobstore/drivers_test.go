package blobstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/buckettest"
	"herbarium.garden/blobstore/s3test"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	buckettest.Run(t, func(*testing.T) blobstore.Bucket { return blobstore.NewMemory() })
}

func TestDir(t *testing.T) {
	t.Parallel()
	buckettest.Run(t, func(t *testing.T) blobstore.Bucket {
		b, err := blobstore.OpenDir(filepath.Join(t.TempDir(), "blobs # é"))
		require.NoError(t, err)
		return b
	})
}

func TestS3(t *testing.T) {
	t.Parallel()
	spec := s3test.Start(t)
	var opened int
	buckettest.Run(t, func(t *testing.T) blobstore.Bucket {
		// One server, and a prefix of its own for each.
		opened++
		b, err := blobstore.OpenBucket(t.Context(), strings.Replace(spec, "/test?", fmt.Sprintf("/test/%d?", opened), 1))
		require.NoError(t, err)
		return b
	})
}

func TestOpenBucket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	for _, spec := range []string{
		"dir:" + dir,
		"memory:",
		"s3://bucket?region=eu-west-1",
		"s3://bucket/some/prefix?endpoint=http://127.0.0.1:1&path_style=true",
		"s3://bucket/?endpoint=https%3A%2F%2Fstore.example&region=eu-central-1&path_style=false",
	} {
		b, err := blobstore.OpenBucket(t.Context(), spec)
		require.NoError(t, err, spec)
		require.NotNil(t, b, spec)
	}
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	for spec, want := range map[string]string{
		"":                                   "is no bucket",
		"blobs":                              "is no bucket",
		"dir:":                               "names no directory",
		"memory:x":                           "takes nothing",
		"ftp://host":                         "unknown kind",
		"s3://":                              "needs a name",
		"s3://b?endpoint=127.0.0.1:9000":     "is no http URL",
		"s3://b?endpoint=file:///x":          "is no http URL",
		"s3://b?region=r&pathstyle=true":     `unknown option "pathstyle"`,
		"s3://b?region=r&path_style=yes":     "want true or false",
		"s3://key:secret@b?region=r":         "belong into the environment",
		"s3://b/../c?region=r":               "bad object key",
		"s3://b?region=r;path_style=true":    "parse options",
		"s3://b?endpoint=http://%zz&region=": "parse options",
	} {
		_, err := blobstore.OpenBucket(t.Context(), spec)
		require.ErrorContains(t, err, want, "%q", spec)
		require.NotContains(t, fmt.Sprint(err), "secret", "no credential in a message")
	}
}

func FuzzOpenBucketSpec(f *testing.F) {
	f.Add("bucket/prefix?endpoint=http://h&region=r&path_style=true")
	f.Add("key:secret@b")
	f.Add("[::1]:9/%2e%2e/x?region=a")
	f.Fuzz(func(t *testing.T, rest string) {
		// No panic; and no credential comes through.
		b, err := blobstore.OpenBucket(t.Context(), "s3://"+rest)
		if err == nil && b == nil {
			t.Fatal("neither a bucket nor an error")
		}
	})
}

func FuzzCheckKey(f *testing.F) {
	for _, key := range []string{"blobs/7q/bafkrei", "../x", "a//b", "/a", ".x", "a/.tmp-1"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if blobstore.CheckKey(key) != nil {
			return
		}
		// What passes stays below any root and is a path in its shortest form.
		if !filepath.IsLocal(key) || filepath.Clean(key) != key || strings.HasPrefix(filepath.Base(key), ".") {
			t.Fatalf("let through: %q", key)
		}
	})
}
