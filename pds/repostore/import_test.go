package repostore_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/bluesky-social/indigo/atproto/syntax"
	ipldblocks "github.com/ipfs/go-block-format"
	"github.com/ipfs/go-cid"
	blockstore "github.com/ipfs/go-ipfs-blockstore"
	gocar "github.com/ipld/go-car"
	carutil "github.com/ipld/go-car/util"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/repostore"
	"herbarium.garden/pds/sequencer"
)

// publicKey is the key that a DID's commits on this host verify with.
func (h *host) publicKey(did syntax.DID) atcrypto.PublicKey {
	h.t.Helper()
	key, err := h.SigningKey(h.t.Context(), did)
	require.NoError(h.t, err)
	public, err := key.PublicKey()
	require.NoError(h.t, err)
	return public
}

func (h *host) carOf(did syntax.DID) []byte {
	h.t.Helper()
	var car bytes.Buffer
	require.NoError(h.t, h.ExportCAR(h.t.Context(), did, "", &car))
	return car.Bytes()
}

// importing imports a CAR into an active account.
func (h *host) importing(did syntax.DID, car []byte, keys ...atcrypto.PublicKey) (*repostore.ImportResult, error) {
	h.t.Helper()
	return h.Import(h.t.Context(), did, bytes.NewReader(car), repostore.ImportOptions{Keys: keys, Announce: active(true)})
}

func active(yes bool) func(context.Context, *gorm.DB) (bool, error) {
	return func(context.Context, *gorm.DB) (bool, error) { return yes, nil }
}

// eachPair gives a test a host and another one to migrate to.
func eachPair(t *testing.T, fn func(t *testing.T, from, to *host)) {
	t.Helper()
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		fn(t, newHost(t, dbtest.Open(t, migrations.PDS, db.Dialect)), newHost(t, db))
	})
}

// kinds lists the events of a DID.
func (h *host) kinds(did syntax.DID) []sequencer.Kind {
	h.t.Helper()
	page, err := h.seq.ReadFrom(h.t.Context(), 0, 500)
	require.NoError(h.t, err)
	var kinds []sequencer.Kind
	for _, e := range page {
		if e.DID == did {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

func TestImportBringsTheWholeRepo(t *testing.T) {
	eachPair(t, func(t *testing.T, from, to *host) {
		did := from.account("scout")
		for batch := range 5 {
			var writes []repostore.Write
			for i := range 80 {
				n := batch*80 + i
				writes = append(writes, create(tid(n), note(t, fmt.Sprint("note ", n))), create(tid(n), observation(t, fmt.Sprint("seen ", n), nil)))
			}
			from.apply(did, writes...)
		}
		car := from.carOf(did)
		require.Equal(t, did, to.account("scout"))
		before, err := to.Head(t.Context(), did)
		require.NoError(t, err)
		told := len(to.kinds(did))

		remarked := 0
		result, err := to.Import(t.Context(), did, bytes.NewReader(car), repostore.ImportOptions{
			Keys: []atcrypto.PublicKey{to.publicKey(did), from.publicKey(did)}, Announce: active(false),
			Remark: func(*lexicons.Record, syntax.RecordKey) { remarked++ },
		})
		require.NoError(t, err)
		require.Equal(t, 800, result.Created)
		require.Zero(t, result.Updated+result.Deleted)
		require.Equal(t, 800, remarked)
		require.Len(t, to.kinds(did), told, "an account that is not active says nothing")

		head, err := to.Head(t.Context(), did)
		require.NoError(t, err)
		source, err := from.Head(t.Context(), did)
		require.NoError(t, err)
		require.Equal(t, result.Commit.CID, head.Commit)
		require.Equal(t, source.Data, head.Data, "the tree is the same")
		require.NotEqual(t, source.Commit, head.Commit, "the commit is ours")
		require.Greater(t, head.Rev, before.Rev)
		require.Greater(t, head.Rev, source.Rev)
		_, sent := from.export(did)
		_, got := to.export(did) // verifies with our key
		require.Equal(t, sent, got)

		// The nodes lie where a write looks for them: the same writes lead to the same tree.
		for n := range 60 {
			writes := []repostore.Write{remove(noteNSID, tid(7*n%400)), create(tid(1000+n), note(t, "later")), put(tid(n), note(t, "put"))}
			if 7*n%400 == n {
				writes = writes[:2]
			}
			from.apply(did, writes...)
			to.apply(did, writes...)
		}
		source, err = from.Head(t.Context(), did)
		require.NoError(t, err)
		head, err = to.Head(t.Context(), did)
		require.NoError(t, err)
		require.Equal(t, source.Data, head.Data)
		_, sent = from.export(did)
		_, got = to.export(did)
		require.Equal(t, sent, got)
	})
}

func TestImportReplacesWhatStands(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		kept := h.apply(did, create(tid(1), note(t, "kept")), create(tid(2), note(t, "first form")), create(tid(1), observation(t, "kept", nil)))
		old := h.carOf(did)
		h.apply(did, put(tid(2), note(t, "second form")), create(tid(3), note(t, "too new")), create(tid(9), observation(t, "too new", nil)))
		told := len(h.kinds(did))

		result, err := h.importing(did, old, h.publicKey(did))
		require.NoError(t, err)
		require.Equal(t, []int{0, 1, 2}, []int{result.Created, result.Updated, result.Deleted})
		require.Equal(t, append(h.kinds(did)[:told:told], sequencer.Sync), h.kinds(did), "one #sync and no #commit")
		_, records := h.export(did)
		_, wanted := loadCAR(t, h.keyring, did, old)
		require.Equal(t, wanted, records)
		got, err := h.GetRecord(t.Context(), did, noteNSID, syntax.RecordKey(tid(1)))
		require.NoError(t, err)
		require.Equal(t, kept.Commit.Rev, got.Rev, "what is the same was not written again")

		requireRefusal(t, "RecordTombstoned", h.refused(did, create(tid(9), observation(t, "another", nil))))

		again, err := h.importing(did, h.carOf(did), h.publicKey(did))
		require.NoError(t, err)
		require.Equal(t, &repostore.ImportResult{}, again, "the same repo once more is no commit")

		// An empty repo takes everything away, and comes back from that.
		empty := signedCAR(t, h, did, emptyNode(t))
		result, err = h.importing(did, empty, h.publicKey(did))
		require.NoError(t, err)
		require.Equal(t, 3, result.Deleted)
		_, records = h.export(did)
		require.Empty(t, records)
		h.apply(did, create(tid(1), note(t, "again")))
		_, records = h.export(did)
		require.Len(t, records, 1)
	})
}

func TestImportAltersNoObservation(t *testing.T) {
	eachPair(t, func(t *testing.T, from, to *host) {
		did := from.account("scout")
		to.account("scout")
		from.apply(did, create(tid(1), observation(t, "as seen", nil)), create(tid(2), observation(t, "gone", nil)))
		_, err := to.importing(did, from.carOf(did), from.publicKey(did))
		require.NoError(t, err, "the first import is the baseline")
		to.apply(did, remove(lexicons.ObservationNSID, tid(2)))
		to.apply(did, create(tid(3), observation(t, "as seen here", nil)))

		from.apply(did, create(tid(3), observation(t, "as wished there", nil)))
		head, err := to.Head(t.Context(), did)
		require.NoError(t, err)
		_, err = to.importing(did, from.carOf(did), from.publicKey(did))
		refused := requireRefusal(t, "ImmutableRecord", err)
		require.Len(t, refused.Findings, 2)
		require.Equal(t, "rkey-reused", refused.Findings[0].Code)
		require.Equal(t, "edited", refused.Findings[1].Code)
		for _, n := range []int{2, 3} {
			require.Contains(t, refused.Error(), "at://did:web:scout.test/garden.engram.agents.observation/"+tid(n))
		}
		after, err := to.Head(t.Context(), did)
		require.NoError(t, err)
		require.Equal(t, head, after, "nothing of it was imported")
		to.export(did)

		// Nor is there a way round it through a new account of the same DID.
		require.NoError(t, to.db.Tx(t.Context(), func(tx *gorm.DB) error { return to.DeleteRepo(t.Context(), tx, did) }))
		to.account("scout")
		_, err = to.importing(did, from.carOf(did), from.publicKey(did))
		requireRefusal(t, "ImmutableRecord", err)
	})
}

func TestObservationsOfABaselineAreSuperseded(t *testing.T) {
	eachPair(t, func(t *testing.T, from, to *host) {
		did := from.account("scout")
		to.account("scout")
		first := from.apply(did, create(tid(1), observation(t, "first", nil))).Writes[0]
		second := from.apply(did, create(tid(2), observation(t, "second", refTo(first)))).Writes[0]
		_, err := to.importing(did, from.carOf(did), from.publicKey(did))
		require.NoError(t, err)
		refused := requireRefusal(t, "AlreadySuperseded", to.refused(did, create(tid(3), observation(t, "third", refTo(first)))))
		require.Contains(t, refused.Error(), string(second.URI))
		to.apply(did, create(tid(3), observation(t, "third", refTo(second))))
	})
}

func TestImportAwaitsBlobs(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		here, there := rawCID(t, "here"), rawCID(t, "there")
		h.uploaded(did, repostore.Blob{CID: here, MimeType: "text/plain", Size: 4})
		holding := func(c cid.Cid, size int) *lexicons.Record {
			return record(t, noteNSID, map[string]any{"file": map[string]any{
				"$type": "blob", "ref": map[string]any{"$link": c.String()}, "mimeType": "text/plain", "size": size}})
		}
		car := handmade(t, h, did, map[string]*lexicons.Record{
			"com.example.note/" + tid(1): holding(here, 4),
			"com.example.note/" + tid(2): holding(there, 5),
			"com.example.note/" + tid(3): holding(there, 5),
		})
		_, err := h.importing(did, car, h.publicKey(did))
		require.NoError(t, err)
		missing, err := h.MissingBlobs(t.Context(), did, cid.Undef, 10)
		require.NoError(t, err)
		require.Equal(t, []repostore.MissingBlob{{CID: there, RecordURI: syntax.ATURI("at://" + string(did) + "/com.example.note/" + tid(2))}}, missing)
		rest, err := h.MissingBlobs(t.Context(), did, there, 10)
		require.NoError(t, err)
		require.Empty(t, rest)
		counts, err := h.Counts(t.Context(), did)
		require.NoError(t, err)
		require.Equal(t, []int64{1, 1}, []int64{counts.Blobs, counts.Awaited})

		// A record that goes awaits nothing any more.
		h.apply(did, remove(noteNSID, tid(2)))
		h.uploaded(did, repostore.Blob{CID: there, MimeType: "text/plain", Size: 5})
		missing, err = h.MissingBlobs(t.Context(), did, cid.Undef, 10)
		require.NoError(t, err)
		require.Empty(t, missing)
		_, referenced, err := h.GetBlob(t.Context(), did, there)
		require.NoError(t, err)
		require.True(t, referenced)
		h.apply(did, remove(noteNSID, tid(3)))
		_, referenced, err = h.GetBlob(t.Context(), did, there)
		require.NoError(t, err)
		require.False(t, referenced, "the reference went with the last record that awaited it")
	})
}

// Writes that are under way while a CAR comes in land before it or after it,
// whole either way.
func TestImportBesideWrites(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		h.apply(did, create(tid(0), note(t, "base")))
		car := h.carOf(did)
		var all sync.WaitGroup
		for w := range 4 {
			all.Go(func() {
				for i := range 10 {
					_, err := h.Apply(context.WithoutCancel(t.Context()), did, []repostore.Write{create(tid(100*(w+1)+i), note(t, "beside"))}, repostore.Options{})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Go(func() {
			for range 5 {
				if _, err := h.importing(did, car, h.publicKey(did)); err != nil {
					t.Error(err)
				}
			}
		})
		all.Wait()
		_, records := h.export(did)
		require.Contains(t, records, "com.example.note/"+tid(0))
		head, err := h.Head(t.Context(), did)
		require.NoError(t, err)
		h.apply(did, create(tid(900), note(t, "after")))
		after, err := h.Head(t.Context(), did)
		require.NoError(t, err)
		require.Greater(t, after.Rev, head.Rev)
	})
}

func (h *host) uploaded(did syntax.DID, b repostore.Blob) {
	h.t.Helper()
	_, err := h.AddBlob(h.t.Context(), did, b, repostore.Policy{})
	require.NoError(h.t, err)
}

// rawCID is the CID of a blob.
func rawCID(t testing.TB, content string) cid.Cid {
	t.Helper()
	c, err := cid.V1Builder{Codec: cid.Raw, MhType: 0x12}.Sum([]byte(content))
	require.NoError(t, err)
	return c
}

type carBlock struct {
	cid cid.Cid
	raw []byte
}

func blockOf(t testing.TB, raw []byte) carBlock { return carBlock{sumOf(t, raw), raw} }

func nodeBlock(t testing.TB, node mst.NodeData) carBlock {
	t.Helper()
	raw, c, err := node.Bytes()
	require.NoError(t, err)
	return carBlock{*c, raw}
}

func emptyNode(t testing.TB) carBlock { return nodeBlock(t, mst.NodeData{Entries: []mst.EntryData{}}) }

// signedCAR is a repo whose tree has the first block as its root.
func signedCAR(t testing.TB, h *host, did syntax.DID, blocks ...carBlock) []byte {
	t.Helper()
	return carOf(t, append([]carBlock{signedCommit(t, h, did, blocks[0].cid)}, blocks...)...)
}

func signedCommit(t testing.TB, h *host, did syntax.DID, data cid.Cid) carBlock {
	t.Helper()
	key, err := h.SigningKey(t.Context(), did)
	require.NoError(t, err)
	return commitBlock(t, did, data, syntax.NewTIDNow(0), key)
}

func commitBlock(t testing.TB, did syntax.DID, data cid.Cid, rev syntax.TID, key atcrypto.PrivateKey) carBlock {
	t.Helper()
	commit := repo.Commit{DID: string(did), Version: 3, Data: data, Rev: string(rev)}
	require.NoError(t, commit.Sign(key))
	var raw bytes.Buffer
	require.NoError(t, commit.MarshalCBOR(&raw))
	return blockOf(t, raw.Bytes())
}

// carOf writes a CAR by go-car; the first block is the root.
func carOf(t testing.TB, blocks ...carBlock) []byte {
	t.Helper()
	var car bytes.Buffer
	require.NoError(t, gocar.WriteHeader(&gocar.CarHeader{Roots: []cid.Cid{blocks[0].cid}, Version: 1}, &car))
	for _, b := range blocks {
		require.NoError(t, carutil.LdWrite(&car, b.cid.Bytes(), b.raw))
	}
	return car.Bytes()
}

// handmade is a repo of the given records by path.
func handmade(t testing.TB, h *host, did syntax.DID, records map[string]*lexicons.Record) []byte {
	t.Helper()
	leaves := map[string]cid.Cid{}
	var blocks []carBlock
	for path, r := range records {
		leaves[path] = r.CID
		blocks = append(blocks, carBlock{r.CID, r.CBOR})
	}
	tree, err := mst.LoadTreeFromMap(leaves)
	require.NoError(t, err)
	nodes := &blockShelf{}
	root, err := tree.WriteDiffBlocks(t.Context(), nodes)
	require.NoError(t, err)
	all := append([]carBlock{signedCommit(t, h, did, *root)}, nodes.blocks...)
	return carOf(t, append(all, blocks...)...)
}

func TestImportRefusesHostileCARs(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		h.apply(did, create(tid(1), note(t, "standing")))
		rec := note(t, "a")
		leaf := carBlock{rec.CID, rec.CBOR}
		keys := keysByHeight(t)
		entry := func(key string) mst.EntryData { return mst.EntryData{KeySuffix: []byte(key), Value: leaf.cid} }
		node := func(left *cid.Cid, entries ...mst.EntryData) carBlock {
			return nodeBlock(t, mst.NodeData{Left: left, Entries: append([]mst.EntryData{}, entries...)})
		}
		good := node(nil, entry(keys[0][0]))
		stranger, err := atcrypto.GeneratePrivateKeyP256()
		require.NoError(t, err)
		own, err := h.SigningKey(t.Context(), did)
		require.NoError(t, err)
		under := func(e mst.EntryData, right carBlock) mst.EntryData { e.Right = &right.cid; return e }
		lowest := node(nil, entry(keys[0][0]))
		second := node(nil, entry(keys[0][1]))
		header := func(roots ...cid.Cid) []byte {
			var car bytes.Buffer
			require.NoError(t, gocar.WriteHeader(&gocar.CarHeader{Roots: roots, Version: 1}, &car))
			return car.Bytes()
		}
		wrongType := record(t, "com.example.other", map[string]any{"text": "a"})
		float := blockOf(t, []byte("\xa2\x61x\xfb\x3f\xf8\x00\x00\x00\x00\x00\x00\x65$type\x70com.example.note"))
		loose := func() carBlock { // a node with a field more
			raw := append([]byte{0xa3}, good.raw[1:]...)
			return blockOf(t, append(raw, 0x61, 'z', 0xf6))
		}()

		for _, c := range []struct {
			name string
			car  []byte
			says string
		}{
			{"nothing", nil, "ends inside header"},
			{"no CAR", []byte("<html>"), ""},
			{"no root", append([]byte{0x11}, "\xa2\x65roots\x80\x67version\x01"...), "0 roots"},
			{"two roots", header(leaf.cid, good.cid), "2 roots"},
			{"version 2", append([]byte{0x11}, "\xa2\x65roots\x80\x67version\x02"...), "version 2"},
			{"root missing", header(leaf.cid), "is missing"},
			{"cut off", signedCAR(t, h, did, good, leaf)[:200], "ends inside"},
			{"a huge block is announced", append(signedCAR(t, h, did, good, leaf), 0xff, 0xff, 0xff, 0xff, 0x0f), "section of 4294967295 bytes"},
			{"a length without an end", append(signedCAR(t, h, did, good, leaf), bytes.Repeat([]byte{0xff}, 20)...), "a section of more than"},
			{"other bytes than the CID says", carOf(t, signedCommit(t, h, did, good.cid), good, carBlock{leaf.cid, []byte{0xa0}}), "other bytes"},
			{"raw block", carOf(t, signedCommit(t, h, did, good.cid), carBlock{rawCID(t, "x"), []byte("x")}), "not SHA-256 over DAG-CBOR"},
			{"root is no commit", carOf(t, good, leaf), "its commit"},
			{"commit of another DID", carOf(t, commitBlock(t, "did:web:other.test", good.cid, syntax.NewTIDNow(0), own), good, leaf), "repo of did:web:other.test"},
			{"signed by a stranger", carOf(t, commitBlock(t, did, good.cid, syntax.NewTIDNow(0), stranger), good, leaf), "not signed"},
			{"rev of the far future", carOf(t, commitBlock(t, did, good.cid, syntax.NewTIDFromTime(time.Now().Add(48*time.Hour), 0), own), good, leaf), "set the clock"},
			{"tree missing", carOf(t, signedCommit(t, h, did, good.cid), leaf), "MST node " + good.cid.String() + " is missing"},
			{"record missing", signedCAR(t, h, did, good), "record " + leaf.cid.String()},
			{"subtree missing", signedCAR(t, h, did, node(&lowest.cid, entry(keys[1][0])), leaf), "is missing"},
			{"root without a key", signedCAR(t, h, did, node(&lowest.cid), lowest, leaf), "no key"},
			{"empty node below", signedCAR(t, h, did, node(ptr(emptyNode(t).cid), entry(keys[1][0])), emptyNode(t), leaf), "is empty"},
			{"key at the wrong height", signedCAR(t, h, did, node(nil, entry(keys[0][0]), shared(entry(keys[1][0]), keys[0][0])), leaf), "of height"},
			{"keys out of order", signedCAR(t, h, did, node(nil, shared(entry(keys[0][1]), ""), shared(entry(keys[0][0]), keys[0][1])), leaf), "out of order"},
			{"one key twice", signedCAR(t, h, did, node(nil, entry(keys[0][0]), shared(entry(keys[0][0]), keys[0][0])), leaf), ""},
			{"subtree out of range", signedCAR(t, h, did, node(nil, under(entry(keys[1][0]), lowest)), lowest, leaf), "out of order"},
			{"one node twice", signedCAR(t, h, did, node(&second.cid, under(entry(keys[1][0]), second)), second, leaf), "out of order"},
			{"node names itself's level", signedCAR(t, h, did, node(&good.cid, entry(keys[0][1])), good, leaf), "below the ground"},
			{"prefix longer than the key before", signedCAR(t, h, did, node(nil, mst.EntryData{PrefixLen: 40, KeySuffix: []byte("x"), Value: leaf.cid}), leaf), "shares 40 bytes"},
			{"prefix not used", signedCAR(t, h, did, node(nil, entry(keys[0][0]), entry(keys[0][1])), leaf), "in common"},
			{"node with a field more", signedCAR(t, h, did, loose, leaf), "MST node"},
			{"no path", signedCAR(t, h, did, node(nil, entry(pathless(t))), leaf), "no record path"},
			{"$type of another collection", signedCAR(t, h, did, node(nil, mst.EntryData{KeySuffix: []byte(keys[0][0]), Value: wrongType.CID}), carBlock{wrongType.CID, wrongType.CBOR}), "type-mismatch"},
			{"a float", signedCAR(t, h, did, node(nil, mst.EntryData{KeySuffix: []byte(keys[0][0]), Value: float.cid}), float), "float"},
		} {
			t.Run(c.name, func(t *testing.T) {
				before, err := h.Head(t.Context(), did)
				require.NoError(t, err)
				_, err = h.importing(did, c.car, h.publicKey(did))
				require.ErrorIs(t, err, repostore.ErrBadCAR)
				require.Contains(t, err.Error(), c.says)
				after, err := h.Head(t.Context(), did)
				require.NoError(t, err)
				require.Equal(t, before, after)
			})
		}
		t.Run("a reader that fails is no fault of the CAR", func(t *testing.T) {
			broken := errors.New("connection lost")
			_, err := h.Import(t.Context(), did, io.MultiReader(bytes.NewReader(signedCAR(t, h, did, good)), iotest.ErrReader(broken)),
				repostore.ImportOptions{Keys: []atcrypto.PublicKey{h.publicKey(did)}})
			require.ErrorIs(t, err, broken)
			require.NotErrorIs(t, err, repostore.ErrBadCAR)
		})
		t.Run("no repo", func(t *testing.T) {
			h.keys["did:web:nobody.test"] = own
			_, err := h.importing("did:web:nobody.test", carOf(t, commitBlock(t, "did:web:nobody.test", good.cid, syntax.NewTIDNow(0), own), good, leaf), h.publicKey(did))
			require.ErrorIs(t, err, repostore.ErrRepoNotFound)
		})
		t.Run("a sound one comes in", func(t *testing.T) {
			_, err := h.importing(did, signedCAR(t, h, did, node(&lowest.cid, entry(keys[1][0])), lowest, leaf), h.publicKey(did))
			require.NoError(t, err)
			h.export(did)
		})
	})
}

func ptr[T any](v T) *T { return &v }

// shared writes an entry's key as it stands after another one.
func shared(e mst.EntryData, before string) mst.EntryData {
	n := mst.CountPrefixLen([]byte(before), e.KeySuffix)
	e.PrefixLen, e.KeySuffix = int64(n), e.KeySuffix[n:]
	return e
}

// keysByHeight finds two paths for the heights 0 and 1: both of height 0 come
// before the first of height 1.
func keysByHeight(t testing.TB) [2][]string {
	t.Helper()
	var keys [2][]string
	for n := 0; len(keys[1]) < 2; n++ {
		key := "com.example.note/" + tid(n)
		if height := mst.HeightForKey([]byte(key)); height < 2 && (height == 0 || len(keys[0]) >= 2) {
			keys[height] = append(keys[height], key)
		}
	}
	return keys
}

// pathless is a key of height 0 that is no path of a record.
func pathless(t testing.TB) string {
	t.Helper()
	for n := 0; ; n++ {
		if key := fmt.Sprint("no path ", n); mst.HeightForKey([]byte(key)) == 0 {
			return key
		}
	}
}

func TestExportBlocks(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did, other := h.account("scout"), h.account("other")
		foreign := h.apply(other, create(tid(1), note(t, "of another repo")))
		for n := range 40 {
			h.apply(did, create(tid(n), note(t, fmt.Sprint("note ", n))))
		}
		h.apply(did, create("twin", note(t, "note 1")))
		gone := h.apply(did, create("gone", note(t, "gone"))).Writes[0]
		h.apply(did, remove(noteNSID, "gone"))

		var asked []cid.Cid
		want := map[cid.Cid][]byte{}
		for _, b := range carBlocks(t, h.carOf(did)) {
			if _, twice := want[b.cid]; !twice {
				asked = append(asked, b.cid)
			}
			want[b.cid] = b.raw
		}
		require.Greater(t, len(asked), 42)
		var car bytes.Buffer
		require.NoError(t, h.ExportBlocks(t.Context(), did, append(asked, asked[0]), &car))
		got := carBlocks(t, car.Bytes())
		require.Len(t, got, len(asked))
		for i, b := range got {
			require.Equal(t, asked[i], b.cid, "in the order asked for")
			require.Equal(t, want[b.cid], b.raw)
		}
		for name, c := range map[string]cid.Cid{
			"of another repo": *foreign.Writes[0].CID, "another repo's commit": foreign.Commit.CID,
			"of a deleted record": *gone.CID, "of a blob": rawCID(t, "x"),
		} {
			t.Run(name, func(t *testing.T) {
				var car bytes.Buffer
				require.ErrorIs(t, h.ExportBlocks(t.Context(), did, []cid.Cid{asked[0], c}, &car), repostore.ErrBlockNotFound)
				require.Zero(t, car.Len())
			})
		}
		require.ErrorIs(t, h.ExportBlocks(t.Context(), "did:web:nobody.test", asked[:1], &car), repostore.ErrRepoNotFound)
	})
}

// carBlocks reads a CAR, with a root or without.
func carBlocks(t testing.TB, car []byte) []carBlock {
	t.Helper()
	in := bytes.NewReader(car)
	size, err := binary.ReadUvarint(in)
	require.NoError(t, err)
	header := make([]byte, size)
	_, err = io.ReadFull(in, header)
	require.NoError(t, err)
	require.True(t, strings.Contains(string(header), "roots"))
	var blocks []carBlock
	for in.Len() > 0 {
		size, err := binary.ReadUvarint(in)
		require.NoError(t, err)
		section := make([]byte, size)
		_, err = io.ReadFull(in, section)
		require.NoError(t, err)
		n, c, err := cid.CidFromBytes(section)
		require.NoError(t, err)
		require.Equal(t, c, sumOf(t, section[n:]))
		blocks = append(blocks, carBlock{c, section[n:]})
	}
	return blocks
}

// blockShelf is as much of a blockstore as WriteDiffBlocks calls.
type blockShelf struct {
	blockstore.Blockstore // nil: only Put is called
	blocks                []carBlock
}

func (s *blockShelf) Put(_ context.Context, b ipldblocks.Block) error {
	s.blocks = append(s.blocks, carBlock{b.Cid(), b.RawData()})
	return nil
}
