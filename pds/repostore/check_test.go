package repostore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"pgregory.net/rapid"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/repostore"
	"herbarium.garden/pds/sequencer"
)

// faults are what a check of a repo and of the log tells.
func (h *host) faults(did syntax.DID, check repostore.RepoCheck) (found []repostore.RepoFault) {
	h.t.Helper()
	tell := func(f repostore.RepoFault) error {
		found = append(found, f)
		return nil
	}
	_, err := h.CheckRepo(h.t.Context(), did, check, tell)
	require.NoError(h.t, err)
	_, err = h.CheckLog(h.t.Context(), tell)
	require.NoError(h.t, err)
	require.NoError(h.t, h.CheckOrphans(h.t.Context(), tell))
	return found
}

// herb is a repo with something of everything that a check looks at.
type herb struct {
	*host
	did  syntax.DID
	id   int64 // of the repo
	blob repostore.Blob
}

func newHerb(t *testing.T, db *migrations.DB) *herb {
	h := &herb{host: newHost(t, db)}
	h.did = h.account("scout")
	for i := range 30 {
		h.apply(h.did, create(tid(i), note(t, fmt.Sprint(i))))
	}
	h.blob = h.addBlob(h.did, blobOf(t, "leaf"))
	h.apply(h.did, create(tid(100), withBlobs(t, "leaf", h.blob)))
	h.apply(h.did, update(tid(3), note(t, "another")), deletion(noteNSID, tid(7)))
	h.scan(&h.id, "SELECT id FROM repos WHERE did = ?", string(h.did))
	require.Empty(t, h.faults(h.did, repostore.RepoCheck{}))
	return h
}

// damage changes the database behind everybody's back.
func (h *herb) damage(statement string, args ...any) {
	h.t.Helper()
	h.relax()
	result := h.db.Write.WithContext(h.t.Context()).Exec(statement, args...)
	require.NoError(h.t, result.Error)
	require.NotZero(h.t, result.RowsAffected)
}

// relax lets rows be changed that a foreign key protects.
func (h *herb) relax() {
	h.t.Helper()
	if h.db.Dialect == migrations.SQLite {
		require.NoError(h.t, h.db.Write.Exec("PRAGMA foreign_keys = OFF").Error)
		return
	}
	require.NoError(h.t, h.db.Write.Exec("ALTER TABLE blob_refs DROP CONSTRAINT IF EXISTS blob_refs_repo_id_cid_fkey").Error)
}

func (h *herb) scan(into any, query string, args ...any) {
	h.t.Helper()
	require.NoError(h.t, h.db.Write.WithContext(h.t.Context()).Raw(query, args...).Row().Scan(into))
}

func (h *herb) path(n int) string { return string(noteNSID) + "/" + tid(n) }

// Each thing that may be wrong, made wrong in the database: the check finds
// that, and nothing else.
func TestCheckFindsEachFault(t *testing.T) {
	type finding struct {
		kind    repostore.RepoFaultKind
		subject string // "": any
	}
	flipped := func(raw []byte) []byte {
		raw = bytes.Clone(raw)
		raw[len(raw)-1] ^= 1
		return raw
	}
	// A node in the middle of the tree's lowest level.
	const lowNode = "SELECT lower_key FROM nodes WHERE repo_id = ? AND height = 0 AND lower_key > '' ORDER BY lower_key LIMIT 1"
	for name, c := range map[string]struct {
		damage func(h *herb)
		want   []finding
	}{
		"commit of other bytes": {func(h *herb) {
			var raw []byte
			h.scan(&raw, "SELECT commit_block FROM repos WHERE id = ?", h.id)
			h.damage("UPDATE repos SET commit_block = ? WHERE id = ?", flipped(raw), h.id)
		}, []finding{{repostore.CommitDamaged, "did:web:scout.test"}}},
		"another rev in the row": {func(h *herb) {
			h.damage("UPDATE repos SET rev = '7222222222222' WHERE id = ?", h.id)
		}, []finding{{repostore.CommitMismatch, "did:web:scout.test"}, {repostore.EventHead, ""}}},
		"another key": {func(h *herb) {
			key, err := atcrypto.GeneratePrivateKeyP256()
			require.NoError(h.t, err)
			h.mu.Lock()
			h.keys[h.did] = key
			h.mu.Unlock()
		}, []finding{{repostore.CommitSignature, ""}}},
		"root node of other bytes": {func(h *herb) {
			var raw []byte
			h.scan(&raw, "SELECT block FROM nodes WHERE repo_id = ? AND lower_key = '' ORDER BY height DESC LIMIT 1", h.id)
			h.damage("UPDATE nodes SET block = ? WHERE repo_id = ? AND cid = (SELECT data FROM repos WHERE id = ?)", flipped(raw), h.id, h.id)
		}, []finding{{repostore.NodeDamaged, ""}}},
		"low node of other bytes": {func(h *herb) {
			var lower string
			h.scan(&lower, lowNode, h.id)
			h.damage("UPDATE nodes SET block = ? WHERE repo_id = ? AND height = 0 AND lower_key = ?", []byte{0xa0}, h.id, lower)
		}, []finding{{repostore.NodeDamaged, ""}}},
		"low node under another CID": {func(h *herb) {
			var lower string
			h.scan(&lower, lowNode, h.id)
			h.damage("UPDATE nodes SET cid = ? WHERE repo_id = ? AND height = 0 AND lower_key = ?", sumOf(h.t, []byte("other")).Bytes(), h.id, lower)
		}, []finding{{repostore.NodeMismatch, ""}}},
		"no low node": {func(h *herb) {
			var lower string
			h.scan(&lower, lowNode, h.id)
			h.damage("DELETE FROM nodes WHERE repo_id = ? AND height = 0 AND lower_key = ?", h.id, lower)
		}, []finding{{repostore.NodeMissing, ""}}},
		"no node at all": {func(h *herb) {
			h.damage("DELETE FROM nodes WHERE repo_id = ?", h.id)
		}, []finding{{repostore.NodeMissing, "mst/0/"}}},
		"a node too many": {func(h *herb) {
			h.damage("INSERT INTO nodes (repo_id, lower_key, height, cid, rev, block) VALUES (?, ?, 9, ?, 'r', ?)", h.id, h.path(20), sumOf(h.t, []byte("x")).Bytes(), []byte("x"))
		}, []finding{{repostore.NodeExtra, "mst/9/com.example.note/" + tid(20)}}},
		"record of other bytes": {func(h *herb) {
			h.damage("UPDATE records SET block = ? WHERE repo_id = ? AND path = ?", []byte{0xa0}, h.id, h.path(5))
		}, []finding{{repostore.RecordDamaged, "at://did:web:scout.test/com.example.note/" + tid(5)}}},
		"record with a blob of other bytes": {func(h *herb) {
			h.damage("UPDATE records SET block = ? WHERE repo_id = ? AND path = ?", []byte{0xa0}, h.id, h.path(100))
		}, []finding{{repostore.RecordDamaged, "at://did:web:scout.test/com.example.note/" + tid(100)}}},
		"record under another CID": {func(h *herb) {
			h.damage("UPDATE records SET cid = ? WHERE repo_id = ? AND path = ?", sumOf(h.t, []byte("other")).Bytes(), h.id, h.path(5))
		}, []finding{{repostore.RecordMismatch, "at://did:web:scout.test/com.example.note/" + tid(5)}}},
		"another record at the path": {func(h *herb) {
			other := note(h.t, "forged")
			h.damage("UPDATE records SET block = ?, cid = ? WHERE repo_id = ? AND path = ?", other.CBOR, other.CID.Bytes(), h.id, h.path(5))
		}, []finding{{repostore.RecordMismatch, "at://did:web:scout.test/com.example.note/" + tid(5)}}},
		"no record": {func(h *herb) {
			h.damage("DELETE FROM records WHERE repo_id = ? AND path = ?", h.id, h.path(100))
		}, []finding{{repostore.RecordMissing, "at://did:web:scout.test/com.example.note/" + tid(100)}, {repostore.CounterWrong, "records"}}},
		"a record too many": {func(h *herb) {
			extra := note(h.t, "never signed")
			h.damage("INSERT INTO records (repo_id, path, cid, rev, block) VALUES (?, ?, ?, 'r', ?)", h.id, h.path(7), extra.CID.Bytes(), extra.CBOR)
		}, []finding{{repostore.RecordExtra, "at://did:web:scout.test/com.example.note/" + tid(7)}, {repostore.CounterWrong, "records"}}},
		"no reference": {func(h *herb) {
			h.damage("DELETE FROM blob_refs WHERE repo_id = ?", h.id)
		}, []finding{{repostore.ReferenceMissing, "at://did:web:scout.test/com.example.note/" + tid(100)}}},
		"a reference of a record that makes none": {func(h *herb) {
			h.damage("INSERT INTO blob_refs (repo_id, cid, path, rev) VALUES (?, ?, ?, 'r')", h.id, h.blob.CID.Bytes(), h.path(5))
		}, []finding{{repostore.ReferenceExtra, "at://did:web:scout.test/com.example.note/" + tid(5)}}},
		"an awaited blob of no record": {func(h *herb) {
			h.damage("INSERT INTO awaited_blobs (repo_id, cid, path, rev) VALUES (?, ?, ?, 'r')", h.id, h.blob.CID.Bytes(), h.path(7))
		}, []finding{{repostore.ReferenceExtra, "at://did:web:scout.test/com.example.note/" + tid(7)}}},
		"counter of records": {func(h *herb) {
			h.damage("UPDATE repos SET record_count = record_count + 1 WHERE id = ?", h.id)
		}, []finding{{repostore.CounterWrong, "records"}}},
		"counters of blobs": {func(h *herb) {
			h.damage("UPDATE repos SET blob_count = 7, blob_bytes = 7 WHERE id = ?", h.id)
		}, []finding{{repostore.CounterWrong, "blobs"}, {repostore.CounterWrong, "blobBytes"}}},
		"no row of a blob's bytes": {func(h *herb) {
			h.damage("DELETE FROM blob_objects")
		}, []finding{{repostore.BlobRowMissing, ""}}},
		"the last event lost": {func(h *herb) {
			h.damage("DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)")
		}, []finding{{repostore.EventHead, ""}, {repostore.LogGap, ""}}},
		"an event in the middle lost": {func(h *herb) {
			h.damage("DELETE FROM events WHERE seq = 20")
		}, []finding{{repostore.EventOrder, "seq/21"}, {repostore.LogGap, "seq/20"}}},
		"an event of other bytes": {func(h *herb) {
			h.damage("UPDATE events SET frame = ? WHERE seq = 20", []byte("frame"))
		}, []finding{{repostore.EventDamaged, "seq/20"}}},
		"an event of another seq": {func(h *herb) {
			h.damage("UPDATE events SET frame = (SELECT frame FROM events WHERE seq = 21) WHERE seq = 20")
		}, []finding{{repostore.EventDamaged, "seq/20"}}},
		"an event too many": {func(h *herb) {
			h.damage("UPDATE event_sequence SET last_seq = last_seq - 1")
		}, []finding{{repostore.LogBackwards, ""}}},
		"rows of no repo": {func(h *herb) {
			h.damage("INSERT INTO awaited_blobs (repo_id, cid, path, rev) VALUES (999, ?, 'a/b', 'r')", h.blob.CID.Bytes())
		}, []finding{{repostore.RowsOrphaned, "awaited_blobs"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
				h := newHerb(t, db)
				c.damage(h)
				found := h.faults(h.did, repostore.RepoCheck{})
				require.Len(t, found, len(c.want), "%v", found)
				for i, want := range c.want {
					require.Equal(t, want.kind, found[i].Kind, "%v", found)
					require.NotEmpty(t, found[i].Subject)
					require.NotEmpty(t, found[i].Kind.Repair())
					if want.subject != "" {
						require.Equal(t, want.subject, found[i].Subject)
					}
				}
			})
		})
	}
}

// A database that was put back to an older state tells of itself by its log.
func TestCheckFindsAnOlderRepo(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHerb(t, db)
		type state struct{ head, data, block []byte }
		var was state
		var rev string
		read := func() error {
			return h.db.Read.Raw("SELECT head, data, commit_block, rev FROM repos WHERE id = ?", h.id).Row().Scan(&was.head, &was.data, &was.block, &rev)
		}
		require.NoError(t, read())
		h.apply(h.did, update(tid(25), note(t, "later")))
		h.damage("UPDATE repos SET head = ?, data = ?, commit_block = ?, rev = ? WHERE id = ?", was.head, was.data, was.block, rev, h.id)
		found := h.faults(h.did, repostore.RepoCheck{})
		kinds := map[repostore.RepoFaultKind]int{}
		for _, f := range found {
			kinds[f.Kind]++
		}
		require.Equal(t, 1, kinds[repostore.EventAhead], "%v", found)
		require.NotZero(t, kinds[repostore.NodeMismatch], "%v", found)
	})
}

// Repair writes anew what follows from whole records, beside a running server:
// whoever remembers the old counter prepares again.
func TestCheckRepairs(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHerb(t, db)
		h.damage("DELETE FROM blob_refs WHERE repo_id = ?", h.id)
		h.damage("INSERT INTO blob_refs (repo_id, cid, path, rev) VALUES (?, ?, ?, 'r')", h.id, h.blob.CID.Bytes(), h.path(7))
		h.damage("UPDATE repos SET record_count = 5, blob_count = 7, blob_bytes = 7 WHERE id = ?", h.id)
		h.damage("UPDATE records SET block = ? WHERE repo_id = ? AND path = ?", []byte{0xa0}, h.id, h.path(5))
		for _, f := range h.faults(h.did, repostore.RepoCheck{Repair: true}) {
			require.Equal(t, f.Kind.Mendable(), f.Mended, "%v", f)
		}
		found := h.faults(h.did, repostore.RepoCheck{})
		require.Len(t, found, 1, "%v", found)
		require.Equal(t, repostore.RecordDamaged, found[0].Kind)
		_, referenced, err := h.GetBlob(t.Context(), h.did, h.blob.CID)
		require.NoError(t, err)
		require.True(t, referenced)
		h.apply(h.did, create(tid(200), note(t, "goes on")))
		require.Len(t, h.faults(h.did, repostore.RepoCheck{}), 1)
	})
}

// What a repo may have been through leaves no fault: any history, an empty repo,
// pruning, an erasure, an import that was not announced.
func TestCheckOfHealthyRepos(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		fewerChecks(t, 15)
		accounts := 0
		rapid.Check(t, func(r *rapid.T) {
			accounts++
			did := h.account(fmt.Sprint("scout", accounts))
			blobs := []repostore.Blob{h.addBlob(did, blobOf(t, "a")), h.addBlob(did, blobOf(t, "b"))}
			for range rapid.IntRange(0, 10).Draw(r, "batches") {
				var writes []repostore.Write
				for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 40), 1, 8, rapid.ID[int]).Draw(r, "paths") {
					switch rkey := tid(n * 37); rapid.IntRange(0, 3).Draw(r, "kind") {
					case 0:
						writes = append(writes, remove(noteNSID, rkey))
					case 1:
						writes = append(writes, put(rkey, withBlobs(t, fmt.Sprint(n), blobs[n%2], blobs[rapid.IntRange(0, 1).Draw(r, "blob")])))
					default:
						writes = append(writes, put(rkey, note(t, fmt.Sprint(rapid.IntRange(0, 3).Draw(r, "text")))))
					}
				}
				h.apply(did, writes...)
			}
			require.Empty(r, h.faults(did, repostore.RepoCheck{}))
		})
	})
}

// A purge takes events out of the middle and announces the repo as it is.
func TestCheckAfterAnErasure(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHerb(t, db)
		var appended sequencer.Batch
		require.NoError(t, db.Tx(t.Context(), func(tx *gorm.DB) error {
			draft, err := h.SyncDraft(t.Context(), tx, h.did)
			if err != nil {
				return err
			}
			if err := tx.Exec("UPDATE event_sequence SET erasures = erasures + 1").Error; err != nil {
				return err
			}
			if err := tx.Exec("DELETE FROM events WHERE seq IN (20, 21, 30)").Error; err != nil {
				return err
			}
			appended, err = h.seq.Append(t.Context(), tx, draft)
			return err
		}))
		h.seq.Published(appended)
		require.Empty(t, h.faults(h.did, repostore.RepoCheck{}))
		tally, err := h.CheckLog(t.Context(), func(repostore.RepoFault) error { return nil })
		require.NoError(t, err)
		require.Equal(t, int64(3), tally.Erased)
	})
}

// While sixteen writers write, and blobs are uploaded, a check tells of nothing.
func TestCheckBesideWriters(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		dids := []syntax.DID{h.account("one"), h.account("two"), h.account("three"), h.account("four")}
		done, checks := make(chan struct{}), atomic.Int64{}
		defer func() { <-done }()
		go func() {
			defer close(done)
			together(16, func(w int) {
				did := dids[w%len(dids)]
				for i := 0; i < 12 || checks.Load() < 8 && !t.Failed(); i++ {
					b, err := h.AddBlob(t.Context(), did, blobOf(t, fmt.Sprint(w, i%6)), repostore.Policy{})
					if err == nil {
						rkey := tid(w*50 + i%12)
						_, err = h.Apply(t.Context(), did, []repostore.Write{put(rkey, withBlobs(t, fmt.Sprint(i), b))}, repostore.Options{})
					}
					if err != nil && !errors.Is(err, repostore.ErrContended) && !errors.Is(err, context.Canceled) {
						t.Error(err)
						return
					}
				}
			})
		}()
		for running := true; running; checks.Add(1) {
			select {
			case <-done:
				running = false
			default:
			}
			for _, did := range dids {
				require.Empty(t, h.faults(did, repostore.RepoCheck{}))
			}
		}
	})
}
