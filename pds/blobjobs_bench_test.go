//go:build scale

package pds_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/blobstore"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds"
)

// TestBlobJobsAtScale is a measurement (make bench-blobs) of the jobs over 100,000
// objects of 1 KiB on SQLite and a directory, and of uploads of as much by 8 clients.
func TestBlobJobsAtScale(t *testing.T) {
	const objects = 100_000
	root := t.TempDir()
	bucket, err := blobstore.OpenDir(root)
	require.NoError(t, err)
	now := newClock()
	h := newHost(t, dbtest.Open(t, migrations.PDS, migrations.SQLite), setting{bucket: bucket, clock: now, log: &logged{}})
	a := h.agent(t, "scout")
	timed := func(what string, n int, do func()) {
		began := time.Now()
		do()
		took := time.Since(began)
		t.Logf("%-40s %8.1f s %9.0f /s", what, took.Seconds(), float64(n)/took.Seconds())
	}

	var clients sync.WaitGroup
	timed("uploads of 1 KiB by 8 clients", 2000, func() {
		for c := range 8 {
			clients.Go(func() {
				for i := range 250 {
					content := fmt.Appendf(make([]byte, 0, 1024), "%1024d", c*1000+i)
					if r := h.upload(t, a, content, "text/plain"); r.Status != http.StatusOK {
						t.Errorf("upload: %d", r.Status)
					}
				}
			})
		}
		clients.Wait()
	})

	// The rest without syncing each: the files and their rows.
	at := migrations.FormatTime(now.Now())
	timed("prepare", objects, func() {
		for from := 0; from < objects; from += 2000 { // a transaction may not take long
			require.NoError(t, h.db.Tx(t.Context(), func(tx *gorm.DB) error {
				for i := from; i < from+2000; i++ {
					content := fmt.Appendf(nil, "%-1024d", i)
					hash, err := multihash.Sum(content, multihash.SHA2_256, -1)
					require.NoError(t, err)
					name := cid.NewCidV1(cid.Raw, hash)
					dir := filepath.Join(root, "objects", name.String()[56:58])
					require.NoError(t, os.MkdirAll(dir, 0o700))
					require.NoError(t, os.WriteFile(filepath.Join(dir, name.String()), content, 0o600))
					require.NoError(t, tx.Exec("INSERT INTO blob_objects (size, cid, state, touched_at, changed_at) VALUES (?, ?, 'live', ?, ?)", 1024, name.Bytes(), at, at).Error)
				}
				return nil
			}))
		}
	})
	check := func(sample float64) func() {
		return func() {
			report, err := h.pds.CheckBlobs(t.Context(), pds.BlobCheck{Sample: sample}, func(f pds.BlobFault) error { return fmt.Errorf("found %v", f) })
			require.NoError(t, err)
			require.EqualValues(t, objects+2000, report.Blobs)
		}
	}
	timed("fsck, nothing read", objects, check(0))
	timed("fsck --sample 5%", objects, check(0.05))
	timed("fsck --full", objects, check(1))
	collect := func() {
		_, err := h.pds.CollectBlobs(t.Context(), false)
		require.NoError(t, err)
	}
	timed("gc, nothing to do", objects, collect)
	now.advance(pds.DefaultBlobGrace + time.Minute)
	timed("gc, all to the trash", objects, collect)
	now.advance(pds.DefaultBlobTrash + time.Minute)
	timed("gc, all out of the trash", objects, collect)
}
