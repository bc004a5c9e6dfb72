package appview_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// takenAway is a world in which words were written that nobody is to read any
// more: those that must not be served, and of them those that must not be kept.
type takenAway struct {
	uris   []syntax.ATURI
	dids   []syntax.DID
	before time.Time // when they could still be read
	hidden []string
	gone   []string
}

func takeAway(t *testing.T, s *site) *takenAway {
	t.Helper()
	ada, mallory := newAuthor("did:web:ada.test"), newAuthor("did:web:mallory.test")
	s.team[ada.did] = "https://host.test"
	s.apply(ada.identity("ada.test"))
	w := &takenAway{dids: []syntax.DID{ada.did, mallory.did}}
	put := func(a *author, of syntax.NSID, n int, value object) lexicons.StrongRef {
		c, made := a.put(t, of, string(tid(n)), value)
		s.apply(c)
		w.uris = append(w.uris, made.URI)
		return made
	}
	chat := put(ada, lexicons.ChatSessionNSID, 1, object{"createdAt": written}) // called by its first words
	seen := put(ada, lexicons.ObservationNSID, 2, observation("deletedobservation seen", object{"source": object{"kind": "file", "value": "/deletedpath"}}))
	say := func(n int, role, text string, more object) lexicons.StrongRef {
		return put(ada, lexicons.MessageNSID, n, turn(chat, role, text, more))
	}
	// Withheld against its own record: the host keeps it as signed, no view shows it.
	say(10, "assistant", "withheldtext words", object{
		"withheld": true, "model": "withheldmodel", "steps": []any{object{"tool": "withheldtool", "summary": "withheldsummary"}},
		"refs": []any{ref(seen)}, "mentions": []any{"did:web:withheldmention.test"}, "note": "withheldnote",
	})
	put(mallory, lexicons.MessageNSID, 11, turn(chat, "user", "foreigntext words", object{"note": "foreignnote"}))
	opening := say(12, "user", "openingsecret is my name", nil)
	say(13, "assistant", "the plan was editedtext", object{"steps": []any{object{"tool": "fetch", "summary": "removedstep"}}, "mentions": []any{"did:web:removedmention.test"}})
	say(14, "user", "deletedturn words", nil)
	say(15, "user", "latewithheld words", nil)
	put(ada, lexicons.ChatSessionNSID, 16, object{"createdAt": written, "title": "deletedtitle", "description": "deleteddescription"})
	put(ada, lexicons.SessionNSID, 17, session(object{"title": "deletedsession", "summary": "deletedsummary"}))
	put(ada, lexicons.ClaimNSID, 18, object{
		"text": "deletedclaim words", "createdAt": written, "generator": object{"run": string(tid(1))},
		"citations": []any{object{"span": object{"byteStart": 0, "byteEnd": 12}, "relation": "restates", "target": ref(seen)}},
	})
	// What points at it shows its state, and no word.
	example := skill("example", "c")
	example["examples"] = []any{ref(opening)}
	put(ada, lexicons.ClassNSID, 20, class("class", nil, "", put(ada, lexicons.SkillNSID, 19, example)))
	s.now = s.now.Add(time.Minute)
	w.before = s.now
	s.now = s.now.Add(time.Minute)

	say(12, "user", bar+" is my name", nil)
	say(13, "assistant", "the plan was "+bar, nil)
	say(15, "user", "", object{"withheld": true})
	for n, of := range map[int]syntax.NSID{2: lexicons.ObservationNSID, 14: lexicons.MessageNSID, 16: lexicons.ChatSessionNSID, 17: lexicons.SessionNSID, 18: lexicons.ClaimNSID} {
		s.apply(ada.drop(t, of, string(tid(n))))
	}
	s.now = s.now.Add(time.Minute)
	w.gone = []string{
		"openingsecret", "editedtext", "removedstep", "removedmention", "deletedturn", "latewithheld", "deletedobservation", "deletedpath",
		"deletedtitle", "deleteddescription", "deletedsession", "deletedsummary", "deletedclaim",
	}
	w.hidden = append([]string{
		"withheldtext", "withheldmodel", "withheldtool", "withheldsummary", "withheldmention", "withheldnote", "foreigntext", "foreignnote",
	}, w.gone...)
	return w
}

const bar = "\u2588\u2588\u2588"

// asks are the ways in which a query may be asked about the world: every value
// that is to be had for each parameter that its lexicon requires, in every form
// that it answers in, now and for the time before.
func (w *takenAway) asks(t *testing.T, s *site, m lexicons.Method) []url.Values {
	t.Helper()
	values := map[string][]string{"": nil}
	for _, uri := range w.uris {
		values["at-uri"] = append(values["at-uri"], string(uri))
	}
	for _, did := range w.dids {
		values["did"] = append(values["did"], string(did))
	}
	values["at-identifier"] = values["did"]
	values["q"] = w.hidden
	for _, r := range s.server.Routes() {
		if name := strings.TrimPrefix(string(r.NSID), "garden.herbarium."); strings.HasPrefix(name, "list") || strings.HasPrefix(name, "search") {
			values["list"] = append(values["list"], name)
		}
	}
	asks := []url.Values{{}}
	with := func(name string, choices []string) {
		var more []url.Values
		for _, ask := range asks {
			for _, c := range choices {
				next := url.Values{name: {c}}
				for k, v := range ask {
					next[k] = v
				}
				more = append(more, next)
			}
		}
		asks = more
	}
	if m.Parameters == nil {
		return asks
	}
	for _, name := range m.Parameters.Required {
		p, _ := m.Parameters.Properties[name].Inner.(lexicon.SchemaString)
		format := ""
		if p.Format != nil {
			format = *p.Format
		}
		choices := values[name]
		if len(choices) == 0 {
			choices = values[format]
		}
		require.NotEmpty(t, choices, "%s wants %s: say in this test what to ask it for", m.NSID, name)
		with(name, choices)
	}
	if p, ok := m.Parameters.Properties["format"].Inner.(lexicon.SchemaString); ok {
		with("format", p.Enum)
	}
	for _, name := range []string{"headsOnly", "includeEmpty"} {
		if _, ok := m.Parameters.Properties[name]; ok {
			with(name, []string{"true", "false"})
		}
	}
	if _, ok := m.Parameters.Properties["q"]; ok && asks[0]["q"] == nil {
		with("q", append([]string{""}, w.hidden...))
	}
	if _, ok := m.Parameters.Properties["asOf"]; ok {
		now := asks
		with("asOf", []string{w.before.Format(time.RFC3339)})
		asks = append(asks, now...)
	}
	return asks
}

// What was withheld, taken away or deleted, and what a stranger put beside a
// conversation, is in no answer of any query, whoever of the team asks, in
// whatever form, and for the time before either; and what was taken away or
// deleted is in no table. A query that comes to be is asked too.
func TestWordsThatWereTakenAwayAreServedNowhere(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		w := takeAway(t, s)
		answered := map[string]int{}
		for _, viewer := range []xrpc.Viewer{s.viewer, {Kind: xrpc.Admin, Member: true, Active: true}} {
			s.viewer = viewer
			for _, r := range s.server.Routes() {
				m, ok := s.catalog.Method(r.NSID)
				if !ok || m.Kind != lexicons.Query {
					continue
				}
				for _, ask := range w.asks(t, s, m) {
					res := httptest.NewRecorder()
					s.server.ServeHTTP(res, httptest.NewRequest(http.MethodGet, "/xrpc/"+string(r.NSID)+"?"+ask.Encode(), nil))
					said := fmt.Sprint(res.Header()) + res.Body.String()
					require.Less(t, res.Code, 500, said)
					if res.Code == http.StatusOK {
						answered[string(r.NSID)]++
					}
					for _, words := range w.hidden {
						// The stranger's own record is shown to who asks for it by its URI.
						own := string(r.NSID) == "garden.herbarium.getRecord" && strings.HasPrefix(ask.Get("uri"), "at://did:web:mallory.test/") && strings.HasPrefix(words, "foreign")
						if !own && !strings.Contains(ask.Encode(), words) {
							require.NotContains(t, said, words, "%s of %s?%s", words, r.NSID, ask.Encode())
						}
					}
				}
			}
		}
		for _, r := range s.server.Routes() {
			if m, ok := s.catalog.Method(r.NSID); ok && m.Kind == lexicons.Query {
				require.Positive(t, answered[string(r.NSID)], "%s answers nothing that could show it", r.NSID)
			}
		}
		changes := strings.Join(heard(t, s, index.Viewer{Admin: true}), "\n") // all that a subscription may tell
		require.NotEmpty(t, changes)
		for _, words := range w.hidden {
			require.NotContains(t, changes, words)
		}
		require.NoError(t, s.index.Reindex(t.Context()))
		for _, table := range tables(t, db) {
			var rows []map[string]any
			require.NoError(t, db.Read.WithContext(t.Context()).Raw("SELECT * FROM "+table).Scan(&rows).Error)
			for _, row := range rows {
				text := ""
				for _, value := range row {
					if raw, ok := value.([]byte); ok {
						value = string(raw)
					}
					text += fmt.Sprint(value, "\n")
				}
				for _, words := range w.gone {
					require.NotContains(t, text, words, "table %s", table)
				}
			}
		}
		list, err := s.index.ListRepos(t.Context(), index.Viewer{}, "", index.Page{})
		require.NoError(t, err)
		require.NotEmpty(t, list.Items)
	})
}

// tables are all tables of a database.
func tables(t *testing.T, db *migrations.DB) (names []string) {
	t.Helper()
	query := "SELECT name FROM sqlite_schema WHERE type = 'table'"
	if db.Dialect == migrations.Postgres {
		query = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
	}
	require.NoError(t, db.Read.WithContext(t.Context()).Raw(query).Scan(&names).Error)
	require.Contains(t, names, "journal")
	return names
}
