package pds

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/repostore"
)

type validateRecordInput struct {
	Repo       syntax.AtIdentifier `json:"repo"`
	Collection syntax.NSID         `json:"collection"`
	RecordKey  *syntax.RecordKey   `json:"rkey"`
	Record     json.RawMessage     `json:"record"`
	Action     lexicons.Action     `json:"action"`
}

type validateRecordOutput struct {
	Valid            bool                      `json:"valid"`
	Scope            string                    `json:"scope"` // "host": judged against the state that decides
	Error            string                    `json:"error,omitempty"`
	Message          string                    `json:"message,omitempty"`
	CID              string                    `json:"cid,omitempty"`
	ValidationStatus lexicons.ValidationStatus `json:"validationStatus,omitempty"`
	Findings         []dryFinding              `json:"findings"`
}

type dryFinding struct {
	lexicons.Finding
	WouldReject bool `json:"wouldReject"`
}

// validateRecord is the dry run: what createRecord, putRecord, an update of
// applyWrites or deleteRecord would answer, and everything that the rules
// remark. It writes nothing. For a member of the team whose repo another host keeps
// it is judged by what the index beside this host has witnessed of it.
func (p *PDS) validateRecord(ctx context.Context, v xrpc.Viewer, in validateRecordInput) (*validateRecordOutput, error) {
	switch v.Kind {
	case xrpc.Account:
		return p.dryRun(ctx, v, in, "host")
	case xrpc.Service:
		if _, err := p.accounts.Get(ctx, v.DID); errors.Is(err, account.ErrNotFound) {
			return p.dryRun(ctx, v, in, "index")
		} else if err != nil {
			return nil, err
		}
	}
	return nil, invalidToken("a write is judged for the repo that it is made to; show its account's access token, or for a repo that is hosted elsewhere a service token of its DID")
}

func (p *PDS) dryRun(ctx context.Context, v xrpc.Viewer, in validateRecordInput, scope string) (*validateRecordOutput, error) {
	var options repostore.Options
	var err error
	if scope == "host" {
		options, err = p.writeOptions(ctx, v, in.Repo, nil)
	} else {
		err = p.isForeignRepo(ctx, v, in.Repo)
	}
	if err != nil {
		return nil, err
	}
	out := &validateRecordOutput{Scope: scope}
	w, err := p.dryWrite(in)
	if err != nil {
		return nil, err
	}
	var findings []lexicons.Finding
	if w.Action != repostore.Remove {
		if findings, err = p.dryParse(ctx, v.DID, in, &w, out); err != nil {
			return nil, err
		}
	}
	if w.Action == repostore.Remove || w.Record != nil {
		stateful, err := dryApply(func() ([]lexicons.Finding, error) {
			if scope == "index" {
				return p.foresee(ctx, v.DID, w)
			}
			result, err := p.repos.DryRun(ctx, v.DID, []repostore.Write{w}, options)
			if err != nil {
				return nil, err
			}
			return result.Writes[0].Findings, nil
		}, out)
		if err != nil {
			return nil, err
		}
		findings = append(findings, stateful...)
	}
	out.judge(findings)
	return out, nil
}

// dryWrite is the write in question, without its record.
func (p *PDS) dryWrite(in validateRecordInput) (repostore.Write, error) {
	w := repostore.Write{Action: in.Action, Collection: in.Collection, RecordKey: p.keyOrNew(in.RecordKey)}
	switch {
	case in.Action == "" && in.RecordKey == nil:
		w.Action = lexicons.Create
	case in.Action == "":
		w.Action = repostore.Put
	case in.Action == lexicons.Create:
	case in.RecordKey == nil:
		return w, xrpc.InvalidRequest("action %s names no record; add rkey", in.Action)
	case in.Action == lexicons.Delete:
		w.Action = repostore.Remove
	}
	if w.Action != repostore.Remove && len(in.Record) == 0 {
		return w, xrpc.InvalidRequest("record is missing; add it, or set action to delete")
	}
	return w, nil
}

// dryParse runs what needs no state. A record that does not parse has no CID
// and leaves w.Record nil, and so does one that its lexicon refuses: the rules
// read what that has let through, here as in the write and in the index.
func (p *PDS) dryParse(ctx context.Context, did syntax.DID, in validateRecordInput, w *repostore.Write, out *validateRecordOutput) ([]lexicons.Finding, error) {
	record, err := lexicons.ParseJSON(in.Collection, in.Record)
	if err != nil {
		return findingsOf(err)
	}
	out.CID = record.CID.String()
	if out.ValidationStatus, err = p.library.Current().Catalog.Validate(record, w.RecordKey, lexicons.ValidateKnown); err != nil {
		return findingsOf(err)
	}
	w.Record = record
	return p.remarks(ctx, did, *w)
}

// dryApply asks the state that judges. A refusal by the rules is among the
// findings; any other goes straight into out.
func dryApply(judge func() ([]lexicons.Finding, error), out *validateRecordOutput) ([]lexicons.Finding, error) {
	findings, err := judge()
	if err == nil {
		return findings, nil
	}
	err = writeError(err)
	var answered *xrpc.Error
	if !errors.As(err, &answered) {
		answered = translate(err)
	}
	if answered != nil {
		out.Error, out.Message = answered.Name, answered.Message
		return nil, nil
	}
	return findingsOf(err)
}

// isForeignRepo checks that a member who is hosted elsewhere asks about its own
// repo, and that there is something to judge by.
func (p *PDS) isForeignRepo(ctx context.Context, v xrpc.Viewer, repo syntax.AtIdentifier) error {
	if repo.DID() != v.DID {
		return xrpc.Errorf(http.StatusUnauthorized, "AuthenticationRequired", "the service token is of %[1]s; set repo to %[1]s", v.DID)
	}
	if p.foresight != nil {
		if snap, err := p.foresight(ctx, v.DID, nil); err != nil || snap != nil {
			return err
		}
	}
	return xrpc.InvalidRequest("the repo %s is neither kept nor indexed here, so there is nothing to judge a write by", v.DID)
}

// foresee judges by what the index has witnessed of the repo.
func (p *PDS) foresee(ctx context.Context, did syntax.DID, w repostore.Write) ([]lexicons.Finding, error) {
	snap, err := p.foresight(ctx, did, w.Record)
	if err != nil || snap == nil {
		return nil, err // unknown only if it was forgotten this moment
	}
	result, err := repostore.Foresee(ctx, p.library.Current().Rules, did, w, snap, p.now())
	if err != nil {
		return nil, err
	}
	return result.Findings, nil
}

func findingsOf(err error) ([]lexicons.Finding, error) {
	var refused *lexicons.Refused
	if errors.As(err, &refused) {
		return refused.Findings, nil
	}
	return nil, err
}

// judge fills in what the write would be answered.
func (out *validateRecordOutput) judge(findings []lexicons.Finding) {
	out.Findings = make([]dryFinding, len(findings))
	for i, f := range findings {
		out.Findings[i] = dryFinding{Finding: f, WouldReject: f.Refusal != ""}
	}
	var refused *lexicons.Refused
	if errors.As(lexicons.RefusedBy(findings), &refused) {
		out.Error, out.Message = refused.Name(), refused.Error()
	}
	out.Valid = out.Error == ""
	if !out.Valid {
		out.ValidationStatus = ""
	}
}
