package pds_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/s3test"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds"
)

// logged is what a host logs.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// vault is a host whose bucket lies open: on disk, or behind a real S3 server.
type vault struct {
	*host
	root string // of the bucket's objects
	log  *logged
}

// eachVault runs fn on each database and each kind of bucket.
func eachVault(t *testing.T, set setting, fn func(t *testing.T, v *vault)) {
	t.Parallel()
	for _, kind := range []string{"directory", "bucket"} {
		t.Run(kind, func(t *testing.T) {
			dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
				v := &vault{log: &logged{}}
				spec := ""
				if kind == "directory" {
					v.root = t.TempDir()
					spec = "dir:" + v.root
				} else {
					server := s3test.StartServer(t)
					v.root, spec = filepath.Join(server.Dir, server.Prefix), server.Spec
				}
				bucket, err := blobstore.OpenBucket(t.Context(), spec)
				require.NoError(t, err)
				set := set
				set.bucket, set.log = bucket, v.log
				v.host = newHost(t, db, set)
				fn(t, v)
			})
		})
	}
}

// file is where the bytes of a blob lie.
func (v *vault) file(t *testing.T, place, name string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(v.root, place, "*", name))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	return paths[0]
}

// flip changes one bit of the stored bytes, behind everybody's back.
func (v *vault) flip(t *testing.T, name string) {
	t.Helper()
	path := v.file(t, "objects", name)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], 7)
	require.NoError(t, err)
	b[0] ^= 1
	_, err = f.WriteAt(b[:], 7)
	require.NoError(t, err)
}

// check runs a check and answers its faults.
func (v *vault) check(t *testing.T, check pds.BlobCheck) (faults []pds.BlobFault) {
	t.Helper()
	report, err := v.pds.CheckBlobs(t.Context(), check, func(f pds.BlobFault) error {
		faults = append(faults, f)
		return nil
	})
	require.NoError(t, err)
	require.NotZero(t, report.Blobs)
	return faults
}

// specimen is a blob that a record refers to.
type specimen struct {
	content   []byte
	name, uri string // CID, and the record
}

func (v *vault) specimen(t *testing.T, a agent, rkey, text string) specimen {
	t.Helper()
	s := specimen{content: bytes.Repeat([]byte(text), 100)}
	s.name = rawCID(t, s.content)
	s.uri = v.put(t, a, note, rkey, object{"blob": blobOf(v.upload(t, a, s.content, "application/x-own").ok(t))}).ok(t).str("uri")
	return s
}

func (v *vault) serves(t *testing.T, a agent, s specimen) {
	t.Helper()
	require.True(t, bytes.Equal(s.content, v.getBlob(t, a.access, a.did, s.name).Body))
}

// isQuarantined looks at everything that tells of a damaged blob.
func (v *vault) isQuarantined(t *testing.T, a agent, s specimen) {
	t.Helper()
	require.Contains(t, v.getBlob(t, a.access, a.did, s.name).refused(t, 400, "BlobNotFound"), "damaged")
	v.file(t, "quarantine", s.name)
	require.Contains(t, v.log.String(), "a blob is damaged and out of service")
	require.Contains(t, v.log.String(), s.uri)
	require.Equal(t, json.Number("1"), v.query(t, admin(), "garden.herbarium.admin.getStorageStatus").ok(t).at("quarantined", "blobs"))
}

// TestOneFlippedBit: every way to read a blob finds that one bit of it changed,
// and says which record it was evidence for; an upload of the right bytes ends it.
func TestOneFlippedBit(t *testing.T) {
	for _, way := range []struct {
		name string
		set  setting
		find func(t *testing.T, v *vault, a agent, s specimen)
	}{
		{"fsck", setting{}, func(t *testing.T, v *vault, a agent, s specimen) {
			require.Empty(t, v.check(t, pds.BlobCheck{Sample: 0}), "it has its size, and was not read")
			faults := v.check(t, pds.BlobCheck{Sample: 1})
			require.Len(t, faults, 1)
			require.Equal(t, pds.BlobCorrupt, faults[0].Kind)
			require.Equal(t, s.name, faults[0].CID.String())
			require.Len(t, faults[0].Evidence.Records, 1)
			require.EqualValues(t, s.uri, faults[0].Evidence.Records[0])
			require.NotContains(t, v.log.String(), "out of service", "it only looked")
			require.Equal(t, "quarantined", v.check(t, pds.BlobCheck{Sample: 1, Quarantine: true})[0].Done)
		}},
		{"scrubber", setting{scrub: pds.Scrub{Every: time.Nanosecond}}, func(t *testing.T, v *vault, _ agent, _ specimen) {
			require.NoError(t, v.pds.ScrubBlobs(t.Context()))
		}},
		{"verify on read", setting{verify: true}, func(t *testing.T, v *vault, a agent, s specimen) {
			v.getBlob(t, a.access, a.did, s.name, "Range", "bytes=0-9").refused(t, 500, "InternalServerError")
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			set, now := way.set, newClock()
			set.clock = now
			eachVault(t, set, func(t *testing.T, v *vault) {
				a := v.agent(t, "scout")
				damaged, whole := v.specimen(t, a, "damaged", "what was seen"), v.specimen(t, a, "whole", "what else was seen")
				require.Empty(t, v.check(t, pds.BlobCheck{Sample: 1}))
				now.advance(time.Second) // what was checked just now is not due
				v.flip(t, damaged.name)
				way.find(t, v, a, damaged)
				v.isQuarantined(t, a, damaged)
				v.serves(t, a, whole)
				require.Equal(t, pds.BlobQuarantined, v.check(t, pds.BlobCheck{Sample: 1})[0].Kind)
				// No new record relies on it meanwhile.
				v.put(t, a, note, "another", object{"blob": object{"$type": "blob", "ref": object{"$link": damaged.name}, "mimeType": "application/x-own", "size": len(damaged.content)}}).
					refused(t, 400, "BlobNotFound")

				v.upload(t, a, damaged.content, "application/x-own").ok(t)
				v.serves(t, a, damaged)
				require.Empty(t, v.check(t, pds.BlobCheck{Sample: 1}))
			})
		})
	}
}

func TestBlobsAreRepairedFromAnotherStore(t *testing.T) {
	eachVault(t, setting{}, func(t *testing.T, v *vault) {
		a := v.agent(t, "scout")
		flipped, cut, gone := v.specimen(t, a, "a", "flipped"), v.specimen(t, a, "b", "cut off"), v.specimen(t, a, "c", "gone")
		unsaved := v.specimen(t, a, "d", "in no backup")
		dir := t.TempDir()
		bucket, err := blobstore.OpenDir(dir)
		require.NoError(t, err)
		backup, err := blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: t.TempDir()})
		require.NoError(t, err)
		for _, s := range []specimen{flipped, cut, gone} {
			_, err := backup.Receive(t.Context(), bytes.NewReader(s.content), "")
			require.NoError(t, err)
		}
		v.flip(t, flipped.name)
		v.flip(t, unsaved.name)
		require.NoError(t, os.Truncate(v.file(t, "objects", cut.name), 10))
		require.NoError(t, os.Remove(v.file(t, "objects", gone.name)))

		kinds := map[string]pds.BlobFaultKind{}
		for _, f := range v.check(t, pds.BlobCheck{Sample: 1}) {
			kinds[f.CID.String()] = f.Kind
			require.Len(t, f.Evidence.Records, 1)
		}
		require.Equal(t, map[string]pds.BlobFaultKind{
			flipped.name: pds.BlobCorrupt, unsaved.name: pds.BlobCorrupt, cut.name: pds.BlobCorrupt, gone.name: pds.BlobMissing,
		}, kinds)
		require.Equal(t, json.Number("1"), v.query(t, admin(), "garden.herbarium.admin.getStorageStatus").ok(t).at("missing"))

		for _, f := range v.check(t, pds.BlobCheck{Sample: 1, Quarantine: true, RepairFrom: backup}) {
			if f.CID.String() == unsaved.name {
				require.Equal(t, "quarantined", f.Done)
				require.NotEmpty(t, f.Failed)
				continue
			}
			require.Equal(t, "repaired", f.Done)
		}
		for _, s := range []specimen{flipped, cut, gone} {
			v.serves(t, a, s)
		}
		left := v.check(t, pds.BlobCheck{Sample: 1})
		require.Len(t, left, 1)
		require.Equal(t, pds.BlobQuarantined, left[0].Kind)
		require.Equal(t, json.Number("0"), v.query(t, admin(), "garden.herbarium.admin.getStorageStatus").ok(t).at("missing"))
	})
}

// What lies in the bucket without an account of it, and what is on record and
// nobody has.
func TestLeftoversAreTold(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		root := t.TempDir()
		bucket, err := blobstore.OpenDir(root)
		require.NoError(t, err)
		clock := newClock()
		h = newHost(t, dbtest.Open(t, migrations.PDS, h.db.Dialect), setting{bucket: bucket, clock: clock, log: &logged{}})
		v := &vault{host: h, root: root}
		a := h.agent(t, "scout")
		kept := v.specimen(t, a, "kept", "kept")
		store, err := blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: t.TempDir()})
		require.NoError(t, err)
		orphan, err := store.Receive(t.Context(), strings.NewReader("nobody's"), "")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(root, "objects", "notes.txt"), []byte("of the operator"), 0o600))
		shard := filepath.Base(filepath.Dir(v.file(t, "objects", kept.name)))
		require.NoError(t, os.MkdirAll(filepath.Join(root, "trash", shard), 0o700))
		require.NoError(t, os.Link(v.file(t, "objects", kept.name), filepath.Join(root, "trash", shard, kept.name)))
		claimed := rawCID(t, []byte("claimed"))
		parsed, err := cid.Decode(claimed)
		require.NoError(t, err)
		require.NoError(t, h.repos.ClaimObject(t.Context(), parsed, 7))

		told := func() map[string]pds.BlobFaultKind {
			kinds := map[string]pds.BlobFaultKind{}
			for _, f := range v.check(t, pds.BlobCheck{Sample: 1}) {
				if f.CID.Defined() {
					kinds[f.CID.String()] = f.Kind
				} else {
					kinds[f.Key] = f.Kind
				}
			}
			return kinds
		}
		// Uploads and moves that are under way are no faults.
		require.Equal(t, map[string]pds.BlobFaultKind{"objects/notes.txt": pds.BlobForeign}, told())
		clock.advance(48 * time.Hour)
		require.Equal(t, map[string]pds.BlobFaultKind{
			"objects/notes.txt": pds.BlobForeign,
			orphan.CID.String(): pds.BlobOrphan,
			kept.name:           pds.BlobTrashCopy,
			claimed:             pds.BlobUnowned,
		}, told())

		// A collection that took what an account has, because rows were lost.
		require.NoError(t, h.db.Write.Exec("UPDATE blob_objects SET state = 'trashed' WHERE size = ?", len(kept.content)).Error)
		require.NoError(t, os.Remove(v.file(t, "objects", kept.name)))
		require.Equal(t, pds.BlobMissing, told()[kept.name])
		restored := v.check(t, pds.BlobCheck{Restore: true})
		require.Contains(t, fmt.Sprint(restored), "restored")
		v.file(t, "objects", kept.name)
		require.NotContains(t, told(), kept.name)
	})
}

// Of several processes one scrubs; where it stands outlives it.
func TestScrubIsDoneOnce(t *testing.T) {
	eachHost(t, setting{scrub: pds.Scrub{Every: 24 * time.Hour}, bucket: blobstore.NewMemory()}, func(t *testing.T, h *host) {
		v := &vault{host: h}
		a := h.agent(t, "scout")
		for i := range 3 {
			v.specimen(t, a, fmt.Sprint("r", i), fmt.Sprint("content ", i, h.did))
		}
		checked := func() any {
			return h.query(t, admin(), "garden.herbarium.admin.getStorageStatus").ok(t).at("scrub", "checked", "blobs")
		}
		require.Equal(t, json.Number("3"), checked(), "an upload is a check")
		require.NoError(t, h.db.Write.Exec("UPDATE blob_objects SET checked_at = '' ").Error)
		require.Equal(t, json.Number("0"), checked())
		far := migrations.FormatTime(time.Now().Add(time.Hour))
		require.NoError(t, h.db.Write.Exec("INSERT INTO leases (name, holder, until) VALUES ('scrub', 'another', ?)", far).Error)
		require.NoError(t, h.pds.ScrubBlobs(t.Context()))
		require.Equal(t, json.Number("0"), checked(), "another process is at it")
		require.Equal(t, true, h.query(t, admin(), "garden.herbarium.admin.getStorageStatus").ok(t).at("scrub", "running"))
		require.NoError(t, h.db.Write.Exec("UPDATE leases SET until = '2020-01-01T00:00:00.000Z'").Error)
		require.NoError(t, h.pds.ScrubBlobs(t.Context()))
		require.Equal(t, json.Number("3"), checked(), "that one died")
		require.Equal(t, false, h.query(t, admin(), "garden.herbarium.admin.getStorageStatus").ok(t).at("scrub", "running"))
	})
}

func TestListStorage(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		v := &vault{host: h}
		small, large, empty := h.agent(t, "small"), h.agent(t, "large"), h.agent(t, "empty")
		v.specimen(t, small, "a", "a")
		v.specimen(t, small, "b", "b")
		big := v.specimen(t, large, "a", "a larger thing")
		order := func(order string) (dids []string) {
			cursor := ""
			for {
				page := h.query(t, admin(), "garden.herbarium.admin.listStorage", "order", order, "limit", "2", "cursor", cursor).ok(t)
				for _, item := range page.list("accounts") {
					dids = append(dids, object(item.(map[string]any)).str("did"))
				}
				if page["cursor"] == nil {
					return dids
				}
				cursor = page.str("cursor")
			}
		}
		require.Equal(t, []string{large.did, small.did, empty.did}, order("blobBytes"))
		require.Equal(t, []string{small.did, large.did, empty.did}, order("records"))
		first := object(h.query(t, admin(), "garden.herbarium.admin.listStorage").ok(t).list("accounts")[0].(map[string]any))
		require.Equal(t, object{"did": large.did, "handle": "large.test", "records": json.Number("1"), "blobs": json.Number("1"), "blobBytes": json.Number(fmt.Sprint(len(big.content))), "quarantinedBlobs": json.Number("0"), "missingBlobs": json.Number("0")}, first)
		page := h.query(t, admin(), "garden.herbarium.admin.listStorage", "limit", "1").ok(t)
		h.query(t, admin(), "garden.herbarium.admin.listStorage", "order", "records", "cursor", page.str("cursor")).refused(t, 400, "InvalidRequest")
		h.query(t, small.access, "garden.herbarium.admin.listStorage").refused(t, 403, "Forbidden")
	})
}
