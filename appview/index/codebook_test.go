package index_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

var update = flag.Bool("update", false, "write the examples of codes in lexicons/testdata/findings anew")

// shows makes a world in which one record has a code and another has it not.
type shows struct {
	says  string // the example in words
	build func(w *stage) (has, not syntax.ATURI)
}

// stage is an index with two authors that write into it.
type stage struct {
	t    *testing.T
	x    *index.Index
	a, b *author
}

func (s *stage) put(by *author, nsid syntax.NSID, rkey string, value map[string]any) lexicons.StrongRef {
	c, ref := by.put(s.t, nsid, rkey, value)
	apply(s.t, s.x, c)
	return ref
}

func (s *stage) observe(n int, text string, supersedes *lexicons.StrongRef) lexicons.StrongRef {
	return s.put(s.a, lexicons.ObservationNSID, key(n), observation(text, supersedes))
}

func (s *stage) claim(n int, text, relation string, target lexicons.StrongRef, selector map[string]any) lexicons.StrongRef {
	return s.put(s.b, lexicons.ClaimNSID, key(n), claim(text, relation, target, selector))
}

func (s *stage) turn(n int, at string) lexicons.StrongRef {
	said := message(s.a.uri(lexicons.ChatSessionNSID, key(1)), "user", "hello")
	said["createdAt"] = at
	return s.put(s.a, lexicons.MessageNSID, key(n), said)
}

// codeExamples has one for each code that only an index finds.
var codeExamples = map[string]shows{
	lexicons.CodeSuccessorDeleted: {"An observation whose successor was deleted.", func(s *stage) (has, not syntax.ATURI) {
		first := s.observe(1, "one", nil)
		other := s.observe(2, "two", nil)
		s.observe(3, "one again", &first)
		apply(s.t, s.x, s.a.drop(lexicons.ObservationNSID, key(3)))
		return first.URI, other.URI
	}},
	lexicons.CodeRunShared: {"An observation with `\"generator\": {\"run\": …}` of a run that another repo has too.", func(s *stage) (has, not syntax.ATURI) {
		first := s.observe(1, "one", nil)
		s.put(s.b, lexicons.ObservationNSID, key(1), observation("mine", nil))
		own := observation("of my own run", nil)
		own["generator"] = map[string]any{"run": string(clockworkTID(7))}
		return first.URI, s.put(s.b, lexicons.ObservationNSID, key(2), own).URI
	}},
	lexicons.CodeContended: {"A session whose `machine` was lab-1, lab-2 and lab-1 again within ten minutes.", func(s *stage) (has, not syntax.ATURI) {
		for i, at := range []string{"2026-11-30T10:00:00.000Z", "2026-11-30T10:02:00.000Z", "2026-11-30T10:04:00.000Z"} {
			s.put(s.a, lexicons.SessionNSID, "s.1", session(at, []string{"lab-1", "lab-2"}[i%2], "active"))
		}
		for i, at := range []string{"2026-11-30T10:00:00.000Z", "2026-11-30T10:02:00.000Z", "2026-11-30T11:04:00.000Z"} {
			s.put(s.a, lexicons.SessionNSID, "s.2", session(at, []string{"lab-1", "lab-2"}[i%2], "active"))
		}
		return s.a.uri(lexicons.SessionNSID, "s.1"), s.a.uri(lexicons.SessionNSID, "s.2")
	}},
	lexicons.CodeNoPublishedTurns: {"A conversation whose turns are all withheld, or which has none.", func(s *stage) (has, not syntax.ATURI) {
		talk := s.put(s.a, lexicons.ChatSessionNSID, key(1), map[string]any{"createdAt": "2026-11-30T09:00:00.000Z"})
		silent := s.put(s.a, lexicons.ChatSessionNSID, key(2), map[string]any{"createdAt": "2026-11-30T09:00:00.000Z"})
		s.turn(3, "2026-11-30T10:00:00.000Z")
		return silent.URI, talk.URI
	}},
	lexicons.CodeOrderDiffers: {"A turn with `\"createdAt\": \"2026-11-30T10:00:00Z\"` whose record key comes after that of a turn of 10:05.", func(s *stage) (has, not syntax.ATURI) {
		first := s.turn(2, "2026-11-30T10:05:00.000Z")
		return s.turn(3, "2026-11-30T10:00:00.000Z").URI, first.URI
	}},
	lexicons.CodeNameReused: {"Two skills of one repo with `\"name\": \"sorting\"`.", func(s *stage) (has, not syntax.ATURI) {
		named := func(n int, name string) lexicons.StrongRef {
			return s.put(s.a, lexicons.SkillNSID, key(n), map[string]any{"name": name, "description": "d", "content": "c", "createdAt": "2026-11-30T09:00:00.000Z"})
		}
		first := named(1, "sorting")
		named(2, "sorting")
		return first.URI, named(3, "watering").URI
	}},
	lexicons.CodeCitationFails: {"A claim that quotes \"red\" from an observation with the text \"the build is green\".", func(s *stage) (has, not syntax.ATURI) {
		seen := s.observe(1, "the build is green", nil)
		return s.claim(2, "red", "quotes", seen, quoting("red")).URI, s.claim(3, "green", "quotes", seen, quoting("green")).URI
	}},
	lexicons.CodeCitationAmbiguous: {"A claim that quotes \"green\" from an observation with the text \"green, and green again\".", func(s *stage) (has, not syntax.ATURI) {
		seen := s.observe(1, "green, and green again", nil)
		return s.claim(2, "green", "quotes", seen, quoting("green")).URI, s.claim(3, "again", "quotes", seen, quoting("again")).URI
	}},
	lexicons.CodeMisquote: {"A claim with the text \"it works\" that quotes \"green\" from an observation.", func(s *stage) (has, not syntax.ATURI) {
		seen := s.observe(1, "the build is green", nil)
		return s.claim(2, "it works", "quotes", seen, quoting("green")).URI, s.claim(3, "it works", "restates", seen, quoting("green")).URI
	}},
	lexicons.CodeEvidenceDeleted: {"A claim that cites an observation which was deleted since.", func(s *stage) (has, not syntax.ATURI) {
		gone, stays := s.observe(1, "green", nil), s.observe(2, "green", nil)
		has, not = s.claim(3, "green", "quotes", gone, quoting("green")).URI, s.claim(4, "green", "quotes", stays, quoting("green")).URI
		apply(s.t, s.x, s.a.drop(lexicons.ObservationNSID, key(1)))
		return has, not
	}},
	lexicons.CodeEvidenceGone: {"A claim that quotes \"green\" from an observation, which one with the text \"it is red\" supersedes.", func(s *stage) (has, not syntax.ATURI) {
		first := s.observe(1, "the build is green", nil)
		has, not = s.claim(3, "green", "quotes", first, quoting("green")).URI, s.claim(4, "is", "quotes", first, quoting("is")).URI
		s.observe(2, "it is red", &first)
		require.NoError(s.t, s.x.RecheckCitations(s.t.Context(), shelf{}))
		return has, not
	}},
	lexicons.CodeDesynchronized: {"A repo of which an event did not verify.", func(s *stage) (has, not syntax.ATURI) {
		apply(s.t, s.x, &index.Desync{DID: s.a.did, Reason: "a commit whose signature does not verify"})
		return syntax.ATURI("at://" + string(s.a.did)), syntax.ATURI("at://" + string(s.b.did))
	}},
}

// TestCodesOfTheIndex: every code that only an index finds is on the record
// that has it, as its entry says, and not on the other. What is found is the
// example in docs/findings.md.
func TestCodesOfTheIndex(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x := newIndex(t, db)
		for _, entry := range lexicons.Codebook() {
			if entry.Stage != lexicons.StageIndex || entry.Code == lexicons.CodeVersionNotHeld {
				continue // an answer of the appview
			}
			t.Run(entry.Code, func(t *testing.T) {
				example, ok := codeExamples[entry.Code]
				require.True(t, ok, "no example")
				did := func(name string) syntax.DID { return syntax.DID("did:web:" + name + "." + entry.Code + ".test") }
				has, not := example.build(&stage{t: t, x: x, a: newAuthor(did("ada")), b: newAuthor(did("bob"))})
				found, err := x.Findings(t.Context(), admin, []syntax.ATURI{has, not})
				require.NoError(t, err)
				require.NotContains(t, codes(found[not]), entry.Code)
				at := slices.IndexFunc(found[has], func(f index.Finding) bool { return f.Code == entry.Code })
				require.GreaterOrEqual(t, at, 0, "%v", found[has])
				require.True(t, entry.AtIndex(found[has][at].Finding, false), "the entry says otherwise: %+v", found[has][at])
				keepExample(t, "../../lexicons/testdata/findings/"+entry.Code+".json", example.says, found[has][at].Finding)
			})
		}
	})
}

// keepExample compares an example of a code with the one that documents are made of.
func keepExample(t *testing.T, file, says string, found lexicons.Finding) {
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	require.NoError(t, encoder.Encode(map[string]any{"Shows": says, "Finding": found}))
	if *update {
		require.NoError(t, os.WriteFile(file, want.Bytes(), 0o644))
	}
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want.String(), string(kept), "go test . -run TestCodesOfTheIndex -update")
}
