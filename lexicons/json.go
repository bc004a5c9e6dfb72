package lexicons

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonReader reads RFC 8259 JSON straight into atproto data. encoding/json
// would let through what a signed record must not have: it keeps the last of
// two equal names, turns lone surrogates and bad UTF-8 into U+FFFD, rounds
// integers through float64, and tells no place. Recursion is bounded by
// maxDepth before it happens.
type jsonReader struct {
	raw      []byte
	pos      int
	at       trail
	maxDepth int
}

// readJSON reads raw as one object.
func readJSON(raw []byte, maxDepth int) (map[string]any, error) {
	r := &jsonReader{raw: raw, maxDepth: maxDepth}
	r.space()
	v, err := r.value()
	if err != nil {
		return nil, err
	}
	r.space()
	if r.pos < len(r.raw) {
		return nil, r.syntax("something follows the end of the value")
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, malformed(CodeNotAnObject, "", "the value is %s, want an object", kindOf(v))
	}
	return m, nil
}

func (r *jsonReader) syntax(what string) error {
	return malformed(CodeJSONSyntax, r.at.String(), "%s at byte %d of the JSON", what, r.pos)
}

func (r *jsonReader) space() {
	for r.pos < len(r.raw) {
		switch r.raw[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

// peek is the byte at the position, 0 at the end: NUL is no JSON token either.
func (r *jsonReader) peek() byte {
	if r.pos < len(r.raw) {
		return r.raw[r.pos]
	}
	return 0
}

func (r *jsonReader) value() (any, error) {
	switch c := r.peek(); {
	case c == '{':
		return r.object()
	case c == '[':
		return r.array()
	case c == '"':
		return r.str()
	case c == '-' || '0' <= c && c <= '9':
		return r.number()
	case c == 't':
		return true, r.literal("true")
	case c == 'f':
		return false, r.literal("false")
	case c == 'n':
		return nil, r.literal("null")
	case r.pos >= len(r.raw):
		return nil, r.syntax("the JSON ends where a value should be")
	}
	return nil, r.syntax("no value begins")
}

func (r *jsonReader) literal(word string) error {
	if !strings.HasPrefix(string(r.raw[r.pos:min(len(r.raw), r.pos+len(word))]), word) {
		return r.syntax("no value begins")
	}
	r.pos += len(word)
	return nil
}

// open guards the recursion: the container that begins here would be at
// depth() + 1.
func (r *jsonReader) open() error {
	if r.at.depth() >= r.maxDepth {
		return tooDeep(&r.at, r.maxDepth)
	}
	r.pos++
	r.space()
	return nil
}

func tooDeep(at *trail, most int) error {
	// The pointer itself would be as deep as the data: name its beginning.
	short := trail{steps: at.steps[:min(8, len(at.steps))]}
	return malformed(CodeTooDeep, short.String(), "arrays and objects lie inside each other more than %d deep", most)
}

func (r *jsonReader) object() (any, error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	m := map[string]any{}
	for r.peek() != '}' {
		if len(m) > 0 {
			if r.peek() != ',' {
				return nil, r.syntax("want , or } in an object")
			}
			r.pos++
			r.space()
		}
		if err := r.member(m); err != nil {
			return nil, err
		}
	}
	r.pos++
	return finishObject(m, &r.at, true)
}

func (r *jsonReader) member(m map[string]any) error {
	if r.peek() != '"' {
		return r.syntax("want a name in quotes")
	}
	name, err := r.str()
	if err != nil {
		return err
	}
	r.at.enter(name)
	defer r.at.leave()
	if _, twice := m[name]; twice {
		return malformed(CodeDuplicateKey, r.at.String(), "the name stands twice in one object")
	}
	if len(m) >= MaxContainer {
		return malformed(CodeTooLarge, "", "an object has more than %d members", MaxContainer)
	}
	r.space()
	if r.peek() != ':' {
		return r.syntax("want : after a name")
	}
	r.pos++
	r.space()
	v, err := r.value()
	if err != nil {
		return err
	}
	m[name] = v
	r.space()
	return nil
}

func (r *jsonReader) array() (any, error) {
	if err := r.open(); err != nil {
		return nil, err
	}
	items := []any{}
	for r.peek() != ']' {
		if len(items) > 0 {
			if r.peek() != ',' {
				return nil, r.syntax("want , or ] in an array")
			}
			r.pos++
			r.space()
		}
		if len(items) >= MaxContainer {
			return nil, malformed(CodeTooLarge, r.at.String(), "an array has more than %d items", MaxContainer)
		}
		r.at.enterAt(len(items))
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		r.at.leave()
		items = append(items, v)
		r.space()
	}
	r.pos++
	return items, nil
}

// number reads -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?.
func (r *jsonReader) number() (any, error) {
	start := r.pos
	if r.peek() == '-' {
		r.pos++
	}
	switch {
	case r.peek() == '0':
		r.pos++
	case !r.digits():
		return nil, r.syntax("want a digit")
	}
	plain := true
	if r.peek() == '.' {
		plain = false
		r.pos++
		if !r.digits() {
			return nil, r.syntax("want a digit after the point")
		}
	}
	if c := r.peek(); c == 'e' || c == 'E' {
		plain = false
		r.pos++
		if c := r.peek(); c == '+' || c == '-' {
			r.pos++
		}
		if !r.digits() {
			return nil, r.syntax("want a digit in the exponent")
		}
	}
	return r.integer(string(r.raw[start:r.pos]), plain)
}

// digits skips a run of digits and tells whether there was one.
func (r *jsonReader) digits() bool {
	start := r.pos
	for '0' <= r.peek() && r.peek() <= '9' {
		r.pos++
	}
	return r.pos > start
}

func (r *jsonReader) integer(text string, plain bool) (any, error) {
	if plain {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > MaxInteger || n < -MaxInteger {
			return nil, malformed(CodeIntegerRange, r.at.String(), "%s is outside ±%d; write it as a string", clip(text), int64(MaxInteger))
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	n, ok := integerOf(f)
	switch {
	case err != nil || !ok && f > MaxInteger || !ok && f < -MaxInteger:
		return nil, malformed(CodeIntegerRange, r.at.String(), "%s is outside ±%d; write it as a string", clip(text), int64(MaxInteger))
	case !ok:
		return nil, malformed(CodeFloat, r.at.String(), "%s is no integer; atproto data has no floats, write it as a string or scale it", clip(text))
	}
	return n, nil
}

// str reads a string from its opening quote past its closing one.
func (r *jsonReader) str() (string, error) {
	r.pos++
	start := r.pos // of the run that is not yet in out
	var out []byte // nil until the first escape
	for r.pos < len(r.raw) {
		switch c := r.raw[r.pos]; {
		case c == '"':
			text := string(r.raw[start:r.pos])
			if out != nil {
				text = string(append(out, text...))
			}
			r.pos++
			if !utf8.ValidString(text) {
				return "", malformed(CodeInvalidUTF8, r.at.String(), "a string before byte %d is not UTF-8", r.pos)
			}
			return text, nil
		case c == '\\':
			out = append(out, r.raw[start:r.pos]...)
			char, err := r.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, char)
			start = r.pos
		case c < 0x20:
			return "", r.syntax("a control character stands bare in a string")
		default:
			r.pos++
		}
	}
	return "", r.syntax("a string does not end")
}

// escape reads one escape sequence, or two that are a surrogate pair.
func (r *jsonReader) escape() (rune, error) {
	r.pos++
	c := r.peek()
	r.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return r.unicodeEscape()
	}
	return 0, r.syntax("no such escape")
}

func (r *jsonReader) unicodeEscape() (rune, error) {
	char, err := r.hex4()
	if err != nil || !utf16.IsSurrogate(char) {
		return char, err
	}
	if r.peek() == '\\' && r.pos+1 < len(r.raw) && r.raw[r.pos+1] == 'u' {
		r.pos += 2
		low, err := r.hex4()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(char, low); pair != utf8.RuneError {
			return pair, nil
		}
	}
	return 0, malformed(CodeInvalidUTF8, r.at.String(), "a \\u escape before byte %d is half a surrogate pair", r.pos)
}

func (r *jsonReader) hex4() (rune, error) {
	if r.pos+4 > len(r.raw) {
		return 0, r.syntax("a \\u escape does not end")
	}
	n, err := strconv.ParseUint(string(r.raw[r.pos:r.pos+4]), 16, 16)
	if err != nil {
		return 0, r.syntax("a \\u escape wants four hex digits")
	}
	r.pos += 4
	return rune(n), nil
}
