package xrpc_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons/xrpc"
)

func TestParameters(t *testing.T) {
	s := newSite(t, nil)
	var got listParams
	require.NoError(t, xrpc.Query(s.Server, listThings, xrpc.Open, func(_ context.Context, _ xrpc.Viewer, p listParams) (*listOutput, error) {
		got = p
		return &listOutput{}, nil
	}))
	s.start(t)
	seven := int64(7)
	base := listParams{Repo: "a.test", Limit: 50, Order: "new"}
	with := func(change func(*listParams)) listParams { p := base; change(&p); return p }

	for query, want := range map[string]listParams{
		"repo=a.test":                       base,
		"repo=a.test&limit=&cursor=":        base, // empty counts as absent
		"repo=a.test&colour=red":            base, // unknown is ignored
		"repo=did:web:a.test&limit=100":     with(func(p *listParams) { p.Repo, p.Limit = "did:web:a.test", 100 }),
		"repo=a.test&depth=7":               with(func(p *listParams) { p.Depth = &seven }),
		"repo=a.test&reverse=true":          with(func(p *listParams) { p.Reverse = true }),
		"repo=a.test&order=old":             with(func(p *listParams) { p.Order = "old" }),
		"repo=a.test&tags=b&tags=a":         with(func(p *listParams) { p.Tags = []string{"b", "a"} }),
		"repo=a.test&collection=app.a.post": with(func(p *listParams) { p.Collection = "app.a.post" }),
		"repo=a.test&cursor=a%2Bb%20c":      with(func(p *listParams) { p.Cursor = "a+b c" }),
		"repo=a.test&since=2026-11-30T10:00:00Z": with(func(p *listParams) {
			p.Since = "2026-11-30T10:00:00Z"
		}),
		"repo=a.test&cid=bafyreihu7ll3vlzbxt7ju5l4nmdctv2kruoxyoqn7gnnhxvnqfrxfk4dfu": with(func(p *listParams) {
			p.CID = "bafyreihu7ll3vlzbxt7ju5l4nmdctv2kruoxyoqn7gnnhxvnqfrxfk4dfu"
		}),
	} {
		t.Run("good/"+query, func(t *testing.T) {
			got = listParams{}
			a := s.get(t, "/xrpc/"+listThings+"?"+query)
			require.Equal(t, 200, a.status, a.body)
			require.Equal(t, want, got)
		})
	}
	for query, says := range map[string]string{
		"":                            "repo: required, but absent; want a string in the format at-identifier: a DID",
		"repo=":                       "repo: required",
		"repo=not a name":             `repo: "not a name" is not in the format at-identifier, want a DID`,
		"repo=a.test&limit=0":         "limit: 0, want an integer from 1 to 100",
		"repo=a.test&limit=101":       "limit: 101, want an integer from 1 to 100",
		"repo=a.test&limit=1.5":       "limit: want an integer from 1 to 100",
		"repo=a.test&limit=1e1":       "limit: want an integer",
		"repo=a.test&limit=5&limit=6": "limit: given more than once",
		"repo=a.test&depth=" + "9007199254740992": "depth: want an integer",
		"repo=a.test&reverse=1":                   `reverse: want "true" or "false"`,
		"repo=a.test&order=random":                `order: "random", want one of new, old`,
		"repo=a.test&tags=a&tags=b&tags=c&tags=d": "tags: 4 items, want at most 3",
		"repo=a.test&tags=123456789":              "tags: 9 bytes of UTF-8, want at most 8",
		"repo=a.test&collection=nope":             `collection: "nope" is not in the format nsid, want an NSID`,
		"repo=a.test&cid=nope":                    `cid: "nope" is not in the format cid, want a CID such as bafyrei`,
		"repo=a.test&since=yesterday":             `since: "yesterday" is not in the format datetime, want RFC 3339`,
		"repo=a.test&cursor=%ff":                  "cursor: not UTF-8",
		"repo=a.test&cursor=%zz":                  "malformed",
	} {
		t.Run("bad/"+query, func(t *testing.T) {
			a := s.get(t, "/xrpc/"+listThings+"?"+strings.ReplaceAll(query, " ", "%20"))
			require.Equal(t, 400, a.status)
			require.Equal(t, "InvalidRequest", a.error(t))
			require.Contains(t, a.body, jsonText(says))
		})
	}
}

func jsonText(s string) string {
	raw, _ := json.Marshal(s)
	return strings.Trim(string(raw), `"`)
}

func FuzzParameters(f *testing.F) {
	s, err := xrpc.New(xrpc.Config{Catalog: catalog(f), Authenticator: people, Visibility: xrpc.Public, Log: slog.New(slog.DiscardHandler)})
	require.NoError(f, err)
	require.NoError(f, xrpc.Query(s, listThings, xrpc.Open, func(_ context.Context, _ xrpc.Viewer, p listParams) (*listOutput, error) {
		if p.Limit < 1 || p.Limit > 100 || p.Repo == "" || len(p.Tags) > 3 {
			return nil, errUnchecked
		}
		return &listOutput{}, nil
	}))
	f.Add("repo=a.test&limit=3&tags=a")
	f.Add("repo=did:plc:abc&depth=-1&reverse=false")
	f.Add("%zz&&==")
	f.Fuzz(func(t *testing.T, query string) {
		a := record(s, "GET", (&url.URL{Path: "/xrpc/" + listThings, RawQuery: query}), nil)
		require.Contains(t, []int{200, 400}, a.Code)
	})
}
