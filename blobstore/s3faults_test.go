package blobstore_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/s3test"
)

// faultyServer is a proxy before a real S3 server that spoils the first requests
// after it is armed.
type faultyServer struct {
	url   string
	left  atomic.Int64 // requests still to be spoiled
	spoil atomic.Pointer[func(w http.ResponseWriter, r *http.Request, pass http.Handler)]
}

func newFaultyServer(t *testing.T, target string) *faultyServer {
	t.Helper()
	to, err := url.Parse(target)
	require.NoError(t, err)
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // it is signed
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	f := &faultyServer{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.left.Add(-1) >= 0 {
			(*f.spoil.Load())(w, r, pass)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// Faults of the way to the server.
var wayFaults = map[string]func(w http.ResponseWriter, r *http.Request, pass http.Handler){
	"500": func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusInternalServerError)
	},
	"throttled": func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
	},
	"cut before": func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) },
	"done, and the answer lost": func(_ http.ResponseWriter, r *http.Request, pass http.Handler) {
		pass.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	},
	"answer cut in the middle": func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		whole := httptest.NewRecorder()
		pass.ServeHTTP(whole, r)
		if whole.Body.Len() == 0 { // nothing to cut, as of HEAD
			panic(http.ErrAbortHandler)
		}
		for name, values := range whole.Header() {
			w.Header()[name] = values
		}
		w.Header().Set("Content-Length", fmt.Sprint(whole.Body.Len()))
		w.WriteHeader(whole.Code)
		_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	},
	"hangs": func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body) // only then is it noticed that the client goes
		<-r.Context().Done()
	},
}

// Each step of a blob's life over a real server, with each fault of the way there
// once (the driver gets over it, unless it hangs or an answer in XML is cut, which
// the SDK takes for final) and without end (the caller is told, in time). Either way nothing that was acknowledged is lost, and the step
// can be made again.
func TestS3FaultsOnTheWay(t *testing.T) {
	t.Parallel()
	spec := s3test.StartServer(t)
	var opened atomic.Int64
	for name, spoil := range wayFaults {
		for _, step := range []struct{ name, before, after string }{
			{"upload", "", "objects"},
			{"upload of trash", "trash", "objects trash"},
			{"trash", "objects", "trash"},
			{"restore", "trash", "objects"},
			{"restore after an upload", "objects trash", "objects"},
			{"discard", "trash", ""},
			{"isolate", "objects", "quarantine"},
			{"repair", "quarantine", "objects quarantine"},
			{"read", "objects", "objects"},
			{"verify", "objects", "objects"},
			{"walk", "objects", "objects"},
		} {
			for _, times := range []int64{1, 1 << 40} {
				how := map[int64]string{1: "once", 1 << 40: "without end"}[times]
				final := name == "hangs" || name == "answer cut in the middle"
				t.Run(fmt.Sprintf("%s/%s/%s", name, step.name, how), func(t *testing.T) {
					t.Parallel()
					way := newFaultyServer(t, spec.Endpoint)
					own := strings.Replace(strings.Replace(spec.Spec, spec.Endpoint, way.url, 1), "/test?", fmt.Sprintf("/test/%d?", opened.Add(1)), 1)
					bucket, err := blobstore.OpenBucket(t.Context(), own)
					require.NoError(t, err)
					spool := t.TempDir()
					s, err := blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: spool})
					require.NoError(t, err)
					do := prepareStep(t, s, step.name)
					require.Equal(t, step.before, places(t, s))

					way.spoil.Store(&spoil)
					way.left.Store(times)
					endless := times > 1
					limit := 20 * time.Second
					if endless || name == "hangs" {
						limit = 300 * time.Millisecond
					}
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					defer cancel()
					err = do(ctx)
					way.left.Store(0)
					switch got := places(t, s); {
					case err == nil:
						require.Equal(t, step.after, got, "acknowledged")
					case !endless && !final:
						require.NoError(t, err, "once is got over")
					default:
						require.NotErrorIs(t, err, blobstore.ErrNotFound, "a fault is not an answer")
						require.NotErrorIs(t, err, blobstore.ErrCorrupt, "a fault says nothing about the bytes")
						if step.before != "" && step.after != "" {
							require.NotEmpty(t, got, "lost")
						}
					}
					requireEmptyDir(t, spool)
					require.NoError(t, do(t.Context()), "again")
					require.Equal(t, step.after, places(t, s))
				})
			}
		}
	}
}
