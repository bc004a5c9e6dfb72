package pds

import (
	"context"
	"errors"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/repostore"
)

const listStorageMethod = "garden.herbarium.admin.listStorage"

func (p *PDS) registerStorage(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Query(s, "garden.herbarium.admin.getStorageStatus", xrpc.AdminOnly, p.getStorageStatus),
		xrpc.Query(s, listStorageMethod, xrpc.AdminOnly, p.listStorage),
		xrpc.Query(s, listBlobSecretsMethod, xrpc.AdminOnly, p.listBlobSecrets),
	)
}

// amountView is garden.herbarium.admin.getStorageStatus#amount.
type amountView struct {
	Blobs int64 `json:"blobs"`
	Bytes int64 `json:"bytes"`
}

// scrubView is garden.herbarium.admin.getStorageStatus#scrub.
type scrubView struct {
	EverySeconds   int64      `json:"everySeconds"`
	BytesPerSecond int64      `json:"bytesPerSecond"`
	Running        bool       `json:"running"`
	Checked        amountView `json:"checked"`
	OldestCheck    string     `json:"oldestCheck,omitempty"`
}

// searchView is garden.herbarium.admin.getStorageStatus#search.
type searchView struct {
	Unsearched int64 `json:"unsearched"`
	Blobs      int64 `json:"blobs"`
}

type getStorageStatusOutput struct {
	Accounts    amountView `json:"accounts"`
	Live        amountView `json:"live"`
	Trash       amountView `json:"trash"`
	Quarantined amountView `json:"quarantined"`
	Missing     int64      `json:"missing"`
	Scrub       scrubView  `json:"scrub"`
	Secrets     searchView `json:"secrets"`
}

func (p *PDS) getStorageStatus(ctx context.Context, _ xrpc.Viewer, _ xrpc.None) (*getStorageStatusOutput, error) {
	status, err := p.StorageStatus(ctx)
	if err != nil {
		return nil, err
	}
	out := &getStorageStatusOutput{
		Accounts:    amountView{status.Accounts.Count, status.Accounts.Bytes},
		Live:        amountView{status.Live.Count, status.Live.Bytes},
		Trash:       amountView{status.Trash.Count, status.Trash.Bytes},
		Quarantined: amountView{status.Quarantined.Count, status.Quarantined.Bytes},
		Missing:     status.Missing,
		Secrets:     searchView{Unsearched: status.Secrets.Unsearched, Blobs: status.Secrets.Blobs},
		Scrub: scrubView{
			EverySeconds: int64(status.Scrub.Every.Seconds()), BytesPerSecond: status.Scrub.Rate, Running: status.Running,
			Checked: amountView{status.Checked.Count, status.Checked.Bytes},
		},
	}
	if !status.OldestCheck.IsZero() {
		out.Scrub.OldestCheck = migrations.FormatTime(status.OldestCheck)
	}
	return out, nil
}

type listStorageParams struct {
	Order  repostore.UsageOrder `param:"order"`
	Limit  int                  `param:"limit"`
	Cursor string               `param:"cursor"`
}

// usageView is garden.herbarium.admin.listStorage#usage.
type usageView struct {
	DID       syntax.DID    `json:"did"`
	Handle    syntax.Handle `json:"handle,omitempty"`
	Records   int64         `json:"records"`
	Blobs     int64         `json:"blobs"`
	BlobBytes int64         `json:"blobBytes"`

	QuarantinedBlobs int64 `json:"quarantinedBlobs"`
	MissingBlobs     int64 `json:"missingBlobs"`
}

type listStorageOutput struct {
	Cursor   string      `json:"cursor,omitempty"`
	Accounts []usageView `json:"accounts"`
}

func (p *PDS) listStorage(ctx context.Context, _ xrpc.Viewer, in listStorageParams) (*listStorageOutput, error) {
	// A cursor of one order means nothing in the other.
	list := listStorageMethod + "?order=" + string(in.Order)
	var after repostore.UsagePosition
	if in.Cursor != "" {
		var err error
		if after, err = xrpc.DecodeCursor[repostore.UsagePosition](list, in.Cursor); err != nil {
			return nil, err
		}
	}
	page, next, err := p.repos.ListUsage(ctx, in.Order, after, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listStorageOutput{Accounts: make([]usageView, len(page))}
	for i, u := range page {
		out.Accounts[i] = usageView{
			DID: u.DID, Records: u.Records, Blobs: u.Blobs, BlobBytes: u.BlobBytes, QuarantinedBlobs: u.Quarantined, MissingBlobs: u.Missing,
		}
		a, err := p.accounts.Get(ctx, u.DID)
		if err != nil && !errors.Is(err, account.ErrNotFound) {
			return nil, err
		}
		out.Accounts[i].Handle = a.Handle
	}
	if next != (repostore.UsagePosition{}) {
		out.Cursor = xrpc.EncodeCursor(list, next)
	}
	return out, nil
}
