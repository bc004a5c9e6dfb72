package account_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/pds/account"
)

func TestSecretsAreMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "secrets")
	first, err := account.LoadOrCreateSecrets(dir, account.GivenSecrets{})
	require.NoError(t, err)
	require.Len(t, first.Created(), 3)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3, "nothing temporary is left")
	for _, entry := range entries {
		info, err := entry.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), entry.Name())
	}
	password, err := account.ReadAdminPassword(dir)
	require.NoError(t, err)
	require.True(t, first.IsAdminPassword(password))
	require.False(t, first.IsAdminPassword(password+"x"))
	require.False(t, first.IsAdminPassword(""))

	again, err := account.LoadOrCreateSecrets(dir, account.GivenSecrets{})
	require.NoError(t, err)
	require.Empty(t, again.Created())
	require.True(t, again.IsAdminPassword(password))
}

func TestSecretsOfProcessesThatStartAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	all := make([]*account.Secrets, 16)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i], _ = account.LoadOrCreateSecrets(dir, account.GivenSecrets{}) })
	}
	wg.Wait()
	password, err := account.ReadAdminPassword(dir)
	require.NoError(t, err)
	created := 0
	for _, s := range all {
		require.NotNil(t, s)
		require.True(t, s.IsAdminPassword(password))
		created += len(s.Created())
	}
	require.Equal(t, 3, created, "each file was made by one of them")
}

func TestSecretsThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(t *testing.T, dir string)
		given   account.GivenSecrets
		want    string
	}{
		"open folder":      {prepare: func(t *testing.T, dir string) { require.NoError(t, os.Chmod(dir, 0o750)) }, want: "lets others in"},
		"open file":        {prepare: func(t *testing.T, dir string) { require.NoError(t, os.Chmod(filepath.Join(dir, "jwt-secret"), 0o640)) }, want: "lets others in"},
		"empty file":       {prepare: func(t *testing.T, dir string) { write(t, dir, "admin-password", "") }, want: "empty"},
		"short jwt secret": {prepare: func(t *testing.T, dir string) { write(t, dir, "jwt-secret", "short") }, want: "at least 32 bytes"},
		"short master key": {prepare: func(t *testing.T, dir string) { write(t, dir, "master-key", "abcd") }, want: "32 bytes"},
		"huge file":        {prepare: func(t *testing.T, dir string) { write(t, dir, "jwt-secret", strings.Repeat("x", 1<<20)) }, want: "too large"},
		"symbolic link": {prepare: func(t *testing.T, dir string) {
			path := filepath.Join(dir, "master-key")
			require.NoError(t, os.Rename(path, path+"2"))
			require.NoError(t, os.Symlink(path+"2", path))
		}, want: "want a plain file"},
		"given key": {given: account.GivenSecrets{MasterKey: "hunter2"}, want: "want 32 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "secrets")
			_, err := account.LoadOrCreateSecrets(dir, account.GivenSecrets{})
			require.NoError(t, err)
			if test.prepare != nil {
				test.prepare(t, dir)
			}
			_, err = account.LoadOrCreateSecrets(dir, test.given)
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}

func TestGivenSecretsNeedNoFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	for _, key := range []string{strings.Repeat("ab", 32), strings.Repeat("q", 42) + "g", strings.Repeat("q", 42) + "g="} {
		s, err := account.LoadOrCreateSecrets(dir, account.GivenSecrets{MasterKey: key, JWTSecret: jwtSecret, AdminPassword: "hunter2"})
		require.NoError(t, err)
		require.Empty(t, s.Created())
		require.NoDirExists(t, dir)

		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "s", s)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
			fmt.Fprintf(&out, verb, s)
			fmt.Fprintf(&out, verb, *s)
			fmt.Fprintf(&out, verb, struct{ inner *account.Secrets }{s})
		}
		require.NotContains(t, out.String(), "jjjj")
		require.NotContains(t, out.String(), "6a6a6a")
		require.NotContains(t, out.String(), "[106 106")
	}
}
