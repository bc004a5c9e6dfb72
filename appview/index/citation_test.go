package index_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// claim says text and cites a target for its first word.
func claim(text, relation string, target lexicons.StrongRef, selector map[string]any) map[string]any {
	citation := map[string]any{
		"span":     map[string]any{"byteStart": int64(0), "byteEnd": int64(len(text))},
		"relation": relation, "target": strong(target),
	}
	if selector != nil {
		citation["selector"] = selector
	}
	return map[string]any{
		"text": text, "citations": []any{citation}, "createdAt": "2026-11-30T10:00:00.000Z",
		"generator": map[string]any{"run": string(clockworkTID(1))},
	}
}

func quoting(exact string) map[string]any {
	return map[string]any{"$type": "garden.engram.agents.defs#textQuote", "exact": exact}
}

// shelf is content that tests put there, by CID.
type shelf map[cid.Cid][]byte

// put keeps bytes and returns the blob that a record names them by.
func (s shelf) put(mime string, content []byte) atdata.Blob {
	sum := sha256.Sum256(content)
	hash, _ := multihash.Encode(sum[:], multihash.SHA2_256) // SHA-256 is always known
	c := cid.NewCidV1(cid.Raw, hash)
	s[c] = content
	return atdata.Blob{Ref: atdata.CIDLink(c), MimeType: mime, Size: int64(len(content))}
}

func (s shelf) OpenContent(_ context.Context, _ syntax.DID, c cid.Cid) (io.ReadCloser, error) {
	content, ok := s[c]
	if !ok {
		return nil, index.ErrNoContent
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// citedBy is all that the index says of what cites a target.
func citedBy(t require.TestingT, x *index.Index, target syntax.ATURI) string {
	list, err := x.CitedBy(context.Background(), admin, target, index.Page{Limit: index.MaxLimit})
	require.NoError(t, err)
	var out strings.Builder
	for _, c := range list.Items {
		fmt.Fprintf(&out, "%s %s %s %s %s %v %s %s\n", c.From, c.Path, c.Relation, c.Tested.Verdict, c.Tested.Haystack, c.Tested.At, c.Freshness, c.Head)
	}
	return out.String()
}

func one(t *testing.T, x *index.Index, target syntax.ATURI) index.Cited {
	t.Helper()
	list, err := x.CitedBy(t.Context(), guest, target, index.Page{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	return list.Items[0]
}

// Whatever came first, claim or evidence, the verdict is the same.
func TestCitationIsCheckedWhenItsTargetArrives(t *testing.T) {
	for name, claimFirst := range map[string]bool{"evidence first": false, "claim first": true} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
				x, a, b := newIndex(t, db), newAuthor(ada), newAuthor(bob)
				evidence, seen := a.put(t, lexicons.ObservationNSID, key(1), observation("the build is green", nil))
				said, ref := b.put(t, lexicons.ClaimNSID, key(2), claim("green, they say", "quotes", seen, quoting("green")))
				if claimFirst {
					apply(t, x, said)
					require.Equal(t, lexicons.CitationUnknown, one(t, x, seen.URI).Tested.Verdict)
					require.Equal(t, lexicons.ReasonNotHeld, one(t, x, seen.URI).Tested.Reason)
					apply(t, x, evidence)
				} else {
					apply(t, x, evidence, said)
				}
				got := one(t, x, seen.URI)
				require.Equal(t, lexicons.CitationVerified, got.Tested.Verdict)
				require.Equal(t, &lexicons.Span{Start: 13, End: 18}, got.Tested.At)
				require.Equal(t, "/citations/0", got.Path)
				require.Empty(t, got.Freshness)

				// The claim is rewritten, and its words are no longer there.
				c, _ := b.put(t, lexicons.ClaimNSID, key(2), claim("red, they say", "quotes", seen, quoting("red")))
				apply(t, x, c)
				require.Equal(t, lexicons.CitationNotFound, one(t, x, seen.URI).Tested.Verdict)
				found, err := x.Findings(t.Context(), guest, uris(ref))
				require.NoError(t, err)
				require.Contains(t, codes(found[ref.URI]), lexicons.CodeCitationFails)

				// The evidence is deleted: of what was cited nothing is left, not even where it was.
				apply(t, x, a.drop(lexicons.ObservationNSID, key(1)))
				require.Equal(t, lexicons.CitationUnknown, one(t, x, seen.URI).Tested.Verdict)
				found, err = x.Findings(t.Context(), guest, uris(ref))
				require.NoError(t, err)
				require.Contains(t, codes(found[ref.URI]), lexicons.CodeEvidenceDeleted)
				require.NotContains(t, codes(found[ref.URI]), lexicons.CodeCitationFails)

				apply(t, x, b.drop(lexicons.ClaimNSID, key(2)))
				list, err := x.CitedBy(t.Context(), admin, seen.URI, index.Page{})
				require.NoError(t, err)
				require.Empty(t, list.Items)
			})
		})
	}
}

// An old version that is held is what a citation of it is checked against.
func TestCitationOfAnOldVersion(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a, b := newIndex(t, db), newAuthor(ada), newAuthor(bob)
		c, old := a.put(t, lexicons.SessionNSID, "s", session("2026-11-30T10:00:00.000Z", "m", "active"))
		apply(t, x, c)
		said, _ := b.put(t, lexicons.ClaimNSID, key(2), claim("so it was", "restates", old, quoting("goal: green")))
		apply(t, x, said)
		changed := session("2026-11-30T11:00:00.000Z", "m", "active")
		changed["summary"] = "goal: red"
		c, _ = a.put(t, lexicons.SessionNSID, "s", changed)
		apply(t, x, c)
		require.Equal(t, lexicons.CitationVerified, one(t, x, old.URI).Tested.Verdict, "the version that it pins is still here")
		never := old
		never.CID = a.commit().CID
		said, ref := b.put(t, lexicons.ClaimNSID, key(3), claim("so it was", "restates", never, quoting("goal: green")))
		apply(t, x, said)
		list, err := x.CitedBy(t.Context(), guest, old.URI, index.Page{})
		require.NoError(t, err)
		require.Len(t, list.Items, 2)
		require.Equal(t, ref.URI, list.Items[1].From)
		require.Equal(t, lexicons.ReasonNotHeld, list.Items[1].Tested.Reason)
	})
}

// What supersedes a cited observation is asked whether it still says so.
func TestFreshnessFollowsTheHead(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a, b := newIndex(t, db), newAuthor(ada), newAuthor(bob)
		put := func(n int, text string, supersedes *lexicons.StrongRef) lexicons.StrongRef {
			c, ref := a.put(t, lexicons.ObservationNSID, key(n), observation(text, supersedes))
			apply(t, x, c)
			return ref
		}
		recheck := func() index.Cited {
			require.NoError(t, x.RecheckCitations(t.Context(), shelf{}))
			got := citedBy(t, x, a.uri(lexicons.ObservationNSID, key(1)))
			require.NoError(t, x.Reindex(t.Context()))
			require.NoError(t, x.RecheckCitations(t.Context(), shelf{}))
			require.Equal(t, got, citedBy(t, x, a.uri(lexicons.ObservationNSID, key(1))), "as a replay has it")
			return one(t, x, a.uri(lexicons.ObservationNSID, key(1)))
		}
		first := put(1, "the build is green", nil)
		c, said := b.put(t, lexicons.ClaimNSID, key(9), claim("green", "quotes", first, quoting("green")))
		apply(t, x, c)
		require.Empty(t, recheck().Freshness)

		second := put(2, "still green", &first)
		require.Equal(t, lexicons.FreshStillHolds, recheck().Freshness)
		third := put(3, "it is red", &second)
		require.Equal(t, lexicons.FreshGone, recheck().Freshness)
		found, err := x.Findings(t.Context(), guest, uris(said))
		require.NoError(t, err)
		require.Contains(t, codes(found[said.URI]), lexicons.CodeEvidenceGone)
		fourth := put(4, "green again", &third)
		require.Equal(t, fourth.URI, recheck().Head)
		fork := put(5, "no, it is yellow", &third)
		got := recheck()
		require.Equal(t, fork.URI, got.Head, "the greater record key is chosen")
		require.Equal(t, lexicons.FreshGone, got.Freshness)

		apply(t, x, a.drop(lexicons.ObservationNSID, key(5)))
		got = recheck()
		require.Equal(t, fourth.URI, got.Head, "its branch is the chosen one again")
		require.Equal(t, lexicons.FreshStillHolds, got.Freshness)
		found, err = x.Findings(t.Context(), guest, uris(said))
		require.NoError(t, err)
		require.NotContains(t, codes(found[said.URI]), lexicons.CodeEvidenceGone)

		for n := 4; n > 0; n-- {
			apply(t, x, a.drop(lexicons.ObservationNSID, key(n)))
		}
		require.Empty(t, recheck().Freshness, "nothing is left to compare with")
		last := put(6, "green after all", &first)
		got = recheck()
		require.Equal(t, last.URI, got.Head)
		require.Equal(t, lexicons.FreshStillHolds, got.Freshness)
	})
}

// A chain that is cited a lot still grows in flat time: what a new head means
// to whom is left to the queue, and is done in pages.
func TestNewHeadLeavesCitationsToTheQueue(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a, b := newIndex(t, db), newAuthor(ada), newAuthor(bob)
		c, first := a.put(t, lexicons.ObservationNSID, key(1), observation("green", nil))
		apply(t, x, c)
		const citing = 250
		for n := range citing {
			c, _ := b.put(t, lexicons.ClaimNSID, key(100+n), claim("green", "quotes", first, quoting("green")))
			apply(t, x, c)
		}
		c, second := a.put(t, lexicons.ObservationNSID, key(2), observation("red", &first))
		apply(t, x, c)
		list, err := x.CitedBy(t.Context(), guest, first.URI, index.Page{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, first.URI, list.Items[0].Head, "and the row says that it was not compared yet")
		require.NoError(t, x.RecheckCitations(t.Context(), shelf{}))
		page, seen := index.Page{Limit: 100}, map[syntax.ATURI]bool{}
		for {
			list, err := x.CitedBy(t.Context(), guest, first.URI, page)
			require.NoError(t, err)
			for _, c := range list.Items {
				require.Equal(t, lexicons.FreshGone, c.Freshness)
				require.Equal(t, second.URI, c.Head)
				seen[c.From] = true
			}
			if page.After = list.Next; page.After == nil {
				break
			}
		}
		require.Len(t, seen, citing)
		require.Empty(t, rows(t, db, "SELECT kind FROM citation_queue"))
	})
}

func rows(t *testing.T, db *migrations.DB, query string) []string {
	t.Helper()
	var out []string
	require.NoError(t, db.Read.WithContext(t.Context()).Raw(query).Scan(&out).Error)
	return out
}

// Bytes are looked into outside of Apply, once; what came of it outlives a
// replay but not the last record that names them.
func TestCitationInTheBytes(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		clock := now
		catalog, err := lexicons.Load()
		require.NoError(t, err)
		x, err := index.New(index.Config{DB: db, Rules: lexicons.NewRules(catalog, lexicons.Settings{}), Now: func() time.Time { return clock }})
		require.NoError(t, err)
		a, b := newAuthor(ada), newAuthor(bob)
		var content shelf = map[cid.Cid][]byte{}
		long := []byte(strings.Repeat("line after line\n", 50_000) + "the last line\n")
		seen := observation("line after line", nil)
		seen["content"] = content.put("text/plain", long)
		c, evidence := a.put(t, lexicons.ObservationNSID, key(1), seen)
		said, claimed := b.put(t, lexicons.ClaimNSID, key(2), claim("the last line", "quotes", evidence, quoting("the last line")))
		apply(t, x, c, said)
		require.Equal(t, lexicons.ReasonUnread, one(t, x, evidence.URI).Tested.Reason)
		require.NoError(t, x.RecheckCitations(t.Context(), shelf{}))
		require.Equal(t, lexicons.ReasonUnread, one(t, x, evidence.URI).Tested.Reason, "nobody has them yet")
		require.NoError(t, x.RecheckCitations(t.Context(), content))
		require.Equal(t, lexicons.ReasonUnread, one(t, x, evidence.URI).Tested.Reason, "and they are not asked for all the time")
		clock = clock.Add(time.Hour)
		require.NoError(t, x.RecheckCitations(t.Context(), content))
		got := one(t, x, evidence.URI)
		require.Equal(t, lexicons.CitationVerified, got.Tested.Verdict)
		require.Equal(t, lexicons.HaystackBlob, got.Tested.Haystack)
		require.Equal(t, "the last line", string(long[got.Tested.At.Start:got.Tested.At.End]))

		require.NoError(t, x.Reindex(t.Context()))
		require.Equal(t, got, one(t, x, evidence.URI), "without reading them again")
		require.Empty(t, rows(t, db, "SELECT kind FROM citation_queue"))

		// What supersedes it keeps other bytes, where the words are not.
		after := observation("line after line", &evidence)
		after["content"] = content.put("text/plain", []byte("line after line, and no other"))
		c, head := a.put(t, lexicons.ObservationNSID, key(3), after)
		apply(t, x, c)
		require.NoError(t, x.RecheckCitations(t.Context(), content))
		got = one(t, x, evidence.URI)
		require.Equal(t, head.URI, got.Head)
		require.Equal(t, lexicons.FreshGone, got.Freshness)
		require.Len(t, rows(t, db, "SELECT test FROM content_tests"), 2)

		apply(t, x, a.drop(lexicons.ObservationNSID, key(3)), a.drop(lexicons.ObservationNSID, key(1)))
		require.NoError(t, x.RecheckCitations(t.Context(), content))
		require.Empty(t, rows(t, db, "SELECT test FROM content_tests"))
		found, err := x.Findings(t.Context(), guest, uris(claimed))
		require.NoError(t, err)
		require.Contains(t, codes(found[claimed.URI]), lexicons.CodeEvidenceDeleted)
		require.NotContains(t, strings.Join(rows(t, db, "SELECT message FROM findings"), " "), "the last line", "no quote is kept")
	})
}

// Any record that carries span, relation and target is read, wherever they stand.
func TestCitationsAreFoundByStructure(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		c, seen := a.put(t, lexicons.ObservationNSID, key(1), observation("the build is green", nil))
		apply(t, x, c)
		said := claim("green", "quotes", seen, quoting("green"))["citations"].([]any)[0]
		c, _ = a.put(t, "org.example.essay", key(2), map[string]any{"parts": []any{map[string]any{"text": "green", "a/b~c": []any{said}}}, "text": "other words"})
		apply(t, x, c)
		got := one(t, x, seen.URI)
		require.Equal(t, "/parts/0/a~1b~0c/0", got.Path)
		require.Equal(t, lexicons.CitationVerified, got.Tested.Verdict, "the span is one of the part's text")

		many := make([]any, 300)
		for i := range many {
			many[i] = said
		}
		c, _ = a.put(t, "org.example.essay", key(3), map[string]any{"list": many, "text": "green"})
		apply(t, x, c)
		counts, err := x.CountCitations(t.Context(), guest, seen.URI)
		require.NoError(t, err)
		require.Equal(t, []index.CitedCount{{Relation: "quotes", Verdict: lexicons.CitationVerified, N: 1 + lexicons.MaxCitations}}, counts)
	})
}

func TestDisputes(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a, b := newIndex(t, db), newAuthor(ada), newAuthor(bob)
		c, seen := a.put(t, lexicons.ObservationNSID, key(1), observation("the build is green", nil))
		apply(t, x, c)
		for n, relation := range []string{"quotes", "contradicts", "corrects", "restates"} {
			c, _ := b.put(t, lexicons.ClaimNSID, key(10+n), claim("green", relation, seen, nil))
			apply(t, x, c)
		}
		disputed, err := x.Disputed(t.Context(), guest, []syntax.ATURI{seen.URI, "at://did:web:x.test/a.b.c/d"})
		require.NoError(t, err)
		require.Equal(t, map[syntax.ATURI]int64{seen.URI: 2}, disputed)
		require.NoError(t, x.TakeDown(t.Context(), b.uri(lexicons.ClaimNSID, key(11))))
		disputed, err = x.Disputed(t.Context(), guest, []syntax.ATURI{seen.URI})
		require.NoError(t, err)
		require.EqualValues(t, 1, disputed[seen.URI])
		disputed, err = x.Disputed(t.Context(), index.Viewer{Collections: []syntax.NSID{lexicons.ObservationNSID}}, []syntax.ATURI{seen.URI})
		require.NoError(t, err)
		require.Empty(t, disputed, "who may not know of claims is told of none")
		apply(t, x, &index.Account{DID: bob, Status: "deactivated"})
		disputed, err = x.Disputed(t.Context(), guest, []syntax.ATURI{seen.URI})
		require.NoError(t, err)
		require.Empty(t, disputed)
	})
}

// genCiting draws histories of observations that supersede each other and of
// claims that cite them, in their words and in their bytes, whoever they are of.
func genCiting(t *rapid.T, content shelf) ([]*history, []syntax.ATURI) {
	authors := []*history{{author: newAuthor(ada)}, {author: newAuthor(bob)}}
	var observed, all []syntax.ATURI
	for _, h := range authors {
		for n := range 4 {
			observed = append(observed, h.author.uri(lexicons.ObservationNSID, key(100+n)))
			all = append(all, h.author.uri(lexicons.ObservationNSID, key(100+n)), h.author.uri(lexicons.ClaimNSID, key(200+n)))
		}
	}
	seen := map[syntax.ATURI]cid.Cid{}
	stray, err := lexicons.ParseValue(lexicons.ObservationNSID, observation("stray", nil))
	require.NoError(t, err)
	target := func() lexicons.StrongRef {
		uri := rapid.SampledFrom(observed).Draw(t, "target")
		if c, ok := seen[uri]; ok && rapid.IntRange(0, 6).Draw(t, "another version") > 0 {
			return lexicons.StrongRef{URI: uri, CID: c}
		}
		return lexicons.StrongRef{URI: uri, CID: stray.CID}
	}
	words := []string{"green", "red", "blue"}
	for range rapid.IntRange(1, 24).Draw(t, "steps") {
		h := rapid.SampledFrom(authors).Draw(t, "author")
		collection, rkey := lexicons.ObservationNSID, key(100+rapid.IntRange(0, 3).Draw(t, "key"))
		if rapid.Bool().Draw(t, "claim") {
			collection, rkey = lexicons.ClaimNSID, key(200+rapid.IntRange(0, 3).Draw(t, "key"))
		}
		if _, held := h.author.held[string(collection)+"/"+rkey]; held && rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
			h.events = append(h.events, h.author.drop(collection, rkey))
			continue
		}
		var value map[string]any
		word := rapid.SampledFrom(words).Draw(t, "word")
		if collection == lexicons.ClaimNSID {
			relation := rapid.SampledFrom([]string{"quotes", "restates", "contradicts"}).Draw(t, "relation")
			value = claim("green and red", relation, target(), quoting(word))
		} else {
			var supersedes *lexicons.StrongRef
			if rapid.IntRange(0, 3).Draw(t, "linked") > 0 {
				ref := target()
				supersedes = &ref
			}
			value = observation(word, supersedes)
			if rapid.Bool().Draw(t, "with bytes") {
				value["content"] = content.put("text/plain", []byte("bytes: "+rapid.SampledFrom(words).Draw(t, "byte word")))
			}
		}
		c, ref := h.author.put(t, collection, rkey, value)
		if op := c.Ops[0]; op.Action == lexicons.Update && op.CID == op.Prev {
			continue
		}
		seen[ref.URI] = ref.CID
		h.events = append(h.events, c)
	}
	return authors, all
}

// Whatever arrives first, and whenever the queue is worked on, the citations
// come to the same verdicts and freshness, and a replay gives the same.
func TestCitationsDoNotDependOnArrival(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x := newIndex(t, db)
		rapid.Check(t, func(t *rapid.T) {
			var content shelf = map[cid.Cid][]byte{}
			authors, all := genCiting(t, content)
			say := func() string {
				require.NoError(t, x.RecheckCitations(t.Context(), content))
				out := answers(t.Context(), t, x, all)
				for _, uri := range all {
					out += citedBy(t, x, uri)
				}
				return out
			}
			wipe(t.Context(), t, db)
			for _, e := range authorsInTurn(authors) {
				require.NoError(t, x.Apply(t.Context(), "a", 0, []index.Event{e}))
			}
			want := say()
			require.NoError(t, x.Reindex(t.Context()))
			require.Equal(t, want, say(), "replayed from the journal")

			wipe(t.Context(), t, db)
			woven := weave(t, "next", authors)
			for len(woven) > 0 {
				n := rapid.IntRange(1, len(woven)).Draw(t, "batch")
				require.NoError(t, x.Apply(t.Context(), "a", 0, woven[:n]))
				woven = woven[n:]
				if rapid.IntRange(0, 3).Draw(t, "recheck") == 0 {
					require.NoError(t, x.RecheckCitations(t.Context(), content))
				}
			}
			require.Equal(t, want, say(), "woven in another order")
		})
	})
}
