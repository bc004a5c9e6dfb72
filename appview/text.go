package appview

import (
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// Lengths of shortened texts, in user-perceived characters.
const (
	excerptLength  = 280
	labelLength    = 96
	refLabelLength = 80
)

// shorten cuts s to at most limit user-perceived characters, never inside
// one, and says with an ellipsis that it did.
func shorten(s string, limit int) string {
	rest, state, end := s, -1, 0
	for n := 0; rest != ""; n++ {
		if n == limit {
			return strings.TrimRightFunc(s[:end], unicode.IsSpace) + "…"
		}
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		end += len(cluster)
	}
	return s
}

// excerpt is the start of a text on one line, for a list.
func excerpt(s string) string {
	return shorten(oneLine(firstBytes(s, 16*excerptLength)), excerptLength)
}

// firstLine is the first line of s that is not blank, without surrounding space.
func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

// oneLine puts s on one line: every run of white space and control characters
// becomes one space.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}

// firstBytes bounds the work on a long text; the cut may split a character,
// which only matters past the excerpt that is taken from it.
func firstBytes(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
