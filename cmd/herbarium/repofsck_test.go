package main_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
)

// exitCode runs a command beside the server and answers how it ended.
func (in *instance) exitCode(args ...string) (int, string) {
	in.t.Helper()
	out, err := in.herbarium(in.t.Context(), args...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), out
	}
	require.NoError(in.t, err)
	return 0, out
}

// The exit code of repo fsck tells what it found, beside the running server.
func TestRepoFsckExitCodes(t *testing.T) {
	dsn := "sqlite:" + t.TempDir() + "/pds.db"
	in := start(t, "HERBARIUM_PDS_DB="+dsn)
	client := in.account("ada.test")
	require.NoError(t, client.Post(t.Context(), "com.atproto.repo.createRecord", map[string]any{
		"repo": client.AccountDID, "collection": "com.example.note", "rkey": "seen", "record": map[string]any{"text": "seen"},
	}, nil))
	did := string(*client.AccountDID)
	fsck := func(args ...string) (int, string) {
		return in.exitCode(append([]string{"repo", "fsck"}, args...)...)
	}
	db, err := migrations.Open(t.Context(), migrations.PDS, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	run := func(statement string, args ...any) {
		require.NoError(t, db.Write.WithContext(t.Context()).Exec(statement, args...).Error)
	}

	code, out := fsck()
	require.Equal(t, 0, code, out)
	require.Contains(t, out, "1 repos checked: 1 nodes, 1 records")

	run("UPDATE repos SET record_count = 9")
	code, out = fsck("--did", did)
	require.Equal(t, 4, code, out)
	require.Contains(t, out, "repo fsck --repair")
	code, out = fsck("--repair")
	require.Equal(t, 0, code, out)
	require.Contains(t, out, "repaired")

	run("UPDATE records SET block = ?", []byte{0xa0})
	code, out = fsck("--json")
	require.Equal(t, 3, code, out)
	var fault struct{ Fault, DID, Subject, Expected, Found, Repair string }
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &fault), out)
	require.Equal(t, "record-damaged", fault.Fault)
	require.Equal(t, "at://"+did+"/com.example.note/seen", fault.Subject)
	require.NotEmpty(t, fault.Repair)
	require.NotEqual(t, fault.Expected, fault.Found)

	run("DELETE FROM accounts")
	code, out = fsck("--sample", "100%")
	require.Equal(t, 3, code, out)
	require.Contains(t, out, "account-missing")

	code, out = fsck("--did", "did:web:nobody.test")
	require.Equal(t, 1, code, out)
	code, out = fsck("--did", did, "--sample", "5%")
	require.Equal(t, 1, code, out)
}
