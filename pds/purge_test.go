package pds_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	indigorepo "github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/buckettest"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/pds"
	"herbarium.garden/pds/repostore"
)

const (
	previewPurge = "garden.herbarium.admin.previewPurge"
	purgeRecord  = "garden.herbarium.admin.purgeRecord"
	listPurges   = "garden.herbarium.admin.listPurges"
	getPurge     = "garden.herbarium.admin.getPurge"
	applyPurges  = "garden.herbarium.admin.applyPurges"
)

// memory is an index that knows what it was told to forget, and fails as often as
// it is told.
type memory struct {
	*listener

	mu       sync.Mutex
	versions map[syntax.ATURI][]cid.Cid
	citing   map[syntax.ATURI]syntax.ATURI
	purged   map[syntax.ATURI][]cid.Cid
	blobs    []cid.Cid
	scrubbed int
	failing  int
}

func (m *memory) PurgeImpact(_ context.Context, uri syntax.ATURI, _ int) (impact pds.IndexImpact, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	impact.Versions = m.versions[uri]
	if from, cited := m.citing[uri]; cited {
		impact.Citing = []pds.Citing{{URI: from, Kind: "citation"}}
	}
	return impact, nil
}

func (m *memory) Purge(_ context.Context, records map[syntax.ATURI][]cid.Cid, blobs []cid.Cid) (map[string]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failing > 0 {
		m.failing--
		return nil, errDeaf
	}
	for uri, cids := range records {
		m.purged[uri] = cids
	}
	m.blobs = append(m.blobs, blobs...)
	return map[string]int64{"contents": int64(len(records))}, nil
}

func (m *memory) PurgeRemains(_ context.Context, records map[syntax.ATURI][]cid.Cid) (n int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uri := range records {
		if m.purged[uri] == nil {
			n++
		}
	}
	return n, nil
}

func (m *memory) Scrub(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scrubbed++
	return nil
}

func newMemory() *memory {
	return &memory{listener: &listener{}, versions: map[syntax.ATURI][]cid.Cid{}, citing: map[syntax.ATURI]syntax.ATURI{}, purged: map[syntax.ATURI][]cid.Cid{}}
}

// leak is a record with a blob, both of which hold what should never have been
// written.
type leak struct {
	specimen
	cid string // of the record
}

func (l leak) record() object { return object{"uri": l.uri, "cid": l.cid} }

func (l leak) did() string { return strings.Split(l.uri, "/")[2] }

func (h *host) leaks(t *testing.T, a agent, rkey, secret string) leak {
	t.Helper()
	l := leak{specimen: specimen{content: bytes.Repeat([]byte(secret), 20)}}
	l.name = rawCID(t, l.content)
	made := h.put(t, a, note, rkey, l.value(t, h, a)).ok(t)
	l.uri, l.cid = made.str("uri"), made.str("cid")
	return l
}

// value uploads the blob, and is the record.
func (l leak) value(t *testing.T, h *host, a agent) object {
	t.Helper()
	return object{"text": string(l.content), "blob": blobOf(h.upload(t, a, l.content, "application/x-own").ok(t))}
}

// isGone looks at everything that showed it.
func (h *host) isGone(t *testing.T, a agent, l leak) {
	t.Helper()
	h.query(t, admin(), "com.atproto.repo.getRecord", "repo", l.did(), "collection", note, "rkey", l.uri[strings.LastIndexByte(l.uri, '/')+1:]).refused(t, 400, "RecordNotFound")
	h.getBlob(t, a.access, l.did(), l.name).refused(t, 400, "BlobNotFound")
	require.NotContains(t, string(h.repoCAR(t, l.did())), string(l.content))
	require.False(t, anyRowHas(t, h.db, l.content))
}

// anyRowHas looks through every table for bytes, in any column.
func anyRowHas(t *testing.T, db *migrations.DB, want []byte) bool {
	t.Helper()
	query := "SELECT name FROM sqlite_schema WHERE type = 'table'"
	if db.Dialect == migrations.Postgres {
		query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
	}
	var tables []string
	require.NoError(t, db.Read.Raw(query).Scan(&tables).Error)
	require.NotEmpty(t, tables)
	for _, table := range tables {
		var rows []map[string]any
		require.NoError(t, db.Read.Raw("SELECT * FROM "+table).Scan(&rows).Error)
		for _, row := range rows {
			for _, value := range row {
				raw, ok := value.([]byte)
				if !ok {
					raw = fmt.Append(nil, value)
				}
				if bytes.Contains(raw, want) {
					return true
				}
			}
		}
	}
	return false
}

// hostKey is the key that receipts are signed with, as the service's document
// shows it.
func (h *host) hostKey(t *testing.T) atcrypto.PublicKey {
	t.Helper()
	for _, m := range h.do(t, "GET", "/.well-known/did.json", "", nil, "Host", strings.TrimPrefix(h.publicURL(), "http://")).ok(t).list("verificationMethod") {
		if method := object(m.(map[string]any)); strings.HasSuffix(method.str("id"), "#herbarium_host") {
			key, err := atcrypto.ParsePublicMultibase(method.str("publicKeyMultibase"))
			require.NoError(t, err)
			return key
		}
	}
	t.Fatal("the document has no #herbarium_host key")
	return nil
}

func TestPurge(t *testing.T) {
	index := newMemory()
	eachVault(t, setting{index: index}, func(t *testing.T, v *vault) {
		a, b := v.agent(t, "scout"), v.agent(t, "other")
		l := v.leaks(t, a, "leaked", "marker-55c2a1 that must not be found ")
		kept := v.leaks(t, a, "kept", "something else that stays ")
		copied := v.put(t, b, note, "copied", l.value(t, v.host, b)).ok(t)
		borrowed := v.put(t, b, note, "borrowed", object{"blob": blobOf(v.upload(t, b, l.content, "application/x-own").ok(t))}).ok(t)
		index.citing[syntax.ATURI(l.uri)] = syntax.ATURI(kept.uri)

		// What it would touch, and what keeps it from being complete.
		preview := v.query(t, admin(), previewPurge, "records", l.uri, "withBlobs", "true").ok(t)
		rec := object(preview.list("records")[0].(map[string]any))
		require.Equal(t, l.cid, rec.str("cid"))
		require.Equal(t, true, rec.at("stands"))
		require.Equal(t, "1", str(rec.at("events")))
		require.Equal(t, []any{copied.str("uri")}, rec.list("copies"))
		blob := object(preview.list("blobs")[0].(map[string]any))
		require.Equal(t, l.name, blob.str("cid"))
		require.Equal(t, "2", str(blob.at("accounts")))
		require.ElementsMatch(t, []any{copied.str("uri"), borrowed.str("uri")}, blob.list("others"))
		require.Equal(t, []any{map[string]any{"uri": kept.uri, "cites": l.uri, "kind": "citation"}}, preview.list("citing"))
		require.Contains(t, preview.str("blocked"), borrowed.str("uri"))
		require.Len(t, preview.list("steps"), 6)

		for name, tc := range map[string]struct {
			body object
			want string
			says string
		}{
			"nothing":               {object{}, "InvalidRequest", "nothing is named"},
			"another version":       {object{"records": []object{{"uri": l.uri, "cid": kept.cid}}}, "InvalidSwap", l.cid},
			"a copy stays":          {object{"records": []object{l.record()}}, "InvalidRequest", copied.str("uri")},
			"the blob stays":        {object{"records": []object{l.record(), {"uri": copied.str("uri"), "cid": copied.str("cid")}}, "blobs": []string{l.name}}, "InvalidRequest", borrowed.str("uri")},
			"no record":             {object{"records": []object{{"uri": "at://" + a.did, "cid": l.cid}}}, "InvalidRequest", "record"},
			"a field that is wrong": {object{"record": l.record()}, "InvalidRequest", "record"},
		} {
			t.Run(name, func(t *testing.T) {
				require.Contains(t, v.procedure(t, admin(), purgeRecord, tc.body).refused(t, 400, tc.want), tc.says)
				require.Empty(t, v.query(t, admin(), listPurges).ok(t).list("purges"))
			})
		}

		done := v.procedure(t, admin(), purgeRecord, object{
			"records": []object{l.record(), {"uri": copied.str("uri"), "cid": copied.str("cid")}, {"uri": borrowed.str("uri"), "cid": borrowed.str("cid")}},
			"blobs":   []string{l.name}, "reason": "a key was in it",
		}).ok(t)
		require.Equal(t, true, done.at("complete"))
		v.isGone(t, a, l)
		v.serves(t, a, kept.specimen)
		require.NotContains(t, v.log.String(), "marker-55c2a1")
		require.Equal(t, str(int64(len(kept.content))), str(v.usage(t, a).BlobBytes))
		require.Zero(t, v.usage(t, b).BlobBytes)
		require.NotEmpty(t, index.purged[syntax.ATURI(l.uri)])

		// The receipt.
		receipt, err := pds.VerifyReceipt(done.str("receipt"), v.hostKey(t))
		require.NoError(t, err)
		require.Equal(t, v.did, receipt.Host)
		require.Equal(t, "a key was in it", receipt.Reason)
		require.Len(t, receipt.Records, 3)
		require.Equal(t, l.name, receipt.Blobs[0].CID)
		require.Equal(t, int64(len(l.content)), receipt.Blobs[0].Size)
		removed := map[string]map[string]int64{}
		for _, step := range receipt.Steps {
			removed[step.Step] = step.Removed
		}
		require.Equal(t, int64(3), removed["repo"]["records"])
		require.Equal(t, int64(3), removed["events"]["events"])
		require.Equal(t, map[string]int64{"accounts": 2, "references": 0}, removed["blobs"])
		require.Equal(t, int64(1), removed["bytes"]["objects"])
		require.Empty(t, receipt.Absence.Bucket)
		require.NotEmpty(t, receipt.MayRemain)
		require.Equal(t, done, v.query(t, admin(), getPurge, "id", done.str("id")).ok(t))
		v.query(t, admin(), getPurge, "id", anyTID).refused(t, 400, "NotFound")

		v.takesNothingBack(t, a, l)

		// A blob alone, and pages of the log.
		alone := []byte("a blob that no record refers to")
		v.upload(t, a, alone, "text/plain").ok(t)
		v.procedure(t, admin(), purgeRecord, object{"blobs": []string{rawCID(t, alone)}}).ok(t)
		page := v.query(t, admin(), listPurges, "limit", "1").ok(t)
		require.Equal(t, rawCID(t, alone), object(page.list("purges")[0].(map[string]any)).list("blobs")[0].(map[string]any)["cid"])
		rest := v.query(t, admin(), listPurges, "limit", "1", "cursor", page.str("cursor")).ok(t)
		require.Equal(t, done.str("id"), object(rest.list("purges")[0].(map[string]any)).str("id"))

		entry := v.audited(t, "method", purgeRecord)
		require.Equal(t, "done", entry[1].str("outcome"))
		require.Equal(t, l.uri, entry[1].str("subject"))
		require.Equal(t, "(hidden)", entry[1].str("input", "reason"))
		require.Len(t, v.audited(t, "method", previewPurge), 1)
		v.procedure(t, a.access, purgeRecord, object{"blobs": []string{kept.name}}).refused(t, 403, "Forbidden")
		require.NoError(t, v.pds.RecheckPurges(t.Context()))
	})
}

func (h *host) usage(t *testing.T, a agent) repostore.Usage {
	t.Helper()
	usage, err := h.repos.Usage(t.Context(), syntax.DID(a.did))
	require.NoError(t, err)
	return usage
}

// takesNothingBack tries every way back.
func (h *host) takesNothingBack(t *testing.T, a agent, l leak) {
	t.Helper()
	ref := object{"$type": "blob", "ref": object{"$link": l.name}, "mimeType": "application/x-own", "size": len(l.content)}
	record := object{"text": string(l.content), "blob": ref}
	for name, r := range map[string]reply{
		"upload":      h.upload(t, a, l.content, "application/x-own"),
		"create":      h.create(t, a, note, record),
		"put":         h.put(t, a, note, "again", record),
		"apply":       h.apply(t, a, []object{creating(note, "fine", object{"text": "fine"}), creating(note, "again", record)}),
		"a reference": h.create(t, a, note, object{"text": "another", "blob": ref}),
	} {
		message := r.refused(t, 400, "BlobPurged")
		require.Regexp(t, `^(/writes/1: )?this was purged by the operator of this host and is not taken in again; leave out baf\w+$`, message, name)
	}
	dry := h.procedure(t, a.access, "garden.herbarium.validateRecord", object{"repo": a.did, "collection": note, "record": record}).ok(t)
	require.Equal(t, "BlobPurged", dry.str("error"))
	require.False(t, anyRowHas(t, h.db, l.content))
}

// What was purged does not come back with a repo that was exported before.
func TestPurgeAndImport(t *testing.T) {
	eachHost(t, setting{index: newMemory()}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		l := h.leaks(t, a, "leaked", "marker-81b0de that must not be found ")
		old := h.repoCAR(t, a.did)
		h.procedure(t, admin(), purgeRecord, object{"records": []object{l.record()}}).ok(t)
		require.Contains(t, h.importRepo(t, a, old).refused(t, 400, "BlobPurged"), l.cid)
		h.isGoneButBlob(t, l)

		// Nor does one whose records are fine and that refers to a purged blob.
		h.procedure(t, admin(), purgeRecord, object{"blobs": []string{l.name}}).ok(t)
		require.Contains(t, h.importRepo(t, a, old).refused(t, 400, "BlobPurged"), "leave out")
	})
}

func (h *host) isGoneButBlob(t *testing.T, l leak) {
	t.Helper()
	require.NotContains(t, string(h.repoCAR(t, l.did())), string(l.content))
	require.False(t, anyRowHas(t, h.db, l.content))
}

// A consumer that starts after a purge sees gaps and a #sync, nothing of the
// content, and a repo that verifies.
func TestFirehoseAfterAPurge(t *testing.T) {
	eachHost(t, setting{index: newMemory()}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		secret := "marker-a9f313 that must not be found"
		created := h.create(t, a, note, object{"text": secret}).ok(t)
		updated := h.put(t, a, note, rkeyOf(created), object{"text": "it is out: " + secret}).ok(t)
		deleted := h.create(t, a, note, object{"text": "gone before, " + secret}).ok(t)
		h.delete(t, a, note, rkeyOf(deleted)).ok(t)
		live := h.subscribe(t, admin(), "") // was there all the time
		fine := h.create(t, a, note, object{"text": "fine"}).ok(t)
		require.NotNil(t, live().RepoCommit)
		before := h.lastSeq(t)

		// Of the first the version that stands must be named too; the last is
		// in events alone.
		versions := []object{{"uri": created.str("uri"), "cid": created.str("cid")}, {"uri": deleted.str("uri"), "cid": deleted.str("cid")}}
		h.procedure(t, admin(), purgeRecord, object{"records": versions}).refused(t, 400, "InvalidSwap")
		versions = append(versions, object{"uri": updated.str("uri"), "cid": updated.str("cid")})
		done := h.procedure(t, admin(), purgeRecord, object{"records": versions}).ok(t)
		require.Equal(t, true, done.at("complete"))

		next := h.subscribe(t, admin(), "?cursor=0")
		var seqs []int64
		var kinds []string
		for last := int64(0); last < h.lastSeq(t); {
			event := next()
			last = event.Sequence()
			seqs = append(seqs, last)
			switch {
			case event.RepoCommit != nil:
				kinds = append(kinds, "commit")
				_, err := indigorepo.VerifyCommitMessage(t.Context(), event.RepoCommit)
				require.NoError(t, err)
				require.NotContains(t, string(event.RepoCommit.Blocks), "marker-a9f313")
			case event.RepoSync != nil:
				kinds = append(kinds, "sync")
				if last > before {
					commit, _, err := indigorepo.LoadCommitFromCAR(t.Context(), bytes.NewReader(event.RepoSync.Blocks))
					require.NoError(t, err)
					require.Equal(t, h.rev(t, a.did), commit.Rev)
				}
			}
		}
		// Of the account's seven commits the three that carried it are missing: the
		// two of the deletions and the one that is fine are there, behind the first.
		require.Equal(t, []string{"commit", "sync", "commit", "commit", "commit", "sync"}, kinds)
		require.Less(t, int64(len(seqs)), seqs[len(seqs)-1], "there are gaps")
		require.NotNil(t, live().RepoCommit, "whoever was there gets the deletion")
		require.NotNil(t, live().RepoSync, "and where the repo stands")
		require.False(t, anyRowHas(t, h.db, []byte("marker-a9f313")))

		car := h.repoCAR(t, a.did)
		require.Equal(t, map[string]string{note + "/" + rkeyOf(fine): fine.str("cid")}, recordsOfCAR(t, car))
		commit, _, err := indigorepo.LoadCommitFromCAR(t.Context(), bytes.NewReader(car))
		require.NoError(t, err)
		require.NoError(t, commit.VerifySignature(h.keyOf(t, a)))
	})
}

// Wherever a purge is cut off, it is completed, and its receipt counts what all
// of it removed.
func TestPurgeThatIsCutOff(t *testing.T) {
	index := newMemory()
	eachVault(t, setting{index: index}, func(t *testing.T, v *vault) {
		a := v.agent(t, "scout")
		for steps, all := 0, 1; steps <= all; steps++ {
			secret := fmt.Sprintf("marker-%d-0c77 that must not be found ", steps)
			l := v.leaks(t, a, fmt.Sprintf("leaked-%d", steps), secret)
			record, blob := cid.MustParse(l.cid), cid.MustParse(l.name)
			purge := repostore.Purge{ID: syntax.NewTIDNow(uint(steps)), At: time.Now(), Actor: "admin",
				Records: []repostore.PurgedRecord{{StrongRef: lexicons.StrongRef{URI: syntax.ATURI(l.uri), CID: record}}},
				Blobs:   []repostore.PurgedBlob{{CID: blob}}}
			require.True(t, anyRowHas(t, v.db, l.content), "the search can find it")
			require.NoError(t, v.repos.BeginPurge(t.Context(), &purge))
			v.upload(t, a, l.content, "application/x-own").refused(t, 400, "BlobPurged")
			var err error
			all, err = v.pds.MakePurgeSteps(t.Context(), purge.ID, steps)
			require.NoError(t, err)
			unfinished := v.query(t, admin(), getPurge, "id", string(purge.ID)).ok(t)
			require.Equal(t, false, unfinished.at("complete"))
			require.Len(t, unfinished.list("steps"), steps)

			require.NoError(t, v.pds.ResumePurges(t.Context()))
			done := v.query(t, admin(), getPurge, "id", string(purge.ID)).ok(t)
			require.Equal(t, true, done.at("complete"), "after %d steps", steps)
			v.isGone(t, a, l)
			receipt, err := pds.VerifyReceipt(done.str("receipt"), v.hostKey(t))
			require.NoError(t, err)
			require.Equal(t, int64(1), receipt.Steps[0].Removed["records"])
			require.Equal(t, int64(1), receipt.Steps[1].Removed["events"])
			require.Equal(t, int64(1), receipt.Steps[3].Removed["objects"])
		}
	})
}

// A step that fails is made again by itself; what was begun is told meanwhile.
func TestPurgeWithAFailingStep(t *testing.T) {
	index := newMemory()
	bucket := buckettest.NewFaulty(blobstore.NewMemory())
	eachHost(t, setting{index: index, bucket: bucket}, func(t *testing.T, h *host) {
		bucket.Heal()
		index.failing = 1
		a := h.agent(t, "scout")
		l := h.leaks(t, a, "leaked", "marker-2ff1 that must not be found ")
		bucket.FailOn(buckettest.Delete, buckettest.Refused)
		begun := h.procedure(t, admin(), purgeRecord, object{"records": []object{l.record()}, "blobs": []string{l.name}}).ok(t)
		require.Equal(t, false, begun.at("complete"))
		require.Len(t, begun.list("steps"), 3)
		require.Error(t, h.pds.ResumePurges(t.Context()))
		bucket.FailOn(buckettest.Delete, buckettest.Persisted)
		require.Error(t, h.pds.ResumePurges(t.Context()), "it was deleted, but nobody knows")
		bucket.Heal()
		require.ErrorIs(t, h.pds.ResumePurges(t.Context()), errDeaf)
		require.NoError(t, h.pds.ResumePurges(t.Context()))
		require.Equal(t, true, h.query(t, admin(), getPurge, "id", begun.str("id")).ok(t).at("complete"))
		h.isGone(t, a, l)
	})
}

// A blob that is purged while it is being uploaded is not there afterwards.
func TestPurgeDuringAnUpload(t *testing.T) {
	bucket := buckettest.NewFaulty(blobstore.NewMemory())
	eachHost(t, setting{index: newMemory(), bucket: bucket}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		content := []byte("marker-6d2e that must not be found")
		begun := false
		bucket.Fail(func(op buckettest.Op, _ string) buckettest.Fault {
			if op == buckettest.Put && !begun {
				begun = true
				purge := repostore.Purge{ID: syntax.NewTIDNow(1), At: time.Now(), Actor: "admin", Blobs: []repostore.PurgedBlob{{CID: cid.MustParse(rawCID(t, content))}}}
				if err := h.repos.BeginPurge(context.Background(), &purge); err != nil {
					t.Error(err)
				}
			}
			return buckettest.None
		})
		h.upload(t, a, content, "text/plain").refused(t, 400, "BlobPurged")
		require.True(t, begun)
		require.NoError(t, bucket.List(t.Context(), "", "", func(o blobstore.Object) error { return errors.New(o.Key) }))
		require.NoError(t, h.pds.ResumePurges(t.Context()))
		require.Zero(t, h.usage(t, a))
	})
}

// The log of purges is applied again: to a database from before them, and to
// what only a part of the stores has brought back.
func TestApplyPurges(t *testing.T) {
	index := newMemory()
	eachHost(t, setting{index: index}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		l := h.leaks(t, a, "leaked", "marker-e0b4 that must not be found ")
		done := h.procedure(t, admin(), purgeRecord, object{"records": []object{l.record()}, "blobs": []string{l.name}}).ok(t)
		receipt := done.str("receipt")

		// As after a restore: the log is lost, and the content is back.
		for _, table := range []string{"purges", "purged", "purge_steps", "purge_receipts"} {
			require.NoError(t, h.db.Write.Exec("DELETE FROM "+table).Error)
		}
		back := h.leaks(t, a, "leaked", "marker-e0b4 that must not be found ")
		require.Equal(t, l.cid, back.cid)
		out := h.procedure(t, admin(), applyPurges, object{"receipts": []string{receipt}}).ok(t)
		require.Equal(t, []any{map[string]any{"id": done.str("id"), "fresh": true}}, out.list("purges"))
		h.isGone(t, a, l)
		h.takesNothingBack(t, a, l)
		again := h.query(t, admin(), getPurge, "id", done.str("id")).ok(t)
		require.Equal(t, true, again.at("complete"))
		require.Equal(t, done.str("at"), again.str("at"))

		// The bucket alone was restored. The log is known, and looked at all the same.
		blobs, err := blobstore.New(blobstore.Config{Bucket: h.bucket, SpoolDir: t.TempDir()})
		require.NoError(t, err)
		put := func() {
			_, err = blobs.Receive(t.Context(), bytes.NewReader(l.content), "text/plain")
			require.NoError(t, err)
		}
		put()
		out = h.procedure(t, admin(), applyPurges, object{"receipts": []string{receipt}}).ok(t)
		require.Equal(t, []any{map[string]any{"id": done.str("id"), "fresh": false}}, out.list("purges"))
		require.NoError(t, h.bucket.List(t.Context(), "", "", func(o blobstore.Object) error { return errors.New(o.Key) }))
		put()
		require.NoError(t, h.pds.RecheckPurges(t.Context()))
		require.NoError(t, h.bucket.List(t.Context(), "", "", func(o blobstore.Object) error { return errors.New(o.Key) }))

		// All or nothing, and by this host's key alone.
		key, err := atcrypto.GeneratePrivateKeyP256()
		require.NoError(t, err)
		public, err := key.PublicKey()
		require.NoError(t, err)
		r, err := pds.VerifyReceipt(receipt, nil)
		require.NoError(t, err)
		r.HostKey = public.DIDKey()
		forged, err := pds.SignReceipt(r, key)
		require.NoError(t, err)
		_, err = pds.VerifyReceipt(forged, nil)
		require.NoError(t, err, "it is whole")
		for _, bad := range []string{forged, receipt[:len(receipt)-2], receipt + ".", "no receipt", strings.Replace(receipt, ".", ".A", 1)} {
			message := h.procedure(t, admin(), applyPurges, object{"receipts": []string{receipt, bad}}).refused(t, 400, "InvalidRequest")
			require.Contains(t, message, "receipts[1]")
		}
	})
}

func FuzzVerifyReceipt(f *testing.F) {
	key, err := atcrypto.GeneratePrivateKeyK256()
	require.NoError(f, err)
	public, err := key.PublicKey()
	require.NoError(f, err)
	receipt, err := pds.SignReceipt(&pds.Receipt{Type: pds.ReceiptType, ID: anyTID, Host: "did:web:x.test", HostKey: public.DIDKey()}, key)
	require.NoError(f, err)
	f.Add(receipt)
	f.Add("e30.e30.")
	f.Fuzz(func(t *testing.T, jws string) {
		r, err := pds.VerifyReceipt(jws, public)
		if err != nil {
			require.ErrorIs(t, err, pds.ErrReceipt)
			return
		}
		_, err = json.Marshal(r)
		require.NoError(t, err)
	})
}
