package appview

import (
	"context"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons/xrpc"
)

type searchObservationsParams struct {
	atLeast
	Query       string              `param:"q"`
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
	Format      string              `param:"format"`
}

type searchObservationsOutput struct {
	freshness
	Cursor   string             `json:"cursor,omitempty"`
	Hits     []observationFound `json:"hits"`
	Markdown string             `json:"markdown,omitempty"`
}

// observationFound is garden.herbarium.searchObservations#hit.
type observationFound struct {
	Observation observationItem `json:"observation"`
	Score       int             `json:"score"`
	Matches     []searchMatch   `json:"matches"`
}

func (a *Appview) searchObservations(ctx context.Context, xv xrpc.Viewer, p searchObservationsParams) (*searchObservationsOutput, error) {
	author, err := a.author(ctx, p.Author)
	if err != nil {
		return nil, err
	}
	q, after, err := searchPage("searchObservations", p.Query, p.Cursor)
	if err != nil {
		return nil, err
	}
	v := a.viewer(xv)
	result, err := a.index.SearchObservations(ctx, v, q, index.SearchFilter{
		DID: author, SourceKind: p.SourceKind, SourceValue: p.SourceValue, Method: p.Method, Run: p.Run, Device: p.Device, Model: p.Model,
		Since: instant(p.Since), Until: instant(p.Until), AllVersions: !p.HeadsOnly,
	}, after, p.Limit)
	if err != nil {
		return nil, err
	}
	uris := each(result.Found, func(hit index.Found) syntax.ATURI { return hit.URI })
	observations, err := a.index.Observations(ctx, v, uris)
	if err != nil {
		return nil, err
	}
	var list []index.Observation
	found := map[syntax.ATURI]index.Found{}
	for _, hit := range result.Found {
		if o, ok := observations[hit.URI]; ok && o.CBOR != nil {
			list, found[hit.URI] = append(list, o), hit
		}
	}
	items, err := a.observationItems(ctx, v, list)
	if err != nil {
		return nil, err
	}
	out := &searchObservationsOutput{Cursor: searchCursor("searchObservations", result.Next), Hits: []observationFound{}}
	for _, item := range items {
		hit := found[item.URI]
		out.Hits = append(out.Hits, observationFound{Observation: item, Score: hit.Score, Matches: viewMatches(hit.Fields)})
	}
	if p.Format == formatMarkdown {
		out.Markdown, out.Hits = searchMarkdown(p.Query, out), []observationFound{}
	}
	return out, nil
}

// searchMarkdown writes what was found as a document.
func searchMarkdown(query string, found *searchObservationsOutput) string {
	var out strings.Builder
	heading(&out, 1, "Observations with "+codeSpan(query))
	if len(found.Hits) == 0 {
		out.WriteString("None.\n")
	}
	for _, hit := range found.Hits {
		o := hit.Observation
		heading(&out, 2, linkMarkdown(o.Source.Value, o.URI))
		state := ""
		if !o.IsHead {
			state = "superseded since"
		}
		facts(&out, "by "+actorMarkdown(o.Author), prefixed("observed ", humanTime(o.ObservedAt)), state)
		writeMatches(&out, hit.Matches)
	}
	if found.Cursor != "" {
		out.WriteString("---\n\n*There may be more: ask for the next page with the cursor.*\n")
	}
	return out.String()
}

// writeMatches writes snippets with the places of the words, in bytes of the record's field.
func writeMatches(out *strings.Builder, matches []searchMatch) {
	for _, m := range matches {
		out.WriteString(quoteMarkdown(m.Snippet))
		places := each(m.Hits[:min(len(m.Hits), 5)], func(h searchSpan) string {
			return fmt.Sprintf("%s at %d–%d", codeSpan(h.Term), h.ByteStart, h.ByteEnd)
		})
		fmt.Fprintf(out, "\n*In its %s: %s.*\n\n", m.Field, strings.Join(places, ", "))
	}
}
