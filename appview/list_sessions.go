package appview

import (
	"context"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons/xrpc"
)

type listSessionsParams struct {
	atLeast
	Author  syntax.AtIdentifier `param:"author"`
	Machine string              `param:"machine"`
	Harness string              `param:"harness"`
	Repo    string              `param:"repo"`
	Branch  string              `param:"branch"`
	Model   string              `param:"model"`
	Status  string              `param:"status"`
	State   string              `param:"state"`
	Since   syntax.Datetime     `param:"since"`
	Until   syntax.Datetime     `param:"until"`
	Limit   int                 `param:"limit"`
	Cursor  string              `param:"cursor"`
}

type listSessionsOutput struct {
	freshness
	Cursor   string        `json:"cursor,omitempty"`
	Sessions []sessionItem `json:"sessions"`
}

func (a *Appview) listSessions(ctx context.Context, xv xrpc.Viewer, p listSessionsParams) (*listSessionsOutput, error) {
	filter, err := a.sessionFilter(ctx, p)
	if err != nil {
		return nil, err
	}
	at, err := page("listSessions", p.Limit, p.Cursor)
	if err != nil {
		return nil, err
	}
	v, now := a.viewer(xv), a.now()
	a.states.narrow(filter, p.State, now)
	list, err := a.index.ListSessions(ctx, v, *filter, at)
	if err != nil {
		return nil, err
	}
	list.Items = held(list.Items, sessionRecord)
	around, err := a.surroundings(ctx, v, each(list.Items, sessionRecord))
	if err != nil {
		return nil, err
	}
	return &listSessionsOutput{
		Cursor: cursorOf("listSessions", list.Next),
		Sessions: orEmpty(each(list.Items, func(s index.Session) sessionItem {
			return viewSessionItem(s, around.findings(s.URI), around.actors, a.states, now)
		})),
	}, nil
}

func (a *Appview) sessionFilter(ctx context.Context, p listSessionsParams) (*index.SessionFilter, error) {
	author, err := a.author(ctx, p.Author)
	if err != nil {
		return nil, err
	}
	filter := &index.SessionFilter{
		Machine: p.Machine,
		Harness: p.Harness,
		Repo:    p.Repo,
		Branch:  p.Branch,
		Model:   p.Model,
		Status:  p.Status,
		Since:   instant(p.Since),
		Until:   instant(p.Until),
	}
	if author != "" {
		filter.DIDs = []syntax.DID{author}
	}
	// A derived state implies the stated one; both together must agree.
	implied := map[string]string{stateActive: "active", stateIdle: "active", stateStale: "active", stateEnded: "ended"}[p.State]
	switch {
	case implied == "":
	case filter.Status != "" && filter.Status != implied:
		return nil, xrpc.InvalidRequest("state: no session of status %q can be %s; leave one of the two out", p.Status, p.State)
	default:
		filter.Status = implied
	}
	return filter, nil
}
