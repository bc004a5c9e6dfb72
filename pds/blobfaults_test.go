package pds_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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

var updateFaults = flag.Bool("update", false, "write docs/blob-faults.md anew")

const faultsHead = `# What a failing bucket does to blobs

Each step of a blob's life on a whole host over a real S3 server, with each of its requests spoiled in each way, and all that follow it,
until the step has ended. (A fault that passes is not in this table: the driver sends a request five times.) *Then* is where the bytes
are at that moment; *in the end* where they are once the bucket is well and the client has sent its request again or the next run has
come. A test makes this table and fails when it is no longer true: ` + "`make blob-faults`" + ` writes it.

That a record comes to refer to a blob ("promotion") sends no request to the bucket: it is a row.

| step | request that fails first, with all after it | how | the caller is told | then | in the end |
|---|---|---|---|---|---|
`

// faultRun is a host over a bucket that fails, and what was counted on the way.
type faultRun struct {
	*vault
	way   *s3test.Proxy
	clock *clock
	a     agent
	n     int // contents so far

	held         map[string]specimen // by record key: uploads that were acknowledged and referred to
	acknowledged int
	refused      int
	collected    int64
}

// faultStep is one step: prepare brings a new content to where it begins.
type faultStep struct {
	name    string
	prepare func(r *faultRun, t *testing.T, s *specimen)
	do      func(r *faultRun, ctx context.Context, t *testing.T, s *specimen) error
	again   func(r *faultRun, t *testing.T, s *specimen) // what ends it when the bucket is well
}

var faultSteps = []faultStep{
	{"upload", nothingBefore, (*faultRun).tryUpload, (*faultRun).keep},
	{"upload of what is in the trash", (*faultRun).trashed, (*faultRun).tryUpload, (*faultRun).keep},
	{"upload of what is there, and damaged", (*faultRun).damaged, (*faultRun).tryUpload, (*faultRun).keep},
	{"download", (*faultRun).keep, (*faultRun).tryDownload, (*faultRun).served},
	{"collection: to the trash", (*faultRun).abandoned, (*faultRun).tryCollect, (*faultRun).nextRun},
	{"collection: to the trash, and then an upload", (*faultRun).abandoned, (*faultRun).tryCollect, (*faultRun).keepAndRun},
	{"collection: out of the trash", (*faultRun).longTrashed, (*faultRun).tryCollect, (*faultRun).nextRun},
	{"damaged bytes into the quarantine", (*faultRun).damaged, (*faultRun).tryIsolate, (*faultRun).isolated},
}

func nothingBefore(*faultRun, *testing.T, *specimen) {}

// TestBlobFaults makes docs/blob-faults.md: nothing that was acknowledged is lost
// by any fault at any request, nothing is left in the end, and what nobody refers
// to was collected.
func TestBlobFaults(t *testing.T) {
	t.Parallel()
	server := s3test.StartServer(t)
	r := &faultRun{way: s3test.StartProxy(t, server), clock: newClock(), held: map[string]specimen{}}
	bucket, err := blobstore.OpenBucket(t.Context(), r.way.Spec+"&attempts=1")
	require.NoError(t, err)
	log := &logged{}
	r.vault = &vault{root: filepath.Join(server.Dir, server.Prefix), log: log}
	r.host = newHost(t, dbtest.Open(t, migrations.PDS, migrations.SQLite), setting{bucket: bucket, clock: r.clock, log: log})
	r.a = r.agent(t, "scout")

	var table strings.Builder
	table.WriteString(faultsHead)
	rows := 0
	for _, step := range faultSteps {
		requests := r.requestsOf(t, step)
		for i := range requests {
			var outcomes []string
			faults := map[string][]string{} // by outcome
			for _, fault := range s3test.Faults() {
				outcome := r.spoil(t, step, fault, i)
				if faults[outcome] == nil {
					outcomes = append(outcomes, outcome)
				}
				faults[outcome] = append(faults[outcome], string(fault))
				rows++
			}
			for _, outcome := range outcomes {
				fmt.Fprintf(&table, "| %s | %d of %d: %s | %s | %s |\n", step.name, i+1, len(requests), requests[i], strings.Join(faults[outcome], "; "), outcome)
			}
		}
	}

	lost := r.lost(t)
	leaked := r.leaked(t)
	require.Zero(t, lost)
	require.Empty(t, leaked)
	require.NotZero(t, r.collected)
	fmt.Fprintf(&table, "\n%d faults; %d uploads acknowledged, %d refused; of the acknowledged %d lost; %d objects left beyond their time; %d blobs collected.\n",
		rows, r.acknowledged, r.refused, lost, len(leaked), r.collected)

	path := filepath.Join("..", "docs", "blob-faults.md")
	if *updateFaults {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(table.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), table.String(), "make blob-faults")
}

// begin brings a new content to where a step begins.
func (r *faultRun) begin(t *testing.T, step faultStep) *specimen {
	t.Helper()
	r.n++
	s := &specimen{content: fmt.Appendf(nil, "what was seen for the %d. time", r.n)}
	s.name = rawCID(t, s.content)
	r.drain(t)
	step.prepare(r, t, s)
	return s
}

// requestsOf makes a step without a fault and answers its requests.
func (r *faultRun) requestsOf(t *testing.T, step faultStep) []string {
	s := r.begin(t, step)
	r.way.Heal()
	require.NoError(t, step.do(r, t.Context(), t, s))
	requests := r.way.Seen()
	require.NotEmpty(t, requests)
	step.again(r, t, s)
	return requests
}

// spoil makes a step whose requests fail from one on, and answers what came of it.
func (r *faultRun) spoil(t *testing.T, step faultStep, fault s3test.Fault, from int) string {
	s := r.begin(t, step)
	r.way.Spoil(fault, from, 1<<40)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if fault == s3test.Hangs {
		go func() { // the client's patience ends when it comes to that
			for len(r.way.Seen()) <= from && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
	}
	told := "it is done"
	if err := step.do(r, ctx, t, s); err != nil {
		told = "an error"
	}
	require.Greater(t, len(r.way.Seen()), from, "%s: the fault was met", step.name)
	r.way.Heal()
	then := r.places(t, s)
	step.again(r, t, s)
	return told + " | " + then + " | " + r.places(t, s)
}

// places are where the bytes of a blob are.
func (r *faultRun) places(t *testing.T, s *specimen) string {
	t.Helper()
	var found []string
	for _, place := range []string{"objects", "trash", "quarantine"} {
		paths, err := filepath.Glob(filepath.Join(r.root, place, "*", s.name))
		require.NoError(t, err)
		if len(paths) > 0 {
			found = append(found, place)
		}
	}
	if found == nil {
		return "nowhere"
	}
	return strings.Join(found, ", ")
}

// drain collects what the steps before have left to be collected.
func (r *faultRun) drain(t *testing.T) {
	for range 3 {
		r.wait(t, pds.DefaultBlobGrace+pds.DefaultBlobTrash)
		require.NoError(t, r.tryCollect(t.Context(), t, nil))
	}
}

func (r *faultRun) signIn(t *testing.T) { // a token lives two hours
	r.a.access = "Bearer " + r.procedure(t, "", "com.atproto.server.createSession", object{"identifier": r.a.handle, "password": r.a.password}).ok(t).str("accessJwt")
}

func (r *faultRun) wait(t *testing.T, d time.Duration) {
	r.clock.advance(d)
	r.signIn(t)
}

// send is a request of a client whose patience ends with ctx.
func (r *faultRun) send(ctx context.Context, t *testing.T, verb, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, verb, r.url+path, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", r.a.access)
	req.Header.Set("Content-Type", "text/plain")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return got, err
}

func (r *faultRun) tryUpload(ctx context.Context, t *testing.T, s *specimen) error {
	_, err := r.send(ctx, t, http.MethodPost, "/xrpc/com.atproto.repo.uploadBlob", s.content)
	if err == nil {
		r.acknowledged++
	} else {
		r.refused++
	}
	return err
}

// keep uploads a content and has a record refer to it.
func (r *faultRun) keep(t *testing.T, s *specimen) {
	require.NoError(t, r.tryUpload(t.Context(), t, s))
	rkey := fmt.Sprint("r", r.n)
	r.put(t, r.a, note, rkey, object{"blob": object{"$type": "blob", "ref": object{"$link": s.name}, "mimeType": "text/plain", "size": len(s.content)}}).ok(t)
	r.held[rkey] = *s
}

func (r *faultRun) tryDownload(ctx context.Context, t *testing.T, s *specimen) error {
	got, err := r.send(ctx, t, http.MethodGet, "/xrpc/com.atproto.sync.getBlob?did="+r.a.did+"&cid="+s.name, nil)
	if err == nil {
		require.Equal(t, s.content, got, "what is acknowledged is whole")
	}
	return err
}

func (r *faultRun) served(t *testing.T, s *specimen) {
	require.NoError(t, r.tryDownload(t.Context(), t, s))
}

func (r *faultRun) tryCollect(ctx context.Context, _ *testing.T, _ *specimen) error {
	did, err := r.pds.CollectBlobs(ctx, false)
	r.collected += did.Emptied.Count
	return err
}

// abandoned is uploaded, and past its grace.
func (r *faultRun) abandoned(t *testing.T, s *specimen) {
	require.NoError(t, r.tryUpload(t.Context(), t, s))
	r.wait(t, pds.DefaultBlobGrace+time.Minute)
}

func (r *faultRun) trashed(t *testing.T, s *specimen) {
	r.abandoned(t, s)
	require.NoError(t, r.tryCollect(t.Context(), t, s))
}

func (r *faultRun) longTrashed(t *testing.T, s *specimen) {
	r.trashed(t, s)
	r.wait(t, pds.DefaultBlobTrash+time.Minute)
}

// nextRun comes when whoever was at it counts as dead.
func (r *faultRun) nextRun(t *testing.T, s *specimen) {
	r.wait(t, 2*time.Hour)
	require.NoError(t, r.tryCollect(t.Context(), t, s))
}

func (r *faultRun) keepAndRun(t *testing.T, s *specimen) {
	r.keep(t, s)
	r.nextRun(t, s)
	r.served(t, s)
}

func (r *faultRun) damaged(t *testing.T, s *specimen) {
	r.keep(t, s)
	r.flip(t, s.name)
}

func (r *faultRun) tryIsolate(ctx context.Context, t *testing.T, s *specimen) error {
	name, err := cid.Decode(s.name)
	require.NoError(t, err)
	store, err := blobstore.New(blobstore.Config{Bucket: r.bucket, SpoolDir: t.TempDir()})
	require.NoError(t, err)
	_, err = r.repos.Isolate(ctx, plainWard{store}, name)
	return err
}

// plainWard is the host's, without its patience with a bucket that hangs.
type plainWard struct{ *blobstore.Store }

func (w plainWard) Damaged(ctx context.Context, c cid.Cid) (bool, error) {
	err := w.Verify(ctx, c)
	if errors.Is(err, blobstore.ErrCorrupt) {
		return true, nil
	}
	return false, err
}

// isolated ends an isolation, and then somebody uploads the bytes.
func (r *faultRun) isolated(t *testing.T, s *specimen) {
	r.wait(t, 2*time.Hour)
	r.check(t, pds.BlobCheck{Sample: 1, Quarantine: true})
	require.Equal(t, "quarantine", r.places(t, s))
	r.keep(t, s)
}

// lost counts the acknowledged uploads of which the bytes are not served.
func (r *faultRun) lost(t *testing.T) (n int) {
	for _, s := range r.held {
		if r.tryDownload(t.Context(), t, &s) != nil {
			n++
		}
	}
	return n
}

// leaked lets go of everything and answers what is left when its time is over.
func (r *faultRun) leaked(t *testing.T) (keys []string) {
	for rkey := range r.held {
		r.delete(t, r.a, note, rkey).ok(t)
	}
	r.drain(t)
	require.NoError(t, r.bucket.List(t.Context(), "", "", func(at blobstore.Object) error {
		keys = append(keys, at.Key)
		return nil
	}))
	return keys
}
