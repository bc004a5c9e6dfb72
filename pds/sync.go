package pds

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/repostore"
)

func (p *PDS) registerSync(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Stream(s, "com.atproto.sync.getRepo", xrpc.Read, p.getRepo, xrpc.JudgesGrants()),
		xrpc.Stream(s, "com.atproto.sync.getRecord", xrpc.Read, p.proveRecord, xrpc.JudgesGrants()),
		xrpc.Stream(s, "com.atproto.sync.getBlocks", xrpc.Read, p.getBlocks, xrpc.JudgesGrants()),
		xrpc.Query(s, "com.atproto.sync.getLatestCommit", xrpc.Read, p.getLatestCommit, xrpc.JudgesGrants()),
		xrpc.Query(s, "com.atproto.sync.getRepoStatus", xrpc.Read, p.getRepoStatus, xrpc.JudgesGrants()),
		xrpc.Query(s, "com.atproto.sync.listRepos", xrpc.Read, p.listRepos),
		xrpc.Query(s, "com.atproto.sync.listBlobs", xrpc.Read, p.listBlobs, xrpc.JudgesGrants()),
		xrpc.Subscription(s, "com.atproto.sync.subscribeRepos", xrpc.Read, p.subscribeRepos),
	)
}

const carType = "application/vnd.ipld.car"

type getRepoParams struct {
	DID   syntax.DID  `param:"did"`
	Since *syntax.TID `param:"since"`
}

func (p *PDS) getRepo(ctx context.Context, call *xrpc.Call, in getRepoParams) error {
	a, err := p.openRepo(ctx, call.Viewer, in.DID.AtIdentifier())
	if err != nil {
		return err
	}
	var since syntax.TID
	if in.Since != nil {
		since = *in.Since
	}
	out := carWriter{to: call.Writer}
	return p.repos.ExportCAR(ctx, a.DID, since, &out)
}

type proveRecordParams struct {
	DID        syntax.DID       `param:"did"`
	Collection syntax.NSID      `param:"collection"`
	RecordKey  syntax.RecordKey `param:"rkey"`
}

// proveRecord is com.atproto.sync.getRecord. For a record that is not there
// the answer is a proof of that.
func (p *PDS) proveRecord(ctx context.Context, call *xrpc.Call, in proveRecordParams) error {
	a, err := p.openRepo(ctx, call.Viewer, in.DID.AtIdentifier())
	if err != nil {
		return err
	}
	out := carWriter{to: call.Writer}
	return p.repos.ProveRecord(ctx, a.DID, in.Collection, in.RecordKey, &out)
}

type getBlocksParams struct {
	DID  syntax.DID `param:"did"`
	CIDs []cid.Cid  `param:"cids"`
}

// getBlocks answers blocks of the repo's present state, by CID: all that are
// asked for, or none.
func (p *PDS) getBlocks(ctx context.Context, call *xrpc.Call, in getBlocksParams) error {
	if len(in.CIDs) > repostore.MaxBlocks {
		return xrpc.InvalidRequest("cids has %d items; ask for at most %d at a time", len(in.CIDs), repostore.MaxBlocks)
	}
	a, err := p.openRepo(ctx, call.Viewer, in.DID.AtIdentifier())
	if err != nil {
		return err
	}
	out := carWriter{to: call.Writer}
	return p.repos.ExportBlocks(ctx, a.DID, in.CIDs, &out)
}

// carWriter sets the headers with the first byte, so that an error before it
// is still answered as JSON.
type carWriter struct {
	to      http.ResponseWriter
	started bool
}

var _ io.Writer = (*carWriter)(nil)

func (w *carWriter) Write(b []byte) (int, error) {
	if !w.started {
		w.started = true
		w.to.Header().Set("Content-Type", carType)
		w.to.WriteHeader(http.StatusOK)
	}
	return w.to.Write(b)
}

type didParams struct {
	DID syntax.DID `param:"did"`
}

type getLatestCommitOutput struct {
	CID string     `json:"cid"`
	Rev syntax.TID `json:"rev"`
}

func (p *PDS) getLatestCommit(ctx context.Context, v xrpc.Viewer, in didParams) (*getLatestCommitOutput, error) {
	a, err := p.openRepo(ctx, v, in.DID.AtIdentifier())
	if err != nil {
		return nil, err
	}
	head, err := p.repos.Head(ctx, a.DID)
	if err != nil {
		return nil, err
	}
	return &getLatestCommitOutput{CID: head.Commit.String(), Rev: head.Rev}, nil
}

type getRepoStatusOutput struct {
	DID    syntax.DID `json:"did"`
	Active bool       `json:"active"`
	Status string     `json:"status,omitempty"` // only while not active
	Rev    syntax.TID `json:"rev,omitempty"`    // only while active
}

// getRepoStatus answers for hidden repos too: that they are hidden is what it
// is there to say.
func (p *PDS) getRepoStatus(ctx context.Context, v xrpc.Viewer, in didParams) (*getRepoStatusOutput, error) {
	if err := p.mayReadRepo(v, xrpc.CallFrom(ctx).NSID, in.DID == v.DID); err != nil {
		return nil, err
	}
	a, err := p.accounts.Get(ctx, in.DID)
	if errors.Is(err, account.ErrNotFound) {
		return nil, repostore.ErrRepoNotFound
	}
	if err != nil {
		return nil, err
	}
	out := &getRepoStatusOutput{DID: a.DID, Active: a.Active(), Status: a.HostedStatus()}
	if !a.Active() {
		return out, nil
	}
	head, err := p.repos.Head(ctx, a.DID)
	if err != nil {
		return nil, err
	}
	out.Rev = head.Rev
	return out, nil
}

type cursorParams struct {
	Limit  int    `param:"limit"`
	Cursor string `param:"cursor"`
}

type listReposOutput struct {
	Cursor string      `json:"cursor,omitempty"`
	Repos  []repoEntry `json:"repos"`
}

type repoEntry struct {
	DID    syntax.DID `json:"did"`
	Head   string     `json:"head"`
	Rev    syntax.TID `json:"rev"`
	Active bool       `json:"active"`
	Status string     `json:"status,omitempty"`
}

const listReposMethod = "com.atproto.sync.listRepos"

func (p *PDS) listRepos(ctx context.Context, _ xrpc.Viewer, in cursorParams) (*listReposOutput, error) {
	var after int64
	var err error
	if in.Cursor != "" {
		if after, err = xrpc.DecodeCursor[int64](listReposMethod, in.Cursor); err != nil {
			return nil, err
		}
	}
	rows, err := p.repos.ListRepos(ctx, after, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listReposOutput{Repos: make([]repoEntry, len(rows))}
	for i, r := range rows {
		a, err := p.accounts.Get(ctx, r.DID)
		if err != nil {
			return nil, err
		}
		out.Repos[i] = repoEntry{DID: r.DID, Head: r.Commit.String(), Rev: r.Rev, Active: a.Active(), Status: a.HostedStatus()}
	}
	if len(rows) == in.Limit {
		out.Cursor = xrpc.EncodeCursor(listReposMethod, rows[len(rows)-1].Cursor)
	}
	return out, nil
}

type listBlobsParams struct {
	DID    syntax.DID  `param:"did"`
	Since  *syntax.TID `param:"since"`
	Limit  int         `param:"limit"`
	Cursor string      `param:"cursor"`
}

type listBlobsOutput struct {
	Cursor string   `json:"cursor,omitempty"`
	CIDs   []string `json:"cids"`
}

func (p *PDS) listBlobs(ctx context.Context, v xrpc.Viewer, in listBlobsParams) (*listBlobsOutput, error) {
	a, err := p.openRepo(ctx, v, in.DID.AtIdentifier())
	if err != nil {
		return nil, err
	}
	after := cid.Undef
	if in.Cursor != "" {
		if after, err = parseCID("cursor", syntax.CID(in.Cursor)); err != nil {
			return nil, err
		}
	}
	var since syntax.TID
	if in.Since != nil {
		since = *in.Since
	}
	blobs, err := p.repos.ListBlobs(ctx, a.DID, since, after, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listBlobsOutput{CIDs: make([]string, len(blobs))}
	for i, c := range blobs {
		out.CIDs[i] = c.String()
	}
	if len(blobs) == in.Limit {
		out.Cursor = out.CIDs[len(blobs)-1]
	}
	return out, nil
}

type subscribeReposParams struct {
	Cursor *int64 `param:"cursor"`
}

func (p *PDS) subscribeRepos(_ context.Context, call *xrpc.Call, in subscribeReposParams) error {
	var admitted func(context.Context) bool
	if p.cfg.Visibility == xrpc.Team {
		admitted = func(ctx context.Context) bool { return p.auth.StillMember(ctx, call.Request, call.Viewer) }
	}
	return p.events.Serve(call.Writer, call.Request, in.Cursor, admitted)
}
