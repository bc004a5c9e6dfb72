package appview

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

type verifyCitationsInput struct {
	URI        syntax.ATURI    `json:"uri"`
	CID        syntax.CID      `json:"cid"`
	Record     json.RawMessage `json:"record"`
	Collection syntax.NSID     `json:"collection"`
}

type verifyCitationsOutput struct {
	URI       syntax.ATURI    `json:"uri,omitempty"`
	CID       syntax.CID      `json:"cid,omitempty"`
	Citations []citationCheck `json:"citations"`
	Capped    bool            `json:"capped,omitempty"`
}

// verifyCitations checks a record that is indexed, or one that nobody wrote yet.
func (a *Appview) verifyCitations(ctx context.Context, xv xrpc.Viewer, in verifyCitationsInput) (*verifyCitationsOutput, error) {
	v := a.viewer(xv)
	out := &verifyCitationsOutput{}
	var value map[string]any
	switch {
	case (in.URI == "") == (len(in.Record) == 0):
		return nil, xrpc.InvalidRequest("name a record by uri, or send one in record, not both")
	case in.URI == "":
		draft, err := lexicons.ParseJSON(in.Collection, in.Record)
		if err != nil {
			return nil, err
		}
		out.CID, value = viewCID(draft.CID), draft.Value
	default:
		record, err := a.recordToVerify(ctx, v, in)
		if err != nil {
			return nil, err
		}
		out.URI, out.CID, value = record.URI, viewCID(record.CID), decodeRecord(*record)
	}
	citations := lexicons.FindCitations(value)
	facts, err := a.citationFacts(ctx, v, value, citations)
	if err != nil {
		return nil, err
	}
	out.Citations = orEmpty(each(facts.checked, facts.view))
	out.Capped = len(citations) == lexicons.MaxCitations
	return out, nil
}

func (a *Appview) recordToVerify(ctx context.Context, v index.Viewer, in verifyCitationsInput) (*index.Record, error) {
	uri, err := a.recordURI(ctx, in.URI, "")
	if err != nil {
		return nil, err
	}
	record, err := a.index.Record(ctx, v, uri)
	if errors.Is(err, index.ErrNotFound) || err == nil && record.State == index.StateDeleted {
		return nil, a.notFound(ctx, v, uri)
	}
	if err != nil {
		return nil, err
	}
	return a.pinnedRecord(ctx, v, *record, in.CID)
}

// citationFacts checks citations and hydrates what they name.
func (a *Appview) citationFacts(ctx context.Context, v index.Viewer, citing map[string]any, citations []lexicons.Citation) (*citationFacts, error) {
	checked, err := a.index.Examine(ctx, citing, citations)
	if err != nil {
		return nil, err
	}
	f := &citationFacts{checked: checked}
	var heads []syntax.ATURI
	for _, c := range checked {
		if c.Head != nil {
			heads = append(heads, c.Head.URI)
		}
	}
	targets := each(checked, func(c index.Checked) *lexicons.StrongRef { return c.Target })
	if f.refs, err = a.refs(ctx, v, present(targets...)); err != nil {
		return nil, err
	}
	f.heads, err = a.index.Records(ctx, v, distinct(heads))
	return f, err
}
