package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/stretchr/testify/require"
)

// plcDirectory starts the in-memory PLC directory, which validates operations
// with @did-plc/lib, and answers its URL.
func plcDirectory(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("node", "plc.mjs")
	cmd.Dir = clients(t)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	require.NoError(t, err)
	var started struct {
		Port int `json:"port"`
	}
	require.NoError(t, json.Unmarshal(line, &started), "%s", line)
	return fmt.Sprintf("http://localhost:%d", started.Port)
}

// tool is a program that `make deps` builds.
func tool(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("HERBARIUM_TEST_TOOLS")
	if dir == "" {
		home, err := os.UserHomeDir()
		require.NoError(t, err)
		dir = filepath.Join(home, ".cache", "herbarium", "tools")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is not built: make deps", name)
	}
	return path
}

// indigo's tap, a consumer that verifies signatures and inductive proofs,
// backfills did:plc accounts of this host and follows them live.
func TestTapBackfillsAndFollows(t *testing.T) {
	plc := plcDirectory(t)
	in := start(t, "HERBARIUM_VISIBILITY=public", "HERBARIUM_IDENTITY=plc", "HERBARIUM_PLC_URL="+plc)
	ctx := t.Context()
	client := in.account("tapped.test")
	require.Regexp(t, "^did:plc:[a-z2-7]{24}$", client.AccountDID.String())
	for n := range 30 {
		createNote(t, client, fmt.Sprintf("before tap, %d", n))
	}

	port := freePort(t)
	log := &lockedBuffer{}
	cmd := exec.Command(tool(t, "tap"), "run",
		"--db-url", "sqlite://"+filepath.Join(t.TempDir(), "tap.db"), "--bind", fmt.Sprintf("127.0.0.1:%d", port),
		"--plc-url", plc, "--relay-url", in.url, "--disable-acks", "--cursor-save-interval", "100ms")
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of tap:\n%s", tail(log.String(), 6000))
		}
	})
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	eventually(t, 30*time.Second, "tap answers", func() error { return getJSON(base+"/health", nil) })
	body, err := json.Marshal(map[string]any{"dids": []string{client.AccountDID.String()}})
	require.NoError(t, err)
	resp, err := http.Post(base+"/repos/add", "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)

	follows := func(records int) {
		t.Helper()
		var latest struct{ Rev string }
		require.NoError(t, client.Get(ctx, "com.atproto.sync.getLatestCommit", map[string]any{"did": client.AccountDID}, &latest))
		eventually(t, 30*time.Second, "tap is where the host is", func() error {
			var info struct {
				State, Rev, Error string
				Records           int
			}
			if err := getJSON(base+"/info/"+client.AccountDID.String(), &info); err != nil {
				return err
			}
			if info.State != "active" || info.Rev != latest.Rev || info.Records != records || info.Error != "" {
				return fmt.Errorf("tap says %+v, want active at %s with %d records", info, latest.Rev, records)
			}
			return nil
		})
	}
	follows(30)

	// Live: creates, an update, a delete, and a batch.
	kept := createNote(t, client, "to be changed")
	gone := createNote(t, client, "to be deleted")
	require.NoError(t, client.Post(ctx, "com.atproto.repo.putRecord", map[string]any{
		"repo": client.AccountDID, "collection": "com.example.note", "rkey": lastPart(kept), "record": map[string]any{"text": "changed"},
	}, nil))
	require.NoError(t, client.Post(ctx, "com.atproto.repo.deleteRecord", map[string]any{
		"repo": client.AccountDID, "collection": "com.example.note", "rkey": lastPart(gone),
	}, nil))
	var writes []any
	for n := range 50 {
		writes = append(writes, map[string]any{
			"$type": "com.atproto.repo.applyWrites#create", "collection": "com.example.note", "value": map[string]any{"text": fmt.Sprintf("batch, %d", n)},
		})
	}
	require.NoError(t, client.Post(ctx, "com.atproto.repo.applyWrites", map[string]any{"repo": client.AccountDID, "writes": writes}, nil))
	follows(30 + 1 + 50)

	// A purge: the record goes, and whoever follows goes on.
	out, err := in.herbarium(ctx, "purge", "run", "--yes", "--record", kept)
	require.NoError(t, err, out)
	follows(30 + 50)
	createNote(t, client, "after the purge")
	follows(30 + 50 + 1)
	require.NotContains(t, log.String(), "failed to verify", "tap verifies signatures and inductive proofs")
}

func lastPart(uri string) string { return filepath.Base(uri) }

// getJSON reads a JSON answer into out, when that is not nil.
func getJSON(url string, out any) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return &atclient.APIError{StatusCode: resp.StatusCode}
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}
