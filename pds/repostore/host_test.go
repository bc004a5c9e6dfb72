package repostore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/bluesky-social/indigo/events"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/repostore"
	"herbarium.garden/pds/sequencer"
)

// keyring is the accounts' signing keys.
type keyring struct {
	mu   sync.Mutex
	keys map[syntax.DID]atcrypto.PrivateKey
}

func (k *keyring) SigningKey(_ context.Context, did syntax.DID) (atcrypto.PrivateKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, ok := k.keys[did]
	if !ok {
		return nil, fmt.Errorf("no key of %s", did)
	}
	return key, nil
}

// host is a repo store at work.
type host struct {
	*repostore.Store
	t   testing.TB
	db  *migrations.DB
	seq *sequencer.Sequencer
	*keyring
	stop func() // ends the committer and waits for it
}

// newHost makes a host whose committer runs.
func newHost(t testing.TB, db *migrations.DB, adjust ...func(*repostore.Config)) *host {
	h := idleHost(t, db, adjust...)
	h.run()
	return h
}

// idleHost makes a host whose committer does not run yet.
func idleHost(t testing.TB, db *migrations.DB, adjust ...func(*repostore.Config)) *host {
	t.Helper()
	catalog, err := lexicons.Load()
	require.NoError(t, err)
	h := &host{t: t, db: db, keyring: &keyring{keys: map[syntax.DID]atcrypto.PrivateKey{}}}
	h.seq, err = sequencer.New(t.Context(), sequencer.Config{DB: db})
	require.NoError(t, err)
	cfg := repostore.Config{DB: db, Sequencer: h.seq, Rules: lexicons.NewRules(catalog, lexicons.Settings{}), Keys: h.keyring}
	for _, f := range adjust {
		f(&cfg)
	}
	h.Store, err = repostore.New(cfg)
	require.NoError(t, err)
	return h
}

func (h *host) run() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(h.t, <-ended)
	})
	h.t.Cleanup(h.stop)
}

// account makes an account the way that the PDS does.
func (h *host) account(name string) syntax.DID {
	h.t.Helper()
	did := syntax.DID("did:web:" + name + ".test")
	h.mu.Lock()
	key, ok := h.keys[did]
	if !ok {
		made, err := atcrypto.GeneratePrivateKeyP256()
		require.NoError(h.t, err)
		key, h.keys[did] = made, made
	}
	h.mu.Unlock()
	var appended sequencer.Batch
	require.NoError(h.t, h.db.Tx(h.t.Context(), func(tx *gorm.DB) error {
		_, drafts, err := h.CreateRepo(h.t.Context(), tx, did, key)
		if err != nil {
			return err
		}
		all := append([]sequencer.Draft{sequencer.IdentityDraft{DID: did}, sequencer.AccountDraft{DID: did, Active: true}}, drafts...)
		appended, err = h.seq.Append(h.t.Context(), tx, all...)
		return err
	}))
	h.seq.Published(appended)
	return did
}

// addBlob records an upload and answers what is kept of it.
func (h *host) addBlob(did syntax.DID, b repostore.Blob) repostore.Blob {
	h.t.Helper()
	kept, err := h.AddBlob(h.t.Context(), did, b, repostore.Policy{})
	require.NoError(h.t, err)
	return kept
}

// apply writes a batch that must succeed.
func (h *host) apply(did syntax.DID, writes ...repostore.Write) *repostore.Result {
	h.t.Helper()
	result, err := h.Apply(h.t.Context(), did, writes, repostore.Options{})
	require.NoError(h.t, err)
	return result
}

// refused writes a batch that must fail.
func (h *host) refused(did syntax.DID, writes ...repostore.Write) error {
	h.t.Helper()
	before, err := h.Head(h.t.Context(), did)
	require.NoError(h.t, err)
	result, refusal := h.Apply(h.t.Context(), did, writes, repostore.Options{})
	require.Error(h.t, refusal)
	require.Nil(h.t, result)
	after, err := h.Head(h.t.Context(), did)
	require.NoError(h.t, err)
	require.Equal(h.t, before, after, "a refused batch changes nothing")
	return refusal
}

const noteNSID syntax.NSID = "com.example.note"

// note is a record of a collection that no rule knows.
func note(t testing.TB, text string) *lexicons.Record {
	t.Helper()
	return record(t, noteNSID, map[string]any{"text": text})
}

func record(t testing.TB, collection syntax.NSID, value map[string]any) *lexicons.Record {
	t.Helper()
	raw, err := json.Marshal(value)
	require.NoError(t, err)
	rec, err := lexicons.ParseJSON(collection, raw)
	require.NoError(t, err)
	return rec
}

func create(rkey string, rec *lexicons.Record) repostore.Write {
	return repostore.Write{Action: lexicons.Create, Collection: rec.Collection, RecordKey: syntax.RecordKey(rkey), Record: rec}
}

func update(rkey string, rec *lexicons.Record) repostore.Write {
	return repostore.Write{Action: lexicons.Update, Collection: rec.Collection, RecordKey: syntax.RecordKey(rkey), Record: rec}
}

func put(rkey string, rec *lexicons.Record) repostore.Write {
	return repostore.Write{Action: repostore.Put, Collection: rec.Collection, RecordKey: syntax.RecordKey(rkey), Record: rec}
}

func remove(collection syntax.NSID, rkey string) repostore.Write {
	return repostore.Write{Action: repostore.Remove, Collection: collection, RecordKey: syntax.RecordKey(rkey)}
}

// deletion is the delete of a record that must be there.
func deletion(collection syntax.NSID, rkey string) repostore.Write {
	return repostore.Write{Action: lexicons.Delete, Collection: collection, RecordKey: syntax.RecordKey(rkey)}
}

// commits answers the #commit events of a DID in order.
func (h *host) commits(did syntax.DID) []*comatproto.SyncSubscribeRepos_Commit {
	h.t.Helper()
	var (
		found  []*comatproto.SyncSubscribeRepos_Commit
		cursor int64
	)
	// A log opened anew: a process hears of what another has appended only when
	// it polls, and this one may not have yet.
	log, err := sequencer.New(h.t.Context(), sequencer.Config{DB: h.db})
	require.NoError(h.t, err)
	for {
		page, err := log.ReadFrom(h.t.Context(), cursor, 500)
		require.NoError(h.t, err)
		if len(page) == 0 {
			return found
		}
		for _, e := range page {
			cursor = e.Seq
			if e.DID != did || e.Kind != sequencer.Commit {
				continue
			}
			var frame events.XRPCStreamEvent
			require.NoError(h.t, frame.Deserialize(bytes.NewReader(e.Frame)))
			require.Equal(h.t, e.Seq, frame.RepoCommit.Seq)
			found = append(found, frame.RepoCommit)
		}
	}
}

// follow checks the whole history of a DID as a strict consumer does: each
// commit is signed, follows the one before, and its operations invert. It
// answers the head and the records that the events lead to.
func (h *host) follow(did syntax.DID) (head cid.Cid, records map[string]cid.Cid) {
	h.t.Helper()
	key, err := h.SigningKey(h.t.Context(), did)
	require.NoError(h.t, err)
	public, err := key.PublicKey()
	require.NoError(h.t, err)
	records = map[string]cid.Cid{}
	var (
		rev  string
		data cid.Cid
	)
	for i, msg := range h.commits(did) {
		commit, root, err := repo.LoadCommitFromCAR(h.t.Context(), bytes.NewReader(msg.Blocks))
		require.NoError(h.t, err)
		require.NoError(h.t, commit.VerifySignature(public))
		require.Equal(h.t, msg.Commit.String(), root.String())
		require.Equal(h.t, string(did), msg.Repo)
		require.False(h.t, msg.TooBig || msg.Rebase)
		require.Greater(h.t, msg.Rev, rev)
		if i == 0 {
			require.Nil(h.t, msg.Since)
			require.Nil(h.t, msg.PrevData)
			require.Empty(h.t, msg.Ops)
		} else {
			require.Equal(h.t, rev, *msg.Since)
			require.NotNil(h.t, msg.PrevData)
			require.Equal(h.t, data.String(), msg.PrevData.String())
			require.NotEmpty(h.t, msg.Ops)
			require.LessOrEqual(h.t, len(msg.Blocks), repostore.MaxCommitBytes)
		}
		for _, op := range msg.Ops {
			before, stood := records[op.Path]
			require.Equal(h.t, stood, op.Prev != nil, "%s %s", op.Action, op.Path)
			if stood {
				require.Equal(h.t, before.String(), op.Prev.String())
			}
			if op.Action == "delete" {
				delete(records, op.Path)
			} else {
				records[op.Path] = cid.Cid(*op.Cid)
			}
		}
		_, err = repo.VerifyCommitMessage(h.t.Context(), msg)
		require.NoError(h.t, err)
		head, rev, data = *root, msg.Rev, commit.Data
	}
	return head, records
}

// export reads the repo's CAR as a consumer does and answers its records.
func (h *host) export(did syntax.DID) (head cid.Cid, records map[string]cid.Cid) {
	h.t.Helper()
	var car bytes.Buffer
	require.NoError(h.t, h.ExportCAR(h.t.Context(), did, "", &car))
	return loadCAR(h.t, h.keyring, did, car.Bytes())
}

func loadCAR(t testing.TB, keys *keyring, did syntax.DID, car []byte) (head cid.Cid, records map[string]cid.Cid) {
	t.Helper()
	commit, loaded, err := repo.LoadRepoFromCAR(t.Context(), bytes.NewReader(car))
	require.NoError(t, err)
	require.False(t, loaded.MST.IsPartial())
	require.NoError(t, loaded.MST.Verify())
	key, err := keys.SigningKey(t.Context(), did)
	require.NoError(t, err)
	public, err := key.PublicKey()
	require.NoError(t, err)
	require.NoError(t, commit.VerifySignature(public))
	require.Equal(t, string(did), commit.DID)
	records = map[string]cid.Cid{}
	require.NoError(t, loaded.MST.WriteToMap(records))
	for path, c := range records {
		collection, rkey, err := syntax.ParseRepoPath(path)
		require.NoError(t, err)
		raw, _, err := loaded.GetRecordBytes(t.Context(), collection, rkey)
		require.NoError(t, err)
		require.Equal(t, c, sumOf(t, raw))
	}
	_, root, err := repo.LoadCommitFromCAR(t.Context(), bytes.NewReader(car))
	require.NoError(t, err)
	return *root, records
}

// sumOf computes the CID of a block.
func sumOf(t testing.TB, raw []byte) cid.Cid {
	t.Helper()
	c, err := cid.V1Builder{Codec: cid.DagCBOR, MhType: 0x12}.Sum(raw)
	require.NoError(t, err)
	return c
}

// consistent checks that head, events, export and tables of a DID agree.
func (h *host) consistent(did syntax.DID) map[string]cid.Cid {
	h.t.Helper()
	head, err := h.Head(h.t.Context(), did)
	require.NoError(h.t, err)
	followed, told := h.follow(did)
	exported, held := h.export(did)
	require.Equal(h.t, head.Commit, followed)
	require.Equal(h.t, head.Commit, exported)
	require.Equal(h.t, told, held)
	for path, c := range held {
		collection, rkey, err := syntax.ParseRepoPath(path)
		require.NoError(h.t, err)
		got, err := h.GetRecord(h.t.Context(), did, collection, rkey)
		require.NoError(h.t, err)
		require.Equal(h.t, c, got.CID)
	}
	return held
}

// tid is the nth of a row of record keys.
func tid(n int) string {
	return syntax.NewTIDFromTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n)*time.Second), 0).String()
}
