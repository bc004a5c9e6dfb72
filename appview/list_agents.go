package appview

import (
	"context"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons/xrpc"
)

type listAgentsParams struct {
	atLeast
	State  index.SyncState `param:"state"`
	Limit  int             `param:"limit"`
	Cursor string          `param:"cursor"`
}

type listAgentsOutput struct {
	freshness
	Cursor string      `json:"cursor,omitempty"`
	Agents []agentView `json:"agents"`
}

func (a *Appview) listAgents(ctx context.Context, xv xrpc.Viewer, p listAgentsParams) (*listAgentsOutput, error) {
	at, err := page("listAgents", p.Limit, p.Cursor)
	if err != nil {
		return nil, err
	}
	v := a.viewer(xv)
	list, err := a.index.ListRepos(ctx, v, p.State, at)
	if err != nil {
		return nil, err
	}
	counts, err := a.index.RecordCounts(ctx, v, each(list.Items, func(r index.Repo) syntax.DID { return r.DID }))
	if err != nil {
		return nil, err
	}
	return &listAgentsOutput{
		Cursor: cursorOf("listAgents", list.Next),
		Agents: orEmpty(each(list.Items, func(r index.Repo) agentView { return viewAgent(v, r, counts[r.DID]) })),
	}, nil
}
