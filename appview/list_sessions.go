package appview

import (
	"context"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons/xrpc"
)

type listSessionsParams struct {
	atLeast
	Query   string              `param:"q"`
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
	v, now := a.viewer(xv), a.now()
	a.states.narrow(filter, p.State, now)
	sessions, cursor, err := a.sessionPage(ctx, v, *filter, p)
	if err != nil {
		return nil, err
	}
	sessions = held(sessions, sessionRecord)
	around, err := a.surroundings(ctx, v, each(sessions, sessionRecord))
	if err != nil {
		return nil, err
	}
	return &listSessionsOutput{
		Cursor: cursor,
		Sessions: orEmpty(each(sessions, func(s index.Session) sessionItem {
			return viewSessionItem(s, around.findings(s.URI), around.actors, a.states, now)
		})),
	}, nil
}

// sessionPage is a page of sessions and the cursor of the next: the last updated
// first or, when words are looked for, as they are found.
func (a *Appview) sessionPage(ctx context.Context, v index.Viewer, f index.SessionFilter, p listSessionsParams) ([]index.Session, string, error) {
	if p.Query == "" {
		at, err := page("listSessions", p.Limit, p.Cursor)
		if err != nil {
			return nil, "", err
		}
		list, err := a.index.ListSessions(ctx, v, f, at)
		return list.Items, cursorOf("listSessions", list.Next), err
	}
	q, after, err := searchPage("listSessions", p.Query, p.Cursor)
	if err != nil {
		return nil, "", err
	}
	search := index.SearchFilter{
		Device: f.Machine, Harness: f.Harness, Repo: f.Repo, Branch: f.Branch, Model: f.Model, Status: f.Status, Since: f.Since, Until: f.Until,
	}
	if len(f.DIDs) > 0 {
		search.DID = f.DIDs[0]
	}
	result, err := a.index.SearchSessions(ctx, v, q, search, after, p.Limit)
	if err != nil {
		return nil, "", err
	}
	uris := each(result.Found, func(hit index.Found) syntax.ATURI { return hit.URI })
	sessions, err := a.index.Sessions(ctx, v, uris)
	if err != nil {
		return nil, "", err
	}
	var found []index.Session
	for _, uri := range uris {
		if s, ok := sessions[uri]; ok {
			found = append(found, s)
		}
	}
	return found, searchCursor("listSessions", result.Next), nil
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
