package index_test

import (
	"fmt"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// kinds are the records that name each other across authors, with the record
// keys that they may have.
var kinds = []syntax.NSID{
	lexicons.ClassNSID, lexicons.SkillNSID, lexicons.ChatSessionNSID, lexicons.MessageNSID, lexicons.ClaimNSID,
}

// genReferring draws histories of classes, skills, conversations and claims
// that name one another, whoever they are of, in any order.
func genReferring(t *rapid.T) ([]*history, []syntax.ATURI) {
	authors := []*history{{author: newAuthor(ada)}, {author: newAuthor(bob)}, {author: newAuthor(cleo)}}
	var all []syntax.ATURI
	byKind := map[syntax.NSID][]syntax.ATURI{}
	for _, h := range authors {
		for _, kind := range kinds {
			for n := range 3 {
				uri := h.author.uri(kind, key(200+n))
				all, byKind[kind] = append(all, uri), append(byKind[kind], uri)
			}
		}
	}
	seen := map[syntax.ATURI]cid.Cid{}
	stray, err := lexicons.ParseValue(lexicons.SkillNSID, map[string]any{})
	require.NoError(t, err)
	pick := func(kind syntax.NSID) lexicons.StrongRef {
		uri := rapid.SampledFrom(byKind[kind]).Draw(t, "target")
		c, ok := seen[uri]
		if !ok {
			c = stray.CID
		}
		return lexicons.StrongRef{URI: uri, CID: c}
	}
	for range rapid.IntRange(1, 24).Draw(t, "steps") {
		h := rapid.SampledFrom(authors).Draw(t, "author")
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		rkey := key(200 + rapid.IntRange(0, 2).Draw(t, "key"))
		if _, held := h.author.held[string(kind)+"/"+rkey]; held && rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
			h.events = append(h.events, h.author.drop(kind, rkey))
			continue
		}
		text := fmt.Sprint("v", rapid.IntRange(0, 3).Draw(t, "version"))
		c, ref := h.author.put(t, kind, rkey, genRecord(t, kind, text, pick))
		if op := c.Ops[0]; op.Action == lexicons.Update && op.CID == op.Prev {
			continue
		}
		seen[ref.URI] = ref.CID
		h.events = append(h.events, c)
	}
	return authors, all
}

func genRecord(t *rapid.T, kind syntax.NSID, text string, pick func(syntax.NSID) lexicons.StrongRef) map[string]any {
	const at = "2026-11-30T10:00:00.000Z"
	switch kind {
	case lexicons.ClassNSID:
		v := map[string]any{"name": text, "description": "d", "createdAt": at, "entryTool": "tool-" + text}
		skills := []any{}
		for range rapid.IntRange(0, 2).Draw(t, "skills") {
			skills = append(skills, strong(pick(lexicons.SkillNSID)))
		}
		v["skills"] = skills
		if rapid.Bool().Draw(t, "parent") {
			v["parent"] = strong(pick(lexicons.ClassNSID))
		}
		return v
	case lexicons.SkillNSID:
		return map[string]any{"name": text, "description": "d", "content": "c", "createdAt": at,
			"tools": []any{map[string]any{"name": "tool-" + text, "description": "d", "inputSchema": map[string]any{}}}}
	case lexicons.ChatSessionNSID:
		return map[string]any{"createdAt": at, "title": text}
	case lexicons.MessageNSID:
		return message(pick(lexicons.ChatSessionNSID).URI, "user", text)
	}
	return map[string]any{"text": text, "createdAt": at, "citations": []any{map[string]any{
		"span": map[string]any{"byteStart": int64(0), "byteEnd": int64(2)}, "relation": "quotes",
		"target": strong(pick(rapid.SampledFrom(kinds).Draw(t, "cited"))),
	}}}
}

// counts adds what conversations add up to, and who names whom, to answers.
func counts(t *rapid.T, x *index.Index, all []syntax.ATURI) string {
	out := ""
	for _, uri := range all {
		if uri.Collection() == lexicons.ChatSessionNSID {
			c, err := x.Conversation(t.Context(), admin, uri)
			if err == nil {
				out += fmt.Sprintln(uri, c.Turns, c.VisibleTurns, c.LastTurnAt)
			} else {
				require.ErrorIs(t, err, index.ErrNotFound)
			}
		}
		refs, err := x.ReferencesTo(t.Context(), admin, uri, "", index.Page{})
		require.NoError(t, err)
		out += fmt.Sprintln(uri, refs.Items)
	}
	return out
}

func TestFindingsDoNotDependOnArrival(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x := newIndex(t, db)
		rapid.Check(t, func(t *rapid.T) {
			authors, all := genReferring(t)
			say := func() string { return answers(t.Context(), t, x, all) + counts(t, x, all) }
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
			}
			require.Equal(t, want, say(), "woven in another order")
		})
	})
}
