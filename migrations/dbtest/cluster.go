package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// clusterPrefix starts the folder name of each scratch cluster. It is short
// because the path of a unix socket may have 107 bytes at most.
const clusterPrefix = "/tmp/hbpg"

// cluster starts the process's one Postgres on first use and answers the DSN
// of its maintenance database.
var cluster = sync.OnceValues(func() (string, error) {
	if dsn := os.Getenv("HERBARIUM_TEST_POSTGRES"); dsn != "" {
		return dsn, nil
	}
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(versions) == 0 {
		return "", errors.New("no /usr/lib/postgresql/*/bin")
	}
	sort.Strings(versions)
	bin := versions[len(versions)-1]
	sweep()
	dir, err := os.MkdirTemp(filepath.Dir(clusterPrefix), filepath.Base(clusterPrefix))
	if err != nil {
		return "", err
	}
	credential, err := unprivileged(dir)
	if err != nil {
		return "", err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions")
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: credential}
	if out, err := initdb.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, out)
	}
	if err := serve(bin, dir, data, credential); err != nil {
		return "", err
	}
	dsn := "postgres:///postgres?host=" + dir + "&user=postgres"
	return dsn, answers(dsn)
})

// unprivileged answers the account to run Postgres as, which refuses root, and
// gives dir to it. Nil when this process is not root.
func unprivileged(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// serve starts the server. A scratch cluster's files need not survive a power
// cut, so fsync is off; what a commit means to the clients is not changed.
func serve(bin, dir, data string, credential *syscall.Credential) error {
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-c", "listen_addresses=", "-c", "unix_socket_directories="+dir, "-c", "max_connections=200", "-c", "fsync=off", "-c", "full_page_writes=off")
	server.Dir, server.Stdout, server.Stderr = dir, log, log
	// The kernel stops the server when this process ends, however it ends. That
	// signal hangs on the thread that forks, so this goroutine keeps its thread.
	server.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Pdeathsig: syscall.SIGQUIT}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := server.Start()
		started <- err
		if err == nil {
			_ = server.Wait()
		}
	}()
	return <-started
}

// answers waits until the server takes a connection.
func answers(dsn string) error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		conn, err := pgx.Connect(ctx, dsn)
		if err == nil {
			err = conn.Close(ctx)
		}
		cancel()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// sweep removes the folders of earlier test processes whose server is gone.
func sweep() {
	dirs, _ := filepath.Glob(clusterPrefix + "*")
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()) < time.Minute {
			continue // another process is just making it
		}
		raw, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
		if err == nil {
			// initdb's own server writes its pid with a minus.
			pid, err := strconv.Atoi(strings.TrimPrefix(strings.SplitN(string(raw), "\n", 2)[0], "-"))
			if err == nil && syscall.Kill(pid, 0) == nil {
				continue
			}
		}
		_ = os.RemoveAll(dir)
	}
}
