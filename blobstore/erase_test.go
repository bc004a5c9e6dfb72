package blobstore_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/s3test"
)

// What was purged is in no place of the bucket and in no version of it, though
// it was uploaded, trashed, uploaded again and quarantined.
func TestErase(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (spec string, dirs []string){
		"dir": func(t *testing.T) (string, []string) {
			dir := t.TempDir()
			return "dir:" + dir, []string{dir}
		},
		"s3": func(t *testing.T) (string, []string) {
			server := s3test.StartServer(t)
			return server.Spec, []string{server.Dir}
		},
		"s3 with versions": func(t *testing.T) (string, []string) {
			server := s3test.StartVersioned(t)
			return server.Spec, []string{server.Dir, server.Versions}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, dirs := open(t)
			bucket, err := blobstore.OpenBucket(t.Context(), spec)
			require.NoError(t, err)
			spool := t.TempDir()
			store, err := blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: spool})
			require.NoError(t, err)
			secret := []byte("marker-7c1f9e2b that must not be found")
			other := []byte("something else that stays")
			kept, err := store.Receive(t.Context(), bytes.NewReader(other), "text/plain")
			require.NoError(t, err)
			info, err := store.Receive(t.Context(), bytes.NewReader(secret), "text/plain")
			require.NoError(t, err)
			require.NoError(t, store.Trash(t.Context(), info.CID))
			_, err = store.Receive(t.Context(), bytes.NewReader(secret), "text/plain")
			require.NoError(t, err)
			require.NoError(t, store.Isolate(t.Context(), info.CID))
			require.NotEmpty(t, filesWith(t, secret, dirs...), "the search can find it")
			remains, err := store.Remains(t.Context(), info.CID)
			require.NoError(t, err)
			require.NotEmpty(t, remains)

			did, err := store.Erase(t.Context(), info.CID)
			require.NoError(t, err)
			require.Equal(t, 2, did.Objects)
			if strings.HasSuffix(name, "versions") {
				require.Greater(t, did.Versions, 3)
			}
			remains, err = store.Remains(t.Context(), info.CID)
			require.NoError(t, err)
			require.Empty(t, remains)
			require.Empty(t, filesWith(t, secret, append(dirs, spool)...))
			require.NoError(t, store.Verify(t.Context(), kept.CID))

			did, err = store.Erase(t.Context(), info.CID)
			require.NoError(t, err)
			require.Equal(t, blobstore.Erased{}, did)
		})
	}
}

// filesWith are the files below dirs that have these bytes.
func filesWith(t *testing.T, want []byte, dirs ...string) (found []string) {
	t.Helper()
	for _, dir := range dirs {
		require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			raw, err := os.ReadFile(path)
			if bytes.Contains(raw, want) {
				found = append(found, path)
			}
			return err
		}))
	}
	return found
}
