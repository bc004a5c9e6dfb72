package blobstore_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/s3test"
)

func TestVerifyFindsDamage(t *testing.T) {
	t.Parallel()
	eachStoreOfFiles(t, 0, func(t *testing.T, s *blobstore.Store, _ string, object func(string) string) {
		body := strings.Repeat("evidence ", 100_000)
		info := receive(t, s, body)
		at, err := s.Stat(t.Context(), info.CID)
		require.NoError(t, err)
		path := object(at.Key)

		flipped := []byte(body)
		flipped[500_000] ^= 1
		require.NoError(t, os.WriteFile(path, flipped, 0o600))
		require.ErrorIs(t, s.Verify(t.Context(), info.CID), blobstore.ErrCorrupt, "one bit")
		require.Equal(t, info, receive(t, s, body))
		require.NoError(t, s.Verify(t.Context(), info.CID), "an upload of the same bytes repairs it")

		require.NoError(t, os.Truncate(path, 1000))
		require.ErrorIs(t, s.Verify(t.Context(), info.CID), blobstore.ErrCorrupt, "cut short")
		require.Equal(t, info, receive(t, s, body))
		require.NoError(t, s.Verify(t.Context(), info.CID))
	})
}

// The server compares what it received with the digest in the signed request.
func TestS3RefusesWrongDigest(t *testing.T) {
	t.Parallel()
	b, err := blobstore.OpenBucket(t.Context(), s3test.Start(t))
	require.NoError(t, err)
	err = b.Put(t.Context(), "k", strings.NewReader("what was sent"), 13, sha256.Sum256([]byte("what was meant")))
	require.ErrorIs(t, err, blobstore.ErrCorrupt)
	_, err = b.Stat(t.Context(), "k")
	require.ErrorIs(t, err, blobstore.ErrNotFound)
}

// fakeS3 answers each PUT by put; any other request finds nothing. It can do
// what a real server does not do on demand.
func fakeS3(t *testing.T, put func(w http.ResponseWriter, r *http.Request)) blobstore.Bucket {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		put(w, r)
	}))
	t.Cleanup(server.Close)
	s3test.SetCredentials()
	b, err := blobstore.OpenBucket(t.Context(), "s3://b?region=us-east-1&path_style=true&endpoint="+server.URL)
	require.NoError(t, err)
	return b
}

func TestS3LiesAboutChecksum(t *testing.T) {
	t.Parallel()
	other := sha256.Sum256([]byte("other bytes"))
	b := fakeS3(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("x-amz-checksum-sha256", base64.StdEncoding.EncodeToString(other[:]))
	})
	s, err := blobstore.New(blobstore.Config{Bucket: b, SpoolDir: t.TempDir()})
	require.NoError(t, err)
	_, err = s.Receive(t.Context(), strings.NewReader("hello world"), "")
	require.ErrorIs(t, err, blobstore.ErrCorrupt)
}

// A server that fails for a moment is asked again, with the whole body.
func TestS3Retries(t *testing.T) {
	t.Parallel()
	var bodies []string
	b := fakeS3(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		if len(bodies) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	s, err := blobstore.New(blobstore.Config{Bucket: b, SpoolDir: t.TempDir()})
	require.NoError(t, err)
	_, err = s.Receive(t.Context(), strings.NewReader("hello world"), "")
	require.NoError(t, err)
	require.Equal(t, []string{"hello world", "hello world", "hello world"}, bodies)
}

// A rename that fails leaves neither a half-written object nor a temporary file.
func TestDirPutFails(t *testing.T) {
	t.Parallel()
	for name, spoolOf := range map[string]func(root string) string{
		"the spool's file is renamed": func(string) string { return t.TempDir() },
		"the spool is elsewhere":      func(string) string { return otherFileSystem(t) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			b, err := blobstore.OpenDir(root)
			require.NoError(t, err)
			spool := spoolOf(root)
			s, err := blobstore.New(blobstore.Config{Bucket: b, SpoolDir: spool})
			require.NoError(t, err)

			// Where the object belongs there is a directory that is not empty.
			path := filepath.Join(root, "objects", helloCID[len(helloCID)-3:len(helloCID)-1], helloCID)
			require.NoError(t, os.MkdirAll(filepath.Join(path, "in the way"), 0o700))
			_, err = s.Receive(t.Context(), strings.NewReader("hello world"), "")
			require.Error(t, err)
			requireEmptyDir(t, root)
			requireEmptyDir(t, spool)

			require.NoError(t, os.RemoveAll(path))
			receive(t, s, "hello world")
			require.Equal(t, "hello world", readAll(t, s, cid.MustParse(helloCID)))
		})
	}
}

// otherFileSystem is a directory from which nothing can be renamed into a
// t.TempDir.
func otherFileSystem(t *testing.T) string {
	t.Helper()
	var here, there syscall.Stat_t
	require.NoError(t, syscall.Stat(t.TempDir(), &here))
	for _, parent := range []string{"/dev/shm", "/run/shm", "/run", "/var/tmp", "."} {
		if syscall.Stat(parent, &there) != nil || here.Dev == there.Dev {
			continue
		}
		dir, err := os.MkdirTemp(parent, "herbarium-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
		return dir
	}
	t.Fatal("there is no second file system that can be written to: mount one at /dev/shm")
	return ""
}

func TestSpoolOnAnotherFileSystem(t *testing.T) {
	t.Parallel()
	b, err := blobstore.OpenDir(t.TempDir())
	require.NoError(t, err)
	spool := otherFileSystem(t)
	s, err := blobstore.New(blobstore.Config{Bucket: b, SpoolDir: spool})
	require.NoError(t, err)
	body := strings.Repeat("copied, not renamed ", 50_000)
	info := receive(t, s, body)
	require.Equal(t, body, readAll(t, s, info.CID))
	require.NoError(t, s.Verify(t.Context(), info.CID))
	requireEmptyDir(t, spool)
}

// Somebody tidied up and removed an empty directory: the bucket makes it again.
func TestDirectoryRemoved(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	b, err := blobstore.OpenDir(root)
	require.NoError(t, err)
	put := func() error {
		return b.Put(t.Context(), "a/b/c", strings.NewReader("x"), 1, sha256.Sum256([]byte("x")))
	}
	require.NoError(t, put())
	require.NoError(t, os.RemoveAll(filepath.Join(root, "a")))
	require.Error(t, put(), "once")
	require.NoError(t, put())
	_, err = b.Stat(t.Context(), "a/b/c")
	require.NoError(t, err)
}

func TestStaleFilesGo(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(dir string) error{
		"spool": func(dir string) error {
			_, err := blobstore.New(blobstore.Config{Bucket: blobstore.NewMemory(), SpoolDir: dir})
			return err
		},
		"dir": func(dir string) error {
			_, err := blobstore.OpenDir(dir)
			return err
		},
	} {
		dir := t.TempDir()
		longAgo := time.Now().Add(-2 * time.Hour)
		for file, modified := range map[string]time.Time{
			".tmp-left-by-a-crash": longAgo,
			".tmp-being-written":   time.Now(),
			"somebody-elses":       longAgo,
		} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte("half"), 0o600))
			require.NoError(t, os.Chtimes(filepath.Join(dir, file), modified, modified))
		}
		require.NoError(t, open(dir), name)
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		require.Equal(t, []string{filepath.Join(dir, ".tmp-being-written"), filepath.Join(dir, "somebody-elses")}, left, name)
	}
}

// The tests below run their own binary again as a child that they limit or kill.
const childVariable = "BLOBSTORE_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childVariable) {
	case "":
		os.Exit(m.Run())
	case "full disk":
		exitOn(childFullDisk(os.Args[1]))
	case "killed":
		exitOn(childKilled(os.Args[1]))
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(t *testing.T, what, dir string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary, dir)
	cmd.Env = append(os.Environ(), childVariable+"="+what)
	cmd.Stderr = os.Stderr
	return cmd
}

func openIn(dir string) (*blobstore.Store, error) {
	b, err := blobstore.OpenDir(filepath.Join(dir, "blobs"))
	if err != nil {
		return nil, err
	}
	return blobstore.New(blobstore.Config{Bucket: b, SpoolDir: filepath.Join(dir, "spool")})
}

// A limit on the size of files stands for a full disk: the write fails in the
// middle of the blob.
func childFullDisk(dir string) error {
	s, err := openIn(dir)
	if err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
		return err
	}
	if _, err = s.Receive(context.Background(), io.LimitReader(endlessZeros{}, 2<<20), ""); !errors.Is(err, syscall.EFBIG) || errors.Is(err, blobstore.ErrSource) {
		return fmt.Errorf("want EFBIG, got: %w", err)
	}
	_, err = s.Receive(context.Background(), strings.NewReader("hello world"), "")
	return err // a small one still fits
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, child(t, "full disk", dir).Run())
	requireEmptyDir(t, filepath.Join(dir, "spool"))
	s, err := openIn(dir)
	require.NoError(t, err)
	require.Len(t, stored(t, s), 1)
	require.Equal(t, "hello world", readAll(t, s, cid.MustParse(helloCID)))
}

// childKilled acknowledges one blob and is in the middle of the next when it is killed.
func childKilled(dir string) error {
	s, err := openIn(dir)
	if err != nil {
		return err
	}
	if _, err := s.Receive(context.Background(), strings.NewReader("hello world"), ""); err != nil {
		return err
	}
	half := strings.NewReader(strings.Repeat("half ", 100_000))
	_, err = s.Receive(context.Background(), io.MultiReader(half, readerFunc(func([]byte) (int, error) {
		fmt.Println("half is there")
		select {} // until the end
	})), "")
	return err
}

func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := child(t, "killed", dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "half is there\n", line)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())

	s, err := openIn(dir)
	require.NoError(t, err)
	requireEmptyDir(t, filepath.Join(dir, "spool"))
	require.Len(t, stored(t, s), 1, "what was acknowledged, and nothing else")
	require.NoError(t, s.Verify(t.Context(), cid.MustParse(helloCID)))
}
