package appview

import (
	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
)

// observationVersion is garden.herbarium.defs#observationVersion.
type observationVersion struct {
	URI            syntax.ATURI    `json:"uri"`
	CID            syntax.CID      `json:"cid,omitempty"`
	Author         actorView       `json:"author"`
	State          index.RefState  `json:"state"`
	Position       int64           `json:"position"`
	ObservedAt     syntax.Datetime `json:"observedAt,omitempty"`
	FirstSeenAt    syntax.Datetime `json:"firstSeenAt,omitempty"`
	GapSeconds     int64           `json:"gapSeconds,omitempty"`
	Source         *sourceView     `json:"source,omitempty"`
	SourceChanged  bool            `json:"sourceChanged,omitempty"`
	Method         string          `json:"method,omitempty"`
	Generator      *generatorView  `json:"generator,omitempty"`
	Text           *textDiff       `json:"text,omitempty"`
	TextBytes      int             `json:"textBytes,omitempty"`
	Content        *blobView       `json:"content,omitempty"`
	ContentChanged bool            `json:"contentChanged,omitempty"`
	SizeChange     int64           `json:"sizeChange,omitempty"`
	Unchanged      bool            `json:"unchanged,omitempty"`
	IsHead         bool            `json:"isHead,omitempty"`
	Findings       []findingView   `json:"findings,omitempty"`
}

// historyFacts is what the versions of a chain are made of.
type historyFacts struct {
	records  map[syntax.ATURI]index.Record // the members of the page and what they supersede
	heads    map[syntax.ATURI]bool
	findings map[syntax.ATURI][]index.Finding
	actors   actors
	blobs    blobHosts
}

// viewVersion compares a member of a chain with the one that it supersedes.
func viewVersion(m index.Member, f historyFacts) observationVersion {
	view := observationVersion{
		URI:         m.URI,
		CID:         viewCID(m.CID),
		Author:      f.actors.of(m.URI),
		State:       index.RefCurrent,
		Position:    m.Position + 1,
		FirstSeenAt: datetime(m.IndexedAt),
		IsHead:      f.heads[m.URI],
		Findings:    each(f.findings[m.URI], viewFinding),
	}
	record, shown := f.records[m.URI]
	value := decodeRecord(record)
	if value == nil {
		if view.State = record.RefState(); !shown {
			view.State = index.RefQuarantined // of those that are not shown, a chain has these alone
		}
		return view
	}
	now := lexicons.ReadObservation(value)
	view.ObservedAt = datetime(now.ObservedAt)
	view.Source = viewSource(now.Source)
	view.Method = now.Method
	view.Generator = viewGenerator(now.Generator, nil)
	view.TextBytes = len(now.Text)
	view.Content = f.blobs.view(now.Content, m.DID)
	if m.Supersedes == nil || m.Edge == index.EdgePending || m.Edge == index.EdgeIgnored || m.Edge == index.EdgeProposal {
		return view
	}
	if before := decodeRecord(f.records[m.Supersedes.URI]); before != nil {
		view.compare(lexicons.ReadObservation(before), now)
	}
	return view
}

func (view *observationVersion) compare(before, now lexicons.Observation) {
	if !before.ObservedAt.IsZero() && !now.ObservedAt.IsZero() {
		view.GapSeconds = int64(now.ObservedAt.Sub(before.ObservedAt).Seconds())
	}
	view.SourceChanged = before.Source != now.Source
	view.Text = diffTexts(before.Text, now.Text)
	switch {
	case before.Content != nil && now.Content != nil:
		view.ContentChanged = before.Content.CID != now.Content.CID
		view.SizeChange = now.Content.Size - before.Content.Size
	case before.Content != nil || now.Content != nil:
		view.ContentChanged = true
	}
	view.Unchanged = before.Text == now.Text && !view.ContentChanged
}
