package repostore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/repostore"
)

// observation makes an observation that supersedes another one, or none.
func observation(t testing.TB, text string, supersedes *lexicons.StrongRef, more ...map[string]any) *lexicons.Record {
	t.Helper()
	value := map[string]any{
		"source": map[string]any{"kind": "command", "value": "uname -a"}, "method": "shell", "text": text,
		"observedAt": "2026-01-01T00:00:00Z", "createdAt": "2026-01-01T00:00:00Z",
		"generator": map[string]any{"run": tid(0)},
	}
	if supersedes != nil {
		value["supersedes"] = map[string]any{"uri": string(supersedes.URI), "cid": supersedes.CID.String()}
	}
	for _, fields := range more {
		for key, v := range fields {
			value[key] = v
		}
	}
	return record(t, lexicons.ObservationNSID, value)
}

// refTo is a strong reference to what a batch wrote.
func refTo(w repostore.WriteResult) *lexicons.StrongRef {
	return &lexicons.StrongRef{URI: w.URI, CID: *w.CID}
}

func requireRefusal(t *testing.T, name string, err error) *lexicons.Refused {
	t.Helper()
	var refused *lexicons.Refused
	require.ErrorAs(t, err, &refused)
	require.Equal(t, name, refused.Name(), refused.Error())
	return refused
}

// The ways round the immutability of an observation, of those that lead
// through this package.
func TestBackDoorsAreClosed(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		original, edited := observation(t, "as seen", nil), observation(t, "as wished", nil)
		first := h.apply(did, create(tid(1), original)).Writes[0]

		t.Run("putRecord", func(t *testing.T) {
			refused := requireRefusal(t, "ImmutableRecord", h.refused(did, put(tid(1), edited)))
			require.Contains(t, refused.Error(), fmt.Sprintf("head %s %s", first.URI, first.CID), "the repair ends the message")
		})
		t.Run("applyWrites update", func(t *testing.T) {
			requireRefusal(t, "ImmutableRecord", h.refused(did, create(tid(2), observation(t, "beside", nil)), update(tid(1), edited)))
		})
		t.Run("delete and create in one batch", func(t *testing.T) {
			requireRefusal(t, "ImmutableRecord", h.refused(did, remove(lexicons.ObservationNSID, tid(1)), create(tid(1), edited)))
			requireRefusal(t, "ImmutableRecord", h.refused(did, remove(lexicons.ObservationNSID, tid(1)), create(tid(1), original)))
		})
		t.Run("create on it", func(t *testing.T) {
			refused := requireRefusal(t, "ImmutableRecord", h.refused(did, create(tid(1), edited)))
			require.Contains(t, refused.Error(), fmt.Sprintf("head %s %s", first.URI, first.CID))
			require.ErrorIs(t, h.refused(did, create(tid(1), original)), repostore.ErrRecordExists)
		})
		t.Run("identical put is a no-op", func(t *testing.T) {
			require.Nil(t, h.apply(did, put(tid(1), original)).Commit)
		})
		t.Run("delete, then create", func(t *testing.T) {
			h.apply(did, remove(lexicons.ObservationNSID, tid(1)))
			requireRefusal(t, "RecordTombstoned", h.refused(did, create(tid(1), edited)))
			requireRefusal(t, "RecordTombstoned", h.refused(did, put(tid(1), original)))
		})
		t.Run("re-creating the account", func(t *testing.T) {
			h.apply(did, create(tid(3), original))
			require.NoError(t, db.Tx(t.Context(), func(tx *gorm.DB) error { return h.DeleteRepo(t.Context(), tx, did) }))
			_, err := h.Head(t.Context(), did)
			require.ErrorIs(t, err, repostore.ErrRepoNotFound)
			_, err = h.Apply(t.Context(), did, []repostore.Write{create(tid(4), edited)}, repostore.Options{})
			require.ErrorIs(t, err, repostore.ErrRepoNotFound)
			require.Equal(t, did, h.account("scout"))
			requireRefusal(t, "RecordTombstoned", h.refused(did, create(tid(1), edited)))
			requireRefusal(t, "RecordTombstoned", h.refused(did, create(tid(3), edited)))
			h.apply(did, create(tid(5), edited))
		})
	})
}

func TestSupersedesChain(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		write := func(rkey string, supersedes *lexicons.StrongRef) *lexicons.StrongRef {
			t.Helper()
			return refTo(h.apply(did, create(rkey, observation(t, rkey, supersedes))).Writes[0])
		}
		forked := func(target, head *lexicons.StrongRef) {
			t.Helper()
			refused := requireRefusal(t, "AlreadySuperseded", h.refused(did, create(tid(90), observation(t, "late", target))))
			require.Contains(t, refused.Error(), fmt.Sprintf("head %s %s", head.URI, head.CID))
		}
		one := write(tid(1), nil)
		two := write(tid(2), one)
		forked(one, two)
		three := write(tid(3), two)
		forked(one, three)
		forked(two, three)

		// A tombstone bridges its chain without ever being its head.
		h.apply(did, remove(lexicons.ObservationNSID, tid(2)))
		forked(one, three)
		forked(two, three)
		// The last of the chain goes: its predecessor is the head again.
		h.apply(did, remove(lexicons.ObservationNSID, tid(3)))
		four := write(tid(4), one)
		forked(one, four)
		forked(two, write(tid(5), two))

		requireRefusal(t, "SupersedesNotFound", h.refused(did, create(tid(91), observation(t, "x", &lexicons.StrongRef{URI: syntax.ATURI(fmt.Sprintf("at://%s/%s/%s", did, lexicons.ObservationNSID, tid(77))), CID: one.CID}))))
		requireRefusal(t, "SupersedesCidMismatch", h.refused(did, create(tid(91), observation(t, "x", &lexicons.StrongRef{URI: four.URI, CID: one.CID}))))
		h.consistent(did)
	})
}

// A dry run is answered as the write would be, and leaves nothing.
func TestDryRun(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		first := observation(t, "first", nil)
		events := len(h.commits(did))
		for range 2 {
			dry, err := h.DryRun(t.Context(), did, []repostore.Write{create(tid(1), first)}, repostore.Options{})
			require.NoError(t, err)
			require.Nil(t, dry.Commit)
			require.True(t, dry.Writes[0].Changed)
			require.Equal(t, first.CID, *dry.Writes[0].CID)
		}
		require.Empty(t, h.consistent(did))
		require.Len(t, h.commits(did), events)
		h.apply(did, create(tid(1), first))
		_, err := h.DryRun(t.Context(), did, []repostore.Write{put(tid(1), observation(t, "edited", nil))}, repostore.Options{})
		requireRefusal(t, "ImmutableRecord", err)
	})
}

// A batch sees its own earlier writes, and what waits of its DID.
func TestBatchSeesItself(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		first := observation(t, "first", nil)
		ref := &lexicons.StrongRef{URI: syntax.ATURI(fmt.Sprintf("at://%s/%s/%s", did, lexicons.ObservationNSID, tid(1))), CID: first.CID}
		second, third := create(tid(2), observation(t, "second", ref)), create(tid(3), observation(t, "third", ref))
		err := h.refused(did, create(tid(1), first), second, third)
		refused := requireRefusal(t, "AlreadySuperseded", err)
		require.Contains(t, refused.Error(), "/writes/1 of the same batch")
		require.NotContains(t, refused.Error(), tid(2), "with the batch refused, that is no record and no head")
		var at *repostore.WriteError
		require.ErrorAs(t, err, &at)
		require.Equal(t, 2, at.Index)
		h.apply(did, create(tid(1), first), create(tid(2), observation(t, "second", ref)))
		requireRefusal(t, "AlreadySuperseded", h.refused(did, create(tid(3), observation(t, "third", ref))))
		h.consistent(did)
	})
}

// Where forks are only flagged, the fork within a batch is, and once.
func TestForkWithinABatchIsFlagged(t *testing.T) {
	catalog, err := lexicons.Load()
	require.NoError(t, err)
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db, func(c *repostore.Config) {
			c.Rules = lexicons.NewRules(catalog, lexicons.Settings{Supersedes: lexicons.PolicyFlag})
		})
		did := h.account("scout")
		first := observation(t, "first", nil)
		ref := &lexicons.StrongRef{URI: syntax.ATURI(fmt.Sprintf("at://%s/%s/%s", did, lexicons.ObservationNSID, tid(1))), CID: first.CID}
		result := h.apply(did, create(tid(1), first), create(tid(2), observation(t, "second", ref)), create(tid(3), observation(t, "third", ref)))
		var forks []int
		for i, w := range result.Writes {
			for _, f := range w.Findings {
				if f.Code == lexicons.CodeForked {
					forks = append(forks, i)
				}
			}
		}
		require.Equal(t, []int{2}, forks)
		h.consistent(did)
	})
}

// A long chain, written in whole batches: each write looks at its target, not
// at the chain, and the head is found from any of its ends.
func TestLongChain(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		var last *lexicons.StrongRef
		var first lexicons.StrongRef
		const batches = 5
		for b := range batches {
			var writes []repostore.Write
			for i := range repostore.MaxWrites {
				rkey := tid(b*repostore.MaxWrites + i)
				rec := observation(t, rkey, last)
				writes = append(writes, create(rkey, rec))
				last = &lexicons.StrongRef{URI: syntax.ATURI(fmt.Sprintf("at://%s/%s/%s", did, lexicons.ObservationNSID, rkey)), CID: rec.CID}
				if b+i == 0 {
					first = *last
				}
			}
			h.apply(did, writes...)
		}
		refused := requireRefusal(t, "AlreadySuperseded", h.refused(did, create(tid(9999), observation(t, "late", &first))))
		require.Contains(t, refused.Error(), fmt.Sprintf("head %s %s", last.URI, last.CID))
	})
}

// Racing successors of one observation: exactly one wins, and each loser is
// told the head.
func TestForkRace(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		ref := refTo(h.apply(did, create(tid(1), observation(t, "first", nil))).Writes[0])
		won := make(chan repostore.WriteResult, 8)
		lost := make(chan error, 8)
		together(8, func(i int) {
			result, err := h.Apply(t.Context(), did, []repostore.Write{create(tid(2+i), observation(t, fmt.Sprint(i), ref))}, repostore.Options{})
			if err != nil {
				lost <- err
				return
			}
			won <- result.Writes[0]
		})
		require.Len(t, won, 1)
		require.Len(t, lost, 7)
		winner := <-won
		for range 7 {
			require.Contains(t, requireRefusal(t, "AlreadySuperseded", <-lost).Error(), fmt.Sprintf("head %s %s", winner.URI, winner.CID))
		}
		h.consistent(did)
	})
}

// A batch finds a tombstone in its midst as a single write does.
func TestBatchMeetsTombstone(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		var writes []repostore.Write
		for i := range 5 {
			writes = append(writes, create(tid(i), observation(t, fmt.Sprint(i), nil)))
		}
		h.apply(did, writes[2])
		h.apply(did, remove(lexicons.ObservationNSID, tid(2)))
		requireRefusal(t, "RecordTombstoned", h.refused(did, writes...))
		requireRefusal(t, "RecordTombstoned", h.refused(did, writes[2]))
		h.apply(did, append(writes[:2:2], writes[3:]...)...)
		require.Len(t, h.consistent(did), 4)
	})
}

// Sessions may reuse a record key: the tombstone gives way.
func TestReusableKeys(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did := h.account("scout")
		session := record(t, lexicons.SessionNSID, map[string]any{"title": "t", "summary": "s", "updatedAt": "2026-01-01T00:00:00Z"})
		h.apply(did, create("s1", session))
		h.apply(did, remove(lexicons.SessionNSID, "s1"))
		require.Equal(t, 1, count(t, db, "tombstones"))
		h.apply(did, create("s1", session))
		require.Equal(t, 0, count(t, db, "tombstones"))
	})
}

func count(t *testing.T, db *migrations.DB, table string) (n int) {
	t.Helper()
	require.NoError(t, db.Read.WithContext(t.Context()).Raw("SELECT COUNT(*) FROM "+table).Row().Scan(&n))
	return n
}

func blobOf(t testing.TB, content string) repostore.Blob {
	t.Helper()
	c, err := cid.V1Builder{Codec: cid.Raw, MhType: 0x12}.Sum([]byte(content))
	require.NoError(t, err)
	return repostore.Blob{CID: c, MimeType: "text/plain", Size: int64(len(content))}
}

// withBlobs is a record that references blobs.
func withBlobs(t testing.TB, text string, blobs ...repostore.Blob) *lexicons.Record {
	t.Helper()
	list := []any{}
	for _, b := range blobs {
		list = append(list, map[string]any{"$type": "blob", "ref": map[string]any{"$link": b.CID.String()}, "mimeType": b.MimeType, "size": b.Size})
	}
	return record(t, noteNSID, map[string]any{"text": text, "files": list})
}

// For a reader of some collections a reference counts when a live record of one
// of them makes it, in that very repo.
func TestBlobOfSomeCollections(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did, other := h.account("scout"), h.account("keeper")
		a := blobOf(t, "a")
		h.addBlob(did, a)
		h.addBlob(other, a)
		h.apply(did, create(tid(1), withBlobs(t, "x", a)))
		referenced := func(who syntax.DID, of ...syntax.NSID) bool {
			t.Helper()
			_, yes, err := h.GetBlobOf(t.Context(), who, a.CID, append([]syntax.NSID{}, of...))
			require.NoError(t, err)
			return yes
		}
		require.True(t, referenced(did, noteNSID))
		require.True(t, referenced(did, lexicons.ClassNSID, noteNSID))
		require.False(t, referenced(did), "none is not all")
		require.False(t, referenced(did, lexicons.ClassNSID))
		require.False(t, referenced(did, noteNSID+"s"), "a longer name is another collection")
		require.False(t, referenced(did, noteNSID[:len(noteNSID)-1]), "and so is a shorter one")
		require.False(t, referenced(other, noteNSID), "another account's copy is its own")
		_, _, err := h.GetBlobOf(t.Context(), did, blobOf(t, "no such").CID, []syntax.NSID{noteNSID})
		require.ErrorIs(t, err, repostore.ErrBlobNotFound)

		require.NoError(t, h.TakeDown(t.Context(), repostore.RecordSubject(did, noteNSID, syntax.RecordKey(tid(1))), repostore.Takedown{CID: a.CID}))
		require.False(t, referenced(did, noteNSID), "taken down")
	})
}

func TestBlobReferences(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		did, other := h.account("scout"), h.account("keeper")
		a, b := blobOf(t, "a"), blobOf(t, "bb")
		referenced := func(who syntax.DID, blob repostore.Blob) bool {
			t.Helper()
			got, yes, err := h.GetBlob(t.Context(), who, blob.CID)
			require.NoError(t, err)
			require.Equal(t, blob.Size, got.Size)
			require.Equal(t, blob.MimeType, got.MimeType)
			return yes
		}
		requireRefusal(t, "BlobNotFound", h.refused(did, create(tid(1), withBlobs(t, "x", a))))
		h.addBlob(other, a)
		requireRefusal(t, "BlobNotFound", h.refused(did, create(tid(1), withBlobs(t, "x", a))))
		_, _, err := h.GetBlob(t.Context(), did, a.CID)
		require.ErrorIs(t, err, repostore.ErrBlobNotFound)
		_, err = h.AddBlob(t.Context(), "did:web:nobody.test", a, repostore.Policy{})
		require.ErrorIs(t, err, repostore.ErrRepoNotFound)

		h.addBlob(did, a)
		h.addBlob(did, b)
		require.False(t, referenced(did, a), "temporary")
		lying := a
		lying.MimeType = "image/png"
		requireRefusal(t, "InvalidMimeType", h.refused(did, create(tid(1), withBlobs(t, "x", lying))))
		lying = a
		lying.Size = 2
		requireRefusal(t, "InvalidSize", h.refused(did, create(tid(1), withBlobs(t, "x", lying))))

		created := h.apply(did, create(tid(1), withBlobs(t, "x", a, a)))
		require.True(t, referenced(did, a))
		require.False(t, referenced(other, a), "another account's copy is its own")
		h.apply(did, update(tid(1), withBlobs(t, "y", a)))
		require.True(t, referenced(did, a), "an update that keeps the blob keeps the reference")
		moved := h.apply(did, remove(noteNSID, tid(1)), create(tid(2), withBlobs(t, "z", a, b)))
		require.True(t, referenced(did, a), "moved to another record in one batch")

		list := func(since syntax.TID, cursor cid.Cid, limit int) []cid.Cid {
			cids, err := h.ListBlobs(t.Context(), did, since, cursor, limit)
			require.NoError(t, err)
			return cids
		}
		all := list("", cid.Undef, 10)
		require.ElementsMatch(t, []cid.Cid{a.CID, b.CID}, all)
		require.Equal(t, all[:1], list("", cid.Undef, 1))
		require.Equal(t, all[1:], list("", all[0], 10))
		require.Len(t, list(created.Commit.Rev, cid.Undef, 10), 2)
		require.Empty(t, list(moved.Commit.Rev, cid.Undef, 10))

		// Uploading again tells the type anew only while nothing relies on it.
		again := a
		again.MimeType = "text/markdown"
		h.addBlob(did, again)
		require.True(t, referenced(did, a))
		h.apply(did, remove(noteNSID, tid(2)))
		require.False(t, referenced(did, a))
		h.addBlob(did, again)
		require.False(t, referenced(did, again))
		h.consistent(did)
	})
}

// A blob that goes between prepare and commit is never referenced: the foreign
// key stops the commit, and the writer is told.
func TestBlobGoesBeforeTheCommit(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := idleHost(t, db)
		did := h.account("scout")
		a := blobOf(t, "a")
		h.addBlob(did, a)
		answer := make(chan error)
		go func() {
			_, err := h.Apply(t.Context(), did, []repostore.Write{create(tid(1), withBlobs(t, "x", a))}, repostore.Options{})
			answer <- err
		}()
		require.Eventually(t, func() bool { return h.Waiting() == 1 }, 10*time.Second, time.Millisecond)
		require.NoError(t, db.Write.WithContext(t.Context()).Exec("DELETE FROM blobs").Error)
		h.run()
		requireRefusal(t, "BlobNotFound", <-answer)
		require.Empty(t, h.consistent(did))
	})
}
