package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/appview"
	"herbarium.garden/appview/index"
	"herbarium.garden/appview/ingest"
	"herbarium.garden/blobstore"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/repostore"
	"herbarium.garden/pds/sequencer"
)

// ownSourceName is the name under which the index keeps its cursor in the
// event log of the PDS in this process.
const ownSourceName = "own"

// ownHost is the PDS in this process as the appview sees it: what it would
// learn over XRPC from any host, without the network.
type ownHost struct {
	accounts  *account.Store
	repos     *repostore.Store
	events    *sequencer.Sequencer
	blobs     *blobstore.Store
	publicURL string
	team      []syntax.DID
}

// Name implements ingest.Source.
func (h *ownHost) Name() string { return ownSourceName }

// ReadFrom implements ingest.Source.
func (h *ownHost) ReadFrom(ctx context.Context, cursor int64, limit int) ([]ingest.RawEvent, error) {
	oldest, err := h.events.Oldest(ctx)
	if err != nil {
		return nil, err
	}
	if cursor < oldest {
		return nil, &ingest.OutdatedCursorError{Oldest: oldest}
	}
	events, err := h.events.ReadFrom(ctx, cursor, limit)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 {
		if last, err := h.events.Last(ctx); err != nil {
			return nil, err
		} else if last < cursor {
			return nil, fmt.Errorf("the event log ends at %d, before the index's cursor %d", last, cursor)
		}
	}
	raw := make([]ingest.RawEvent, len(events))
	for i, e := range events {
		raw[i] = ingest.RawEvent{Seq: e.Seq, Frame: e.Frame}
	}
	return raw, nil
}

// Wait implements ingest.Source.
func (h *ownHost) Wait(ctx context.Context, cursor int64) error { return h.events.Wait(ctx, cursor) }

// FetchRepo implements ingest.RepoFetcher.
func (h *ownHost) FetchRepo(ctx context.Context, did syntax.DID) (io.ReadCloser, error) {
	held, err := h.accounts.Get(ctx, did)
	if errors.Is(err, account.ErrNotFound) || err == nil && !held.Active() {
		return nil, ingest.ErrRepoGone
	}
	if err != nil {
		return nil, err
	}
	if _, err := h.repos.Head(ctx, did); errors.Is(err, repostore.ErrRepoNotFound) {
		return nil, ingest.ErrRepoGone
	} else if err != nil {
		return nil, err
	}
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(h.repos.ExportCAR(ctx, did, "", writer)) }() // ends when the reader closes
	return reader, nil
}

// ListRepos implements ingest.RepoFetcher.
func (h *ownHost) ListRepos(ctx context.Context, cursor string, limit int) ([]ingest.HostedRepo, string, error) {
	after := int64(0)
	if cursor != "" {
		var err error
		if after, err = strconv.ParseInt(cursor, 10, 64); err != nil {
			return nil, "", err
		}
	}
	infos, err := h.repos.ListRepos(ctx, after, limit)
	if err != nil {
		return nil, "", err
	}
	repos, next := make([]ingest.HostedRepo, len(infos)), ""
	for i, info := range infos {
		held, err := h.accounts.Get(ctx, info.DID)
		if err != nil {
			return nil, "", err
		}
		repos[i] = ingest.HostedRepo{DID: info.DID, Active: held.Active(), Status: held.HostedStatus()}
		next = strconv.FormatInt(info.Cursor, 10)
	}
	return repos, next, nil
}

// Members implements appview.Directory: hosted here, or named by the operator.
func (h *ownHost) Members(ctx context.Context, dids []syntax.DID) (map[syntax.DID]bool, error) {
	members := map[syntax.DID]bool{}
	team := setOf(h.team)
	for _, did := range dids {
		if team[did] {
			members[did] = true
			continue
		}
		switch _, err := h.accounts.Get(ctx, did); {
		case err == nil:
			members[did] = true
		case !errors.Is(err, account.ErrNotFound):
			return nil, err
		}
	}
	return members, nil
}

// Endpoint implements appview.Directory.
func (h *ownHost) Endpoint(ctx context.Context, did syntax.DID) (string, error) {
	_, err := h.accounts.Get(ctx, did)
	if errors.Is(err, account.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return h.publicURL, nil
}

// TakenDown implements appview.Directory: of the blobs that are hosted here.
func (h *ownHost) TakenDown(ctx context.Context, blobs []appview.BlobID) (map[appview.BlobID]bool, error) {
	subjects := make([]repostore.Subject, len(blobs))
	for i, b := range blobs {
		subjects[i] = repostore.BlobSubject(b.DID, b.CID)
	}
	taken, err := h.repos.TakenDown(ctx, subjects)
	if err != nil {
		return nil, err
	}
	down := map[appview.BlobID]bool{}
	for i, b := range blobs {
		if taken[subjects[i]] {
			down[b] = true
		}
	}
	return down, nil
}

// OpenContent implements index.Content: of the blobs that are hosted here, those
// that a record refers to and that are served.
func (h *ownHost) OpenContent(ctx context.Context, did syntax.DID, c cid.Cid) (io.ReadCloser, error) {
	blob, referenced, err := h.repos.GetBlob(ctx, did, c)
	if errors.Is(err, repostore.ErrBlobNotFound) || err == nil && (!referenced || blob.Quarantined) {
		return nil, fmt.Errorf("blob %s of %s: %w", c, did, index.ErrNoContent)
	}
	if err != nil {
		return nil, err
	}
	return h.blobs.Open(ctx, c)
}
