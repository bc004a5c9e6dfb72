package appview

import (
	"context"
	"errors"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

type getClassParams struct {
	atLeast
	URI syntax.ATURI `param:"uri"`
}

type getClassOutput struct {
	freshness
	Class *classView `json:"class"`
}

func (a *Appview) getClass(ctx context.Context, xv xrpc.Viewer, p getClassParams) (*getClassOutput, error) {
	uri, err := a.recordURI(ctx, p.URI, lexicons.ClassNSID)
	if err != nil {
		return nil, err
	}
	v := a.viewer(xv)
	resolution, err := a.index.Class(ctx, v, uri)
	if errors.Is(err, index.ErrNotFound) || err == nil && resolution.Class.CBOR == nil {
		tombstone, who, err := a.tombstone(ctx, v, uri)
		if err != nil {
			return nil, err
		}
		return &getClassOutput{Class: viewDeletedClass(*tombstone, who)}, nil
	}
	if err != nil {
		return nil, err
	}
	facts, err := a.classFacts(ctx, v, resolution)
	if err != nil {
		return nil, err
	}
	return &getClassOutput{Class: viewClass(*facts)}, nil
}

func (a *Appview) classFacts(ctx context.Context, v index.Viewer, r *index.Resolution) (*classFacts, error) {
	f := &classFacts{class: r.Class}
	uri, full := r.Class.URI, index.Page{Limit: index.MaxLimit}
	var err error
	if f.refs, err = a.refs(ctx, v, lineRefs(r)); err != nil {
		return nil, err
	}
	f.resolution = resolve(r, f.refs)
	if f.examples, f.capped, err = a.examples(ctx, v, f.resolution.skills); err != nil {
		return nil, err
	}
	links, err := a.index.ReferencesTo(ctx, v, uri, index.RefParent, full)
	if err != nil {
		return nil, err
	}
	if f.children, err = a.children(ctx, v, links.Items); err != nil {
		return nil, err
	}
	versions, err := a.index.Versions(ctx, v, uri, index.Page{Limit: index.MaxLimit, Reverse: true})
	if err != nil {
		return nil, err
	}
	f.versions = versions.Items
	if r.Class.Name != "" { // an empty filter would be all names
		namesakes, err := a.index.ListClasses(ctx, v, index.ClassFilter{DID: r.Class.DID, Name: r.Class.Name}, full)
		if err != nil {
			return nil, err
		}
		f.namesakes = held(namesakes.Items, classRecord)
	}
	found, err := a.index.Findings(ctx, v, []syntax.ATURI{uri})
	if err != nil {
		return nil, err
	}
	f.findings = found[uri]
	dids := []syntax.DID{r.Class.DID}
	for _, ref := range lineRefs(r) {
		dids = append(dids, didOf(ref.URI))
	}
	for _, c := range f.children {
		dids = append(dids, c.DID)
	}
	f.actors, err = a.actors(ctx, dids)
	return f, err
}

// lineRefs are the references of a class and its ancestors, in the versions
// that the line is made of.
func lineRefs(r *index.Resolution) []lexicons.StrongRef {
	refs := append(present(r.Class.Parent), r.Class.Skills...)
	for _, parent := range r.Parents {
		refs = append(refs, parent.Content.Skills...)
		refs = append(refs, present(parent.Content.Parent)...)
	}
	return distinct(refs)
}

// children are the live classes among those that name one as their parent.
func (a *Appview) children(ctx context.Context, v index.Viewer, links []index.Reference) ([]index.Record, error) {
	uris := distinct(each(links, referrer))
	records, err := a.index.Records(ctx, v, uris)
	if err != nil {
		return nil, err
	}
	var children []index.Record
	for _, uri := range uris {
		if r := records[uri]; r.CBOR != nil && uri.Collection() == lexicons.ClassNSID {
			children = append(children, r)
		}
	}
	return children, nil
}
