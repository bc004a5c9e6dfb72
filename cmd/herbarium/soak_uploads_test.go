//go:build soak && linux

package main_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// 32 uploads of 64 MiB at once take less than 200 MiB of memory more than the
// process had before.
func TestSoakUploads(t *testing.T) {
	const uploads, size, mostExtra = 32, 64 << 20, 200 << 20
	eachBackend(t, func(t *testing.T, env []string) {
		in := start(t, append(env, "HERBARIUM_LOG_LEVEL=warn", "HERBARIUM_RATE_LIMITS=off")...)
		client := in.account("large.test")
		upload := func(id, size int) error {
			req := atclient.NewAPIRequest(http.MethodPost, "com.atproto.repo.uploadBlob", content(id, size))
			req.Headers.Set("Content-Type", "application/octet-stream")
			resp, err := client.Do(t.Context(), req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("upload %d answers %s", id, resp.Status)
			}
			return nil
		}
		require.NoError(t, upload(0, 1<<20)) // what is made once is made
		before := in.memory(t, "VmRSS")
		// 5 sets the peak to what is there now.
		require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", in.cmd.Process.Pid), []byte("5"), 0o600))
		var group errgroup.Group
		for i := range uploads {
			group.Go(func() error { return upload(i+1, size) })
		}
		require.NoError(t, group.Wait())
		most := in.memory(t, "VmHWM")
		extra := most - before
		t.Logf("%d uploads of %d MiB at once: %d MiB before, %d MiB at most", uploads, size>>20, before>>20, most>>20)
		require.Less(t, extra, int64(mostExtra))
	})
}

// content is so many bytes that no other id has.
func content(id, size int) io.Reader {
	head := fmt.Sprintf("\xc1%08d", id)
	return io.LimitReader(io.MultiReader(strings.NewReader(head), zeros{}), int64(size))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// memory reads one of the kernel's figures about the process, in bytes.
func (in *instance) memory(t *testing.T, name string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", in.cmd.Process.Pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			require.NoError(t, err)
			return kib << 10
		}
	}
	t.Fatalf("no %s in %s", name, status)
	return 0
}
