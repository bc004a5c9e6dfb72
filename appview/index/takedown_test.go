package index_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// marker is in every record of a test that is going to be taken down, and in no other.
const marker = "marker-5b21c0de"

// world is a repo with a record of each kind that is to be taken down, and
// others that refer to them.
type world struct {
	hidden map[string]lexicons.StrongRef // what is going to be taken down
	first  lexicons.StrongRef            // the observation before the hidden one
	later  lexicons.StrongRef            // the observation after it
	chat   lexicons.StrongRef            // the conversation that has a hidden turn
	class  lexicons.StrongRef            // the class that has a hidden parent and skill
}

func newWorld(t *testing.T, x *index.Index) world {
	t.Helper()
	a, n := newAuthor(ada), 0
	put := func(collection syntax.NSID, v map[string]any) lexicons.StrongRef {
		n++
		c, ref := a.put(t, collection, key(n), v)
		apply(t, x, c)
		return ref
	}
	const at = "2026-11-30T10:00:00.000Z"
	titled := session(at, "lab-1", "active")
	titled["title"] = marker
	w := world{hidden: map[string]lexicons.StrongRef{}}
	w.first = put(lexicons.ObservationNSID, observation("first", nil))
	w.hidden["observation"] = put(lexicons.ObservationNSID, observation(marker, &w.first))
	hidden := w.hidden["observation"]
	w.later = put(lexicons.ObservationNSID, observation("later", &hidden))
	w.hidden["citation"] = put("org.example.note", map[string]any{"text": marker, "citations": []any{map[string]any{
		"span": map[string]any{"byteStart": int64(0), "byteEnd": int64(1)}, "relation": marker, "target": strong(w.first),
	}}})
	put("org.example.note", map[string]any{"citations": []any{map[string]any{
		"span": map[string]any{"byteStart": int64(0), "byteEnd": int64(1)}, "relation": "quotes", "target": strong(hidden),
	}}})
	w.hidden["session"] = put(lexicons.SessionNSID, titled)
	w.hidden["skill"] = put(lexicons.SkillNSID, map[string]any{"name": marker, "description": marker, "content": marker, "createdAt": at})
	w.hidden["class"] = put(lexicons.ClassNSID, map[string]any{
		"name": marker, "description": marker, "skills": []any{strong(w.hidden["skill"])}, "createdAt": at,
	})
	w.class = put(lexicons.ClassNSID, map[string]any{
		"name": "child", "description": "d", "parent": strong(w.hidden["class"]), "skills": []any{strong(w.hidden["skill"])}, "createdAt": at,
	})
	w.hidden["conversation"] = put(lexicons.ChatSessionNSID, map[string]any{"title": marker, "createdAt": at})
	put(lexicons.MessageNSID, message(w.hidden["conversation"].URI, "user", "in a hidden conversation"))
	w.chat = put(lexicons.ChatSessionNSID, map[string]any{"createdAt": at})
	w.hidden["turn"] = put(lexicons.MessageNSID, message(w.chat.URI, "user", marker))
	put(lexicons.MessageNSID, message(w.chat.URI, "user", "the second word"))
	return w
}

var (
	contents = regexp.MustCompile(`"CBOR":"([^"]*)"`) // the bytes of records in an answer
	branches = regexp.MustCompile(`"Branch":\d+,`)    // numbers without meaning, others after a reindex
)

// answers asks every query of the index about everything there is, and gives
// what each one answers as text.
func (w world) answers(t *testing.T, x *index.Index, v index.Viewer) map[string]string {
	t.Helper()
	out := map[string]string{}
	say := func(query string, answer any, err error) {
		if err != nil {
			require.ErrorIs(t, err, index.ErrNotFound, query)
			answer = "not found"
		}
		raw, err := json.Marshal(answer)
		require.NoError(t, err)
		raw = branches.ReplaceAll(raw, nil)
		out[query] = contents.ReplaceAllStringFunc(string(raw), func(member string) string {
			content, err := base64.StdEncoding.DecodeString(contents.FindStringSubmatch(member)[1])
			require.NoError(t, err)
			return fmt.Sprintf("%q", content)
		})
	}
	all := []syntax.ATURI{w.first.URI, w.later.URI, w.chat.URI, w.class.URI}
	for _, r := range w.hidden {
		all = append(all, r.URI)
	}
	page := index.Page{}
	ctx := t.Context()
	for name, r := range w.hidden {
		versions, err := x.Versions(ctx, v, r.URI, page)
		say("versions of the "+name, versions, err)
		pinned, err := x.PinnedVersions(ctx, v, []lexicons.StrongRef{r})
		say("pinned version of the "+name, pinned, err)
		record, err := x.Record(ctx, v, r.URI)
		say("the "+name, record, err)
	}
	records, err := x.Records(ctx, v, all)
	say("records", records, err)
	found, err := x.Findings(ctx, v, all)
	say("findings", found, err)
	listed, err := x.ListFindings(ctx, v, index.FindingFilter{}, page)
	say("list of findings", listed, err)
	blobs, err := x.Blobs(ctx, v, all)
	say("blobs", blobs, err)

	hydrated, err := x.Observations(ctx, v, all)
	say("observations", hydrated, err)
	observations, err := x.ListObservations(ctx, v, index.ObservationFilter{AllVersions: true}, page)
	say("list of observations", observations, err)
	for _, r := range []lexicons.StrongRef{w.first, w.hidden["observation"], w.later} {
		chain, err := x.Chain(ctx, v, r.URI)
		say("chain of "+string(r.URI), chain, err)
		members, err := x.ChainMembers(ctx, v, r.URI, page)
		say("members of the chain of "+string(r.URI), members, err)
		after, err := x.Successors(ctx, v, r.URI)
		say("successors of "+string(r.URI), after, err)
	}
	citing, err := x.ReferencesTo(ctx, v, w.first.URI, "", page)
	say("references", citing, err)
	counted, err := x.CountSource(ctx, v, "command", "uname -a", 10)
	say("count of a source", counted, err)
	counts, err := x.RecordCounts(ctx, v, []syntax.DID{ada})
	say("counts", counts, err)
	usage, err := x.Usage(ctx, v, ada, index.TraitDevice, 10)
	say("usage", usage, err)

	session, err := x.Session(ctx, v, w.hidden["session"].URI)
	say("session", session, err)
	sessions, err := x.ListSessions(ctx, v, index.SessionFilter{}, page)
	say("list of sessions", sessions, err)
	for _, r := range []lexicons.StrongRef{w.class, w.hidden["class"]} {
		class, err := x.Class(ctx, v, r.URI)
		say("class "+string(r.URI), class, err)
	}
	classes, err := x.ListClasses(ctx, v, index.ClassFilter{}, page)
	say("list of classes", classes, err)
	chats, err := x.ListConversations(ctx, v, index.ConversationFilter{}, page)
	say("list of conversations", chats, err)
	for _, r := range []lexicons.StrongRef{w.chat, w.hidden["conversation"]} {
		chat, err := x.Conversation(ctx, v, r.URI)
		say("conversation "+string(r.URI), chat, err)
		turns, err := x.Turns(ctx, v, r.URI, false, page)
		say("turns of "+string(r.URI), turns, err)
		opening, err := x.OpeningTurns(ctx, v, []syntax.ATURI{r.URI})
		say("opening turn of "+string(r.URI), opening, err)
	}
	return out
}

// telling are the queries whose answers hold the words.
func telling(answers map[string]string, words string) (queries []string) {
	for query, answer := range answers {
		if strings.Contains(answer, words) {
			queries = append(queries, query)
		}
	}
	slices.Sort(queries)
	return queries
}

// What was taken down is in no answer but the operator's, before and after a
// reindex, and in all of them again when that is lifted.
func TestTakedownIsInNoAnswer(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x := newIndex(t, db)
		w := newWorld(t, x)
		readers := map[string]index.Viewer{
			"reader": guest, "author": {DID: ada},
			"public": {Collections: []syntax.NSID{
				lexicons.ObservationNSID, lexicons.SessionNSID, lexicons.SkillNSID, lexicons.ClassNSID, lexicons.ChatSessionNSID, lexicons.MessageNSID, "org.example.note",
			}},
		}
		before := map[string]map[string]string{"operator": w.answers(t, x, admin)}
		for name, v := range readers {
			before[name] = w.answers(t, x, v)
			for kind := range w.hidden {
				require.Contains(t, before[name]["the "+kind], marker, "the search can find it")
			}
			require.Greater(t, len(telling(before[name], marker)), 25, "in lists and views too")
		}
		for _, r := range w.hidden {
			require.NoError(t, x.TakeDown(t.Context(), r.URI))
		}
		hidden := func(when string) {
			t.Helper()
			for name, v := range readers {
				require.Empty(t, telling(w.answers(t, x, v), marker), "%s %s", name, when)
				states, err := x.RefStates(t.Context(), v, slices.Collect(maps.Values(w.hidden)))
				require.NoError(t, err)
				for kind, r := range w.hidden {
					require.Equal(t, index.RefWithheld, states[index.VersionKey(r.URI, r.CID)], "%s of the %s, %s", name, kind, when)
				}
			}
			require.Equal(t, telling(before["operator"], marker), telling(w.answers(t, x, admin), marker))
		}
		hidden("at once")
		want := dump(t, db)
		require.NoError(t, x.Reindex(t.Context()))
		require.Equal(t, want, dump(t, db))
		hidden("after a reindex")

		for _, r := range w.hidden {
			require.NoError(t, x.LiftTakedown(t.Context(), r.URI))
		}
		for name, v := range readers {
			require.Equal(t, before[name], w.answers(t, x, v), name)
		}
		require.Equal(t, before["operator"], w.answers(t, x, admin))
	})
}

// What is around a record that was taken down goes on without it.
func TestAroundATakedown(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x := newIndex(t, db)
		w := newWorld(t, x)
		ctx := t.Context()
		for _, r := range w.hidden {
			require.NoError(t, x.TakeDown(ctx, r.URI))
			require.NoError(t, x.TakeDown(ctx, r.URI), "again")
		}
		chain, err := x.Chain(ctx, guest, w.first.URI)
		require.NoError(t, err)
		require.Equal(t, w.later.URI, chain.Head.URI)
		require.EqualValues(t, 3, chain.Length, "that there was one is no secret")
		members, err := x.ChainMembers(ctx, guest, w.first.URI, index.Page{})
		require.NoError(t, err)
		require.Len(t, members.Items, 2)
		_, err = x.Chain(ctx, guest, w.hidden["observation"].URI)
		require.ErrorIs(t, err, index.ErrNotFound)
		citing, err := x.ReferencesTo(ctx, guest, w.first.URI, index.RefCitation, index.Page{})
		require.NoError(t, err)
		require.Empty(t, citing.Items)
		counts, err := x.RecordCounts(ctx, guest, []syntax.DID{ada})
		require.NoError(t, err)
		require.EqualValues(t, 2, counts[ada][lexicons.ObservationNSID])

		class, err := x.Class(ctx, guest, w.class.URI)
		require.NoError(t, err)
		require.Empty(t, class.Parents)
		require.Equal(t, index.LineUnresolved, class.End)
		versions, err := x.PinnedVersions(ctx, guest, class.Class.Skills)
		require.NoError(t, err)
		require.Empty(t, versions)

		chat := func() *index.Conversation {
			c, err := x.Conversation(ctx, guest, w.chat.URI)
			require.NoError(t, err)
			return c
		}
		require.EqualValues(t, 1, chat().Turns)
		require.EqualValues(t, 1, chat().VisibleTurns)
		opening, err := x.OpeningTurns(ctx, guest, []syntax.ATURI{w.chat.URI})
		require.NoError(t, err)
		require.Contains(t, string(opening[w.chat.URI].CBOR), "the second word")
		for name, v := range map[string]index.Viewer{"reader": guest, "author": {DID: ada}} {
			turns, err := x.Turns(ctx, v, w.hidden["conversation"].URI, false, index.Page{})
			require.NoError(t, err)
			require.Empty(t, turns.Items, name)
		}
		require.NoError(t, x.LiftTakedown(ctx, w.hidden["turn"].URI))
		require.EqualValues(t, 2, chat().Turns)
		require.NoError(t, x.LiftTakedown(ctx, w.hidden["turn"].URI), "nothing to lift")
	})
}

// A takedown is of a place: it may come before the record, and stays through
// what happens to it.
func TestTakedownIsOfAPlace(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		uri := a.uri(lexicons.SessionNSID, "s")
		require.NoError(t, x.TakeDown(t.Context(), uri))
		absent := func() {
			t.Helper()
			_, err := x.Record(t.Context(), guest, uri)
			require.ErrorIs(t, err, index.ErrNotFound)
			held, err := x.Record(t.Context(), admin, uri)
			require.NoError(t, err)
			require.True(t, held.TakenDown)
		}
		c, _ := a.put(t, lexicons.SessionNSID, "s", session("2026-11-30T10:00:00.000Z", "m1", "active"))
		apply(t, x, c)
		absent()
		c, _ = a.put(t, lexicons.SessionNSID, "s", session("2026-11-30T11:00:00.000Z", "m1", "ended"))
		apply(t, x, c)
		absent()
		apply(t, x, a.drop(lexicons.SessionNSID, "s"))
		absent()
	})
}

func TestTakenDownIsListedInPages(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		var want []syntax.ATURI
		for n := range 5 {
			want = append(want, a.uri(lexicons.ObservationNSID, key(n)))
		}
		for _, uri := range slices.Backward(want) {
			require.NoError(t, x.TakeDown(t.Context(), uri))
		}
		var got []syntax.ATURI
		for after := syntax.ATURI(""); ; after = got[len(got)-1] {
			page, err := x.TakenDown(t.Context(), after, 2)
			require.NoError(t, err)
			got = append(got, page...)
			if len(page) < 2 {
				break
			}
		}
		require.Equal(t, want, got)
	})
}
