package appview

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
)

// bar is what stands for words that were taken away, whatever their length.
const bar = "\u2588\u2588\u2588"

// conversationView is garden.herbarium.defs#conversationView.
type conversationView struct {
	URI           syntax.ATURI       `json:"uri"`
	CID           syntax.CID         `json:"cid,omitempty"`
	Author        actorView          `json:"author"`
	State         index.RefState     `json:"state"`
	DeletedAt     syntax.Datetime    `json:"deletedAt,omitempty"`
	Title         string             `json:"title,omitempty"`
	Label         string             `json:"label"`
	LabelInferred bool               `json:"labelInferred,omitempty"`
	Description   string             `json:"description,omitempty"`
	Discussion    syntax.ATURI       `json:"discussion,omitempty"`
	CreatedAt     syntax.Datetime    `json:"createdAt,omitempty"`
	Counts        conversationCounts `json:"counts"`
	Models        []modelUse         `json:"models,omitempty"`
	Turns         []turnView         `json:"turns"`
	ForeignTurns  []foreignTurn      `json:"foreignTurns,omitempty"`
	Findings      []findingView      `json:"findings"`
	Provenance    *provenanceView    `json:"provenance,omitempty"`
}

// conversationCounts is garden.herbarium.defs#conversationCounts.
type conversationCounts struct {
	Turns    int64 `json:"turns"`
	Visible  int64 `json:"visible"`
	Withheld int64 `json:"withheld"`
	Foreign  int64 `json:"foreign,omitempty"`
}

// modelUse is garden.herbarium.defs#modelUse.
type modelUse struct {
	Model string `json:"model"`
	Turns int    `json:"turns"`
}

// foreignTurn is garden.herbarium.defs#foreignTurn.
type foreignTurn struct {
	URI         syntax.ATURI    `json:"uri"`
	CID         syntax.CID      `json:"cid,omitempty"`
	Author      actorView       `json:"author"`
	FirstSeenAt syntax.Datetime `json:"firstSeenAt,omitempty"`
}

// turnView is garden.herbarium.defs#turnView.
type turnView struct {
	URI       syntax.ATURI    `json:"uri"`
	CID       syntax.CID      `json:"cid,omitempty"`
	Position  int64           `json:"position"`
	Kind      string          `json:"kind"` // said or withheld
	Role      string          `json:"role,omitempty"`
	Text      string          `json:"text,omitempty"`
	Bars      int             `json:"bars,omitempty"`
	CreatedAt syntax.Datetime `json:"createdAt,omitempty"`
	Model     string          `json:"model,omitempty"`
	Steps     []stepView      `json:"steps,omitempty"`
	Refs      []refView       `json:"refs,omitempty"`
	Mentions  []actorView     `json:"mentions,omitempty"`
	Rewritten []string        `json:"rewritten,omitempty"`
	Findings  []findingView   `json:"findings"`
}

// stepView is garden.herbarium.defs#stepView.
type stepView struct {
	Tool    string `json:"tool"`
	Summary string `json:"summary,omitempty"`
	Failed  bool   `json:"failed"`
}

// The kinds of turn.
const (
	turnSaid     = "said"
	turnWithheld = "withheld"
)

// conversationFacts is all that a page of a conversation is made of.
type conversationFacts struct {
	conversation index.Conversation
	turns        []spokenTurn
	before       int64 // turns on the pages before
	foreign      []index.Turn
	opening      *index.Turn // the first visible turn by the user, when it is needed
	findings     map[syntax.ATURI][]index.Finding
	refs         *refTable
	actors       actors
}

func viewConversation(f conversationFacts) *conversationView {
	c := f.conversation
	view := &conversationView{
		URI:         c.URI,
		CID:         viewCID(c.CID),
		Author:      f.actors.of(c.URI),
		State:       index.RefCurrent,
		Title:       c.Title,
		Description: c.Description,
		Discussion:  c.Discussion,
		CreatedAt:   datetime(c.CreatedAt),
		Counts:      countTurns(c, len(f.foreign)),
		Turns:       []turnView{},
		ForeignTurns: each(f.foreign, func(t index.Turn) foreignTurn {
			return foreignTurn{URI: t.URI, CID: viewCID(t.CID), Author: f.actors.of(t.URI), FirstSeenAt: datetime(t.IndexedAt)}
		}),
		Findings:   viewFindings(f.findings[c.URI]),
		Provenance: viewProvenance(c.Record),
	}
	view.Label, view.LabelInferred = labelConversation(c.Title, f.opening)
	for i, t := range f.turns {
		view.Turns = append(view.Turns, viewTurn(t, f.before+int64(i)+1, f))
	}
	view.Models = countModels(view.Turns)
	return view
}

// viewDeletedConversation is all that is left of one that its owner retracted.
func viewDeletedConversation(r index.Record, who actors) *conversationView {
	return &conversationView{
		URI:       r.URI,
		Author:    who.of(r.URI),
		State:     r.RefState(),
		DeletedAt: datetime(r.DeletedAt),
		Turns:     []turnView{},
		Findings:  []findingView{},
	}
}

func countTurns(c index.Conversation, foreign int) conversationCounts {
	return conversationCounts{Turns: c.Turns, Visible: c.VisibleTurns, Withheld: c.Turns - c.VisibleTurns, Foreign: int64(foreign)}
}

// viewTurn shows a withheld turn as a gap, whatever its record holds: the one
// place where the words of a turn become part of a view.
func viewTurn(t spokenTurn, position int64, f conversationFacts) turnView {
	view := turnView{
		URI:       t.URI,
		CID:       viewCID(t.CID),
		Position:  position,
		Kind:      turnSaid,
		Role:      t.Role,
		Rewritten: t.Rewrites,
		Findings:  viewFindings(f.findings[t.URI]),
	}
	if !t.visible {
		view.Kind = turnWithheld
		return view
	}
	m := t.message
	view.Role = m.Role
	view.Text = m.Text
	view.Bars = strings.Count(m.Text, bar)
	view.CreatedAt = datetime(m.CreatedAt)
	view.Model = m.Model
	view.Steps = each(m.Steps, func(s lexicons.Step) stepView { return stepView(s) })
	view.Refs = each(distinct(m.Refs), f.refs.view)
	view.Mentions = each(distinct(m.Mentions), f.actors.view)
	return view
}

// spokenTurn is a turn and, when it is shown, what it says.
type spokenTurn struct {
	index.Turn
	message lexicons.Message
	visible bool // false for a withheld turn, whose message is empty
}

func readTurn(t index.Turn) spokenTurn {
	if t.Withheld || t.CBOR == nil {
		return spokenTurn{Turn: t}
	}
	m := lexicons.ReadMessage(decodeRecord(t.Record))
	if m.Withheld {
		return spokenTurn{Turn: t}
	}
	return spokenTurn{Turn: t, message: m, visible: true}
}

// labelConversation is the title, or without one the first line of the opening
// turn, shortened, and whether it is the latter.
func labelConversation(title string, opening *index.Turn) (string, bool) {
	if title = oneLine(title); title != "" {
		return title, false
	}
	if opening == nil {
		return "", true
	}
	words := firstLine(normalizeLines(readTurn(*opening).message.Text))
	return shorten(oneLine(firstBytes(words, 16*labelLength)), labelLength), true
}

func countModels(turns []turnView) []modelUse {
	var uses []modelUse
	for _, t := range turns {
		if t.Model == "" {
			continue
		}
		i := slices.IndexFunc(uses, func(u modelUse) bool { return u.Model == t.Model })
		if i < 0 {
			i, uses = len(uses), append(uses, modelUse{Model: t.Model})
		}
		uses[i].Turns++
	}
	sortModels(uses)
	return uses
}

func sortModels(uses []modelUse) {
	slices.SortStableFunc(uses, func(a, b modelUse) int { return cmp.Compare(b.Turns, a.Turns) })
}

// conversationItem is garden.herbarium.defs#conversationItem.
type conversationItem struct {
	URI           syntax.ATURI       `json:"uri"`
	CID           syntax.CID         `json:"cid,omitempty"`
	Author        actorView          `json:"author"`
	Title         string             `json:"title,omitempty"`
	Label         string             `json:"label"`
	LabelInferred bool               `json:"labelInferred,omitempty"`
	CreatedAt     syntax.Datetime    `json:"createdAt,omitempty"`
	LastTurnAt    syntax.Datetime    `json:"lastTurnAt,omitempty"`
	Counts        conversationCounts `json:"counts"`
	FindingCount  int                `json:"findingCount,omitempty"`
}

func viewConversationItem(c index.Conversation, opening *index.Turn, findings int, who actors) conversationItem {
	view := conversationItem{
		URI:          c.URI,
		CID:          viewCID(c.CID),
		Author:       who.of(c.URI),
		Title:        c.Title,
		CreatedAt:    datetime(c.CreatedAt),
		LastTurnAt:   datetime(c.LastTurnAt),
		Counts:       countTurns(c, 0),
		FindingCount: findings,
	}
	view.Label, view.LabelInferred = labelConversation(c.Title, opening)
	return view
}
