package blobstore_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
			at, err := store.Stat(t.Context(), info.CID)
			require.NoError(t, err)
			require.NoError(t, store.Trash(t.Context(), info.CID))
			_, err = store.Receive(t.Context(), bytes.NewReader(secret), "text/plain")
			require.NoError(t, err)
			require.NoError(t, store.Isolate(t.Context(), info.CID))
			leave(t, bucket, at.Key, secret, spool, dirs[0])
			require.NotEmpty(t, filesWith(t, secret, dirs...), "the search can find it")
			remains, err := store.Remains(t.Context(), info.CID)
			require.NoError(t, err)
			require.NotEmpty(t, remains)

			did, err := store.Erase(t.Context(), info.CID)
			require.NoError(t, err)
			require.Equal(t, 2, did.Objects)
			require.Equal(t, 2, did.Leftovers)
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

// leave makes what uploads that were cut off leave in the spool and in the bucket.
func leave(t *testing.T, bucket blobstore.Bucket, key string, part []byte, spool, root string) {
	t.Helper()
	spools := []string{spool}
	if b, ok := bucket.(*blobstore.S3); ok {
		require.NoError(t, b.BreakUpload(t.Context(), key, part))
	} else {
		spools = append(spools, root)
	}
	before := len(filesWith(t, part, spool, root))
	for _, dir := range spools {
		path := filepath.Join(dir, ".tmp-cut-off")
		require.NoError(t, os.WriteFile(path, part, 0o600))
		long := time.Now().Add(-2 * time.Hour)
		require.NoError(t, os.Chtimes(path, long, long))
	}
	require.Len(t, filesWith(t, part, spool, root), before+len(spools))
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
