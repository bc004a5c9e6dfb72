package lexicons_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/secrettest"
)

// FuzzParseJSON holds the JSON reader against encoding/json and indigo: what
// it takes, both take and read alike, and it survives CBOR.
func FuzzParseJSON(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"$type":"com.example.blah","a":[1,2.0,-3e2,null,true,"\ud83d\ude00"]}`, `{"a":{"$bytes":"YQ"}}`,
		`{"a":{"$link":"` + dataCID + `"}}`, `{"a":9007199254740993}`, `{"a":1,"a":2}`, `{"a":"\ud83d"}`, nested(100),
		`{"a":{"$type":"blob","ref":{"$link":"` + blobCID + `"},"mimeType":"a/b","size":1}}`, "{\"a\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		rec, err := lexicons.ParseJSON("com.example.blah", raw)
		if err != nil {
			var refused *lexicons.Refused
			require.True(t, errors.As(err, &refused), "%v", err)
			return
		}
		require.True(t, json.Valid(raw))
		var plain map[string]any
		require.NoError(t, json.Unmarshal(raw, &plain))
		if _, typed := plain["$type"]; !typed {
			require.Len(t, rec.Value, len(plain)+1)
		}
		back, err := lexicons.ParseCBOR("com.example.blah", rec.CBOR)
		require.NoError(t, err)
		require.Equal(t, rec.Value, back.Value)
		again, err := json.Marshal(rec.Value)
		require.NoError(t, err)
		twice, err := lexicons.ParseJSON("com.example.blah", again)
		require.NoError(t, err)
		require.Equal(t, rec.CID, twice.CID)
	})
}

// FuzzParseCBOR: what the CBOR reader takes is canonical by two other
// encoders' judgement, its own and indigo's.
func FuzzParseCBOR(f *testing.F) {
	for _, seed := range []string{"a0", "a1616118ff", "a16161fb3ff8000000000000", "a2616201616102", "a161619fff", "a16161d82a43000171", "a165247479706560"} {
		raw, err := hex.DecodeString(seed)
		require.NoError(f, err)
		f.Add(raw)
	}
	rec, err := lexicons.ParseJSON("com.example.blah", []byte(`{"a":{"$type":"blob","ref":{"$link":"`+blobCID+`"},"mimeType":"a/b","size":1},"l":{"$link":"`+dataCID+`"},"n":-70000}`))
	require.NoError(f, err)
	f.Add(rec.CBOR)
	f.Fuzz(func(t *testing.T, raw []byte) {
		value, err := lexicons.DecodeCBOR(raw)
		if err != nil {
			var refused *lexicons.Refused
			require.True(t, errors.As(err, &refused), "%v", err)
			return
		}
		ours, err := lexicons.EncodeCBOR(value)
		require.NoError(t, err)
		require.True(t, bytes.Equal(raw, ours))
		theirs, err := atdata.MarshalCBOR(value)
		require.NoError(t, err)
		require.True(t, bytes.Equal(raw, theirs))
		_, err = cid.V1Builder{Codec: cid.DagCBOR, MhType: 0x12}.Sum(raw)
		require.NoError(t, err)
	})
}

// FuzzParseLexicon: a file that is taken is as good as the embedded ones: it
// compares with itself, joins a catalog, and judges any record without harm.
func FuzzParseLexicon(f *testing.F) {
	for _, seed := range []string{
		`{"lexicon":1,"id":"com.example.a","defs":{}}`, recordType("com.example.a", `"x":{"type":"union","refs":["#main"]}`),
		`{"lexicon":1,"id":"com.example.a","defs":{"x":{"type":"array","items":{"type":"ref","ref":"#x"}},"main":{"type":"object","properties":{"x":{"type":"ref","ref":"#x"}}}}}`,
		`{"lexicon":1,"id":"com.example.a","defs":{"main":{"type":"query","parameters":{"type":"params","properties":{}},"output":{"encoding":"*/*"}}}}`,
	} {
		f.Add([]byte(seed))
	}
	base := catalog(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := lexicons.ParseLexicon(raw)
		if err != nil {
			require.ErrorIs(t, err, lexicons.ErrLexicon)
			return
		}
		require.Empty(t, lexicons.Compare(l, l))
		plan := base.Plan(lexicons.Proposal{Put: []*lexicons.Lexicon{l}, Force: true})
		rec, err := lexicons.ParseJSON(l.NSID, []byte(`{"x":[[],{"$type":"com.example.a#x","x":{}}],"y":{"$type":"com.example.a"}}`))
		require.NoError(t, err)
		plan.Catalog.Judge(rec, "x")
	})
}

// FuzzFindSecrets: what is found lies in the text, in order, without overlaps,
// and in a stream, whose parts it may straddle, the same is found.
func FuzzFindSecrets(f *testing.F) {
	for _, sample := range secrettest.Samples() {
		text, _ := sample.Make(secrettest.NewMaker(2))
		f.Add(text, uint16(0))
		f.Add(text+"\n"+text, uint16(len(text)/2))
	}
	f.Fuzz(func(t *testing.T, text string, before uint16) {
		if len(text) > 1<<11 {
			return
		}
		text = strings.Repeat("\n", 256<<10-4096-int(before)) + text + strings.Repeat("\n", 8<<10)
		found := lexicons.FindSecrets(text)
		end := int64(0)
		for _, secret := range found {
			require.LessOrEqual(t, end, secret.Start)
			require.Less(t, secret.Start, secret.End)
			end = secret.End
		}
		require.LessOrEqual(t, end, int64(len(text)))
		streamed, err := lexicons.ScanSecrets(strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, found, streamed)
	})
}
