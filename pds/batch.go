package pds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/repostore"
)

const applyWritesMethod = "com.atproto.repo.applyWrites"

type applyWritesInput struct {
	Repo       syntax.AtIdentifier `json:"repo"`
	Validate   *bool               `json:"validate"`
	Writes     []json.RawMessage   `json:"writes"`
	SwapCommit *syntax.CID         `json:"swapCommit"`
}

// batchWrite is any of the three members of the union writes.
type batchWrite struct {
	Type       string            `json:"$type"`
	Collection syntax.NSID       `json:"collection"`
	RecordKey  *syntax.RecordKey `json:"rkey"`
	Value      json.RawMessage   `json:"value"`
}

type applyWritesOutput struct {
	Commit  *commitMeta   `json:"commit,omitempty"`
	Results []writeResult `json:"results"`
}

// writeResult is any of the three members of the union results.
type writeResult struct {
	Type             string                    `json:"$type"`
	URI              syntax.ATURI              `json:"uri,omitempty"`
	CID              string                    `json:"cid,omitempty"`
	ValidationStatus lexicons.ValidationStatus `json:"validationStatus,omitempty"`
	Findings         []lexicons.Finding        `json:"findings,omitempty"`
}

// applyWrites makes one commit of up to repostore.MaxWrites writes, or none.
func (p *PDS) applyWrites(ctx context.Context, v xrpc.Viewer, in applyWritesInput) (*applyWritesOutput, error) {
	options, err := p.writeOptions(ctx, v, in.Repo, in.SwapCommit)
	if err != nil {
		return nil, err
	}
	if len(in.Writes) > repostore.MaxWrites {
		return nil, xrpc.InvalidRequest("Too many writes: %d; send at most %d in one call", len(in.Writes), repostore.MaxWrites)
	}
	batch, err := p.parseBatch(ctx, v, in)
	if err != nil {
		return nil, err
	}
	if len(batch) == 0 {
		return &applyWritesOutput{Results: []writeResult{}}, nil
	}
	writes := make([]repostore.Write, len(batch))
	for i, w := range batch {
		writes[i] = w.Write
	}
	if err := p.chargeWrites(ctx, writes...); err != nil {
		return nil, err
	}
	result, err := p.repos.Apply(ctx, v.DID, writes, options)
	var at *repostore.WriteError
	if errors.As(err, &at) {
		return nil, inBatch(at.Index, writeError(at.Err))
	}
	if err != nil {
		return nil, err
	}
	return viewBatch(batch, result), nil
}

func (p *PDS) parseBatch(ctx context.Context, v xrpc.Viewer, in applyWritesInput) ([]parsedWrite, error) {
	batch := make([]parsedWrite, len(in.Writes))
	mode := validationMode(in.Validate)
	for i, raw := range in.Writes {
		w, err := p.parseBatchWrite(ctx, v, raw, mode)
		if err != nil {
			return nil, inBatch(i, err)
		}
		batch[i] = w
	}
	return batch, nil
}

func (p *PDS) parseBatchWrite(ctx context.Context, v xrpc.Viewer, raw json.RawMessage, mode lexicons.ValidationMode) (parsedWrite, error) {
	var w batchWrite
	if err := json.Unmarshal(raw, &w); err != nil {
		return parsedWrite{}, xrpc.InvalidRequest("a write is malformed; see the lexicon of %s", applyWritesMethod)
	}
	action := lexicons.Action(strings.TrimPrefix(w.Type, applyWritesMethod+"#"))
	if err := mayChange(v, w.Collection, action); err != nil {
		return parsedWrite{}, err
	}
	switch w.Type {
	case applyWritesMethod + "#create":
		return p.parseWrite(ctx, v.DID, lexicons.Create, w.Collection, p.keyOrNew(w.RecordKey), w.Value, mode)
	case applyWritesMethod + "#update":
		if w.RecordKey == nil {
			return parsedWrite{}, xrpc.InvalidRequest("an update names no rkey; add it")
		}
		return p.parseWrite(ctx, v.DID, lexicons.Update, w.Collection, *w.RecordKey, w.Value, mode)
	case applyWritesMethod + "#delete":
		if w.RecordKey == nil {
			return parsedWrite{}, xrpc.InvalidRequest("a delete names no rkey; add it")
		}
		return parsedWrite{Write: repostore.Write{Action: lexicons.Delete, Collection: w.Collection, RecordKey: *w.RecordKey}}, nil
	default:
		return parsedWrite{}, xrpc.InvalidRequest("$type of a write is not known; use %s#create, #update or #delete", applyWritesMethod)
	}
}

// inBatch tells which write an error is about.
func inBatch(i int, err error) error {
	at := fmt.Sprintf("/writes/%d", i)
	var refused *lexicons.Refused
	if errors.As(err, &refused) {
		moved := make([]lexicons.Finding, len(refused.Findings))
		for j, f := range refused.Findings {
			switch f.Refusal {
			case lexicons.RefusalPolicyDenied:
				f.Path = at // of deletes too, which have no value
			default:
				f.Path = at + "/value" + f.Path
			}
			moved[j] = f
		}
		return &lexicons.Refused{Findings: moved}
	}
	var answered *xrpc.Error
	if !errors.As(err, &answered) {
		answered = translate(err)
	}
	if answered == nil {
		return err
	}
	return xrpc.Errorf(answered.Status, answered.Name, "%s: %s", at, answered.Message)
}

func viewBatch(batch []parsedWrite, result *repostore.Result) *applyWritesOutput {
	out := &applyWritesOutput{Commit: viewCommit(result.Commit), Results: make([]writeResult, len(batch))}
	for i, w := range batch {
		r := writeResult{Type: applyWritesMethod + "#" + string(w.Action) + "Result"}
		if w.Action != lexicons.Delete {
			written := result.Writes[i]
			r.URI, r.CID, r.ValidationStatus = written.URI, written.CID.String(), w.status
			r.Findings = append(w.findings, written.Findings...)
		}
		out.Results[i] = r
	}
	return out
}
