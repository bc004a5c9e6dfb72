package lexicons_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

func checkState(t *testing.T, s lexicons.Settings, ch lexicons.Change, w *world) []lexicons.Finding {
	t.Helper()
	found, err := lexicons.NewRules(catalog(t), s).CheckState(context.Background(), ch, w)
	require.NoError(t, err)
	return found
}

func requireRefusal(t *testing.T, found []lexicons.Finding, name, repair string) {
	t.Helper()
	err := lexicons.RefusedBy(found)
	require.Error(t, err)
	var refused *lexicons.Refused
	require.ErrorAs(t, err, &refused)
	require.Equal(t, name, refused.Name())
	require.True(t, len(repair) > 0 && len(err.Error()) > len(repair))
	require.Equal(t, "; "+repair, err.Error()[len(err.Error())-len(repair)-2:], "the message ends in the repair")
}

func head(ref map[string]any) string {
	return "head " + ref["uri"].(string) + " " + ref["cid"].(string)
}

func (w *world) setHead(of string, ref map[string]any) {
	c, err := cid.Decode(ref["cid"].(string))
	if err != nil {
		panic(err)
	}
	w.heads[syntax.ATURI(of)] = &lexicons.StrongRef{URI: syntax.ATURI(ref["uri"].(string)), CID: c}
}

func (w *world) bury(uri syntax.ATURI) {
	delete(w.records, uri)
	w.tombs[uri] = &lexicons.Tombstone{URI: uri}
}

// stateCase is a record, laid over a sample, and what the rules say of it in its world.
type stateCase struct {
	name   string
	change map[string]any
	want   []string
}

func TestObservationIsImmutable(t *testing.T) {
	w := newWorld()
	first := w.put(t, lexicons.ObservationNSID, tid1, observation)

	same := w.update(t, lexicons.ObservationNSID, tid1, observation)
	require.Empty(t, checkState(t, lexicons.Settings{}, same, w), "the very bytes again are no edit")
	found, err := lexicons.NewRules(catalog(t), lexicons.Settings{}).Check(context.Background(), same, w)
	require.NoError(t, err)
	require.Empty(t, found)

	edited := w.update(t, lexicons.ObservationNSID, tid1, edit(observation, map[string]any{"text": "BSD"}))
	found = checkState(t, lexicons.Settings{}, edited, w)
	require.Equal(t, []string{"!edited  ImmutableRecord"}, summary(found))
	requireRefusal(t, found, "ImmutableRecord", head(first))

	// A create over a record that stands there is the same back door.
	edited.Action = lexicons.Create
	requireRefusal(t, checkState(t, lexicons.Settings{}, edited, w), "ImmutableRecord", head(first))

	// When the chain went on, its head is what to supersede.
	second := w.put(t, lexicons.ObservationNSID, tid2, edit(observation, map[string]any{"supersedes": first}))
	w.setHead(first["uri"].(string), second)
	requireRefusal(t, checkState(t, lexicons.Settings{}, edited, w), "ImmutableRecord", head(second))
}

func TestRecordKeysOfDeletedRecords(t *testing.T) {
	w := newWorld()
	for _, nsid := range []syntax.NSID{lexicons.ObservationNSID, lexicons.MessageNSID, lexicons.SkillNSID, lexicons.ClassNSID, lexicons.SessionNSID} {
		w.bury(uriOf(nsid, tid1))
	}
	require.Equal(t, []string{"!rkey-reused  RecordTombstoned"}, summary(checkState(t, lexicons.Settings{}, change(t, lexicons.ObservationNSID, tid1, observation), w)))
	found := checkState(t, lexicons.Settings{}, change(t, lexicons.MessageNSID, tid1, message), w)
	require.Equal(t, []string{"!rkey-reused  RecordTombstoned", "session-missing /session"}, summary(found))
	found = checkState(t, lexicons.Settings{Messages: lexicons.MessageOff}, change(t, lexicons.MessageNSID, tid1, message), w)
	require.Equal(t, []string{"session-missing /session"}, summary(found))
	for _, nsid := range []syntax.NSID{lexicons.SkillNSID, lexicons.ClassNSID, lexicons.SessionNSID} {
		require.NoError(t, lexicons.RefusedBy(checkState(t, lexicons.Settings{}, change(t, nsid, tid1, samples[nsid]), w)), nsid)
	}
	require.Empty(t, checkState(t, lexicons.Settings{}, change(t, lexicons.ObservationNSID, tid2, observation), w))
}

func TestSupersedes(t *testing.T) {
	later := func(target map[string]any) map[string]any {
		return edit(observation, map[string]any{"supersedes": target, "text": "Linux 7", "observedAt": "2026-02-24T00:00:01Z"})
	}
	w := newWorld()
	first := w.put(t, lexicons.ObservationNSID, tid1, observation)

	require.Empty(t, checkState(t, lexicons.Settings{}, change(t, lexicons.ObservationNSID, tid2, later(first)), w))

	t.Run("target never existed", func(t *testing.T) {
		found := checkState(t, lexicons.Settings{}, change(t, lexicons.ObservationNSID, tid2, later(strongRef(observationURI(tid3)))), w)
		require.Equal(t, []string{"!supersedes-dangling /supersedes/uri SupersedesNotFound"}, summary(found))
	})
	t.Run("target has another CID", func(t *testing.T) {
		found := checkState(t, lexicons.Settings{}, change(t, lexicons.ObservationNSID, tid2, later(strongRef(observationURI(tid1)))), w)
		require.Equal(t, []string{"!supersedes-cid-mismatch /supersedes/cid SupersedesCidMismatch"}, summary(found))
		requireRefusal(t, found, "SupersedesCidMismatch", "cid "+first["cid"].(string))
	})
	t.Run("target in another repo", func(t *testing.T) {
		foreign := strongRef("at://" + string(other) + "/garden.engram.agents.observation/" + tid1)
		found := checkState(t, lexicons.Settings{}, change(t, lexicons.ObservationNSID, tid2, later(foreign)), w)
		require.Equal(t, []string{"supersedes-foreign /supersedes"}, summary(found))
	})
	t.Run("target superseded already", func(t *testing.T) {
		w := newWorld()
		first := w.put(t, lexicons.ObservationNSID, tid1, observation)
		second := w.put(t, lexicons.ObservationNSID, tid2, later(first))
		w.setHead(first["uri"].(string), second)
		ch := change(t, lexicons.ObservationNSID, tid3, later(first))
		found := checkState(t, lexicons.Settings{}, ch, w)
		require.Equal(t, []string{"!forked /supersedes AlreadySuperseded"}, summary(found))
		requireRefusal(t, found, "AlreadySuperseded", head(second))

		found = checkState(t, lexicons.Settings{Supersedes: lexicons.PolicyFlag}, ch, w)
		require.Equal(t, []string{"forked /supersedes"}, summary(found))

		// The head is told even when the CID is wrong as well: one retry suffices.
		found = checkState(t, lexicons.Settings{}, change(t, lexicons.ObservationNSID, tid3, later(strongRef(observationURI(tid1)))), w)
		requireRefusal(t, found, "AlreadySuperseded", head(second))
	})
	t.Run("target deleted", func(t *testing.T) {
		w := newWorld()
		w.bury(uriOf(lexicons.ObservationNSID, tid1))
		ch := change(t, lexicons.ObservationNSID, tid3, later(first))
		require.Equal(t, []string{"supersedes-deleted /supersedes"}, summary(checkState(t, lexicons.Settings{}, ch, w)))

		// A live record that descends from the tombstone is still the head.
		second := w.put(t, lexicons.ObservationNSID, tid2, later(first))
		w.setHead(first["uri"].(string), second)
		requireRefusal(t, checkState(t, lexicons.Settings{}, ch, w), "AlreadySuperseded", head(second))
	})
	t.Run("observed before its target", func(t *testing.T) {
		value := edit(later(first), map[string]any{"observedAt": "2026-02-23T23:00:00Z"})
		require.Equal(t, []string{"supersedes-backwards /observedAt"}, summary(checkState(t, lexicons.Settings{}, change(t, lexicons.ObservationNSID, tid2, value), w)))
	})
	t.Run("of another source", func(t *testing.T) {
		value := edit(later(first), map[string]any{"source": map[string]any{"kind": "command", "value": "uname -r"}})
		require.Equal(t, []string{"supersedes-other-source /source"}, summary(checkState(t, lexicons.Settings{}, change(t, lexicons.ObservationNSID, tid2, value), w)))
	})
	t.Run("unchanged", func(t *testing.T) {
		value := edit(later(first), map[string]any{"text": "Linux"})
		require.Equal(t, []string{"unchanged "}, summary(checkState(t, lexicons.Settings{}, change(t, lexicons.ObservationNSID, tid2, value), w)))
	})
	t.Run("same text, new bytes", func(t *testing.T) {
		w := newWorld()
		first := w.put(t, lexicons.ObservationNSID, tid1, observation)
		upload(t, w, "text/plain", 3)
		value := edit(later(first), map[string]any{"text": "Linux", "content": blobValue("text/plain", 3)})
		require.Empty(t, checkState(t, lexicons.Settings{}, change(t, lexicons.ObservationNSID, tid2, value), w))
	})
}

func upload(t *testing.T, w *world, mime string, size int64) {
	t.Helper()
	c, err := cid.Decode(blobCID)
	require.NoError(t, err)
	w.blobs[c] = &lexicons.StoredBlob{CID: c, MimeType: mime, Size: size}
}

func TestUploadedBlobs(t *testing.T) {
	withBlob := func(nsid syntax.NSID, mime string, size int) lexicons.Change {
		return change(t, nsid, tid1, edit(samples[nsid], map[string]any{"content": blobValue(mime, size)}))
	}
	w := newWorld()
	require.Equal(t, []string{"!BlobNotFound /content/ref BlobNotFound"}, summary(checkState(t, lexicons.Settings{}, withBlob(lexicons.ObservationNSID, "image/png", 3), w)))
	require.Equal(t, []string{"!BlobNotFound /content/ref BlobNotFound"}, summary(checkState(t, lexicons.Settings{}, withBlob("com.example.blah", "image/png", 3), w)), "in any collection")

	upload(t, w, "image/png", 3)
	require.Empty(t, checkState(t, lexicons.Settings{}, withBlob(lexicons.ObservationNSID, "image/png", 3), w))
	found := checkState(t, lexicons.Settings{}, withBlob(lexicons.ObservationNSID, "image/gif", 3), w)
	requireRefusal(t, found, "InvalidMimeType", "mimeType image/png")
	found = checkState(t, lexicons.Settings{}, withBlob(lexicons.ObservationNSID, "image/png", 4), w)
	requireRefusal(t, found, "InvalidSize", "size 3")
	found = checkState(t, lexicons.Settings{BlobLimit: 2}, withBlob(lexicons.ObservationNSID, "image/png", 3), w)
	requireRefusal(t, found, "BlobTooLarge", "at most 2 bytes")
}

func TestSessionRewrites(t *testing.T) {
	w := newWorld()
	w.put(t, lexicons.SessionNSID, "work", edit(session, map[string]any{"status": "ended"}))
	for _, c := range []stateCase{
		{"ended, later", map[string]any{"updatedAt": "2026-02-24T00:00:01Z", "status": "ended"}, []string{}},
		{"earlier", map[string]any{"updatedAt": "2026-02-23T00:00:00Z", "status": "ended"}, []string{"stale-write /updatedAt"}},
		{"start moved", map[string]any{"startedAt": "2026-02-22T00:00:00Z", "status": "ended"}, []string{"started-changed /startedAt"}},
		{"start removed", map[string]any{"startedAt": nil, "status": "ended"}, []string{"started-changed /startedAt"}},
		{"goes on", map[string]any{"status": "active"}, []string{"reopened /status"}},
		{"handed over", map[string]any{"machine": "shed", "model": "m2", "status": "ended"}, []string{"moved /machine", "moved /model"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := checkState(t, lexicons.Settings{}, w.update(t, lexicons.SessionNSID, "work", edit(session, c.change)), w)
			require.Equal(t, c.want, summary(found))
		})
	}
}

func TestMessageRewritePolicy(t *testing.T) {
	w := newWorld()
	w.put(t, lexicons.ChatSessionNSID, tid1, chatSession)
	w.put(t, lexicons.MessageNSID, tid2, message)
	redacted := map[string]any{"text": "The seeds in drawer four are ███."}
	reworded := map[string]any{"text": "The seeds in drawer four are rape."}
	for _, c := range []struct {
		name   string
		policy lexicons.MessagePolicy
		change map[string]any
		want   []string
	}{
		{"redact-only takes a bar", lexicons.MessageRedactOnly, redacted, []string{"rewritten "}},
		{"redact-only refuses other words", lexicons.MessageRedactOnly, reworded, []string{"!rewritten /text ImmutableRecord"}},
		{"the default is redact-only", "", reworded, []string{"!rewritten /text ImmutableRecord"}},
		{"strict refuses a bar", lexicons.MessageStrict, redacted, []string{"!rewritten  ImmutableRecord"}},
		{"off takes other words", lexicons.MessageOff, reworded, []string{"rewritten "}},
		{"the same again", lexicons.MessageStrict, nil, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ch := w.update(t, lexicons.MessageNSID, tid2, edit(message, c.change))
			require.Equal(t, c.want, summary(checkState(t, lexicons.Settings{Messages: c.policy}, ch, w)))
		})
	}
	require.Empty(t, checkState(t, lexicons.Settings{}, change(t, lexicons.MessageNSID, tid3, message), w), "its container stands")
}

func TestClassLineage(t *testing.T) {
	withParent := func(ref map[string]any) map[string]any {
		return edit(class, map[string]any{"parent": ref, "skills": []any{}})
	}
	w := newWorld()
	root := w.put(t, lexicons.ClassNSID, tid1, edit(class, map[string]any{"skills": []any{}}))
	child := w.put(t, lexicons.ClassNSID, tid2, withParent(root))

	require.Empty(t, checkState(t, lexicons.Settings{}, change(t, lexicons.ClassNSID, tid3, withParent(child)), w))

	found := checkState(t, lexicons.Settings{}, w.update(t, lexicons.ClassNSID, tid1, withParent(child)), w)
	require.Equal(t, []string{"!parent-cycle /parent InvalidRequest"}, summary(found), "the root would descend from its child")

	found = checkState(t, lexicons.Settings{}, change(t, lexicons.ClassNSID, tid3, withParent(strongRef(classURI(tid1)))), w)
	require.Equal(t, []string{"ref-drift /parent"}, summary(found))

	gone := "3mfkzzzzzz222"
	found = checkState(t, lexicons.Settings{}, change(t, lexicons.ClassNSID, tid3, withParent(strongRef(classURI(gone)))), w)
	require.Equal(t, []string{"ref-missing /parent"}, summary(found))

	foreign := strongRef("at://" + string(other) + "/com.publicdomainrelay.temp.agent.class/" + tid1)
	require.Empty(t, checkState(t, lexicons.Settings{}, change(t, lexicons.ClassNSID, tid3, withParent(foreign)), w))

	// A cycle that stands already, above the class that is written.
	w.put(t, lexicons.ClassNSID, tid1, withParent(strongRef(classURI(tid2))))
	found = checkState(t, lexicons.Settings{}, change(t, lexicons.ClassNSID, tid3, withParent(child)), w)
	require.Equal(t, []string{"parent-cycle /parent"}, summary(found))
}

func TestClassLineageDepth(t *testing.T) {
	w := newWorld()
	clock := syntax.NewTIDClock(0)
	parent := w.put(t, lexicons.ClassNSID, clock.Next().String(), edit(class, map[string]any{"skills": []any{}}))
	for range 31 {
		parent = w.put(t, lexicons.ClassNSID, clock.Next().String(), edit(class, map[string]any{"skills": []any{}, "parent": parent}))
	}
	ch := change(t, lexicons.ClassNSID, tid3, edit(class, map[string]any{"skills": []any{}, "parent": parent}))
	require.Empty(t, checkState(t, lexicons.Settings{}, ch, w), "32 ancestors")
	parent = w.put(t, lexicons.ClassNSID, clock.Next().String(), edit(class, map[string]any{"skills": []any{}, "parent": parent}))
	ch = change(t, lexicons.ClassNSID, tid3, edit(class, map[string]any{"skills": []any{}, "parent": parent}))
	require.Equal(t, []string{"parent-too-deep /parent"}, summary(checkState(t, lexicons.Settings{}, ch, w)))
}

func TestClassTools(t *testing.T) {
	w := newWorld()
	sorting := w.put(t, lexicons.SkillNSID, tid1, skill)
	rival := w.put(t, lexicons.SkillNSID, tid2, edit(skill, map[string]any{"name": "rival"}))
	mute := w.put(t, lexicons.SkillNSID, tid3, edit(skill, map[string]any{"tools": nil}))
	root := w.put(t, lexicons.ClassNSID, tid1, edit(class, map[string]any{"skills": []any{sorting}}))
	for _, c := range []stateCase{
		{"offered", map[string]any{"skills": []any{sorting}, "entryTool": "sort-seeds"}, []string{}},
		{"offered by an ancestor", map[string]any{"skills": []any{}, "parent": root, "entryTool": "sort-seeds"}, []string{}},
		{"not offered", map[string]any{"skills": []any{sorting}, "entryTool": "water"}, []string{"entry-tool-unresolved /entryTool"}},
		{"nobody declares tools", map[string]any{"skills": []any{mute}, "entryTool": "water"}, []string{}},
		{"a skill is missing", map[string]any{"skills": []any{sorting, strongRef(skillURI("3mfkzzzzzz222"))}, "entryTool": "water"}, []string{"ref-missing /skills/1"}},
		{"two offer it", map[string]any{"skills": []any{sorting, rival}}, []string{"tool-collision /skills"}},
		{"one skill by two ways", map[string]any{"skills": []any{sorting}, "parent": root}, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := checkState(t, lexicons.Settings{}, change(t, lexicons.ClassNSID, tid2, edit(class, c.change)), w)
			require.Equal(t, c.want, summary(found))
		})
	}
}

func TestCheckBatch(t *testing.T) {
	del := func(nsid syntax.NSID, rkey string) lexicons.Change {
		return lexicons.Change{Action: lexicons.Delete, DID: author, URI: uriOf(nsid, rkey), RecordKey: syntax.RecordKey(rkey), Now: now}
	}
	supersede := func(rkey, target string) lexicons.Change {
		return change(t, lexicons.ObservationNSID, rkey, edit(observation, map[string]any{"supersedes": strongRef(observationURI(target))}))
	}
	for _, c := range []struct {
		name     string
		settings lexicons.Settings
		batch    []lexicons.Change
		want     []string
	}{
		{"observation deleted and created", lexicons.Settings{},
			[]lexicons.Change{del(lexicons.ObservationNSID, tid1), change(t, lexicons.ObservationNSID, tid1, observation)},
			[]string{"1 !edited  ImmutableRecord"}},
		{"observation created and deleted", lexicons.Settings{},
			[]lexicons.Change{change(t, lexicons.ObservationNSID, tid1, observation), del(lexicons.ObservationNSID, tid1)}, []string{}},
		{"another key", lexicons.Settings{},
			[]lexicons.Change{del(lexicons.ObservationNSID, tid1), change(t, lexicons.ObservationNSID, tid2, observation)}, []string{}},
		{"message deleted and created", lexicons.Settings{},
			[]lexicons.Change{del(lexicons.MessageNSID, tid1), change(t, lexicons.MessageNSID, tid1, message)},
			[]string{"1 !rkey-reused  RecordTombstoned"}},
		{"message deleted and created, policy off", lexicons.Settings{Messages: lexicons.MessageOff},
			[]lexicons.Change{del(lexicons.MessageNSID, tid1), change(t, lexicons.MessageNSID, tid1, message)}, []string{}},
		{"skill deleted and created", lexicons.Settings{},
			[]lexicons.Change{del(lexicons.SkillNSID, tid1), change(t, lexicons.SkillNSID, tid1, skill)}, []string{}},
		{"a chain", lexicons.Settings{},
			[]lexicons.Change{change(t, lexicons.ObservationNSID, tid1, observation), supersede(tid2, tid1), supersede(tid3, tid2)}, []string{}},
		{"two successors", lexicons.Settings{},
			[]lexicons.Change{supersede(tid2, tid1), supersede(tid3, tid1)}, []string{"1 !forked /supersedes AlreadySuperseded"}},
		{"two successors, flagged", lexicons.Settings{Supersedes: lexicons.PolicyFlag},
			[]lexicons.Change{supersede(tid2, tid1), supersede(tid3, tid1)}, []string{"1 forked /supersedes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			by := lexicons.NewRules(catalog(t), c.settings).CheckBatch(c.batch)
			require.Len(t, by, len(c.batch))
			got := []string{}
			for i, found := range by {
				for _, f := range summary(found) {
					got = append(got, fmt.Sprint(i, " ", f))
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

// What stands in a repo may be older than the rules: it is no fault of the
// write that comes after it.
func TestStoredRecordsMayBeBroken(t *testing.T) {
	w := newWorld()
	c, err := cid.Decode(dataCID)
	require.NoError(t, err)
	broken := func(nsid syntax.NSID, rkey string) *lexicons.StoredRecord {
		stored := &lexicons.StoredRecord{URI: uriOf(nsid, rkey), CID: c, CBOR: []byte{0xff}}
		w.records[stored.URI] = stored
		return stored
	}
	broken(lexicons.ObservationNSID, tid1)
	value := edit(observation, map[string]any{"supersedes": strongRef(observationURI(tid1))})
	require.Empty(t, checkState(t, lexicons.Settings{}, change(t, lexicons.ObservationNSID, tid2, value), w))
	broken(lexicons.SkillNSID, tid1)
	broken(lexicons.ClassNSID, tid1)
	value = edit(class, map[string]any{"parent": strongRef(classURI(tid1)), "entryTool": "x"})
	require.Empty(t, checkState(t, lexicons.Settings{}, change(t, lexicons.ClassNSID, tid2, value), w))
	for _, nsid := range []syntax.NSID{lexicons.SessionNSID, lexicons.MessageNSID} {
		broken(nsid, tid1)
		require.NoError(t, lexicons.RefusedBy(checkState(t, lexicons.Settings{}, w.update(t, nsid, tid1, samples[nsid]), w)), nsid)
	}
}

func TestDeletesHaveNoFindings(t *testing.T) {
	w := newWorld()
	w.put(t, lexicons.ObservationNSID, tid1, observation)
	ch := lexicons.Change{Action: lexicons.Delete, DID: author, URI: uriOf(lexicons.ObservationNSID, tid1), RecordKey: tid1, Prev: w.records[uriOf(lexicons.ObservationNSID, tid1)], Now: now}
	found, err := lexicons.NewRules(catalog(t), lexicons.Settings{}).Check(context.Background(), ch, w)
	require.NoError(t, err)
	require.Empty(t, found)
}
