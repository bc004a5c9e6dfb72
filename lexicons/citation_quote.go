package lexicons

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The selectors of garden.engram.agents.defs.
const (
	selectorQuote   = "garden.engram.agents.defs#textQuote"
	selectorRange   = "garden.engram.agents.defs#byteRange"
	selectorPointer = "garden.engram.agents.defs#jsonPointer"
)

// maxQuote bounds a quote with its prefix and suffix, in bytes: three times
// what the schema lets a claim have, for record types that have no schema here.
const maxQuote = 16 << 10

// unsupported is a selector that cannot be tried.
type unsupported struct{}

// parseSelector reads a selector of the open union; nil for none.
func parseSelector(selector fields) any {
	if selector == nil {
		return nil
	}
	switch selector.str("$type") {
	case selectorQuote:
		q := quote{prefix: selector.str("prefix"), exact: selector.str("exact"), suffix: selector.str("suffix")}
		if q.exact != "" && len(q.needle()) <= maxQuote {
			return q
		}
	case selectorRange:
		if selector.has("byteStart") && selector.has("byteEnd") {
			return byteRange{span: readSpan(selector)}
		}
	case selectorPointer:
		if p := selector.str("pointer"); selector.has("pointer") && isJSONPointer(p) {
			return jsonPointer(p)
		}
	}
	return unsupported{}
}

// quote selects words by what they are; prefix and suffix, which stand right
// before and right after them, choose among repeats.
type quote struct{ prefix, exact, suffix string }

func (q quote) needle() string { return q.prefix + q.exact + q.suffix }

func (q quote) key() string {
	return strings.Join([]string{"textQuote", decimal(int64(len(q.prefix))), decimal(int64(len(q.exact))), q.needle()}, " ")
}

func (q quote) try(target map[string]any) (Tested, *ContentTest) {
	text, _ := evidenceText(target)
	t := q.in(text)
	blob := evidenceContent(target)
	if t.Verdict != CitationNotFound || blob == nil || !isText(blob.MimeType) || sameBytes(text, blob) {
		return t, nil
	}
	return t, &ContentTest{Blob: *blob, selector: q}
}

// in looks for the quote in a text: as it is, and if it is nowhere, normalised.
func (q quote) in(text string) Tested {
	needle := q.needle()
	if first := strings.Index(text, needle); first >= 0 {
		if strings.Contains(text[first+1:], needle) {
			return Tested{Verdict: CitationAmbiguous, Haystack: HaystackText}
		}
		start := int64(first + len(q.prefix))
		return Tested{Verdict: CitationVerified, Haystack: HaystackText, At: &Span{Start: start, End: start + int64(len(q.exact))}}
	}
	loose := q.loose()
	n := normalizer{emit: loose.feed}
	n.write([]byte(text), true)
	return loose.verdict(CitationNormalized, HaystackText)
}

// read is in for a stream, in one pass and with a bounded memory.
func (q quote) read(r io.Reader) (Tested, error) {
	strict, loose := newMatcher([]byte(q.needle()), len(q.prefix), len(q.exact)), q.loose()
	n := normalizer{emit: loose.feed}
	buf := make([]byte, 64<<10)
	for at := int64(0); ; {
		k, err := r.Read(buf)
		for i, b := range buf[:k] {
			strict.feed(b, at+int64(i), at+int64(i)+1)
		}
		n.write(buf[:k], false)
		if at += int64(k); at > MaxEvidence {
			return Tested{Verdict: CitationUnknown, Haystack: HaystackBlob, Reason: ReasonTooLarge}, nil
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Tested{}, err
		}
	}
	n.write(nil, true)
	if t := strict.verdict(CitationVerified, HaystackBlob); t.Verdict != CitationNotFound {
		return t, nil
	}
	return loose.verdict(CitationNormalized, HaystackBlob), nil
}

// loose is a matcher for the normalised quote. Quote and context are normalised
// as the one text that they are where they stand.
func (q quote) loose() *matcher {
	var needle []byte
	before, within := 0, 0
	n := normalizer{emit: func(b byte, from, _ int64) {
		needle = append(needle, b)
		switch {
		case from < int64(len(q.prefix)):
			before++
		case from < int64(len(q.prefix)+len(q.exact)):
			within++
		}
	}}
	n.write([]byte(q.needle()), true)
	return newMatcher(needle, before, within)
}

// normalized is s in NFC with each run of white space as one space.
func normalized(s string) string {
	var out strings.Builder
	n := normalizer{emit: func(b byte, _, _ int64) { out.WriteByte(b) }}
	n.write([]byte(s), true)
	return out.String()
}

// matcher finds a needle in a stream of bytes (Knuth, Morris, Pratt) and tells
// where the part of it that is quoted began and ended in the stream's source.
type matcher struct {
	needle         []byte
	border         []int // length of the longest proper prefix of needle[:i+1] that is also its suffix
	before, within int   // bytes of the needle before the quoted part, and in it
	matched        int
	seen           int64
	places         []Span // of the last len(needle) bytes, as a ring
	hits           int    // stops counting at two
	at             Span
}

func newMatcher(needle []byte, before, within int) *matcher {
	m := &matcher{needle: needle, border: make([]int, len(needle)), before: before, within: within, places: make([]Span, len(needle))}
	for i, k := 1, 0; i < len(needle); i++ {
		for k > 0 && needle[i] != needle[k] {
			k = m.border[k-1]
		}
		if needle[i] == needle[k] {
			k++
		}
		m.border[i] = k
	}
	return m
}

func (m *matcher) feed(b byte, from, to int64) {
	if m.hits > 1 || len(m.needle) == 0 {
		return
	}
	m.places[m.seen%int64(len(m.places))] = Span{Start: from, End: to}
	m.seen++
	for m.matched > 0 && b != m.needle[m.matched] {
		m.matched = m.border[m.matched-1]
	}
	if b == m.needle[m.matched] {
		m.matched++
	}
	if m.matched < len(m.needle) {
		return
	}
	m.matched = m.border[m.matched-1]
	if m.hits++; m.hits == 1 {
		first := m.seen - int64(len(m.needle)) + int64(m.before)
		m.at.Start = m.places[first%int64(len(m.places))].Start
		m.at.End = m.at.Start
		if m.within > 0 {
			m.at.End = m.places[(first+int64(m.within)-1)%int64(len(m.places))].End
		}
	}
}

func (m *matcher) verdict(one CitationVerdict, where Haystack) Tested {
	switch m.hits {
	case 0:
		return Tested{Verdict: CitationNotFound, Haystack: where}
	case 1:
		at := m.at
		return Tested{Verdict: one, Haystack: where, At: &at}
	}
	return Tested{Verdict: CitationAmbiguous, Haystack: where}
}

// normalizer turns a stream into NFC with each run of white space as one space,
// and tells of each byte from which bytes of the stream it came. What is no
// UTF-8 passes as it is.
type normalizer struct {
	emit  func(b byte, from, to int64)
	rest  []byte // not yet normalised: what follows may belong to it
	at    int64  // offset of rest in the stream
	space bool   // the last that was emitted is white space
	out   []byte
}

func (n *normalizer) write(p []byte, last bool) {
	if len(n.rest) > 0 {
		n.rest = append(n.rest, p...)
		p = n.rest
	}
	i := 0
	for i < len(p) {
		if p[i] < utf8.RuneSelf && i+1 < len(p) && p[i+1] < utf8.RuneSelf {
			n.segment(p[i:i+1], i)
			i++
			continue
		}
		size := norm.NFC.NextBoundary(p[i:], last)
		if size < 0 {
			break
		}
		n.segment(p[i:i+size], i)
		i += size
	}
	n.rest = append(n.rest[:0], p[i:]...)
	n.at += int64(i)
}

// segment normalises bytes that belong together: a character and what combines
// with it, and now and then what might have, which depends on how the stream is cut.
func (n *normalizer) segment(p []byte, i int) {
	from := n.at + int64(i)
	for len(p) > 0 {
		size := n.unit(p)
		to := from + int64(size)
		r, width := utf8.DecodeRune(p)
		space := width == size && unicode.IsSpace(r)
		switch {
		case space && !n.space:
			n.emit(' ', from, to)
		case !space:
			for _, b := range n.out {
				n.emit(b, from, to)
			}
		}
		n.space = space
		p, from = p[size:], to
	}
}

// maxSegment bounds what is looked through for its parts, in bytes. More marks
// than that on one character are written by nobody, and count as one.
const maxSegment = 128

// unit normalises, into out, the first bytes of a segment that combine with
// nothing behind them, and tells how many they are.
func (n *normalizer) unit(p []byte) int {
	if len(p) == 1 {
		n.out = append(n.out[:0], p[0])
		return 1
	}
	_, size := utf8.DecodeRune(p)
	if size < len(p) && len(p) <= maxSegment {
		whole := norm.NFC.Bytes(p)
		for ; size < len(p); size += runeLen(p[size:]) {
			n.out = norm.NFC.Append(n.out[:0], p[:size]...)
			if tail, ok := bytes.CutPrefix(whole, n.out); ok && bytes.Equal(tail, norm.NFC.Bytes(p[size:])) {
				return size
			}
		}
	}
	n.out = norm.NFC.Append(n.out[:0], p...)
	return len(p)
}

func runeLen(p []byte) int {
	_, size := utf8.DecodeRune(p)
	return size
}
