package index

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

type conversationRow struct {
	URI          string `gorm:"column:uri"`
	Title        string
	Description  string
	Discussion   string
	CreatedAt    string
	Turns        int64
	VisibleTurns int64
	LastTurnAt   string
	SortAt       string
}

const conversationColumns = "t.uri, t.title, t.description, t.discussion, t.created_at, t.turns, t.visible_turns, t.last_turn_at, t.sort_at"

func (r *conversationRow) export() Conversation {
	return Conversation{
		Record: Record{URI: syntax.ATURI(r.URI)},
		Title:  r.Title, Description: r.Description, Discussion: syntax.ATURI(r.Discussion),
		CreatedAt: textTime(r.CreatedAt), Turns: r.Turns, VisibleTurns: r.VisibleTurns,
		LastTurnAt: textTime(r.LastTurnAt), SortAt: textTime(r.SortAt),
	}
}

func conversationRecord(c *Conversation) *Record { return &c.Record }

// Conversation is the chat session at uri.
func (x *Index) Conversation(ctx context.Context, v Viewer, uri syntax.ATURI) (*Conversation, error) {
	q := newQuery(conversationColumns, "conversations t")
	q.where("t.uri = ?", uri)
	q.visible(v, conversation...)
	var rows []conversationRow
	if err := q.all(x.db.Read.WithContext(ctx), &rows); err != nil {
		return nil, fmt.Errorf("read conversation %s: %w", uri, err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("conversation %s: %w", uri, ErrNotFound)
	}
	items := []Conversation{rows[0].export()}
	if err := hydrate(ctx, x, v, items, conversationRecord); err != nil {
		return nil, err
	}
	return &items[0], nil
}

// ListConversations lists conversations, the last active (SortAt) first.
func (x *Index) ListConversations(ctx context.Context, v Viewer, f ConversationFilter, p Page) (List[Conversation], error) {
	q := newQuery(conversationColumns, "conversations t")
	q.whereIf(f.DID != "", "t.did = ?", f.DID)
	q.whereIf(!f.IncludeEmpty && !v.Admin, "(t.visible_turns > 0 OR t.did = ?)", v.DID)
	q.between(f.Since, f.Until)
	q.visible(v, conversation...)
	q.before(p, "t.sort_at")
	var rows []conversationRow
	if err := q.page(x.db.Read.WithContext(ctx), "t.sort_at DESC, t.uri DESC", p, &rows); err != nil {
		return List[Conversation]{}, fmt.Errorf("list conversations: %w", err)
	}
	list := collect(rows, p, func(r *conversationRow) (Conversation, Position) {
		return r.export(), Position{Key: r.SortAt, URI: r.URI}
	})
	return list, hydrate(ctx, x, v, list.Items, conversationRecord)
}

type turnRow struct {
	URI        string `gorm:"column:uri"`
	SessionURI string `gorm:"column:session_uri"`
	Role       string
	Model      string
	Withheld   bool
	Foreigner  bool
	Rewrites   string
}

const turnColumns = "t.uri, t.session_uri, t.role, t.model, t.withheld, t.foreigner, t.rewrites"

func (r *turnRow) export() Turn {
	return Turn{
		Record: Record{URI: syntax.ATURI(r.URI)}, Role: r.Role, Model: r.Model,
		Withheld: r.Withheld, Foreign: r.Foreigner, Rewrites: splitList(r.Rewrites),
	}
}

func turnRecord(t *Turn) *Record { return &t.Record }

// Turns are the turns of a conversation by its own author in order of record
// key; with foreign set, those from other repos instead, by URI. Knows Reverse. A
// conversation whose container is not here has turns for its author and the
// operator alone: to delete the container is to retract it. One whose container
// was taken down has them for the operator alone.
func (x *Index) Turns(ctx context.Context, v Viewer, session syntax.ATURI, foreign bool, p Page) (List[Turn], error) {
	direction, beyond := p.order()
	q := newQuery(turnColumns, "messages t")
	q.where("t.session_uri = ? AND t.foreigner = ?", session, foreign)
	if !v.Admin && (v.DID == "" || v.DID.String() != session.Authority().String()) {
		q.where("EXISTS (SELECT 1 FROM conversations c WHERE c.uri = t.session_uri)")
	}
	q.whereIf(!v.Admin, notTakenDown("t.session_uri"))
	q.visible(v, conversation...)
	if p.After != nil {
		q.where("t.uri "+beyond+" ?", p.After.URI)
	}
	var rows []turnRow
	if err := q.page(x.db.Read.WithContext(ctx), "t.uri"+direction, p, &rows); err != nil {
		return List[Turn]{}, fmt.Errorf("list turns of %s: %w", session, err)
	}
	list := collect(rows, p, func(r *turnRow) (Turn, Position) { return r.export(), Position{URI: r.URI} })
	return list, hydrate(ctx, x, v, list.Items, turnRecord)
}

// OpeningTurns are, by conversation, the first turn of its own author that is
// by the user, not withheld and not without text: what an untitled
// conversation is called by. At most MaxBatch URIs.
func (x *Index) OpeningTurns(ctx context.Context, v Viewer, sessions []syntax.ATURI) (map[syntax.ATURI]Turn, error) {
	out := map[syntax.ATURI]Turn{}
	if len(sessions) == 0 {
		return out, nil
	}
	if err := batch(len(sessions)); err != nil {
		return nil, err
	}
	first := newQuery("MIN(t.uri)", "messages t")
	first.where("t.session_uri IN ? AND NOT t.foreigner AND t.role = 'user' AND NOT t.withheld AND t.worded", sessions)
	first.whereIf(!v.Admin, notTakenDown("t.uri"))
	q := newQuery(turnColumns, "messages t")
	q.where("t.uri IN ("+first.sql()+" GROUP BY t.session_uri)", first.args...)
	q.visible(v, conversation...)
	var rows []turnRow
	if err := q.all(x.db.Read.WithContext(ctx), &rows); err != nil {
		return nil, fmt.Errorf("read opening turns: %w", err)
	}
	turns := make([]Turn, len(rows))
	for i := range rows {
		turns[i] = rows[i].export()
	}
	if err := hydrate(ctx, x, v, turns, turnRecord); err != nil {
		return nil, err
	}
	for i := range turns {
		out[syntax.ATURI(rows[i].SessionURI)] = turns[i]
	}
	return out, nil
}
