package appview_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// cut is the part of a text that a place names.
func cut(t *testing.T, text string, span any) string {
	t.Helper()
	return text[int(at(t, span, "byteStart").(float64)):int(at(t, span, "byteEnd").(float64))]
}

// What is found says where, in bytes that make a citation's selector, and shows it.
func TestSearchObservations(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		s.team[ada.did] = "https://host.test"
		text := "Überschrift\n" + strings.Repeat("füllwort und mehr davon. ", 40) + "Then dial failed with ErrConnRefused here. " + strings.Repeat("hinten noch etwas. ", 40)
		c, first := ada.put(t, lexicons.ObservationNSID, string(tid(1)), observation(text, nil))
		s.apply(ada.identity("ada.test"), c)
		c, newer := ada.put(t, lexicons.ObservationNSID, string(tid(2)), observation("it works now, no ErrConnRefused", object{"supersedes": ref(first)}))
		s.apply(c)

		page := s.get("searchObservations", "q", "ErrConnRefused")
		require.Len(t, page["hits"], 1, "the head")
		require.Equal(t, string(newer.URI), at(t, page, "hits", 0, "observation", "uri"))
		page = s.get("searchObservations", "q", "ErrConnRefused dial", "headsOnly", "false")
		require.Len(t, page["hits"], 1)
		hit := at(t, page, "hits", 0)
		require.Equal(t, string(first.URI), at(t, hit, "observation", "uri"))
		require.Equal(t, false, at(t, hit, "observation", "isHead"))
		match := at(t, hit, "matches", 0)
		require.Equal(t, "text", at(t, match, "field"))
		require.Equal(t, "dial", cut(t, text, at(t, match, "hits", 0)))
		require.Equal(t, "ErrConnRefused", cut(t, text, at(t, match, "hits", 1)))
		require.Equal(t, true, at(t, match, "hits", 1, "whole"))
		snippet, offset := at(t, match, "snippet").(string), int(at(t, match, "offset").(float64))
		require.Equal(t, snippet, text[offset:offset+len(snippet)])
		require.Contains(t, snippet, "dial failed with ErrConnRefused here.")
		require.Less(t, len(snippet), 400)
		part := at(t, s.get("searchObservations", "q", "refused", "headsOnly", "false"), "hits", 0, "matches", 0, "hits", 0)
		require.Equal(t, false, at(t, part, "whole"))

		require.Len(t, s.get("searchObservations", "q", "fetch", "sourceKind", "command")["hits"], 1, "in the source")
		require.NotContains(t, s.ask("searchObservations", "q", "secret").Body.String(), "scout:")
		require.Empty(t, s.get("searchObservations", "q", "secret")["hits"], "a password is no word of a source")
		require.Empty(t, s.get("searchObservations", "q", "works", "method", "curl")["hits"])
		doc := s.get("searchObservations", "q", "ErrConnRefused dial", "headsOnly", "false", "format", "markdown")
		require.Empty(t, doc["hits"])
		require.Contains(t, doc["markdown"], "superseded since")
		require.Contains(t, doc["markdown"], "> ")
		require.Contains(t, doc["markdown"], fmt.Sprintf("`ErrConnRefused` at %d–%d", strings.Index(text, "ErrConnRefused"), strings.Index(text, "ErrConnRefused")+len("ErrConnRefused")))

		name, _ := s.refuse("searchObservations", "q", "...")
		require.Equal(t, "InvalidRequest", name)
		name, _ = s.refuse("searchObservations")
		require.Equal(t, "InvalidRequest", name)
		require.Equal(t, http.StatusBadRequest, s.ask("searchObservations", "q", "a", "cursor", "x").Code)
		text, _ = s.export("list", "searchObservations", "format", "csv", "filter", "q=ErrConnRefused", "filter", "headsOnly=false")
		require.Equal(t, 3, strings.Count(text, "\r\n"))
	})
}

func TestSearchConversations(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		k := converse(t, s, "Reading vectors")
		hits := s.get("searchConversations", "q", "vec u8")["hits"].([]any)
		require.Len(t, hits, 1)
		require.Equal(t, string(k.turns[1].URI), at(t, hits[0], "uri"))
		require.Equal(t, string(k.container.URI), at(t, hits[0], "conversation"))
		require.Equal(t, "Reading vectors", at(t, hits[0], "label"))
		require.Equal(t, "assistant", at(t, hits[0], "role"))
		require.Equal(t, "ada.test", at(t, hits[0], "author", "handle"))
		hits = s.get("searchConversations", "q", "reading")["hits"].([]any)
		require.Len(t, hits, 1)
		require.Equal(t, string(k.container.URI), at(t, hits[0], "uri"), "by its title")
		require.Len(t, s.get("searchConversations", "q", "read-file")["hits"], 1, "in a step")
		require.Empty(t, s.get("searchConversations", "q", "read-file", "role", "user")["hits"])
		require.Len(t, s.get("searchConversations", "q", "name", "conversation", string(k.container.URI))["hits"], 1)
		for _, hidden := range []string{"secret", "injected", "words"} {
			require.Empty(t, s.get("searchConversations", "q", hidden)["hits"], hidden)
		}
		doc := s.get("searchConversations", "q", "vec u8", "format", "markdown")
		require.Contains(t, doc["markdown"], "Reading vectors")
		s.apply(k.ada.drop(t, lexicons.ChatSessionNSID, string(k.container.URI.RecordKey())))
		require.Empty(t, s.get("searchConversations", "q", "vec u8")["hits"], "its conversation was retracted")
	})
}

func TestSearchSessions(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		for key, more := range map[string]object{
			"a": {"title": "Port the parser"}, "b": {"title": "Other", "summary": "the parser too", "machine": "lab-2", "branch": "dev"}, "c": {"title": "Nothing", "summary": "-"},
		} {
			c, _ := ada.put(t, lexicons.SessionNSID, key, session(more))
			s.apply(c)
		}
		keys := func(params ...string) []string {
			var out []string
			for _, item := range s.get("listSessions", params...)["sessions"].([]any) {
				uri := at(t, item, "uri").(string)
				out = append(out, uri[len(uri)-1:])
			}
			return out
		}
		require.Equal(t, []string{"a", "b"}, keys("q", "parser"), "in the title first")
		require.Equal(t, []string{"b"}, keys("q", "parser", "machine", "lab-2"))
		require.Equal(t, []string{"b"}, keys("q", "parser", "branch", "dev", "repo", "git@git.example:A", "state", "active"))
		require.Empty(t, keys("q", "parser", "state", "ended"))
		require.Len(t, keys(), 3)
		page := s.get("listSessions", "q", "parser", "limit", "1")
		require.Len(t, page["sessions"], 1)
		require.Equal(t, []string{"b"}, keys("q", "parser", "limit", "1", "cursor", page["cursor"].(string)))
		s.viewer = xrpc.Viewer{}
		require.NotEqual(t, http.StatusOK, s.ask("listSessions", "q", "parser").Code)
	})
}
