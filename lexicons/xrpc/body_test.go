package xrpc_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons/xrpc"
)

var errUnchecked = errors.New("a value got past its check")

func record(h http.Handler, verb string, u *url.URL, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(verb, "/", body)
	r.URL = u
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// puts is a site whose putThing notes its input.
func puts(t *testing.T, opts ...xrpc.Option) (*site, *putInput) {
	t.Helper()
	s := newSite(t, nil)
	got := new(putInput)
	require.NoError(t, xrpc.Procedure(s.Server, putThing, xrpc.Open, func(_ context.Context, _ xrpc.Viewer, in putInput) (*putOutput, error) {
		*got = in
		return &putOutput{URI: "at://a.test"}, nil
	}, opts...))
	return s.start(t), got
}

func TestInput(t *testing.T) {
	s, got := puts(t)
	const path = "/xrpc/" + putThing

	a := s.post(t, path, `{"repo":"a.test","record":{"text":"<b>","n":1.50,"text2":[{"deep":null}]},"extra":1}`)
	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, `{"text":"<b>","n":1.50,"text2":[{"deep":null}]}`, string(got.Record), "the record's own text, untouched")
	require.Nil(t, got.Validate)
	require.Equal(t, 1, got.Copies, "default")
	require.False(t, got.SwapRecord.Set)

	a = s.post(t, path, `{"repo":"a.test","record":{},"copies":3,"validate":false,"swapRecord":null,
		"subject":{"$type":"garden.test.putThing#byName","name":"x"},"writes":[{"name":"y"}]}`, "Content-Type", "application/json; charset=utf-8")
	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, 3, got.Copies)
	require.False(t, *got.Validate)
	require.True(t, got.SwapRecord.Set && got.SwapRecord.Null)
	require.Equal(t, "y", got.Writes[0].Name)

	a = s.post(t, path, `{"repo":"a.test","record":{},"swapRecord":"bafyreihu7ll3vlzbxt7ju5l4nmdctv2kruoxyoqn7gnnhxvnqfrxfk4dfu"}`)
	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, "bafyreihu7ll3vlzbxt7ju5l4nmdctv2kruoxyoqn7gnnhxvnqfrxfk4dfu", got.SwapRecord.Value.String())

	for name, c := range map[string]struct{ body, says string }{
		"empty":                  {``, "no body"},
		"syntax error":           {`{"repo":`, "not JSON"},
		"trailing data":          {`{"repo":"a.test","record":{}} {}`, "not JSON"},
		"an array":               {`[]`, "want an object"},
		"null":                   {`null`, "want an object"},
		"required absent":        {`{"repo":"a.test"}`, "record: required, but absent; want an object"},
		"record is no object":    {`{"repo":"a.test","record":"x"}`, "record: want an object"},
		"null where not allowed": {`{"repo":"a.test","record":{},"validate":null}`, "validate: want a boolean"},
		"bad format":             {`{"repo":"a test","record":{}}`, `repo: "a test" is not in the format at-identifier, want a DID`},
		"wrong kind":             {`{"repo":"a.test","record":{},"validate":"yes"}`, "validate: want a boolean"},
		"float for integer":      {`{"repo":"a.test","record":{},"copies":1.0}`, "copies: want an integer"},
		"out of range":           {`{"repo":"a.test","record":{},"copies":6}`, "copies: 6, want an integer from 1 to 5"},
		"past 2^53":              {`{"repo":"a.test","record":{},"copies":9007199254740993}`, "copies: want an integer"},
		"twice":                  {`{"repo":"a.test","repo":"b.test","record":{}}`, "appears twice"},
		"twice, escaped":         {`{"repo":"a.test","rep\u006f":"b.test","record":{}}`, "appears twice"},
		"case twin":              {`{"repo":"a.test","REPO":"b.test","record":{}}`, "did you mean"},
		"union without a type":   {`{"repo":"a.test","record":{},"subject":{"name":"x"}}`, "want one of garden.test.putThing#byName, garden.test.listThings#thing"},
		"union of another type":  {`{"repo":"a.test","record":{},"subject":{"$type":"app.x.y"}}`, "want one of"},
		"union variant checked":  {`{"repo":"a.test","record":{},"subject":{"$type":"garden.test.listThings#thing"}}`, "required"},
		"nested checked":         {`{"repo":"a.test","record":{},"writes":[{"name":"12345678901"}]}`, "writes[0].name: 11 bytes of UTF-8, want at most 10"},
		"too many":               {`{"repo":"a.test","record":{},"writes":[{"name":"a"},{"name":"a"},{"name":"a"}]}`, "at most 2"},
		"not UTF-8":              {"{\"repo\":\"a.test\",\"record\":{\"a\":\"\xff\"}}", "UTF-8"},
		"nested too deep":        {`{"repo":"a.test","record":` + strings.Repeat(`{"a":`, 20_000) + `1` + strings.Repeat(`}`, 20_000) + `}`, "nests deeper"},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.post(t, path, c.body)
			require.Equal(t, 400, a.status)
			require.Equal(t, "InvalidRequest", a.error(t))
			require.Contains(t, a.body, jsonText(c.says))
		})
	}
	t.Run("content type", func(t *testing.T) {
		for _, sent := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json/x"} {
			a := s.do(t, "POST", path, `{"repo":"a.test","record":{}}`, "Content-Type", sent)
			require.Equal(t, 400, a.status)
			require.Contains(t, a.body, "application/json")
		}
	})
}

func TestBodyLimit(t *testing.T) {
	s, got := puts(t, xrpc.MaxBody(1000))
	const path = "/xrpc/" + putThing
	body := func(size int) string {
		const frame = `{"repo":"a.test","record":{"a":""}}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", size-len(frame))+`"`, 1)
	}
	zip := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := io.WriteString(w, text)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return b.String()
	}
	require.Equal(t, 200, s.post(t, path, body(1000)).status)
	require.Equal(t, 200, s.post(t, path, zip(body(1000)), "Content-Encoding", "gzip").status)
	require.Len(t, got.Record, 1000-len(`{"repo":"a.test","record":}`))

	for name, a := range map[string]answer{
		"told":                   s.post(t, path, body(1001)),
		"small gzip, large body": s.post(t, path, zip(strings.Repeat(" ", 1<<20)), "Content-Encoding", "gzip"),
		"large gzip":             s.post(t, path, strings.Repeat("x", 1001), "Content-Encoding", "gzip"),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, 413, a.status)
			require.Equal(t, "PayloadTooLarge", a.error(t))
			require.Contains(t, a.body, "1000 bytes")
		})
	}
	t.Run("not told", func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), "POST", s.url+path, io.MultiReader(strings.NewReader(body(1001)))) // chunked
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, 413, res.StatusCode)
	})
	t.Run("no gzip at all", func(t *testing.T) {
		require.Equal(t, 400, s.post(t, path, "{}", "Content-Encoding", "gzip").status)
		require.Equal(t, 400, s.post(t, path, zip(body(900))[:60], "Content-Encoding", "gzip").status)
		require.Equal(t, 415, s.post(t, path, "{}", "Content-Encoding", "br").status)
	})
}

// 900,000 levels are refused before anything recurses into them.
func TestDeepNestingIsCheap(t *testing.T) {
	s, _ := puts(t)
	deep := `{"repo":"a.test","record":` + strings.Repeat(`[`, 900_000)
	a := s.post(t, "/xrpc/"+putThing, deep)
	require.Equal(t, 400, a.status)
	require.Contains(t, a.body, "nests deeper than", "the parser would have said that the text ends too soon")
}

func TestProcedureWithoutInputOrOutput(t *testing.T) {
	s := newSite(t, nil)
	require.NoError(t, xrpc.Procedure(s.Server, ping, xrpc.Open, func(context.Context, xrpc.Viewer, xrpc.None) (*xrpc.None, error) { return nil, nil }))
	type stopInput struct {
		After *string `json:"after"`
	}
	var got stopInput
	require.NoError(t, xrpc.Procedure(s.Server, stop, xrpc.Open, func(_ context.Context, _ xrpc.Viewer, in stopInput) (*xrpc.None, error) {
		got = in
		return nil, nil
	}))
	s.start(t)
	for _, body := range []string{"", "{}", "not even JSON"} {
		a := s.do(t, "POST", "/xrpc/"+ping, body)
		require.Equal(t, 200, a.status)
		require.Empty(t, a.body)
	}
	require.Equal(t, 200, s.do(t, "POST", "/xrpc/"+stop, "").status, "no field is required, so no body is needed")
	require.Nil(t, got.After)
	require.Equal(t, 200, s.post(t, "/xrpc/"+stop, `{"after":"2026-11-30T10:00:00Z"}`).status)
	require.Equal(t, "2026-11-30T10:00:00Z", *got.After)
}

type size struct {
	Size int64 `json:"size"`
}

func TestUploadIsStreamedBoundedAndUnpacked(t *testing.T) {
	s := newSite(t, nil)
	require.NoError(t, xrpc.Upload(s.Server, upload, xrpc.Open, func(_ context.Context, _ *xrpc.Call, body io.Reader) (*size, error) {
		n, err := io.Copy(io.Discard, body)
		if err != nil {
			return nil, fmt.Errorf("take the blob in: %w", err)
		}
		return &size{n}, nil
	}, xrpc.MaxBody(1<<20)))
	s.start(t)
	a := s.do(t, "POST", "/xrpc/"+upload, `{"a":`, "Content-Type", "application/json")
	require.Equal(t, `{"size":5}`, a.body, "JSON is bytes like any other here")
	require.Equal(t, `{"size":3}`, s.do(t, "POST", "/xrpc/"+upload, "abc").body)
	a = s.do(t, "POST", "/xrpc/"+upload, strings.Repeat("x", 1<<20+1))
	require.Equal(t, 413, a.status)
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(make([]byte, 100_000))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Equal(t, `{"size":100000}`, s.do(t, "POST", "/xrpc/"+upload, b.String(), "Content-Encoding", "gzip").body)
}

func FuzzInput(f *testing.F) {
	s, err := xrpc.New(xrpc.Config{Catalog: catalog(f), Authenticator: people, Visibility: xrpc.Public, Log: slog.New(slog.DiscardHandler)})
	require.NoError(f, err)
	require.NoError(f, xrpc.Procedure(s, putThing, xrpc.Open, func(_ context.Context, _ xrpc.Viewer, in putInput) (*putOutput, error) {
		if in.Repo == "" || in.Copies < 1 || in.Copies > 5 || len(in.Writes) > 2 || !json.Valid(in.Record) {
			return nil, errUnchecked
		}
		return &putOutput{URI: "at://a.test"}, nil
	}))
	f.Add([]byte(`{"repo":"a.test","record":{}}`))
	f.Add([]byte(`{"repo":"a.test","record":{},"copies":2,"writes":[{"name":"a"}],"swapRecord":null}`))
	f.Add([]byte(`{"REPO":1,"repo":"a.test","record":{"a":[[[]]]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a := record(s, "POST", &url.URL{Path: "/xrpc/" + putThing}, bytes.NewReader(body))
		require.Contains(t, []int{200, 400}, a.Code, a.Body.String())
	})
}
