package appview

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pmezard/go-difflib/difflib"
)

// Bounds of a text diff. Comparing lines costs up to the product of the line
// counts, and the texts come from anybody.
const (
	maxDiffLines = 1000      // on either side, after the common start and end
	maxDiffBytes = 32 * 1024 // of the unified text
	diffContext  = 3         // unchanged lines around a change
)

// textDiff is garden.herbarium.defs#textDiff.
type textDiff struct {
	Unified   string `json:"unified,omitempty"`
	Added     int    `json:"added"`
	Removed   int    `json:"removed"`
	Truncated bool   `json:"truncated"`
}

// diffTexts compares two texts by line. Texts that differ in more than
// maxDiffLines lines are not compared: only Truncated is set.
func diffTexts(before, after string) *textDiff {
	if before == after {
		return &textDiff{}
	}
	a, b := splitLines(before), splitLines(after)
	start := commonPrefix(a, b)
	end := commonPrefix(reversed(a[start:]), reversed(b[start:]))
	if len(a)-start-end > maxDiffLines || len(b)-start-end > maxDiffLines {
		return &textDiff{Truncated: true}
	}
	// Only what differs is matched, with enough of the common lines around it
	// to serve as context; skipped lines are added to the numbers of the hunks.
	skip := max(0, start-diffContext)
	keep := min(end, diffContext)
	a, b = a[skip:len(a)-end+keep], b[skip:len(b)-end+keep]

	d := &textDiff{}
	var out strings.Builder
	for _, hunk := range difflib.NewMatcher(a, b).GetGroupedOpCodes(diffContext) {
		writeHunk(&out, d, hunk, a, b, skip)
	}
	d.Unified, d.Truncated = cutDiff(out.String())
	return d
}

func writeHunk(out *strings.Builder, d *textDiff, hunk []difflib.OpCode, a, b []string, skip int) {
	first, last := hunk[0], hunk[len(hunk)-1]
	fmt.Fprintf(out, "@@ -%s +%s @@\n", lineRange(first.I1+skip, last.I2+skip), lineRange(first.J1+skip, last.J2+skip))
	write := func(mark byte, lines []string) {
		for _, line := range lines {
			out.WriteByte(mark)
			out.WriteString(line)
			out.WriteByte('\n')
		}
	}
	for _, op := range hunk {
		if op.Tag == 'e' {
			write(' ', a[op.I1:op.I2])
			continue
		}
		write('-', a[op.I1:op.I2])
		write('+', b[op.J1:op.J2])
		d.Removed += op.I2 - op.I1
		d.Added += op.J2 - op.J1
	}
}

// lineRange writes the lines from start up to end, counted from 0, as a
// unified diff does: "first,count", where an empty range names the line before.
func lineRange(start, end int) string {
	switch n := end - start; n {
	case 0:
		return fmt.Sprintf("%d,0", start)
	case 1:
		return fmt.Sprintf("%d", start+1)
	default:
		return fmt.Sprintf("%d,%d", start+1, n)
	}
}

func cutDiff(s string) (string, bool) {
	if len(s) <= maxDiffBytes {
		return s, false
	}
	s = s[:maxDiffBytes]
	if nl := strings.LastIndexByte(s, '\n'); nl > maxDiffBytes/2 {
		return s[:nl+1], true
	}
	for !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) && len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	if r, size := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && size == 1 {
		s = s[:len(s)-1]
	}
	return s, true
}

// splitLines splits at line feeds; the empty text has no lines, and a final
// line feed does not begin another line.
func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

func commonPrefix(a, b []string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func reversed(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[len(lines)-1-i] = line
	}
	return out
}
