package main_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The two commands of the README, as make runs them: the demo finds the
// instance and its admin password by itself.
func TestMakeRunAndMakeDemo(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	port := freePort(t)
	env := append(os.Environ(), "HERBARIUM_DATA_DIR="+t.TempDir(), fmt.Sprintf("HERBARIUM_LISTEN=127.0.0.1:%d", port))
	server := exec.Command("make", "-C", root, "run")
	log := &lockedBuffer{}
	server.Env, server.Stdout, server.Stderr = env, log, log
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // make and what it runs
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-server.Process.Pid, syscall.SIGTERM)
		_ = server.Wait()
	})
	eventually(t, 3*time.Minute, "make run serves", func() error {
		err := getJSON(fmt.Sprintf("http://localhost:%d/xrpc/_health", port), nil)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, tail(log.String(), 1000))
		}
		return nil
	})
	play := exec.CommandContext(t.Context(), "make", "-C", root, "demo")
	play.Env = env
	out, err := play.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), fmt.Sprintf("Two agents at http://localhost:%d", port))
}

// Without an instance to play against, the demo starts one, whatever the
// operator's configuration says, and leaves that alone.
func TestDemoOnItsOwnInstance(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "data")
	cmd := exec.CommandContext(t.Context(), binary, "demo")
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "HERBARIUM_DATA_DIR=" + kept, fmt.Sprintf("HERBARIUM_LISTEN=127.0.0.1:%d", freePort(t)),
		"HERBARIUM_ADMIN_PASSWORD=of another instance",
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "starting an instance for the demo")
	require.Contains(t, string(out), "Where to look further")
	require.NoDirExists(t, kept)
}

func TestCommandsBesideTheServer(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		metrics := freePort(t)
		in := start(t, append(env, fmt.Sprintf("HERBARIUM_METRICS_LISTEN=127.0.0.1:%d", metrics))...)
		run := func(args ...string) string {
			t.Helper()
			out, err := in.herbarium(t.Context(), args...)
			require.NoError(t, err, out)
			return out
		}
		client := in.account("ada.test")
		createNote(t, client, "a note")

		require.Equal(t, "ready\n", run("healthcheck"))
		require.NotEmpty(t, strings.TrimSpace(run("version")))
		require.NotContains(t, run("migrate", "--status"), "missing")
		require.NotContains(t, run("migrate"), "missing")
		shown := run("config", "show")
		require.Regexp(t, `ADMIN_PASSWORD +environment +\*\*\*`, shown)
		require.NotContains(t, shown, adminPassword)
		require.Contains(t, run("config", "template"), "# listen = \"127.0.0.1:2583\"")

		require.NoError(t, client.LexDo(t.Context(), "POST", "application/octet-stream", "com.atproto.repo.uploadBlob", nil,
			bytes.NewReader(make([]byte, 1_500_000)), nil))
		require.Regexp(t, `ada\.test .* 1500000 +0 +0\n`, run("blob", "status"))
		require.Contains(t, run("blob", "gc"), "would be")
		require.Regexp(t, `moved to the trash +0 blobs`, run("blob", "gc", "--run"))

		scraped := get(t, fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics))
		require.Regexp(t, `herbarium_request_duration_seconds_count\{route="com.atproto.repo.createRecord",status="200",verb="POST"\} 1`, scraped)
		require.Contains(t, scraped, "herbarium_firehose_seq ")
		resp, err := http.Get(in.url + "/metrics")
		require.NoError(t, err)
		resp.Body.Close()
		require.NotEqual(t, http.StatusOK, resp.StatusCode, "metrics are on their own listener only")

		for _, command := range [][]string{{"serve", "extra"}, {"config", "show", "extra"}} {
			out, err := in.herbarium(t.Context(), command...)
			require.Error(t, err)
			require.Contains(t, out, "takes no arguments")
		}

		in.terminate()
		out, err := in.herbarium(t.Context(), "healthcheck")
		require.Error(t, err, out)
		require.Contains(t, run("reindex"), "rebuilt")
		in.launch()
		require.NoError(t, in.admin().Get(t.Context(), "garden.herbarium.getIndexStatus", map[string]any{"did": client.AccountDID}, nil))
	})
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

// A write that is under way when the server is asked to end is finished and
// answered.
func TestRunningWritesFinishOnSIGTERM(t *testing.T) {
	in := start(t)
	client := in.account("ada.test")
	body := fmt.Sprintf(`{"repo":%q,"collection":"com.example.note","record":{"text":"slow"}}`, client.AccountDID)
	conn, err := net.Dial("tcp", strings.TrimPrefix(in.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	var session struct{ AccessJwt string }
	require.NoError(t, client.Post(t.Context(), "com.atproto.server.createSession", map[string]any{"identifier": "ada.test", "password": "password of ada.test"}, &session))
	_, err = fmt.Fprintf(conn, "POST /xrpc/com.atproto.repo.createRecord HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		session.AccessJwt, len(body))
	require.NoError(t, err)
	// The request is known to be under way: its handler asks for the body.
	answered := bufio.NewReader(conn)
	line, err := answered.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
	_, err = conn.Write([]byte(body[:10]))
	require.NoError(t, err)

	ended := make(chan int, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() { ended <- in.terminate() }()
	eventually(t, 10*time.Second, "the listener is closed", func() error {
		probe, err := net.Dial("tcp", strings.TrimPrefix(in.url, "http://"))
		if err != nil {
			return nil
		}
		probe.Close()
		return fmt.Errorf("still open")
	})
	_, err = conn.Write([]byte(body[10:]))
	require.NoError(t, err)
	answer, err := io.ReadAll(answered)
	require.NoError(t, err)
	require.Contains(t, string(answer), "HTTP/1.1 200 OK", "%s", answer)
	select {
	case code := <-ended:
		require.Equal(t, 0, code)
	case <-ctx.Done():
		t.Fatal("the server did not end")
	}
}

// Without the master key the accounts' keys can't be opened: the start says so
// and makes no other one in its place.
func TestMissingMasterKeyIsNotReplaced(t *testing.T) {
	in := start(t)
	in.kill()
	var data string
	for _, variable := range in.env {
		if value, ok := strings.CutPrefix(variable, "HERBARIUM_DATA_DIR="); ok {
			data = value
		}
	}
	path := filepath.Join(data, "secrets", "master-key")
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	out, err := in.herbarium(t.Context(), "serve")
	require.Error(t, err)
	require.Contains(t, out, "bring it back")
	require.NoFileExists(t, path)
	require.NoError(t, os.WriteFile(path, kept, 0o600))
	in.launch()
}

// A pds.db that was lost beside the index of its events would give out seqs and
// identities a second time.
func TestLostPDSDatabaseIsNotReplaced(t *testing.T) {
	in := start(t)
	client := in.account("ada.test")
	createNote(t, client, "a note")
	eventually(t, 30*time.Second, "the index has it", func() error {
		var status struct{ Repo struct{ Rev string } }
		if err := in.admin().Get(t.Context(), "garden.herbarium.getIndexStatus", map[string]any{"did": client.AccountDID}, &status); err != nil {
			return err
		}
		if status.Repo.Rev == "" {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	in.terminate()
	for _, variable := range in.env {
		if data, ok := strings.CutPrefix(variable, "HERBARIUM_DATA_DIR="); ok {
			lost, err := filepath.Glob(filepath.Join(data, "pds.db*"))
			require.NoError(t, err)
			require.NotEmpty(t, lost)
			for _, file := range lost {
				require.NoError(t, os.Remove(file))
			}
		}
	}
	out, err := in.herbarium(t.Context(), "serve")
	require.Error(t, err)
	require.Contains(t, out, "PDS_DB was lost")
}
