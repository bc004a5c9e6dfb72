package appview

import (
	"context"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

type searchConversationsParams struct {
	atLeast
	Query        string              `param:"q"`
	Author       syntax.AtIdentifier `param:"author"`
	Conversation syntax.ATURI        `param:"conversation"`
	Role         string              `param:"role"`
	Model        string              `param:"model"`
	Since        syntax.Datetime     `param:"since"`
	Until        syntax.Datetime     `param:"until"`
	Limit        int                 `param:"limit"`
	Cursor       string              `param:"cursor"`
	Format       string              `param:"format"`
}

type searchConversationsOutput struct {
	freshness
	Cursor   string              `json:"cursor,omitempty"`
	Hits     []conversationFound `json:"hits"`
	Markdown string              `json:"markdown,omitempty"`
}

// conversationFound is garden.herbarium.searchConversations#hit.
type conversationFound struct {
	URI          syntax.ATURI    `json:"uri"` // of the turn, or of the conversation when its title was found
	CID          syntax.CID      `json:"cid"`
	Conversation syntax.ATURI    `json:"conversation"`
	Label        string          `json:"label,omitempty"`
	Author       actorView       `json:"author"`
	Role         string          `json:"role,omitempty"`
	Model        string          `json:"model,omitempty"`
	CreatedAt    syntax.Datetime `json:"createdAt,omitempty"`
	Score        int             `json:"score"`
	Matches      []searchMatch   `json:"matches"`
}

// maxTitles is how many conversations that are called by what is looked for stand
// before the turns that say it.
const maxTitles = 10

func (a *Appview) searchConversations(ctx context.Context, xv xrpc.Viewer, p searchConversationsParams) (*searchConversationsOutput, error) {
	author, err := a.author(ctx, p.Author)
	if err != nil {
		return nil, err
	}
	filter := index.SearchFilter{DID: author, Role: p.Role, Model: p.Model, Since: instant(p.Since), Until: instant(p.Until)}
	if p.Conversation != "" {
		if filter.Conversation, err = a.recordURI(ctx, p.Conversation, lexicons.ChatSessionNSID); err != nil {
			return nil, err
		}
	}
	q, after, err := searchPage("searchConversations", p.Query, p.Cursor)
	if err != nil {
		return nil, err
	}
	v := a.viewer(xv)
	var found []index.Found
	if after == nil && p.Role == "" && p.Model == "" {
		titles, err := a.index.SearchTitles(ctx, v, q, filter, maxTitles)
		if err != nil {
			return nil, err
		}
		found = titles.Found
	}
	turns, err := a.index.SearchTurns(ctx, v, q, filter, after, p.Limit)
	if err != nil {
		return nil, err
	}
	out := &searchConversationsOutput{Cursor: searchCursor("searchConversations", turns.Next)}
	if out.Hits, err = a.conversationHits(ctx, v, append(found, turns.Found...)); err != nil {
		return nil, err
	}
	if p.Format == formatMarkdown {
		out.Markdown, out.Hits = conversationHitsMarkdown(p.Query, out), []conversationFound{}
	}
	return out, nil
}

func (a *Appview) conversationHits(ctx context.Context, v index.Viewer, found []index.Found) ([]conversationFound, error) {
	hits := []conversationFound{}
	var containers []syntax.ATURI
	for _, hit := range found {
		view := conversationFound{URI: hit.URI, CID: viewCID(hit.CID), Conversation: hit.URI, Score: hit.Score, Matches: viewMatches(hit.Fields)}
		if hit.Collection == lexicons.MessageNSID {
			m := lexicons.ReadMessage(decodeRecord(hit.Record))
			view.Conversation, view.Role, view.Model, view.CreatedAt = m.Session, m.Role, m.Model, datetime(m.CreatedAt)
		}
		containers = append(containers, view.Conversation)
		hits = append(hits, view)
	}
	containers = distinct(containers)
	records, err := a.index.Records(ctx, v, containers)
	if err != nil {
		return nil, err
	}
	who, err := a.actors(ctx, each(containers, didOf))
	if err != nil {
		return nil, err
	}
	for i := range hits {
		hits[i].Label = labelOf(records[hits[i].Conversation])
		hits[i].Author = who.of(hits[i].Conversation)
	}
	return hits, nil
}

// conversationHitsMarkdown writes what was found as a document.
func conversationHitsMarkdown(query string, found *searchConversationsOutput) string {
	var out strings.Builder
	heading(&out, 1, "Conversations with "+codeSpan(query))
	if len(found.Hits) == 0 {
		out.WriteString("None.\n")
	}
	for _, hit := range found.Hits {
		heading(&out, 2, linkMarkdown(or(hit.Label, "Untitled conversation"), hit.Conversation))
		turn := ""
		if hit.URI != hit.Conversation {
			turn = linkMarkdown("the turn", hit.URI)
		}
		facts(&out, "by "+actorMarkdown(hit.Author), plainMarkdown(hit.Role), codeSpan(hit.Model), humanTime(hit.CreatedAt), turn)
		writeMatches(&out, hit.Matches)
	}
	if found.Cursor != "" {
		out.WriteString("---\n\n*There may be more: ask for the next page with the cursor.*\n")
	}
	return out.String()
}
