package appview_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

func session(more object) object {
	v := object{
		"title": "Port the parser", "summary": "goal: port\nnext: tests\n", "updatedAt": "2026-11-30T11:50:00.000Z", "startedAt": "2026-11-30T09:00:00.000Z",
		"status": "active", "harness": "pi", "machine": "lab-1", "cwd": "/home/ada/it's here", "repo": "https://tok:en@git.example/A.git", "branch": "main", "model": "m-1",
	}
	for k, value := range more {
		v[k] = value
	}
	return v
}

func TestSessionView(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada, bob, mallory := newAuthor("did:web:ada.test"), newAuthor("did:web:bob.test"), newAuthor("did:web:mallory.test")
		s.team["did:web:ada.test"], s.team["did:web:bob.test"] = "https://host.test", "https://host.test"
		run := string(tid(1))
		made := func(c *index.Commit, ref lexicons.StrongRef) lexicons.StrongRef {
			s.apply(c)
			return ref
		}
		s.now = noon.Add(-20 * time.Minute)
		first := made(ada.put(t, lexicons.SessionNSID, run, session(object{"updatedAt": "2026-11-30T11:40:00.000Z"})))
		s.now = noon.Add(-10 * time.Minute)
		latest := made(ada.put(t, lexicons.SessionNSID, run, session(object{"machine": "lab-2", "summary": "goal: port\nnext: ship\n"})))
		require.Equal(t, first.URI, latest.URI)
		exact := made(ada.put(t, lexicons.ObservationNSID, string(tid(60)), observation("run of the session", object{"generator": object{"run": run, "device": "lab-9"}})))
		inferred := made(ada.put(t, lexicons.ObservationNSID, string(tid(70)), observation("same machine", object{"generator": object{"run": string(tid(2)), "device": "lab-2", "harness": "pi"}})))
		made(ada.put(t, lexicons.ObservationNSID, string(tid(80)), observation("another harness", object{"generator": object{"run": string(tid(3)), "device": "lab-2", "harness": "other"}})))
		sibling := made(bob.put(t, lexicons.SessionNSID, run, session(object{"title": "The same work"})))
		made(mallory.put(t, lexicons.SessionNSID, run, session(object{"title": "Spoof"})))
		s.now = noon

		view := at(t, s.get("getSession", "uri", string(latest.URI)), "session")
		require.Equal(t, latest.CID.String(), at(t, view, "cid"))
		require.Equal(t, "active", at(t, view, "derived", "state"))
		require.Equal(t, true, at(t, view, "derived", "inferred"))
		require.Equal(t, "last updated 10 min ago, less than 30 min", at(t, view, "derived", "because"))
		require.Equal(t, "https://***@git.example/A.git", at(t, view, "resume", "repo"))
		require.Equal(t, `cd -- '/home/ada/it'\''s here' && git switch main && pi --session `+run, at(t, view, "resume", "command"))

		require.Len(t, at(t, view, "versions"), 2)
		require.EqualValues(t, 2, at(t, view, "versionCount"))
		require.Equal(t, []any{"moved"}, at(t, view, "versions", 0, "events"))
		require.Equal(t, "@@ -1,2 +1,2 @@\n goal: port\n-next: tests\n+next: ship\n", at(t, view, "versions", 0, "summary", "unified"))
		require.Equal(t, []any{"started"}, at(t, view, "versions", 1, "events"))
		require.Equal(t, `handed over: machine from "lab-1" to "lab-2"`, at(t, view, "handOvers", 0, "because"))

		require.Len(t, at(t, view, "related"), 2)
		require.Equal(t, string(exact.URI), at(t, view, "related", 0, "uri"))
		require.Equal(t, "exact", at(t, view, "related", 0, "basis"))
		require.Equal(t, string(inferred.URI), at(t, view, "related", 1, "uri"))
		require.Equal(t, "inferred", at(t, view, "related", 1, "basis"))
		require.Contains(t, at(t, view, "related", 1, "because"), "lab-2")

		require.Len(t, at(t, view, "workItem", "sessions"), 1, "outside the team the key proves nothing")
		require.Equal(t, string(sibling.URI), at(t, view, "workItem", "sessions", 0, "uri"))

		doc := s.get("getSession", "uri", string(latest.URI), "format", "markdown")["markdown"]
		require.Contains(t, doc, "**active (inferred)**: last updated 10 min ago")
		require.Contains(t, doc, "> next: ship\n")
		require.NotContains(t, doc, "tok:en")
		golden(t, "session.md", doc.(string))

		s.now = noon.Add(48 * time.Hour)
		require.Equal(t, "stale", at(t, s.get("getSession", "uri", string(latest.URI)), "session", "derived", "state"), "a state is of the moment of reading")

		s.apply(ada.drop(t, lexicons.SessionNSID, run))
		gone := at(t, s.get("getSession", "uri", string(latest.URI)), "session")
		require.Equal(t, "deleted", at(t, gone, "state"))
		require.NotContains(t, gone, "title")
		require.NotContains(t, gone, "versions", "no version keeps its content")
	})
}

// Strangers who use the key of a work item hide nothing of it, and what belongs to a
// session is not more than its lexicon allows.
func TestStrangersDoNotCrowdOutAWorkItem(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada, bob := newAuthor("did:web:ada.test"), newAuthor("did:web:bob.test")
		s.team[ada.did], s.team[bob.did] = "https://host.test", "https://host.test"
		run := string(tid(1))
		s.now = noon.Add(-time.Hour)
		c, sibling := bob.put(t, lexicons.SessionNSID, run, session(object{"title": "The same work"}))
		s.apply(c)
		c, work := ada.put(t, lexicons.SessionNSID, run, session(nil))
		s.apply(c)
		s.now = noon
		for n := range index.MaxLimit + 5 {
			c, _ := newAuthor(syntax.DID(fmt.Sprintf("did:web:stranger%d.test", n))).put(t, lexicons.SessionNSID, run, session(object{"title": "Spoof"}))
			s.apply(c)
			c, _ = ada.put(t, lexicons.ObservationNSID, string(tid(100+n)), observation("seen", object{"generator": object{"run": run, "device": "lab-1"}}))
			s.apply(c)
			c, _ = ada.put(t, lexicons.ObservationNSID, string(tid(400+n)), observation("near", object{"generator": object{"run": string(tid(2)), "device": "lab-1"}}))
			s.apply(c)
		}
		view := at(t, s.get("getSession", "uri", string(work.URI)), "session")
		require.Len(t, at(t, view, "workItem", "sessions"), 1)
		require.Equal(t, string(sibling.URI), at(t, view, "workItem", "sessions", 0, "uri"))
		require.Len(t, at(t, view, "related"), index.MaxLimit)
	})
}

func TestListSessionsByDerivedState(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		for name, more := range map[string]object{
			"active":  {"updatedAt": "2026-11-30T11:45:00.000Z"},
			"idle":    {"updatedAt": "2026-11-30T08:00:00.000Z"},
			"stale":   {"updatedAt": "2026-11-20T08:00:00.000Z"},
			"ended":   {"updatedAt": "2026-11-30T11:59:00.000Z", "status": "ended"},
			"unknown": {"updatedAt": "2026-11-30T11:59:00.000Z", "status": "paused"},
			"ahead":   {"updatedAt": "2026-11-30T20:00:00.000Z"},
		} {
			c, _ := ada.put(t, lexicons.SessionNSID, name, session(more))
			s.apply(c)
		}
		titles := func(params ...string) []string {
			var keys []string
			for _, item := range at(t, s.get("listSessions", params...), "sessions").([]any) {
				uri := at(t, item, "uri").(string)
				keys = append(keys, uri[len("at://did:web:ada.test/garden.engram.session/"):])
			}
			return keys
		}
		require.ElementsMatch(t, []string{"active", "ahead"}, titles("state", "active"))
		require.Equal(t, []string{"idle"}, titles("state", "idle"))
		require.Equal(t, []string{"stale"}, titles("state", "stale"))
		require.Equal(t, []string{"ended"}, titles("state", "ended"))
		require.Len(t, titles(), 6)
		require.Equal(t, []string{"idle"}, titles("state", "idle", "since", "2026-11-30T07:00:00Z"))
		require.Empty(t, titles("state", "idle", "since", "2026-11-30T09:00:00Z"))
		require.Len(t, titles("repo", "git@git.example:a"), 6, "any spelling of the remote")
		require.Empty(t, titles("machine", "lab-7"))
		name, _ := s.refuse("listSessions", "state", "idle", "status", "ended")
		require.Equal(t, "InvalidRequest", name)
		for _, item := range at(t, s.get("listSessions"), "sessions").([]any) {
			if at(t, item, "status") == "paused" {
				require.Equal(t, "unknown", at(t, item, "derived", "state"))
				require.Equal(t, false, at(t, item, "derived", "inferred"))
			}
		}
	})
}
