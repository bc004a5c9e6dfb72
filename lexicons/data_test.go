package lexicons_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

const (
	blobCID = "bafkreiccldh766hwcnuxnf2wh6jgzepf2nlu2lvcllt63eww5p6chi4ity"
	dataCID = "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"
)

func nsidOf(s string) syntax.NSID { return syntax.NSID(s) }

// nested is JSON whose record is levels deep: the object is the first level.
func nested(levels int) string {
	return `{"a":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
}

func TestParseJSON(t *testing.T) {
	for _, c := range []struct {
		name, json string
		code, path string // "" for accepted
	}{
		{"plain", `{"a":1}`, "", ""},
		{"whitespace everywhere", " \n{ \"a\" :\t[ 1 , { } ] }\r\n", "", ""},
		{"own type", `{"$type":"com.example.blah"}`, "", ""},
		{"other type", `{"$type":"com.example.other"}`, lexicons.CodeTypeMismatch, "/$type"},
		{"type null", `{"$type":null}`, lexicons.CodeTypeMalformed, "/$type"},
		{"nested empty type", `{"a":{"$type":""}}`, lexicons.CodeTypeMalformed, "/a/$type"},

		{"empty input", ``, lexicons.CodeJSONSyntax, ""},
		{"array on top", `[]`, lexicons.CodeNotAnObject, ""},
		{"link on top", `{"$link":"` + dataCID + `"}`, lexicons.CodeNotAnObject, ""},
		{"two values", `{} {}`, lexicons.CodeJSONSyntax, ""},
		{"trailing comma", `{"a":[1,]}`, lexicons.CodeJSONSyntax, "/a/1"},
		{"comma first", `{,"a":1}`, lexicons.CodeJSONSyntax, ""},
		{"missing comma", `{"a":1 "b":2}`, lexicons.CodeJSONSyntax, ""},
		{"unquoted name", `{a:1}`, lexicons.CodeJSONSyntax, ""},
		{"no colon", `{"a" 1}`, lexicons.CodeJSONSyntax, "/a"},
		{"open object", `{"a":1`, lexicons.CodeJSONSyntax, ""},
		{"open string", `{"a":"b`, lexicons.CodeJSONSyntax, "/a"},
		{"NaN", `{"a":NaN}`, lexicons.CodeJSONSyntax, "/a"},
		{"nul for null", `{"a":nul}`, lexicons.CodeJSONSyntax, "/a"},
		{"byte order mark", "\ufeff{}", lexicons.CodeJSONSyntax, ""},
		{"comment", `{"a":1/**/}`, lexicons.CodeJSONSyntax, ""},

		{"1.0 is one", `{"a":1.0}`, "", ""},
		{"1e3 is a thousand", `{"a":1e3}`, "", ""},
		{"minus zero", `{"a":-0}`, "", ""},
		{"half", `{"a":{"b":[0,1.5]}}`, lexicons.CodeFloat, "/a/b/1"},
		{"tiny", `{"a":1e-7}`, lexicons.CodeFloat, "/a"},
		{"2^53-1", `{"a":9007199254740991}`, "", ""},
		{"2^53", `{"a":9007199254740992}`, lexicons.CodeIntegerRange, "/a"},
		{"-2^53", `{"a":-9007199254740992}`, lexicons.CodeIntegerRange, "/a"},
		{"2^53+1", `{"a":9007199254740993}`, lexicons.CodeIntegerRange, "/a"},
		{"2^64", `{"a":18446744073709551616}`, lexicons.CodeIntegerRange, "/a"},
		{"1e400", `{"a":1e400}`, lexicons.CodeIntegerRange, "/a"},
		{"leading zero", `{"a":01}`, lexicons.CodeJSONSyntax, ""},
		{"plus", `{"a":+1}`, lexicons.CodeJSONSyntax, "/a"},
		{"bare point", `{"a":1.}`, lexicons.CodeJSONSyntax, "/a"},

		{"deepest allowed", nested(lexicons.MaxDepth), "", ""},
		{"one deeper", nested(lexicons.MaxDepth + 1), lexicons.CodeTooDeep, "/a/0/0/0/0/0/0/0"},
		{"20,000 levels", nested(20_000), lexicons.CodeTooDeep, "/a/0/0/0/0/0/0/0"},
		{"20,000 levels never closed", strings.Repeat(`{"a":`, 20_000), lexicons.CodeTooDeep, "/a/a/a/a/a/a/a/a"},

		{"name twice", `{"a":1,"a":1}`, lexicons.CodeDuplicateKey, "/a"},
		{"name twice by escape", `{"x":{"a":1,"\u0061":2}}`, lexicons.CodeDuplicateKey, "/x/a"},
		{"NUL in a string", `{"a":"\u0000"}`, "", ""},
		{"bare control character", "{\"a\":\"\n\"}", lexicons.CodeJSONSyntax, "/a"},
		{"surrogate pair", `{"a":"\ud83d\ude00"}`, "", ""},
		{"lone high surrogate", `{"a":"\ud83d"}`, lexicons.CodeInvalidUTF8, "/a"},
		{"lone low surrogate", `{"a":"\ude00"}`, lexicons.CodeInvalidUTF8, "/a"},
		{"surrogates swapped", `{"a":"\ude00\ud83d"}`, lexicons.CodeInvalidUTF8, "/a"},
		{"escaped backslash before u", `{"a":"\\ud83d"}`, "", ""},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", lexicons.CodeInvalidUTF8, "/a"},
		{"invalid UTF-8 after an escape", "{\"a\":\"\\n\xc3\"}", lexicons.CodeInvalidUTF8, "/a"},
		{"surrogate as UTF-8", "{\"a\":\"\xed\xa0\x80\"}", lexicons.CodeInvalidUTF8, "/a"},
		{"escape without four digits", `{"a":"\u00g0"}`, lexicons.CodeJSONSyntax, "/a"},
		{"escape cut short", `{"a":"\u00`, lexicons.CodeJSONSyntax, "/a"},
		{"array not separated", `{"a":[1 2]}`, lexicons.CodeJSONSyntax, "/a"},
		{"minus alone", `{"a":-}`, lexicons.CodeJSONSyntax, "/a"},
		{"exponent alone", `{"a":1e}`, lexicons.CodeJSONSyntax, "/a"},
		{"unknown escape", `{"a":"\x"}`, lexicons.CodeJSONSyntax, "/a"},

		{"link", `{"a":{"$link":"` + dataCID + `"}}`, "", ""},
		{"link with CIDv0", `{"a":{"$link":"QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG"}}`, lexicons.CodeLinkMalformed, "/a/$link"},
		{"link in base58", `{"a":{"$link":"zdpuAyvkgEDQm9TenwGkd5eNaosSxjgEYd8QatfPetgB1CdEZ"}}`, lexicons.CodeLinkMalformed, "/a/$link"},
		{"link as a path", `{"a":{"$link":"/ipfs/` + dataCID + `"}}`, lexicons.CodeLinkMalformed, "/a/$link"},
		{"bytes", `{"a":{"$bytes":"YWJjZA"}}`, "", ""},
		{"bytes with padding", `{"a":{"$bytes":"YWJjZA=="}}`, "", ""},
		{"bytes with too much padding", `{"a":{"$bytes":"YWJjZA==="}}`, lexicons.CodeBytesMalformed, "/a/$bytes"},
		{"bytes in base64url", `{"a":{"$bytes":"_-_-"}}`, lexicons.CodeBytesMalformed, "/a/$bytes"},
		{"bytes with a line break", `{"a":{"$bytes":"YWJj\nZGVm"}}`, lexicons.CodeBytesMalformed, "/a/$bytes"},

		{"blob", `{"a":{"$type":"blob","ref":{"$link":"` + blobCID + `"},"mimeType":"image/png","size":10}}`, "", ""},
		{"empty blob", `{"a":{"$type":"blob","ref":{"$link":"` + blobCID + `"},"mimeType":"image/png","size":0}}`, "", ""},
		{"blob of negative size", `{"a":{"$type":"blob","ref":{"$link":"` + blobCID + `"},"mimeType":"image/png","size":-1}}`, lexicons.CodeBlobMalformed, "/a/size"},
		{"blob with more members", `{"a":{"$type":"blob","ref":{"$link":"` + blobCID + `"},"mimeType":"image/png","size":1,"x":1}}`, lexicons.CodeBlobMalformed, "/a"},
		{"blob with a string for ref", `{"a":{"$type":"blob","ref":"` + blobCID + `","mimeType":"image/png","size":1}}`, lexicons.CodeBlobMalformed, "/a/ref"},
		{"blob without MIME type", `{"a":{"$type":"blob","ref":{"$link":"` + blobCID + `"},"mimeType":"","size":1}}`, lexicons.CodeBlobMalformed, "/a/mimeType"},

		{"pointer escapes", `{"a/b~c":1.5}`, lexicons.CodeFloat, "/a~1b~0c"},
		{"long name", `{"` + strings.Repeat("n", 1000) + `":1.5}`, lexicons.CodeFloat, "/" + strings.Repeat("n", 128) + "…"},
		{"too large", `{"a":"` + strings.Repeat("x", lexicons.MaxRecordJSON) + `"}`, lexicons.CodeTooLarge, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, err := lexicons.ParseJSON("com.example.blah", []byte(c.json))
			if c.code == "" {
				require.NoError(t, err)
				require.Equal(t, "com.example.blah", rec.Value["$type"])
				return
			}
			requireFinding(t, err, c.code, c.path)
		})
	}
}

func requireFinding(t testing.TB, err error, code, path string) {
	t.Helper()
	var refused *lexicons.Refused
	require.ErrorAs(t, err, &refused)
	require.Equal(t, code, refused.Findings[0].Code, "%v", err)
	require.Equal(t, path, refused.Findings[0].Path, "%v", err)
	require.Equal(t, "InvalidRequest", refused.Name())
	require.Contains(t, err.Error(), code, "the message alone tells the code")
}

func TestParseJSONValues(t *testing.T) {
	rec, err := lexicons.ParseJSON("com.example.blah", []byte(`{"i":1e3,"z":-0.0,"n":-7,"s":"\ud83d\ude00\u0000","l":{"$link":"`+dataCID+`"},"b":{"$bytes":"YQ=="},"t":true,"e":null,"q":"\"\\\/\b\f\n\r\t"}`))
	require.NoError(t, err)
	require.Equal(t, int64(1000), rec.Value["i"])
	require.Equal(t, int64(0), rec.Value["z"])
	require.Equal(t, int64(-7), rec.Value["n"])
	require.Equal(t, "😀\x00", rec.Value["s"])
	require.Equal(t, "\"\\/\b\f\n\r\t", rec.Value["q"])
	require.Equal(t, atdata.Bytes("a"), rec.Value["b"])
	require.Equal(t, dataCID, rec.Value["l"].(atdata.CIDLink).String())
}

func TestRecordBlobs(t *testing.T) {
	blob := func(size int) string {
		return fmt.Sprintf(`{"$type":"blob","ref":{"$link":"%s"},"mimeType":"image/png","size":%d}`, blobCID, size)
	}
	rec, err := lexicons.ParseJSON("com.example.blah", []byte(`{"list":[1,`+blob(10)+`],"z":`+blob(10)+`,"legacy":{"cid":"`+blobCID+`","mimeType":"image/png"}}`))
	require.NoError(t, err)
	require.Len(t, rec.Blobs, 1, "each CID once, and no legacy blobs")
	require.Equal(t, "/z", rec.Blobs[0].Path, "the first in the order of the CBOR")
	require.Equal(t, int64(10), rec.Blobs[0].Size)

	fromCBOR, err := lexicons.ParseCBOR("com.example.blah", rec.CBOR)
	require.NoError(t, err)
	require.Equal(t, rec, fromCBOR, "a legacy blob keeps its form through CBOR as well")
}

func TestParseValueChecks(t *testing.T) {
	for _, c := range []struct {
		name  string
		value map[string]any
		code  string
	}{
		{"nil", nil, lexicons.CodeTypeMismatch},
		{"float", map[string]any{"a": 1.0}, lexicons.CodeFloat},
		{"json.Number", map[string]any{"a": json.Number("1")}, lexicons.CodeNotData},
		{"Go int", map[string]any{"a": 1}, lexicons.CodeNotData},
		{"integer out of range", map[string]any{"a": int64(1) << 53}, lexicons.CodeIntegerRange},
		{"bad UTF-8", map[string]any{"a": "\xff"}, lexicons.CodeInvalidUTF8},
		{"bad UTF-8 in a name", map[string]any{"\xff": int64(1)}, lexicons.CodeInvalidUTF8},
		{"too large", map[string]any{"a": strings.Repeat("x", lexicons.MaxRecordCBOR)}, lexicons.CodeTooLarge},
		{"too many items", map[string]any{"a": make([]any, lexicons.MaxContainer+1)}, lexicons.CodeTooLarge},
		{"unparsed link", map[string]any{"a": map[string]any{"$link": dataCID}}, lexicons.CodeReservedName},
		{"unparsed blob", map[string]any{"a": map[string]any{"$type": "blob"}}, lexicons.CodeTypeMalformed},
		{"undefined link", map[string]any{"a": atdata.CIDLink{}}, lexicons.CodeLinkMalformed},
		{"legacy blob as a blob", map[string]any{"a": atdata.Blob{Size: -1, MimeType: "image/png"}}, lexicons.CodeBlobMalformed},
	} {
		_, err := lexicons.ParseValue("com.example.blah", c.value)
		var refused *lexicons.Refused
		require.ErrorAs(t, err, &refused, c.name)
		require.Equal(t, c.code, refused.Findings[0].Code, c.name)
	}
}

func TestParseObjectHoldsRecords(t *testing.T) {
	body := `{"writes":[{"value":` + nested(lexicons.MaxDepth) + `}]}`
	v, err := lexicons.ParseObject([]byte(body), 1<<20)
	require.NoError(t, err)
	inner := v["writes"].([]any)[0].(map[string]any)["value"].(map[string]any)
	_, err = lexicons.ParseValue("com.example.blah", inner)
	require.NoError(t, err)

	deeper := `{"writes":[{"value":` + nested(lexicons.MaxDepth+1) + `}]}`
	v, err = lexicons.ParseObject([]byte(deeper), 1<<20)
	require.NoError(t, err)
	inner = v["writes"].([]any)[0].(map[string]any)["value"].(map[string]any)
	_, err = lexicons.ParseValue("com.example.blah", inner)
	requireFinding(t, err, lexicons.CodeTooDeep, "/a/0/0/0/0/0/0/0")

	_, err = lexicons.ParseObject([]byte(body), 10)
	requireFinding(t, err, lexicons.CodeTooLarge, "")
}

func TestDecodeCBOR(t *testing.T) {
	// a1 61 61 xx is {"a": xx}.
	for _, c := range []struct {
		name, hex string
		code      string // "" for accepted
		path      string
	}{
		{"empty object", "a0", "", ""},
		{"integer", "a1616118ff", "", ""},
		{"2^53-1", "a161611b001fffffffffffff", "", ""},
		{"2^53", "a161611b0020000000000000", lexicons.CodeIntegerRange, "/a"},
		{"-(2^53-1)", "a161613b001ffffffffffffe", "", ""},
		{"-2^53", "a161613b001fffffffffffff", lexicons.CodeIntegerRange, "/a"},
		{"-2^64", "a161613bffffffffffffffff", lexicons.CodeIntegerRange, "/a"},
		{"float 1.5", "a16161fb3ff8000000000000", lexicons.CodeFloat, "/a"},
		{"float 1.0", "a16161f93c00", lexicons.CodeFloat, "/a"},
		{"undefined", "a16161f7", lexicons.CodeCBORSyntax, "/a"},
		{"simple value", "a16161f820", lexicons.CodeCBORSyntax, "/a"},
		{"array on top", "80", lexicons.CodeNotAnObject, ""},
		{"nothing", "", lexicons.CodeCBORSyntax, ""},
		{"trailing byte", "a000", lexicons.CodeCBORSyntax, ""},
		{"cut short", "a1616119ff", lexicons.CodeCBORSyntax, "/a"},
		{"string longer than the input", "a161617b7fffffffffffffff", lexicons.CodeCBORSyntax, "/a"},
		{"array longer than the input", "a161619a00010000", lexicons.CodeCBORSyntax, "/a"},
		{"array of 2^32-1", "a161619affffffff", lexicons.CodeTooLarge, "/a"},
		{"long form of a small number", "a161611817", lexicons.CodeNotCanonical, "/a"},
		{"long form of a length", "a17801610 0", lexicons.CodeNotCanonical, ""},
		{"indefinite array", "a161619fff", lexicons.CodeNotCanonical, "/a"},
		{"keys out of order", "a2616201616102", lexicons.CodeNotCanonical, "/a"},
		{"longer key first", "a262616101616202", lexicons.CodeNotCanonical, "/b"},
		{"shorter key first", "a261620162616102", "", ""},
		{"key twice", "a2616101616102", lexicons.CodeDuplicateKey, "/a"},
		{"integer key", "a10102", lexicons.CodeCBORSyntax, ""},
		{"bad UTF-8", "a1616161ff", lexicons.CodeInvalidUTF8, "/a"},
		{"tag 0", "a16161c06161", lexicons.CodeCBORSyntax, "/a"},
		{"tag 42 on text", "a16161d82a6161", lexicons.CodeCBORSyntax, "/a"},
		{"tag 42 without zero byte", "a16161d82a420171", lexicons.CodeLinkMalformed, "/a"},
		{"tag 42 on rubbish", "a16161d82a43000171", lexicons.CodeLinkMalformed, "/a"},
		{"object with $link", "a16161a1652" + "46c696e6b6161", lexicons.CodeReservedName, "/a/$link"},
		{"object with $bytes", "a16161a166246279746573" + "6161", lexicons.CodeReservedName, "/a/$bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw, err := hex.DecodeString(strings.ReplaceAll(c.hex, " ", ""))
			require.NoError(t, err)
			v, err := lexicons.DecodeCBOR(raw)
			if c.code != "" {
				requireFinding(t, err, c.code, c.path)
				return
			}
			require.NoError(t, err)
			back, err := lexicons.EncodeCBOR(v)
			require.NoError(t, err)
			require.Equal(t, raw, back)
		})
	}
	deep := append([]byte{0xa1, 0x61, 'a'}, strings.Repeat("\x81", 1_000_000)...)
	_, err := lexicons.DecodeCBOR(deep)
	requireFinding(t, err, lexicons.CodeTooDeep, "/a/0/0/0/0/0/0/0")
	_, err = lexicons.DecodeCBOR(make([]byte, lexicons.MaxRecordCBOR+1))
	requireFinding(t, err, lexicons.CodeTooLarge, "")
}

func TestParseCBORKeepsBytesAndType(t *testing.T) {
	rec, err := lexicons.ParseJSON("com.example.blah", []byte(`{"b":1,"aa":2}`))
	require.NoError(t, err)
	back, err := lexicons.ParseCBOR("com.example.blah", rec.CBOR)
	require.NoError(t, err)
	require.Equal(t, rec.CID, back.CID)
	require.Same(t, &rec.CBOR[0], &back.CBOR[0])

	_, err = lexicons.ParseCBOR("com.example.other", rec.CBOR)
	requireFinding(t, err, lexicons.CodeTypeMismatch, "/$type")
	_, err = lexicons.ParseCBOR("com.example.blah", []byte{0xa0})
	requireFinding(t, err, lexicons.CodeTypeMismatch, "/$type")
}
