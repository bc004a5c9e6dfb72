package lexicons

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
)

// maxEvidenceJSON is how many bytes of a JSON document a pointer is followed
// through: a token may be as long as the document, and is held in memory.
const maxEvidenceJSON = 16 << 20

// jsonPointer selects a value by an RFC 6901 pointer.
type jsonPointer string

// try follows the pointer in the first of these that is there: the blob as
// JSON, the text as JSON, the record's own fields.
func (p jsonPointer) try(target map[string]any) (Tested, *ContentTest) {
	text, hasText := evidenceText(target)
	t := p.inRecord(target)
	if hasText {
		if inText, err := p.follow(strings.NewReader(text), HaystackText); err == nil {
			t = inText
		}
	}
	blob := evidenceContent(target)
	switch {
	case blob == nil || !isText(blob.MimeType):
		return t, nil
	case sameBytes(text, blob):
		if t.Haystack == HaystackText {
			t.Haystack = HaystackBlob
		}
		return t, nil
	}
	return t, &ContentTest{Blob: *blob, selector: p}
}

func (p jsonPointer) key() string { return "jsonPointer " + string(p) }

// read follows the pointer in the bytes; CitationUnsupported when they are no JSON.
func (p jsonPointer) read(r io.Reader) (Tested, error) {
	bounded := &io.LimitedReader{R: r, N: maxEvidenceJSON + 1}
	watched := &watchedReader{r: bounded}
	t, err := p.follow(watched, HaystackBlob)
	switch {
	case watched.err != nil:
		return Tested{}, watched.err
	case bounded.N == 0:
		return Tested{Verdict: CitationUnknown, Haystack: HaystackBlob, Reason: ReasonTooLarge}, nil
	case err != nil:
		return Tested{Verdict: CitationUnsupported, Haystack: HaystackBlob}, nil
	}
	return t, nil
}

// watchedReader keeps the error of its reader apart from those of the syntax.
type watchedReader struct {
	r   io.Reader
	err error
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

func (p jsonPointer) inRecord(value map[string]any) Tested {
	var at any = value
	for _, token := range pointerTokens(string(p)) {
		found := false
		switch v := at.(type) {
		case map[string]any:
			at, found = v[token]
		case []any:
			if i, ok := arrayIndex(token); ok && i < len(v) {
				at, found = v[i], true
			}
		}
		if !found {
			return Tested{Verdict: CitationPointerMissing, Haystack: HaystackRecord}
		}
	}
	t := Tested{Verdict: CitationVerified, Haystack: HaystackRecord}
	if raw, err := EncodeCBOR(map[string]any{"selected": at}); err == nil {
		sum := sha256.Sum256(raw)
		t.Selected = hex.EncodeToString(sum[:])
	}
	return t
}

// follow reads one JSON document. An error says that it is none.
func (p jsonPointer) follow(r io.Reader, where Haystack) (Tested, error) {
	w := &pointerWalk{dec: json.NewDecoder(r), selected: sha256.New()}
	w.dec.UseNumber()
	if err := w.value(pointerTokens(string(p))); err != nil {
		return Tested{}, err
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return Tested{}, errors.New("more than one JSON value")
	}
	if !w.found {
		return Tested{Verdict: CitationPointerMissing, Haystack: where}, nil
	}
	return Tested{Verdict: CitationVerified, Haystack: where, Selected: hex.EncodeToString(w.selected.Sum(nil))}, nil
}

// pointerWalk goes once through a JSON document, token by token. Of two members
// of one name the last counts, as almost everywhere.
type pointerWalk struct {
	dec      *json.Decoder
	found    bool
	selected hash.Hash // of the tokens that the pointer selects, in the order of the document
}

// value reads one value, to which tokens lead on. It calls itself as often as
// the pointer has tokens, however deep the document is.
func (w *pointerWalk) value(tokens []string) error {
	if len(tokens) == 0 {
		w.found = true
		w.selected.Reset()
		return w.through(func(t json.Token) { _, _ = fmt.Fprintf(w.selected, "%T %v\n", t, t) }) // a hash takes everything
	}
	t, err := w.dec.Token()
	if err != nil {
		return err
	}
	object := t == json.Delim('{')
	if !object && t != json.Delim('[') {
		return nil
	}
	for i := 0; w.dec.More(); i++ {
		leads := tokens[0] == strconv.Itoa(i)
		if object {
			name, err := w.dec.Token()
			if err != nil {
				return err
			}
			if leads = name == tokens[0]; leads {
				w.found = false
			}
		}
		read := func() error { return w.through(func(json.Token) {}) }
		if leads {
			read = func() error { return w.value(tokens[1:]) }
		}
		if err := read(); err != nil {
			return err
		}
	}
	_, err = w.dec.Token()
	return err
}

// through reads one value with all that is in it.
func (w *pointerWalk) through(each func(json.Token)) error {
	for depth := 0; ; {
		t, err := w.dec.Token()
		if err != nil {
			return err
		}
		each(t)
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// pointerTokens splits an RFC 6901 pointer into its unescaped tokens.
func pointerTokens(path string) []string {
	if path == "" {
		return nil
	}
	tokens := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, t := range tokens {
		tokens[i] = pointerUnescape.Replace(t)
	}
	return tokens
}

var pointerUnescape = strings.NewReplacer("~1", "/", "~0", "~")

// arrayIndex reads an index of RFC 6901: digits without a leading zero. "-",
// the element after the last, is never there.
func arrayIndex(token string) (int, bool) {
	i, err := strconv.Atoi(token)
	return i, err == nil && i >= 0 && strconv.Itoa(i) == token
}
