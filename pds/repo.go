package pds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/repostore"
)

func (p *PDS) registerRepo(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Procedure(s, "com.atproto.repo.createRecord", xrpc.AccessToken, p.createRecord, xrpc.JudgesGrants()),
		xrpc.Procedure(s, "com.atproto.repo.putRecord", xrpc.AccessToken, p.putRecord, xrpc.JudgesGrants()),
		xrpc.Procedure(s, "com.atproto.repo.deleteRecord", xrpc.AccessToken, p.deleteRecord, xrpc.JudgesGrants()),
		xrpc.Procedure(s, "com.atproto.repo.applyWrites", xrpc.AccessToken, p.applyWrites, xrpc.JudgesGrants()),
		xrpc.Upload(s, "com.atproto.repo.importRepo", xrpc.AccessToken, p.importRepo, xrpc.MaxBody(repostore.MaxImportBytes), xrpc.JudgesGrants()),
		xrpc.Procedure(s, "garden.herbarium.validateRecord", xrpc.Member, p.validateRecord),
		xrpc.Query(s, "com.atproto.repo.getRecord", xrpc.Published, p.getRecord, xrpc.JudgesGrants()),
		xrpc.Query(s, "com.atproto.repo.listRecords", xrpc.Published, p.listRecords, xrpc.JudgesGrants()),
		xrpc.Query(s, "com.atproto.repo.describeRepo", xrpc.Published, p.describeRepo, xrpc.JudgesGrants()),
	)
}

// commitMeta is com.atproto.repo.defs#commitMeta.
type commitMeta struct {
	CID string     `json:"cid"`
	Rev syntax.TID `json:"rev"`
}

func viewCommit(c *repostore.CommitMeta) *commitMeta {
	if c == nil {
		return nil
	}
	return &commitMeta{CID: c.CID.String(), Rev: c.Rev}
}

// writtenRecord is what createRecord and putRecord answer. Commit is absent
// when nothing changed. Findings are what the rules remark without refusing.
type writtenRecord struct {
	URI              syntax.ATURI              `json:"uri"`
	CID              string                    `json:"cid"`
	Commit           *commitMeta               `json:"commit,omitempty"`
	ValidationStatus lexicons.ValidationStatus `json:"validationStatus,omitempty"`
	Findings         []lexicons.Finding        `json:"findings,omitempty" xrpc:"extra"`
}

type createRecordInput struct {
	Repo       syntax.AtIdentifier `json:"repo"`
	Collection syntax.NSID         `json:"collection"`
	RecordKey  *syntax.RecordKey   `json:"rkey"`
	Validate   *bool               `json:"validate"`
	Record     json.RawMessage     `json:"record"`
	SwapCommit *syntax.CID         `json:"swapCommit"`
}

func (p *PDS) createRecord(ctx context.Context, v xrpc.Viewer, in createRecordInput) (*writtenRecord, error) {
	options, err := p.writeOptions(ctx, v, in.Repo, in.SwapCommit)
	if err != nil {
		return nil, err
	}
	if err := mayChange(v, in.Collection, lexicons.Create); err != nil {
		return nil, err
	}
	w, err := p.parseWrite(ctx, v.DID, lexicons.Create, in.Collection, p.keyOrNew(in.RecordKey), in.Record, validationMode(in.Validate))
	if err != nil {
		return nil, err
	}
	var replaced []repostore.Write
	if validationMode(in.Validate) != lexicons.ValidateSkip {
		if replaced, err = p.duplicates(ctx, v.DID, w.Write); err != nil {
			return nil, err
		}
		if err := mayDeleteAlong(v, replaced); err != nil {
			return nil, err
		}
	}
	return p.applyOne(ctx, v.DID, w, options, replaced...)
}

type putRecordInput struct {
	Repo       syntax.AtIdentifier       `json:"repo"`
	Collection syntax.NSID               `json:"collection"`
	RecordKey  syntax.RecordKey          `json:"rkey"`
	Validate   *bool                     `json:"validate"`
	Record     json.RawMessage           `json:"record"`
	SwapRecord xrpc.Nullable[syntax.CID] `json:"swapRecord"` // null: there must be none; absent: no matter
	SwapCommit *syntax.CID               `json:"swapCommit"`
}

func (p *PDS) putRecord(ctx context.Context, v xrpc.Viewer, in putRecordInput) (*writtenRecord, error) {
	options, err := p.writeOptions(ctx, v, in.Repo, in.SwapCommit)
	if err != nil {
		return nil, err
	}
	if err := mayChange(v, in.Collection, repostore.Put); err != nil {
		return nil, err
	}
	w, err := p.parseWrite(ctx, v.DID, repostore.Put, in.Collection, in.RecordKey, in.Record, validationMode(in.Validate))
	if err != nil {
		return nil, err
	}
	if w.SwapRecord, err = swapOf(in.SwapRecord); err != nil {
		return nil, err
	}
	return p.applyOne(ctx, v.DID, w, options)
}

type deleteRecordInput struct {
	Repo       syntax.AtIdentifier `json:"repo"`
	Collection syntax.NSID         `json:"collection"`
	RecordKey  syntax.RecordKey    `json:"rkey"`
	SwapRecord *syntax.CID         `json:"swapRecord"`
	SwapCommit *syntax.CID         `json:"swapCommit"`
}

type deleteRecordOutput struct {
	Commit *commitMeta `json:"commit,omitempty"`
}

func (p *PDS) deleteRecord(ctx context.Context, v xrpc.Viewer, in deleteRecordInput) (*deleteRecordOutput, error) {
	options, err := p.writeOptions(ctx, v, in.Repo, in.SwapCommit)
	if err != nil {
		return nil, err
	}
	if err := mayChange(v, in.Collection, lexicons.Delete); err != nil {
		return nil, err
	}
	w := repostore.Write{Action: repostore.Remove, Collection: in.Collection, RecordKey: in.RecordKey}
	if in.SwapRecord != nil {
		c, err := parseCID("swapRecord", *in.SwapRecord)
		if err != nil {
			return nil, err
		}
		w.SwapRecord = &repostore.SwapRecord{CID: &c}
	}
	if err := p.chargeWrites(ctx, w); err != nil {
		return nil, err
	}
	result, err := p.repos.Apply(ctx, v.DID, []repostore.Write{w}, options)
	if err != nil {
		return nil, writeError(err)
	}
	return &deleteRecordOutput{Commit: viewCommit(result.Commit)}, nil
}

// applyOne writes w, and with it whatever belongs into the same commit, which
// costs no points of its own.
func (p *PDS) applyOne(ctx context.Context, did syntax.DID, w parsedWrite, options repostore.Options, with ...repostore.Write) (*writtenRecord, error) {
	if err := p.chargeWrites(ctx, w.Write); err != nil {
		return nil, err
	}
	result, err := p.repos.Apply(ctx, did, append([]repostore.Write{w.Write}, with...), options)
	if err != nil {
		return nil, writeError(err)
	}
	written := result.Writes[0]
	return &writtenRecord{
		URI: written.URI, CID: written.CID.String(), Commit: viewCommit(result.Commit),
		ValidationStatus: w.status, Findings: append(w.findings, written.Findings...),
	}, nil
}

// writeError is what a write answers for an error of Apply. No write method
// declares RecordNotFound: a record that is missing under an update or delete
// is a fault of the request.
func writeError(err error) error {
	if errors.Is(err, repostore.ErrRecordNotFound) {
		return xrpc.InvalidRequest("%v", err)
	}
	return err
}

// writeOptions checks that the caller may write to repo, which must be its
// own, and reads its policy and swapCommit.
func (p *PDS) writeOptions(ctx context.Context, v xrpc.Viewer, repo syntax.AtIdentifier, swapCommit *syntax.CID) (repostore.Options, error) {
	var options repostore.Options
	if err := mayWrite(v); err != nil {
		return options, err
	}
	if err := p.isOwnRepo(ctx, v, repo); err != nil {
		return options, err
	}
	var err error
	if options.Policy, err = p.repoPolicy(ctx, v.DID); err != nil {
		return options, err
	}
	if swapCommit != nil {
		c, err := parseCID("swapCommit", *swapCommit)
		if err != nil {
			return options, err
		}
		options.SwapCommit = &c
	}
	return options, nil
}

// isOwnRepo refuses a repo parameter, a DID or a handle, that is not the
// caller's.
func (p *PDS) isOwnRepo(ctx context.Context, v xrpc.Viewer, repo syntax.AtIdentifier) error {
	if repo.DID() == v.DID {
		return nil
	}
	a, err := p.accountOf(ctx, repo)
	if err != nil {
		return err
	}
	if a.DID != v.DID {
		return xrpc.Errorf(http.StatusUnauthorized, "AuthenticationRequired", "the repo is another account's; set repo to %s, or sign in as its owner", v.DID)
	}
	return nil
}

// validationMode reads the parameter validate: absent, true or false.
func validationMode(validate *bool) lexicons.ValidationMode {
	switch {
	case validate == nil:
		return lexicons.ValidateKnown
	case *validate:
		return lexicons.ValidateRequired
	default:
		return lexicons.ValidateSkip
	}
}

// parsedWrite is a write that nothing but the state of the repo can still
// refuse.
type parsedWrite struct {
	repostore.Write
	status   lexicons.ValidationStatus
	findings []lexicons.Finding // remarks that do not refuse it
}

// parseWrite makes a write of a client's record: data model, lexicon and the
// rules that need no state. What needs the repo is Apply's.
func (p *PDS) parseWrite(ctx context.Context, did syntax.DID, action lexicons.Action, collection syntax.NSID, rkey syntax.RecordKey, raw json.RawMessage, mode lexicons.ValidationMode) (parsedWrite, error) {
	if err := lexicons.RequireValidation(collection, mode); err != nil {
		return parsedWrite{}, err
	}
	record, err := lexicons.ParseJSON(collection, raw)
	if err != nil {
		return parsedWrite{}, err
	}
	w := parsedWrite{Write: repostore.Write{Action: action, Collection: collection, RecordKey: rkey, Record: record}}
	if w.status, err = p.library.Current().Catalog.Validate(record, rkey, mode); err != nil {
		return parsedWrite{}, err
	}
	if w.findings, err = p.remarks(ctx, did, w.Write); err != nil {
		return parsedWrite{}, err
	}
	return w, lexicons.RefusedBy(w.findings)
}

// remarks are what the rules that need no state say of a write: those on the
// record, and those on the bytes that an observation keeps.
func (p *PDS) remarks(ctx context.Context, did syntax.DID, w repostore.Write) ([]lexicons.Finding, error) {
	change := p.changeOf(did, w)
	rules := p.library.Current().Rules
	findings := rules.CheckRecord(change)
	if lexicons.RefusedBy(findings) != nil || w.Collection != lexicons.ObservationNSID {
		return findings, nil
	}
	content := lexicons.ReadObservation(w.Record.Value).Content
	if content == nil || !rules.ReadsContent(content.MimeType) {
		return findings, nil
	}
	// A blob that this account has not uploaded is refused by the repo, and its
	// bytes, which may be another account's, must not answer first.
	switch _, _, err := p.repos.GetBlob(ctx, did, content.CID); {
	case errors.Is(err, repostore.ErrBlobNotFound):
		return findings, nil
	case err != nil:
		return nil, err
	}
	head, err := p.contentHead(ctx, content.CID)
	if err != nil {
		return nil, fmt.Errorf("read content of %s: %w", change.URI, err)
	}
	return append(findings, rules.CheckContent(change, head)...), nil
}

// contentHead is the part of a blob that rules look at while a write waits.
func (p *PDS) contentHead(ctx context.Context, c cid.Cid) ([]byte, error) {
	blob, err := p.blobs.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	return io.ReadAll(io.LimitReader(blob, lexicons.ContentHead))
}

// changeOf is a write as the rules see it before the state is known. A put is
// judged as a create: whether it updates something, the repo knows.
func (p *PDS) changeOf(did syntax.DID, w repostore.Write) lexicons.Change {
	action := w.Action
	if action == repostore.Put {
		action = lexicons.Create
	}
	return lexicons.Change{
		Action: action, DID: did, RecordKey: w.RecordKey, Record: w.Record, Now: p.now(),
		URI: syntax.ATURI("at://" + string(did) + "/" + string(w.Collection) + "/" + string(w.RecordKey)),
	}
}

func (p *PDS) keyOrNew(rkey *syntax.RecordKey) syntax.RecordKey {
	if rkey != nil {
		return *rkey
	}
	return syntax.RecordKey(p.keys.Next())
}

func swapOf(swap xrpc.Nullable[syntax.CID]) (*repostore.SwapRecord, error) {
	switch {
	case !swap.Set:
		return nil, nil
	case swap.Null:
		return &repostore.SwapRecord{}, nil
	}
	c, err := parseCID("swapRecord", swap.Value)
	if err != nil {
		return nil, err
	}
	return &repostore.SwapRecord{CID: &c}, nil
}

// parseCID reads a CID whose syntax alone was checked.
func parseCID(name string, raw syntax.CID) (cid.Cid, error) {
	c, err := cid.Decode(string(raw))
	if err != nil || c.Version() != 1 {
		return cid.Undef, xrpc.InvalidRequest("%s is not a CID of version 1; take it from an answer of this server", name)
	}
	return c, nil
}
