package appview

import (
	"context"
	"errors"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

type getObservationHistoryParams struct {
	atLeast
	moment
	URI    syntax.ATURI `param:"uri"`
	Limit  int          `param:"limit"`
	Cursor string       `param:"cursor"`
	Format string       `param:"format"`
}

type getObservationHistoryOutput struct {
	freshness
	told
	URI      syntax.ATURI         `json:"uri"`
	Head     *strongRef           `json:"head,omitempty"`
	Forked   bool                 `json:"forked"`
	Complete bool                 `json:"complete"`
	Cursor   string               `json:"cursor,omitempty"`
	Versions []observationVersion `json:"versions,omitempty"`
	Markdown string               `json:"markdown,omitempty"`
}

func (a *Appview) getObservationHistory(ctx context.Context, xv xrpc.Viewer, p getObservationHistoryParams) (*getObservationHistoryOutput, error) {
	uri, err := a.recordURI(ctx, p.URI, lexicons.ObservationNSID)
	if err != nil {
		return nil, err
	}
	at, err := page("getObservationHistory", p.Limit, p.Cursor)
	if err != nil {
		return nil, err
	}
	at.Reverse = true
	v, err := a.viewerAt(xv, p.moment)
	if err != nil {
		return nil, err
	}
	chain, err := a.index.Chain(ctx, v, uri)
	if errors.Is(err, index.ErrNotFound) {
		return nil, a.notFound(ctx, v, uri)
	}
	if err != nil {
		return nil, err
	}
	members, err := a.index.ChainMembers(ctx, v, uri, at)
	if err != nil {
		return nil, err
	}
	facts, err := a.historyFacts(ctx, v, chain, members.Items)
	if err != nil {
		return nil, err
	}
	out := &getObservationHistoryOutput{
		told:     tellMoment(v),
		URI:      uri,
		Forked:   chain.Forked,
		Complete: chain.Root.Edge != index.EdgePending,
		Cursor:   cursorOf("getObservationHistory", members.Next),
		Versions: each(members.Items, func(m index.Member) observationVersion { return viewVersion(m, *facts) }),
	}
	if chain.Head != nil {
		head := memberRef(*chain.Head)
		out.Head = &head
	}
	if p.Format == formatMarkdown {
		out.Markdown, out.Versions = out.head()+historyMarkdown(out), nil
	}
	return out, nil
}

// historyFacts hydrates a page of a chain: its members, and what they
// supersede, which may be on the next page.
func (a *Appview) historyFacts(ctx context.Context, v index.Viewer, chain *index.Chain, members []index.Member) (*historyFacts, error) {
	f := &historyFacts{heads: map[syntax.ATURI]bool{}}
	for _, head := range chain.Heads {
		f.heads[head.URI] = true
	}
	uris := each(members, func(m index.Member) syntax.ATURI { return m.URI })
	dids := distinct(each(members, func(m index.Member) syntax.DID { return m.DID }))
	wanted := uris
	for _, m := range members {
		if m.Supersedes != nil {
			wanted = append(wanted, m.Supersedes.URI)
		}
	}
	var err error
	if f.records, err = a.index.Records(ctx, v, distinct(wanted)); err != nil {
		return nil, err
	}
	if f.findings, err = a.findings(ctx, v, uris); err != nil {
		return nil, err
	}
	if f.actors, err = a.actors(ctx, dids); err != nil {
		return nil, err
	}
	var shown []BlobID
	for _, uri := range uris {
		shown = append(shown, contentOf(f.records[uri])...)
	}
	f.blobs, err = a.blobHosts(ctx, shown)
	return f, err
}
