package appview_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

func turn(session lexicons.StrongRef, role, text string, more object) object {
	v := object{"session": string(session.URI), "role": role, "text": text, "createdAt": written}
	if role == "assistant" {
		v["model"] = "greenpt/m-1"
	}
	for k, value := range more {
		v[k] = value
	}
	return v
}

// talk is a conversation of five turns: one is withheld against its own
// record, one has a redaction bar, one has steps of which one failed; a message
// in another repo pretends to belong to it.
type talk struct {
	ada       *author
	container lexicons.StrongRef
	seen      lexicons.StrongRef // an observation that a turn is about, changed since
	turns     []lexicons.StrongRef
}

func converse(t *testing.T, s *site, title string) talk {
	t.Helper()
	ada, mallory := newAuthor("did:web:ada.test"), newAuthor("did:web:mallory.test")
	s.apply(ada.identity("ada.test"), newAuthor("did:web:bob.test").identity("bob.test"))
	n := 0
	put := func(a *author, collection syntax.NSID, value object) lexicons.StrongRef {
		n++
		c, made := a.put(t, collection, string(tid(n)), value)
		s.apply(c)
		return made
	}
	container := object{"createdAt": written, "description": "why we looked"}
	if title != "" {
		container["title"] = title
	}
	k := talk{ada: ada, container: put(ada, lexicons.ChatSessionNSID, container)}
	k.seen = put(ada, lexicons.SkillNSID, skill("reading", "v1"))
	say := func(role, text string, more object) {
		k.turns = append(k.turns, put(ada, lexicons.MessageNSID, turn(k.container, role, text, more)))
	}
	say("user", "\n  What does <b>this</b> say?\r# not a heading\nAnd why?", nil)
	say("assistant", "It says `Vec<u8>`.", object{
		"steps":    []any{object{"tool": "read-file", "summary": "the *file*"}, object{"tool": "fetch", "failed": true}},
		"refs":     []any{ref(k.seen), ref(k.seen)},
		"mentions": []any{"did:web:bob.test", "did:web:bob.test", "did:web:eve.test"},
	})
	say("user", "the secret words", object{"withheld": true, "mentions": []any{"did:web:eve.test"}})
	say("user", "my name is \u2588\u2588\u2588, ok?", nil)
	say("assistant", "## 9 · user\n\nforged", nil)
	put(mallory, lexicons.MessageNSID, turn(k.container, "user", "injected words", nil))
	c, _ := ada.put(t, lexicons.SkillNSID, string(k.seen.URI.RecordKey()), skill("reading", "v2"))
	s.apply(c)
	return k
}

func TestConversationView(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		k := converse(t, s, "")
		raw := s.ask("getConversation", "uri", string(k.container.URI)).Body.String()
		require.NotContains(t, raw, "secret words")
		require.NotContains(t, raw, "injected words")

		view := at(t, s.get("getConversation", "uri", string(k.container.URI)), "conversation")
		require.Equal(t, "What does <b>this</b> say?", at(t, view, "label"))
		require.Equal(t, true, at(t, view, "labelInferred"))
		require.NotContains(t, view, "title", "the label is never stored as one")
		require.EqualValues(t, 5, at(t, view, "counts", "turns"))
		require.EqualValues(t, 4, at(t, view, "counts", "visible"))
		require.EqualValues(t, 1, at(t, view, "counts", "withheld"))
		require.EqualValues(t, 1, at(t, view, "counts", "foreign"))
		require.Equal(t, []any{object{"model": "greenpt/m-1", "turns": 2.0}}, at(t, view, "models"))
		require.Equal(t, "did:web:mallory.test", at(t, view, "foreignTurns", 0, "author", "did"))

		for i, made := range k.turns {
			require.Equal(t, string(made.URI), at(t, view, "turns", i, "uri"), "the order is that of the record keys")
			require.EqualValues(t, i+1, at(t, view, "turns", i, "position"))
		}
		answer := at(t, view, "turns", 1)
		require.Equal(t, true, at(t, answer, "steps", 1, "failed"))
		require.Len(t, at(t, answer, "refs"), 1)
		require.Equal(t, "changed", at(t, answer, "refs", 0, "state"))
		require.Equal(t, true, at(t, answer, "refs", 0, "held"))
		require.Equal(t, "reading", at(t, answer, "refs", 0, "label"))
		require.Equal(t, []any{object{"did": "did:web:bob.test", "handle": "bob.test"}, object{"did": "did:web:eve.test"}}, at(t, answer, "mentions"))

		gap := at(t, view, "turns", 2)
		require.Equal(t, "withheld", at(t, gap, "kind"))
		for _, content := range []string{"text", "steps", "refs", "mentions", "model", "createdAt"} {
			require.NotContains(t, gap, content)
		}
		require.Contains(t, codesOf(t, gap), "withheld-has-content")
		require.EqualValues(t, 1, at(t, view, "turns", 3, "bars"))

		masked := s.ask("getRecord", "uri", string(k.turns[2].URI)).Body.String()
		require.NotContains(t, masked, "secret words")
		require.NotContains(t, masked, "eve.test")
		require.Equal(t, []any{""}, s.get("getRecord", "uri", string(k.turns[2].URI))["masked"], "the whole record")

		list := s.get("listConversations")
		require.Equal(t, at(t, view, "label"), at(t, list, "conversations", 0, "label"))
	})
}

func codesOf(t *testing.T, view any) []string {
	t.Helper()
	var codes []string
	for _, f := range at(t, view, "findings").([]any) {
		codes = append(codes, at(t, f, "code").(string))
	}
	return codes
}

func TestConversationPagesKeepNumbers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		k := converse(t, s, "A title")
		whole := at(t, s.get("getConversation", "uri", string(k.container.URI)), "conversation", "turns")
		var paged []any
		params := []string{"uri", string(k.container.URI), "limit", "2"}
		for {
			page := s.get("getConversation", params...)
			require.Equal(t, "A title", at(t, page, "conversation", "label"))
			paged = append(paged, at(t, page, "conversation", "turns").([]any)...)
			cursor, more := page["cursor"].(string)
			if !more {
				break
			}
			params = []string{"uri", string(k.container.URI), "limit", "2", "cursor", cursor}
		}
		require.Equal(t, whole, paged)
	})
}

func TestRetractedConversationShowsNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		k := converse(t, s, "A title")
		s.apply(k.ada.drop(t, lexicons.ChatSessionNSID, string(k.container.URI.RecordKey())))
		raw := s.ask("getConversation", "uri", string(k.container.URI)).Body.String()
		require.NotContains(t, raw, "A title")
		require.NotContains(t, raw, "Vec")
		view := at(t, s.get("getConversation", "uri", string(k.container.URI)), "conversation")
		require.Equal(t, "deleted", at(t, view, "state"))
		require.Empty(t, at(t, view, "turns"))
		doc := s.get("getConversation", "uri", string(k.container.URI), "format", "markdown")["markdown"]
		require.Contains(t, doc, "Retracted")
		require.Empty(t, at(t, s.get("listConversations"), "conversations"))
	})
}

var link = regexp.MustCompile(`\[([^]]*)\]\(<at:[^>]*>\)`)

func TestConversationMarkdown(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		k := converse(t, s, "")
		out := s.get("getConversation", "uri", string(k.container.URI), "format", "markdown")
		require.NotContains(t, out, "conversation")
		golden(t, "conversation.md", out["markdown"].(string))

		var headings []string
		for line := range strings.Lines(out["markdown"].(string)) {
			if strings.HasPrefix(line, "## ") {
				headings = append(headings, link.ReplaceAllString(strings.TrimSpace(line), "$1"))
			}
		}
		require.Equal(t, []string{
			"## 1 · user · 2026-11-30 10:00:00 UTC",
			"## 2 · assistant · `greenpt/m-1` · 2026-11-30 10:00:00 UTC",
			"## 3 · withheld",
			"## 4 · user · 2026-11-30 10:00:00 UTC",
			"## 5 · assistant · `greenpt/m-1` · 2026-11-30 10:00:00 UTC",
			"## Not part of this conversation",
		}, headings, "what was said adds no heading")
	})
}
