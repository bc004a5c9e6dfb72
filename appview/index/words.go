package index

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// The one tokenizer of search: what it makes of a text goes into the database's
// index, and what it makes of a query is asked for there, so both databases find
// the same. A word is a run of letters, digits and their marks, in any script, as
// NFKC and case folding leave it; `getUserName2` is also `get`, `user`, `name` and
// `2`. Scripts that put no spaces between words (Chinese, Japanese, and Korean with
// them) are taken by pairs of characters and by each one. Everything else separates.

// Bounds of words.
const (
	maxWordRunes = 64     // of one word; what is longer is cut there
	maxDocWords  = 20_000 // distinct ones of a text
)

// word is one word of a text.
type word struct {
	text       string // as it is looked up
	start, end int    // bytes of the text
}

// eachRun calls yield with every run of letters and digits of text, and whether it
// is of a script without spaces.
func eachRun(text string, yield func(start, end int, dense bool) bool) {
	const none, spaced, dense = 0, 1, 2
	in, start := none, 0
	for i := 0; i <= len(text); {
		kind, size := none, 1
		switch {
		case i == len(text):
		case text[i] < utf8.RuneSelf:
			if c := text[i]; 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
				kind = spaced
			}
		default:
			var r rune
			r, size = utf8.DecodeRuneInString(text[i:])
			switch {
			case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
				kind = dense
			case unicode.IsLetter(r) || unicode.IsDigit(r):
				kind = spaced
			case in != none && unicode.IsMark(r):
				kind = in
			}
		}
		if kind != in {
			if in != none && !yield(start, i, in == dense) {
				return
			}
			in, start = kind, i
		}
		i += size
	}
}

// folder folds case. It keeps state while it works, so each use has its own.
func fold(text string) string {
	ascii := true
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(text)
	}
	return cases.Fold().String(norm.NFKC.String(text))
}

// cutWord shortens what is no word that anybody would look for whole.
func cutWord(text string) string {
	if len(text) <= maxWordRunes {
		return text
	}
	n := 0
	for i := range text {
		if n == maxWordRunes {
			return text[:i]
		}
		n++
	}
	return text
}

// parts splits a run at the changes of case and between letters and digits, as
// identifiers are written: offsets of where each part begins.
func parts(run string) []int {
	if plain(run) {
		return whole
	}
	starts := []int{0}
	var before, current rune
	for i, r := range run {
		if i == 0 || unicode.IsMark(r) {
			if i == 0 {
				current = r
			}
			continue
		}
		before, current = current, r
		next, _ := utf8.DecodeRuneInString(run[i+utf8.RuneLen(r):])
		switch {
		case unicode.IsDigit(before) != unicode.IsDigit(r),
			unicode.IsLower(before) && unicode.IsUpper(r),
			unicode.IsUpper(before) && unicode.IsUpper(r) && unicode.IsLower(next): // the P of HTTPProxy
			starts = append(starts, i)
		}
	}
	return starts
}

// whole is a run of one part.
var whole = []int{0}

// plain tells that a run is one part for certain: small letters, with a capital
// before them or not, or digits alone. Most runs are.
func plain(run string) bool {
	digits := run[0] >= '0' && run[0] <= '9'
	for i := range len(run) {
		c := run[i]
		switch {
		case digits && (c < '0' || c > '9'):
			return false
		case !digits && (c < 'a' || c > 'z') && (i > 0 || c < 'A' || c > 'Z'):
			return false
		}
	}
	return true
}

// sequence is a text as the words that follow each other in it: parts of
// identifiers, and single characters of dense scripts. A phrase is found in it by
// comparing words, whatever stands between them.
func sequence(text string, most int) []word {
	out := make([]word, 0, min(len(text)/5+1, most))
	eachRun(text, func(start, end int, dense bool) bool {
		run := text[start:end]
		if dense {
			for i, r := range run {
				out = append(out, word{fold(string(r)), start + i, start + i + utf8.RuneLen(r)})
			}
			return len(out) < most
		}
		at := parts(run)
		for i, from := range at {
			to := len(run)
			if i+1 < len(at) {
				to = at[i+1]
			}
			out = append(out, word{cutWord(fold(run[from:to])), start + from, start + to})
		}
		return len(out) < most
	})
	return out[:min(len(out), most)]
}

// lookups are the words under which texts are found, each once: whole runs, their
// parts, characters of dense scripts and pairs of them.
func lookups(texts ...string) []string {
	seen := map[string]bool{}
	var out []string
	add := func(w string) bool {
		if w != "" && !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
		return len(out) < maxDocWords
	}
	for _, text := range texts {
		eachRun(text, func(start, end int, dense bool) bool {
			run := text[start:end]
			if dense {
				last := ""
				for _, r := range run {
					c := fold(string(r))
					if !add(c) || last != "" && !add(last+c) {
						return false
					}
					last = c
				}
				return true
			}
			at := parts(run)
			if !add(cutWord(fold(run))) {
				return false
			}
			if len(at) == 1 {
				return true
			}
			for i, from := range at {
				to := len(run)
				if i+1 < len(at) {
					to = at[i+1]
				}
				if !add(cutWord(fold(run[from:to]))) {
					return false
				}
			}
			return true
		})
	}
	return out
}
