package appview

import (
	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
)

// citationCheck is garden.herbarium.defs#citationCheck.
type citationCheck struct {
	Path     string   `json:"path"`
	Span     byteSpan `json:"span"`
	Relation string   `json:"relation"`
	Selector string   `json:"selector,omitempty"`
	Target   refView  `json:"target"`
	verdictView
	Freshness lexicons.Freshness `json:"freshness,omitempty"`
	Head      *strongRef         `json:"head,omitempty"`
}

// byteSpan is garden.herbarium.defs#byteSpan.
type byteSpan struct {
	Start int64 `json:"byteStart"`
	End   int64 `json:"byteEnd"`
}

// verdictView is what citationCheck and citingView say of a verdict.
type verdictView struct {
	Verdict  lexicons.CitationVerdict `json:"verdict"`
	Reason   string                   `json:"reason,omitempty"`
	Haystack lexicons.Haystack        `json:"haystack,omitempty"`
	At       *byteSpan                `json:"at,omitempty"`
}

// viewVerdict joins what came of trying a selector with what became of the
// version that is pinned, for whoever asks: of a target that is not theirs to
// see they are not told whether it has some words either.
func viewVerdict(target refView, tested lexicons.Tested) verdictView {
	switch target.State {
	case index.RefCurrent:
	case index.RefChanged:
		if !target.Held {
			return verdictView{Verdict: lexicons.CitationTargetChanged}
		}
	case index.RefCommitCID:
		return verdictView{Verdict: lexicons.CitationTargetChanged}
	case index.RefDeleted, index.RefPurged:
		return verdictView{Verdict: lexicons.CitationTargetDeleted}
	case index.RefMissing, index.RefMalformed:
		return verdictView{Verdict: lexicons.CitationTargetMissing}
	default:
		return verdictView{Verdict: lexicons.CitationUnknown, Reason: string(target.State)}
	}
	view := verdictView{Verdict: tested.Verdict, Reason: tested.Reason, Haystack: tested.Haystack}
	if tested.At != nil {
		view.At = &byteSpan{Start: tested.At.Start, End: tested.At.End}
	}
	return view
}

// citationFacts is all that the checks of one record's citations are made of.
type citationFacts struct {
	checked []index.Checked
	refs    *refTable
	heads   map[syntax.ATURI]index.Record // those that may be seen
}

func (f citationFacts) view(c index.Checked) citationCheck {
	view := citationCheck{
		Path:     c.Path,
		Span:     byteSpan{Start: c.Span.Start, End: c.Span.End},
		Relation: c.Relation,
		Target:   refView{URI: c.Named, State: index.RefMalformed},
	}
	view.Selector, _ = c.Selector["$type"].(string)
	if c.Target != nil {
		view.Target = f.refs.view(*c.Target)
	}
	view.verdictView = viewVerdict(view.Target, c.Tested)
	switch view.Target.State {
	case index.RefCurrent, index.RefChanged, index.RefDeleted:
	default:
		return view // what superseded it tells of it too
	}
	if c.Head == nil {
		return view
	}
	view.Freshness = lexicons.FreshUnknown
	if head, seen := f.heads[c.Head.URI]; seen && head.CBOR != nil {
		ref := viewStrongRef(*c.Head)
		view.Freshness, view.Head = c.Freshness, &ref
	}
	return view
}

// citingView is garden.herbarium.defs#citingView.
type citingView struct {
	URI      syntax.ATURI   `json:"uri"`
	CID      syntax.CID     `json:"cid"`
	Author   actorView      `json:"author"`
	Relation string         `json:"relation"`
	Path     string         `json:"path,omitempty"`
	Pins     syntax.CID     `json:"pins,omitempty"`
	State    index.RefState `json:"state,omitempty"`
	verdictView
	Freshness lexicons.Freshness `json:"freshness,omitempty"`
}

// viewCitedBy lists who cites the observation of f.
func viewCitedBy(f observationFacts) []citingView {
	var view []citingView
	for _, c := range f.citations.Items {
		record, ok := f.citing[c.From]
		if !ok || record.CBOR == nil {
			continue
		}
		target := f.refs.view(c.Target)
		view = append(view, citingView{
			URI:         c.From,
			CID:         viewCID(record.CID),
			Author:      f.actors.of(c.From),
			Relation:    c.Relation,
			Path:        c.Path,
			Pins:        viewCID(c.Target.CID),
			State:       target.State,
			verdictView: viewVerdict(target, c.Tested),
			Freshness:   f.freshness(c),
		})
	}
	return view
}

// freshness is what is kept of a citation of the observation, unless that is
// about another head than the one that is shown.
func (f observationFacts) freshness(c index.Cited) lexicons.Freshness {
	switch head := f.chain.Head; {
	case head == nil || head.URI == f.record.URI:
		return ""
	case head.URI != c.Head:
		return lexicons.FreshUnknown
	}
	return c.Freshness
}

// citedGroup is garden.herbarium.defs#citedGroup.
type citedGroup struct {
	Relation  string `json:"relation"`
	Citations int64  `json:"citations"`
	Hold      int64  `json:"hold"`
	Fail      int64  `json:"fail"`
}

// viewCitedGroups adds counts up; they come in order of their relation.
func viewCitedGroups(counts []index.CitedCount) []citedGroup {
	var groups []citedGroup
	for _, c := range counts {
		if len(groups) == 0 || groups[len(groups)-1].Relation != c.Relation {
			groups = append(groups, citedGroup{Relation: c.Relation})
		}
		g := &groups[len(groups)-1]
		g.Citations += c.N
		if c.Verdict.Holds() {
			g.Hold += c.N
		}
		if c.Verdict.Fails() {
			g.Fail += c.N
		}
	}
	return groups
}
