package appview_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/appview"
)

func TestQuoteMarkdown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"plain":                                     {"a\nb", "> a\n> b\n"},
		"a blank line stays inside":                 {"a\n\nb", "> a\n>\n> b\n"},
		"a heading stays inside":                    {"# a", "> # a\n"},
		"every line ending counts":                  {"a\r# b\r\nc", "> a\n> # b\n> c\n"},
		"html":                                      {"a <b>c</b> < d", "> a &lt;b>c&lt;/b> < d\n"},
		"html in a code span":                       {"use `Vec<u8>` here", "> use `Vec<u8>` here\n"},
		"html after a lone backtick":                {"a ` b\n`<i>`", "> a ` b\n> `&lt;i>`\n"},
		"html in fenced code":                       {"```go\n<i>\n```\n<b>", "> ```go\n> <i>\n> ```\n> &lt;b>\n"},
		"a fence in a list":                         {"- ```\n<i>\n```\n<b>\n```\n<u>", "> - ```\n> &lt;i>\n> ```\n> &lt;b>\n> ```\n> &lt;u>\n"},
		"an indented fence":                         {"  ```\nx\n```\n<b>", ">   ```\n> x\n> ```\n> &lt;b>\n"},
		"a fence that is not closed by four spaces": {"```\n    ```\n<i>", "> ```\n>     ```\n> <i>\n"},
		"a fence closed after a tab":                {"```\n\t```\n<i>", "> ```\n> \t```\n> &lt;i>\n"},
		"a table splits code":                       {"| `a | <b> ` |", "> | `a | &lt;b> ` |\n"},
		"an escaped backtick":                       {"\\`<b>`", "> \\`&lt;b>`\n"},
		"a link definition":                         {"[x]: https://e.test", "> [x]\\: https://e.test\n"},
		"NUL":                                       {"a\x00b", "> a\uFFFDb\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, appview.QuoteMarkdown(test.text))
		})
	}
}

func TestInlineMarkdown(t *testing.T) {
	t.Parallel()
	require.Equal(t, `a \*b\* \[c\](d) &lt;e> &amp;lt; 1 < 2 & 3`, appview.PlainMarkdown("a *b*\n[c](d) <e> &lt; 1 < 2 & 3"))
	require.Equal(t, "`a b`", appview.CodeSpan("a\nb"))
	require.Equal(t, "`` a`b ``", appview.CodeSpan("a`b"))
	require.Empty(t, appview.CodeSpan(" "))
	require.Equal(t, "````text\na\n```\n````\n", appview.FencedMarkdown("a\r```", "text"))
}

var (
	fenceLine = regexp.MustCompile("^(`{3,})text$")
	tag       = regexp.MustCompile(`<[A-Za-z/!?]`)
)

func FuzzQuoteMarkdown(f *testing.F) {
	for _, seed := range []string{"", "a\n\n# b\r<i>", "```\n<x>\n```\n", "- ~~~\n<x>", "`a` <b> ``c``", "[a]: b", "\x00\r\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted := appview.QuoteMarkdown(text)
		for line := range strings.Lines(quoted) {
			if !strings.HasPrefix(line, ">") || strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\r\n\x00") {
				t.Fatalf("a line left the quote: %q", line)
			}
			if !strings.Contains(text, "`") && !strings.Contains(text, "~~~") && tag.MatchString(line) {
				t.Fatalf("html outside code: %q", line)
			}
		}
		lines := strings.Split(strings.TrimSuffix(appview.FencedMarkdown(text, "text"), "\n"), "\n")
		fence := fenceLine.FindStringSubmatch(lines[0])
		if fence == nil || lines[len(lines)-1] != fence[1] {
			t.Fatalf("no fence around %q", lines)
		}
		for _, line := range lines[1 : len(lines)-1] {
			if strings.HasPrefix(strings.TrimLeft(line, " "), fence[1]) {
				t.Fatalf("the text ends its fence: %q", line)
			}
		}
		if strings.ContainsAny(appview.PlainMarkdown(text), "\r\n") || tag.MatchString(appview.PlainMarkdown(text)) {
			t.Fatalf("plain text holds structure: %q", appview.PlainMarkdown(text))
		}
	})
}
