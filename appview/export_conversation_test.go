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

func (s *site) transcript(uri, format string) string {
	s.t.Helper()
	res := s.ask("exportConversation", "uri", uri, "format", format)
	require.Equal(s.t, http.StatusOK, res.Code, res.Body)
	require.Equal(s.t, "nosniff", res.Header().Get("X-Content-Type-Options"))
	require.Contains(s.t, res.Header().Get("Content-Disposition"), "attachment;")
	return res.Body.String()
}

// The files read well, and hold what the view shows and nothing that it hides.
func TestConversationExport(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		k := converse(t, s, "")
		say := func(n int, role, text string, more object) {
			c, _ := k.ada.put(t, lexicons.MessageNSID, string(tid(n)), turn(k.container, role, text, more))
			s.apply(c)
		}
		say(20, "assistant", "# Result\n\nTwo of **three** hold:\n\n| claim | holds |\n|---|---|\n| a | yes |\n\n```go\nfmt.Println(\"<b>\")\n```\n\n[source](https://a.test/x?y=1&z=2) ![pixel](https://evil.test/p.png) [run](javascript:alert(1)) <script>alert(1)</script>", nil)
		uri := string(k.container.URI)
		for format, file := range map[string]string{"markdown": "transcript.md", "html": "transcript.html"} {
			text := s.transcript(uri, format)
			for _, hidden := range []string{"secret words", "injected words", "javascript:alert(1)\"", "<script>alert", "<img", "src="} {
				require.NotContains(t, strings.ReplaceAll(text, "![pixel]", ""), hidden, format)
			}
			require.Contains(t, text, "withheld this turn")
			golden(t, file, text)
		}
	})
}

// A long conversation is in its file whole, each turn once and numbered on.
func TestConversationExportHasAllPages(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		c, container := ada.put(t, lexicons.ChatSessionNSID, string(tid(1)), object{"createdAt": written, "title": "Long"})
		s.apply(c)
		const many = 205
		for n := range many {
			role := []string{"user", "assistant"}[n%2]
			c, _ := ada.put(t, lexicons.MessageNSID, string(tid(n+2)), turn(container, role, fmt.Sprintf("words-%d.", n+1), nil))
			s.apply(c)
		}
		for _, format := range []string{"markdown", "html"} {
			text := s.transcript(string(container.URI), format)
			last := 0
			for n := range many {
				words := fmt.Sprintf("words-%d.", n+1)
				require.Equal(t, 1, strings.Count(text, words), words)
				require.Greater(t, strings.Index(text, words), last)
				last = strings.Index(text, words)
			}
			require.Contains(t, text, "greenpt/m-1")
			require.Contains(t, text, fmt.Sprintf("(%d", many/2), "the turns of the model, over all pages")
		}
		require.Contains(t, s.transcript(string(container.URI), "html"), `id="turn-205"`)
	})
}

func TestConversationExportRefusals(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db, lexicons.ChatSessionNSID) // the turns are not published
		k := converse(t, s, "Title")
		name, _ := s.refuse("exportConversation", "uri", string(k.seen.URI))
		require.Equal(t, "InvalidRequest", name, "no conversation")
		name, codes := s.refuse("exportConversation", "uri", "at://did:web:ada.test/click.aligned.chat.session/3jzzzzzzzzz2a")
		require.Equal(t, []string{"RecordNotFound", "missing"}, append([]string{name}, codes...))
		s.apply(k.ada.drop(t, lexicons.ChatSessionNSID, string(k.container.URI.RecordKey())))
		for _, format := range []string{"markdown", "html"} {
			text := s.transcript(string(k.container.URI), format)
			require.Contains(t, text, "Retracted: its owner deleted this conversation")
			require.NotContains(t, text, "Vec")
		}
		s.viewer = xrpc.Viewer{}
		name, _ = s.refuse("exportConversation", "uri", string(k.container.URI))
		require.Equal(t, "RecordNotFound", name)
	})
}
