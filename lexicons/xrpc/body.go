package xrpc

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

// maxNesting bounds how deep the arrays and objects of a JSON body nest: room
// for any record (which package lexicons bounds further), and far below what
// recursion over it could exhaust.
const maxNesting = 256

func payloadTooLarge(limit int64) *Error {
	return Errorf(http.StatusRequestEntityTooLarge, "PayloadTooLarge", "the request body is over the limit of %d bytes", limit)
}

// checkContentType compares the request's Content-Type with a lexicon's encoding.
func checkContentType(r *http.Request, encoding string) error {
	if encoding == "*/*" {
		return nil
	}
	sent := r.Header.Get("Content-Type")
	if sent == "" {
		return InvalidRequest("the request has no Content-Type; this method takes %s", encoding)
	}
	media, _, err := mime.ParseMediaType(sent)
	if err != nil || !strings.EqualFold(media, encoding) {
		return InvalidRequest("the request's Content-Type is %q; this method takes %s", sent, encoding)
	}
	return nil
}

// openBody is the request body decompressed, bounded by limit both as sent and
// as decompressed: a small gzip stream can hold a very large body.
func openBody(call *Call, limit int64) (io.Reader, error) {
	r := call.Request
	if r.ContentLength > limit {
		return nil, payloadTooLarge(limit)
	}
	var body io.Reader = http.MaxBytesReader(call.Writer, r.Body, limit)
	switch encoding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
				return nil, payloadTooLarge(limit)
			}
			return nil, InvalidRequest("the request body is not the gzip stream that its Content-Encoding says")
		}
		body = gzipBody{unzipped}
	default:
		return nil, Errorf(http.StatusUnsupportedMediaType, "InvalidRequest", "Content-Encoding %q is not understood here; send gzip or none", encoding)
	}
	return &boundedReader{from: body, left: limit, limit: limit}, nil
}

// gzipBody tells a corrupt stream as the client's mistake.
type gzipBody struct{ *gzip.Reader }

func (g gzipBody) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.As(err, &corrupt) {
		err = InvalidRequest("the request body is a corrupt gzip stream")
	}
	return n, err
}

// boundedReader fails with 413 when there is more than limit to read.
type boundedReader struct {
	from        io.Reader
	left, limit int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if b.left < 0 {
		return 0, payloadTooLarge(b.limit)
	}
	// One byte past the limit tells a body that ends there from one that goes on.
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.from.Read(p)
	if int64(n) > b.left {
		n, b.left = int(b.left), -1
		return n, payloadTooLarge(b.limit)
	}
	b.left -= int64(n)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		err = payloadTooLarge(b.limit)
	}
	return n, err
}

// readJSON reads a whole JSON body and checks all that can be said about it
// without a schema: encoding, size, UTF-8, nesting, syntax, nothing after it.
// An empty body is returned as such.
func readJSON(call *Call, limit int64) (json.RawMessage, error) {
	body, err := openBody(call, limit)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(body) // bounded by openBody
	if err != nil {
		if answer := (*Error)(nil); errors.As(err, &answer) {
			return nil, answer
		}
		return nil, InvalidRequest("the request body ended early")
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	if err := checkContentType(call.Request, "application/json"); err != nil {
		return nil, err
	}
	if !utf8.Valid(raw) {
		return nil, InvalidRequest("the request body is not UTF-8")
	}
	if err := checkNesting(raw, maxNesting); err != nil {
		return nil, err
	}
	if !json.Valid(raw) {
		return nil, InvalidRequest("the request body is not JSON: %s", syntaxError(raw))
	}
	return raw, nil
}

// checkNesting refuses deep nesting before anything decodes the text. It walks
// the bytes once; that the text is JSON at all is for the decoder to say.
func checkNesting(raw []byte, limit int) error {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > limit {
				return InvalidRequest("the request body nests deeper than %d levels", limit)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// syntaxError tells where JSON text goes wrong, without repeating any of it.
func syntaxError(raw []byte) string {
	var v json.RawMessage
	err := json.Unmarshal(raw, &v)
	if at := (*json.SyntaxError)(nil); errors.As(err, &at) {
		return fmt.Sprintf("%s at byte %d", at.Error(), at.Offset)
	}
	return "syntax error"
}
