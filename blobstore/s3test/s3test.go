package s3test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const (
	accessKey = "herbarium-test"
	secretKey = "herbarium-test-secret" // of a server that lives as long as one test, on loopback
	bucket    = "herbarium"

	startTimeout = 30 * time.Second
	pollInterval = 20 * time.Millisecond
)

// Server is a running server with one empty bucket.
type Server struct {
	// Spec is the bucket as blobstore.OpenBucket takes it, with a prefix.
	Spec string
	// Endpoint is the server's http URL on loopback.
	Endpoint string
	// Dir is the bucket's own directory: an object with the key k (prefix
	// included) is the file Dir/k. Tests change bytes there behind the server's back.
	Dir string
	// Prefix is the prefix that Spec names, without slashes around it.
	Prefix string
	// Versions is the directory of what was replaced or deleted; "" but for StartVersioned.
	Versions string
}

// Start is StartServer for tests that need no more than the specification.
func Start(t testing.TB) (spec string) {
	t.Helper()
	return StartServer(t).Spec
}

// StartServer runs versitygw on a free loopback port until the test ends, and
// puts its credentials into this process's environment, where the AWS chain (and
// any child process) finds them. It fails the test when the binary is missing.
func StartServer(t testing.TB) *Server {
	t.Helper()
	return startServer(t, "")
}

// StartVersioned is StartServer with a bucket that keeps the versions of what is
// replaced or deleted, in Server.Versions.
func StartVersioned(t testing.TB) *Server {
	t.Helper()
	versions := filepath.Join(t.TempDir(), "versions")
	if err := os.MkdirAll(versions, 0o700); err != nil {
		t.Fatalf("s3test: %v", err)
	}
	server := startServer(t, versions)
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(server.Endpoint), Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
	})
	_, err := client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket: aws.String(bucket), VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	})
	if err != nil {
		t.Fatalf("s3test: turn versioning on: %v", err)
	}
	return server
}

func startServer(t testing.TB, versions string) *Server {
	t.Helper()
	binary := Binary(t)
	SetCredentials()

	root := t.TempDir()
	dir := filepath.Join(root, "data", bucket)
	sidecar := filepath.Join(root, "sidecar")
	for _, d := range []string{dir, sidecar} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatalf("s3test: %v", err)
		}
	}
	// Another process may take the port between our look and the server's start:
	// then it exits, and another port is tried.
	var failure error
	for range 3 {
		address, err := freeAddress()
		if err != nil {
			t.Fatalf("s3test: find a free port: %v", err)
		}
		args := []string{"--port", address, "--quiet", "posix", "--sidecar", sidecar}
		if versions != "" {
			args = append(args, "--versioning-dir", versions)
		}
		if failure = run(t, binary, address, append(args, filepath.Dir(dir))); failure == nil {
			endpoint := "http://" + address
			const prefix = "test"
			return &Server{
				Spec:     fmt.Sprintf("s3://%s/%s?endpoint=%s&region=us-east-1&path_style=true", bucket, prefix, endpoint),
				Endpoint: endpoint,
				Dir:      dir,
				Prefix:   prefix,
				Versions: versions,
			}
		}
	}
	t.Fatalf("s3test: start versitygw: %v", failure)
	return nil
}

// Binary is the path of versitygw: in $HERBARIUM_TEST_TOOLS, or where `make deps` puts it.
func Binary(t testing.TB) string {
	t.Helper()
	tools := os.Getenv("HERBARIUM_TEST_TOOLS")
	if tools == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatalf("s3test: %v", err)
		}
		tools = filepath.Join(home, ".cache", "herbarium", "tools")
	}
	path := filepath.Join(tools, "versitygw")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("s3test: versitygw is missing (%v): run `make deps`", err)
	}
	return path
}

// run starts the server and returns when it answers. It leaves the process to
// the test's cleanup.
func run(t testing.TB, binary, address string, args []string) error {
	t.Helper()
	var log bytes.Buffer
	// Metadata lies beside the data: not every file system has extended attributes.
	// Not the test's context, which ends before its cleanups: they may need the server.
	cmd := exec.CommandContext(context.Background(), binary, args...)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY_ID="+accessKey, "ROOT_SECRET_ACCESS_KEY="+secretKey)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() { // ends with the process
		defer close(exited)
		_ = cmd.Wait() // it is killed, or its log tells
	}()
	stop := func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		<-exited
	}
	if err := waitUntilUp("http://"+address, exited); err != nil {
		stop()
		return fmt.Errorf("%w; it said: %s", err, log.String())
	}
	t.Cleanup(stop)
	return nil
}

func waitUntilUp(endpoint string, exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, nil)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			// Without credentials it refuses, but it is there.
			return response.Body.Close()
		}
		select {
		case <-exited:
			return fmt.Errorf("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it does not answer after %s", startTimeout)
		case <-time.After(pollInterval):
		}
	}
}

func freeAddress() (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	address := listener.Addr().String()
	return address, listener.Close()
}

// SetCredentials puts the credentials of every server that Start starts into this
// process's environment; Start does it by itself. It does not use t.Setenv, which
// forbids parallel tests: the values are always the same, so there is nothing to
// put back.
func SetCredentials() { setCredentials() }

var setCredentials = sync.OnceFunc(func() {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID":         accessKey,
		"AWS_SECRET_ACCESS_KEY":     secretKey,
		"AWS_SESSION_TOKEN":         "",
		"AWS_EC2_METADATA_DISABLED": "true",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(fmt.Sprintf("s3test: %v", err)) // only for a malformed name
		}
	}
})
