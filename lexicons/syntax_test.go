package lexicons_test

import (
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"herbarium.garden/lexicons"
)

// What is taken for the URI of a record is what indigo takes for an AT URI with a
// DID, a collection and a record key.
func TestParseRecordURIAgreesWithIndigo(t *testing.T) {
	part := func(good ...string) *rapid.Generator[string] {
		return rapid.OneOf(rapid.SampledFrom(append(good, "", ".", "..", "a b", "é", "a%20b", "?x", "#x", strings.Repeat("a", 513))), rapid.StringMatching(`[a-zA-Z0-9.:%_~/-]{0,12}`))
	}
	rapid.Check(t, func(t *rapid.T) {
		uri := rapid.SampledFrom([]string{"at://", "at:/", "AT://", "https://", ""}).Draw(t, "scheme") +
			part("did:web:a.test", "did:plc:ewvi7nxzyoun6zhxrhs64oiz", "did:web:localhost%3A80", "a.test", "did:", "did:web:").Draw(t, "authority") +
			rapid.SampledFrom([]string{"/", "", "//"}).Draw(t, "slash") + part("com.example.thing", "com.example", "com.Example.thing").Draw(t, "collection") +
			rapid.SampledFrom([]string{"/", "", "//"}).Draw(t, "slash") + part("3jzzzzzzzzz2a", "self", "a:b~c_d.-e").Draw(t, "rkey")
		parsed, err := syntax.ParseATURI(uri)
		want := err == nil && parsed.Authority().IsDID() && parsed.Collection() != "" && parsed.RecordKey() != ""
		got, err := lexicons.ParseRecordURI(uri)
		require.Equal(t, want, err == nil, uri)
		if want {
			require.Equal(t, parsed, got)
		}
	})
}
