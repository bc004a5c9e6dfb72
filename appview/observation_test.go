package appview_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// blob is a blob as a record names it, of the given bytes.
func blob(t *testing.T, content string) object {
	t.Helper()
	c, err := cid.V1Builder{Codec: cid.Raw, MhType: 0x12}.Sum([]byte(content))
	require.NoError(t, err)
	return object{"$type": "blob", "ref": object{"$link": c.String()}, "mimeType": "text/plain", "size": len(content)}
}

func observation(text string, more object) object {
	v := object{
		"source": object{"kind": "command", "value": "git fetch https://scout:secret@git.example/a.git"}, "method": "bash",
		"text": text, "observedAt": "2026-11-30T10:00:00.000Z", "createdAt": "2026-11-30T10:00:01.000Z",
		"generator": object{"run": string(tid(1)), "device": "lab-1", "model": "m-1", "harness": "pi"},
	}
	for k, value := range more {
		v[k] = value
	}
	return v
}

// chainOfThree is observed by ada three times, the third time unchanged; bob
// says that he supersedes the first, and cites it.
func chainOfThree(t *testing.T, s *site) (ada *author, o [3]lexicons.StrongRef, proposal, claim lexicons.StrongRef) {
	t.Helper()
	ada, bob := newAuthor("did:web:ada.test"), newAuthor("did:web:bob.test")
	s.team["did:web:ada.test"] = "https://host.test"
	s.apply(ada.identity("ada.test"))
	put := func(a *author, collection syntax.NSID, n int, value object) lexicons.StrongRef {
		c, made := a.put(t, collection, string(tid(n)), value)
		s.apply(c)
		return made
	}
	first := "alpha\nbeta\ngamma\n"
	o[0] = put(ada, lexicons.ObservationNSID, 10, observation(first, object{"content": blob(t, first)}))
	second := "alpha\nBETA\ngamma\n"
	o[1] = put(ada, lexicons.ObservationNSID, 20, observation(second, object{"content": blob(t, second+"!"), "supersedes": ref(o[0]), "observedAt": "2026-11-30T10:01:30.000Z"}))
	o[2] = put(ada, lexicons.ObservationNSID, 30, observation(second, object{"content": blob(t, second+"!"), "supersedes": ref(o[1]), "observedAt": "2026-11-30T10:05:00.000Z"}))
	proposal = put(bob, lexicons.ObservationNSID, 40, observation("delta\n", object{"supersedes": ref(o[0])}))
	claim = put(bob, lexicons.ClaimNSID, 50, object{
		"text": "It said alpha.", "createdAt": "2026-11-30T11:00:00.000Z", "generator": object{"run": string(tid(1))},
		"citations": []any{object{"span": object{"byteStart": 0, "byteEnd": 13}, "relation": "quotes", "target": ref(o[0])}},
	})
	return ada, o, proposal, claim
}

func TestObservationView(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		_, o, proposal, claim := chainOfThree(t, s)

		view := at(t, s.get("getObservation", "uri", string(o[0].URI)), "observation")
		require.Equal(t, "ada.test", at(t, view, "author", "handle"))
		require.Equal(t, "alpha\nbeta\ngamma\n", at(t, view, "text"))
		require.Equal(t, "git fetch https://***@git.example/a.git", at(t, view, "source", "value"))
		require.Equal(t, true, at(t, view, "source", "masked"))
		require.Equal(t, true, at(t, view, "generator", "selfReported"))
		require.Equal(t, "2026-11-30T10:00:01.000Z", at(t, view, "generator", "runStartedAt"))
		require.True(t, strings.HasPrefix(at(t, view, "content", "url").(string), "https://host.test/xrpc/com.atproto.sync.getBlob?cid="), "%v", view)

		require.EqualValues(t, 1, at(t, view, "chain", "position"))
		require.EqualValues(t, 3, at(t, view, "chain", "length"))
		require.EqualValues(t, 2, at(t, view, "chain", "stepsBehind"))
		require.Equal(t, false, at(t, view, "chain", "isHead"))
		require.Equal(t, string(o[2].URI), at(t, view, "chain", "head", "uri"))
		require.Equal(t, string(o[1].URI), at(t, view, "chain", "supersededBy", 0, "uri"))
		require.Len(t, at(t, view, "chain", "supersededBy"), 1, "another author's successor does not count")
		require.Equal(t, string(proposal.URI), at(t, view, "chain", "proposals", 0, "uri"))
		require.Equal(t, string(claim.URI), at(t, view, "citedBy", 0, "uri"))
		require.Equal(t, "quotes", at(t, view, "citedBy", 0, "relation"))
		require.EqualValues(t, 4, at(t, view, "sameSource", "observations"))

		head := at(t, s.get("getObservation", "uri", string(o[2].URI)), "observation")
		require.Equal(t, true, at(t, head, "chain", "isHead"))
		require.Equal(t, "current", at(t, head, "chain", "supersedes", "state"))
		require.Equal(t, true, at(t, head, "chain", "supersedes", "superseded"))
		require.Equal(t, "git fetch https://***@git.example/a.git", at(t, head, "chain", "supersedes", "label"))

		doc := s.get("getObservation", "uri", string(o[0].URI), "format", "markdown")
		require.NotContains(t, doc, "observation")
		require.Contains(t, doc["markdown"], "1 of 3 in its chain, 2 steps behind the head")
		require.NotContains(t, doc["markdown"], "secret")
		golden(t, "observation.md", doc["markdown"].(string))
	})
}

// A view does not say that a blob can be had which was taken down, nor does it
// hide another one with the same bytes.
func TestViewsOfABlobThatWasTakenDown(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		s.team["did:web:bob.test"] = "https://host.test"
		_, o, _, _ := chainOfThree(t, s)
		bob := newAuthor("did:web:bob.test")
		same := blob(t, "alpha\nbeta\ngamma\n")
		bob.revs = 90
		c, other := bob.put(t, lexicons.ObservationNSID, string(tid(60)), observation("the same bytes", object{"content": same}))
		s.apply(c)
		content, err := cid.Decode(same["ref"].(object)["$link"].(string))
		require.NoError(t, err)

		// views are the content of both observations, in each view that shows it.
		views := func(r lexicons.StrongRef) (all []any) {
			all = append(all, at(t, s.get("getObservation", "uri", string(r.URI)), "observation", "content"))
			for _, list := range [][]any{
				s.get("listObservations", "headsOnly", "false")["observations"].([]any),
				s.get("getObservationHistory", "uri", string(r.URI))["versions"].([]any),
			} {
				for _, item := range list {
					if at(t, item, "uri") == string(r.URI) {
						all = append(all, at(t, item, "content"))
					}
				}
			}
			require.Len(t, all, 3)
			return all
		}
		for _, taken := range []bool{false, true, false} {
			s.down[appview.BlobID{DID: "did:web:ada.test", CID: content}] = taken
			for _, view := range views(o[0]) {
				require.Equal(t, content.String(), at(t, view, "cid"))
				if taken {
					require.Equal(t, true, at(t, view, "takenDown"))
					require.NotContains(t, view, "url")
				} else {
					require.NotContains(t, view, "takenDown")
					require.Contains(t, at(t, view, "url"), content.String())
				}
			}
			for _, view := range views(other) {
				require.NotContains(t, view, "takenDown", "the takedown is of one repo's blob")
				require.Contains(t, at(t, view, "url"), "bob.test")
			}
			doc := s.get("getObservation", "uri", string(o[0].URI), "format", "markdown")["markdown"]
			if taken {
				require.Contains(t, doc, "taken down: its host serves them to nobody")
				require.NotContains(t, doc, "getBlob")
			} else {
				require.Contains(t, doc, "getBlob")
			}
		}
	})
}

func TestProposalsCannotHideTheSuccessor(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada, mallory := newAuthor("did:web:zed.test"), newAuthor("did:web:aaa.test")
		c, first := ada.put(t, lexicons.ObservationNSID, string(tid(1)), observation("one", nil))
		s.apply(c)
		for n := range 120 {
			c, _ := mallory.put(t, lexicons.ObservationNSID, string(tid(10+n)), observation("spoof", object{"supersedes": ref(first)}))
			s.apply(c)
		}
		c, second := ada.put(t, lexicons.ObservationNSID, string(tid(2)), observation("two", object{"supersedes": ref(first)}))
		s.apply(c)
		chain := at(t, s.get("getObservation", "uri", string(first.URI)), "observation", "chain")
		require.Len(t, at(t, chain, "supersededBy"), 1)
		require.Equal(t, string(second.URI), at(t, chain, "supersededBy", 0, "uri"))
		require.Equal(t, string(second.URI), at(t, chain, "head", "uri"))
		require.Len(t, at(t, chain, "proposals"), 100)
		source := at(t, s.get("getObservation", "uri", string(first.URI)), "observation", "sameSource")
		require.Equal(t, object{"observations": 100.0, "capped": true}, source)
	})
}

func TestForksGapsAndEdits(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		put := func(n int, text string, more object) lexicons.StrongRef {
			c, made := ada.put(t, lexicons.ObservationNSID, string(tid(n)), observation(text, more))
			s.apply(c)
			return made
		}
		chain := func(r lexicons.StrongRef) any {
			return at(t, s.get("getObservation", "uri", string(r.URI)), "observation", "chain")
		}

		root := put(1, "root", nil)
		left := put(2, "left", object{"supersedes": ref(root)})
		right := put(3, "right", object{"supersedes": ref(root)})
		fork := chain(root)
		require.Equal(t, true, at(t, fork, "forked"))
		require.Len(t, at(t, fork, "supersededBy"), 2)
		require.Equal(t, string(right.URI), at(t, fork, "head", "uri"), "the greatest record key is chosen")
		require.Equal(t, string(right.URI), at(t, fork, "heads", 0, "uri"))
		require.Equal(t, string(left.URI), at(t, fork, "heads", 1, "uri"))
		require.Equal(t, string(left.URI), at(t, chain(left), "head", "uri"), "a branch leads to its own head")

		lost := ref(root)
		lost["uri"] = "at://did:web:ada.test/garden.engram.agents.observation/" + string(tid(90))
		orphan := put(4, "orphan", object{"supersedes": lost})
		require.Equal(t, false, at(t, chain(orphan), "complete"))
		require.Equal(t, "missing", at(t, chain(orphan), "supersedes", "state"), "the repo is indexed and has no such record")
		lost["uri"] = "at://did:web:far.test/garden.engram.agents.observation/" + string(tid(90))
		require.Equal(t, "not-indexed", at(t, chain(put(5, "far", object{"supersedes": lost})), "supersedes", "state"))

		edited := put(1, "root, edited", nil)
		view := at(t, s.get("getObservation", "uri", string(root.URI)), "observation")
		require.Equal(t, "root", at(t, view, "text"), "what was seen first counts")
		require.Equal(t, root.CID.String(), at(t, view, "cid"))
		require.Equal(t, edited.CID.String(), at(t, view, "otherVersions", 0, "cid"))
		require.Contains(t, codesOf(t, view), "edited")
		s.now = noon.Add(time.Hour)
		require.Equal(t, view, at(t, s.get("getObservation", "uri", string(root.URI)), "observation"), "nothing here depends on the clock")
	})
}

func TestObservationHistoryIsNewestFirstAndPages(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		_, o, _, _ := chainOfThree(t, s)

		history := s.get("getObservationHistory", "uri", string(o[1].URI))
		require.Len(t, at(t, history, "versions"), 3)
		newest, middle, oldest := at(t, history, "versions", 0), at(t, history, "versions", 1), at(t, history, "versions", 2)
		require.Equal(t, string(o[2].URI), at(t, newest, "uri"))
		require.Equal(t, true, at(t, newest, "unchanged"))
		require.Equal(t, true, at(t, newest, "isHead"))
		require.EqualValues(t, 90, at(t, middle, "gapSeconds"))
		require.EqualValues(t, 1, at(t, middle, "sizeChange"))
		require.Equal(t, true, at(t, middle, "contentChanged"))
		require.Equal(t, "@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n", at(t, middle, "text", "unified"))
		require.NotContains(t, oldest, "text", "the oldest is compared with nothing")

		golden(t, "history.md", s.get("getObservationHistory", "uri", string(o[1].URI), "format", "markdown")["markdown"].(string))

		var paged []any
		params := []string{"uri", string(o[0].URI), "limit", "1"}
		for {
			page := s.get("getObservationHistory", params...)
			paged = append(paged, at(t, page, "versions").([]any)...)
			cursor, more := page["cursor"].(string)
			if !more {
				break
			}
			params = []string{"uri", string(o[0].URI), "limit", "1", "cursor", cursor}
		}
		require.Equal(t, at(t, history, "versions"), paged, "pages add up to the whole, comparisons across them included")
	})
}

func TestDeletedObservationKeepsItsChainAndNoContent(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada, o, _, _ := chainOfThree(t, s)
		s.apply(ada.drop(t, lexicons.ObservationNSID, string(tid(20))))

		gone := at(t, s.get("getObservation", "uri", string(o[1].URI)), "observation")
		require.Equal(t, "deleted", at(t, gone, "state"))
		for _, content := range []string{"text", "source", "method", "content", "generator", "provenance", "sameSource"} {
			require.NotContains(t, gone, content)
		}
		require.Equal(t, string(o[2].URI), at(t, gone, "chain", "head", "uri"))

		first := at(t, s.get("getObservation", "uri", string(o[0].URI)), "observation")
		require.Equal(t, string(o[2].URI), at(t, first, "chain", "head", "uri"), "the tombstone keeps the chain together")

		history := s.get("getObservationHistory", "uri", string(o[0].URI))
		require.Equal(t, "deleted", at(t, history, "versions", 1, "state"))
		require.NotContains(t, at(t, history, "versions", 1), "method")
		require.NotContains(t, at(t, history, "versions", 0), "text", "its predecessor is gone, there is nothing to compare with")

		record := s.get("getRecord", "uri", string(o[1].URI))
		require.Equal(t, "deleted", record["state"])
		require.NotContains(t, record, "value")
		name, codes := s.refuse("getObservation", "uri", "at://did:web:ada.test/garden.engram.agents.observation/"+string(tid(99)))
		require.Equal(t, "RecordNotFound", name)
		require.NotEmpty(t, codes)
	})
}

func TestListObservationsFilters(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		_, o, proposal, _ := chainOfThree(t, s)
		for name, test := range map[string]struct {
			params []string
			want   []string
		}{
			"heads":           {nil, []string{string(proposal.URI), string(o[2].URI)}},
			"all":             {[]string{"headsOnly", "false"}, []string{string(proposal.URI), string(o[2].URI), string(o[1].URI), string(o[0].URI)}},
			"by handle":       {[]string{"author", "ada.test"}, []string{string(o[2].URI)}},
			"by did":          {[]string{"author", "did:web:bob.test"}, []string{string(proposal.URI)}},
			"by run":          {[]string{"run", string(tid(1)), "author", "ada.test"}, []string{string(o[2].URI)}},
			"by another run":  {[]string{"run", string(tid(2))}, nil},
			"by device":       {[]string{"device", "lab-1", "author", "ada.test"}, []string{string(o[2].URI)}},
			"by method":       {[]string{"method", "fetch"}, nil},
			"by source":       {[]string{"sourceKind", "command", "author", "ada.test"}, []string{string(o[2].URI)}},
			"in the far past": {[]string{"until", "2020-01-01T00:00:00Z"}, nil},
		} {
			t.Run(name, func(t *testing.T) {
				var got []string
				for _, item := range at(t, s.get("listObservations", test.params...), "observations").([]any) {
					got = append(got, at(t, item, "uri").(string))
				}
				require.ElementsMatch(t, test.want, got)
			})
		}
		name, _ := s.refuse("listObservations", "author", "nobody.test")
		require.Equal(t, "InvalidRequest", name)
		name, _ = s.refuse("listObservations", "limit", "101")
		require.Equal(t, "InvalidRequest", name)
		page := s.get("listObservations", "limit", "1")
		name, _ = s.refuse("listSessions", "cursor", page["cursor"].(string))
		require.Equal(t, "InvalidRequest", name, "a cursor is good for its own list only")
	})
}

func TestRecordMasksCredentialsAndTellsWhere(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		_, o, _, _ := chainOfThree(t, s)
		record := s.get("getRecord", "uri", string(o[1].URI))
		require.Equal(t, "git fetch https://***@git.example/a.git", at(t, record, "value", "source", "value"))
		require.Equal(t, []any{"/source/value"}, record["masked"])
		require.Equal(t, "/supersedes", at(t, record, "refs", 0, "path"))
		require.Equal(t, "current", at(t, record, "refs", 0, "ref", "state"))
		require.Equal(t, o[1].CID.String(), record["cid"])

		name, codes := s.refuse("getRecord", "uri", string(o[1].URI), "cid", o[2].CID.String())
		require.Equal(t, "RecordNotFound", name)
		require.Equal(t, []string{"version-not-held"}, codes)
	})
}
