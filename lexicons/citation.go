package lexicons

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// CitationVerdict says whether a citation holds (SEMANTICS 4.3).
type CitationVerdict string

// The verdicts on a citation. The first eight come of trying its selector on
// the version that it pins, the rest of what became of that version.
const (
	CitationVerified       CitationVerdict = "verified"
	CitationNormalized     CitationVerdict = "verified-normalized" // only in NFC with white space collapsed
	CitationAmbiguous      CitationVerdict = "ambiguous"           // several places, and prefix and suffix do not decide
	CitationNotFound       CitationVerdict = "not-found"
	CitationOutOfRange     CitationVerdict = "out-of-range"
	CitationSplitsChar     CitationVerdict = "splits-char"
	CitationPointerMissing CitationVerdict = "pointer-missing"
	CitationMisquote       CitationVerdict = "misquote" // the words are there, but not in the span that says it quotes them

	CitationNoSelector    CitationVerdict = "no-selector" // the whole record is cited
	CitationUnsupported   CitationVerdict = "unsupported" // a selector that cannot be tried here
	CitationTargetChanged CitationVerdict = "target-changed"
	CitationTargetDeleted CitationVerdict = "target-deleted"
	CitationTargetMissing CitationVerdict = "target-missing"
	CitationUnknown       CitationVerdict = "unknown" // nobody could look; Tested.Reason says why
)

// Holds tells that what is cited is where the citation says.
func (v CitationVerdict) Holds() bool { return v == CitationVerified || v == CitationNormalized }

// Fails tells that what is cited is not there, or not what it is said to be.
func (v CitationVerdict) Fails() bool {
	switch v {
	case CitationNotFound, CitationOutOfRange, CitationSplitsChar, CitationPointerMissing, CitationMisquote:
		return true
	}
	return false
}

// Haystack says what a selector was tried on.
type Haystack string

// The haystacks.
const (
	HaystackText   Haystack = "text"   // the record's text: `text`, of a session `summary`, of a skill `content`
	HaystackBlob   Haystack = "blob"   // the exact bytes that an observation keeps
	HaystackRecord Haystack = "record" // the fields of the record
)

// Why a verdict is unknown.
const (
	ReasonUnread      = "content-not-read"    // the text does not decide, and nobody has looked at the bytes yet
	ReasonUnavailable = "content-unavailable" // the bytes cannot be had
	ReasonTooLarge    = "content-too-large"   // there are more of them than are looked through
	ReasonNotHeld     = "target-not-held"     // this version of the target is not here
)

// Tested is the outcome of trying a selector.
type Tested struct {
	Verdict  CitationVerdict
	Haystack Haystack // "" when nothing was looked at
	At       *Span    // where in the haystack, in bytes; nil when there is no such place
	Selected string   // SHA-256 of what a range or a pointer selects, in hex; "" otherwise
	Reason   string   // of CitationUnknown
}

// Freshness says whether a citation of something superseded also holds on what
// superseded it.
type Freshness string

// The values of Freshness; "" when nothing superseded the target.
const (
	FreshStillHolds Freshness = "still-holds"
	FreshGone       Freshness = "gone"
	FreshUnknown    Freshness = "unknown"
)

// Try tries the citation's selector on a version of its target. When the bytes
// behind the target come before what the record says, or are needed because its
// text does not have the quote, it returns the test that they need: Tested is
// then what holds without them, and ContentTest.Combine joins the two.
func (c Citation) Try(target map[string]any) (Tested, *ContentTest) {
	switch s := parseSelector(c.Selector).(type) {
	case nil:
		return Tested{Verdict: CitationNoSelector, Haystack: HaystackRecord}, nil
	case quote:
		return s.try(target)
	case byteRange:
		return s.try(target)
	case jsonPointer:
		return s.try(target)
	}
	return Tested{Verdict: CitationUnsupported}, nil
}

// Quoted is the verdict once the citing record had its say: who writes that a
// part of a text quotes something has the quoted words in that part.
func (c Citation) Quoted(citing map[string]any, t Tested) Tested {
	q, isQuote := parseSelector(c.Selector).(quote)
	if c.Relation != RelationQuotes || !isQuote || !t.Verdict.Holds() && t.Verdict != CitationAmbiguous {
		return t
	}
	part, ok := c.Span.of(TextAround(citing, c.Path))
	switch {
	case ok && strings.Contains(part, q.exact):
	case ok && strings.Contains(normalized(part), normalized(q.exact)):
		if t.Verdict == CitationVerified {
			t.Verdict = CitationNormalized
		}
	default:
		t.Verdict = CitationMisquote
	}
	return t
}

// StillHolds compares the test on what is cited with the one on what superseded
// it. Words hold where they are found; a range or a pointer holds when it
// selects the same.
func (c Citation) StillHolds(pinned, head Tested) Freshness {
	switch {
	case c.Selector == nil || head.Verdict == CitationUnknown || head.Verdict == CitationUnsupported || head.Verdict == CitationNoSelector:
		return FreshUnknown
	case head.Verdict.Fails():
		return FreshGone
	case head.Selected == "":
		return FreshStillHolds
	case pinned.Selected == "":
		return FreshUnknown
	case pinned.Selected != head.Selected:
		return FreshGone
	}
	return FreshStillHolds
}

// The relations that mean something to a check.
const (
	RelationQuotes      = "quotes"
	RelationContradicts = "contradicts"
	RelationCorrects    = "corrects"
)

// Disputes tells that a record which stands in this relation to another says
// that the other is wrong.
func Disputes(relation string) bool {
	return relation == RelationContradicts || relation == RelationCorrects
}

// ContentTest is what remains to be tried on the bytes behind a record.
type ContentTest struct {
	Blob     BlobRef
	selector contentSelector
}

// contentSelector is a selector that can be tried on a stream.
type contentSelector interface {
	key() string
	read(r io.Reader) (Tested, error)
}

// Key names the test: tests with one key on one blob have one outcome. It is a
// digest, so nothing of the quoted words can be read from it.
func (t *ContentTest) Key() string {
	sum := sha256.Sum256([]byte(t.selector.key()))
	return hex.EncodeToString(sum[:])
}

// Run tries the selector on the blob's bytes, which it reads once and does not
// keep. The error is the reader's.
func (t *ContentTest) Run(r io.Reader) (Tested, error) {
	if t.Blob.Size > MaxEvidence {
		return Tested{Verdict: CitationUnknown, Haystack: HaystackBlob, Reason: ReasonTooLarge}, nil
	}
	return t.selector.read(r)
}

// Combine joins what holds without the bytes with the outcome of Run.
func (t *ContentTest) Combine(without, content Tested) Tested {
	if content.Verdict == CitationUnsupported { // bytes without the structure that the selector needs
		return without
	}
	return content
}

// MaxEvidence is how many bytes of a blob are looked through for a citation;
// what lies in a larger one is unknown.
const MaxEvidence = 64 << 20

// evidenceText is what counts as the text of a record.
func evidenceText(value map[string]any) (string, bool) {
	for _, name := range [...]string{"text", "summary", "content"} {
		if s, ok := value[name].(string); ok {
			return s, true
		}
	}
	return "", false
}

// evidenceContent is the blob behind an observation; of other records none is
// known to be what they say.
func evidenceContent(value map[string]any) *BlobRef { return fields(value).blob("content") }

// isText tells whether a blob of this media type is looked at as text.
func isText(mime string) bool {
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	switch mime = strings.TrimSpace(mime); mime {
	case "application/json", "application/xml", "application/javascript", "application/yaml", "application/x-yaml",
		"application/toml", "application/x-ndjson", "application/x-sh", "application/sql":
		return true
	}
	return strings.HasPrefix(mime, "text/") || strings.HasSuffix(mime, "+json") || strings.HasSuffix(mime, "+xml")
}

// sameBytes tells that text is, to the byte, what the blob's CID names, so that
// the blob need not be read.
func sameBytes(text string, blob *BlobRef) bool {
	if int64(len(text)) != blob.Size {
		return false
	}
	sum := sha256.Sum256([]byte(text))
	digest := blob.CID.Hash()
	return len(digest) == 34 && digest[0] == 0x12 && string(digest[2:]) == string(sum[:])
}

// of cuts the span out of a text; false when it lies outside or splits a character.
func (s Span) of(text string) (string, bool) {
	if s.Start < 0 || s.Start > s.End || s.End > int64(len(text)) || splitsChar(text, s.Start) || splitsChar(text, s.End) {
		return "", false
	}
	return text[s.Start:s.End], true
}

// TextAround is the text that spans at a path are counted in: the `text` of the
// innermost object around it that has one.
func TextAround(value map[string]any, path string) string {
	text, _ := value["text"].(string)
	var at any = value
	for _, token := range pointerTokens(path) {
		switch v := at.(type) {
		case map[string]any:
			at = v[token]
		case []any:
			i, ok := arrayIndex(token)
			if !ok || i >= len(v) {
				return text
			}
			at = v[i]
		default:
			return text
		}
		if m, ok := at.(map[string]any); ok {
			if s, ok := m["text"].(string); ok {
				text = s
			}
		}
	}
	return text
}

// byteRange selects bytes of the target's content.
type byteRange struct {
	span Span
	text bool // of a text: both ends lie between characters
}

func (s byteRange) try(target map[string]any) (Tested, *ContentTest) {
	text, _ := evidenceText(target)
	blob := evidenceContent(target)
	if blob == nil {
		return s.in(text, HaystackText), nil
	}
	s.text = isText(blob.MimeType)
	switch {
	case s.span.Start < 0 || s.span.Start > s.span.End || s.span.End > blob.Size:
		return Tested{Verdict: CitationOutOfRange, Haystack: HaystackBlob}, nil
	case sameBytes(text, blob):
		return s.in(text, HaystackBlob), nil
	}
	return Tested{Verdict: CitationUnknown, Haystack: HaystackBlob, Reason: ReasonUnread}, &ContentTest{Blob: *blob, selector: s}
}

func (s byteRange) in(text string, where Haystack) Tested {
	switch {
	case s.span.Start < 0 || s.span.Start > s.span.End || s.span.End > int64(len(text)):
		return Tested{Verdict: CitationOutOfRange, Haystack: where}
	case (s.text || where == HaystackText) && (splitsChar(text, s.span.Start) || splitsChar(text, s.span.End)):
		return Tested{Verdict: CitationSplitsChar, Haystack: where}
	}
	sum := sha256.Sum256([]byte(text[s.span.Start:s.span.End]))
	span := s.span
	return Tested{Verdict: CitationVerified, Haystack: where, At: &span, Selected: hex.EncodeToString(sum[:])}
}

func (s byteRange) key() string {
	return "byteRange " + decimal(s.span.Start) + " " + decimal(s.span.End) + " " + strconv.FormatBool(s.text)
}

// read reads as far as the range and one byte more, which tells whether its end
// lies between characters.
func (s byteRange) read(r io.Reader) (Tested, error) {
	out := Tested{Verdict: CitationOutOfRange, Haystack: HaystackBlob}
	if _, err := io.CopyN(io.Discard, r, s.span.Start); errors.Is(err, io.EOF) {
		return out, nil
	} else if err != nil {
		return out, err
	}
	hash, edge := sha256.New(), &edges{}
	if _, err := io.CopyN(io.MultiWriter(hash, edge), r, s.span.End-s.span.Start); errors.Is(err, io.EOF) {
		return out, nil
	} else if err != nil {
		return out, err
	}
	var after [1]byte
	n, err := io.ReadFull(r, after[:])
	if err != nil && !errors.Is(err, io.EOF) {
		return out, err
	}
	inside := s.span.Start > 0 && edge.any && !utf8.RuneStart(edge.first) || n == 1 && s.span.End > 0 && !utf8.RuneStart(after[0])
	if s.text && inside {
		out.Verdict = CitationSplitsChar
		return out, nil
	}
	span := s.span
	return Tested{Verdict: CitationVerified, Haystack: HaystackBlob, At: &span, Selected: hex.EncodeToString(hash.Sum(nil))}, nil
}

// edges remembers the first byte that was written.
type edges struct {
	first byte
	any   bool
}

func (e *edges) Write(p []byte) (int, error) {
	if !e.any && len(p) > 0 {
		e.first, e.any = p[0], true
	}
	return len(p), nil
}
