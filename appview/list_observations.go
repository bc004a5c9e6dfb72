package appview

import (
	"context"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons/xrpc"
)

type listObservationsParams struct {
	atLeast
	Author      syntax.AtIdentifier `param:"author"`
	SourceKind  string              `param:"sourceKind"`
	SourceValue string              `param:"sourceValue"`
	Method      string              `param:"method"`
	Run         syntax.TID          `param:"run"`
	Device      string              `param:"device"`
	Model       string              `param:"model"`
	HeadsOnly   bool                `param:"headsOnly"`
	Since       syntax.Datetime     `param:"since"`
	Until       syntax.Datetime     `param:"until"`
	Limit       int                 `param:"limit"`
	Cursor      string              `param:"cursor"`
}

type listObservationsOutput struct {
	freshness
	Cursor       string            `json:"cursor,omitempty"`
	Observations []observationItem `json:"observations"`
}

func (a *Appview) listObservations(ctx context.Context, xv xrpc.Viewer, p listObservationsParams) (*listObservationsOutput, error) {
	author, err := a.author(ctx, p.Author)
	if err != nil {
		return nil, err
	}
	at, err := page("listObservations", p.Limit, p.Cursor)
	if err != nil {
		return nil, err
	}
	v := a.viewer(xv)
	list, err := a.index.ListObservations(ctx, v, index.ObservationFilter{
		DID:         author,
		SourceKind:  p.SourceKind,
		SourceValue: p.SourceValue,
		Method:      p.Method,
		Run:         p.Run,
		Device:      p.Device,
		Model:       p.Model,
		Since:       instant(p.Since),
		Until:       instant(p.Until),
		AllVersions: !p.HeadsOnly,
	}, at)
	if err != nil {
		return nil, err
	}
	items, err := a.observationItems(ctx, v, held(list.Items, observationRecord))
	if err != nil {
		return nil, err
	}
	return &listObservationsOutput{Cursor: cursorOf("listObservations", list.Next), Observations: orEmpty(items)}, nil
}

// observationItems hydrates a page of observations.
func (a *Appview) observationItems(ctx context.Context, v index.Viewer, list []index.Observation) ([]observationItem, error) {
	around, err := a.surroundings(ctx, v, each(list, observationRecord))
	if err != nil {
		return nil, err
	}
	disputes, err := a.index.Disputed(ctx, v, each(list, func(o index.Observation) syntax.ATURI { return o.URI }))
	if err != nil {
		return nil, err
	}
	var shown []BlobID
	for _, o := range list {
		if o.Blob != nil {
			shown = append(shown, BlobID{o.DID, o.Blob.CID})
		}
	}
	blobs, err := a.blobHosts(ctx, shown)
	if err != nil {
		return nil, err
	}
	return each(list, func(o index.Observation) observationItem {
		return viewObservationItem(o, around.findings(o.URI), disputes[o.URI], around.actors, blobs)
	}), nil
}
