package xrpc_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons/xrpc"
)

// A client that holds its connection with half a body is cut off, and told why.
func TestSlowBodyIsRefused(t *testing.T) {
	s := newSite(t, func(c *xrpc.Config) { c.BodyGrace = 50 * time.Millisecond })
	require.NoError(t, xrpc.Procedure(s.Server, putThing, xrpc.Open, func(context.Context, xrpc.Viewer, putInput) (*putOutput, error) {
		t.Error("the handler was called for half a body")
		return nil, nil
	}))
	s.start(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", "/xrpc/"+putThing)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusRequestTimeout, resp.StatusCode)
}
