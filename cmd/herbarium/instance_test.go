package main_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore/s3test"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "herbarium-e2e-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "herbarium")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// adminPassword of every instance under test.
const adminPassword = "correct horse battery staple"

// instance is a running `herbarium serve`, on loopback, with its data in the
// test's folder.
type instance struct {
	t    testing.TB
	url  string
	env  []string
	cmd  *exec.Cmd
	log  *lockedBuffer
	done chan struct{} // closed when the process has ended
}

// lockedBuffer is a bytes.Buffer that a process writes while the test reads.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// eachBackend runs fn against both ways to run Herbarium: everything in one
// folder, and Postgres with S3. The test starts the instance.
func eachBackend(t *testing.T, fn func(t *testing.T, env []string)) {
	t.Run("sqlite and directory", func(t *testing.T) { fn(t, nil) })
	t.Run("postgres and s3", func(t *testing.T) {
		fn(t, []string{
			"HERBARIUM_PDS_DB=" + dbtest.DSN(t, migrations.Postgres),
			"HERBARIUM_APPVIEW_DB=" + dbtest.DSN(t, migrations.Postgres),
			"HERBARIUM_BLOBS=" + s3test.Start(t),
		})
	})
}

// freePort is a port of loopback that was free a moment ago.
func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// start runs an instance until the test ends. The environment is its whole
// configuration: nothing of the test's own leaks in. {port} in it is the port
// that the instance listens on.
func start(t testing.TB, env ...string) *instance {
	t.Helper()
	port := freePort(t)
	in := &instance{t: t, url: fmt.Sprintf("http://localhost:%d", port)}
	in.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		// What the S3 driver's credential chain reads.
		"AWS_ACCESS_KEY_ID=" + os.Getenv("AWS_ACCESS_KEY_ID"), "AWS_SECRET_ACCESS_KEY=" + os.Getenv("AWS_SECRET_ACCESS_KEY"),
		"HERBARIUM_DATA_DIR=" + t.TempDir(),
		fmt.Sprintf("HERBARIUM_LISTEN=127.0.0.1:%d", port),
		"HERBARIUM_PUBLIC_URL=" + in.url,
		"HERBARIUM_ADMIN_PASSWORD=" + adminPassword,
		"HERBARIUM_DEV_LOOPBACK=true",
		"HERBARIUM_LOG_FORMAT=json",
	}, env...)
	for i := range in.env {
		in.env[i] = strings.ReplaceAll(in.env[i], "{port}", strconv.Itoa(port))
	}
	in.launch()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the instance:\n%s", tail(in.log.String(), 8000))
		}
		in.kill()
	})
	return in
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// launch starts the process and waits until it answers.
func (in *instance) launch() {
	in.t.Helper()
	in.log = &lockedBuffer{}
	in.cmd = exec.Command(binary, "serve")
	in.cmd.Env, in.cmd.Stdout, in.cmd.Stderr = in.env, in.log, in.log
	in.cmd.Dir = in.t.TempDir()
	require.NoError(in.t, in.cmd.Start())
	in.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait()
		close(done)
	}(in.cmd, in.done)
	eventually(in.t, 60*time.Second, "the instance is ready", func() error {
		select {
		case <-in.done:
			in.t.Fatalf("the instance ended:\n%s", tail(in.log.String(), 4000))
		default:
		}
		resp, err := http.Get(in.url + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz answers %s", resp.Status)
		}
		return nil
	})
}

// kill ends the process at once, as kill -9 does.
func (in *instance) kill() {
	_ = in.cmd.Process.Kill()
	<-in.done
}

// terminate asks the process to end and waits for it.
func (in *instance) terminate() int {
	in.t.Helper()
	require.NoError(in.t, in.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-in.done:
	case <-time.After(30 * time.Second):
		in.t.Fatalf("the instance did not end on SIGTERM:\n%s", tail(in.log.String(), 4000))
	}
	return in.cmd.ProcessState.ExitCode()
}

// herbarium runs another command of the program in the instance's environment.
func (in *instance) herbarium(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env, cmd.Dir = in.env, in.t.TempDir()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// admin is a client with the operator's credential.
func (in *instance) admin() *atclient.APIClient {
	return atclient.NewAdminClient(in.url, adminPassword)
}

// account makes an account and logs it in.
func (in *instance) account(handle string) *atclient.APIClient {
	in.t.Helper()
	ctx := in.t.Context()
	var invite struct {
		Code string `json:"code"`
	}
	require.NoError(in.t, in.admin().Post(ctx, "com.atproto.server.createInviteCode", map[string]any{"useCount": 1}, &invite))
	password := "password of " + handle
	require.NoError(in.t, atclient.NewAPIClient(in.url).Post(ctx, "com.atproto.server.createAccount",
		map[string]any{"handle": handle, "password": password, "inviteCode": invite.Code}, nil))
	client, err := atclient.LoginWithPasswordHost(ctx, in.url, handle, password, "", nil)
	require.NoError(in.t, err)
	return client
}

// eventually polls until check succeeds.
func eventually(t testing.TB, within time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// clients is the folder of the Node programs, with their packages installed.
func clients(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("testdata/clients")
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal("the npm packages of the outside clients are not installed: make deps")
	}
	return dir
}

// node runs one of the Node programs.
func node(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{program}, args...)...)
	cmd.Dir = clients(t)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s:\n%s", program, strings.Join(args, " "), out)
	return string(out)
}
