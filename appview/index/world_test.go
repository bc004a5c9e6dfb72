package index_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// Three authors, and the moment at which everything is witnessed.
var (
	ada   = syntax.DID("did:web:ada.test")
	bob   = syntax.DID("did:web:bob.test")
	cleo  = syntax.DID("did:web:cleo.test")
	now   = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	admin = index.Viewer{Admin: true}
	guest = index.Viewer{}
)

// clockworkTID is the n-th TID of a test, a minute apart, before now.
func clockworkTID(n int) syntax.TID {
	return syntax.NewTIDFromTime(now.Add(time.Duration(n-20_000)*time.Second), 1)
}

// newIndex makes an index with the real catalog and rules.
func newIndex(t testing.TB, db *migrations.DB) *index.Index {
	t.Helper()
	return newIndexAt(t, db, func() time.Time { return now })
}

// newIndexAt makes one with a clock.
func newIndexAt(t testing.TB, db *migrations.DB, clock func() time.Time) *index.Index {
	t.Helper()
	catalog, err := lexicons.Load()
	require.NoError(t, err)
	x, err := index.New(index.Config{DB: db, Rules: lexicons.NewRules(catalog, lexicons.Settings{}), Now: clock})
	require.NoError(t, err)
	return x
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

func (a *author) uri(collection syntax.NSID, rkey string) syntax.ATURI {
	return syntax.ATURI(fmt.Sprintf("at://%s/%s/%s", a.did, collection, rkey))
}

// put makes the commit that creates or rewrites a record.
func (a *author) put(t require.TestingT, collection syntax.NSID, rkey string, value map[string]any) (*index.Commit, lexicons.StrongRef) {
	rec, err := lexicons.ParseValue(collection, value)
	require.NoError(t, err)
	op := index.Operation{Action: lexicons.Create, Collection: collection, RecordKey: syntax.RecordKey(rkey), CID: rec.CID, Record: rec.CBOR}
	path := string(collection) + "/" + rkey
	if was, ok := a.held[path]; ok {
		op.Action, op.Prev = lexicons.Update, was.CID
	}
	a.held[path] = op
	return a.commit(op), lexicons.StrongRef{URI: a.uri(collection, rkey), CID: rec.CID}
}

func (a *author) drop(collection syntax.NSID, rkey string) *index.Commit {
	path := string(collection) + "/" + rkey
	op := index.Operation{Action: lexicons.Delete, Collection: collection, RecordKey: syntax.RecordKey(rkey), Prev: a.held[path].CID}
	delete(a.held, path)
	return a.commit(op)
}

func (a *author) commit(ops ...index.Operation) *index.Commit {
	a.revs++
	rev := clockworkTID(a.revs)
	block := []byte(fmt.Sprintf("commit %s of %s", rev, a.did))
	c, err := cid.V1Builder{Codec: cid.DagCBOR, MhType: 0x12}.Sum(block)
	if err != nil {
		panic(err)
	}
	return &index.Commit{DID: a.did, Rev: rev, CID: c, Data: c, Ops: ops, Proof: []index.Block{{CID: c, Data: block}}}
}

func observation(text string, supersedes *lexicons.StrongRef) map[string]any {
	v := map[string]any{
		"source": map[string]any{"kind": "command", "value": "uname -a"}, "method": "bash", "text": text,
		"observedAt": "2026-11-30T10:00:00.000Z", "createdAt": "2026-11-30T10:00:01.000Z",
		"generator": map[string]any{"run": string(clockworkTID(1)), "device": "lab-1", "model": "m-1"},
	}
	if supersedes != nil {
		v["supersedes"] = map[string]any{"uri": string(supersedes.URI), "cid": supersedes.CID.String()}
	}
	return v
}

// apply takes in events one by one, as they would come from a live stream.
func apply(t testing.TB, x *index.Index, events ...index.Event) {
	t.Helper()
	for _, e := range events {
		require.NoError(t, x.Apply(t.Context(), "test", 0, []index.Event{e}))
	}
}

func codes(found []index.Finding) []string {
	out := []string{}
	for _, f := range found {
		out = append(out, f.Code)
	}
	return out
}

func uris(refs ...lexicons.StrongRef) []syntax.ATURI {
	out := make([]syntax.ATURI, len(refs))
	for i, r := range refs {
		out[i] = r.URI
	}
	return out
}

func parseNSID(s string) syntax.NSID {
	n, err := syntax.ParseNSID(s)
	if err != nil {
		panic(err)
	}
	return n
}
