package lexicons_test

import (
	"testing"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

func ptr[T any](v T) *T { return &v }

// Who is refused a value is told what would have been right, and nothing of the
// library that judges it.
func TestRefusedValuesAreToldWhatWasWanted(t *testing.T) {
	format := func(name string) lexicon.SchemaString { return lexicon.SchemaString{Format: &name} }
	for _, c := range []struct {
		def   any
		value any
		want  string
	}{
		{format("at-identifier"), "did:", `"did:" is not in the format at-identifier, want a DID (did:plc:… or did:web:…) or a handle such as name.example.com`},
		{format("at-uri"), "at:/x", `"at:/x" is not in the format at-uri, want at://did/collection/rkey`},
		{format("cid"), "nope", `"nope" is not in the format cid, want a CID such as bafyrei…`},
		{format("datetime"), "today", `"today" is not in the format datetime, want RFC 3339 with seconds and time zone such as 2026-01-31T12:00:00.000Z`},
		{format("did"), "x", `"x" is not in the format did, want did:plc:… or did:web:…`},
		{format("handle"), "x", `"x" is not in the format handle, want a domain name such as name.example.com`},
		{format("language"), "e", `"e" is not in the format language, want a BCP 47 tag such as en or pt-BR`},
		{format("nsid"), "x", `"x" is not in the format nsid, want an NSID (a domain backwards and a name) such as com.example.note`},
		{format("record-key"), "a b", `"a b" is not in the format record-key, want 1 to 512 of A-Z a-z 0-9 . _ ~ : - but not "." or ".." alone`},
		{format("tid"), "x", `"x" is not in the format tid, want 13 characters of base32-sortable such as 3jzfcijpj2z2a`},
		{format("uri"), "x y", `"x y" is not in the format uri, want a URI with its scheme such as https://example.com/page`},
		{lexicon.SchemaString{Const: ptr("a")}, "b", `"b", want "a"`},
		{lexicon.SchemaString{Enum: []string{"new", "old"}}, "b", `"b", want one of new, old`},
		{lexicon.SchemaString{MinLength: ptr(2)}, "b", `1 bytes of UTF-8, want at least 2`},
		{lexicon.SchemaString{MaxLength: ptr(2)}, "éé", `4 bytes of UTF-8, want at most 2`},
		{lexicon.SchemaString{MinGraphemes: ptr(2)}, "é", `1 graphemes, want at least 2`},
		{lexicon.SchemaString{MaxGraphemes: ptr(1)}, "éé", `2 graphemes, want at most 1`},
		{lexicon.SchemaInteger{Const: ptr(1)}, int64(2), `2, want 1`},
		{lexicon.SchemaInteger{Enum: []int{1, 3}}, int64(2), `2, want one of [1 3]`},
		{lexicon.SchemaInteger{Minimum: ptr(1)}, int64(0), `0, want an integer of at least 1`},
		{lexicon.SchemaInteger{Maximum: ptr(1)}, int64(2), `2, want an integer of at most 1`},
		{lexicon.SchemaInteger{Minimum: ptr(1), Maximum: ptr(100)}, int64(0), `0, want an integer from 1 to 100`},
		{lexicon.SchemaBoolean{Const: ptr(true)}, false, `false, want true`},
	} {
		t.Run(c.want, func(t *testing.T) {
			require.EqualError(t, lexicons.CheckScalar(c.def, c.value), c.want)
			found := catalog(t).CheckValue("com.example.any", c.def, c.value)
			require.Len(t, found, 1)
			require.Equal(t, c.want, found[0].Message, "a record is told the same")
		})
	}
	require.NoError(t, lexicons.CheckScalar(format("did"), "did:web:a.test"))
	require.NoError(t, lexicons.CheckScalar(lexicon.SchemaInteger{Minimum: ptr(1)}, int64(1)))
}

// A strongRef that is none says what one is, not what the parser said.
func TestRefusedReferencesAreToldWhatWasWanted(t *testing.T) {
	for _, ref := range []any{
		map[string]any{"uri": "https://x", "cid": "bafyreihu7ll3vlzbxt7ju5l4nmdctv2kruoxyoqn7gnnhxvnqfrxfk4dfu"},
		map[string]any{"uri": "at://did:web:a.test/com.example.a/1", "cid": "bafynope"},
		"at://did:web:a.test/com.example.a/1",
	} {
		_, err := lexicons.ReadStrongRef(ref)
		require.ErrorContains(t, err, "want ")
		require.NotContains(t, err.Error(), "regex")
	}
	_, err := lexicons.ParseJSON("com.example.note", []byte(`{"l":{"$link":"bafynope"}}`))
	require.ErrorContains(t, err, `"bafynope" is no CID, want a CIDv1 in base32 such as bafyrei…`)
}
