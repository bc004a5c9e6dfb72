package main_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/bluesky-social/indigo/events"
	lexutil "github.com/bluesky-social/indigo/lex/util"
	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"
	"github.com/stretchr/testify/require"
)

// witness reads the log of events from its start and verifies it with indigo,
// which relays run: each commit's signature, and that undoing its operations
// gives the tree of the commit before it.
type witness struct {
	t      *testing.T
	in     *instance
	dir    *identity.MockDirectory
	frames map[int64][sha256.Size]byte // each event, by its seq
	repos  map[syntax.DID]*replica
	ops    map[write]string // each operation, with the commit that has it
	landed int              // operations whose client got no answer
	blobs  int              // blobs that were fetched
}

// replica is a repo as the events alone tell it.
type replica struct {
	rev     string
	commit  cid.Cid
	data    cid.Cid           // root of the tree
	records map[string]string // CID by path
	blobs   map[string][]cid.Cid
}

// newWitness knows the keys of those clients from their DID documents.
func newWitness(t *testing.T, in *instance, clients []*atclient.APIClient) *witness {
	t.Helper()
	w := &witness{
		t: t, in: in, dir: identity.NewMockDirectory(),
		frames: map[int64][sha256.Size]byte{}, repos: map[syntax.DID]*replica{}, ops: map[write]string{},
	}
	for _, client := range clients {
		var out struct{ DIDDoc identity.DIDDocument }
		require.NoError(t, client.Get(t.Context(), "com.atproto.repo.describeRepo", map[string]any{"repo": client.AccountDID}, &out))
		w.dir.Insert(identity.ParseIdentity(&out.DIDDoc))
	}
	return w
}

// read reads from the first event to the commit that has the URI.
func (w *witness) read(end string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Minute)
	defer cancel()
	conn, err := dialFirehose(ctx, w.in, 0)
	require.NoError(w.t, err)
	defer conn.CloseNow()
	for last := int64(0); ; {
		event, frame, err := readFrame(ctx, conn)
		require.NoError(w.t, err, "after seq %d", last)
		seq, ok := event.GetSequence()
		require.True(w.t, ok, "an event without seq: %+v", event)
		require.Greater(w.t, seq, last)
		last, w.frames[seq] = seq, sha256.Sum256(frame)
		switch {
		case event.RepoSync != nil:
			w.sync(ctx, event.RepoSync)
		case event.RepoCommit != nil:
			require.NoError(w.t, w.commit(ctx, event.RepoCommit), "seq %d", seq)
			if contains(event.RepoCommit, end) {
				return
			}
		}
	}
}

// sync says where a repo stands, which must not be news.
func (w *witness) sync(ctx context.Context, event *comatproto.SyncSubscribeRepos_Sync) {
	signed, err := repo.VerifySyncMessage(ctx, w.dir, event)
	require.NoError(w.t, err)
	known := w.repos[syntax.DID(event.Did)]
	require.NotNil(w.t, known, "a #sync before the first #commit")
	require.Equal(w.t, known.rev, signed.Rev)
	require.Equal(w.t, known.data, signed.Data)
}

// commit verifies a commit against the one before it and takes it in.
func (w *witness) commit(ctx context.Context, event *comatproto.SyncSubscribeRepos_Commit) error {
	known, ok := w.repos[syntax.DID(event.Repo)]
	if !ok {
		// The first commit has nothing before it: that is the empty tree.
		empty := mst.NewEmptyTree()
		root, err := empty.RootCID()
		if err != nil {
			return err
		}
		known = &replica{data: *root, records: map[string]string{}, blobs: map[string][]cid.Cid{}}
		w.repos[syntax.DID(event.Repo)] = known
		if event.PrevData == nil {
			event.PrevData = (*lexutil.LexLink)(root)
		}
	}
	signed, root, err := repo.LoadCommitFromCAR(ctx, strings.NewReader(string(event.Blocks)))
	if err != nil {
		return err
	}
	if err := repo.VerifyCommitSignature(ctx, w.dir, event); err != nil {
		return err
	}
	// Without these, indigo would take the event for one of an older form and
	// leave the inversion out.
	if event.PrevData == nil {
		return errors.New("no prevData")
	}
	for _, op := range event.Ops {
		if op.Action != "create" && op.Prev == nil {
			return fmt.Errorf("%s of %s without prev", op.Action, op.Path)
		}
	}
	contents, err := repo.VerifyCommitMessage(ctx, event)
	if err != nil {
		return err
	}
	switch {
	case *root != cid.Cid(event.Commit):
		return fmt.Errorf("it announces %s and carries %s", event.Commit, root)
	case event.Rev <= known.rev:
		return fmt.Errorf("its rev %s comes after %s", event.Rev, known.rev)
	case known.rev != "" && (event.Since == nil || *event.Since != known.rev):
		return fmt.Errorf("it does not follow %s", known.rev)
	case cid.Cid(*event.PrevData) != known.data:
		return fmt.Errorf("it was made on the tree %s, the one before it has %s", event.PrevData, known.data)
	}
	known.rev, known.commit, known.data = event.Rev, *root, signed.Data
	for _, op := range event.Ops {
		if err := w.operation(ctx, event, contents, known, op); err != nil {
			return fmt.Errorf("%s of %s: %w", op.Action, op.Path, err)
		}
	}
	return nil
}

func (w *witness) operation(ctx context.Context, event *comatproto.SyncSubscribeRepos_Commit, contents *repo.Repo, known *replica, op *comatproto.SyncSubscribeRepos_RepoOp) error {
	done := write{did: syntax.DID(event.Repo), path: op.Path}
	before := ""
	if op.Prev != nil {
		before = op.Prev.String()
	}
	if known.records[op.Path] != before {
		return fmt.Errorf("prev is %q, the record was %q", before, known.records[op.Path])
	}
	delete(known.records, op.Path)
	delete(known.blobs, op.Path)
	if op.Cid != nil {
		done.value = op.Cid.String()
		known.records[op.Path] = done.value
		collection, rkey, err := syntax.ParseRepoPath(op.Path)
		if err != nil {
			return err
		}
		raw, _, err := contents.GetRecordBytes(ctx, collection, rkey)
		if err != nil {
			return err
		}
		record, err := atdata.UnmarshalCBOR(raw)
		if err != nil {
			return err
		}
		for _, blob := range atdata.ExtractBlobs(record) {
			known.blobs[op.Path] = append(known.blobs[op.Path], blob.Ref.CID())
		}
	}
	if _, twice := w.ops[done]; twice {
		return errors.New("it happens twice")
	}
	w.ops[done] = event.Commit.String()
	return nil
}

// check holds the log against what the clients were told: what was
// acknowledged is in the commit that the answer named, what was refused is
// nowhere, and nothing is there that nobody asked for.
func (w *witness) check(told *testimony, end string) {
	w.t.Helper()
	for asked, o := range told.writes {
		commit, ok := w.ops[asked]
		switch o.kind {
		case acknowledged:
			require.True(w.t, ok, "acknowledged and not on the firehose: %+v", asked)
			require.Equal(w.t, o.commit, commit, "%+v", asked)
		case refusedWrite:
			require.False(w.t, ok, "refused and on the firehose: %+v", asked)
		case unanswered:
			if ok {
				w.landed++
			}
		}
	}
	for done := range w.ops {
		if _, asked := told.writes[done]; !asked {
			require.Equal(w.t, end, "at://"+done.did.String()+"/"+done.path, "nobody asked for it")
		}
	}
}

// checkRepo holds a repo as the log tells it against its head, its exported
// tree, its table of records and its blobs.
func (w *witness) checkRepo(did syntax.DID) {
	w.t.Helper()
	ctx, known := w.t.Context(), w.repos[did]
	var head struct{ CID, Rev string }
	require.NoError(w.t, w.in.admin().Get(ctx, "com.atproto.sync.getLatestCommit", map[string]any{"did": did}, &head))
	require.Equal(w.t, known.rev, head.Rev)
	require.Equal(w.t, known.commit.String(), head.CID)

	tree := map[string]string{}
	for path, c := range exported(w.t, w.in, did) {
		tree[path] = c.String()
	}
	require.Equal(w.t, known.records, tree, "the exported tree of %s", did)
	require.Equal(w.t, known.records, listed(w.t, w.in, did), "the records of %s", did)
	for _, blobs := range known.blobs {
		for _, c := range blobs {
			w.checkBlob(did, c)
		}
	}
}

func (w *witness) checkBlob(did syntax.DID, c cid.Cid) {
	req := atclient.NewAPIRequest(http.MethodGet, "com.atproto.sync.getBlob", nil)
	req.QueryParams = url.Values{"did": {did.String()}, "cid": {c.String()}}
	resp, err := w.in.admin().Do(w.t.Context(), req)
	require.NoError(w.t, err)
	defer resp.Body.Close()
	require.Equal(w.t, http.StatusOK, resp.StatusCode, "blob %s of %s", c, did)
	content, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	got, err := cid.NewPrefixV1(cid.Raw, multihash.SHA2_256).Sum(content)
	require.NoError(w.t, err)
	require.Equal(w.t, c, got)
	w.blobs++
}

// listed is what listRecords has of a repo: the CID of each record by path.
func listed(t *testing.T, in *instance, did syntax.DID) map[string]string {
	t.Helper()
	var repo struct{ Collections []string }
	require.NoError(t, in.admin().Get(t.Context(), "com.atproto.repo.describeRepo", map[string]any{"repo": did}, &repo))
	records := map[string]string{}
	for _, collection := range repo.Collections {
		for cursor := ""; ; {
			var page struct {
				Cursor  string
				Records []struct{ URI, CID string }
			}
			params := map[string]any{"repo": did, "collection": collection, "limit": 100}
			if cursor != "" {
				params["cursor"] = cursor
			}
			require.NoError(t, in.admin().Get(t.Context(), "com.atproto.repo.listRecords", params, &page))
			for _, r := range page.Records {
				records[strings.TrimPrefix(r.URI, "at://"+did.String()+"/")] = r.CID
			}
			if cursor = page.Cursor; cursor == "" {
				break
			}
		}
	}
	return records
}

// follower reads the firehose from the first event on and, whenever the
// process is killed, goes on from its cursor, as a relay does.
type follower struct {
	t      *testing.T
	stop   context.CancelFunc
	done   chan struct{}
	frames map[int64][sha256.Size]byte // owned by the goroutine until done is closed
	err    error                       // the same
}

func followAcrossCrashes(t *testing.T, in *instance) *follower {
	ctx, stop := context.WithCancel(t.Context())
	f := &follower{t: t, stop: stop, done: make(chan struct{}), frames: map[int64][sha256.Size]byte{}}
	go func() { // ends with ctx
		defer close(f.done)
		for last := int64(0); ctx.Err() == nil && f.err == nil; {
			last = f.follow(ctx, in, last)
		}
	}()
	t.Cleanup(func() { stop(); <-f.done })
	return f
}

// follow reads over one connection and answers the cursor to go on from.
func (f *follower) follow(ctx context.Context, in *instance, cursor int64) int64 {
	conn, err := dialFirehose(ctx, in, cursor)
	if err != nil { // the process is being started again
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
		return cursor
	}
	defer conn.CloseNow()
	for {
		event, frame, err := readFrame(ctx, conn)
		if err != nil {
			return cursor
		}
		seq, ok := event.GetSequence()
		if !ok || seq <= cursor {
			f.err = fmt.Errorf("seq %d came after %d: %s", seq, cursor, said(event))
			return cursor
		}
		cursor, f.frames[seq] = seq, sha256.Sum256(frame)
	}
}

// said is what an event without a seq says.
func said(event *events.XRPCStreamEvent) string {
	switch {
	case event.Error != nil:
		return event.Error.Error + " " + event.Error.Message
	case event.RepoInfo != nil:
		return event.RepoInfo.Name
	default:
		return fmt.Sprintf("%+v", event)
	}
}

// check holds what was seen live against the log: no seq means another event
// than it did before a crash, and none was kept from the follower.
func (f *follower) check(log *witness) {
	f.t.Helper()
	f.stop()
	<-f.done
	require.NoError(f.t, f.err)
	require.NotEmpty(f.t, f.frames)
	newest := int64(0)
	for seq, frame := range f.frames {
		require.Equal(f.t, log.frames[seq], frame, "seq %d was given to another event", seq)
		newest = max(newest, seq)
	}
	for seq := range log.frames {
		if seq <= newest {
			require.Contains(f.t, f.frames, seq, "the follower was not told of it")
		}
	}
}
