package appview_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// What a query answers about now, and leaves out of what it answers about then.
var onlyNow = map[string]bool{
	"asOf": true, "findings": true, "findingCount": true, "citations": true, "citedBy": true, "disputes": true, "sameSource": true,
	"contended": true, "children": true, "superseded": true,
}

// pastOf is an answer without what is only told of now.
func pastOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if onlyNow[name] {
				delete(v, name)
			} else {
				v[name] = pastOf(member)
			}
		}
	case []any:
		for i := range v {
			v[i] = pastOf(v[i])
		}
	}
	return v
}

// everything is what the queries that can look back answer about all uris, at a
// moment ("" for now).
func everything(s *site, uris []syntax.ATURI, moment string) map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for _, uri := range uris {
		methods := []string{"getObservation", "getObservationHistory"}
		switch uri.Collection() {
		case lexicons.SessionNSID:
			methods = []string{"getSession"}
		case lexicons.ClassNSID:
			methods = []string{"getClass"}
		case lexicons.SkillNSID:
			continue
		}
		for _, method := range methods {
			params := []string{"uri", string(uri)}
			if moment != "" {
				params = append(params, "asOf", moment)
			}
			var answer any
			res := s.ask(method, params...)
			require.NoError(s.t, json.Unmarshal(res.Body.Bytes(), &answer))
			if res.Code != http.StatusOK {
				out[method+" "+string(uri)] = "RecordNotFound"
				require.Equal(s.t, "RecordNotFound", answer.(object)["error"])
				continue
			}
			require.Empty(s.t, misfits(s.catalog, method, res.Body.Bytes()))
			text, err := json.Marshal(pastOf(answer))
			require.NoError(s.t, err)
			out[method+" "+string(uri)] = string(text)
		}
	}
	return out
}

// pastWorld writes at random what has a past.
type pastWorld struct {
	*rand.Rand
	s       *site
	authors []*author
	made    map[syntax.NSID][]lexicons.StrongRef // every version
	uris    []syntax.ATURI
	next    int
}

func (w *pastWorld) some(of syntax.NSID) *lexicons.StrongRef {
	if refs := w.made[of]; len(refs) > 0 && w.IntN(5) > 0 {
		return &refs[w.IntN(len(refs))]
	}
	return nil
}

func (w *pastWorld) write() {
	w.s.t.Helper()
	a := w.authors[w.IntN(len(w.authors))]
	w.next++
	of, rkey := lexicons.ObservationNSID, string(tid(w.next))
	var value object
	switch w.IntN(10) {
	case 0:
		groups := [][]syntax.DID{{w.authors[0].did, w.authors[1].did}, {w.authors[0].did, w.authors[2].did}}
		require.NoError(w.s.t, w.s.index.PutTrustGroup(w.s.t.Context(), "team", groups[w.IntN(2)]))
		return
	case 1, 2:
		of, rkey = lexicons.SessionNSID, string(tid(500+w.IntN(2)))
		value = session(object{"machine": fmt.Sprint("lab-", w.IntN(2)), "status": []string{"active", "ended"}[w.IntN(2)], "updatedAt": w.s.now.Format(time.RFC3339)})
	case 3:
		of, rkey = lexicons.SkillNSID, string(tid(600+w.IntN(2)))
		value = skill("s", fmt.Sprint("content ", w.IntN(3)))
	case 4, 5:
		of, rkey = lexicons.ClassNSID, string(tid(700+w.IntN(3)))
		var skills []lexicons.StrongRef
		if ref := w.some(lexicons.SkillNSID); ref != nil {
			skills = append(skills, *ref)
		}
		value = class("c", w.some(lexicons.ClassNSID), "", skills...)
	default:
		value = observation(fmt.Sprint("text ", w.next), object{"generator": object{"run": string(tid(500)), "device": "lab-0"}})
		if link := w.some(lexicons.ObservationNSID); link != nil {
			value["supersedes"] = ref(*link)
		}
		if ref := w.some(lexicons.ObservationNSID); ref != nil && w.IntN(6) == 0 && ref.URI.Authority().String() == string(a.did) {
			rkey = string(ref.URI.RecordKey()) // an edit, against the rules
		}
	}
	c, ref := a.put(w.s.t, of, rkey, value)
	if len(w.made[of]) == 0 || !known(w.uris, ref.URI) {
		w.uris = append(w.uris, ref.URI)
	}
	w.made[of] = append(w.made[of], ref)
	w.s.apply(c)
}

func known(uris []syntax.ATURI, uri syntax.ATURI) bool {
	for _, u := range uris {
		if u == uri {
			return true
		}
	}
	return false
}

// What an index answers about a moment is what it answered then, whatever came
// after, but for what the lexicons say is told of now alone.
func TestAsOfIsWhatWasAnsweredThen(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		w := &pastWorld{Rand: rand.New(rand.NewPCG(7, 11)), s: s, made: map[syntax.NSID][]lexicons.StrongRef{}} //nolint:gosec // a world, not a secret
		for _, name := range []string{"ada", "bob", "eve"} {
			did := syntax.DID("did:web:" + name + ".test")
			s.team[did] = "https://host.test"
			w.authors = append(w.authors, newAuthor(did))
		}
		then := map[string]map[string]string{}
		const moments, writes = 6, 8
		for range moments {
			for range writes {
				s.now = s.now.Add(time.Minute)
				w.write()
			}
			then[s.now.Format(time.RFC3339)] = everything(s, w.uris, "")
			s.now = s.now.Add(time.Minute)
		}
		require.Len(t, then, moments)
		for moment, answers := range then {
			now := everything(s, w.uris, moment)
			for query, answer := range now {
				if _, asked := answers[query]; !asked {
					require.Equal(t, "RecordNotFound", answer, "%s at %s, before it was there", query, moment)
					continue
				}
				require.JSONEq(t, quoted(answers[query]), quoted(answer), "%s at %s", query, moment)
			}
		}
	})
}

// quoted makes a refusal comparable as JSON.
func quoted(answer string) string {
	if answer == "RecordNotFound" {
		return `"RecordNotFound"`
	}
	return answer
}

// The past of what was deleted since shows where it stood, and none of its words.
func TestAsOfOfWhatWasDeletedSince(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		put := func(of syntax.NSID, n int, value object) lexicons.StrongRef {
			c, made := ada.put(t, of, string(tid(n)), value)
			s.apply(c)
			s.now = s.now.Add(time.Minute)
			return made
		}
		first := put(lexicons.ObservationNSID, 1, observation("first words", nil))
		second := put(lexicons.ObservationNSID, 2, observation("second words", object{"supersedes": ref(first)}))
		work := put(lexicons.SessionNSID, 3, session(object{"summary": "secret plan"}))
		moment := s.now.Format(time.RFC3339)
		s.now = s.now.Add(time.Hour)
		s.apply(ada.drop(t, lexicons.ObservationNSID, string(tid(2))), ada.drop(t, lexicons.SessionNSID, string(tid(3))))
		s.now = s.now.Add(time.Hour)

		old := at(t, s.get("getObservation", "uri", string(first.URI), "asOf", moment), "observation")
		require.Equal(t, string(second.URI), at(t, old, "chain", "head", "uri"), "it was the head then")
		require.EqualValues(t, 1, at(t, old, "chain", "stepsBehind"))
		require.Equal(t, string(first.URI), at(t, s.get("getObservation", "uri", string(first.URI)), "observation", "chain", "head", "uri"))
		history := s.get("getObservationHistory", "uri", string(first.URI), "asOf", moment)
		require.Equal(t, moment, at(t, history, "asOf").(string)[:19]+"Z")
		require.Len(t, at(t, history, "versions"), 2)
		for _, method := range []string{"getObservation", "getSession"} {
			uri := map[string]lexicons.StrongRef{"getObservation": second, "getSession": work}[method]
			for _, format := range []string{"json", "markdown"} {
				res := s.ask(method, "uri", string(uri.URI), "asOf", moment, "format", format)
				require.Equal(t, http.StatusOK, res.Code, res.Body)
				require.NotContains(t, res.Body.String(), "second words")
				require.NotContains(t, res.Body.String(), "secret plan")
				require.Contains(t, res.Body.String(), "eleted")
				if format == "markdown" {
					require.Contains(t, res.Body.String(), "As the index knew it at")
				}
			}
		}
	})
}

func TestAsOfRefusals(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		c, made := ada.put(t, lexicons.ObservationNSID, string(tid(1)), observation("words", nil))
		s.apply(ada.identity("ada.test"), c)
		uri := string(made.URI)

		name, codes := s.refuse("getObservation", "uri", uri, "asOf", "2026-11-30T11:59:59Z")
		require.Equal(t, "RecordNotFound", name)
		require.Equal(t, []string{"not-witnessed"}, codes)
		name, _ = s.refuse("getObservation", "uri", uri, "asOf", "2026-11-30T12:00:01Z")
		require.Equal(t, "InvalidRequest", name, "the future")
		name, _ = s.refuse("getObservationHistory", "uri", uri, "asOf", "yesterday")
		require.Equal(t, "InvalidRequest", name)
		require.Equal(t, uri, at(t, s.get("getObservation", "uri", uri, "asOf", "2026-11-30T12:00:00Z"), "observation", "uri"))

		s.apply(&index.Account{DID: ada.did, Status: "takendown"})
		name, _ = s.refuse("getObservation", "uri", uri, "asOf", "2026-11-30T12:00:00Z")
		require.Equal(t, "RecordNotFound", name, "what is hidden now is hidden in its past")
	})
}
