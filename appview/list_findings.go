package appview

import (
	"context"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

type listFindingsParams struct {
	atLeast
	Author     syntax.AtIdentifier `param:"author"`
	Collection syntax.NSID         `param:"collection"`
	Code       string              `param:"code"`
	Severity   string              `param:"severity"`
	URI        syntax.ATURI        `param:"uri"`
	Since      syntax.Datetime     `param:"since"`
	Limit      int                 `param:"limit"`
	Cursor     string              `param:"cursor"`
}

type listFindingsOutput struct {
	freshness
	Cursor   string        `json:"cursor,omitempty"`
	Findings []findingView `json:"findings"`
}

func (a *Appview) listFindings(ctx context.Context, v xrpc.Viewer, p listFindingsParams) (*listFindingsOutput, error) {
	author, err := a.author(ctx, p.Author)
	if err != nil {
		return nil, err
	}
	if p.URI != "" {
		if p.URI, err = a.recordURI(ctx, p.URI, ""); err != nil {
			return nil, err
		}
	}
	at, err := page("listFindings", p.Limit, p.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := a.index.ListFindings(ctx, a.viewer(v), index.FindingFilter{
		Code:       p.Code,
		Severity:   lexicons.Severity(p.Severity),
		DID:        author,
		URI:        p.URI,
		Collection: p.Collection,
		Since:      instant(p.Since),
	}, at)
	if err != nil {
		return nil, err
	}
	return &listFindingsOutput{
		Cursor: cursorOf("listFindings", list.Next),
		Findings: orEmpty(each(list.Items, func(f index.Finding) findingView {
			view := viewFinding(f)
			view.URI = f.URI
			return view
		})),
	}, nil
}
