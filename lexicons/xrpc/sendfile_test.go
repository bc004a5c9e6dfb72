package xrpc_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons/xrpc"
)

// A file goes out through ReadFrom, where net/http hands it to the kernel; status
// and size are kept as for any other answer.
func TestFilesAreSentByReadFrom(t *testing.T) {
	content := strings.Repeat("0123456789", 20_000)
	path := filepath.Join(t.TempDir(), "blob")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	observations := make(chan xrpc.Observation, 3)
	s := exports(t, func(c *xrpc.Config) {
		c.Observe = func(o xrpc.Observation) { o.Duration = 0; observations <- o }
	}, func(_ context.Context, call *xrpc.Call, p noParams) error {
		require.Implements(t, (*io.ReaderFrom)(nil), call.Writer)
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		if p.Fail == "plain" { // without headers of its own
			_, err = io.Copy(call.Writer, f)
			return err
		}
		call.Writer.Header().Set("Content-Type", "application/x-test")
		http.ServeContent(call.Writer, call.Request, "", time.Time{}, f)
		return nil
	}).start(t)

	whole := s.get(t, exportPath)
	require.Equal(t, 200, whole.status)
	require.True(t, whole.body == content)
	part := s.get(t, exportPath, "Range", "bytes=5-14")
	require.Equal(t, 206, part.status)
	require.Equal(t, "5678901234", part.body)
	plain := s.get(t, exportPath+"?fail=plain")
	require.Equal(t, 200, plain.status)
	require.True(t, plain.body == content)
	require.Equal(t, []xrpc.Observation{
		{Route: export, Verb: "GET", Status: 200, Sent: int64(len(content))},
		{Route: export, Verb: "GET", Status: 206, Sent: 10},
		{Route: export, Verb: "GET", Status: 200, Sent: int64(len(content))},
	}, []xrpc.Observation{<-observations, <-observations, <-observations})
}
