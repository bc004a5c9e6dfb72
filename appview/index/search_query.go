package index

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a search.
const (
	MaxQueryBytes = 1000
	maxQueryTerms = 16
)

// ErrQuery is wrapped by what is wrong with a search.
var ErrQuery = errors.New("search")

// Query is what somebody looks for: every term has to be in a text, but for those
// that must not. A term is a word, words in quotes, or anything between spaces: a
// path, an identifier, an error, whose words have to follow each other. A term that
// ends in a star is the beginning of one.
type Query struct {
	terms []term
}

// term is one thing to look for.
type term struct {
	raw     string
	words   []word   // that have to follow each other
	lookups []string // that the index is asked for
	prefix  bool     // the last word is only the beginning of one
	not     bool
}

// ParseQuery reads a query. ErrQuery when there is nothing in it to look for, or
// too much.
func ParseQuery(text string) (Query, error) {
	var q Query
	if len(text) > MaxQueryBytes {
		return q, fmt.Errorf("%w: %d bytes, at most %d: look for less at once", ErrQuery, len(text), MaxQueryBytes)
	}
	found := false
	for _, raw := range splitQuery(strings.ToValidUTF8(text, " ")) {
		t := readTerm(raw)
		if len(t.words) == 0 {
			continue
		}
		found = found || !t.not
		if q.terms = append(q.terms, t); len(q.terms) > maxQueryTerms {
			return q, fmt.Errorf("%w: more than %d terms: put those that follow each other in quotes, or leave some out", ErrQuery, maxQueryTerms)
		}
	}
	if !found {
		return q, fmt.Errorf("%w: no word to look for; a word has letters or digits, and one at least stands without a minus", ErrQuery)
	}
	return q, nil
}

// splitQuery cuts at spaces outside of quotes. A quote that is not closed reaches
// to the end.
func splitQuery(text string) []string {
	var out []string
	for text = strings.TrimLeftFunc(text, unicode.IsSpace); text != ""; text = strings.TrimLeftFunc(text, unicode.IsSpace) {
		open := strings.TrimPrefix(text, "-")
		if strings.HasPrefix(open, `"`) {
			at := len(text) - len(open) + 1
			if end := strings.IndexByte(text[at:], '"'); end >= 0 {
				out, text = append(out, text[:at+end]), text[at+end+1:]
			} else {
				out, text = append(out, text), ""
			}
			continue
		}
		end := strings.IndexFunc(text, unicode.IsSpace)
		if end < 0 {
			end = len(text)
		}
		out, text = append(out, text[:end]), text[end:]
	}
	return out
}

func readTerm(raw string) term {
	t := term{raw: raw}
	if rest, ok := strings.CutPrefix(raw, "-"); ok && rest != "" && rest[0] != '-' { // --flag is looked for
		t.not, raw = true, rest
	}
	if rest, ok := strings.CutSuffix(raw, "*"); ok && !strings.HasPrefix(raw, `"`) {
		t.prefix, raw = true, rest
	}
	t.words = sequence(raw, maxQueryTerms*4)
	if len(t.words) == 0 {
		return t
	}
	last := t.words[len(t.words)-1]
	if r, _ := utf8.DecodeLastRuneInString(raw); last.end != len(raw) || unicode.IsSpace(r) {
		t.prefix = false // the star follows something else
	}
	seen := map[string]bool{}
	for i, w := range t.words {
		if t.prefix && i == len(t.words)-1 {
			break // asked for by its beginning
		}
		if !seen[w.text] {
			seen[w.text] = true
			t.lookups = append(t.lookups, w.text)
		}
	}
	for i := 1; i < len(t.words); i++ { // pairs narrow more than their characters
		a, b := t.words[i-1], t.words[i]
		if a.end == b.start && dense(a.text) && dense(b.text) && !(t.prefix && i == len(t.words)-1) {
			t.lookups = append(t.lookups, a.text+b.text)
		}
	}
	return t
}

func dense(w string) bool {
	r, _ := utf8.DecodeRuneInString(w)
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// Hit is where a term is in a text.
type Hit struct {
	Term       string // as it was asked for
	Start, End int    // bytes of the text
	Whole      bool   // not within a longer word
}

// matches tells whether words of a text, from i on, are those of the term.
func (t *term) matches(words []word, i int) bool {
	if i+len(t.words) > len(words) {
		return false
	}
	for k, w := range t.words {
		got := words[i+k].text
		if t.prefix && k == len(t.words)-1 {
			if !strings.HasPrefix(got, w.text) {
				return false
			}
		} else if got != w.text {
			return false
		}
	}
	return true
}

// maxHits is how many places of one term are told.
const maxHits = 20

// hits are the places of a term in a text, given as its words.
func (t *term) hits(text string, words []word) (hits []Hit) {
	for i := range words {
		if !t.matches(words, i) {
			// A word that is written together is found by its parts, and an identifier as
			// it would be written together.
			end, ok := t.together(words, i)
			if !ok {
				continue
			}
			hits = append(hits, spot(text, t.raw, words[i].start, end))
		} else {
			hits = append(hits, spot(text, t.raw, words[i].start, words[i+len(t.words)-1].end))
		}
		if len(hits) == maxHits {
			break
		}
	}
	return hits
}

// together tells whether parts of one run of a text, from i on, are the single word
// of the term: `getusername` of getUserName.
func (t *term) together(words []word, i int) (end int, ok bool) {
	if len(t.words) != 1 {
		return 0, false
	}
	want := t.words[0].text
	for k := i; k < len(words); k++ {
		if k > i && words[k].start != words[k-1].end {
			return 0, false
		}
		got := words[k].text
		if !strings.HasPrefix(want, got) {
			return words[k].end, t.prefix && k > i && strings.HasPrefix(got, want)
		}
		want = want[len(got):]
		if want == "" {
			return words[k].end, k > i
		}
	}
	return 0, false
}

func spot(text, raw string, start, end int) Hit {
	before, _ := utf8.DecodeLastRuneInString(text[:start])
	after, _ := utf8.DecodeRuneInString(text[end:])
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	return Hit{Term: raw, Start: start, End: end, Whole: (start == 0 || !inWord(before)) && (end == len(text) || !inWord(after))}
}
