package appview

import (
	"fmt"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
)

// sessionView is garden.herbarium.defs#sessionView.
type sessionView struct {
	URI          syntax.ATURI         `json:"uri"`
	CID          syntax.CID           `json:"cid,omitempty"`
	Author       actorView            `json:"author"`
	State        index.RefState       `json:"state"`
	DeletedAt    syntax.Datetime      `json:"deletedAt,omitempty"`
	Title        string               `json:"title,omitempty"`
	Summary      string               `json:"summary,omitempty"`
	Status       string               `json:"status,omitempty"`
	Derived      *derivedState        `json:"derived,omitempty"`
	UpdatedAt    syntax.Datetime      `json:"updatedAt,omitempty"`
	StartedAt    syntax.Datetime      `json:"startedAt,omitempty"`
	LastWriteAt  syntax.Datetime      `json:"lastWriteAt,omitempty"`
	Resume       *resumeCard          `json:"resume,omitempty"`
	RepoKey      string               `json:"repoKey,omitempty"`
	Versions     []sessionVersion     `json:"versions,omitempty"`
	VersionCount int64                `json:"versionCount,omitempty"`
	HandOvers    []handOver           `json:"handOvers,omitempty"`
	Contended    bool                 `json:"contended,omitempty"`
	Related      []relatedObservation `json:"related,omitempty"`
	WorkItem     *workItem            `json:"workItem,omitempty"`
	Findings     []findingView        `json:"findings"`
	Provenance   *provenanceView      `json:"provenance,omitempty"`
}

// relatedObservation is garden.herbarium.defs#relatedObservation.
type relatedObservation struct {
	URI        syntax.ATURI    `json:"uri"`
	CID        syntax.CID      `json:"cid"`
	Source     *sourceView     `json:"source,omitempty"`
	ObservedAt syntax.Datetime `json:"observedAt,omitempty"`
	Excerpt    string          `json:"excerpt"`
	Basis      string          `json:"basis"` // exact or inferred
	Because    string          `json:"because"`
}

// workItem is garden.herbarium.defs#workItem.
type workItem struct {
	RecordKey syntax.RecordKey `json:"rkey"`
	Sessions  []sessionItem    `json:"sessions"`
}

// sessionItem is garden.herbarium.defs#sessionItem.
type sessionItem struct {
	URI          syntax.ATURI    `json:"uri"`
	CID          syntax.CID      `json:"cid"`
	Author       actorView       `json:"author"`
	Title        string          `json:"title"`
	Status       string          `json:"status,omitempty"`
	Derived      *derivedState   `json:"derived"`
	UpdatedAt    syntax.Datetime `json:"updatedAt,omitempty"`
	StartedAt    syntax.Datetime `json:"startedAt,omitempty"`
	LastWriteAt  syntax.Datetime `json:"lastWriteAt,omitempty"`
	Harness      string          `json:"harness,omitempty"`
	Machine      string          `json:"machine,omitempty"`
	Cwd          string          `json:"cwd,omitempty"`
	Repo         string          `json:"repo,omitempty"`
	RepoKey      string          `json:"repoKey,omitempty"`
	Branch       string          `json:"branch,omitempty"`
	Model        string          `json:"model,omitempty"`
	Versions     int64           `json:"versions,omitempty"`
	FindingCount int             `json:"findingCount,omitempty"`
}

// sessionFacts is all that the view of one session is made of.
type sessionFacts struct {
	session  index.Session
	versions index.List[index.Version] // newest first
	exact    []index.Observation       // those whose run is the record key
	nearby   []index.Observation       // those of the same author, device and time
	siblings []index.Session           // the same record key in other repos of the team
	findings map[syntax.ATURI][]index.Finding
	actors   actors
	now      time.Time
	states   thresholds
}

func viewSession(f sessionFacts) *sessionView {
	s := f.session
	content := lexicons.ReadSession(decodeRecord(s.Record))
	view := &sessionView{
		URI:          s.URI,
		CID:          viewCID(s.CID),
		Author:       f.actors.of(s.URI),
		State:        index.RefCurrent,
		Title:        content.Title,
		Summary:      content.Summary,
		Status:       content.Status,
		Derived:      f.states.derive(content.Status, s.SortAt, f.now),
		UpdatedAt:    datetime(content.UpdatedAt),
		StartedAt:    datetime(content.StartedAt),
		LastWriteAt:  datetime(s.Record.UpdatedAt),
		Resume:       viewResume(content, s.RecordKey),
		RepoKey:      s.RepoKey,
		VersionCount: s.Versions,
		Related:      viewRelated(f, content),
		Findings:     viewFindings(f.findings[s.URI]),
		Provenance:   viewProvenance(s.Record),
	}
	view.Versions, view.HandOvers = viewSessionVersions(f.versions.Items, f.versions.Next == nil)
	for _, found := range f.findings[s.URI] {
		view.Contended = view.Contended || found.Code == lexicons.CodeContended || found.Code == lexicons.CodeStaleWrite
	}
	if len(f.siblings) > 0 {
		view.WorkItem = &workItem{RecordKey: s.RecordKey, Sessions: each(f.siblings, func(sibling index.Session) sessionItem {
			return viewSessionItem(sibling, len(f.findings[sibling.URI]), f.actors, f.states, f.now)
		})}
	}
	return view
}

// viewDeletedSession is all that is left of a session that its author deleted.
func viewDeletedSession(r index.Record, who actors) *sessionView {
	return &sessionView{
		URI:       r.URI,
		Author:    who.of(r.URI),
		State:     r.RefState(),
		DeletedAt: datetime(r.DeletedAt),
		Findings:  []findingView{},
	}
}

func viewSessionItem(s index.Session, findings int, who actors, states thresholds, now time.Time) sessionItem {
	content := lexicons.ReadSession(decodeRecord(s.Record))
	repo, _ := lexicons.MaskCredentials(content.Repo)
	return sessionItem{
		URI:          s.URI,
		CID:          viewCID(s.CID),
		Author:       who.of(s.URI),
		Title:        content.Title,
		Status:       content.Status,
		Derived:      states.derive(content.Status, s.SortAt, now),
		UpdatedAt:    datetime(content.UpdatedAt),
		StartedAt:    datetime(content.StartedAt),
		LastWriteAt:  datetime(s.Record.UpdatedAt),
		Harness:      content.Harness,
		Machine:      content.Machine,
		Cwd:          content.Cwd,
		Repo:         repo,
		RepoKey:      s.RepoKey,
		Branch:       content.Branch,
		Model:        content.Model,
		Versions:     s.Versions,
		FindingCount: findings,
	}
}

// viewRelated lists the observations of a session: for certain those whose run
// is its record key, by inference those that its author made on its machine
// while it went on. An observation that names another run than this session's
// is related by circumstance only, and says so.
func viewRelated(f sessionFacts, s lexicons.Session) []relatedObservation {
	var view []relatedObservation
	exact := map[syntax.ATURI]bool{}
	for _, o := range f.exact {
		exact[o.URI] = true
		view = append(view, viewRelatedObservation(o, "exact", "its run is the session's record key"))
	}
	for _, o := range f.nearby {
		if len(view) >= index.MaxLimit {
			break
		}
		if exact[o.URI] || s.Harness != "" && o.Harness != "" && !strings.EqualFold(o.Harness, s.Harness) {
			continue
		}
		because := fmt.Sprintf("same author, made on %q between start and last update of the session", oneLine(s.Machine))
		if o.Harness != "" && s.Harness != "" {
			because += fmt.Sprintf(", with %q", oneLine(s.Harness))
		}
		if o.Run != "" {
			because += fmt.Sprintf("; its run is %s, which is not the session's record key", o.Run)
		}
		view = append(view, viewRelatedObservation(o, "inferred", because))
	}
	return view
}

func viewRelatedObservation(o index.Observation, basis, because string) relatedObservation {
	content := lexicons.ReadObservation(decodeRecord(o.Record))
	return relatedObservation{
		URI:        o.URI,
		CID:        viewCID(o.CID),
		Source:     viewSource(content.Source),
		ObservedAt: datetime(content.ObservedAt),
		Excerpt:    excerpt(content.Text),
		Basis:      basis,
		Because:    because,
	}
}
