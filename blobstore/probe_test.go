package blobstore_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/s3test"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	eachStore(t, 0, func(t *testing.T, s *blobstore.Store, _ string, object func(string) string) {
		found, err := s.Probe(t.Context())
		require.NoError(t, err)
		require.True(t, found.Ranges)
		require.Positive(t, found.Took)
		s3 := found.Kind == "s3"
		require.Equal(t, s3, found.Checksums)
		require.Equal(t, s3, found.ConditionalWrites)
		require.Equal(t, s3, found.PathStyle)
		require.False(t, found.Versioned)
		if object != nil {
			entries, err := os.ReadDir(object("probe"))
			if !os.IsNotExist(err) {
				require.NoError(t, err)
				require.Empty(t, entries, "it cleans up")
			}
		}
	})
}

func TestProbeSaysWhatToDo(t *testing.T) {
	t.Parallel()
	server := s3test.StartServer(t)
	for name, c := range map[string]struct{ spec, want string }{
		"no such bucket": {strings.Replace(server.Spec, "herbarium", "elsewhere", 1), "make the bucket first"},
		"refused":        {"s3://b?region=us-east-1&path_style=true&endpoint=" + refusing(t), "credentials of the AWS chain need PutObject"},
	} {
		b, err := blobstore.OpenBucket(t.Context(), c.spec)
		require.NoError(t, err)
		s, err := blobstore.New(blobstore.Config{Bucket: b, SpoolDir: t.TempDir()})
		require.NoError(t, err)
		_, err = s.Probe(t.Context())
		require.ErrorContains(t, err, c.want, name)
	}
}

func refusing(t *testing.T) (endpoint string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestPresignGet(t *testing.T) {
	t.Parallel()
	server := s3test.StartServer(t)
	public := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	t.Cleanup(public.Close)
	open := func(spec string) *blobstore.Store {
		b, err := blobstore.OpenBucket(t.Context(), spec)
		require.NoError(t, err)
		s, err := blobstore.New(blobstore.Config{Bucket: b, SpoolDir: t.TempDir()})
		require.NoError(t, err)
		return s
	}
	s := open(server.Spec)
	c := receive(t, s, "hello world").CID
	with := blobstore.URLHeaders{ContentType: "text/plain", ContentDisposition: "attachment", CacheControl: "private"}
	fetch := func(url string, header ...string) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		if len(header) > 0 {
			req.Header.Set(header[0], header[1])
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp, string(body)
	}

	url, err := s.PresignGet(t.Context(), c, time.Minute, with)
	require.NoError(t, err)
	resp, body := fetch(url)
	require.Equal(t, "hello world", body)
	require.Equal(t, "text/plain", resp.Header.Get("Content-Type"))
	require.Equal(t, "attachment", resp.Header.Get("Content-Disposition"))
	require.Equal(t, "private", resp.Header.Get("Cache-Control"))
	resp, body = fetch(url, "Range", "bytes=6-")
	require.Equal(t, http.StatusPartialContent, resp.StatusCode)
	require.Equal(t, "world", body)
	resp, _ = fetch(strings.Replace(url, "text%2Fplain", "text%2Fhtml", 1))
	require.Equal(t, http.StatusForbidden, resp.StatusCode, "the headers are signed")

	// Clients reach the store elsewhere; this process does not.
	apart := open(server.Spec + "&public_endpoint=" + public.URL)
	url, err = apart.PresignGet(t.Context(), c, time.Minute, with)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(url, public.URL+"/"), url)
	resp, _ = fetch(url)
	require.Equal(t, http.StatusTeapot, resp.StatusCode)
	require.Equal(t, "hello world", readAll(t, apart, c))

	_, err = open("memory:").PresignGet(t.Context(), c, time.Minute, with)
	require.ErrorIs(t, err, blobstore.ErrNoURL)
}
