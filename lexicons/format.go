package lexicons

import (
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// stringFormat is a string format of the lexicon language
// (https://atproto.com/specs/lexicon#string-formats).
type stringFormat struct {
	valid func(text string) bool
	hint  string // what it looks like, after "want"
}

// parses makes a predicate of a parser. What the parser says is dropped: it
// speaks of its own insides.
func parses[T any](parse func(string) (T, error)) func(string) bool {
	return func(text string) bool {
		_, err := parse(text)
		return err == nil
	}
}

// stringFormats are all there are, with the hints that every message about one
// ends in: of records, of parameters and of bodies.
var stringFormats = map[string]stringFormat{
	"at-identifier": {parses(syntax.ParseAtIdentifier), "a DID (did:plc:… or did:web:…) or a handle such as name.example.com"},
	"at-uri":        {parses(syntax.ParseATURI), "at://did/collection/rkey"},
	"cid":           {parses(syntax.ParseCID), "a CID such as bafyrei…"},
	"datetime":      {parses(syntax.ParseDatetime), "RFC 3339 with seconds and time zone such as 2026-01-31T12:00:00.000Z"},
	"did":           {parses(syntax.ParseDID), "did:plc:… or did:web:…"},
	"handle":        {parses(syntax.ParseHandle), "a domain name such as name.example.com"},
	"language":      {parses(syntax.ParseLanguage), "a BCP 47 tag such as en or pt-BR"},
	"nsid":          {parses(syntax.ParseNSID), "an NSID (a domain backwards and a name) such as com.example.note"},
	"record-key":    {parses(syntax.ParseRecordKey), `1 to 512 of A-Z a-z 0-9 . _ ~ : - but not "." or ".." alone`},
	"tid":           {parses(syntax.ParseTID), "13 characters of base32-sortable such as 3jzfcijpj2z2a"},
	"uri":           {parses(syntax.ParseURI), "a URI with its scheme such as https://example.com/page"},
}

// CheckFormat checks text against a string format of the lexicon language
// ("did", "at-uri", "datetime", …), for parameters as for records. The error
// is FormatError's, for a client to read.
func CheckFormat(format, text string) error {
	f, known := stringFormats[format]
	if !known {
		return fmt.Errorf("unknown string format %s", format)
	}
	if !f.valid(text) {
		return FormatError(format, text)
	}
	return nil
}

// FormatError says that text is not in a string format, and what is. It is also
// the word of readers that are stricter than the format, as those of CIDs.
func FormatError(format, text string) error {
	return fmt.Errorf("%q is not in the format %s, want %s", clip(text), format, stringFormats[format].hint)
}
