package appview

import (
	"cmp"
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
)

// agentView is garden.herbarium.defs#agentView.
type agentView struct {
	Author      actorView         `json:"author"`
	State       index.SyncState   `json:"state"`
	Active      bool              `json:"active"`
	Status      string            `json:"status,omitempty"`
	Rev         syntax.TID        `json:"rev,omitempty"`
	FirstSeenAt syntax.Datetime   `json:"firstSeenAt,omitempty"`
	UpdatedAt   syntax.Datetime   `json:"updatedAt,omitempty"`
	Records     []collectionCount `json:"records"`
	Runs        []runView         `json:"runs,omitempty"`
	Devices     []usageView       `json:"devices,omitempty"`
	Harnesses   []usageView       `json:"harnesses,omitempty"`
	Models      []usageView       `json:"models,omitempty"`
}

// usageView is garden.herbarium.defs#usageView.
type usageView struct {
	Name         string `json:"name"`
	Observations int64  `json:"observations"`
}

// runView is garden.herbarium.defs#runView.
type runView struct {
	Run          syntax.TID      `json:"run"`
	StartedAt    syntax.Datetime `json:"startedAt,omitempty"`
	Observations int64           `json:"observations"`
}

// viewAgent shows a repo; counts are left out of an inactive one, for its
// records are not shown either. How far the repo has come and when tells of all
// its writes, so a restricted viewer is not told.
func viewAgent(v index.Viewer, r index.Repo, counts map[syntax.NSID]int64) agentView {
	view := agentView{
		Author:  actorView{DID: r.DID, Handle: r.Handle},
		State:   r.Sync,
		Active:  r.Active,
		Status:  r.Status,
		Records: []collectionCount{},
	}
	if !v.Restricted() {
		view.Rev, view.FirstSeenAt, view.UpdatedAt = r.Rev, datetime(r.FirstSeen), datetime(r.UpdatedAt)
	}
	if r.Active {
		view.Records = viewCounts(counts)
	}
	return view
}

// viewCounts lists counts by collection, in the order of their names.
func viewCounts(counts map[syntax.NSID]int64) []collectionCount {
	view := []collectionCount{}
	for collection, n := range counts {
		view = append(view, collectionCount{Collection: collection, Records: n})
	}
	slices.SortFunc(view, func(a, b collectionCount) int { return cmp.Compare(a.Collection, b.Collection) })
	return view
}

func viewUsage(u index.Usage) usageView { return usageView(u) }

func viewRun(u index.Usage) runView {
	run := syntax.TID(u.Name)
	return runView{Run: run, StartedAt: datetime(run.Time()), Observations: u.Observations}
}
