package index_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

func message(session syntax.ATURI, role, text string) map[string]any {
	m := map[string]any{"session": string(session), "role": role, "text": text, "createdAt": "2026-11-30T10:00:00.000Z"}
	if role == "assistant" {
		m["model"] = "m-1"
	}
	return m
}

// holds tells whether some column of some table of the database holds the words.
func holds(t *testing.T, db *migrations.DB, words string) bool {
	t.Helper()
	for _, query := range []string{
		"SELECT CAST(record AS TEXT) FROM journal WHERE record IS NOT NULL", "SELECT facts FROM journal",
		"SELECT text FROM observations", "SELECT title || repo || cwd FROM sessions", "SELECT message || repair FROM findings",
	} {
		if db.Dialect == migrations.Postgres {
			query = strings.Replace(query, "CAST(record AS TEXT)", "encode(record, 'escape')", 1)
		}
		var rows []string
		require.NoError(t, db.Read.WithContext(t.Context()).Raw(query).Scan(&rows).Error)
		if strings.Contains(strings.Join(rows, "\n"), words) {
			return true
		}
	}
	return false
}

func TestWordsTakenAwayAreKeptNowhere(t *testing.T) {
	for name, after := range map[string]func(map[string]any){
		"redacted": func(m map[string]any) { m["text"] = "my dog is called ███ and is old" },
		"withheld": func(m map[string]any) { m["text"], m["withheld"] = "", true },
		"changed":  func(m map[string]any) { m["text"] = "something else" },
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
				x, a := newIndex(t, db), newAuthor(ada)
				c, chat := a.put(t, lexicons.ChatSessionNSID, key(1), map[string]any{"createdAt": "2026-11-30T09:00:00.000Z"})
				apply(t, x, c)
				c, turn := a.put(t, lexicons.MessageNSID, key(2), message(chat.URI, "user", "my dog is called Balthasar and is old"))
				apply(t, x, c)
				require.True(t, holds(t, db, "Balthasar"), "or this test finds nothing")
				changed := message(chat.URI, "user", "")
				after(changed)
				c, _ = a.put(t, lexicons.MessageNSID, key(2), changed)
				apply(t, x, c)
				require.False(t, holds(t, db, "Balthasar"))
				require.NoError(t, x.Reindex(t.Context()))
				require.False(t, holds(t, db, "Balthasar"))

				turns, err := x.Turns(t.Context(), guest, chat.URI, false, index.Page{})
				require.NoError(t, err)
				require.Len(t, turns.Items, 1)
				want := map[string]string{"redacted": "redacted", "withheld": "withheld", "changed": "text-changed"}[name]
				require.Contains(t, turns.Items[0].Rewrites, want)
				found, err := x.Findings(t.Context(), guest, uris(turn))
				require.NoError(t, err)
				require.Contains(t, codes(found[turn.URI]), lexicons.CodeRewritten)
				versions, err := x.Versions(t.Context(), guest, turn.URI, index.Page{})
				require.NoError(t, err)
				require.Len(t, versions.Items, 2)
				require.Nil(t, versions.Items[0].CBOR)
			})
		})
	}
}

func TestWithheldTurnWithContentIsStripped(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		c, chat := a.put(t, lexicons.ChatSessionNSID, key(1), map[string]any{"createdAt": "2026-11-30T09:00:00.000Z"})
		apply(t, x, c)
		m := message(chat.URI, "user", "Balthasar")
		m["withheld"] = true
		c, turn := a.put(t, lexicons.MessageNSID, key(2), m)
		apply(t, x, c)
		turns, err := x.Turns(t.Context(), guest, chat.URI, false, index.Page{})
		require.NoError(t, err)
		require.True(t, turns.Items[0].Withheld)
		require.Nil(t, turns.Items[0].CBOR)
		rec, err := x.Record(t.Context(), admin, turn.URI)
		require.NoError(t, err)
		require.Nil(t, rec.CBOR)
		versions, err := x.Versions(t.Context(), admin, turn.URI, index.Page{})
		require.NoError(t, err)
		require.Nil(t, versions.Items[0].CBOR)
	})
}

func TestConversation(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a, b := newIndex(t, db), newAuthor(ada), newAuthor(bob)
		chatURI := a.uri(lexicons.ChatSessionNSID, key(1))
		// Turns before their container, as a backfill may bring them.
		c, _ := a.put(t, lexicons.MessageNSID, key(3), message(chatURI, "assistant", "an answer"))
		apply(t, x, c)
		c, first := a.put(t, lexicons.MessageNSID, key(2), message(chatURI, "user", "a question"))
		apply(t, x, c)
		found, err := x.Findings(t.Context(), guest, uris(first))
		require.NoError(t, err)
		require.Contains(t, codes(found[first.URI]), lexicons.CodeSessionMissing)
		turns, err := x.Turns(t.Context(), guest, chatURI, false, index.Page{})
		require.NoError(t, err)
		require.Empty(t, turns.Items, "no container, no conversation")
		turns, err = x.Turns(t.Context(), index.Viewer{DID: ada}, chatURI, false, index.Page{})
		require.NoError(t, err)
		require.Len(t, turns.Items, 2, "but for its author")

		c, _ = a.put(t, lexicons.ChatSessionNSID, key(1), map[string]any{"createdAt": "2026-11-30T09:00:00.000Z", "title": "A talk"})
		apply(t, x, c)
		c, _ = b.put(t, lexicons.MessageNSID, key(4), message(chatURI, "user", "me too"))
		apply(t, x, c)
		found, err = x.Findings(t.Context(), guest, uris(first))
		require.NoError(t, err)
		require.NotContains(t, codes(found[first.URI]), lexicons.CodeSessionMissing, "looked at again when the container arrived")

		list, err := x.ListConversations(t.Context(), guest, index.ConversationFilter{}, index.Page{})
		require.NoError(t, err)
		require.Len(t, list.Items, 1)
		require.EqualValues(t, 2, list.Items[0].Turns)
		require.EqualValues(t, 2, list.Items[0].VisibleTurns)
		turns, err = x.Turns(t.Context(), guest, chatURI, false, index.Page{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, first.URI, turns.Items[0].URI)
		turns, err = x.Turns(t.Context(), guest, chatURI, false, index.Page{Limit: 1, After: turns.Next})
		require.NoError(t, err)
		require.Equal(t, "assistant", turns.Items[0].Role)
		require.Nil(t, turns.Next)
		foreign, err := x.Turns(t.Context(), guest, chatURI, true, index.Page{})
		require.NoError(t, err)
		require.Len(t, foreign.Items, 1)
		opening, err := x.OpeningTurns(t.Context(), guest, []syntax.ATURI{chatURI})
		require.NoError(t, err)
		require.Equal(t, first.URI, opening[chatURI].URI)

		apply(t, x, a.drop(lexicons.MessageNSID, key(2)), a.drop(lexicons.MessageNSID, key(3)))
		list, err = x.ListConversations(t.Context(), guest, index.ConversationFilter{}, index.Page{})
		require.NoError(t, err)
		require.Empty(t, list.Items, "nothing of it is visible")
		list, err = x.ListConversations(t.Context(), index.Viewer{DID: ada}, index.ConversationFilter{}, index.Page{})
		require.NoError(t, err)
		require.Len(t, list.Items, 1)
	})
}

func session(updated, machine, status string) map[string]any {
	return map[string]any{
		"title": "Fix the build", "summary": "goal: green", "updatedAt": updated, "machine": machine, "status": status,
		"repo": "git@Example.com:Team/App.git", "branch": "main", "harness": "pi",
	}
}

func TestSessionVersions(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		for _, v := range []map[string]any{
			session("2026-11-30T10:00:00.000Z", "lab-1", "active"),
			session("2026-11-30T11:00:00.000Z", "lab-1", "ended"),
			session("2026-11-30T10:30:00.000Z", "lab-2", "active"), // goes back in time, and the repo's order wins
		} {
			c, _ := a.put(t, lexicons.SessionNSID, "s.1", v)
			apply(t, x, c)
		}
		uri := a.uri(lexicons.SessionNSID, "s.1")
		s, err := x.Session(t.Context(), guest, uri)
		require.NoError(t, err)
		require.Equal(t, "lab-2", s.Machine)
		require.EqualValues(t, 3, s.Versions)
		require.Equal(t, "example.com/team/app", s.RepoKey)
		versions, err := x.Versions(t.Context(), guest, uri, index.Page{})
		require.NoError(t, err)
		require.Len(t, versions.Items, 3)
		for _, v := range versions.Items {
			require.NotNil(t, v.CBOR)
		}
		newest, err := x.Versions(t.Context(), guest, uri, index.Page{Limit: 1, Reverse: true})
		require.NoError(t, err)
		require.Equal(t, s.CID, newest.Items[0].CID)
		next, err := x.Versions(t.Context(), guest, uri, index.Page{Limit: 1, Reverse: true, After: newest.Next})
		require.NoError(t, err)
		require.Equal(t, versions.Items[1].CID, next.Items[0].CID)
		found, err := x.Findings(t.Context(), guest, []syntax.ATURI{uri})
		require.NoError(t, err)
		for _, code := range []string{lexicons.CodeStaleWrite, lexicons.CodeReopened, lexicons.CodeMoved} {
			require.Contains(t, codes(found[uri]), code)
		}
		list, err := x.ListSessions(t.Context(), guest, index.SessionFilter{Repo: "https://example.com/team/app/"}, index.Page{})
		require.NoError(t, err)
		require.Len(t, list.Items, 1)

		apply(t, x, a.drop(lexicons.SessionNSID, "s.1"))
		require.False(t, holds(t, db, "goal: green"))
		_, err = x.Session(t.Context(), guest, uri)
		require.ErrorIs(t, err, index.ErrNotFound)
	})
}

func TestFutureUpdatedAtDoesNotPinTheTop(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		catalog, err := lexicons.Load()
		require.NoError(t, err)
		clock := now
		x, err := index.New(index.Config{DB: db, Rules: lexicons.NewRules(catalog, lexicons.Settings{}), Now: func() time.Time { return clock }})
		require.NoError(t, err)
		a := newAuthor(ada)
		c, _ := a.put(t, lexicons.SessionNSID, "liar", session("2036-01-01T00:00:00.000Z", "m", "active"))
		apply(t, x, c)
		clock = clock.Add(time.Hour)
		c, honest := a.put(t, lexicons.SessionNSID, "honest", session("2026-11-30T12:30:00.000Z", "m", "active"))
		apply(t, x, c)
		list, err := x.ListSessions(t.Context(), guest, index.SessionFilter{}, index.Page{})
		require.NoError(t, err)
		require.Equal(t, honest.URI, list.Items[0].URI)
	})
}

func strong(r lexicons.StrongRef) map[string]any {
	return map[string]any{"uri": string(r.URI), "cid": r.CID.String()}
}

func TestClassWithParentsAndDrift(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		put := func(collection syntax.NSID, n int, v map[string]any) lexicons.StrongRef {
			c, ref := a.put(t, collection, key(n), v)
			apply(t, x, c)
			return ref
		}
		skill := func(content string) map[string]any {
			return map[string]any{"name": "s", "description": "d", "content": content, "createdAt": "2026-11-30"}
		}
		class := func(name string, parent *lexicons.StrongRef, skills ...lexicons.StrongRef) map[string]any {
			list := []any{}
			for _, s := range skills {
				list = append(list, strong(s))
			}
			v := map[string]any{"name": name, "description": "d", "skills": list, "createdAt": "2026-11-30T10:00:00.000Z"}
			if parent != nil {
				v["parent"] = strong(*parent)
			}
			return v
		}
		s := put(lexicons.SkillNSID, 1, skill("old"))
		root := put(lexicons.ClassNSID, 2, class("root", nil, s))
		mid := put(lexicons.ClassNSID, 3, class("mid", &root))
		leaf := put(lexicons.ClassNSID, 4, class("leaf", &mid, s))
		put(lexicons.SkillNSID, 1, skill("new"))

		res, err := x.Class(t.Context(), guest, leaf.URI)
		require.NoError(t, err)
		require.Equal(t, []lexicons.StrongRef{mid, root}, pins(res))
		require.Equal(t, index.LineRoot, res.End)
		versions, err := x.PinnedVersions(t.Context(), guest, []lexicons.StrongRef{s})
		require.NoError(t, err)
		require.NotNil(t, versions[index.VersionKey(s.URI, s.CID)].CBOR, "the pinned version still resolves")
		found, err := x.Findings(t.Context(), guest, uris(leaf))
		require.NoError(t, err)
		require.Contains(t, codes(found[leaf.URI]), lexicons.CodeRefDrift)
		states, err := x.RefStates(t.Context(), guest, []lexicons.StrongRef{s, root, {URI: a.uri(lexicons.SkillNSID, key(9)), CID: s.CID}, {URI: "at://did:web:unknown.test/a.b.c/d", CID: s.CID}})
		require.NoError(t, err)
		require.Equal(t, index.RefChanged, states[index.VersionKey(s.URI, s.CID)])
		require.Equal(t, index.RefCurrent, states[index.VersionKey(root.URI, root.CID)])
		require.Equal(t, index.RefMissing, states[index.VersionKey(a.uri(lexicons.SkillNSID, key(9)), s.CID)])
		require.Equal(t, index.RefNotIndexed, states[index.VersionKey("at://did:web:unknown.test/a.b.c/d", s.CID)])

		// A circle by edit: the root gets the leaf as its parent.
		put(lexicons.ClassNSID, 2, class("root", &leaf))
		res, err = x.Class(t.Context(), guest, root.URI)
		require.NoError(t, err)
		require.Equal(t, index.LineCycle, res.End)
		require.Equal(t, []lexicons.StrongRef{leaf, mid}, pins(res))
		res, err = x.Class(t.Context(), guest, leaf.URI)
		require.NoError(t, err)
		require.Equal(t, index.LineRoot, res.End, "the version of the root that is pinned has no parent")
		require.True(t, res.Parents[1].Exact)
		refs, err := x.ReferencesTo(t.Context(), guest, leaf.URI, index.RefParent, index.Page{})
		require.NoError(t, err)
		require.Len(t, refs.Items, 1)
	})
}

func pins(res *index.Resolution) []lexicons.StrongRef {
	var out []lexicons.StrongRef
	for _, p := range res.Parents {
		out = append(out, p.Pin)
	}
	return out
}

func TestQuarantinedIsInNoView(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		bad := observation("no method", nil)
		delete(bad, "method")
		c, ref := a.put(t, lexicons.ObservationNSID, key(1), bad)
		apply(t, x, c)
		_, err := x.Record(t.Context(), guest, ref.URI)
		require.ErrorIs(t, err, index.ErrNotFound)
		rec, err := x.Record(t.Context(), admin, ref.URI)
		require.NoError(t, err)
		require.Equal(t, index.StateQuarantined, rec.State)
		list, err := x.ListObservations(t.Context(), admin, index.ObservationFilter{AllVersions: true}, index.Page{})
		require.NoError(t, err)
		require.Empty(t, list.Items)
		found, err := x.ListFindings(t.Context(), guest, index.FindingFilter{}, index.Page{})
		require.NoError(t, err)
		require.Empty(t, found.Items)
		found, err = x.ListFindings(t.Context(), admin, index.FindingFilter{DID: ada}, index.Page{})
		require.NoError(t, err)
		require.NotEmpty(t, found.Items)
		versions, err := x.Versions(t.Context(), guest, ref.URI, index.Page{})
		require.NoError(t, err)
		require.Empty(t, versions.Items)
	})
}

// Text that a text column of Postgres refuses, and text too long for an index
// entry, must not stop the cursor.
func TestTextThatADatabaseRefuses(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		v := observation("nul \x00 in the text", nil)
		long := strings.Repeat("x\x00", 1900)
		v["source"] = map[string]any{"kind": "command\x00", "value": long}
		c, ref := a.put(t, lexicons.ObservationNSID, key(1), v)
		apply(t, x, c)
		o, err := x.Observation(t.Context(), guest, ref.URI)
		require.NoError(t, err)
		require.Equal(t, ref.CID, o.CID)
		list, err := x.ListObservations(t.Context(), guest, index.ObservationFilter{SourceValue: long}, index.Page{})
		require.NoError(t, err)
		require.Len(t, list.Items, 1)
		c, _ = a.put(t, lexicons.ClassNSID, key(2), map[string]any{
			"name": strings.Repeat("n\x00", 10_000), "description": "d", "skills": []any{}, "createdAt": "2026-11-30T10:00:00.000Z",
		})
		apply(t, x, c)
		c, _ = a.put(t, "test.herbarium.any", "k", map[string]any{"a\x00": map[string]any{
			"span": map[string]any{}, "relation": "quotes", "target": strong(ref),
		}})
		apply(t, x, c)
		refs, err := x.ReferencesTo(t.Context(), guest, ref.URI, index.RefCitation, index.Page{})
		require.NoError(t, err)
		require.Len(t, refs.Items, 1, "a citation in a record of any type")
	})
}

func TestProofIsKept(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		c, _ := a.put(t, lexicons.ObservationNSID, key(1), observation("x", nil))
		apply(t, x, c)
		got, err := x.Proof(t.Context(), ada, c.Rev, c.CID)
		require.NoError(t, err)
		require.Equal(t, c.Proof, got)
		n, _ := a.put(t, "test.herbarium.any", "k", map[string]any{})
		apply(t, x, n)
		_, err = x.Proof(t.Context(), ada, n.Rev, n.CID)
		require.ErrorIs(t, err, index.ErrNotFound)
	})
}

func TestRepoKey(t *testing.T) {
	for in, want := range map[string]string{
		"https://github.com/Team/App.git":        "github.com/team/app",
		"https://user:token@github.com/team/app": "github.com/team/app",
		"ssh://git@github.com:22/team/app.git":   "github.com/team/app",
		"git@github.com:team/app.git":            "github.com/team/app",
		"github.com:team/app/":                   "github.com/team/app",
		"git@github.com:/team/app.git/":          "github.com/team/app",
		"git://GitHub.com/team/App.GIT":          "github.com/team/app",
		"http://github.com:8080/team/app.git//":  "github.com/team/app",
		"  https://github.com/team/app \n":       "github.com/team/app",
		"ssh://git@[2001:DB8::1]:2222/app.git":   "[2001:db8::1]/app",
		"git@[2001:db8::1]:app":                  "[2001:db8::1]/app",
		"https://www.github.com/team/app":        "www.github.com/team/app", // another host, for all that is known
		"file:///srv/git/app.git":                "file:///srv/git/app.git",
		"C:/work/App":                            "C:/work/App",
		"/srv/git/app":                           "/srv/git/app",
		"":                                       "",
	} {
		require.Equal(t, want, index.RepoKey(in), in)
	}
}

// A key is its own key, and holds nothing of who logs in.
func FuzzRepoKey(f *testing.F) {
	for _, seed := range []string{"https://u:p@h.test:1/A.git", "git@h.test:a/b.git", "git@[::1]:a", "C:/x", "a:b:c", "[x]:", "@:@", "https://h/%2e.git.git"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, remote string) {
		index.RepoKey(remote)
		for _, name := range []string{"team", "app"} {
			want := index.RepoKey("https://h.test/" + name)
			require.Equal(t, want, index.RepoKey("ssh://git@h.test:22/"+name+".git/"))
			require.Equal(t, want, index.RepoKey("git@h.test:"+name))
			require.Equal(t, want, index.RepoKey(want))
		}
	})
}
