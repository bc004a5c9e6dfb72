package main_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/s3test"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// premises is all that an instance writes to.
type premises struct {
	*instance
	data   string            // the data directory
	dirs   map[string]string // by what they are: it, and those of the S3 server
	dsns   map[migrations.Database]string
	bucket string // its specification
}

// eachPremises runs fn in a folder of one instance's own, and on Postgres with a
// bucket that keeps versions.
func eachPremises(t *testing.T, fn func(t *testing.T, p *premises)) {
	t.Run("sqlite and directory", func(t *testing.T) {
		data := t.TempDir()
		fn(t, &premises{
			instance: start(t, "HERBARIUM_DATA_DIR="+data, "HERBARIUM_LOG_LEVEL=debug", "HERBARIUM_RATE_LIMITS=off"),
			data:     data, dirs: map[string]string{"data": data}, bucket: "dir:" + filepath.Join(data, "blobs"),
			dsns: map[migrations.Database]string{migrations.PDS: "sqlite:" + filepath.Join(data, "pds.db"), migrations.Appview: "sqlite:" + filepath.Join(data, "appview.db")},
		})
	})
	t.Run("postgres and versioned s3", func(t *testing.T) {
		data, s3 := t.TempDir(), s3test.StartVersioned(t)
		p := &premises{
			data: data, dirs: map[string]string{"data": data, "s3": s3.Dir, "versions": s3.Versions}, bucket: s3.Spec,
			dsns: map[migrations.Database]string{migrations.PDS: dbtest.DSN(t, migrations.Postgres), migrations.Appview: dbtest.DSN(t, migrations.Postgres)},
		}
		p.instance = start(t, "HERBARIUM_DATA_DIR="+data, "HERBARIUM_LOG_LEVEL=debug", "HERBARIUM_RATE_LIMITS=off",
			"HERBARIUM_PDS_DB="+p.dsns[migrations.PDS], "HERBARIUM_APPVIEW_DB="+p.dsns[migrations.Appview], "HERBARIUM_BLOBS="+s3.Spec)
		fn(t, p)
	})
}

// traces are the places where a secret is found: files, tables of both databases,
// and the log.
func (p *premises) traces(t *testing.T, secret []byte) (found []string) {
	t.Helper()
	for name, dir := range p.dirs {
		require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // a -wal that was just cut
			}
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			raw, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if holds(raw, secret) {
				below, _ := filepath.Rel(dir, path)
				found = append(found, "file "+filepath.Join(name, below))
			}
			return err
		}))
	}
	for database, dsn := range p.dsns {
		for _, table := range tablesWith(t, database, dsn, secret) {
			found = append(found, fmt.Sprintf("table %s.%s", database, table))
		}
	}
	if strings.Contains(p.log.String(), string(secret)) {
		found = append(found, "log")
	}
	slices.Sort(found)
	return found
}

// holds looks for a secret in bytes, and in what they unpack to if they are zstd.
func holds(raw, secret []byte) bool {
	if bytes.Contains(raw, secret) {
		return true
	}
	if !bytes.HasPrefix(raw, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return false
	}
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return false
	}
	defer unpack.Close()
	plain, err := unpack.DecodeAll(raw, nil)
	return err == nil && bytes.Contains(plain, secret)
}

// tablesWith are the tables with a secret in any column of any row.
func tablesWith(t *testing.T, database migrations.Database, dsn string, secret []byte) (found []string) {
	t.Helper()
	db, err := migrations.Open(t.Context(), database, dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	query := "SELECT name FROM sqlite_schema WHERE type = 'table'"
	if db.Dialect == migrations.Postgres {
		query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
	}
	var tables []string
	require.NoError(t, db.Read.Raw(query).Scan(&tables).Error)
	for _, table := range tables {
		var rows []map[string]any
		require.NoError(t, db.Read.Raw("SELECT * FROM "+table).Scan(&rows).Error)
		if slices.ContainsFunc(rows, func(row map[string]any) bool {
			for _, value := range row {
				raw, ok := value.([]byte)
				if !ok {
					raw = fmt.Append(nil, value)
				}
				if holds(raw, secret) {
					return true
				}
			}
			return false
		}) {
			found = append(found, table)
		}
	}
	return found
}

// leak writes a secret everywhere: a note in two versions, the second with a
// blob, an observation with the same blob, and a note that is deleted again. It
// answers what has to be purged.
func (p *premises) leak(t *testing.T, client *atclient.APIClient, rkey, secret string) (records []string, blob string) {
	t.Helper()
	ctx := t.Context()
	text := strings.Repeat(secret+" ", 8)
	var uploaded struct{ Blob map[string]any }
	require.NoError(t, client.LexDo(ctx, http.MethodPost, "text/plain", "com.atproto.repo.uploadBlob", nil, strings.NewReader(text), &uploaded))
	blob = uploaded.Blob["ref"].(map[string]any)["$link"].(string)
	put := func(collection, rkey string, record map[string]any) {
		var made struct{ URI string }
		require.NoError(t, client.Post(ctx, "com.atproto.repo.putRecord", map[string]any{
			"repo": client.AccountDID, "collection": collection, "rkey": rkey, "record": record,
		}, &made))
		if !slices.Contains(records, made.URI) {
			records = append(records, made.URI)
		}
	}
	put("com.example.note", rkey, map[string]any{"text": "first: " + text})
	put("com.example.note", rkey, map[string]any{"text": "second: " + text, "blob": uploaded.Blob})
	put("com.example.note", rkey+"-gone", map[string]any{"text": "gone: " + text})
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	put("garden.engram.agents.observation", syntax.NewTIDNow(1).String(), map[string]any{
		"$type": "garden.engram.agents.observation", "source": map[string]any{"kind": "command", "value": "cat"}, "method": "shell",
		"observedAt": now, "createdAt": now, "text": text, "content": uploaded.Blob, "generator": map[string]any{"run": syntax.NewTIDNow(2).String()},
	})
	require.NoError(t, client.Post(ctx, "com.atproto.repo.deleteRecord", map[string]any{
		"repo": client.AccountDID, "collection": "com.example.note", "rkey": rkey + "-gone",
	}, nil))
	eventually(t, 30*time.Second, "the index has all of it", func() error {
		return p.admin().Get(ctx, "garden.herbarium.getObservation", map[string]any{"uri": records[len(records)-1]}, nil)
	})
	return records, blob
}

// strew puts copies where a collection, a check and crashes leave them.
func (p *premises) strew(t *testing.T, blob string, content []byte) {
	t.Helper()
	bucket, err := blobstore.OpenBucket(t.Context(), p.bucket)
	require.NoError(t, err)
	shard := blob[len(blob)-3 : len(blob)-1]
	for _, place := range []string{"trash", "quarantine"} {
		require.NoError(t, bucket.Put(t.Context(), place+"/"+shard+"/"+blob, bytes.NewReader(content), int64(len(content)), sha256.Sum256(content)))
	}
	require.NoError(t, bucket.Delete(t.Context(), "trash/"+shard+"/"+blob)) // which a versioned bucket keeps
	leftovers := []string{filepath.Join(p.data, "spool", ".tmp-cut-off")}
	if _, ok := bucket.(*blobstore.Dir); ok {
		require.NoError(t, bucket.Put(t.Context(), "trash/"+shard+"/"+blob, bytes.NewReader(content), int64(len(content)), sha256.Sum256(content)))
		leftovers = append(leftovers, filepath.Join(p.data, "blobs", ".tmp-cut-off"))
	}
	long := time.Now().Add(-2 * time.Hour)
	for _, path := range leftovers {
		require.NoError(t, os.WriteFile(path, content, 0o600))
		require.NoError(t, os.Chtimes(path, long, long))
	}
}

// purge runs `herbarium purge run` on records and a blob.
func (p *premises) purge(ctx context.Context, records []string, blob string) (string, error) {
	args := []string{"purge", "run", "--yes", "--json", "--reason", "it should not be here", "--blob", blob}
	for _, uri := range records {
		args = append(args, "--record", uri)
	}
	return p.herbarium(ctx, args...)
}

// After a purge a search of every file, table, bucket version and log for the
// secret finds nothing; before it, it finds it in each of them.
func TestAfterAPurgeASearchFindsNothing(t *testing.T) {
	eachPremises(t, func(t *testing.T, p *premises) {
		const secret = "marker-7d1c02 that must not be found"
		client := p.account("ada.test")
		kept := createNote(t, client, "stays")
		records, blob := p.leak(t, client, "leaked", secret)
		p.strew(t, blob, []byte(strings.Repeat(secret+" ", 8)))

		before := p.traces(t, []byte(secret))
		shard := blob[len(blob)-3 : len(blob)-1]
		want := []string{"table appview.journal", "table appview.observations", "table pds.events", "table pds.records", "file data/spool/.tmp-cut-off"}
		if p.dirs["s3"] == "" {
			want = append(want, "file data/blobs/.tmp-cut-off", "file data/blobs/objects/"+shard+"/"+blob, "file data/blobs/trash/"+shard+"/"+blob, "file data/blobs/quarantine/"+shard+"/"+blob)
			for _, name := range []string{"pds", "appview"} {
				require.True(t, slices.Contains(before, "file data/"+name+".db") || slices.Contains(before, "file data/"+name+".db-wal"), "%v", before)
			}
		} else {
			want = append(want, "file s3/test/objects/"+shard+"/"+blob, "file s3/test/quarantine/"+shard+"/"+blob)
			require.True(t, slices.ContainsFunc(before, func(place string) bool { return strings.HasPrefix(place, "file versions/") }), "%v", before)
		}
		for _, place := range want {
			require.Contains(t, before, place, "the search can find it")
		}
		require.Contains(t, p.traces(t, []byte("ada.test")), "log", "and it sees the log")

		args := []string{"purge", "preview", "--with-blobs"}
		for _, uri := range records {
			args = append(args, "--record", uri)
		}
		preview, err := p.herbarium(t.Context(), args...)
		require.NoError(t, err, preview)
		require.Contains(t, preview, blob)
		require.Equal(t, len(records)+1, strings.Count(preview, "record  "), "two versions of the first:\n%s", preview)
		require.NotContains(t, preview, "blocked")
		refused, err := p.herbarium(t.Context(), append([]string{"purge", "run"}, args[2:]...)...)
		require.Error(t, err, "nobody types anything")
		require.Contains(t, refused, "nothing was purged")
		require.Equal(t, before, p.traces(t, []byte(secret)))

		// Whoever has looked can type it.
		run := exec.CommandContext(t.Context(), binary, append([]string{"purge", "run", "--json"}, args[2:]...)...)
		first := regexp.MustCompile(`record .*?(bafy\S+)`).FindStringSubmatch(preview)[1]
		run.Env, run.Stdin = p.env, strings.NewReader(first[len(first)-8:]+"\n")
		out, err := run.Output()
		require.NoError(t, err, "%s", out)
		var done struct {
			ID       string
			Complete bool
		}
		require.NoError(t, json.Unmarshal(out, &done))
		require.True(t, done.Complete)
		require.Empty(t, p.traces(t, []byte(secret)))
		p.verifiesReceipt(t, done.ID)

		// The rest is there, and the firehose tells nothing of it from its start.
		require.NoError(t, client.Get(t.Context(), "com.atproto.repo.getRecord", map[string]any{
			"repo": client.AccountDID, "collection": "com.example.note", "rkey": lastPart(kept),
		}, nil))
		conn, err := dialFirehose(t.Context(), p.instance, 0)
		require.NoError(t, err)
		defer func() { _ = conn.CloseNow() }()
		end := createNote(t, client, "the end")
		for synced := false; ; {
			event, frame, err := readFrame(t.Context(), conn)
			require.NoError(t, err)
			require.False(t, holds(frame, []byte(secret)))
			synced = synced || event.RepoSync != nil && event.Sequence() > 3
			if event.RepoCommit != nil && slices.ContainsFunc(event.RepoCommit.Ops, opOf(end)) {
				require.True(t, synced, "a #sync is behind the gaps")
				break
			}
		}
		eventually(t, 30*time.Second, "the index goes on", func() error {
			return p.admin().Get(t.Context(), "garden.herbarium.getRecord", map[string]any{"uri": end}, nil)
		})
		p.terminate()
		require.Empty(t, p.traces(t, []byte(secret)), "nor in what the end of the process writes")
	})
}

// opOf recognizes the operation on a record.
func opOf(uri string) func(*comatproto.SyncSubscribeRepos_RepoOp) bool {
	return func(op *comatproto.SyncSubscribeRepos_RepoOp) bool { return strings.HasSuffix(uri, "/"+op.Path) }
}

// verifiesReceipt verifies the receipt of a purge without the server.
func (p *premises) verifiesReceipt(t *testing.T, id string) {
	t.Helper()
	receipt, err := p.herbarium(t.Context(), "purge", "show", "--receipt", id)
	require.NoError(t, err, receipt)
	resp, err := http.Get(p.url + "/.well-known/did.json")
	require.NoError(t, err)
	defer resp.Body.Close()
	var document bytes.Buffer
	_, err = document.ReadFrom(resp.Body)
	require.NoError(t, err)
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	did, whole := file("did.json", document.String()), file("receipt", receipt)
	out, err := p.herbarium(t.Context(), "purge", "verify", "--did-document", did, whole)
	require.NoError(t, err, out)
	require.Contains(t, out, "signed by the key that was given")
	out, err = p.herbarium(t.Context(), "purge", "verify", whole)
	require.NoError(t, err, out)
	require.Contains(t, out, "which it names itself")
	out, err = p.herbarium(t.Context(), "purge", "verify", "--json", whole)
	require.NoError(t, err, out)
	var said struct {
		ID        string
		MayRemain []string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &said))
	require.Equal(t, id, said.ID)
	require.NotEmpty(t, said.MayRemain)
	out, err = p.herbarium(t.Context(), "purge", "verify", "--did-document", did, file("changed", strings.Replace(receipt, ".", ".A", 1)))
	require.Error(t, err, out)
	out, err = p.herbarium(t.Context(), "purge", "verify", "--key", "did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169", whole)
	require.Error(t, err, out)
	out, err = p.herbarium(t.Context(), "purge", "list")
	require.NoError(t, err, out)
	require.Contains(t, out, id)
}

// kill -9 at any step of a purge: after the restart it is completed.
func TestKillDuringAPurge(t *testing.T) {
	eachPremises(t, func(t *testing.T, p *premises) {
		client := p.account("ada.test")
		caught := 0
		for steps := range 6 {
			secret := fmt.Sprintf("marker-%d-a90e that must not be found", steps)
			records, blob := p.leak(t, client, fmt.Sprintf("leaked-%d", steps), secret)
			require.NotEmpty(t, p.traces(t, []byte(secret)), "the search can find it")
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = p.purge(t.Context(), records, blob) // is cut off
			}()
			for log := p.purges(t); len(log) <= steps || len(log[0].Steps) < steps; {
				log = p.purges(t)
			}
			p.kill()
			<-ended
			p.launch()
			if !p.purges(t)[0].Complete {
				caught++
			}
			eventually(t, time.Minute, "the purges are complete", func() error {
				for _, purge := range p.purges(t) {
					if !purge.Complete {
						return fmt.Errorf("%s is not complete", purge.ID)
					}
				}
				return nil
			})
			require.Empty(t, p.traces(t, []byte(secret)), "killed after %d steps", steps)
			createNote(t, client, "goes on")
		}
		t.Logf("%d of 6 purges were not complete at the restart", caught)
	})
}

// loggedPurge is what listPurges tells of a purge.
type loggedPurge struct {
	ID       string
	Complete bool
	Steps    []struct{ Step string }
}

func (p *premises) purges(t *testing.T) []loggedPurge {
	t.Helper()
	var log struct{ Purges []loggedPurge }
	require.NoError(t, p.admin().Get(t.Context(), "garden.herbarium.admin.listPurges", nil, &log))
	return log.Purges
}

// A backup from before a purge brings everything back, and its receipts take it
// away again.
func TestPurgesAreAppliedAfterARestore(t *testing.T) {
	const secret = "marker-bb41e8 that must not be found"
	data := t.TempDir()
	p := &premises{
		instance: start(t, "HERBARIUM_DATA_DIR="+data, "HERBARIUM_LOG_LEVEL=debug"), data: data, dirs: map[string]string{"data": data},
		bucket: "dir:" + filepath.Join(data, "blobs"),
		dsns:   map[migrations.Database]string{migrations.PDS: "sqlite:" + filepath.Join(data, "pds.db"), migrations.Appview: "sqlite:" + filepath.Join(data, "appview.db")},
	}
	client := p.account("ada.test")
	records, blob := p.leak(t, client, "leaked", secret)
	p.terminate()
	backup := filepath.Join(t.TempDir(), "backup")
	copyAll := func(from, to string) { require.NoError(t, exec.Command("cp", "-a", from, to).Run()) } // with the modes
	copyAll(data, backup)
	p.launch()
	out, err := p.purge(t.Context(), records, blob)
	require.NoError(t, err, out)
	require.Empty(t, p.traces(t, []byte(secret)))
	receipts, err := p.herbarium(t.Context(), "purge", "list", "--receipts")
	require.NoError(t, err, receipts)
	log := filepath.Join(t.TempDir(), "purges")
	require.NoError(t, os.WriteFile(log, []byte(receipts), 0o600))

	p.terminate()
	require.NoError(t, os.RemoveAll(data))
	copyAll(backup, data)
	p.launch()
	require.NotEmpty(t, p.traces(t, []byte(secret)), "it is back")
	for _, fresh := range []string{"true", "false"} {
		out, err = p.herbarium(t.Context(), "purge", "apply", log)
		require.NoError(t, err, out)
		require.Contains(t, out, fresh)
		require.Empty(t, p.traces(t, []byte(secret)))
	}
	var refused *atclient.APIError
	err = client.LexDo(t.Context(), http.MethodPost, "text/plain", "com.atproto.repo.uploadBlob", nil, strings.NewReader(strings.Repeat(secret+" ", 8)), nil)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "BlobPurged", refused.Name)
	createNote(t, client, "goes on")
}
