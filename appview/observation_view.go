package appview

import (
	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
)

// observationView is garden.herbarium.defs#observationView.
type observationView struct {
	URI         syntax.ATURI    `json:"uri"`
	CID         syntax.CID      `json:"cid,omitempty"`
	Author      actorView       `json:"author"`
	State       index.RefState  `json:"state"`
	DeletedAt   syntax.Datetime `json:"deletedAt,omitempty"`
	Source      *sourceView     `json:"source,omitempty"`
	Method      string          `json:"method,omitempty"`
	ObservedAt  syntax.Datetime `json:"observedAt,omitempty"`
	CreatedAt   syntax.Datetime `json:"createdAt,omitempty"`
	Text        string          `json:"text,omitempty"`
	TextBytes   int             `json:"textBytes,omitempty"`
	Content     *blobView       `json:"content,omitempty"`
	Generator   *generatorView  `json:"generator,omitempty"`
	Chain       chainPosition   `json:"chain"`
	SameSource  *sameSource     `json:"sameSource,omitempty"`
	CitedBy     []citingView    `json:"citedBy,omitempty"`
	CitedCapped bool            `json:"citedByCapped,omitempty"`
	Citations   []citedGroup    `json:"citations,omitempty"`
	Disputes    int64           `json:"disputes,omitempty"`
	Others      []otherVersion  `json:"otherVersions,omitempty"`
	OthersCap   bool            `json:"otherVersionsCapped,omitempty"`
	Findings    []findingView   `json:"findings"`
	Provenance  *provenanceView `json:"provenance,omitempty"`
}

// chainPosition is garden.herbarium.defs#chainPosition.
type chainPosition struct {
	Position     int64       `json:"position"`
	Length       int64       `json:"length"`
	StepsBehind  int64       `json:"stepsBehind"`
	IsHead       bool        `json:"isHead"`
	Head         *strongRef  `json:"head,omitempty"`
	Heads        []strongRef `json:"heads,omitempty"`
	Forked       bool        `json:"forked"`
	Complete     bool        `json:"complete"`
	Supersedes   *refView    `json:"supersedes,omitempty"`
	SupersededBy []chainLink `json:"supersededBy,omitempty"`
	Proposals    []chainLink `json:"proposals,omitempty"`
}

// chainLink is garden.herbarium.defs#chainLink.
type chainLink struct {
	URI         syntax.ATURI    `json:"uri"`
	CID         syntax.CID      `json:"cid"`
	Author      actorView       `json:"author"`
	Strength    index.Edge      `json:"strength,omitempty"`
	Trusted     bool            `json:"trusted,omitempty"`
	ObservedAt  syntax.Datetime `json:"observedAt,omitempty"`
	FirstSeenAt syntax.Datetime `json:"firstSeenAt,omitempty"`
}

// sameSource is garden.herbarium.defs#sameSource.
type sameSource struct {
	Observations int  `json:"observations"`
	Capped       bool `json:"capped,omitempty"`
}

// maxSameSource is where counting the observations of a source stops.
const maxSameSource = 100

// observationFacts is all that the view of one observation is made of.
type observationFacts struct {
	record     index.Record // may be a tombstone
	chain      index.Chain
	others     index.List[index.Version] // what was put in its place, against the rules
	successors []index.Member            // what directly supersedes record and counts
	citations  index.List[index.Cited]
	citing     map[syntax.ATURI]index.Record // of citations
	counts     []index.CitedCount
	disputes   int64
	sameSource int // up to maxSameSource and one more
	findings   []index.Finding
	refs       *refTable
	actors     actors
	blobs      blobHosts
}

func viewObservation(f observationFacts) *observationView {
	view := &observationView{
		URI:       f.record.URI,
		CID:       viewCID(f.record.CID),
		Author:    f.actors.of(f.record.URI),
		State:     f.record.RefState(),
		Chain:     viewChain(f),
		CitedBy:   viewCitedBy(f),
		Citations: viewCitedGroups(f.counts),
		Disputes:  f.disputes,
		Findings:  viewFindings(f.findings),
	}
	view.CitedCapped = f.citations.Next != nil
	view.Others, view.OthersCap = viewOtherVersions(f.record, f.others), f.others.Next != nil
	if f.record.State == index.StateDeleted {
		view.DeletedAt = datetime(f.record.DeletedAt)
		return view
	}
	o := lexicons.ReadObservation(decodeRecord(f.record))
	view.Source = viewSource(o.Source)
	view.Method = o.Method
	view.ObservedAt = datetime(o.ObservedAt)
	view.CreatedAt = datetime(o.CreatedAt)
	view.Text = o.Text
	view.TextBytes = len(o.Text)
	view.Content = f.blobs.view(o.Content, didOf(f.record.URI))
	view.Generator = viewGenerator(o.Generator, f.refs)
	if f.sameSource > 0 { // itself at least, but in a past state
		view.SameSource = &sameSource{Observations: min(f.sameSource, maxSameSource), Capped: f.sameSource > maxSameSource}
	}
	view.Provenance = viewProvenance(f.record)
	return view
}

func viewChain(f observationFacts) chainPosition {
	c := f.chain
	view := chainPosition{
		Position:    c.Self.Position + 1,
		Length:      max(c.Length, 1),
		StepsBehind: c.StepsBehind,
		IsHead:      c.Head != nil && c.Head.URI == c.Self.URI,
		Heads:       each(c.Heads, memberRef),
		Forked:      c.Forked,
		Complete:    c.Root.Edge != index.EdgePending,
		Supersedes:  f.refs.optional(c.Self.Supersedes),
	}
	if c.Head != nil {
		head := memberRef(*c.Head)
		view.Head = &head
	}
	view.SupersededBy = each(f.successors, func(m index.Member) chainLink {
		link := f.viewLink(m)
		link.Strength, link.Trusted = m.Edge, m.DID != c.Self.DID
		return link
	})
	view.Proposals = each(c.Proposals, f.viewLink)
	return view
}

func (f observationFacts) viewLink(m index.Member) chainLink {
	return chainLink{
		URI:         m.URI,
		CID:         viewCID(m.CID),
		Author:      f.actors.of(m.URI),
		ObservedAt:  datetime(m.ObservedAt),
		FirstSeenAt: datetime(m.IndexedAt),
	}
}

func memberRef(m index.Member) strongRef { return strongRef{URI: m.URI, CID: viewCID(m.CID)} }

// observationItem is garden.herbarium.defs#observationItem.
type observationItem struct {
	URI          syntax.ATURI    `json:"uri"`
	CID          syntax.CID      `json:"cid"`
	Author       actorView       `json:"author"`
	Source       *sourceView     `json:"source"`
	Method       string          `json:"method"`
	ObservedAt   syntax.Datetime `json:"observedAt,omitempty"`
	Excerpt      string          `json:"excerpt"`
	TextBytes    int             `json:"textBytes,omitempty"`
	Content      *blobView       `json:"content,omitempty"`
	Generator    *generatorView  `json:"generator,omitempty"`
	IsHead       bool            `json:"isHead"`
	Supersedes   syntax.ATURI    `json:"supersedes,omitempty"`
	FirstSeenAt  syntax.Datetime `json:"firstSeenAt,omitempty"`
	Disputes     int64           `json:"disputes,omitempty"`
	FindingCount int             `json:"findingCount"`
}

func viewObservationItem(o index.Observation, findings int, disputes int64, who actors, blobs blobHosts) observationItem {
	content := lexicons.ReadObservation(decodeRecord(o.Record))
	view := observationItem{
		URI:          o.URI,
		CID:          viewCID(o.CID),
		Author:       who.of(o.URI),
		Source:       viewSource(content.Source),
		Method:       content.Method,
		ObservedAt:   datetime(content.ObservedAt),
		Excerpt:      excerpt(content.Text),
		TextBytes:    len(content.Text),
		Content:      blobs.view(content.Content, didOf(o.URI)),
		Generator:    viewGenerator(content.Generator, nil),
		IsHead:       o.Head,
		FirstSeenAt:  datetime(o.IndexedAt),
		Disputes:     disputes,
		FindingCount: findings,
	}
	if content.Supersedes != nil {
		view.Supersedes = content.Supersedes.URI
	}
	return view
}
