package appview_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview"
	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
)

// noon is the moment at which a test begins.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// site is an appview over a real index, served by the real adapter.
type site struct {
	t       testing.TB
	catalog *lexicons.Catalog
	index   *index.Index
	views   *appview.Appview
	server  *xrpc.Server
	team    directory
	down    takedowns
	now     time.Time // the clock of everything; a test moves it
	viewer  xrpc.Viewer
}

// newSite is a site of visibility team; published are its PUBLIC_COLLECTIONS.
func newSite(t testing.TB, db *migrations.DB, published ...syntax.NSID) *site {
	t.Helper()
	return followedSite(t, db, appview.Follow{}, published...)
}

// followedSite is one with other bounds for who subscribes.
func followedSite(t testing.TB, db *migrations.DB, follow appview.Follow, published ...syntax.NSID) *site {
	t.Helper()
	s := &site{t: t, now: noon, team: directory{}, down: takedowns{}, viewer: xrpc.Viewer{Kind: xrpc.Account, Member: true, Active: true}}
	var err error
	s.catalog, err = lexicons.Load()
	require.NoError(t, err)
	s.index, err = index.New(index.Config{
		DB: db, Rules: lexicons.NewRules(s.catalog, lexicons.Settings{}), Now: s.clock,
	})
	require.NoError(t, err)
	s.views, err = appview.New(appview.Config{
		Follow: follow,
		Index:  s.index, Directory: hosts{s.team, s.down}, Arrivals: arrivals{s.index}, MaxWait: 2 * time.Second, Now: s.clock, PublicCollections: published,
		Service: appview.Service{DID: "did:web:host.test", Version: "test", Visibility: xrpc.Team, PublicURL: "https://host.test"},
	})
	require.NoError(t, err)
	s.server, err = xrpc.New(xrpc.Config{Catalog: s.catalog, Authenticator: s, Visibility: xrpc.Team, Published: len(published) > 0, Now: s.clock, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, s.views.Register(s.server))
	return s
}

func (s *site) clock() time.Time { return s.now }

// Authenticate lets everybody be whom the test says.
func (s *site) Authenticate(*http.Request, syntax.NSID) (xrpc.Viewer, error) { return s.viewer, nil }

// directory is the team: its members, and where their repos are hosted.
type directory map[syntax.DID]string

func (d directory) Members(_ context.Context, dids []syntax.DID) (map[syntax.DID]bool, error) {
	members := map[syntax.DID]bool{}
	for _, did := range dids {
		_, members[did] = d[did]
	}
	return members, nil
}

func (d directory) Endpoint(_ context.Context, did syntax.DID) (string, error) { return d[did], nil }

// hosts is all that the views know of hosts.
type hosts struct {
	directory
	takedowns
}

// takedowns are the blobs that their hosts have taken down.
type takedowns map[appview.BlobID]bool

func (d takedowns) TakenDown(_ context.Context, blobs []appview.BlobID) (map[appview.BlobID]bool, error) {
	down := map[appview.BlobID]bool{}
	for _, b := range blobs {
		if d[b] {
			down[b] = true
		}
	}
	return down, nil
}

// arrivals asks the index until it has what is waited for.
type arrivals struct{ *index.Index }

func (a arrivals) WaitFor(ctx context.Context, did syntax.DID, rev syntax.TID) error {
	for ticker := time.NewTicker(time.Millisecond); ; {
		repos, err := a.Repos(ctx, []syntax.DID{did})
		if err != nil || repos[did].Rev >= rev {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// object is a JSON object of an answer.
type object = map[string]any

// get asks a query and wants an answer, which must fit its lexicon.
func (s *site) get(method string, params ...string) object {
	s.t.Helper()
	res := s.ask(method, params...)
	require.Equal(s.t, http.StatusOK, res.Code, "%s %v: %s", method, params, res.Body)
	raw := res.Body.Bytes()
	require.Empty(s.t, misfits(s.catalog, method, raw), "%s %v: %s", method, params, raw)
	var out object
	require.NoError(s.t, json.Unmarshal(raw, &out))
	return out
}

// refuse asks a query and wants an error: its name, and the codes of its findings.
func (s *site) refuse(method string, params ...string) (string, []string) {
	s.t.Helper()
	res := s.ask(method, params...)
	require.Equal(s.t, http.StatusBadRequest, res.Code, "%s %v: %s", method, params, res.Body)
	var out struct {
		Error    string
		Findings []lexicons.Finding
	}
	require.NoError(s.t, json.Unmarshal(res.Body.Bytes(), &out))
	var codes []string
	for _, f := range out.Findings {
		codes = append(codes, f.Code)
	}
	return out.Error, codes
}

// ask sends a query; params are names and values in turn.
func (s *site) ask(method string, params ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	query := url.Values{}
	for i := 0; i < len(params); i += 2 {
		query.Add(params[i], params[i+1])
	}
	res := httptest.NewRecorder()
	s.server.ServeHTTP(res, httptest.NewRequest(http.MethodGet, "/xrpc/garden.herbarium."+method+"?"+query.Encode(), nil))
	return res
}

// apply lets the index witness events, one by one.
func (s *site) apply(events ...index.Event) {
	s.t.Helper()
	for _, e := range events {
		require.NoError(s.t, s.index.Apply(s.t.Context(), "host", 0, []index.Event{e}))
	}
}

// misfits are the ways in which a body differs from the output of its method's
// lexicon: what the schema refuses, and what it does not know.
func misfits(catalog *lexicons.Catalog, method string, raw []byte) []string {
	m, ok := catalog.Method(syntax.NSID("garden.herbarium." + method))
	if !ok {
		return []string{"no such method"}
	}
	value, err := lexicons.ParseObject(raw, 64<<20)
	if err != nil {
		return []string{err.Error()}
	}
	var wrong []string
	for _, f := range catalog.CheckValue(m.NSID, m.Output.Schema.Inner, value) {
		wrong = append(wrong, f.Path+": "+f.Message)
	}
	return append(wrong, strangers(catalog, string(m.NSID), m.Output.Schema.Inner, value, "")...)
}

// strangers are fields that no schema declares, and values outside a list of
// known ones that is our own to keep.
func strangers(catalog *lexicons.Catalog, base string, def, value any, path string) []string {
	var wrong []string
	switch d := def.(type) {
	case lexicon.SchemaRef:
		ref := d.Ref
		if strings.HasPrefix(ref, "#") {
			ref = base + ref
		}
		schema, err := catalog.Resolve(ref)
		if err != nil {
			return []string{path + ": " + err.Error()}
		}
		return strangers(catalog, strings.Split(ref, "#")[0], schema.Def, value, path)
	case lexicon.SchemaObject:
		members, _ := value.(map[string]any)
		for name, member := range members {
			property, declared := d.Properties[name]
			if !declared {
				wrong = append(wrong, path+"/"+name+": not in the lexicon")
				continue
			}
			wrong = append(wrong, strangers(catalog, base, property.Inner, member, path+"/"+name)...)
		}
	case lexicon.SchemaArray:
		items, _ := value.([]any)
		for i, item := range items {
			wrong = append(wrong, strangers(catalog, base, d.Items.Inner, item, fmt.Sprintf("%s/%d", path, i))...)
		}
	case lexicon.SchemaString:
		own := d.Description == nil || !strings.HasPrefix(*d.Description, "As written")
		if text, _ := value.(string); own && len(d.KnownValues) > 0 && !slices.Contains(d.KnownValues, text) {
			wrong = append(wrong, fmt.Sprintf("%s: %q is not a known value", path, text))
		}
	}
	return wrong
}

// author writes commits of one repo that an index may witness. The index does
// not look at signatures or trees, so neither has any.
type author struct {
	did  syntax.DID
	revs int
	held map[string]index.Operation // by path
}

func newAuthor(did syntax.DID) *author {
	return &author{did: did, held: map[string]index.Operation{}}
}

// tid is the n-th TID of a test, a second apart, well before noon.
func tid(n int) syntax.TID {
	return syntax.NewTIDFromTime(noon.Add(time.Duration(n-7200)*time.Second), 1)
}

func (a *author) identity(handle string) *index.Identity {
	return &index.Identity{DID: a.did, Handle: syntax.Handle(handle)}
}

// put makes the commit that creates or rewrites a record.
func (a *author) put(t testing.TB, collection syntax.NSID, rkey string, value object) (*index.Commit, lexicons.StrongRef) {
	t.Helper()
	raw, err := json.Marshal(value)
	require.NoError(t, err)
	rec, err := lexicons.ParseJSON(collection, raw)
	require.NoError(t, err)
	op := index.Operation{Action: lexicons.Create, Collection: collection, RecordKey: syntax.RecordKey(rkey), CID: rec.CID, Record: rec.CBOR}
	path := string(collection) + "/" + rkey
	if was, ok := a.held[path]; ok {
		op.Action, op.Prev = lexicons.Update, was.CID
	}
	a.held[path] = op
	return a.commit(t, op), lexicons.StrongRef{URI: syntax.ATURI("at://" + string(a.did) + "/" + path), CID: rec.CID}
}

// drop makes the commit that deletes a record.
func (a *author) drop(t testing.TB, collection syntax.NSID, rkey string) *index.Commit {
	t.Helper()
	path := string(collection) + "/" + rkey
	op := index.Operation{Action: lexicons.Delete, Collection: collection, RecordKey: syntax.RecordKey(rkey), Prev: a.held[path].CID}
	delete(a.held, path)
	return a.commit(t, op)
}

func (a *author) commit(t testing.TB, op index.Operation) *index.Commit {
	t.Helper()
	a.revs++
	block := fmt.Appendf(nil, "commit %d of %s", a.revs, a.did)
	c, err := cid.V1Builder{Codec: cid.DagCBOR, MhType: 0x12}.Sum(block)
	require.NoError(t, err)
	return &index.Commit{DID: a.did, Rev: tid(a.revs), CID: c, Data: c, Ops: []index.Operation{op}, Proof: []index.Block{{CID: c, Data: block}}}
}

func ref(r lexicons.StrongRef) object { return object{"uri": string(r.URI), "cid": r.CID.String()} }

// at walks into an answer: names of members and indexes of items.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, ok := v.(map[string]any)
			require.True(t, ok, "no object to find %q in: %v", step, v)
			v = m[step]
		case int:
			l, ok := v.([]any)
			require.True(t, ok && step < len(l), "no item %d in %v", step, v)
			v = l[step]
		}
	}
	return v
}
