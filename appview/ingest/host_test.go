package ingest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/bluesky-social/indigo/atproto/syntax"
	lexutil "github.com/bluesky-social/indigo/lex/util"
	blocks "github.com/ipfs/go-block-format"
	"github.com/ipfs/go-cid"
	blockstore "github.com/ipfs/go-ipfs-blockstore"
	"github.com/stretchr/testify/require"
	cbg "github.com/whyrusleeping/cbor-gen"

	"herbarium.garden/appview/ingest"
	"herbarium.garden/lexicons"
)

// host is a host of repos as the outside sees one: real keys, real trees, real
// signatures, made with indigo and not with our own repostore. It is the
// Source, the RepoFetcher and the Directory of the consumer under test.
type host struct {
	name    string
	mu      sync.Mutex
	events  []ingest.RawEvent
	oldest  int64
	more    chan struct{}
	repos   map[syntax.DID]*hostedRepo
	down    bool // FetchRepo fails
	fetched int
	*identity.MockDirectory
}

// hostedRepo is one repo of the host. The test writes to it while the consumer
// may fetch it: mu guards what is below it for writing, and for reading by
// export. The test itself is the only writer and reads without it.
type hostedRepo struct {
	did   syntax.DID
	key   atcrypto.PrivateKey
	clock *syntax.TIDClock

	mu     sync.Mutex
	tree   mst.Tree
	stored map[cid.Cid][]byte
	rev    string
	data   cid.Cid
	head   cid.Cid
}

func newHost() *host {
	return &host{name: "host.test", more: make(chan struct{}), repos: map[syntax.DID]*hostedRepo{}, MockDirectory: identity.NewMockDirectory()}
}

func (h *host) Name() string { return h.name }

func (h *host) ReadFrom(_ context.Context, cursor int64, limit int) ([]ingest.RawEvent, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cursor < h.oldest {
		return nil, &ingest.OutdatedCursorError{Oldest: h.oldest}
	}
	var page []ingest.RawEvent
	for _, e := range h.events {
		if e.Seq > cursor && len(page) < limit {
			page = append(page, e)
		}
	}
	return page, nil
}

func (h *host) Wait(ctx context.Context, cursor int64) error {
	for {
		h.mu.Lock()
		there, more := int64(len(h.events)) > cursor, h.more
		h.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		}
	}
}

func (h *host) FetchRepo(_ context.Context, did syntax.DID) (io.ReadCloser, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fetched++
	if h.down {
		return nil, fmt.Errorf("host is down")
	}
	r := h.repos[did]
	if r == nil {
		return nil, ingest.ErrRepoGone
	}
	return io.NopCloser(bytes.NewReader(r.export())), nil
}

// The cursor of this host is the last DID of the page.
func (h *host) ListRepos(_ context.Context, cursor string, limit int) (repos []ingest.HostedRepo, next string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for did := range h.repos {
		if string(did) > cursor {
			repos = append(repos, ingest.HostedRepo{DID: did, Active: true})
		}
	}
	slices.SortFunc(repos, func(a, b ingest.HostedRepo) int { return bytes.Compare([]byte(a.DID), []byte(b.DID)) })
	if len(repos) > limit {
		repos, next = repos[:limit], string(repos[limit-1].DID)
	}
	return repos, next, nil
}

// fetches counts the repos that were asked for whole.
func (h *host) fetches() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fetched
}

// forget drops the events up to and including seq, as retention does.
func (h *host) forget(seq int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.oldest = seq
}

// emit sends a frame and returns its seq.
func (h *host) emit(frame []byte) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	seq := int64(len(h.events) + 1)
	h.events = append(h.events, ingest.RawEvent{Seq: seq, Frame: frame})
	close(h.more)
	h.more = make(chan struct{})
	return seq
}

// open makes an account with a P-256 key and an empty repo, and announces nothing.
func (h *host) open(t testing.TB, did syntax.DID) *hostedRepo {
	t.Helper()
	key, err := atcrypto.GeneratePrivateKeyP256()
	require.NoError(t, err)
	public, err := key.PublicKey()
	require.NoError(t, err)
	h.Insert(identity.Identity{
		DID: did, Handle: syntax.Handle(did.Identifier()),
		Keys: map[string]identity.VerificationMethod{"atproto": {Type: "Multikey", PublicKeyMultibase: public.Multibase()}},
	})
	clock := syntax.NewTIDClock(1)
	r := &hostedRepo{did: did, key: key, clock: clock, tree: mst.NewEmptyTree(), stored: map[cid.Cid][]byte{}}
	h.mu.Lock()
	h.repos[did] = r
	h.mu.Unlock()
	return r
}

// change is one write of a commit: a record, or nil to delete.
type change struct {
	path   string
	record map[string]any
}

// write commits changes and returns the event that a good host would send.
func (r *hostedRepo) write(t testing.TB, changes ...change) *comatproto.SyncSubscribeRepos_Commit {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	msg := &comatproto.SyncSubscribeRepos_Commit{
		Repo: string(r.did), Blobs: []lexutil.LexLink{}, Time: time.Now().UTC().Format(syntax.AtprotoDatetimeLayout), Ops: []*comatproto.SyncSubscribeRepos_RepoOp{},
	}
	if r.rev != "" {
		since, data := r.rev, lexutil.LexLink(r.data)
		msg.Since, msg.PrevData = &since, &data
	}
	diff := &blockLog{blocks: map[cid.Cid][]byte{}}
	for _, c := range changes {
		msg.Ops = append(msg.Ops, r.change(t, c, diff))
	}
	_, err := r.tree.WriteDiffBlocks(t.Context(), diff) // before the root is computed, or blocks are lost
	require.NoError(t, err)
	root, err := r.tree.RootCID()
	require.NoError(t, err)
	r.rev, r.data = r.clock.Next().String(), *root
	commit := r.sign(t)
	r.head = block(t, commit)
	diff.blocks[r.head] = commit
	for id, data := range diff.blocks {
		r.stored[id] = data
	}
	if len(changes) == 0 {
		diff.blocks[*root] = r.node(t)
	}
	msg.Rev, msg.Commit = r.rev, lexutil.LexLink(r.head)
	msg.Blocks = carFile(r.head, diff.blocks)
	return msg
}

func (r *hostedRepo) change(t testing.TB, c change, diff *blockLog) *comatproto.SyncSubscribeRepos_RepoOp {
	t.Helper()
	op := &comatproto.SyncSubscribeRepos_RepoOp{Path: c.path, Action: "delete"}
	var value *cid.Cid
	if c.record != nil {
		raw, err := lexicons.EncodeCBOR(c.record)
		require.NoError(t, err)
		id := block(t, raw)
		diff.blocks[id], value = raw, &id
		op.Action, op.Cid = "create", (*lexutil.LexLink)(&id)
	}
	applied, err := repo.ApplyOp(&r.tree, c.path, value)
	require.NoError(t, err)
	if applied.Prev != nil {
		op.Prev = (*lexutil.LexLink)(applied.Prev)
		if value != nil {
			op.Action = "update"
		}
	}
	if r.tree.IsEmpty() {
		r.tree = mst.NewEmptyTree() // indigo's tree keeps a height that an empty one must not have
	}
	return op
}

// sign makes the commit block of the present state.
func (r *hostedRepo) sign(t testing.TB) []byte {
	t.Helper()
	commit := repo.Commit{DID: string(r.did), Version: 3, Data: r.data, Rev: r.rev}
	require.NoError(t, commit.Sign(r.key))
	return encode(t, &commit)
}

// node is the root node of the present tree.
func (r *hostedRepo) node(t testing.TB) []byte {
	t.Helper()
	data := r.tree.Root.NodeData()
	raw, _, err := data.Bytes()
	require.NoError(t, err)
	return raw
}

// export is the repo as getRepo serves it, dead blocks included.
func (r *hostedRepo) export() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return carFile(r.head, r.stored)
}

// blockLog takes the blocks of a diff.
type blockLog struct {
	blockstore.Blockstore
	blocks map[cid.Cid][]byte
}

func (b *blockLog) Put(_ context.Context, block blocks.Block) error {
	b.blocks[block.Cid()] = block.RawData()
	return nil
}

func block(t testing.TB, raw []byte) cid.Cid {
	t.Helper()
	id, err := cid.V1Builder{Codec: cid.DagCBOR, MhType: 0x12}.Sum(raw)
	require.NoError(t, err)
	return id
}

func encode(t testing.TB, v cbg.CBORMarshaler) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, v.MarshalCBOR(&b))
	return b.Bytes()
}

// carFile writes a CAR with the root's block first.
func carFile(root cid.Cid, all map[cid.Cid][]byte) []byte {
	header, err := lexicons.EncodeCBOR(map[string]any{"roots": []any{atdata.CIDLink(root)}, "version": int64(1)})
	if err != nil {
		panic(err)
	}
	var b bytes.Buffer
	section := func(parts ...[]byte) {
		joined := bytes.Join(parts, nil)
		b.Write(binary.AppendUvarint(nil, uint64(len(joined))))
		b.Write(joined)
	}
	section(header)
	if data, ok := all[root]; ok {
		section(root.Bytes(), data)
	}
	for id, data := range all {
		if id != root {
			section(id.Bytes(), data)
		}
	}
	return b.Bytes()
}

// frame wraps a message of the event stream.
func frame(t testing.TB, kind string, body cbg.CBORMarshaler) []byte {
	t.Helper()
	header, err := lexicons.EncodeCBOR(map[string]any{"op": int64(1), "t": kind})
	require.NoError(t, err)
	return append(header, encode(t, body)...)
}
