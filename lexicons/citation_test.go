package lexicons_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"herbarium.garden/lexicons"
)

type object = map[string]any

func quote(exact string, context ...string) object {
	q := object{"$type": "garden.engram.agents.defs#textQuote", "exact": exact}
	for i, name := range []string{"prefix", "suffix"} {
		if i < len(context) && context[i] != "" {
			q[name] = context[i]
		}
	}
	return q
}

func byteRange(start, end int64) object {
	return object{"$type": "garden.engram.agents.defs#byteRange", "byteStart": start, "byteEnd": end}
}

func pointerTo(pointer string) object {
	return object{"$type": "garden.engram.agents.defs#jsonPointer", "pointer": pointer}
}

// withContent is an observation's record that keeps bytes.
func withContent(text, mime string, content []byte) object {
	sum := sha256.Sum256(content)
	hash, _ := multihash.Encode(sum[:], multihash.SHA2_256) // SHA-256 is always known
	c := cid.NewCidV1(cid.Raw, hash)
	return object{"text": text, "content": atdata.Blob{Ref: atdata.CIDLink(c), MimeType: mime, Size: int64(len(content))}}
}

// placeOf is what stands at the place that was found; "" when there is none.
func placeOf(t lexicons.Tested, haystack string) string {
	if t.At == nil {
		return ""
	}
	return haystack[t.At.Start:t.At.End]
}

func TestQuoteInText(t *testing.T) {
	for name, tt := range map[string]struct {
		text     string
		selector object
		verdict  lexicons.CitationVerdict
		place    string
		start    int64
	}{
		"once":                                 {"the build is green today", quote("build is green"), "verified", "build is green", 4},
		"nowhere":                              {"the build is red", quote("build is green"), "not-found", "", 0},
		"repeated hits, undecidable":           {"green and green", quote("green"), "ambiguous", "", 0},
		"repeated hits decided by prefix":      {"was green, now green", quote("green", "now "), "verified", "green", 15},
		"repeated hits decided by suffix":      {"was green, now green", quote("green", "", ", now"), "verified", "green", 4},
		"repeated hits, context undecidable":   {"a green b a green b", quote("green", "a ", " b"), "ambiguous", "", 0},
		"once, but not with that prefix":       {"was green", quote("green", "now "), "not-found", "", 0},
		"prefix must end right before":         {"now it is green", quote("green", "now "), "not-found", "", 0},
		"overlapping hits are several":         {"aaa", quote("aa"), "ambiguous", "", 0},
		"white space collapses":                {"the\n\tbuild   is green", quote("the build is green"), "verified-normalized", "the\n\tbuild   is green", 0},
		"NFC: decomposed in the text":          {"cafe\u0301 open", quote("caf\u00e9"), "verified-normalized", "cafe\u0301", 0},
		"NFC: decomposed in the quote":         {"le caf\u00e9 open", quote("cafe\u0301"), "verified-normalized", "caf\u00e9", 3},
		"a letter is not its accented self":    {"cafe\u0301", quote("cafe "), "not-found", "", 0},
		"normalised hits are several too":      {"a  b a\tb", quote("a b"), "ambiguous", "", 0},
		"normalised, decided by prefix":        {"x a  b, y a\tb", quote("a b", "y "), "verified-normalized", "a\tb", 10},
		"Hangul composes":                      {"\u1112\u1161\u11ab\u1100\u1173\u11af", quote("\ud55c\uae00"), "verified-normalized", "\u1112\u1161\u11ab\u1100\u1173\u11af", 0},
		"4-byte emoji, whole":                  {"ok \U0001F600 done", quote("\U0001F600"), "verified", "\U0001F600", 3},
		"an empty quote selects nothing":       {"text", quote(""), "unsupported", "", 0},
		"longer than any quote":                {"text", quote(strings.Repeat("a", 20<<10)), "unsupported", "", 0},
		"range":                                {"hello", byteRange(1, 4), "verified", "ell", 1},
		"range, empty":                         {"hello", byteRange(2, 2), "verified", "", 2},
		"range, the whole":                     {"hello", byteRange(0, 5), "verified", "hello", 0},
		"range past the end":                   {"hello", byteRange(0, 6), "out-of-range", "", 0},
		"range inverted":                       {"hello", byteRange(3, 2), "out-of-range", "", 0},
		"range before the start":               {"hello", byteRange(-1, 2), "out-of-range", "", 0},
		"range on 4-byte emoji boundaries":     {"a\U0001F600b", byteRange(1, 5), "verified", "\U0001F600", 1},
		"range starts inside a 4-byte emoji":   {"a\U0001F600b", byteRange(2, 5), "splits-char", "", 0},
		"range ends inside a 4-byte emoji":     {"a\U0001F600b", byteRange(1, 4), "splits-char", "", 0},
		"range without numbers":                {"hello", object{"$type": "garden.engram.agents.defs#byteRange"}, "unsupported", "", 0},
		"a selector of the future":             {"hello", object{"$type": "org.example.defs#cssSelector"}, "unsupported", "", 0},
		"something that is no selector":        {"hello", object{}, "unsupported", "", 0},
		"no selector cites the whole":          {"hello", nil, "no-selector", "", 0},
		"text that is no UTF-8 still compares": {"a\xff\xfeb  c", quote("b c"), "verified-normalized", "b  c", 3},
	} {
		t.Run(name, func(t *testing.T) {
			got, content := lexicons.Citation{Selector: tt.selector}.Try(object{"text": tt.text})
			require.Nil(t, content)
			require.Equal(t, tt.verdict, got.Verdict)
			require.Equal(t, tt.place, placeOf(got, tt.text))
			if got.At != nil {
				require.Equal(t, tt.start, got.At.Start)
			}
		})
	}
}

// The pointers are those of RFC 6901, section 5, and of the tests that every
// implementation has.
func TestPointerCitations(t *testing.T) {
	const rfc = `{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,"list":[[1],{"x":null}],"twice":1,"twice":2}`
	for pointer, want := range map[string]lexicons.CitationVerdict{
		"": "verified", "/foo": "verified", "/foo/0": "verified", "/": "verified", "/a~1b": "verified", "/c%d": "verified",
		"/e^f": "verified", "/g|h": "verified", "/i\\j": "verified", "/k\"l": "verified", "/ ": "verified", "/m~0n": "verified",
		"/a~1b/0": "pointer-missing", "/-": "pointer-missing", "/foo/-": "pointer-missing", "/foo/01": "pointer-missing", "/01": "pointer-missing",
		"/foo/2": "pointer-missing", "/foo/+1": "pointer-missing", "/foo/0/0": "pointer-missing", "/list/0/0": "verified", "/list/1/x": "verified",
		"/list/1/y": "pointer-missing", "/twice": "verified", "foo": "unsupported", "/~2": "unsupported", "/foo~": "unsupported",
	} {
		t.Run(pointer, func(t *testing.T) {
			got, content := lexicons.Citation{Selector: pointerTo(pointer)}.Try(object{"text": rfc})
			require.Nil(t, content)
			require.Equal(t, want, got.Verdict)
			if want != "unsupported" {
				require.Equal(t, lexicons.HaystackText, got.Haystack)
			}
		})
	}
	t.Run("/a~1b/0 into an array, and 01 as a name", func(t *testing.T) {
		for pointer, text := range map[string]string{"/a~1b/0": `{"a/b":["x"]}`, "/01": `{"01":true}`, "/-": `{"-":1}`, "": `[]`} {
			got, _ := lexicons.Citation{Selector: pointerTo(pointer)}.Try(object{"text": text})
			require.Equal(t, lexicons.CitationVerified, got.Verdict, pointer)
		}
	})
	t.Run("text that is no JSON leaves the record", func(t *testing.T) {
		record := object{"text": "plain words", "source": object{"kind": "url"}, "tags": []any{"a", "b"}}
		for pointer, want := range map[string]lexicons.CitationVerdict{
			"": "verified", "/source/kind": "verified", "/tags/1": "verified", "/tags/2": "pointer-missing", "/tags/-": "pointer-missing",
			"/tags/01": "pointer-missing", "/source/x": "pointer-missing", "/text/0": "pointer-missing",
		} {
			got, _ := lexicons.Citation{Selector: pointerTo(pointer)}.Try(record)
			require.Equal(t, want, got.Verdict, pointer)
			require.Equal(t, lexicons.HaystackRecord, got.Haystack)
		}
	})
	for _, text := range []string{`{} {}`, `{"a":1`, `{"a":1}}`, `[1,]`, `{"a" 1}`, strings.Repeat("[", 100_000), ``} {
		got, _ := lexicons.Citation{Selector: pointerTo("/a")}.Try(object{"text": text})
		require.Equal(t, lexicons.HaystackRecord, got.Haystack, "%.20s is no JSON", text)
	}
}

// Which haystack a selector is tried on.
func TestHaystack(t *testing.T) {
	cited := []byte(`{"name": "the whole document", "n": 12, "text": "` + strings.Repeat("filler ", 40_000) + `the words"}`)
	image := append([]byte{0x89, 'P', 'N', 'G', 0x80}, cited...)
	for name, tt := range map[string]struct {
		target   object
		content  []byte // what is read when the record does not decide; nil when it does
		selector object
		verdict  lexicons.CitationVerdict
		haystack lexicons.Haystack
	}{
		"a quote in the text":                      {withContent("the words", "text/plain", cited), nil, quote("the words"), "verified", "text"},
		"a quote that only the bytes have":         {withContent("the start", "application/json", cited), cited, quote("filler the words"), "verified", "blob"},
		"a quote that nothing has":                 {withContent("the start", "text/plain; charset=utf-8", cited), cited, quote("other words"), "not-found", "blob"},
		"a quote, loosely in the bytes":            {withContent("the start", "application/ld+json", cited), cited, quote("filler  the\nwords"), "verified-normalized", "blob"},
		"a quote, often in the bytes":              {withContent("the start", "text/plain", cited), cited, quote("filler"), "ambiguous", "blob"},
		"no text is looked for in a picture":       {withContent("the start", "image/png", image), nil, quote("the words"), "not-found", "text"},
		"the text is the bytes, so none are read":  {withContent(string(cited), "application/json", cited), nil, quote("other words"), "not-found", "text"},
		"a range is of the bytes":                  {withContent("the start", "text/plain", cited), cited, byteRange(2, 6), "verified", "blob"},
		"a range of a picture may split anything":  {withContent("", "image/png", image), image, byteRange(4, 5), "verified", "blob"},
		"a range past the bytes":                   {withContent("the start", "text/plain", cited), nil, byteRange(0, int64(len(cited))+1), "out-of-range", "blob"},
		"a range when the text is the bytes":       {withContent(string(cited), "text/plain", cited), nil, byteRange(2, 6), "verified", "blob"},
		"a pointer into the bytes":                 {withContent("{}", "application/json", cited), cited, pointerTo("/n"), "verified", "blob"},
		"a pointer that the bytes lack":            {withContent(`{"x":1}`, "application/json", cited), cited, pointerTo("/x"), "pointer-missing", "blob"},
		"a pointer when the bytes are no JSON":     {withContent(`{"x":1}`, "text/plain", image), image, pointerTo("/x"), "verified", "text"},
		"a pointer when the bytes are a picture":   {withContent(`{"x":1}`, "image/png", image), nil, pointerTo("/x"), "verified", "text"},
		"a pointer when the text is the bytes":     {withContent(string(cited), "application/json", cited), nil, pointerTo("/name"), "verified", "blob"},
		"a session's text is its summary":          {object{"summary": "goal: green"}, nil, quote("green"), "verified", "text"},
		"a skill's text is its content":            {object{"content": "when asked, read"}, nil, quote("read"), "verified", "text"},
		"a record without a text has no quote":     {object{"name": "words"}, nil, quote("words"), "not-found", "text"},
		"a record that has nothing at all answers": {nil, nil, pointerTo("/x"), "pointer-missing", "record"},
	} {
		t.Run(name, func(t *testing.T) {
			got, content := lexicons.Citation{Selector: tt.selector}.Try(tt.target)
			require.Equal(t, tt.content != nil, content != nil)
			if content != nil {
				for _, r := range []io.Reader{bytes.NewReader(tt.content), iotest.OneByteReader(bytes.NewReader(tt.content)), iotest.DataErrReader(bytes.NewReader(tt.content))} {
					read, err := content.Run(r)
					require.NoError(t, err)
					joined := content.Combine(got, read)
					require.Equal(t, tt.verdict, joined.Verdict)
					require.Equal(t, tt.haystack, joined.Haystack)
				}
				_, err := content.Run(iotest.ErrReader(errors.New("the disk is gone")))
				require.ErrorContains(t, err, "the disk is gone", "an error is no verdict")
				return
			}
			require.Equal(t, tt.verdict, got.Verdict)
			require.Equal(t, tt.haystack, got.Haystack)
		})
	}
}

func TestRangesOfTextSplitNoCharacter(t *testing.T) {
	content := []byte("ab\U0001F600cd, and more than its record says")
	for r, want := range map[[2]int64]lexicons.CitationVerdict{
		{2, 6}: "verified", {0, 2}: "verified", {6, 8}: "verified", {3, 6}: "splits-char", {2, 5}: "splits-char", {4, 4}: "splits-char",
		{0, 0}: "verified", {0, int64(len(content))}: "verified",
	} {
		_, test := lexicons.Citation{Selector: byteRange(r[0], r[1])}.Try(withContent("ab", "text/plain", content))
		got, err := test.Run(bytes.NewReader(content))
		require.NoError(t, err)
		require.Equal(t, want, got.Verdict, r)
		if r[1] > 2 {
			short, err := test.Run(bytes.NewReader(content[:r[1]-1]))
			require.NoError(t, err)
			require.Equal(t, lexicons.CitationOutOfRange, short.Verdict, "fewer bytes than the record says")
		}
	}
}

func TestContentTooLargeIsUnknown(t *testing.T) {
	huge := withContent("the start", "text/plain", []byte("x"))
	blob := huge["content"].(atdata.Blob)
	blob.Size = lexicons.MaxEvidence + 1
	huge["content"] = blob
	_, test := lexicons.Citation{Selector: quote("words")}.Try(huge)
	got, err := test.Run(iotest.ErrReader(errors.New("nothing is read")))
	require.NoError(t, err)
	require.Equal(t, lexicons.Tested{Verdict: lexicons.CitationUnknown, Haystack: lexicons.HaystackBlob, Reason: lexicons.ReasonTooLarge}, got)

	blob.Size = 10 // a record that lies about its size
	huge["content"] = blob
	_, test = lexicons.Citation{Selector: quote("words")}.Try(huge)
	got, err = test.Run(io.LimitReader(endless{}, lexicons.MaxEvidence+1<<20))
	require.NoError(t, err)
	require.Equal(t, lexicons.CitationUnknown, got.Verdict)
	_, test = lexicons.Citation{Selector: pointerTo("/a")}.Try(huge)
	got, err = test.Run(io.MultiReader(strings.NewReader(`{"a":"`), endless{}))
	require.NoError(t, err)
	require.Equal(t, lexicons.CitationUnknown, got.Verdict)
}

// endless gives the letter a for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

func TestMisquote(t *testing.T) {
	const said = "It says: \"all  green\" and I think \U0001F600"
	part := func(start, end int64) lexicons.Span { return lexicons.Span{Start: start, End: end} }
	for name, tt := range map[string]struct {
		relation string
		span     lexicons.Span
		exact    string
		want     lexicons.CitationVerdict
	}{
		"the words are in the span":             {"quotes", part(0, 21), "green", "verified"},
		"the span says something else":          {"quotes", part(0, 8), "green", "misquote"},
		"the words, but for white space":        {"quotes", part(0, 21), "all green", "verified-normalized"},
		"only a quote repeats the words":        {"restates", part(0, 8), "green", "verified"},
		"words that the target does not have":   {"quotes", part(0, 8), "red", "not-found"},
		"a span that splits a 4-byte emoji":     {"quotes", part(0, 37), "green", "misquote"},
		"a span past the end of the text":       {"quotes", part(0, 4000), "green", "misquote"},
		"words that the target has twice":       {"quotes", part(0, 8), "twice", "misquote"},
		"twice in the target, once in the span": {"quotes", part(0, 8), "It says", "ambiguous"},
	} {
		t.Run(name, func(t *testing.T) {
			citing := object{"text": said}
			c := lexicons.Citation{Relation: tt.relation, Selector: quote(tt.exact), Span: tt.span}
			tested, _ := c.Try(object{"text": "the build is all green, twice twice. It says It says"})
			require.Equal(t, tt.want, c.Quoted(citing, tested).Verdict)
		})
	}
}

func TestTextAround(t *testing.T) {
	value := object{"text": "outer", "parts": []any{object{"text": "inner", "facts": []any{object{"span": object{}}}}, object{"facts": []any{object{}}}}}
	require.Equal(t, "inner", lexicons.TextAround(value, "/parts/0/facts/0"))
	require.Equal(t, "outer", lexicons.TextAround(value, "/parts/1/facts/0"))
	require.Equal(t, "outer", lexicons.TextAround(value, "/parts/7"))
	require.Empty(t, lexicons.TextAround(object{}, "/a"))
}

func TestFreshness(t *testing.T) {
	old := object{"text": `{"status":"green","n":1}`}
	for name, tt := range map[string]struct {
		selector object
		head     string
		want     lexicons.Freshness
	}{
		"the words are still there":            {quote("green"), `{"n":2,"status":"green"}`, "still-holds"},
		"the words are there twice now":        {quote("green"), `green green`, "still-holds"},
		"the words are gone":                   {quote("green"), `{"status":"red"}`, "gone"},
		"the pointer selects the same":         {pointerTo("/status"), `{"n":2,"status":"green"}`, "still-holds"},
		"the pointer selects something else":   {pointerTo("/n"), `{"n":2,"status":"green"}`, "gone"},
		"the pointer selects nothing":          {pointerTo("/n"), `{"status":"green"}`, "gone"},
		"the range selects the same":           {byteRange(2, 8), `{"status":"red"}`, "still-holds"},
		"the range selects something else":     {byteRange(0, 15), `{"status":"grey","n":1}`, "gone"},
		"the range is out of the new text":     {byteRange(2, 8), `{}`, "gone"},
		"the whole record was cited":           {nil, `{}`, "unknown"},
		"nobody knows how to try the selector": {object{"$type": "org.example#x"}, `{}`, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			c := lexicons.Citation{Selector: tt.selector}
			before, _ := c.Try(old)
			after, _ := c.Try(object{"text": tt.head})
			require.Equal(t, tt.want, c.StillHolds(before, after))
		})
	}
	require.Equal(t, lexicons.FreshUnknown, lexicons.Citation{Selector: quote("x")}.StillHolds(lexicons.Tested{}, lexicons.Tested{Verdict: lexicons.CitationUnknown}))
}

// A stream gives the verdict that a text gives, however it is cut, and the
// normal form is the one of the Unicode library with white space collapsed.
func TestQuoteInStreamAsInText(t *testing.T) {
	alphabet := []string{"a", "b", "e\u0301", "\u00e9", " ", "\n", "\u00a0", "\u1112", "\u1161", "\u11ab", "\U0001F600", "\u0301", "\xff"}
	words := func(t *rapid.T, name string, most int) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, most).Draw(t, name), "")
	}
	collapse := func(s string) string {
		var out strings.Builder
		space := false
		for _, r := range norm.NFC.String(s) {
			if r == ' ' || r == '\n' || r == '\u00a0' {
				if !space {
					out.WriteByte(' ')
				}
				space = true
				continue
			}
			space = false
			out.WriteRune(r)
		}
		return out.String()
	}
	rapid.Check(t, func(t *rapid.T) {
		text, exact, suffix := words(t, "text", 40), "a"+words(t, "exact", 4), words(t, "suffix", 2)
		c := lexicons.Citation{Selector: quote(exact, words(t, "prefix", 2), suffix)}
		inText, none := c.Try(object{"text": text})
		require.Nil(t, none)
		_, test := c.Try(withContent("", "text/plain", []byte(text+"."))) // the point lets text and bytes differ
		var r io.Reader = strings.NewReader(text)
		if rapid.Bool().Draw(t, "byte by byte") {
			r = iotest.OneByteReader(r)
		}
		streamed, err := test.Run(r)
		require.NoError(t, err)
		require.Equal(t, inText.Verdict, streamed.Verdict)
		require.Equal(t, inText.At, streamed.At)
		// Of a quote that ends within a character (its accent begins the suffix) the whole character is the place.
		if inText.At != nil && !strings.Contains(text+exact, "\xff") && norm.NFC.String(exact+suffix) == norm.NFC.String(exact)+norm.NFC.String(suffix) {
			require.Equal(t, collapse(exact), collapse(text[inText.At.Start:inText.At.End]))
		}
	})
}

func TestContentTestsAreNamedByWhatTheyTry(t *testing.T) {
	target := withContent("the start", "text/plain", []byte("some bytes"))
	keys := map[string]string{}
	for name, selector := range map[string]object{
		"quote": quote("ab"), "prefixed": quote("b", "a"), "suffixed": quote("a", "", "b"), "range": byteRange(1, 2), "other range": byteRange(1, 3), "pointer": pointerTo("/a"),
	} {
		_, test := lexicons.Citation{Selector: selector}.Try(target)
		require.Len(t, test.Key(), 64)
		require.NotContains(t, keys, test.Key(), name)
		keys[test.Key()] = name
	}
	_, text := lexicons.Citation{Selector: byteRange(1, 2)}.Try(target)
	_, bin := lexicons.Citation{Selector: byteRange(1, 2)}.Try(withContent("", "image/png", []byte("some bytes")))
	require.NotEqual(t, text.Key(), bin.Key(), "in a text an end may split a character")
}

func FuzzCitationInContent(f *testing.F) {
	f.Add([]byte("the words"), "words", "/a", int64(1), int64(3))
	f.Add([]byte(`{"a":[1,{"b":"é"}]}`), "e\u0301", "/a/1/b", int64(0), int64(5))
	f.Add([]byte("\xff\xfe\x00"), "\u0301", "", int64(2), int64(2))
	f.Fuzz(func(t *testing.T, content []byte, exact, pointer string, start, end int64) {
		for _, selector := range []object{quote(exact), byteRange(start, end), pointerTo(pointer)} {
			c := lexicons.Citation{Selector: selector}
			got, test := c.Try(withContent("text", "text/plain", content))
			if test != nil {
				read, err := test.Run(bytes.NewReader(content))
				require.NoError(t, err)
				got = test.Combine(got, read)
			}
			if got.At != nil && got.Haystack == lexicons.HaystackBlob {
				require.LessOrEqual(t, got.At.End, int64(len(content)))
				require.LessOrEqual(t, got.At.Start, got.At.End)
			}
		}
	})
}
