package pds_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/s3test"
)

// TestWrongBytesAreNotServed: with verification a client never gets to the end
// of a blob that was damaged, nor a part of it.
func TestWrongBytesAreNotServed(t *testing.T) {
	root := t.TempDir()
	dir, err := blobstore.OpenDir(root)
	require.NoError(t, err)
	eachHost(t, setting{bucket: dir, verify: true}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		content := bytes.Repeat([]byte("0123456789"), 30_000)
		h.put(t, a, note, "b", object{"blob": blobOf(h.upload(t, a, content, "application/x-own").ok(t))}).ok(t)
		name := rawCID(t, content)
		require.True(t, bytes.Equal(content, h.getBlob(t, a.access, a.did, name).Body))
		require.Equal(t, content[5:100_005], h.getBlob(t, a.access, a.did, name, "Range", "bytes=5-100004").Body)

		paths, err := filepath.Glob(filepath.Join(root, "objects", "*", name))
		require.NoError(t, err)
		require.Len(t, paths, 1)
		content[7] ^= 1
		require.NoError(t, os.WriteFile(paths[0], content, 0o600))

		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/xrpc/com.atproto.sync.getBlob?did="+a.did+"&cid="+name, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", a.access)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.LessOrEqual(t, len(got), len(content)-64<<10)
		// From then on it is out of service, until the right bytes come.
		part := h.getBlob(t, a.access, a.did, name, "Range", "bytes=5-100004")
		require.Contains(t, part.refused(t, 400, "BlobNotFound"), "damaged")
		require.NotContains(t, part.Header.Get("Cache-Control"), "immutable")
		require.NoFileExists(t, paths[0])
		content[7] ^= 1
		h.upload(t, a, content, "application/x-own").ok(t)
		require.True(t, bytes.Equal(content, h.getBlob(t, a.access, a.did, name).Body))
	})
}

func TestGetBlobRedirects(t *testing.T) {
	bucket, err := blobstore.OpenBucket(t.Context(), s3test.Start(t))
	require.NoError(t, err)
	eachHost(t, setting{bucket: bucket, redirect: time.Minute}, func(t *testing.T, h *host) {
		a, other := h.agent(t, "scout"), h.agent(t, "other")
		content := []byte("<script>evidence</script>")
		h.put(t, a, note, "b", object{"blob": blobOf(h.upload(t, a, content, "text/html").ok(t))}).ok(t)
		name := rawCID(t, content)

		// The client follows, and is told of the bytes what we would tell.
		got := h.getBlob(t, a.access, a.did, name)
		require.Equal(t, content, got.Body)
		require.Equal(t, "text/html", got.Header.Get("Content-Type"))
		require.True(t, strings.HasPrefix(got.Header.Get("Content-Disposition"), "attachment"))
		require.Contains(t, got.Header.Get("Cache-Control"), "immutable")
		require.Equal(t, content[8:], h.getBlob(t, a.access, a.did, name, "Range", "bytes=8-").Body)
		require.Equal(t, 304, h.getBlob(t, a.access, a.did, name, "If-None-Match", `"`+name+`"`).Status)

		stay := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/xrpc/com.atproto.sync.getBlob?did="+a.did+"&cid="+name, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", a.access)
		resp, err := stay.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 302, resp.StatusCode)
		require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))

		// Whom we would refuse gets no URL.
		h.getBlob(t, "", a.did, name).refused(t, 401, "AuthMissing")
		h.getBlob(t, other.access, other.did, name).refused(t, 400, "BlobNotFound")
		require.NoError(t, bucket.List(t.Context(), "objects/", "", func(o blobstore.Object) error { return bucket.Delete(t.Context(), o.Key) }))
		h.getBlob(t, a.access, a.did, name).refused(t, 500, "InternalServerError")
		h.upload(t, a, content, "text/html").ok(t)
	})
}
