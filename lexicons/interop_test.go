package lexicons_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/internal/structural"
)

// The fixtures of the atproto interop suite as the pinned indigo module
// carries them, run through this package's own entry points.

var indigoDir = sync.OnceValues(structural.ModuleDir)

func fixturePath(t testing.TB, parts ...string) string {
	t.Helper()
	dir, err := indigoDir()
	require.NoError(t, err)
	return filepath.Join(append([]string{dir, "atproto"}, parts...)...)
}

func readFixture(t testing.TB, into any, parts ...string) {
	t.Helper()
	raw, err := os.ReadFile(fixturePath(t, parts...))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, into))
}

// wrongFixtures are cases in which the syntax library that we use disagrees
// with the suite. A case that begins to agree fails the test, so that this
// list stays true.
var wrongFixtures = map[string]bool{
	"language X-fr-CH": true, // a private-use tag with a capital X is refused
}

// laterFixtures are invalid cases of the suite's language_parse_invalid list,
// which is newer than the pinned module: subtags that repeat. They are
// accepted, as in the reference, which checks the grammar alone.
var laterFixtures = []string{
	"de-DE-1901-1901",
	"en-rozaj-ROZAJ",
	"en-a-foo-a-bar",
	"en-u-co-phonebk-U-ca-buddhist",
}

func TestInteropSyntax(t *testing.T) {
	for _, c := range []struct {
		file, format string
		valid        bool
	}{
		{"atidentifier_syntax_valid.txt", "at-identifier", true},
		{"atidentifier_syntax_invalid.txt", "at-identifier", false},
		{"aturi_syntax_valid.txt", "at-uri", true},
		{"aturi_syntax_invalid.txt", "at-uri", false},
		{"cid_syntax_valid.txt", "cid", true},
		{"cid_syntax_invalid.txt", "cid", false},
		{"datetime_syntax_valid.txt", "datetime", true},
		{"datetime_syntax_invalid.txt", "datetime", false},
		{"datetime_parse_invalid.txt", "datetime", false},
		{"did_syntax_valid.txt", "did", true},
		{"did_syntax_invalid.txt", "did", false},
		{"handle_syntax_valid.txt", "handle", true},
		{"handle_syntax_invalid.txt", "handle", false},
		{"language_syntax_valid.txt", "language", true},
		{"language_syntax_invalid.txt", "language", false},
		{"nsid_syntax_valid.txt", "nsid", true},
		{"nsid_syntax_invalid.txt", "nsid", false},
		{"recordkey_syntax_valid.txt", "record-key", true},
		{"recordkey_syntax_invalid.txt", "record-key", false},
		{"tid_syntax_valid.txt", "tid", true},
		{"tid_syntax_invalid.txt", "tid", false},
		{"uri_syntax_valid.txt", "uri", true},
		{"uri_syntax_invalid.txt", "uri", false},
	} {
		t.Run(c.file, func(t *testing.T) {
			lines := fixtureLines(t, "syntax", "testdata", c.file)
			require.NotEmpty(t, lines)
			for _, line := range lines {
				err := lexicons.CheckFormat(c.format, line)
				if wrongFixtures[c.format+" "+line] {
					require.Equal(t, c.valid, err != nil, "%q agrees with the suite now: take it off the list", line)
					continue
				}
				require.Equal(t, c.valid, err == nil, "%q: %v", line, err)
			}
		})
	}
	for _, line := range laterFixtures {
		require.NoError(t, lexicons.CheckFormat("language", line), "%q agrees with the suite now: take it off the list", line)
	}
}

func fixtureLines(t *testing.T, parts ...string) []string {
	t.Helper()
	f, err := os.Open(fixturePath(t, parts...))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	var lines []string
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		if line := scanner.Text(); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	require.NoError(t, scanner.Err())
	return lines
}

func TestInteropDataModel(t *testing.T) {
	var cases []struct {
		JSON json.RawMessage `json:"json"`
		CBOR string          `json:"cbor_base64"`
		CID  string          `json:"cid"`
	}
	readFixture(t, &cases, "atdata", "testdata", "data-model-fixtures.json")
	require.NotEmpty(t, cases)
	for _, c := range cases {
		raw, err := base64.RawStdEncoding.DecodeString(c.CBOR)
		require.NoError(t, err)

		fromJSON, err := lexicons.ParseObject(c.JSON, lexicons.MaxRecordJSON)
		require.NoError(t, err)
		fromCBOR, err := lexicons.DecodeCBOR(raw)
		require.NoError(t, err)
		require.Equal(t, fromCBOR, fromJSON)

		encoded, err := lexicons.EncodeCBOR(fromJSON)
		require.NoError(t, err)
		require.Equal(t, raw, encoded)

		back, err := json.Marshal(fromCBOR)
		require.NoError(t, err)
		require.JSONEq(t, string(c.JSON), string(back))
	}
}

func TestInteropDataModelValidity(t *testing.T) {
	for file, valid := range map[string]bool{"data-model-valid.json": true, "data-model-invalid.json": false} {
		var cases []struct {
			Note string          `json:"note"`
			JSON json.RawMessage `json:"json"`
		}
		readFixture(t, &cases, "atdata", "testdata", file)
		require.NotEmpty(t, cases)
		for _, c := range cases {
			_, err := lexicons.ParseJSON("com.example.blah", c.JSON)
			require.Equal(t, valid, err == nil, "%s: %v", c.Note, err)
			if !valid {
				var refused *lexicons.Refused
				require.ErrorAs(t, err, &refused, c.Note)
			}
		}
	}
}

func TestInteropFeedPostCBOR(t *testing.T) {
	raw, err := os.ReadFile(fixturePath(t, "atdata", "testdata", "feedpost_record.cbor"))
	require.NoError(t, err)
	rec, err := lexicons.ParseCBOR("app.bsky.feed.post", raw)
	require.NoError(t, err)
	encoded, err := lexicons.EncodeCBOR(rec.Value)
	require.NoError(t, err)
	require.Equal(t, raw, encoded)
}

func TestInteropLexicons(t *testing.T) {
	for file, valid := range map[string]bool{"lexicon-valid.json": true, "lexicon-invalid.json": false} {
		var cases []struct {
			Name    string          `json:"name"`
			Lexicon json.RawMessage `json:"lexicon"`
		}
		readFixture(t, &cases, "lexicon", "testdata", file)
		require.NotEmpty(t, cases)
		for _, c := range cases {
			_, err := lexicons.LoadFS(fstest.MapFS{"schema.json": {Data: c.Lexicon}})
			require.Equal(t, valid, err == nil, "%s: %v", c.Name, err)
		}
	}
}

func TestInteropRecords(t *testing.T) {
	cat, err := lexicons.LoadFS(os.DirFS(fixturePath(t, "lexicon", "testdata", "catalog")))
	require.NoError(t, err)
	for file, valid := range map[string]bool{"record-data-valid.json": true, "record-data-invalid.json": false} {
		var cases []struct {
			Name string          `json:"name"`
			Rkey string          `json:"rkey"`
			Data json.RawMessage `json:"data"`
		}
		readFixture(t, &cases, "lexicon", "testdata", file)
		require.NotEmpty(t, cases)
		for _, c := range cases {
			rec, err := lexicons.ParseJSON("example.lexicon.record", c.Data)
			require.NoError(t, err, c.Name)
			status, err := cat.Validate(rec, syntax.RecordKey(c.Rkey), lexicons.ValidateRequired)
			require.Equal(t, valid, err == nil, "%s: %v", c.Name, err)
			if valid {
				require.Equal(t, lexicons.StatusValid, status)
			}
		}
	}
}
