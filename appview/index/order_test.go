package index_test

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"
	"pgregory.net/rapid"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// answers is what the index says about everything, without what depends on
// when and in which order it heard of it: seq, and the numbers of branches.
func answers(ctx context.Context, t require.TestingT, x *index.Index, all []syntax.ATURI) string {
	var b strings.Builder
	records, err := x.Records(ctx, admin, all)
	require.NoError(t, err)
	found, err := x.Findings(ctx, admin, all)
	require.NoError(t, err)
	for _, uri := range all {
		rec, ok := records[uri]
		if !ok {
			fmt.Fprintf(&b, "%s none\n", uri)
			continue
		}
		fmt.Fprintf(&b, "%s %s cid=%s repo=%s content=%d\n", uri, rec.State, rec.CID, rec.RepoCID, len(rec.CBOR))
		versions, err := x.Versions(ctx, admin, uri, index.Page{})
		require.NoError(t, err)
		for _, v := range versions.Items {
			fmt.Fprintf(&b, "  version %s %s %v content=%d\n", v.Action, v.CID, v.Rewrites, len(v.CBOR))
		}
		for _, f := range found[uri] {
			fmt.Fprintf(&b, "  finding %s %s %s %s\n", f.Code, f.Severity, f.Path, f.Message)
		}
		if rec.Collection != lexicons.ObservationNSID {
			continue
		}
		chain, err := x.Chain(ctx, admin, uri)
		require.NoError(t, err)
		fmt.Fprintf(&b, "  chain length=%d root=%s at=%d edge=%q live=%v behind=%d forked=%v\n", chain.Length, chain.Root.URI,
			chain.Self.Position, chain.Self.Edge, chain.Self.Live, chain.StepsBehind, chain.Forked)
		if chain.Head != nil {
			fmt.Fprintf(&b, "  head %s\n", chain.Head.URI)
		}
		for _, h := range chain.Heads {
			fmt.Fprintf(&b, "  heads %s\n", h.URI)
		}
		for _, p := range chain.Proposals {
			fmt.Fprintf(&b, "  proposal %s\n", p.URI)
		}
	}
	for _, uri := range all {
		rec, err := x.Record(ctx, guest, uri)
		if err != nil {
			require.ErrorIs(t, err, index.ErrNotFound)
			continue
		}
		fmt.Fprintf(&b, "for a guest %s %s\n", uri, rec.State)
		if rec.Collection == lexicons.ObservationNSID {
			chain, err := x.Chain(ctx, guest, uri)
			require.NoError(t, err)
			for _, h := range chain.Heads {
				fmt.Fprintf(&b, "  heads %s\n", h.URI)
			}
		}
	}
	for _, filter := range []index.ObservationFilter{{}, {AllVersions: true}, {DID: ada}} {
		list, err := x.ListObservations(ctx, guest, filter, index.Page{Limit: 100})
		require.NoError(t, err)
		for _, o := range list.Items {
			fmt.Fprintf(&b, "listed %s head=%v edge=%q\n", o.URI, o.Head, o.Edge)
		}
	}
	return b.String()
}

// history draws a history of one author: observations that supersede anything
// that was ever written anywhere or never will be, by its CID or another,
// edits, deletions, record keys used again, records that fail their lexicon,
// and accounts that are taken down, come back, or are deleted and start over.
type history struct {
	author *author
	events []index.Event
}

// genHistories draws the histories of three authors over one small set of
// record keys, so that they meet.
func genHistories(t *rapid.T) ([]*history, []syntax.ATURI) {
	authors := []*history{{author: newAuthor(ada)}, {author: newAuthor(bob)}, {author: newAuthor(cleo)}}
	var all []syntax.ATURI
	for _, h := range authors {
		for n := range 6 {
			all = append(all, h.author.uri(lexicons.ObservationNSID, key(100+n)))
		}
	}
	seen := map[syntax.ATURI]cid.Cid{} // some CID that was once at a URI
	stray, err := lexicons.ParseValue(lexicons.ObservationNSID, observation("stray", nil))
	require.NoError(t, err)
	for range rapid.IntRange(1, 24).Draw(t, "steps") {
		h := authors[rapid.IntRange(0, 2).Draw(t, "author")]
		rkey := key(100 + rapid.IntRange(0, 5).Draw(t, "key"))
		path := string(lexicons.ObservationNSID) + "/" + rkey
		if rapid.IntRange(0, 9).Draw(t, "account") == 0 {
			status := rapid.SampledFrom([]string{"", "takendown", "deactivated", "deleted"}).Draw(t, "status")
			h.events = append(h.events, &index.Account{DID: h.author.did, Active: status == "", Status: status})
			if status == "deleted" {
				clear(h.author.held)
			}
			continue
		}
		if _, held := h.author.held[path]; held && rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
			h.events = append(h.events, h.author.drop(lexicons.ObservationNSID, rkey))
			continue
		}
		var target *lexicons.StrongRef
		if rapid.IntRange(0, 4).Draw(t, "linked") > 0 {
			// Mostly the author's own: only those links count.
			of := all
			if rapid.IntRange(0, 3).Draw(t, "own") > 0 {
				of = ofAuthor(all, h.author.did)
			}
			uri := of[rapid.IntRange(0, len(of)-1).Draw(t, "target")]
			pinned, ok := seen[uri]
			if !ok || rapid.IntRange(0, 5).Draw(t, "weak") == 0 {
				pinned = stray.CID
			}
			target = &lexicons.StrongRef{URI: uri, CID: pinned}
		}
		text := fmt.Sprint("text ", rapid.IntRange(0, 2).Draw(t, "text"))
		value := observation(text, target)
		if rapid.IntRange(0, 7).Draw(t, "invalid") == 0 {
			delete(value, "method")
		}
		c, ref := h.author.put(t, lexicons.ObservationNSID, rkey, value)
		if c.Ops[0].Action == lexicons.Update && c.Ops[0].CID == c.Ops[0].Prev {
			continue // no host commits what changes nothing
		}
		seen[ref.URI] = ref.CID
		h.events = append(h.events, c)
	}
	return authors, all
}

func ofAuthor(all []syntax.ATURI, did syntax.DID) []syntax.ATURI {
	var own []syntax.ATURI
	for _, uri := range all {
		if uri.Authority().String() == string(did) {
			own = append(own, uri)
		}
	}
	return own
}

// weave draws one interleaving that keeps each author's order.
func weave(t *rapid.T, name string, authors []*history) []index.Event {
	at := make([]int, len(authors))
	var out []index.Event
	for {
		var open []int
		for i, h := range authors {
			if at[i] < len(h.events) {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			return out
		}
		i := open[rapid.IntRange(0, len(open)-1).Draw(t, name)]
		out = append(out, authors[i].events[at[i]])
		at[i]++
	}
}

// wipe empties an index between two runs.
func wipe(ctx context.Context, t require.TestingT, db *migrations.DB) {
	require.NoError(t, db.Tx(ctx, func(tx *gorm.DB) error {
		for _, table := range []string{
			"journal", "proofs", "repos", "sources", "records", "refs", "blob_refs", "findings", "observations", "chain_nodes",
			"chain_branches", "sessions", "classes", "skills", "conversations", "messages",
			"citations", "citation_queue", "search_docs", "content_tests", "commit_marks", "trust_journal", "trust_members",
		} {
			if err := tx.Exec("DELETE FROM " + table).Error; err != nil {
				return err
			}
		}
		return nil
	}))
}

// Any interleaving that keeps each DID's order ends in the same state, however
// it is cut into transactions, told twice or replayed from the journal.
func TestStateDoesNotDependOnArrival(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x := newIndex(t, db)
		rapid.Check(t, func(t *rapid.T) {
			authors, all := genHistories(t)
			wipe(t.Context(), t, db)
			inOrder := authorsInTurn(authors)
			for _, e := range inOrder {
				require.NoError(t, x.Apply(t.Context(), "a", 0, []index.Event{e}))
			}
			want := answers(t.Context(), t, x, all)

			if !startsOver(inOrder) { // what was deleted with its account and is told again is there again
				require.NoError(t, x.Apply(t.Context(), "a", 0, inOrder))
				require.Equal(t, want, answers(t.Context(), t, x, all), "told twice")
			}
			require.NoError(t, x.Reindex(t.Context()))
			require.Equal(t, want, answers(t.Context(), t, x, all), "replayed from the journal")

			wipe(t.Context(), t, db)
			woven := weave(t, "next", authors)
			for len(woven) > 0 {
				n := rapid.IntRange(1, len(woven)).Draw(t, "batch")
				require.NoError(t, x.Apply(t.Context(), "a", 0, woven[:n]))
				woven = woven[n:]
			}
			require.Equal(t, want, answers(t.Context(), t, x, all), "woven in another order")
		})
	})
}

// startsOver tells that an account was deleted: its repo has no rev any more
// that would tell old commits from new ones, and a source's cursor must.
func startsOver(events []index.Event) bool {
	return slices.ContainsFunc(events, func(e index.Event) bool {
		a, ok := e.(*index.Account)
		return ok && a.Status == "deleted"
	})
}

func authorsInTurn(authors []*history) []index.Event {
	var out []index.Event
	for _, h := range authors {
		out = append(out, h.events...)
	}
	return out
}

// The head of every chain, found by walking the links of an independent model
// of them, is the one that the index gives.
func TestHeadsAgreeWithAModel(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x := newIndex(t, db)
		rapid.Check(t, func(t *rapid.T) {
			wipe(t.Context(), t, db)
			a := newAuthor(ada)
			// A tree: each observation supersedes an earlier one or none.
			n := rapid.IntRange(1, 14).Draw(t, "observations")
			refs := make([]lexicons.StrongRef, n)
			children := map[int][]int{}
			root := make([]bool, n)
			for i := range n {
				var target *lexicons.StrongRef
				if parent := rapid.IntRange(-1, i-1).Draw(t, "parent"); parent >= 0 {
					target = &refs[parent]
					children[parent] = append(children[parent], i)
				} else {
					root[i] = true
				}
				var c *index.Commit
				c, refs[i] = a.put(t, lexicons.ObservationNSID, key(i+1), observation("x", target))
				require.NoError(t, x.Apply(t.Context(), "a", 0, []index.Event{c}))
			}
			dead := map[int]bool{}
			for range rapid.IntRange(0, n-1).Draw(t, "deletions") {
				i := rapid.IntRange(0, n-1).Draw(t, "deleted")
				if !dead[i] {
					dead[i] = true
					require.NoError(t, x.Apply(t.Context(), "a", 0, []index.Event{a.drop(lexicons.ObservationNSID, key(i+1))}))
				}
			}
			var lives func(i int) bool
			lives = func(i int) bool {
				for _, c := range children[i] {
					if lives(c) {
						return true
					}
				}
				return !dead[i]
			}
			for i := range n {
				if !root[i] || !lives(i) {
					continue
				}
				head := i
				for {
					next := children[head]
					sort.Sort(sort.Reverse(sort.IntSlice(next)))
					chosen := -1
					for _, c := range next {
						if lives(c) {
							chosen = c
							break
						}
					}
					if chosen < 0 {
						break
					}
					head = chosen
				}
				chain, err := x.Chain(t.Context(), guest, refs[i].URI)
				require.NoError(t, err)
				require.NotNil(t, chain.Head)
				require.Equal(t, refs[head].URI, chain.Head.URI)
			}
		})
	})
}
