package main

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A file arrives whole through the chunks, and a reader that takes nothing is
// cut off.
func TestPatientConn(t *testing.T) {
	content := make([]byte, 3*sendChunk+12_345)
	_, err := rand.Read(content)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "blob")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	listener, err := listenOn(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) })}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	resp, err := http.Get("http://" + listener.Addr().String() + "/blob")
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got))

	raw, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer raw.Close()
	silent, err := net.Dial("tcp", raw.Addr().String())
	require.NoError(t, err)
	defer silent.Close()
	accepted, err := raw.Accept()
	require.NoError(t, err)
	defer accepted.Close()
	conn := &patientConn{TCPConn: accepted.(*net.TCPConn), stall: 50 * time.Millisecond}
	for err == nil { // until the buffers between them are full
		_, err = conn.ReadFrom(io.LimitReader(zeros{}, sendChunk))
	}
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
