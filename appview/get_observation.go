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
	atLeast
	moment
	URI    syntax.ATURI `param:"uri"`
	Format string       `param:"format"`
}

type getObservationOutput struct {
	freshness
	told
	Observation *observationView `json:"observation,omitempty"`
	Markdown    string           `json:"markdown,omitempty"`
}

func (a *Appview) getObservation(ctx context.Context, xv xrpc.Viewer, p getObservationParams) (*getObservationOutput, error) {
	uri, err := a.recordURI(ctx, p.URI, lexicons.ObservationNSID)
	if err != nil {
		return nil, err
	}
	v, err := a.viewerAt(xv, p.moment)
	if err != nil {
		return nil, err
	}
	facts, err := a.observationFacts(ctx, v, uri)
	if errors.Is(err, index.ErrNotFound) {
		return nil, a.notFound(ctx, v, uri)
	}
	if err != nil {
		return nil, err
	}
	view, out := viewObservation(*facts), &getObservationOutput{told: tellMoment(v)}
	if p.Format == formatMarkdown {
		out.Markdown = out.head() + observationMarkdown(view)
	} else {
		out.Observation = view
	}
	return out, nil
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
	if f.successors, err = a.index.Successors(ctx, v, uri); err != nil {
		return nil, err
	}
	if f.others, err = a.index.OtherVersions(ctx, v, uri, index.Page{Limit: index.MaxLimit}); err != nil {
		return nil, err
	}
	if err := a.citedBy(ctx, v, f); err != nil {
		return nil, err
	}
	found, err := a.findings(ctx, v, []syntax.ATURI{uri})
	if err != nil {
		return nil, err
	}
	f.findings = found[uri]
	o := lexicons.ReadObservation(decodeRecord(f.record))
	if record.State != index.StateDeleted && !v.Past() {
		if f.sameSource, err = a.index.CountSource(ctx, v, o.Source.Kind, o.Source.Value, maxSameSource+1); err != nil {
			return nil, err
		}
	}
	refs := append(present(chain.Self.Supersedes, o.Generator.Transcript), each(f.citations.Items, func(c index.Cited) lexicons.StrongRef { return c.Target })...)
	if f.refs, err = a.refs(ctx, v, refs); err != nil {
		return nil, err
	}
	if f.actors, err = a.actors(ctx, f.dids()); err != nil {
		return nil, err
	}
	f.blobs, err = a.blobHosts(ctx, contentOf(f.record))
	return f, err
}

// citedBy hydrates who cites the observation.
func (a *Appview) citedBy(ctx context.Context, v index.Viewer, f *observationFacts) (err error) {
	if v.Past() {
		return nil
	}
	uri := f.record.URI
	if f.citations, err = a.index.CitedBy(ctx, v, uri, index.Page{Limit: index.MaxLimit}); err != nil {
		return err
	}
	if f.citing, err = a.index.Records(ctx, v, distinct(each(f.citations.Items, func(c index.Cited) syntax.ATURI { return c.From }))); err != nil {
		return err
	}
	if f.counts, err = a.index.CountCitations(ctx, v, uri); err != nil {
		return err
	}
	disputes, err := a.index.Disputed(ctx, v, []syntax.ATURI{uri})
	f.disputes = disputes[uri]
	return err
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
