package appview

import (
	"context"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons/xrpc"
)

type listConversationsParams struct {
	atLeast
	Author       syntax.AtIdentifier `param:"author"`
	IncludeEmpty bool                `param:"includeEmpty"`
	Since        syntax.Datetime     `param:"since"`
	Until        syntax.Datetime     `param:"until"`
	Limit        int                 `param:"limit"`
	Cursor       string              `param:"cursor"`
}

type listConversationsOutput struct {
	freshness
	Cursor        string             `json:"cursor,omitempty"`
	Conversations []conversationItem `json:"conversations"`
}

func (a *Appview) listConversations(ctx context.Context, xv xrpc.Viewer, p listConversationsParams) (*listConversationsOutput, error) {
	author, err := a.author(ctx, p.Author)
	if err != nil {
		return nil, err
	}
	at, err := page("listConversations", p.Limit, p.Cursor)
	if err != nil {
		return nil, err
	}
	v := a.viewer(xv)
	list, err := a.index.ListConversations(ctx, v, index.ConversationFilter{
		DID:          author,
		IncludeEmpty: p.IncludeEmpty,
		Since:        instant(p.Since),
		Until:        instant(p.Until),
	}, at)
	if err != nil {
		return nil, err
	}
	list.Items = held(list.Items, conversationRecord)
	around, err := a.surroundings(ctx, v, each(list.Items, conversationRecord))
	if err != nil {
		return nil, err
	}
	openings, err := a.openings(ctx, v, list.Items)
	if err != nil {
		return nil, err
	}
	return &listConversationsOutput{
		Cursor: cursorOf("listConversations", list.Next),
		Conversations: orEmpty(each(list.Items, func(c index.Conversation) conversationItem {
			return viewConversationItem(c, openings[c.URI], around.findings(c.URI), around.actors)
		})),
	}, nil
}
