package appview

import (
	"context"
	"errors"
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

type getConversationParams struct {
	atLeast
	URI    syntax.ATURI `param:"uri"`
	Limit  int          `param:"limit"`
	Cursor string       `param:"cursor"`
	Format string       `param:"format"`
}

type getConversationOutput struct {
	freshness
	Conversation *conversationView `json:"conversation,omitempty"`
	Markdown     string            `json:"markdown,omitempty"`
	Cursor       string            `json:"cursor,omitempty"`
}

// turnPosition is the cursor of getConversation: where the page ended, and how
// many turns were shown up to there, so that numbers go on.
type turnPosition struct {
	Key   string `json:"k"`
	URI   string `json:"u"`
	Shown int64  `json:"n"`
}

func (a *Appview) getConversation(ctx context.Context, xv xrpc.Viewer, p getConversationParams) (*getConversationOutput, error) {
	uri, err := a.recordURI(ctx, p.URI, lexicons.ChatSessionNSID)
	if err != nil {
		return nil, err
	}
	at, before, err := turnPage(p)
	if err != nil {
		return nil, err
	}
	view, next, err := a.conversationPage(ctx, a.viewer(xv), uri, at, before)
	if err != nil {
		return nil, err
	}
	out := &getConversationOutput{}
	if next != nil {
		out.Cursor = xrpc.EncodeCursor(namespace+"getConversation", *next)
	}
	if p.Format == formatMarkdown {
		out.Markdown = conversationMarkdown(view, next != nil)
	} else {
		out.Conversation = view
	}
	return out, nil
}

// conversationPage is the view of a page of a conversation, and where the next one
// begins; of a conversation that is gone what is left of it. before is how many
// turns were on the pages before.
func (a *Appview) conversationPage(ctx context.Context, v index.Viewer, uri syntax.ATURI, at index.Page, before int64) (*conversationView, *turnPosition, error) {
	if !v.SeesConversations() {
		return nil, nil, a.notFound(ctx, v, uri)
	}
	conversation, err := a.index.Conversation(ctx, v, uri)
	if errors.Is(err, index.ErrNotFound) || err == nil && conversation.CBOR == nil {
		tombstone, who, err := a.tombstone(ctx, v, uri)
		if err != nil {
			return nil, nil, err
		}
		return viewDeletedConversation(*tombstone, who), nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	turns, err := a.index.Turns(ctx, v, uri, false, at)
	if err != nil {
		return nil, nil, err
	}
	facts, err := a.conversationFacts(ctx, v, *conversation, turns.Items)
	if err != nil {
		return nil, nil, err
	}
	facts.before = before
	var next *turnPosition
	if turns.Next != nil {
		next = &turnPosition{Key: turns.Next.Key, URI: turns.Next.URI, Shown: before + int64(len(turns.Items))}
	}
	return viewConversation(*facts), next, nil
}

func turnPage(p getConversationParams) (index.Page, int64, error) {
	at := index.Page{Limit: p.Limit}
	if p.Cursor == "" {
		return at, 0, nil
	}
	from, err := xrpc.DecodeCursor[turnPosition](namespace+"getConversation", p.Cursor)
	if err != nil {
		return at, 0, err
	}
	at.After = &index.Position{Key: from.Key, URI: from.URI}
	return at, max(0, from.Shown), checkPosition(*at.After)
}

func (a *Appview) conversationFacts(ctx context.Context, v index.Viewer, c index.Conversation, turns []index.Turn) (*conversationFacts, error) {
	turns = slices.DeleteFunc(turns, func(t index.Turn) bool { return t.CBOR == nil && !t.Withheld }) // deleted since it was listed
	f := &conversationFacts{conversation: c, turns: each(turns, readTurn)}
	foreign, err := a.index.Turns(ctx, v, c.URI, true, index.Page{Limit: index.MaxLimit})
	if err != nil {
		return nil, err
	}
	f.foreign = foreign.Items
	openings, err := a.openings(ctx, v, []index.Conversation{c})
	if err != nil {
		return nil, err
	}
	f.opening = openings[c.URI]
	uris := []syntax.ATURI{c.URI}
	dids := []syntax.DID{c.DID}
	var refs []lexicons.StrongRef
	for _, t := range f.turns {
		uris = append(uris, t.URI)
		refs = append(refs, t.message.Refs...)
		dids = append(dids, t.message.Mentions...)
	}
	for _, t := range f.foreign {
		dids = append(dids, t.DID)
	}
	if f.findings, err = a.index.Findings(ctx, v, uris); err != nil {
		return nil, err
	}
	if f.refs, err = a.refs(ctx, v, refs); err != nil {
		return nil, err
	}
	f.actors, err = a.actors(ctx, dids)
	return f, err
}

// openings are the turns by which the untitled ones of a page are called.
func (a *Appview) openings(ctx context.Context, v index.Viewer, page []index.Conversation) (map[syntax.ATURI]*index.Turn, error) {
	var untitled []syntax.ATURI
	for _, c := range page {
		if oneLine(c.Title) == "" {
			untitled = append(untitled, c.URI)
		}
	}
	if len(untitled) == 0 {
		return nil, nil
	}
	turns, err := a.index.OpeningTurns(ctx, v, untitled)
	if err != nil {
		return nil, err
	}
	openings := map[syntax.ATURI]*index.Turn{}
	for uri, turn := range turns {
		openings[uri] = &turn
	}
	return openings, nil
}
