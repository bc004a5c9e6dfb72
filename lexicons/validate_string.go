package lexicons

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/rivo/uniseg"
)

// str checks a string: maxLength counts UTF-8 bytes, maxGraphemes what a
// person sees as characters, and both apply. knownValues are open: a value
// outside is valid.
func (v *validator) str(s lexicon.SchemaString, data any) {
	text, ok := data.(string)
	if !ok {
		v.want(s, data)
		return
	}
	v.length("bytes of UTF-8", len(text), s.MinLength, s.MaxLength)
	if s.MinGraphemes != nil || s.MaxGraphemes != nil {
		v.graphemes(text, s.MinGraphemes, s.MaxGraphemes)
	}
	if s.Const != nil && text != *s.Const {
		v.fail("%q, want %q", clip(text), *s.Const)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, text) {
		v.fail("%q, want one of %s", clip(text), strings.Join(s.Enum, ", "))
	}
	if v.unknown != nil && len(s.KnownValues) > 0 && !slices.Contains(s.KnownValues, text) {
		v.unknown(v.at.String(), text, s.KnownValues)
	}
	if s.Format != nil {
		if err := CheckFormat(*s.Format, text); err != nil {
			v.fail("%q is not in the format %s%s", clip(text), *s.Format, formatHint(*s.Format))
		}
	}
}

// graphemes counts only where the count can matter: no text has more
// graphemes than bytes.
func (v *validator) graphemes(text string, least, most *int) {
	if least == nil && len(text) <= *most {
		return
	}
	v.length("graphemes", uniseg.GraphemeClusterCount(text), least, most)
}

// CheckFormat checks text against a string format of the lexicon language
// ("did", "at-uri", "datetime", …), for parameters as for records.
func CheckFormat(format, text string) error {
	var err error
	switch format {
	case "at-identifier":
		_, err = syntax.ParseAtIdentifier(text)
	case "at-uri":
		_, err = syntax.ParseATURI(text)
	case "cid":
		_, err = syntax.ParseCID(text)
	case "datetime":
		_, err = syntax.ParseDatetime(text)
	case "did":
		_, err = syntax.ParseDID(text)
	case "handle":
		_, err = syntax.ParseHandle(text)
	case "nsid":
		_, err = syntax.ParseNSID(text)
	case "uri":
		_, err = syntax.ParseURI(text)
	case "language":
		_, err = syntax.ParseLanguage(text)
	case "tid":
		_, err = syntax.ParseTID(text)
	case "record-key":
		_, err = syntax.ParseRecordKey(text)
	default:
		err = fmt.Errorf("unknown string format %s", format)
	}
	return err
}

// formatHint shows what a string format looks like.
func formatHint(format string) string {
	switch format {
	case "datetime":
		return ", want RFC 3339 with seconds and time zone such as 2026-01-31T12:00:00.000Z"
	case "at-uri":
		return ", want at://did/collection/rkey"
	case "tid":
		return ", want 13 characters of base32-sortable such as 3jzfcijpj2z2a"
	case "did":
		return ", want did:plc:… or did:web:…"
	case "cid":
		return ", want a CID such as bafyrei…"
	}
	return ""
}

// describe names what a definition wants, for a message.
func describe(def any) string {
	switch s := def.(type) {
	case lexicon.SchemaString:
		if s.Format != nil {
			return "a string in the format " + *s.Format
		}
		return "a string"
	case lexicon.SchemaInteger:
		return "an integer"
	case lexicon.SchemaBoolean:
		return "a boolean"
	case lexicon.SchemaBytes:
		return "bytes ({\"$bytes\": base64})"
	case lexicon.SchemaCIDLink:
		return "a link ({\"$link\": cid})"
	case lexicon.SchemaBlob:
		return "a blob as uploadBlob answers it"
	case lexicon.SchemaArray:
		return "an array"
	case lexicon.SchemaObject, lexicon.SchemaUnknown:
		return "an object"
	case lexicon.SchemaUnion:
		return "an object with $type"
	case lexicon.SchemaRef:
		return "an object (" + s.Ref + ")"
	case lexicon.SchemaRecord:
		return "a record"
	case lexicon.SchemaToken:
		return "a token"
	case lexicon.SchemaQuery, lexicon.SchemaProcedure, lexicon.SchemaSubscription:
		return "an XRPC method"
	}
	return "something else"
}
