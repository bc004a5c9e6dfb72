package repostore_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"pgregory.net/rapid"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/repostore"
)

const logNSID syntax.NSID = "com.example.log"

func number(n int64) *int64 { return &n }

// logged is a record of another collection than note's.
func logged(t testing.TB, text string) *lexicons.Record {
	t.Helper()
	return record(t, logNSID, map[string]any{"text": text})
}

// A repo that holds a note and a log, written under a policy: what is refused,
// by which name and code, and how the message ends.
func TestPolicyOfWrites(t *testing.T) {
	uri := func(collection syntax.NSID, n int) string {
		return "at://did:web:scout.test/" + string(collection) + "/" + tid(n)
	}
	onlyNotes := repostore.Policy{Collections: []syntax.NSID{noteNSID}}
	frozen := repostore.Policy{CreateOnly: []syntax.NSID{noteNSID}}
	two := repostore.Policy{MaxRecords: number(2)}
	three := repostore.Policy{MaxRecords: number(3)}
	none := repostore.Policy{MaxRecords: number(0)}
	for _, c := range []struct {
		name    string
		policy  repostore.Policy
		writes  []repostore.Write
		refusal string // "" when it is allowed
		code    string
		says    []string
	}{
		{name: "allowed collection", policy: onlyNotes, writes: []repostore.Write{create(tid(5), note(t, "x"))}},
		{name: "create elsewhere", policy: onlyNotes, writes: []repostore.Write{create(tid(5), logged(t, "x"))}, refusal: "PolicyDenied", code: "collection-denied", says: []string{"com.example.log", "; allowed com.example.note"}},
		{name: "update elsewhere", policy: onlyNotes, writes: []repostore.Write{put(tid(2), logged(t, "x"))}, refusal: "PolicyDenied", code: "collection-denied"},
		{name: "delete elsewhere", policy: onlyNotes, writes: []repostore.Write{remove(logNSID, tid(2))}, refusal: "PolicyDenied", code: "collection-denied"},
		{name: "second of a batch", policy: onlyNotes, writes: []repostore.Write{create(tid(5), note(t, "x")), create(tid(5), logged(t, "x"))}, refusal: "PolicyDenied", code: "collection-denied"},
		{name: "no collection is allowed", policy: repostore.Policy{Collections: []syntax.NSID{}}, writes: []repostore.Write{create(tid(5), note(t, "x"))}, refusal: "PolicyDenied", code: "collection-denied", says: []string{"; allowed none"}},

		{name: "create where that is all", policy: frozen, writes: []repostore.Write{create(tid(5), note(t, "x"))}},
		{name: "put of a new record there", policy: frozen, writes: []repostore.Write{put(tid(5), note(t, "x"))}},
		{name: "put of what stands there", policy: frozen, writes: []repostore.Write{put(tid(1), note(t, "a note"))}},
		{name: "delete of nothing there", policy: frozen, writes: []repostore.Write{remove(noteNSID, tid(9))}},
		{name: "put over a record there", policy: frozen, writes: []repostore.Write{put(tid(1), note(t, "x"))}, refusal: "PolicyDenied", code: "create-only", says: []string{uri(noteNSID, 1) + " would be updated", "; leave it as it is"}},
		{name: "update there", policy: frozen, writes: []repostore.Write{update(tid(1), note(t, "x"))}, refusal: "PolicyDenied", code: "create-only"},
		{name: "deleteRecord there", policy: frozen, writes: []repostore.Write{remove(noteNSID, tid(1))}, refusal: "PolicyDenied", code: "create-only", says: []string{"would be deleted"}},
		{name: "delete in a batch there", policy: frozen, writes: []repostore.Write{create(tid(5), note(t, "x")), deletion(noteNSID, tid(1))}, refusal: "PolicyDenied", code: "create-only"},
		{name: "delete elsewhere than there", policy: frozen, writes: []repostore.Write{remove(logNSID, tid(2))}},

		{name: "one that fits", policy: three, writes: []repostore.Write{create(tid(5), note(t, "x"))}},
		{name: "one too many", policy: two, writes: []repostore.Write{create(tid(5), note(t, "x"))}, refusal: "QuotaExceeded", code: "record-quota", says: []string{"adds 1 records, and the account has 2 of at most 2", "; left 0"}},
		{name: "batch too large", policy: three, writes: []repostore.Write{create(tid(5), note(t, "x")), put(tid(6), note(t, "y")), put(tid(1), note(t, "z"))}, refusal: "QuotaExceeded", code: "record-quota", says: []string{"adds 2 records, and the account has 2 of at most 3", "; left 1"}},
		{name: "batch that makes its room", policy: two, writes: []repostore.Write{create(tid(5), note(t, "x")), deletion(noteNSID, tid(1))}},
		{name: "update at the quota", policy: two, writes: []repostore.Write{update(tid(1), note(t, "x"))}},
		{name: "update over the quota", policy: none, writes: []repostore.Write{update(tid(1), note(t, "x"))}},
		{name: "delete over the quota", policy: none, writes: []repostore.Write{remove(noteNSID, tid(1))}},
		{name: "exchange over the quota", policy: none, writes: []repostore.Write{remove(noteNSID, tid(1)), create(tid(5), logged(t, "x"))}},
		{name: "create over the quota", policy: none, writes: []repostore.Write{create(tid(5), note(t, "x"))}, refusal: "QuotaExceeded", code: "record-quota", says: []string{"; left 0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
				h := newHost(t, db)
				did := h.account("scout")
				h.apply(did, create(tid(1), note(t, "a note")), create(tid(2), logged(t, "a log")))
				before, err := h.Head(t.Context(), did)
				require.NoError(t, err)
				_, dry := h.DryRun(t.Context(), did, c.writes, repostore.Options{Policy: c.policy})
				_, err = h.Apply(t.Context(), did, c.writes, repostore.Options{Policy: c.policy})
				require.Equal(t, fmt.Sprint(err), fmt.Sprint(dry), "a dry run says the same")
				h.exact(did)
				if c.refusal == "" {
					require.NoError(t, err)
					return
				}
				refused := requireRefusal(t, c.refusal, err)
				require.Equal(t, c.code, refused.Findings[0].Code)
				for _, words := range c.says {
					require.Contains(t, refused.Error(), words)
				}
				after, err := h.Head(t.Context(), did)
				require.NoError(t, err)
				require.Equal(t, before, after, "nothing of it was written")
			})
		})
	}
}

// What the rules have to say of an observation is said rather than the policy,
// which knows no way to mend it.
func TestRulesSpeakBeforeCreateOnly(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		policy := repostore.Options{Policy: repostore.Policy{CreateOnly: []syntax.NSID{lexicons.ObservationNSID}}}
		h.apply(did, create(tid(1), observation(t, "seen", nil)))
		_, err := h.Apply(t.Context(), did, []repostore.Write{put(tid(1), observation(t, "edited", nil))}, policy)
		requireRefusal(t, "ImmutableRecord", err)
		_, err = h.Apply(t.Context(), did, []repostore.Write{remove(lexicons.ObservationNSID, tid(1))}, policy)
		requireRefusal(t, "PolicyDenied", err)
	})
}

// usage answers what the counters say.
func (h *host) usage(did syntax.DID) repostore.Usage {
	h.t.Helper()
	u, err := h.Usage(h.t.Context(), did)
	require.NoError(h.t, err)
	return u
}

// exact counts the tables of a DID and compares the counters with that.
func (h *host) exact(did syntax.DID) repostore.Usage {
	h.t.Helper()
	var counted struct{ Records, Blobs, BlobBytes int64 }
	require.NoError(h.t, h.db.Read.WithContext(h.t.Context()).Raw(`SELECT (SELECT count(*) FROM records WHERE repo_id = repos.id) AS records,
		(SELECT count(*) FROM blobs WHERE repo_id = repos.id) AS blobs,
		(SELECT COALESCE(sum(size), 0) FROM blobs WHERE repo_id = repos.id) AS blob_bytes FROM repos WHERE did = ?`, string(did)).Scan(&counted).Error)
	got := h.usage(did)
	require.Equal(h.t, repostore.Usage(counted), got, "the counters are what the tables hold")
	return got
}

// Many writers at once, of two processes on one database, come exactly up to
// the quota; each that is refused was told that nothing was left.
func TestRecordQuotaHoldsUnderConcurrency(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		one := newHost(t, db)
		two := newHost(t, db, func(c *repostore.Config) { c.Keys = one.keyring })
		did := one.account("scout")
		options := repostore.Options{Policy: repostore.Policy{MaxRecords: number(10)}}
		var landed, refused atomic.Int64
		together(32, func(w int) {
			h := []*host{one, two}[w%2]
			for {
				_, err := h.Apply(t.Context(), did, []repostore.Write{create(tid(w), note(t, fmt.Sprint(w)))}, options)
				if errors.Is(err, repostore.ErrContended) {
					continue
				}
				if err == nil {
					landed.Add(1)
					return
				}
				refused.Add(1)
				if got := requireRefusal(t, "QuotaExceeded", err); got.Findings[0].Repair != "left 0" {
					t.Errorf("refused with %s", got)
				}
				return
			}
		})
		require.Equal(t, []int64{10, 22}, []int64{landed.Load(), refused.Load()})
		_, held := one.export(did)
		require.Len(t, held, 10)
		require.EqualValues(t, 10, one.exact(did).Records)
	})
}

func TestBlobQuota(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did, other := h.account("scout"), h.account("keeper")
		policy := repostore.Policy{MaxBlobBytes: number(100)}
		blob := func(name string, size int64) repostore.Blob {
			return repostore.Blob{CID: rawCID(t, name), MimeType: "text/plain", Size: size}
		}
		add := func(b repostore.Blob) error {
			early := h.CheckBlob(t.Context(), did, b.CID, b.Size, policy)
			_, err := h.AddBlob(t.Context(), did, b, policy)
			require.Equal(t, early == nil, err == nil, "what is told early holds: %v, %v", early, err)
			return err
		}
		require.NoError(t, add(blob("a", 60)))
		refused := requireRefusal(t, "QuotaExceeded", add(blob("b", 41)))
		require.Equal(t, "blob-quota", refused.Findings[0].Code)
		require.Contains(t, refused.Error(), "adds 41 bytes of blobs, and the account has 60 of at most 100")
		require.Equal(t, "left 40", refused.Findings[0].Repair)
		_, _, err := h.GetBlob(t.Context(), did, rawCID(t, "b"))
		require.ErrorIs(t, err, repostore.ErrBlobNotFound, "a refused upload leaves no row")
		require.NoError(t, add(blob("c", 40)), "up to the last byte")
		require.NoError(t, add(blob("a", 60)), "what is there costs nothing")
		requireRefusal(t, "QuotaExceeded", add(blob("d", 1)))
		h.addBlob(other, blob("d", 1))
		require.Equal(t, repostore.Usage{Blobs: 2, BlobBytes: 100}, h.exact(did))

		// A record's end leaves its blob where it is, temporary and counted.
		h.apply(did, create(tid(1), withBlobs(t, "x", blob("a", 60))))
		h.apply(did, remove(noteNSID, tid(1)))
		require.Equal(t, repostore.Usage{Blobs: 2, BlobBytes: 100}, h.exact(did))
		_, err = h.AddBlob(t.Context(), "did:web:nobody.test", blob("a", 1), policy)
		require.ErrorIs(t, err, repostore.ErrRepoNotFound)
		require.ErrorIs(t, h.CheckBlob(t.Context(), "did:web:nobody.test", rawCID(t, "a"), 1, policy), repostore.ErrRepoNotFound)
	})
}

func TestBlobQuotaHoldsUnderConcurrency(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		policy := repostore.Policy{MaxBlobBytes: number(40)}
		var kept atomic.Int64
		together(32, func(w int) {
			b := repostore.Blob{CID: rawCID(t, fmt.Sprint(w/2)), MimeType: "text/plain", Size: 4} // each of them twice
			if _, err := h.AddBlob(t.Context(), did, b, policy); err == nil {
				kept.Add(1)
			} else {
				requireRefusal(t, "QuotaExceeded", err)
			}
		})
		require.Equal(t, repostore.Usage{Blobs: 10, BlobBytes: 40}, h.exact(did))
		require.LessOrEqual(t, kept.Load(), int64(20))
		require.GreaterOrEqual(t, kept.Load(), int64(10))
	})
}

// An import is judged by what it changes and by what is there in the end.
func TestPolicyOfImports(t *testing.T) {
	noted := "com.example.note/"
	for _, c := range []struct {
		name    string
		policy  repostore.Policy
		records map[string]*lexicons.Record // of the CAR; notes 1 and 2 and log 1 stand
		refusal string
		names   []string // record URIs that the message names
		says    string
	}{
		{name: "what stands already", policy: repostore.Policy{Collections: []syntax.NSID{}, CreateOnly: []syntax.NSID{noteNSID, logNSID}, MaxRecords: number(0)}, records: map[string]*lexicons.Record{
			noted + tid(1): note(t, "1"), noted + tid(2): note(t, "2"), "com.example.log/" + tid(1): logged(t, "1")}},
		{name: "another collection", policy: repostore.Policy{Collections: []syntax.NSID{noteNSID}}, refusal: "PolicyDenied", names: []string{"com.example.log/" + tid(2)}, records: map[string]*lexicons.Record{
			noted + tid(1): note(t, "1"), noted + tid(2): note(t, "2"), "com.example.log/" + tid(1): logged(t, "1"), "com.example.log/" + tid(2): logged(t, "2")}},
		{name: "a collection that may not be written is left out", policy: repostore.Policy{Collections: []syntax.NSID{noteNSID}}, refusal: "PolicyDenied", names: []string{"com.example.log/" + tid(1)}, records: map[string]*lexicons.Record{
			noted + tid(1): note(t, "1")}},
		{name: "create-only: altered and left out", policy: repostore.Policy{CreateOnly: []syntax.NSID{noteNSID}}, refusal: "PolicyDenied", names: []string{noted + tid(1), noted + tid(2)}, records: map[string]*lexicons.Record{
			noted + tid(1): note(t, "altered"), noted + tid(3): note(t, "new")}},
		{name: "create-only: new ones", policy: repostore.Policy{CreateOnly: []syntax.NSID{noteNSID}}, records: map[string]*lexicons.Record{
			noted + tid(1): note(t, "1"), noted + tid(2): note(t, "2"), noted + tid(3): note(t, "3")}},
		{name: "up to the quota", policy: repostore.Policy{MaxRecords: number(4)}, records: map[string]*lexicons.Record{
			noted + tid(3): note(t, "3"), noted + tid(4): note(t, "4"), noted + tid(5): note(t, "5"), noted + tid(6): note(t, "6")}},
		{name: "over the quota", policy: repostore.Policy{MaxRecords: number(3)}, refusal: "QuotaExceeded", says: "adds 1 records, and the account has 3 of at most 3", records: map[string]*lexicons.Record{
			noted + tid(3): note(t, "3"), noted + tid(4): note(t, "4"), noted + tid(5): note(t, "5"), noted + tid(6): note(t, "6")}},
		{name: "smaller, yet over the quota", policy: repostore.Policy{MaxRecords: number(1)}, records: map[string]*lexicons.Record{
			noted + tid(3): note(t, "3"), noted + tid(4): note(t, "4")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
				h := newHost(t, db)
				did := h.account("scout")
				h.apply(did, create(tid(1), note(t, "1")), create(tid(2), note(t, "2")), create(tid(1), logged(t, "1")))
				before, err := h.Head(t.Context(), did)
				require.NoError(t, err)
				_, err = h.Import(t.Context(), did, bytes.NewReader(handmade(t, h, did, c.records)), repostore.ImportOptions{
					Keys: []atcrypto.PublicKey{h.publicKey(did)}, Policy: c.policy,
				})
				used := h.exact(did)
				if c.refusal == "" {
					require.NoError(t, err)
					require.EqualValues(t, len(c.records), used.Records)
					h.apply(did, create(tid(70), note(t, "after it")))
					h.exact(did)
					return
				}
				refused := requireRefusal(t, c.refusal, err)
				require.Contains(t, refused.Error(), c.says)
				if c.names != nil {
					require.Len(t, refused.Findings, len(c.names))
				}
				for _, path := range c.names {
					require.Contains(t, refused.Error(), "at://"+string(did)+"/"+path)
				}
				after, err := h.Head(t.Context(), did)
				require.NoError(t, err)
				require.Equal(t, before, after, "nothing of it was imported")
			})
		})
	}
}

// Whatever happens to a repo, its counters are what a recount gives.
func TestCountersAreExact(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		fewerChecks(t, 12)
		accounts := 0
		rapid.Check(t, func(r *rapid.T) {
			accounts++
			name := fmt.Sprint("scout", accounts)
			did := h.account(name)
			policy := repostore.Policy{MaxRecords: number(12), MaxBlobBytes: number(30)}
			blob := func() repostore.Blob {
				n := rapid.IntRange(0, 7).Draw(r, "blob")
				return repostore.Blob{CID: rawCID(t, fmt.Sprint("blob ", n)), MimeType: "text/plain", Size: int64(n)}
			}
			content := func() *lexicons.Record {
				if rapid.Bool().Draw(r, "with a blob") {
					return withBlobs(t, "note", blob())
				}
				return note(t, fmt.Sprint(rapid.IntRange(0, 3).Draw(r, "text")))
			}
			for range rapid.IntRange(1, 25).Draw(r, "steps") {
				switch rapid.IntRange(0, 9).Draw(r, "step") {
				case 0:
					records := map[string]*lexicons.Record{}
					for range rapid.IntRange(0, 14).Draw(r, "records") {
						records["com.example.note/"+tid(rapid.IntRange(0, 20).Draw(r, "n"))] = content()
					}
					_, _ = h.Import(t.Context(), did, bytes.NewReader(handmade(t, h, did, records)), repostore.ImportOptions{
						Keys: []atcrypto.PublicKey{h.publicKey(did)}, Policy: policy,
					})
				case 1:
					if rapid.IntRange(0, 3).Draw(r, "delete it") == 0 {
						require.NoError(r, h.db.Tx(t.Context(), func(tx *gorm.DB) error { return h.DeleteRepo(t.Context(), tx, did) }))
						h.account(name)
						require.Zero(r, h.usage(did))
					}
				case 2:
					require.NoError(r, h.TakeDown(t.Context(), repostore.BlobSubject(did, blob().CID), repostore.Takedown{CID: blob().CID}))
				case 3, 4, 5:
					_, _ = h.AddBlob(t.Context(), did, blob(), policy)
				default:
					var writes []repostore.Write
					for range rapid.IntRange(1, 5).Draw(r, "writes") {
						rkey := tid(rapid.IntRange(0, 20).Draw(r, "n"))
						if rapid.IntRange(0, 2).Draw(r, "kind") > 0 {
							writes = append(writes, put(rkey, content()))
						} else {
							writes = append(writes, remove(noteNSID, rkey))
						}
					}
					_, _ = h.Apply(t.Context(), did, writes, repostore.Options{Policy: policy})
				}
				used := h.exact(did)
				require.LessOrEqual(r, used.Records, int64(12))
				require.LessOrEqual(r, used.BlobBytes, int64(30))
			}
		})
	})
}
