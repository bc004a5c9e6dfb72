package appview

import (
	"regexp"
	"strings"
)

// Writing other people's text into a markdown document (CommonMark and GFM).
// The document's own structure is at its top level: headings, lists, rules.
// Text that somebody wrote is inside a container that it cannot end: a block
// quote, every line of which carries the mark; a fence longer than any in it;
// or one line with every special character escaped. HTML would not respect
// that, so none is let through.

// quoteMarkdown puts markdown that somebody wrote into a block quote. It reads
// as it was written; outside code spans and fenced code the beginnings of HTML
// are escaped, and so are link definitions, which would reach into the rest of
// the document.
func quoteMarkdown(text string) string {
	var out strings.Builder
	var code codeState
	for _, line := range strings.Split(normalizeLines(text), "\n") {
		line = code.neutralize(line)
		if line == "" {
			out.WriteString(">\n")
			continue
		}
		out.WriteString("> " + line + "\n")
	}
	return out.String()
}

// lineFeeds makes line feeds of all that markdown takes for a line ending. NUL
// is no character of markdown.
var lineFeeds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "\uFFFD")

// normalizeLines has line feeds only, and none around the text.
func normalizeLines(s string) string { return strings.Trim(lineFeeds.Replace(s), "\n") }

// codeState tells, line by line, whether text is inside code, where nothing
// needs escaping. It errs towards "outside": an escape too many is a blemish,
// one too few lets HTML through.
type codeState struct {
	fence byte // '`' or '~' inside fenced code, else 0
	width int  // of the opening fence
	loose bool // a backtick in this paragraph has no partner on its line
	lost  bool // a fence may have begun where only a full parser could follow
}

// nestedFence finds a line on which fenced code may begin inside a list item
// or a quote, or indented. Where such a fence ends cannot be told here.
var nestedFence = regexp.MustCompile("^[ \t>*+.)0-9-]+(```|~~~)")

func (c *codeState) neutralize(line string) string {
	if c.lost {
		return escapeOutside(line)
	}
	if c.fence != 0 {
		switch bare := strings.TrimLeft(line, " \t"); {
		case !c.closes(bare):
		case strings.Contains(line[:len(line)-len(bare)], "\t"):
			c.lost = true // how wide a tab is depends on what is before the quote
		case len(line)-len(bare) <= 3:
			c.fence = 0
		}
		return line
	}
	if nestedFence.MatchString(line) {
		c.lost = true
		return escapeOutside(line)
	}
	if char, width, info := fenceOf(line); char != 0 && (char == '~' || !strings.Contains(info, "`")) {
		c.fence, c.width, c.loose = char, width, false
		return line[:width] + escapeOutside(info)
	}
	if strings.TrimSpace(line) == "" {
		c.loose = false
		return ""
	}
	// A table splits its cells before it looks for code, so a bar on the line
	// takes the trust from backticks.
	if c.loose || strings.Contains(line, "|") {
		c.loose = c.loose || strings.Contains(line, "`")
		return escapeOutside(line)
	}
	return c.escapeSpans(line)
}

// closes tells whether a line without its indent ends the fenced code: a run at
// least as long as the opening one, and nothing else.
func (c *codeState) closes(bare string) bool {
	char, width, rest := fenceOf(bare)
	return char == c.fence && width >= c.width && strings.Trim(rest, " \t") == ""
}

// escapeSpans escapes what is not in a code span that begins and ends on this
// line. With an unpaired or an escaped backtick the rest of the paragraph is
// taken for text.
func (c *codeState) escapeSpans(line string) string {
	var out strings.Builder
	for rest := line; rest != ""; {
		open := strings.IndexByte(rest, '`')
		if open < 0 {
			out.WriteString(escapeOutside(rest))
			break
		}
		width := runLength(rest[open:], '`')
		end := closing(rest[open+width:], width)
		if end < 0 || strings.HasSuffix(rest[:open], `\`) {
			c.loose = true
			out.WriteString(escapeOutside(rest))
			break
		}
		end += open + width + width
		out.WriteString(escapeOutside(rest[:open]) + rest[open:end])
		rest = rest[end:]
	}
	return out.String()
}

// closing finds a run of exactly width backticks; -1 when there is none.
func closing(s string, width int) int {
	for at := 0; at < len(s); {
		i := strings.IndexByte(s[at:], '`')
		if i < 0 {
			return -1
		}
		n := runLength(s[at+i:], '`')
		if n == width {
			return at + i
		}
		at += i + n
	}
	return -1
}

// fenceOf reads the run of three or more backticks or tildes that s begins with.
func fenceOf(s string) (char byte, width int, rest string) {
	if s == "" || s[0] != '`' && s[0] != '~' {
		return 0, 0, ""
	}
	if width = runLength(s, s[0]); width < 3 {
		return 0, 0, ""
	}
	return s[0], width, s[width:]
}

func runLength(s string, char byte) int {
	n := 0
	for n < len(s) && s[n] == char {
		n++
	}
	return n
}

func longestRun(s string, char byte) int {
	longest := 0
	for i := 0; i < len(s); {
		n := runLength(s[i:], char)
		longest = max(longest, n)
		i += max(n, 1)
	}
	return longest
}

// Where HTML may begin, and where an entity may.
var (
	htmlStart   = regexp.MustCompile(`<([A-Za-z/!?])`)
	entityStart = regexp.MustCompile(`&([A-Za-z#])`)
)

// escapeOutside takes their meaning from the beginnings of HTML, from the colon of
// link definitions and from images, which would be fetched by whoever reads; the
// characters still read as they are.
func escapeOutside(s string) string {
	return meaningful.Replace(htmlStart.ReplaceAllString(s, "&lt;$1"))
}

var meaningful = strings.NewReplacer("]:", `]\:`, "![", `!\[`)

// fencedMarkdown shows a text as it is, in a fence that it cannot end.
func fencedMarkdown(text, language string) string {
	text = strings.TrimSuffix(lineFeeds.Replace(text), "\n")
	fence := strings.Repeat("`", max(2, longestRun(text, '`'))+1)
	return fence + language + "\n" + text + "\n" + fence + "\n"
}

// codeSpan shows a short text as code, on one line.
func codeSpan(s string) string {
	s = oneLine(s)
	if s == "" {
		return ""
	}
	longest := longestRun(s, '`')
	fence := strings.Repeat("`", longest+1)
	if longest > 0 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

// plainMarkdown shows a text as plain words on one line, in any inline place.
// Punctuation that means something only at the start of a line is left alone:
// the document never begins a line with somebody's text.
func plainMarkdown(s string) string {
	return escapeInline.Replace(htmlStart.ReplaceAllString(entityStart.ReplaceAllString(oneLine(s), "&amp;$1"), "&lt;$1"))
}

var escapeInline = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "!", `\!`, "|", `\|`, "~", `\~`)
