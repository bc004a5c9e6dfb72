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
	moment
	URI syntax.ATURI `param:"uri"`
}

type getClassOutput struct {
	freshness
	told
	Class *classView `json:"class"`
}

func (a *Appview) getClass(ctx context.Context, xv xrpc.Viewer, p getClassParams) (*getClassOutput, error) {
	uri, err := a.recordURI(ctx, p.URI, lexicons.ClassNSID)
	if err != nil {
		return nil, err
	}
	v, err := a.viewerAt(xv, p.moment)
	if err != nil {
		return nil, err
	}
	resolution, err := a.index.Class(ctx, v, uri)
	if errors.Is(err, index.ErrNotFound) || err == nil && resolution.Class.CBOR == nil {
		tombstone, who, err := a.tombstone(ctx, v, uri)
		if err != nil {
			return nil, err
		}
		return &getClassOutput{told: tellMoment(v), Class: viewDeletedClass(*tombstone, who)}, nil
	}
	if err != nil {
		return nil, err
	}
	facts, err := a.classFacts(ctx, v, resolution)
	if err != nil {
		return nil, err
	}
	return &getClassOutput{told: tellMoment(v), Class: viewClass(*facts)}, nil
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
	if f.children, err = a.children(ctx, v, uri); err != nil {
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
	found, err := a.findings(ctx, v, []syntax.ATURI{uri})
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

// children are live classes that name the one at uri as their parent, at most
// index.MaxLimit references of them. Which did in the past is not kept.
func (a *Appview) children(ctx context.Context, v index.Viewer, uri syntax.ATURI) ([]index.Record, error) {
	if v.Past() {
		return nil, nil
	}
	links, err := a.index.ReferencesTo(ctx, v, uri, index.RefParent, index.Page{Limit: index.MaxLimit})
	if err != nil {
		return nil, err
	}
	uris := distinct(each(links.Items, referrer))
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
