package lexicons

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bluesky-social/indigo/atproto/lexicon"
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
		v.fail("%q, want %s", clip(text), describeString(lexicon.SchemaString{Enum: s.Enum}))
	}
	if v.unknown != nil && len(s.KnownValues) > 0 && !slices.Contains(s.KnownValues, text) {
		v.unknown(v.at.String(), text, s.KnownValues)
	}
	if s.Format != nil {
		if err := CheckFormat(*s.Format, text); err != nil {
			v.fail("%v", err)
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

// Describe names what a definition wants, for a message ("want " and this).
func Describe(def any) string {
	switch s := def.(type) {
	case lexicon.SchemaString:
		return describeString(s)
	case lexicon.SchemaInteger:
		return describeInteger(s)
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

func describeString(s lexicon.SchemaString) string {
	switch {
	case s.Const != nil:
		return strconv.Quote(*s.Const)
	case len(s.Enum) > 0:
		return "one of " + strings.Join(s.Enum, ", ")
	case s.Format != nil:
		return "a string in the format " + *s.Format + ": " + stringFormats[*s.Format].hint
	}
	return "a string"
}

func describeInteger(s lexicon.SchemaInteger) string {
	switch {
	case s.Const != nil:
		return strconv.Itoa(*s.Const)
	case len(s.Enum) > 0:
		return fmt.Sprintf("one of %v", s.Enum)
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("an integer from %d to %d", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("an integer of at least %d", *s.Minimum)
	case s.Maximum != nil:
		return fmt.Sprintf("an integer of at most %d", *s.Maximum)
	}
	return "an integer"
}
