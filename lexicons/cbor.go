package lexicons

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/ipfs/go-cid"
)

// The major types of CBOR (RFC 8949 section 3.1) that DAG-CBOR has.
const (
	cborUnsigned = 0
	cborNegative = 1
	cborBytes    = 2
	cborText     = 3
	cborArray    = 4
	cborMap      = 5
	cborTag      = 6
	cborSimple   = 7
)

// tagCID is the one tag of DAG-CBOR: a binary CID behind a zero byte.
const tagCID = 42

// DecodeCBOR reads one DAG-CBOR object of at most MaxRecordCBOR bytes into
// atproto data. It takes the canonical form alone: shortest lengths and
// integers, definite lengths, text keys in order and without repeats, tag 42
// for links, no floats, no undefined, nothing after the end. So whatever it
// returns, EncodeCBOR turns back into the very same bytes.
//
// The error is a *Refused.
func DecodeCBOR(raw []byte) (map[string]any, error) {
	if len(raw) > MaxRecordCBOR {
		return nil, malformed(CodeTooLarge, "", "the record is %d bytes of CBOR, at most %d are taken", len(raw), MaxRecordCBOR)
	}
	r := &cborReader{raw: raw}
	v, err := r.value()
	if err != nil {
		return nil, err
	}
	if r.pos < len(raw) {
		return nil, r.syntax("something follows the end of the value")
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, malformed(CodeNotAnObject, "", "the value is %s, want an object", kindOf(v))
	}
	return m, nil
}

type cborReader struct {
	raw []byte
	pos int
	at  trail
}

func (r *cborReader) syntax(what string) error {
	return malformed(CodeCBORSyntax, r.at.String(), "%s at byte %d of the CBOR", what, r.pos)
}

func (r *cborReader) notCanonical(what string) error {
	return malformed(CodeNotCanonical, r.at.String(), "%s at byte %d of the CBOR; DAG-CBOR has one form for each value", what, r.pos)
}

// head reads the major type and the argument of the next item.
func (r *cborReader) head() (major byte, arg uint64, err error) {
	if r.pos >= len(r.raw) {
		return 0, 0, r.syntax("the CBOR ends where a value should be")
	}
	major, low := r.raw[r.pos]>>5, r.raw[r.pos]&0x1f
	if low < 24 || major == cborSimple {
		r.pos++
		return major, uint64(low), nil
	}
	if low > 27 {
		return 0, 0, r.notCanonical("an indefinite length")
	}
	width := 1 << (low - 24)
	if r.pos+1+width > len(r.raw) {
		return 0, 0, r.syntax("the CBOR ends inside a head")
	}
	var wide [8]byte
	copy(wide[8-width:], r.raw[r.pos+1:r.pos+1+width])
	arg = binary.BigEndian.Uint64(wide[:])
	if shortest := [...]uint64{24, 1 << 8, 1 << 16, 1 << 32}; arg < shortest[low-24] {
		return 0, 0, r.notCanonical("a number longer than it need be")
	}
	r.pos += 1 + width
	return major, arg, nil
}

func (r *cborReader) value() (any, error) {
	major, arg, err := r.head()
	if err != nil {
		return nil, err
	}
	switch major {
	case cborUnsigned, cborNegative:
		return r.integer(major, arg)
	case cborBytes:
		b, err := r.take(arg)
		return atdata.Bytes(slices.Clone(b)), err
	case cborText:
		return r.text(arg)
	case cborArray:
		return r.array(arg)
	case cborMap:
		return r.object(arg)
	case cborTag:
		return r.link(arg)
	}
	return r.simple(arg)
}

func (r *cborReader) integer(major byte, arg uint64) (any, error) {
	// A negative item stands for -1-arg.
	if major == cborNegative && arg < MaxInteger {
		return -1 - int64(arg), nil
	}
	if major == cborUnsigned && arg <= MaxInteger {
		return int64(arg), nil
	}
	return nil, malformed(CodeIntegerRange, r.at.String(), "an integer is outside ±%d", int64(MaxInteger))
}

// take answers the next n bytes, which stay part of the input.
func (r *cborReader) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.raw)-r.pos) {
		return nil, r.syntax("the CBOR ends inside a string")
	}
	b := r.raw[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b, nil
}

func (r *cborReader) text(n uint64) (string, error) {
	b, err := r.take(n)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return "", malformed(CodeInvalidUTF8, r.at.String(), "a string before byte %d is not UTF-8", r.pos)
	}
	return string(b), nil
}

// open guards recursion and allocation: every item takes at least one byte.
func (r *cborReader) open(items, perItem uint64) error {
	if r.at.depth() >= MaxDepth {
		return tooDeep(&r.at, MaxDepth)
	}
	if items > MaxContainer {
		return malformed(CodeTooLarge, r.at.String(), "an array or object has %d items, at most %d are taken", items, MaxContainer)
	}
	if items*perItem > uint64(len(r.raw)-r.pos) {
		return r.syntax("the CBOR ends inside an array or object")
	}
	return nil
}

func (r *cborReader) array(n uint64) (any, error) {
	if err := r.open(n, 1); err != nil {
		return nil, err
	}
	items := make([]any, n)
	for i := range items {
		r.at.enterAt(i)
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		r.at.leave()
		items[i] = v
	}
	return items, nil
}

func (r *cborReader) object(n uint64) (any, error) {
	if err := r.open(n, 2); err != nil {
		return nil, err
	}
	m := make(map[string]any, n)
	var last string
	for i := range n {
		major, arg, err := r.head()
		if err != nil {
			return nil, err
		}
		if major != cborText {
			return nil, r.syntax("a name that is no string")
		}
		name, err := r.text(arg)
		if err != nil {
			return nil, err
		}
		r.at.enter(name)
		if i > 0 && canonicalOrder(last, name) >= 0 {
			if last == name {
				return nil, malformed(CodeDuplicateKey, r.at.String(), "the name stands twice in one object")
			}
			return nil, r.notCanonical("a name out of order")
		}
		last = name
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		r.at.leave()
		m[name] = v
	}
	return finishObject(m, &r.at, false)
}

func (r *cborReader) link(tag uint64) (any, error) {
	if tag != tagCID {
		return nil, r.syntax("a tag other than 42")
	}
	major, n, err := r.head()
	if err != nil {
		return nil, err
	}
	if major != cborBytes {
		return nil, r.syntax("tag 42 without a byte string")
	}
	b, err := r.take(n)
	if err != nil {
		return nil, err
	}
	if len(b) < 2 || b[0] != 0 {
		return nil, malformed(CodeLinkMalformed, r.at.String(), "a link before byte %d lacks its zero byte", r.pos)
	}
	c, err := cid.Cast(b[1:])
	if err != nil || c.Version() != 1 {
		return nil, malformed(CodeLinkMalformed, r.at.String(), "a link before byte %d is no CIDv1", r.pos)
	}
	return atdata.CIDLink(c), nil
}

func (r *cborReader) simple(arg uint64) (any, error) {
	switch arg {
	case 20:
		return false, nil
	case 21:
		return true, nil
	case 22:
		return nil, nil
	case 25, 26, 27:
		return nil, malformed(CodeFloat, r.at.String(), "a float; atproto data has integers only")
	}
	return nil, r.syntax("a simple value other than false, true and null")
}

// canonicalOrder compares two names of one object as DAG-CBOR orders them: the
// shorter first, equal lengths by bytes.
func canonicalOrder(a, b string) int {
	if d := len(a) - len(b); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

func canonicalNames(m map[string]any) []string {
	return slices.SortedFunc(maps.Keys(m), canonicalOrder)
}

// EncodeCBOR writes value as canonical DAG-CBOR. A value that is no atproto
// data (a float, an integer out of range, bad UTF-8, too deep, too large, a
// Go type other than those of Record.Value) is a *Refused that names the place.
func EncodeCBOR(value map[string]any) ([]byte, error) {
	w := &cborWriter{out: make([]byte, 0, 512)}
	if err := w.value(value); err != nil {
		return nil, err
	}
	if len(w.out) > MaxRecordCBOR {
		return nil, malformed(CodeTooLarge, "", "the record is %d bytes of CBOR, at most %d are taken", len(w.out), MaxRecordCBOR)
	}
	return w.out, nil
}

type cborWriter struct {
	out []byte
	at  trail
}

func (w *cborWriter) head(major byte, arg uint64) {
	b := major << 5
	switch {
	case arg < 24:
		w.out = append(w.out, b|byte(arg))
	case arg < 1<<8:
		w.out = append(w.out, b|24, byte(arg))
	case arg < 1<<16:
		w.out = binary.BigEndian.AppendUint16(append(w.out, b|25), uint16(arg))
	case arg < 1<<32:
		w.out = binary.BigEndian.AppendUint32(append(w.out, b|26), uint32(arg))
	default:
		w.out = binary.BigEndian.AppendUint64(append(w.out, b|27), arg)
	}
}

func (w *cborWriter) value(v any) error {
	switch v := v.(type) {
	case nil:
		w.head(cborSimple, 22)
	case bool:
		if v {
			w.head(cborSimple, 21)
		} else {
			w.head(cborSimple, 20)
		}
	case int64:
		return w.integer(v)
	case string:
		return w.text(v)
	case atdata.Bytes:
		w.head(cborBytes, uint64(len(v)))
		w.out = append(w.out, v...)
	case atdata.CIDLink:
		return w.link(v)
	case atdata.Blob:
		return w.blob(v)
	case []any:
		return w.array(v)
	case map[string]any:
		return w.object(v)
	case float32, float64:
		return malformed(CodeFloat, w.at.String(), "a float; atproto data has integers only")
	default:
		return malformed(CodeNotData, w.at.String(), "%s is no atproto data", kindOf(v))
	}
	return nil
}

func (w *cborWriter) integer(n int64) error {
	if n > MaxInteger || n < -MaxInteger {
		return malformed(CodeIntegerRange, w.at.String(), "%d is outside ±%d; write it as a string", n, int64(MaxInteger))
	}
	if n < 0 {
		w.head(cborNegative, uint64(-1-n))
	} else {
		w.head(cborUnsigned, uint64(n))
	}
	return nil
}

func (w *cborWriter) text(s string) error {
	if !utf8.ValidString(s) {
		return malformed(CodeInvalidUTF8, w.at.String(), "a string is not UTF-8")
	}
	w.head(cborText, uint64(len(s)))
	w.out = append(w.out, s...)
	return nil
}

func (w *cborWriter) link(l atdata.CIDLink) error {
	if !l.IsDefined() || l.CID().Version() != 1 {
		return malformed(CodeLinkMalformed, w.at.String(), "a link is no CIDv1")
	}
	b := l.CID().Bytes()
	w.head(cborTag, tagCID)
	w.head(cborBytes, uint64(len(b)+1))
	w.out = append(append(w.out, 0), b...)
	return nil
}

func (w *cborWriter) blob(b atdata.Blob) error {
	if b.Size < 0 || b.MimeType == "" {
		return malformed(CodeBlobMalformed, w.at.String(), "a blob without MIME type or size")
	}
	if err := w.open(4); err != nil {
		return err
	}
	return w.members(map[string]any{"$type": "blob", "ref": b.Ref, "mimeType": b.MimeType, "size": b.Size})
}

func (w *cborWriter) array(items []any) error {
	if err := w.open(len(items)); err != nil {
		return err
	}
	w.head(cborArray, uint64(len(items)))
	for i, item := range items {
		w.at.enterAt(i)
		if err := w.value(item); err != nil {
			return err
		}
		w.at.leave()
	}
	return nil
}

// object refuses the JSON-only forms too: a $link, $bytes or blob that no
// parser of this package turned into data would be signed as something else
// than what it says.
func (w *cborWriter) object(m map[string]any) error {
	if err := w.open(len(m)); err != nil {
		return err
	}
	for _, name := range [...]string{"$link", "$bytes"} {
		if _, ok := m[name]; ok {
			return malformed(CodeReservedName, w.at.at(name), "an object has the reserved name %s", name)
		}
	}
	if t, ok := m["$type"]; ok {
		if s, isString := t.(string); !isString || s == "" || s == "blob" {
			return malformed(CodeTypeMalformed, w.at.at("$type"), "$type is %s, want the name of a type", kindOf(t))
		}
	}
	return w.members(m)
}

func (w *cborWriter) members(m map[string]any) error {
	w.head(cborMap, uint64(len(m)))
	for _, name := range canonicalNames(m) {
		w.at.enter(name)
		if err := w.text(name); err != nil {
			return err
		}
		if err := w.value(m[name]); err != nil {
			return err
		}
		w.at.leave()
	}
	return nil
}

func (w *cborWriter) open(items int) error {
	if w.at.depth() >= MaxDepth {
		return tooDeep(&w.at, MaxDepth)
	}
	if items > MaxContainer {
		return malformed(CodeTooLarge, w.at.String(), "an array or object has %d items, at most %d are taken", items, MaxContainer)
	}
	return nil
}
