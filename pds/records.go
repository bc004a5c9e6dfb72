package pds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/repostore"
)

// accountOf finds the hosted account that a repo parameter names.
func (p *PDS) accountOf(ctx context.Context, repo syntax.AtIdentifier) (account.Account, error) {
	if repo.IsDID() {
		return p.accounts.Get(ctx, repo.DID())
	}
	return p.accounts.GetByHandle(ctx, repo.Handle().Normalize())
}

// openRepo finds the account whose repo v asks to read, with the method that
// ctx is a call of. A repo that is not active is shown to its owner and the
// admin only; others get the name of its state. A scoped credential opens its
// own repo, and is not told of others, unless an rpc: names the method.
func (p *PDS) openRepo(ctx context.Context, v xrpc.Viewer, repo syntax.AtIdentifier) (account.Account, error) {
	a, err := p.accountOf(ctx, repo)
	if err := p.mayReadRepo(v, xrpc.CallFrom(ctx).NSID, err == nil && a.DID == v.DID); err != nil {
		return account.Account{}, err
	}
	if errors.Is(err, account.ErrNotFound) || err == nil && a.Status == account.Deleted {
		return account.Account{}, repostore.ErrRepoNotFound
	}
	if err != nil {
		return account.Account{}, err
	}
	if a.Active() || v.IsAdmin() || v.Kind == xrpc.Account && v.DID == a.DID && v.Member {
		return a, nil
	}
	return account.Account{}, hiddenRepo(a.Status)
}

func hiddenRepo(status account.Status) error {
	switch status {
	case account.TakenDown:
		return xrpc.Errorf(400, "RepoTakendown", "the repo has been taken down; its content is not available")
	case account.Suspended:
		return xrpc.Errorf(400, "RepoSuspended", "the repo is suspended; its content is not available")
	default:
		return xrpc.Errorf(400, "RepoDeactivated", "the repo is deactivated by its owner; its content is not available until it is activated again")
	}
}

// recordView is a record as com.atproto.repo serves it.
type recordView struct {
	URI   syntax.ATURI    `json:"uri"`
	CID   string          `json:"cid"`
	Value json.RawMessage `json:"value"`
}

func viewRecord(did syntax.DID, collection syntax.NSID, r repostore.StoredRecord) (recordView, error) {
	value, err := recordJSON(r.CBOR)
	if err != nil {
		return recordView{}, err
	}
	return recordView{
		URI: syntax.ATURI("at://" + string(did) + "/" + string(collection) + "/" + string(r.RecordKey)),
		CID: r.CID.String(), Value: value,
	}, nil
}

type getRecordParams struct {
	Repo       syntax.AtIdentifier `param:"repo"`
	Collection syntax.NSID         `param:"collection"`
	RecordKey  syntax.RecordKey    `param:"rkey"`
	CID        *cid.Cid            `param:"cid"` // the version wanted; only the current one is here
}

// getRecordOutput is a recordView; only the lexicon has cid optional in one of
// the two.
type getRecordOutput struct {
	URI   syntax.ATURI    `json:"uri"`
	CID   string          `json:"cid,omitempty"`
	Value json.RawMessage `json:"value"`
}

func (p *PDS) getRecord(ctx context.Context, v xrpc.Viewer, in getRecordParams) (*getRecordOutput, error) {
	a, err := p.openRepo(ctx, v, in.Repo)
	if err != nil {
		return nil, notHere(err)
	}
	if !p.published(v).has(in.Collection) {
		// What cannot be shown is not looked up: the time tells nothing either.
		return nil, repostore.RecordNotFound(a.DID, in.Collection, in.RecordKey)
	}
	r, err := p.repos.GetRecord(ctx, a.DID, in.Collection, in.RecordKey)
	if err != nil {
		return nil, err
	}
	if in.CID != nil && !in.CID.Equals(r.CID) {
		return nil, xrpc.Errorf(400, "RecordNotFound", "the record has another version now; leave out cid, or ask garden.herbarium.getRecord for the old one; current %s", r.CID)
	}
	view, err := viewRecord(a.DID, in.Collection, r)
	if err != nil {
		return nil, err
	}
	out := getRecordOutput(view)
	return &out, nil
}

// notHere is what the methods of com.atproto.repo, which declare no such
// names, answer for a repo that they cannot show.
func notHere(err error) error {
	var answered *xrpc.Error
	if errors.Is(err, repostore.ErrRepoNotFound) || errors.As(err, &answered) && answered.Status == http.StatusBadRequest {
		return xrpc.InvalidRequest("Could not find repo; ask com.atproto.sync.getRepoStatus for its state here")
	}
	return err
}

type listRecordsParams struct {
	Repo       syntax.AtIdentifier `param:"repo"`
	Collection syntax.NSID         `param:"collection"`
	Limit      int                 `param:"limit"`
	Cursor     string              `param:"cursor"`
	Reverse    bool                `param:"reverse"`
}

type listRecordsOutput struct {
	Cursor  string       `json:"cursor,omitempty"` // rkey of the last record shown, also on the last page
	Records []recordView `json:"records"`
}

func (p *PDS) listRecords(ctx context.Context, v xrpc.Viewer, in listRecordsParams) (*listRecordsOutput, error) {
	a, err := p.openRepo(ctx, v, in.Repo)
	if err != nil {
		return nil, notHere(err)
	}
	var after syntax.RecordKey
	if in.Cursor != "" {
		if after, err = syntax.ParseRecordKey(in.Cursor); err != nil {
			return nil, xrpc.InvalidRequest("the cursor is not one of this list; leave it out to start again")
		}
	}
	if !p.published(v).has(in.Collection) {
		return &listRecordsOutput{}, nil
	}
	rows, err := p.repos.ListRecords(ctx, a.DID, in.Collection, after, in.Reverse, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listRecordsOutput{Records: make([]recordView, len(rows))}
	for i, r := range rows {
		if out.Records[i], err = viewRecord(a.DID, in.Collection, r); err != nil {
			return nil, err
		}
		out.Cursor = string(r.RecordKey)
	}
	return out, nil
}

type describeRepoParams struct {
	Repo syntax.AtIdentifier `param:"repo"`
}

type describeRepoOutput struct {
	Handle          syntax.Handle     `json:"handle"`
	DID             syntax.DID        `json:"did"`
	DIDDoc          *account.Document `json:"didDoc"`
	Collections     []syntax.NSID     `json:"collections"`
	HandleIsCorrect bool              `json:"handleIsCorrect"`
}

func (p *PDS) describeRepo(ctx context.Context, v xrpc.Viewer, in describeRepoParams) (*describeRepoOutput, error) {
	a, err := p.openRepo(ctx, v, in.Repo)
	if err != nil {
		return nil, err
	}
	collections, err := p.repos.Collections(ctx, a.DID)
	if err != nil {
		return nil, err
	}
	shown := p.published(v)
	collections = slices.DeleteFunc(collections, func(c syntax.NSID) bool { return !shown.has(c) })
	document, err := p.accounts.Document(ctx, a.DID)
	if err != nil {
		return nil, err
	}
	ident, err := p.directory.LookupDID(ctx, a.DID)
	return &describeRepoOutput{
		Handle: a.Handle, DID: a.DID, DIDDoc: document, Collections: append([]syntax.NSID{}, collections...),
		HandleIsCorrect: err == nil && ident.Handle == a.Handle,
	}, nil
}

// recordJSON is a stored record as JSON. Only the answer is made anew: the
// signed bytes stay as they are.
func recordJSON(cbor []byte) (json.RawMessage, error) {
	value, err := atdata.UnmarshalCBOR(cbor)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // text goes out the way it came in
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}
