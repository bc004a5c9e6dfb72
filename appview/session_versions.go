package appview

import (
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
)

// sessionVersion is garden.herbarium.defs#sessionVersion.
type sessionVersion struct {
	CID          syntax.CID      `json:"cid"`
	Rev          syntax.TID      `json:"rev"`
	FirstSeenAt  syntax.Datetime `json:"firstSeenAt"`
	Baseline     bool            `json:"baseline,omitempty"`
	UpdatedAt    syntax.Datetime `json:"updatedAt,omitempty"`
	Status       string          `json:"status,omitempty"`
	Title        string          `json:"title,omitempty"`
	Changes      []fieldChange   `json:"changes"`
	Summary      *textDiff       `json:"summary,omitempty"`
	SummaryBytes int             `json:"summaryBytes,omitempty"`
	Events       []string        `json:"events"`
}

// fieldChange is garden.herbarium.defs#fieldChange.
type fieldChange struct {
	Field  string `json:"field"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// handOver is garden.herbarium.defs#handOver.
type handOver struct {
	At      syntax.Datetime `json:"at"`
	CID     syntax.CID      `json:"cid"`
	Changes []fieldChange   `json:"changes"`
	Because string          `json:"because"`
}

// viewSessionVersions compares each version with the one before it. versions
// come newest first; the last is compared with nothing, and first says that it
// is the first that was witnessed.
func viewSessionVersions(versions []index.Version, first bool) ([]sessionVersion, []handOver) {
	var shown []index.Version
	for _, v := range versions {
		if v.CBOR != nil && v.Action != lexicons.Delete {
			shown = append(shown, v)
		}
	}
	var views []sessionVersion
	var handOvers []handOver
	for i, v := range shown {
		now := lexicons.ReadSession(decode(lexicons.SessionNSID, v.CBOR))
		view := sessionVersion{
			CID:          viewCID(v.CID),
			Rev:          v.Rev,
			FirstSeenAt:  datetime(v.WitnessedAt),
			Baseline:     v.Baseline,
			UpdatedAt:    datetime(now.UpdatedAt),
			Status:       now.Status,
			Title:        now.Title,
			Changes:      []fieldChange{},
			SummaryBytes: len(now.Summary),
			Events:       []string{},
		}
		switch {
		case i+1 < len(shown):
			before := lexicons.ReadSession(decode(lexicons.SessionNSID, shown[i+1].CBOR))
			view.compare(before, now)
			if moved := movedFields(view.Changes); len(moved) > 0 {
				handOvers = append(handOvers, handOver{At: view.FirstSeenAt, CID: view.CID, Changes: moved, Because: handOverWords(moved)})
			}
		case first:
			view.Events = append(view.Events, "started")
		}
		views = append(views, view)
	}
	return views, handOvers
}

func (view *sessionVersion) compare(before, now lexicons.Session) {
	beforeRepo, _ := lexicons.MaskCredentials(before.Repo)
	nowRepo, _ := lexicons.MaskCredentials(now.Repo)
	for _, f := range []fieldChange{
		{"title", before.Title, now.Title},
		{"status", before.Status, now.Status},
		{"machine", before.Machine, now.Machine},
		{"harness", before.Harness, now.Harness},
		{"model", before.Model, now.Model},
		{"repo", beforeRepo, nowRepo},
		{"branch", before.Branch, now.Branch},
		{"cwd", before.Cwd, now.Cwd},
		{"startedAt", string(datetime(before.StartedAt)), string(datetime(now.StartedAt))},
	} {
		if f.Before != f.After {
			view.Changes = append(view.Changes, f)
		}
	}
	view.Summary = diffTexts(before.Summary, now.Summary)

	happened := func(event string, did bool) {
		if did {
			view.Events = append(view.Events, event)
		}
	}
	happened("moved", len(movedFields(view.Changes)) > 0)
	happened("reopened", before.Status == "ended" && now.Status == "active")
	happened("ended", before.Status != "ended" && now.Status == "ended")
	happened("stale-write", now.UpdatedAt.Before(before.UpdatedAt))
	happened("started-changed", !before.StartedAt.IsZero() && !before.StartedAt.Equal(now.StartedAt))
}

// movedFields are the changes that hand a session over: another machine,
// harness, branch or model than before, not one that is named for the first time.
func movedFields(changes []fieldChange) []fieldChange {
	var moved []fieldChange
	for _, c := range changes {
		switch c.Field {
		case "machine", "harness", "branch", "model":
			if c.Before != "" && c.After != "" {
				moved = append(moved, c)
			}
		}
	}
	return moved
}

func handOverWords(moved []fieldChange) string {
	words := each(moved, func(c fieldChange) string {
		return fmt.Sprintf("%s from %q to %q", c.Field, oneLine(c.Before), oneLine(c.After))
	})
	return "handed over: " + strings.Join(words, ", ")
}
