package appview

import (
	"context"
	"errors"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

// formatMarkdown is the value of the format parameter that asks for a document.
const formatMarkdown = "markdown"

type getObservationParams struct {
	URI    syntax.ATURI `param:"uri"`
	Format string       `param:"format"`
}

type getObservationOutput struct {
	Observation *observationView `json:"observation,omitempty"`
	Markdown    string           `json:"markdown,omitempty"`
}

func (a *Appview) getObservation(ctx context.Context, v xrpc.Viewer, p getObservationParams) (*getObservationOutput, error) {
	uri, err := a.recordURI(ctx, p.URI, lexicons.ObservationNSID)
	if err != nil {
		return nil, err
	}
	facts, err := a.observationFacts(ctx, viewer(v), uri)
	if errors.Is(err, index.ErrNotFound) {
		return nil, a.notFound(ctx, uri)
	}
	if err != nil {
		return nil, err
	}
	view := viewObservation(*facts)
	if p.Format == formatMarkdown {
		return &getObservationOutput{Markdown: observationMarkdown(view)}, nil
	}
	return &getObservationOutput{Observation: view}, nil
}

// observationFacts hydrates the observation at uri, or its tombstone.
// index.ErrNotFound when neither is shown to v.
func (a *Appview) observationFacts(ctx context.Context, v index.Viewer, uri syntax.ATURI) (*observationFacts, error) {
	record, err := a.index.Record(ctx, v, uri)
	if err != nil {
		return nil, err
	}
	chain, err := a.index.Chain(ctx, v, uri)
	if err != nil {
		return nil, err
	}
	f := &observationFacts{record: *record, chain: *chain}
	full := index.Page{Limit: index.MaxLimit}
	links, err := a.index.ReferencesTo(ctx, v, uri, index.RefSupersedes, full)
	if err != nil {
		return nil, err
	}
	if f.successors, err = a.successors(ctx, v, links.Items); err != nil {
		return nil, err
	}
	if f.citations, err = a.index.ReferencesTo(ctx, v, uri, index.RefCitation, full); err != nil {
		return nil, err
	}
	if f.citing, err = a.index.Records(ctx, v, distinct(each(f.citations.Items, referrer))); err != nil {
		return nil, err
	}
	found, err := a.index.Findings(ctx, v, []syntax.ATURI{uri})
	if err != nil {
		return nil, err
	}
	f.findings = found[uri]
	o := lexicons.ReadObservation(decodeRecord(f.record))
	if record.State != index.StateDeleted {
		f.sameSource, err = a.index.ListObservations(ctx, v, index.ObservationFilter{SourceKind: o.Source.Kind, SourceValue: o.Source.Value, AllVersions: true}, full)
		if err != nil {
			return nil, err
		}
	}
	if f.refs, err = a.refs(ctx, v, present(chain.Self.Supersedes, o.Generator.Transcript)); err != nil {
		return nil, err
	}
	if f.actors, err = a.actors(ctx, f.dids()); err != nil {
		return nil, err
	}
	f.endpoint, err = a.directory.Endpoint(ctx, record.DID)
	return f, err
}

// successors are the live observations among those that name one in supersedes.
func (a *Appview) successors(ctx context.Context, v index.Viewer, links []index.Reference) ([]index.Observation, error) {
	uris := distinct(each(links, referrer))
	found, err := a.index.Observations(ctx, v, uris)
	if err != nil {
		return nil, err
	}
	var out []index.Observation
	for _, uri := range uris {
		if o, ok := found[uri]; ok {
			out = append(out, o)
		}
	}
	return out, nil
}

func referrer(r index.Reference) syntax.ATURI { return r.From }

// present are the references that are there.
func present(refs ...*lexicons.StrongRef) []lexicons.StrongRef {
	var out []lexicons.StrongRef
	for _, ref := range refs {
		if ref != nil {
			out = append(out, *ref)
		}
	}
	return out
}

// dids are all whose handles the view shows.
func (f *observationFacts) dids() []syntax.DID {
	dids := []syntax.DID{f.record.DID}
	for _, s := range f.successors {
		dids = append(dids, s.DID)
	}
	for _, m := range f.chain.Proposals {
		dids = append(dids, m.DID)
	}
	for uri := range f.citing {
		dids = append(dids, didOf(uri))
	}
	return dids
}
