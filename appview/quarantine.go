package appview

import (
	"context"
	"errors"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons/xrpc"
)

const listQuarantineMethod = "admin.listQuarantine"

// registerQuarantine adds what only the operator may call.
func (a *Appview) registerQuarantine(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Query(s, namespace+listQuarantineMethod, xrpc.AdminOnly, a.listQuarantine, xrpc.OfService("herbarium_appview")),
		xrpc.Procedure(s, namespace+"admin.revalidate", xrpc.AdminOnly, a.revalidate, xrpc.OfService("herbarium_appview"), xrpc.Strict()),
	)
}

type listQuarantineParams struct {
	Author     syntax.AtIdentifier `param:"author"`
	Collection syntax.NSID         `param:"collection"`
	Code       string              `param:"code"`
	Limit      int                 `param:"limit"`
	Cursor     string              `param:"cursor"`
}

type listQuarantineOutput struct {
	Cursor        string             `json:"cursor,omitempty"`
	Records       []quarantinedView  `json:"records"`
	Revalidations []revalidationView `json:"revalidations"`
}

// quarantinedView is garden.herbarium.admin.listQuarantine#quarantined.
type quarantinedView struct {
	URI        syntax.ATURI    `json:"uri"`
	CID        syntax.CID      `json:"cid"`
	Author     actorView       `json:"author"`
	Collection syntax.NSID     `json:"collection"`
	IndexedAt  syntax.Datetime `json:"indexedAt"`
	Findings   []findingView   `json:"findings"`
}

// revalidationView is garden.herbarium.admin.listQuarantine#revalidation.
type revalidationView struct {
	Collection  syntax.NSID     `json:"collection"`
	Seen        int64           `json:"seen"`
	Released    int64           `json:"released"`
	Quarantined int64           `json:"quarantined"`
	RequestedAt syntax.Datetime `json:"requestedAt"`
	FinishedAt  syntax.Datetime `json:"finishedAt,omitempty"`
}

func (a *Appview) listQuarantine(ctx context.Context, _ xrpc.Viewer, p listQuarantineParams) (*listQuarantineOutput, error) {
	author, err := a.author(ctx, p.Author)
	if err != nil {
		return nil, err
	}
	at, err := page(listQuarantineMethod, p.Limit, p.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := a.index.ListQuarantine(ctx, index.QuarantineFilter{DID: author, Collection: p.Collection, Code: p.Code}, at)
	if err != nil {
		return nil, err
	}
	found, err := a.index.Findings(ctx, index.Viewer{Admin: true}, each(list.Items, func(r index.Record) syntax.ATURI { return r.URI }))
	if err != nil {
		return nil, err
	}
	who, err := a.actors(ctx, each(list.Items, func(r index.Record) syntax.DID { return r.DID }))
	if err != nil {
		return nil, err
	}
	again, err := a.index.Revalidations(ctx)
	if err != nil {
		return nil, err
	}
	return &listQuarantineOutput{
		Cursor: cursorOf(listQuarantineMethod, list.Next),
		Records: orEmpty(each(list.Items, func(r index.Record) quarantinedView {
			return quarantinedView{
				URI: r.URI, CID: viewCID(r.CID), Author: who.view(r.DID), Collection: r.Collection,
				IndexedAt: datetime(r.UpdatedAt), Findings: viewFindings(found[r.URI]),
			}
		})),
		Revalidations: orEmpty(each(again, viewRevalidation)),
	}, nil
}

func viewRevalidation(r index.Revalidation) revalidationView {
	return revalidationView{
		Collection: r.Collection, Seen: r.Seen, Released: r.Released, Quarantined: r.Quarantined,
		RequestedAt: datetime(r.RequestedAt), FinishedAt: datetime(r.FinishedAt),
	}
}

type revalidateInput struct {
	URIs        []syntax.ATURI `json:"uris"`
	Collections []syntax.NSID  `json:"collections"`
	All         bool           `json:"all"`
}

type revalidateOutput struct {
	Records     []judgedView  `json:"records"`
	Collections []syntax.NSID `json:"collections"`
}

// judgedView is garden.herbarium.admin.revalidate#judged.
type judgedView struct {
	URI   syntax.ATURI `json:"uri"`
	State index.State  `json:"state"`
}

func (a *Appview) revalidate(ctx context.Context, _ xrpc.Viewer, in revalidateInput) (*revalidateOutput, error) {
	out := &revalidateOutput{Records: []judgedView{}, Collections: []syntax.NSID{}}
	switch named := len(in.URIs) > 0; {
	case named && len(in.Collections) == 0 && !in.All:
		for i, uri := range in.URIs {
			parsed, err := a.recordURI(ctx, uri, "")
			if err != nil {
				return nil, err
			}
			in.URIs[i] = parsed
		}
		states, err := a.index.RevalidateRecords(ctx, in.URIs)
		if err != nil {
			return nil, err
		}
		for _, uri := range in.URIs {
			if state, here := states[uri]; here {
				out.Records = append(out.Records, judgedView{URI: uri, State: state})
			}
		}
		return out, nil
	case named || in.All == (len(in.Collections) > 0):
		return nil, xrpc.InvalidRequest("name what to judge again in one way; send uris, or collections, or all")
	}
	if in.All {
		in.Collections = nil
	}
	asked, err := a.index.RequestRevalidation(ctx, in.Collections)
	if err != nil {
		return nil, err
	}
	out.Collections = append(out.Collections, asked...)
	return out, nil
}
