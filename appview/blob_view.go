package appview

import (
	"context"
	"net/url"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
)

// BlobID names a blob in a repo; another repo may have the same bytes.
type BlobID struct {
	DID syntax.DID
	CID cid.Cid
}

// blobView is garden.herbarium.defs#blobView.
type blobView struct {
	CID       syntax.CID `json:"cid"`
	MimeType  string     `json:"mimeType"`
	Size      int64      `json:"size"`
	URL       string     `json:"url,omitempty"`
	TakenDown bool       `json:"takenDown,omitempty"`
}

// blobHosts is what the hosts of the blobs of an answer say of them.
type blobHosts struct {
	endpoints map[syntax.DID]string // base URLs, "" when unknown
	takenDown map[BlobID]bool
}

// blobHosts asks about the blobs that a view is going to show.
func (a *Appview) blobHosts(ctx context.Context, shown []BlobID) (blobHosts, error) {
	hosts := blobHosts{endpoints: map[syntax.DID]string{}}
	for _, blob := range shown {
		if _, known := hosts.endpoints[blob.DID]; known {
			continue
		}
		endpoint, err := a.directory.Endpoint(ctx, blob.DID)
		if err != nil {
			return hosts, err
		}
		hosts.endpoints[blob.DID] = endpoint
	}
	var err error
	hosts.takenDown, err = a.directory.TakenDown(ctx, shown)
	return hosts, err
}

// view tells where the blob can be fetched, when that is known and it can be.
func (h blobHosts) view(b *lexicons.BlobRef, did syntax.DID) *blobView {
	if b == nil {
		return nil
	}
	view := &blobView{CID: viewCID(b.CID), MimeType: b.MimeType, Size: b.Size}
	if h.takenDown[BlobID{did, b.CID}] {
		view.TakenDown = true
		return view
	}
	if base, err := url.Parse(h.endpoints[did]); err == nil && base.Host != "" {
		at := base.JoinPath("xrpc", "com.atproto.sync.getBlob")
		at.RawQuery = url.Values{"did": {string(did)}, "cid": {b.CID.String()}}.Encode()
		view.URL = at.String()
	}
	return view
}

// contentOf is the blob that holds what an observation observed, if any.
func contentOf(r index.Record) []BlobID {
	content := lexicons.ReadObservation(decodeRecord(r)).Content
	if content == nil {
		return nil
	}
	return []BlobID{{r.DID, content.CID}}
}
