package appview_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// post calls a procedure and wants an answer, which must fit its lexicon.
func (s *site) post(method string, body object) object {
	s.t.Helper()
	res := s.send(method, body)
	require.Equal(s.t, http.StatusOK, res.Code, "%s %v: %s", method, body, res.Body)
	require.Empty(s.t, misfits(s.catalog, method, res.Body.Bytes()), "%s: %s", method, res.Body)
	var out object
	require.NoError(s.t, json.Unmarshal(res.Body.Bytes(), &out))
	return out
}

func (s *site) send(method string, body object) *httptest.ResponseRecorder {
	s.t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(s.t, err)
	req := httptest.NewRequest(http.MethodPost, "/xrpc/garden.herbarium."+method, bytes.NewReader(raw))
	req.Header.Set("Content-Type", "application/json")
	res := httptest.NewRecorder()
	s.server.ServeHTTP(res, req)
	return res
}

// noContent has no bytes of anybody.
type noContent struct{}

func (noContent) OpenContent(context.Context, syntax.DID, cid.Cid) (io.ReadCloser, error) {
	return nil, index.ErrNoContent
}

func citing(text, relation string, target object, selector object) object {
	c := object{"span": object{"byteStart": 0, "byteEnd": len(text)}, "relation": relation, "target": target}
	if selector != nil {
		c["selector"] = selector
	}
	return c
}

func quote(exact string) object {
	return object{"$type": "garden.engram.agents.defs#textQuote", "exact": exact}
}

func claimOf(text string, citations ...any) object {
	return object{"text": text, "citations": citations, "createdAt": written, "generator": object{"run": string(tid(1))}}
}

// refStates are references to one record in every state that there is.
type refStates struct {
	s     *site
	refs  map[index.RefState]object
	order []index.RefState
}

func (w *refStates) add(state index.RefState, r object) {
	w.refs[state] = r
	w.order = append(w.order, state)
}

// everyState makes a world in which a reference can be in each state.
func everyState(t *testing.T, s *site) *refStates {
	t.Helper()
	w := &refStates{s: s, refs: map[index.RefState]object{}}
	ada, gone, far := newAuthor("did:web:ada.test"), newAuthor("did:web:paused.test"), newAuthor("did:web:far.test")
	put := func(who *author, n int, text string) (*index.Commit, lexicons.StrongRef) {
		c, made := who.put(t, lexicons.ObservationNSID, string(tid(n)), observation(text, nil))
		s.apply(c)
		return c, made
	}
	commit, current := put(ada, 10, "the words")
	w.add(index.RefCurrent, ref(current))
	put(ada, 11, "something after it")
	w.add(index.RefCommitCID, object{"uri": string(current.URI), "cid": commit.CID.String()})

	note, _ := ada.put(t, "org.example.note", string(tid(12)), object{"text": "the words"})
	s.apply(note)
	old := object{"uri": "at://did:web:ada.test/org.example.note/" + string(tid(12)), "cid": note.Ops[0].CID.String()}
	changed, _ := ada.put(t, "org.example.note", string(tid(12)), object{"text": "other"})
	s.apply(changed)
	w.add(index.RefChanged, old)

	_, deleted := put(ada, 13, "the words")
	s.apply(ada.drop(t, lexicons.ObservationNSID, string(tid(13))))
	w.add(index.RefDeleted, ref(deleted))

	_, purged := put(ada, 14, "the words that nobody else has") // or their copies would go too
	_, err := s.index.Purge(t.Context(), purged.URI, []cid.Cid{purged.CID})
	require.NoError(t, err)
	w.add(index.RefPurged, ref(purged))

	bad := observation("the words", nil)
	delete(bad, "method")
	c, quarantined := ada.put(t, lexicons.ObservationNSID, string(tid(15)), bad)
	s.apply(c)
	w.add(index.RefQuarantined, ref(quarantined))

	_, withheld := put(gone, 16, "the words")
	s.apply(&index.Account{DID: gone.did, Status: "deactivated"})
	w.add(index.RefWithheld, ref(withheld))

	w.add(index.RefMissing, object{"uri": "at://did:web:ada.test/garden.engram.agents.observation/" + string(tid(17)), "cid": current.CID.String()})
	w.add(index.RefNotIndexed, object{"uri": "at://did:web:nobody.test/garden.engram.agents.observation/" + string(tid(18)), "cid": current.CID.String()})
	s.apply(&index.Unreachable{DID: far.did, Reason: "resolve identity: no answer"})
	w.add(index.RefUnreachable, object{"uri": "at://did:web:far.test/garden.engram.agents.observation/" + string(tid(19)), "cid": current.CID.String()})
	w.add(index.RefMalformed, object{"uri": "at://ada.test/garden.engram.agents.observation/" + string(tid(10)), "cid": current.CID.String()})
	return w
}

// Every state of a reference is reached, by the one resolver of them all, and
// says the same wherever it is shown.
func TestEveryStateOfAReference(t *testing.T) {
	t.Parallel()
	verdicts := map[index.RefState]lexicons.CitationVerdict{
		index.RefCurrent: lexicons.CitationVerified, index.RefChanged: lexicons.CitationVerified, index.RefCommitCID: lexicons.CitationTargetChanged,
		index.RefDeleted: lexicons.CitationTargetDeleted, index.RefPurged: lexicons.CitationTargetDeleted,
		index.RefMissing: lexicons.CitationTargetMissing, index.RefMalformed: lexicons.CitationTargetMissing,
		index.RefQuarantined: lexicons.CitationUnknown, index.RefWithheld: lexicons.CitationUnknown,
		index.RefNotIndexed: lexicons.CitationUnknown, index.RefUnreachable: lexicons.CitationUnknown,
	}
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		w := everyState(t, s)
		require.Len(t, w.refs, len(verdicts), "every state there is")
		var list, citations []any
		for _, state := range w.order {
			list = append(list, w.refs[state])
			citations = append(citations, citing("the words", "quotes", w.refs[state], quote("the words")))
		}
		bob := newAuthor("did:web:bob.test")
		c, holder := bob.put(t, "org.example.list", string(tid(30)), object{"refs": list, "text": "the words", "citations": citations})
		s.apply(c)

		shown := at(t, s.get("getRecord", "uri", string(holder.URI)), "refs").([]any)
		byPath := map[string]object{}
		for _, r := range shown {
			byPath[r.(object)["path"].(string)] = r.(object)["ref"].(object)
		}
		checked := s.post("verifyCitations", object{"uri": string(holder.URI)})["citations"].([]any)
		draft := s.post("verifyCitations", object{"record": object{"text": "the words", "citations": citations}, "collection": "org.example.list"})["citations"].([]any)
		require.Equal(t, checked, draft, "a dry run says what is said of the record")
		for i, state := range w.order {
			in := byPath[fmt.Sprintf("/refs/%d", i)]
			require.Equal(t, string(state), in["state"])
			require.Equal(t, in, at(t, checked, i, "target"), "%s: one resolver", state)
			require.Equal(t, w.refs[state]["uri"], in["uri"])
			require.Equal(t, string(verdicts[state]), at(t, checked, i, "verdict"), state)
			require.Equal(t, state == index.RefCurrent || state == index.RefChanged, in["held"] == true, "%s: held", state)
			if verdicts[state] == lexicons.CitationUnknown {
				require.Equal(t, string(state), at(t, checked, i, "reason"), "unknown says why")
			}
		}

		// What is changed and not held says so too.
		c, _ = bob.put(t, "org.example.list", string(tid(31)), object{"ref": object{"uri": w.refs[index.RefChanged]["uri"], "cid": neverMade.String()}})
		s.apply(c)
		never := at(t, s.get("getRecord", "uri", "at://did:web:bob.test/org.example.list/"+string(tid(31))), "refs", 0, "ref").(object)
		require.Equal(t, "changed", never["state"])
		require.NotContains(t, never, "held")

		// The views of the records themselves use the same words.
		for state, want := range map[index.RefState]string{index.RefDeleted: "deleted", index.RefPurged: "purged"} {
			uri := w.refs[state]["uri"].(string)
			require.Equal(t, want, s.get("getRecord", "uri", uri)["state"])
			require.Equal(t, want, at(t, s.get("getObservation", "uri", uri), "observation", "state"))
			require.Equal(t, want, at(t, s.get("getObservationHistory", "uri", uri), "versions", 0, "state"))
		}
		require.Contains(t, s.get("getObservation", "uri", w.refs[index.RefPurged]["uri"].(string), "format", "markdown")["markdown"], "Removed for good by an operator")
		s.viewer = xrpc.Viewer{Kind: xrpc.Admin, Member: true}
		require.Equal(t, "quarantined", s.get("getRecord", "uri", w.refs[index.RefQuarantined]["uri"].(string))["state"])
	})
}

func TestVerifyCitations(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada, bob := newAuthor("did:web:ada.test"), newAuthor("did:web:bob.test")
		c, seen := ada.put(t, lexicons.ObservationNSID, string(tid(10)), observation("the build is green \U0001F600", nil))
		s.apply(c)
		record := claimOf("green", citing("green", "quotes", ref(seen), quote("green")), citing("green", "quotes", ref(seen), quote("red")),
			citing("green", "contradicts", ref(seen), nil), citing("green", "restates", ref(seen), object{"$type": "org.example.defs#x"}))
		dry := s.post("verifyCitations", object{"record": record})
		require.NotContains(t, dry, "uri")
		first := at(t, dry, "citations", 0)
		require.Equal(t, "/citations/0", at(t, first, "path"))
		require.Equal(t, "verified", at(t, first, "verdict"))
		require.Equal(t, "text", at(t, first, "haystack"))
		require.Equal(t, object{"byteStart": 13.0, "byteEnd": 18.0}, at(t, first, "at"))
		require.Equal(t, "garden.engram.agents.defs#textQuote", at(t, first, "selector"))
		require.NotContains(t, first, "freshness")
		require.Equal(t, "not-found", at(t, dry, "citations", 1, "verdict"))
		require.Equal(t, "no-selector", at(t, dry, "citations", 2, "verdict"))
		require.Equal(t, "unsupported", at(t, dry, "citations", 3, "verdict"))
		require.NotContains(t, at(t, s.get("getObservation", "uri", string(seen.URI)), "observation"), "citedBy", "nothing is kept of it")

		c, claim := bob.put(t, lexicons.ClaimNSID, string(tid(20)), record)
		s.apply(c)
		stored := s.post("verifyCitations", object{"uri": string(claim.URI)})
		require.Equal(t, dry["citations"], stored["citations"])
		require.Equal(t, claim.CID.String(), stored["cid"])

		c, head := ada.put(t, lexicons.ObservationNSID, string(tid(11)), observation("the build is red", object{"supersedes": ref(seen)}))
		s.apply(c)
		now := at(t, s.post("verifyCitations", object{"uri": string(claim.URI)}), "citations")
		require.Equal(t, "verified", at(t, now, 0, "verdict"), "what was cited is still what it was")
		require.Equal(t, "gone", at(t, now, 0, "freshness"))
		require.Equal(t, ref(head), at(t, now, 0, "head"))
		require.Equal(t, true, at(t, now, 0, "target", "superseded"))
		require.Equal(t, "still-holds", at(t, now, 1, "freshness"))

		// A head that was taken down is not told of, nor what it says.
		require.NoError(t, s.index.TakeDown(t.Context(), head.URI))
		now = at(t, s.post("verifyCitations", object{"uri": string(claim.URI)}), "citations")
		require.Equal(t, "unknown", at(t, now, 0, "freshness"))
		require.NotContains(t, at(t, now, 0), "head")

		for name, body := range map[string]object{
			"neither": {}, "both": {"uri": string(claim.URI), "record": record}, "a malformed draft": {"record": object{"text": 1.5}},
			"another type": {"record": object{"$type": "org.example.a"}}, "never there": {"uri": "at://did:web:bob.test/garden.herbarium.claim/" + string(tid(99))},
			"a version that is not held": {"uri": string(claim.URI), "cid": neverMade.String()}, "deleted": {"uri": "at://did:web:bob.test/org.example.gone/" + string(tid(98))},
		} {
			require.Equal(t, http.StatusBadRequest, s.send("verifyCitations", body).Code, name)
		}
	})
}

// Who cites an observation, in which relation, and whether it holds.
func TestCitedBy(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada, bob := newAuthor("did:web:ada.test"), newAuthor("did:web:bob.test")
		c, seen := ada.put(t, lexicons.ObservationNSID, string(tid(10)), observation("the build is green", nil))
		s.apply(c)
		for n, citation := range []object{
			citing("green", "quotes", ref(seen), quote("green")), citing("green", "quotes", ref(seen), quote("red")), citing("green", "contradicts", ref(seen), nil),
		} {
			c, _ := bob.put(t, lexicons.ClaimNSID, string(tid(20+n)), claimOf("green", citation))
			s.apply(c)
		}
		view := func() object { return at(t, s.get("getObservation", "uri", string(seen.URI)), "observation").(object) }
		require.Equal(t, []any{
			object{"relation": "contradicts", "citations": 1.0, "hold": 0.0, "fail": 0.0},
			object{"relation": "quotes", "citations": 2.0, "hold": 1.0, "fail": 1.0},
		}, view()["citations"])
		require.EqualValues(t, 1, view()["disputes"])
		require.EqualValues(t, 1, at(t, s.get("listObservations"), "observations", 0, "disputes"))
		require.Equal(t, []any{"contradicts", "quotes", "quotes"}, []any{
			at(t, view(), "citedBy", 0, "relation"), at(t, view(), "citedBy", 1, "relation"), at(t, view(), "citedBy", 2, "relation"),
		})
		require.Equal(t, "verified", at(t, view(), "citedBy", 1, "verdict"))
		require.Equal(t, object{"byteStart": 13.0, "byteEnd": 18.0}, at(t, view(), "citedBy", 1, "at"))
		require.Equal(t, "current", at(t, view(), "citedBy", 1, "state"))
		require.Equal(t, "not-found", at(t, view(), "citedBy", 2, "verdict"))
		findings := s.get("listFindings", "code", "citation-fails")["findings"].([]any)
		require.Len(t, findings, 1)
		require.Equal(t, "/citations/0", at(t, findings, 0, "path"))

		c, _ = ada.put(t, lexicons.ObservationNSID, string(tid(11)), observation("the build is red", object{"supersedes": ref(seen)}))
		s.apply(c)
		require.Equal(t, "unknown", at(t, view(), "citedBy", 1, "freshness"), "it was not compared with that head yet")
		require.NoError(t, s.index.RecheckCitations(t.Context(), noContent{}))
		require.Equal(t, "gone", at(t, view(), "citedBy", 1, "freshness"))
		require.Len(t, s.get("listFindings", "code", "evidence-gone")["findings"], 1)
		doc := s.get("getObservation", "uri", string(seen.URI), "format", "markdown")["markdown"].(string)
		require.Contains(t, doc, "**Disputed** by 1 record.")
		require.Contains(t, doc, "verified; on the head: gone")

		s.apply(ada.drop(t, lexicons.ObservationNSID, string(tid(10))))
		require.Equal(t, "target-deleted", at(t, view(), "citedBy", 1, "verdict"))
		require.NotContains(t, at(t, view(), "citedBy", 1), "at")
		require.Len(t, s.get("listFindings", "code", "evidence-deleted")["findings"], 3)
	})
}

// Of a message that is withheld nothing is cited by it, whatever its record holds.
func TestWithheldMessageCitesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		c, seen := ada.put(t, lexicons.ObservationNSID, string(tid(10)), observation("the build is green", nil))
		s.apply(c)
		c, chat := ada.put(t, lexicons.ChatSessionNSID, string(tid(11)), object{"createdAt": written})
		s.apply(c)
		c, _ = ada.put(t, lexicons.MessageNSID, string(tid(12)), turn(chat, "user", "", object{"withheld": true, "citations": []any{citing("", "contradicts", ref(seen), nil)}}))
		s.apply(c)
		c, said := ada.put(t, lexicons.MessageNSID, string(tid(13)), turn(chat, "user", "said", object{"withheld": true}))
		s.apply(c)
		require.NotContains(t, at(t, s.get("getObservation", "uri", string(seen.URI)), "observation"), "citations")
		dry := s.post("verifyCitations", object{"record": claimOf("said", citing("said", "quotes", ref(said), quote("said")))})
		require.Equal(t, "unknown", at(t, dry, "citations", 0, "verdict"), "nor is it told what it said")
		require.NotContains(t, strings.ToLower(fmt.Sprint(dry)), "verified")
	})
}
