package blobstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Both kinds of temporary file behave alike: the test's machine has only one of
// them on its file system, another's has the other.
func TestTempFiles(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(dir string) (*tempFile, error){
		"as the system has it": createTemp,
		"with a name":          createNamedTemp,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()

			f, err := create(dir)
			require.NoError(t, err)
			f.discard()
			requireNames(t, dir)

			final := filepath.Join(dir, "final")
			for _, text := range []string{"first", "second, replacing it"} {
				f, err = create(dir)
				require.NoError(t, err)
				_, err = f.WriteString(text)
				require.NoError(t, err)
				require.NoError(t, f.publish(dir, final))
				f.discard()
				got, err := os.ReadFile(final)
				require.NoError(t, err)
				require.Equal(t, text, string(got))
				requireNames(t, dir, "final")
			}

			f, err = create(dir)
			require.NoError(t, err)
			require.Error(t, f.publish(dir, filepath.Join(dir, "no", "such", "directory")))
			f.discard()
			requireNames(t, dir, "final")

			info, err := os.Stat(final)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		})
	}
}

// A file has no name wherever the system can do that, and one where it cannot.
func TestTempFileHasANameOnlyWhereItMust(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unnamed, unsupported := openUnnamed(dir)
	if unsupported == nil {
		require.NoError(t, unnamed.Close())
	} else {
		require.ErrorIs(t, unsupported, errors.ErrUnsupported)
	}
	f, err := createTemp(dir)
	require.NoError(t, err)
	defer f.discard()
	require.Equal(t, unsupported != nil, f.name != "")
	if f.name == "" {
		requireNames(t, dir)
	} else {
		requireNames(t, dir, filepath.Base(f.name))
	}
}

func requireNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.Equal(t, want, got)
}
