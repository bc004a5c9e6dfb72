//go:build reference

package main_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// referencePDS runs the reference implementation and answers its URL.
func referencePDS(t *testing.T, plc string) string {
	t.Helper()
	dir, err := filepath.Abs("testdata/reference")
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal("the reference PDS is not installed: make reference")
	}
	cmd := exec.Command("node", "pds.mjs", plc)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		// It removes its folder when its standard input ends.
		_ = stdin.Close()
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	require.NoError(t, err)
	var started struct{ URL string }
	require.NoError(t, json.Unmarshal(line, &started), "%s", line)
	return started.URL
}

// An account of the reference PDS moves here and back, and one of ours moves
// there and back: the DID, the records, the blobs and the CIDs stay, and the
// firehoses of the two join without a gap.
func TestMigrationWithTheReference(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		plc := plcDirectory(t)
		reference, ours := referencePDS(t, plc), publicHost(t, plc, env...)
		t.Run("there, here, there", func(t *testing.T) {
			report := migrate(t, plc, reference, ours.url, reference)
			verifyFirehoses(t, report, firehose)
		})
		t.Run("here, there, here", func(t *testing.T) {
			report := migrate(t, plc, ours.url, reference, ours.url)
			verifyFirehoses(t, report, firehose)
			require.Equal(t, map[string]bool{"seen in round 0": false, "seen in round 1": true, "seen in round 2": false}, baselines(t, ours, report))
		})
	})
}
