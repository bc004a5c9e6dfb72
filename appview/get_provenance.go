package appview

import (
	"context"
	"errors"
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

type getProvenanceParams struct {
	atLeast
	URI       syntax.ATURI `param:"uri"`
	Direction string       `param:"direction"`
	Depth     int          `param:"depth"`
	Limit     int          `param:"limit"`
}

type getProvenanceOutput struct {
	freshness
	URI       syntax.ATURI     `json:"uri"`
	Nodes     []provenanceNode `json:"nodes"`
	Edges     []provenanceEdge `json:"edges"`
	Truncated bool             `json:"truncated,omitempty"`
}

// provenanceNode is garden.herbarium.getProvenance#node.
type provenanceNode struct {
	ID     string         `json:"id"`
	Kind   string         `json:"kind"`
	URI    syntax.ATURI   `json:"uri,omitempty"`
	CID    syntax.CID     `json:"cid,omitempty"`
	State  index.RefState `json:"state,omitempty"`
	Author *actorView     `json:"author,omitempty"`
	Label  string         `json:"label,omitempty"`
	Head   *bool          `json:"isHead,omitempty"`
	Depth  int            `json:"depth"`
}

// provenanceEdge is garden.herbarium.getProvenance#edge.
type provenanceEdge struct {
	From string     `json:"from"`
	To   string     `json:"to"`
	Kind string     `json:"kind"`
	CID  syntax.CID `json:"cid,omitempty"`
}

// The directions of a walk.
const (
	restsOn = "restsOn" // what the record rests on
	resting = "resting" // what rests on it
)

// edgeKinds are the words for what a reference is in a graph; the rest are called
// as the index calls them.
var edgeKinds = map[index.ReferenceKind]string{
	index.RefCitation: "cites", index.RefSkill: "uses", index.RefExample: "uses", index.RefProperty: "uses", index.RefTurn: "refs",
}

// nodeKinds are the words for records by type; any other is a record.
var nodeKinds = map[syntax.NSID]string{
	lexicons.ObservationNSID: "observation", lexicons.ClaimNSID: "claim", lexicons.MessageNSID: "message", lexicons.SessionNSID: "session",
	lexicons.ChatSessionNSID: "conversation", lexicons.ClassNSID: "class", lexicons.SkillNSID: "skill",
}

// walk is a graph while it grows, a level at a time.
type walk struct {
	links     []index.Reference
	depth     map[syntax.ATURI]int
	order     []syntax.ATURI
	limit     int
	truncated bool
}

// take adds a record that was met, and tells whether it is new.
func (w *walk) take(uri syntax.ATURI, depth int) bool {
	if _, met := w.depth[uri]; met {
		return false
	}
	if len(w.order) >= w.limit {
		w.truncated = true
		return false
	}
	w.depth[uri] = depth
	w.order = append(w.order, uri)
	return true
}

func (a *Appview) getProvenance(ctx context.Context, xv xrpc.Viewer, p getProvenanceParams) (*getProvenanceOutput, error) {
	uri, err := a.recordURI(ctx, p.URI, "")
	if err != nil {
		return nil, err
	}
	v := a.viewer(xv)
	if _, err := a.index.Record(ctx, v, uri); errors.Is(err, index.ErrNotFound) {
		return nil, a.notFound(ctx, v, uri)
	} else if err != nil {
		return nil, err
	}
	w := &walk{depth: map[syntax.ATURI]int{}, limit: p.Limit}
	w.take(uri, 0)
	directions := []bool{true, false} // out, and in
	switch p.Direction {
	case restsOn:
		directions = directions[:1]
	case resting:
		directions = directions[1:]
	}
	for _, out := range directions {
		if err := a.walk(ctx, v, w, uri, out, p.Depth); err != nil {
			return nil, err
		}
	}
	return a.viewProvenanceGraph(ctx, v, w)
}

// walk follows references from, or to, a record: two queries for each level.
func (a *Appview) walk(ctx context.Context, v index.Viewer, w *walk, from syntax.ATURI, out bool, depth int) error {
	frontier := []syntax.ATURI{from}
	for level := 1; level <= depth && len(frontier) > 0; level++ {
		links, more, err := a.index.Links(ctx, v, frontier, out, 4*w.limit)
		if err != nil {
			return err
		}
		w.truncated = w.truncated || more
		frontier = nil
		for _, l := range links {
			met := l.From
			if out {
				met = l.Target
			}
			fresh := w.take(met, level)
			if _, in := w.depth[met]; !in {
				continue // there is no more room
			}
			w.links = append(w.links, l)
			if fresh {
				frontier = append(frontier, met)
			}
		}
	}
	return nil
}

// viewProvenanceGraph hydrates what was met, and adds what observations say of
// themselves: their source, their run, and who made them.
func (a *Appview) viewProvenanceGraph(ctx context.Context, v index.Viewer, w *walk) (*getProvenanceOutput, error) {
	out := &getProvenanceOutput{URI: w.order[0], Nodes: []provenanceNode{}, Edges: []provenanceEdge{}, Truncated: w.truncated}
	records, err := a.index.Records(ctx, v, w.order)
	if err != nil {
		return nil, err
	}
	observations, err := a.index.Observations(ctx, v, ofCollection(w.order, lexicons.ObservationNSID))
	if err != nil {
		return nil, err
	}
	var pins []lexicons.StrongRef
	for _, l := range w.links {
		if l.CID.Defined() {
			pins = append(pins, lexicons.StrongRef{URI: l.Target, CID: l.CID})
		}
	}
	refs, err := a.refs(ctx, v, distinct(pins))
	if err != nil {
		return nil, err
	}
	pinned := map[syntax.ATURI]refView{} // what is told of a record that is not shown
	for _, pin := range pins {
		pinned[pin.URI] = refs.view(pin)
	}
	who, err := a.actors(ctx, each(w.order, didOf))
	if err != nil {
		return nil, err
	}
	added := map[string]bool{}
	leaf := func(node provenanceNode) string {
		if !added[node.ID] {
			added[node.ID] = true
			out.Nodes = append(out.Nodes, node)
		}
		return node.ID
	}
	for _, uri := range w.order {
		node := provenanceNode{ID: string(uri), Kind: or(nodeKinds[uri.Collection()], "record"), URI: uri, Depth: w.depth[uri]}
		rec, shown := records[uri]
		switch {
		case shown:
			author := who.of(uri)
			node.State, node.Author = rec.RefState(), &author
			node.CID, node.Label = viewCID(rec.CID), labelOf(rec)
		case pinned[uri].URI != "":
			node.State = pinned[uri].State
		}
		o, observed := observations[uri]
		if observed {
			node.Head = &o.Head
		}
		out.Nodes = append(out.Nodes, node)
		if !shown || !observed || o.CBOR == nil {
			continue
		}
		edge := func(kind, to string) {
			out.Edges = append(out.Edges, provenanceEdge{From: node.ID, To: to, Kind: kind})
		}
		source, _ := lexicons.MaskCredentials(o.SourceValue)
		edge("source", leaf(provenanceNode{ID: "source:" + o.SourceKind + " " + source, Kind: "source", Label: shorten(oneLine(o.SourceKind+" "+source), refLabelLength), Depth: node.Depth + 1}))
		if o.Run != "" {
			edge("run", leaf(provenanceNode{ID: "run:" + string(o.Run), Kind: "run", Label: string(o.Run), Depth: node.Depth + 1}))
		}
		author := who.of(uri)
		edge("by", leaf(provenanceNode{ID: string(author.DID), Kind: "agent", Author: &author, Label: author.name(), Depth: node.Depth + 1}))
	}
	seen := map[provenanceEdge]bool{}
	for _, l := range w.links {
		e := provenanceEdge{From: string(l.From), To: string(l.Target), Kind: or(edgeKinds[l.Kind], string(l.Kind)), CID: viewCID(l.CID)}
		if !seen[e] {
			seen[e] = true
			out.Edges = append(out.Edges, e)
		}
	}
	slices.SortStableFunc(out.Nodes, func(x, y provenanceNode) int { return x.Depth - y.Depth })
	return out, nil
}
