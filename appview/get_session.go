package appview

import (
	"context"
	"errors"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

type getSessionParams struct {
	atLeast
	moment
	URI    syntax.ATURI `param:"uri"`
	Format string       `param:"format"`
}

type getSessionOutput struct {
	freshness
	told
	Session  *sessionView `json:"session,omitempty"`
	Markdown string       `json:"markdown,omitempty"`
}

func (a *Appview) getSession(ctx context.Context, xv xrpc.Viewer, p getSessionParams) (*getSessionOutput, error) {
	uri, err := a.recordURI(ctx, p.URI, lexicons.SessionNSID)
	if err != nil {
		return nil, err
	}
	v, err := a.viewerAt(xv, p.moment)
	if err != nil {
		return nil, err
	}
	view, err := a.sessionView(ctx, v, uri)
	if err != nil {
		return nil, err
	}
	out := &getSessionOutput{told: tellMoment(v)}
	if p.Format == formatMarkdown {
		out.Markdown = out.head() + sessionMarkdown(view)
	} else {
		out.Session = view
	}
	return out, nil
}

func (a *Appview) sessionView(ctx context.Context, v index.Viewer, uri syntax.ATURI) (*sessionView, error) {
	session, err := a.index.Session(ctx, v, uri)
	if errors.Is(err, index.ErrNotFound) || err == nil && session.CBOR == nil {
		tombstone, who, err := a.tombstone(ctx, v, uri)
		if err != nil {
			return nil, err
		}
		return viewDeletedSession(*tombstone, who), nil
	}
	if err != nil {
		return nil, err
	}
	facts, err := a.sessionFacts(ctx, v, *session)
	if err != nil {
		return nil, err
	}
	return viewSession(*facts), nil
}

func (a *Appview) sessionFacts(ctx context.Context, v index.Viewer, s index.Session) (*sessionFacts, error) {
	f := &sessionFacts{session: s, now: a.clockOf(v), states: a.states}
	full := index.Page{Limit: index.MaxLimit, Reverse: true}
	var err error
	if f.versions, err = a.index.Versions(ctx, v, s.URI, full); err != nil {
		return nil, err
	}
	full.Reverse = false
	if run, err := syntax.ParseTID(string(s.RecordKey)); err == nil {
		list, err := a.index.ListObservations(ctx, v, index.ObservationFilter{DID: s.DID, Run: run, AllVersions: true}, full)
		if err != nil {
			return nil, err
		}
		f.exact = list.Items
	}
	// Without a machine and a start there is no circumstance to infer from.
	if s.Machine != "" && !s.StartedAt.IsZero() {
		list, err := a.index.ListObservations(ctx, v, index.ObservationFilter{
			DID:         s.DID,
			Device:      s.Machine,
			Since:       s.StartedAt,
			Until:       later(s.SortAt, s.Record.UpdatedAt),
			AllVersions: true,
		}, full)
		if err != nil {
			return nil, err
		}
		f.nearby = list.Items
	}
	if f.siblings, err = a.siblings(ctx, v, s); err != nil {
		return nil, err
	}
	sessions := append([]index.Session{s}, f.siblings...)
	around, err := a.surroundings(ctx, v, each(sessions, sessionRecord))
	if err != nil {
		return nil, err
	}
	f.actors, f.findings = around.actors, around.found
	return f, nil
}

// siblings are the sessions of the same record key in other repos of the team.
// One outside the team is left out: anybody can use the same key.
func (a *Appview) siblings(ctx context.Context, v index.Viewer, s index.Session) ([]index.Session, error) {
	own, err := a.directory.Members(ctx, []syntax.DID{s.DID})
	if err != nil || !own[s.DID] {
		return nil, err
	}
	var siblings []index.Session
	// However many strangers use the key, they do not crowd out the team.
	for at := (index.Page{Limit: index.MaxLimit}); len(siblings) < index.MaxLimit; {
		list, err := a.index.ListSessions(ctx, v, index.SessionFilter{RecordKey: s.RecordKey}, at)
		if err != nil {
			return nil, err
		}
		members, err := a.directory.Members(ctx, distinct(each(list.Items, func(s index.Session) syntax.DID { return s.DID })))
		if err != nil {
			return nil, err
		}
		for _, other := range held(list.Items, sessionRecord) {
			if other.DID != s.DID && members[other.DID] {
				siblings = append(siblings, other)
			}
		}
		if at.After = list.Next; at.After == nil {
			break
		}
	}
	return siblings, nil
}
