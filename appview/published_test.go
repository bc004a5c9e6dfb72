package appview_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

const noteNSID = syntax.NSID("org.example.note")

// worldCollections are what a random world is made of.
var worldCollections = []syntax.NSID{
	lexicons.ObservationNSID, lexicons.SessionNSID, lexicons.ChatSessionNSID, lexicons.MessageNSID,
	lexicons.ClassNSID, lexicons.SkillNSID, lexicons.ClaimNSID, noteNSID,
}

// nobodies are the viewers who get the published collections alone; the repo of
// the second is indexed, and has conversations without a turn.
var nobodies = map[string]xrpc.Viewer{
	"nobody":     {Kind: xrpc.Anonymous},
	"a stranger": {Kind: xrpc.Service, DID: "did:web:mallory.test", Active: true},
}

// world is random events, and all that anybody may ask about them.
type world struct {
	t       *testing.T
	random  *rand.Rand
	authors []*author
	sites   []*site // the first witnesses everything
	n       int
	made    []lexicons.StrongRef // every version of every record
	commits []cid.Cid            // of all repos, the last one last
}

// happen tells the sites of a commit: those after the first only when all that
// it holds is published.
func (w *world) happen(c *index.Commit, published []syntax.NSID) {
	w.commits = append(w.commits, c.CID)
	for i, s := range w.sites {
		if i == 0 || slices.Contains(published, c.Ops[0].Collection) {
			s.apply(c)
		}
	}
}

func (w *world) tick() {
	step := time.Duration(1+w.random.IntN(400)) * time.Second
	for _, s := range w.sites {
		s.now = s.now.Add(step)
	}
}

// target is something to refer to: a version of any record, or what never was.
func (w *world) target(of ...syntax.NSID) lexicons.StrongRef {
	if w.random.IntN(8) > 0 {
		for range 20 {
			if len(w.made) == 0 {
				break
			}
			ref := w.made[w.random.IntN(len(w.made))]
			if len(of) == 0 || slices.Contains(of, ref.URI.Collection()) {
				if w.random.IntN(6) == 0 { // the mistake of pinning the commit
					ref.CID = w.commits[max(0, len(w.commits)-1-w.random.IntN(4))]
				}
				return ref
			}
		}
	}
	if len(of) == 0 {
		of = worldCollections
	}
	a := w.authors[w.random.IntN(len(w.authors))]
	uri := fmt.Sprintf("at://%s/%s/%s", a.did, of[w.random.IntN(len(of))], tid(9000+w.random.IntN(3)))
	return lexicons.StrongRef{URI: syntax.ATURI(uri), CID: neverMade}
}

func (w *world) targets(of ...syntax.NSID) []any {
	list := []any{}
	for range w.random.IntN(4) {
		list = append(list, ref(w.target(of...)))
	}
	return list
}

func (w *world) record(collection syntax.NSID) object {
	text := fmt.Sprintf("words %d", w.random.IntN(1000))
	generator := object{"run": string(tid(1 + w.random.IntN(3))), "device": fmt.Sprintf("lab-%d", w.random.IntN(2)), "model": "m-1", "harness": "pi"}
	if w.random.IntN(3) == 0 {
		generator["transcript"] = ref(w.target())
	}
	switch collection {
	case lexicons.ObservationNSID:
		more := object{"generator": generator, "source": object{"kind": "command", "value": fmt.Sprintf("cmd %d", w.random.IntN(3))}}
		if w.random.IntN(2) == 0 {
			more["supersedes"] = ref(w.target(lexicons.ObservationNSID))
		}
		if w.random.IntN(3) == 0 {
			more["content"] = blob(w.t, text)
		}
		return observation(text, more)
	case lexicons.SessionNSID:
		return session(object{"title": text, "machine": fmt.Sprintf("lab-%d", w.random.IntN(2)), "status": []string{"active", "ended"}[w.random.IntN(2)]})
	case lexicons.ChatSessionNSID:
		if w.random.IntN(2) == 0 {
			return object{"createdAt": written, "title": text}
		}
		return object{"createdAt": written}
	case lexicons.MessageNSID:
		return turn(w.target(lexicons.ChatSessionNSID), []string{"user", "assistant"}[w.random.IntN(2)], text, object{"refs": w.targets(), "mentions": []any{"did:web:bob.test"}})
	case lexicons.ClassNSID:
		var parent *lexicons.StrongRef
		if w.random.IntN(2) == 0 {
			p := w.target(lexicons.ClassNSID)
			parent = &p
		}
		v := class(fmt.Sprintf("class %d", w.random.IntN(3)), parent, "open")
		v["skills"] = w.targets(lexicons.SkillNSID)
		return v
	case lexicons.SkillNSID:
		v := skill("skill", text, tool([]string{"open", "save"}[w.random.IntN(2)]))
		v["examples"] = w.targets()
		return v
	case lexicons.ClaimNSID:
		cited := object{"span": object{"byteStart": 0, "byteEnd": 3}, "relation": []string{"quotes", "corrects"}[w.random.IntN(2)],
			"target": ref(w.target(lexicons.ObservationNSID)), "via": w.targets(lexicons.MessageNSID)}
		if w.random.IntN(4) > 0 {
			cited["selector"] = quote([]string{"words", "words 1", "word", "nothing"}[w.random.IntN(4)])
		}
		return object{"text": text, "createdAt": written, "generator": object{"run": string(tid(1))}, "citations": []any{cited}}
	}
	return object{"text": text, "about": ref(w.target()), "citations": []any{object{"span": object{}, "relation": "doubts", "target": ref(w.target()), "selector": quote("words")}}}
}

// neverMade is the CID of no record.
var neverMade = cid.MustParse("bafyreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku")

// live makes random things happen.
func (w *world) live(steps int, published []syntax.NSID) {
	for range steps {
		w.tick()
		a := w.authors[w.random.IntN(len(w.authors))]
		paths := make([]string, 0, len(a.held))
		for path := range a.held {
			paths = append(paths, path)
		}
		slices.Sort(paths)
		if len(paths) > 3 && w.random.IntN(6) == 0 {
			op := a.held[paths[w.random.IntN(len(paths))]]
			w.happen(a.drop(w.t, op.Collection, string(op.RecordKey)), published)
			continue
		}
		collection := worldCollections[w.random.IntN(len(worldCollections))]
		w.n++
		rkey := string(tid(10 + w.n))
		if collection == lexicons.SessionNSID {
			rkey = string(tid(1 + w.random.IntN(3))) // runs of observations, work items of several
		}
		if len(paths) > 0 && w.random.IntN(4) == 0 { // another version, an observation's too
			op := a.held[paths[w.random.IntN(len(paths))]]
			collection, rkey = op.Collection, string(op.RecordKey)
		}
		c, made := a.put(w.t, collection, rkey, w.record(collection))
		w.made = append(w.made, made)
		w.happen(c, published)
	}
}

// question is a query with its parameters.
type question struct {
	method string
	params []string
}

// questions are every query about everything that was made or only named.
func (w *world) questions() []question {
	var all []question
	ask := func(method string, params ...string) { all = append(all, question{method, params}) }
	seen := map[syntax.ATURI]bool{}
	refs := append([]lexicons.StrongRef{}, w.made...)
	for _, collection := range worldCollections {
		for _, a := range w.authors {
			refs = append(refs, lexicons.StrongRef{URI: syntax.ATURI(fmt.Sprintf("at://%s/%s/%s", a.did, collection, tid(9000))), CID: neverMade})
		}
	}
	for _, r := range refs {
		uri := string(r.URI)
		ask("getRecord", "uri", uri, "cid", r.CID.String())
		if seen[r.URI] {
			continue
		}
		seen[r.URI] = true
		ask("getRecord", "uri", uri)
		ask("listFindings", "uri", uri)
		ask("verifyCitations", "uri", uri)
		switch r.URI.Collection() {
		case lexicons.ObservationNSID:
			ask("getObservation", "uri", uri)
			ask("getObservation", "uri", uri, "format", "markdown")
			ask("getObservationHistory", "uri", uri)
			ask("getObservationHistory", "uri", uri, "format", "markdown", "limit", "2")
		case lexicons.SessionNSID:
			ask("getSession", "uri", uri)
			ask("getSession", "uri", uri, "format", "markdown")
		case lexicons.ClassNSID:
			ask("getClass", "uri", uri)
		case lexicons.ChatSessionNSID:
			ask("getConversation", "uri", uri)
			ask("getConversation", "uri", uri, "format", "markdown", "limit", "2")
		}
	}
	for _, a := range append(w.authors, newAuthor("did:web:unheard-of.test")) {
		did := string(a.did)
		ask("getAgent", "actor", did)
		for _, list := range []string{"listObservations", "listSessions", "listClasses", "listConversations", "listFindings"} {
			ask(list, "author", did)
		}
	}
	for _, limit := range []string{"1", "3", "100"} {
		ask("listObservations", "limit", limit)
		ask("listObservations", "limit", limit, "headsOnly", "false")
		ask("listObservations", "limit", limit, "device", "lab-1")
		ask("listSessions", "limit", limit)
		ask("listSessions", "limit", limit, "state", "stale")
		ask("listClasses", "limit", limit)
		ask("listConversations", "limit", limit)
		ask("listConversations", "limit", limit, "includeEmpty", "true")
		ask("listFindings", "limit", limit)
		ask("listAgents", "limit", limit)
		ask("listAgents", "limit", limit, "state", "synced")
	}
	for _, collection := range worldCollections {
		ask("listFindings", "collection", string(collection))
	}
	return append(all, question{"describeService", nil})
}

// answer asks a query, or the one procedure of the service.
func (s *site) answer(method string, params []string) *httptest.ResponseRecorder {
	if method == "verifyCitations" {
		return s.send(method, object{params[0]: params[1]})
	}
	return s.ask(method, params...)
}

// pages are the answers to a question, page after page.
func (s *site) pages(q question) (bodies []string) {
	params := q.params
	for {
		res := s.answer(q.method, params)
		bodies = append(bodies, fmt.Sprintf("%d %s", res.Code, res.Body))
		if res.Code == http.StatusOK {
			require.Empty(s.t, misfits(s.catalog, q.method, res.Body.Bytes()), "%v: %s", q, res.Body)
		}
		var out struct{ Cursor string }
		require.NoError(s.t, json.Unmarshal(res.Body.Bytes(), &out))
		if out.Cursor == "" {
			return bodies
		}
		require.Less(s.t, len(bodies), 500, "the list ends")
		params = append(slices.Clone(q.params), "cursor", out.Cursor)
	}
}

// The strongest form of "nothing public shows a private record": to whoever is
// no member, a host answers every question byte for byte as one that never had
// the records of its private collections, whatever refers to what.
func TestNothingPublicDependsOnAPrivateRecord(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		for i, c := range worldCollections {
			if db.Dialect == migrations.Postgres && c != lexicons.MessageNSID && c != lexicons.SkillNSID {
				continue // the SQL is the same; these two reach into others the most
			}
			t.Run("all but "+string(c), func(t *testing.T) {
				compareWorlds(t, db.Dialect, uint64(i), 100, slices.DeleteFunc(slices.Clone(worldCollections), func(o syntax.NSID) bool { return o == c }))
			})
			t.Run("only "+string(c), func(t *testing.T) { compareWorlds(t, db.Dialect, uint64(i), 15, []syntax.NSID{c}) })
		}
	})
}

func compareWorlds(t *testing.T, dialect migrations.Dialect, seed uint64, steps int, published []syntax.NSID) {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 7))}
	for range 2 {
		s := newSite(t, dbtest.Open(t, migrations.Appview, dialect), published...)
		s.team["did:web:ada.test"], s.team["did:web:bob.test"] = "https://host.test", "https://host.test"
		require.NoError(t, s.index.PutTrustGroup(t.Context(), "lab", []syntax.DID{"did:web:ada.test", "did:web:bob.test"}))
		w.sites = append(w.sites, s)
	}
	for _, name := range []string{"ada", "bob", "mallory", "carol"} {
		a := newAuthor(syntax.DID("did:web:" + name + ".test"))
		w.authors = append(w.authors, a)
		empty := a.commit(t, index.Operation{})
		empty.Ops = nil // as the host makes it with the account
		for _, s := range w.sites {
			s.apply(a.identity(name+".test"), empty)
		}
	}
	w.live(steps, published)
	for _, s := range w.sites { // its records are gone from view, public or not
		s.apply(&index.Account{DID: "did:web:carol.test", Status: "deactivated"})
		require.NoError(t, s.index.RecheckCitations(t.Context(), noContent{}))
	}

	full, bare := w.sites[0], w.sites[1]
	for name, viewer := range nobodies {
		full.viewer, bare.viewer = viewer, viewer
		for _, q := range w.questions() {
			want, got := bare.pages(q), full.pages(q)
			require.Equal(t, want, got, "%s asks %v", name, q)
		}
	}
	nobody := index.Viewer{Collections: published}
	require.Equal(t, heard(t, bare, nobody), heard(t, full, nobody), "what nobody is told of as it happens")
	// And there was something to hide.
	require.NotEqual(t, heard(t, bare, index.Viewer{}), heard(t, full, index.Viewer{}))
	full.viewer = xrpc.Viewer{Kind: xrpc.Account, Member: true, Active: true}
	bare.viewer = full.viewer
	status := question{"getIndexStatus", nil}
	require.NotEqual(t, bare.pages(status), full.pages(status))
}
