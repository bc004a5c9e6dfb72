package xrpc_test

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

// The real catalog, with the shapes that the PDS has to register: a tri-state
// swap, a union of writes, an upload, a CAR, the firehose.
func TestMethodsOfTheRealCatalogFit(t *testing.T) {
	loaded, err := lexicons.Load()
	require.NoError(t, err)
	s := newSite(t, func(c *xrpc.Config) { c.Catalog = loaded })

	type commitMeta struct {
		CID syntax.CID `json:"cid"`
		Rev syntax.TID `json:"rev"`
	}
	type writeInput struct {
		Repo       syntax.AtIdentifier       `json:"repo"`
		Collection syntax.NSID               `json:"collection"`
		Rkey       syntax.RecordKey          `json:"rkey"`
		Validate   *bool                     `json:"validate"`
		Record     json.RawMessage           `json:"record"`
		SwapRecord xrpc.Nullable[syntax.CID] `json:"swapRecord"`
		SwapCommit syntax.CID                `json:"swapCommit"`
	}
	type writeOutput struct {
		URI              syntax.ATURI       `json:"uri"`
		CID              syntax.CID         `json:"cid"`
		Commit           *commitMeta        `json:"commit,omitempty"`
		ValidationStatus string             `json:"validationStatus,omitempty"`
		Findings         []lexicons.Finding `json:"findings,omitempty" xrpc:"extra"`
	}
	var put writeInput
	require.NoError(t, xrpc.Procedure(s.Server, "com.atproto.repo.putRecord", xrpc.AccessToken,
		func(_ context.Context, v xrpc.Viewer, in writeInput) (*writeOutput, error) {
			put = in
			return &writeOutput{URI: "at://did:web:scout.test/app.a.post/1", CID: "bafyreihu7ll3vlzbxt7ju5l4nmdctv2kruoxyoqn7gnnhxvnqfrxfk4dfu"}, nil
		}))

	type batchInput struct {
		Repo       syntax.AtIdentifier `json:"repo"`
		Validate   *bool               `json:"validate"`
		Writes     []json.RawMessage   `json:"writes"`
		SwapCommit syntax.CID          `json:"swapCommit"`
	}
	type batchOutput struct {
		Commit  *commitMeta `json:"commit,omitempty"`
		Results []any       `json:"results,omitempty"`
	}
	require.NoError(t, xrpc.Procedure(s.Server, "com.atproto.repo.applyWrites", xrpc.AccessToken,
		func(context.Context, xrpc.Viewer, batchInput) (*batchOutput, error) { return &batchOutput{}, nil }))

	type repoParams struct {
		DID   syntax.DID `param:"did"`
		Since syntax.TID `param:"since"`
	}
	require.NoError(t, xrpc.Stream(s.Server, "com.atproto.sync.getRepo", xrpc.Read,
		func(context.Context, *xrpc.Call, repoParams) error { return nil }))

	type blobOutput struct {
		Blob json.RawMessage `json:"blob"`
	}
	require.NoError(t, xrpc.Upload(s.Server, "com.atproto.repo.uploadBlob", xrpc.AccessToken,
		func(context.Context, *xrpc.Call, io.Reader) (*blobOutput, error) { return &blobOutput{}, nil }, xrpc.MaxBody(1<<20)))

	type subscribeParams struct {
		Cursor *int64 `param:"cursor"`
	}
	require.NoError(t, xrpc.Subscription(s.Server, "com.atproto.sync.subscribeRepos", xrpc.Read,
		func(context.Context, *xrpc.Call, subscribeParams) error { return nil }))
	require.NoError(t, s.Route("GET", "/xrpc/_health", xrpc.Open, func(_ context.Context, call *xrpc.Call) error {
		_, err := io.WriteString(call.Writer, `{"version":"test"}`)
		return err
	}))
	s.start(t)

	require.Equal(t, 200, s.get(t, "/xrpc/_health").status, "no method, and not taken for one")
	auth := []string{"Authorization", "Bearer account"}
	a := s.post(t, "/xrpc/com.atproto.repo.putRecord", `{"repo":"did:web:scout.test","collection":"app.a.post","rkey":"1","record":{"n":9007199254740993},"swapRecord":null}`, auth...)
	require.Equal(t, 200, a.status, a.body)
	require.True(t, put.SwapRecord.Set && put.SwapRecord.Null)
	require.Equal(t, `{"n":9007199254740993}`, string(put.Record), "an integer past 2^53 reaches the record parser as written")

	create := `{"$type":"com.atproto.repo.applyWrites#create","collection":"app.a.post","value":{}}`
	a = s.post(t, "/xrpc/com.atproto.repo.applyWrites", `{"repo":"scout.test","writes":[`+create+`]}`, auth...)
	require.Equal(t, 200, a.status, a.body)
	for name, write := range map[string]string{
		"no $type":         `{"collection":"app.a.post","value":{}}`,
		"another $type":    `{"$type":"com.atproto.repo.applyWrites#move"}`,
		"no record":        `{"$type":"com.atproto.repo.applyWrites#create","collection":"app.a.post"}`,
		"update sans rkey": `{"$type":"com.atproto.repo.applyWrites#update","collection":"app.a.post","value":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			a := s.post(t, "/xrpc/com.atproto.repo.applyWrites", `{"repo":"scout.test","writes":[`+create+`,`+write+`]}`, auth...)
			require.Equal(t, 400, a.status)
			require.Contains(t, a.body, "writes[1]")
		})
	}
}

// What the adapter does not do must not be asked of it by any lexicon here.
func TestEveryMethodOfTheCatalogCanBeRegistered(t *testing.T) {
	loaded, err := lexicons.Load()
	require.NoError(t, err)
	for m := range loaded.Methods() {
		if m.Kind == lexicons.Procedure {
			require.True(t, m.Parameters == nil || len(m.Parameters.Properties) == 0, "%s has parameters and a body", m.NSID)
		}
		if m.Input != nil && m.Input.Schema != nil {
			require.Equal(t, "application/json", m.Input.Encoding, m.NSID)
		}
	}
}
