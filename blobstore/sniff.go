package blobstore

import (
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"
)

// sniffLen is how much of a blob is looked at for a signature: what the
// detectors can use. The library's own default is the same.
const sniffLen = 3072

const (
	octetStream = "application/octet-stream"
	plainText   = "text/plain"
)

// decideType gives the type that is kept with a blob, from its first bytes and
// the type that the client declared.
//
//   - A signature of a binary format wins: bytes that start like a PNG are
//     image/png, whatever was declared.
//   - A declared type that is a special case of the one found stays, because its
//     signature may lie further back: a .docx is found to be a zip.
//   - Text has no signature. HTML, SVG, JSON, Markdown, source code and logs all
//     look alike, so the declared type stays: guessing "text/plain" for a page
//     declared as text/html would make every reference to it fail. Nor can text
//     be taken for a binary format that has a signature of two letters: a log
//     that begins with "BM" is not a bitmap.
//   - Otherwise the declared type stays as well.
//
// The reference host does the same in effect: it looks for binary signatures
// only. Parameters (charset) are dropped, as there; lexicons compare the bare type.
func decideType(head []byte, declared string) string {
	// With broken parameters the type itself is still given; of anything worse, none.
	bare, _, _ := mime.ParseMediaType(declared)
	if !strings.Contains(bare, "/") {
		bare = octetStream
	}
	if looksLikeText(head) && isTextType(bare) {
		return bare
	}
	found := mimetype.Detect(head)
	if found.Is(octetStream) || descendsFrom(found, plainText) || isWeak(found, head) {
		return bare
	}
	sniffed, _, _ := strings.Cut(found.String(), ";")
	if special := mimetype.Lookup(bare); special != nil && descendsFrom(special, sniffed) {
		return bare
	}
	return sniffed
}

// descendsFrom reports whether m is of the given type or a special case of it.
func descendsFrom(m *mimetype.MIME, typ string) bool {
	for ; m != nil; m = m.Parent() {
		if m.Is(typ) {
			return true
		}
	}
	return false
}

// isWeak reports a detection that is no signature: the library searches the
// whole head for something like an MPEG frame, which other binary data contains
// by chance.
func isWeak(m *mimetype.MIME, head []byte) bool {
	if !m.Is("audio/mpeg") {
		return false
	}
	id3 := len(head) >= 3 && string(head[:3]) == "ID3"
	frame := len(head) >= 2 && head[0] == 0xFF && head[1]&0xE0 == 0xE0
	return !id3 && !frame
}

// isTextType reports whether a type promises characters.
func isTextType(bare string) bool {
	switch bare {
	case "application/json", "application/xml", "application/javascript", "application/x-ndjson",
		"application/yaml", "application/toml", "application/x-sh", "application/sql":
		return true
	}
	return strings.HasPrefix(bare, "text/") || strings.HasSuffix(bare, "+json") || strings.HasSuffix(bare, "+xml")
}

// looksLikeText reports whether head is UTF-8 without control characters, except
// white space and the escape that terminals use for colours.
func looksLikeText(head []byte) bool {
	for len(head) > 0 {
		r, n := utf8.DecodeRune(head)
		if r == utf8.RuneError && n <= 1 {
			// The head may end within a character.
			return len(head) < utf8.UTFMax && !utf8.FullRune(head)
		}
		if r < 0x20 && !strings.ContainsRune("\t\n\f\r\x1b\b", r) || r == 0x7F {
			return false
		}
		head = head[n:]
	}
	return true
}
