package main_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The exit code of blob fsck tells what it found, beside the running server.
func TestBlobFsckExitCodes(t *testing.T) {
	bucket := t.TempDir()
	in := start(t, "HERBARIUM_BLOBS=dir:"+bucket)
	client := in.account("ada.test")
	var uploaded struct{ Blob map[string]any }
	require.NoError(t, client.LexDo(t.Context(), "POST", "text/plain", "com.atproto.repo.uploadBlob", nil, bytes.NewReader([]byte("what was seen")), &uploaded))
	require.NoError(t, client.Post(t.Context(), "com.atproto.repo.createRecord", map[string]any{
		"repo": client.AccountDID, "collection": "com.example.note", "rkey": "seen", "record": map[string]any{"blob": uploaded.Blob},
	}, nil))
	fsck := func(args ...string) (int, string) {
		out, err := in.herbarium(t.Context(), append([]string{"blob", "fsck"}, args...)...)
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode(), out
		}
		require.NoError(t, err)
		return 0, out
	}
	code, out := fsck("--full")
	require.Equal(t, 0, code, out)

	require.NoError(t, os.WriteFile(filepath.Join(bucket, "objects", "notes.txt"), nil, 0o600))
	code, out = fsck("--full")
	require.Equal(t, 4, code, out)

	paths, err := filepath.Glob(filepath.Join(bucket, "objects", "*", "baf*"))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	require.NoError(t, os.WriteFile(paths[0], []byte("what was sewn"), 0o600))
	code, out = fsck("--full", "--json")
	require.Equal(t, 3, code, out)
	require.Contains(t, out, `"records":["at://`+string(*client.AccountDID)+`/com.example.note/seen"]`)

	code, out = fsck("--repair-from", "dir:"+filepath.Join(bucket, "nowhere"))
	require.Equal(t, 1, code, out)
	require.Contains(t, strings.ToLower(out), "--repair-from")
}
