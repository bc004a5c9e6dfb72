package pds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/library"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
)

const listLexiconsMethod = "garden.herbarium.admin.listLexicons"

func (p *PDS) registerLexicons(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Procedure(s, "garden.herbarium.admin.addLexicon", xrpc.AdminOnly, p.addLexicon, xrpc.Strict(), xrpc.MaxBody(lexicons.MaxAddedBytes)),
		xrpc.Procedure(s, "garden.herbarium.admin.removeLexicon", xrpc.AdminOnly, p.removeLexicon, xrpc.Strict()),
		xrpc.Query(s, "garden.herbarium.admin.getLexicon", xrpc.AdminOnly, p.getLexicon),
		xrpc.Query(s, listLexiconsMethod, xrpc.AdminOnly, p.listLexicons),
	)
}

// LexiconIndex is what an index is told of lexicons.
type LexiconIndex interface {
	// SetLexicons makes these, in order of NSID, the added ones.
	SetLexicons(ctx context.Context, added []*lexicons.Lexicon) error
	// TrySetLexicons tells what that would do to the records that it holds.
	TrySetLexicons(ctx context.Context, added []*lexicons.Lexicon) ([]lexicons.Effect, error)
}

// SyncLexicons takes in what another replica added, and tells the index of all
// that was. It is to run before anything is judged, and often: it reads one row
// of either database when nothing changed.
func (p *PDS) SyncLexicons(ctx context.Context) error {
	// One is told at a time, and the set is read only then: see tellIndex.
	p.lexiconSync.Lock()
	defer p.lexiconSync.Unlock()
	was := p.library.Current()
	if err := p.library.Refresh(ctx); err != nil {
		return fmt.Errorf("sync lexicons: %w", err)
	}
	is := p.library.Current().Catalog
	added := is.Added()
	for _, l := range added {
		if was.Catalog != is && is.Lexicon(l.NSID) != l {
			p.log.WarnContext(ctx, "an added lexicon does not fit the program's own, which holds; remove it with herbarium lexicon remove", "nsid", l.NSID)
		}
	}
	if p.index == nil {
		return nil
	}
	if err := p.index.SetLexicons(ctx, added); err != nil {
		return fmt.Errorf("tell the index of the lexicons: %w", err)
	}
	return nil
}

type addLexiconInput struct {
	Lexicons []json.RawMessage `json:"lexicons"`
	Force    bool              `json:"force"`
	DryRun   bool              `json:"dryRun"`
}

type removeLexiconInput struct {
	NSIDs  []syntax.NSID `json:"nsids"`
	DryRun bool          `json:"dryRun"`
}

// lexiconPlan is garden.herbarium.admin.defs#lexiconPlan.
type lexiconPlan struct {
	Applied   bool          `json:"applied"`
	Steps     []lexiconStep `json:"steps"`
	Problems  []string      `json:"problems"`
	Concerned []syntax.NSID `json:"concerned"`
	// Effects are told of a dry run, when there is an index.
	Effects []lexiconEffect `json:"effects,omitempty"`
}

// lexiconEffect is garden.herbarium.admin.defs#lexiconEffect.
type lexiconEffect struct {
	Collection  syntax.NSID    `json:"collection"`
	Seen        int64          `json:"seen"`
	Released    int64          `json:"released"`
	Quarantined int64          `json:"quarantined"`
	Examples    []syntax.ATURI `json:"examples,omitempty"`
	Partial     bool           `json:"partial,omitempty"`
}

// lexiconStep is garden.herbarium.admin.defs#lexiconStep.
type lexiconStep struct {
	NSID    syntax.NSID         `json:"nsid"`
	Action  lexicons.StepAction `json:"action"`
	Changes []lexiconChange     `json:"changes"`
}

// lexiconChange is garden.herbarium.admin.defs#lexiconChange.
type lexiconChange struct {
	Path       string `json:"path"`
	Message    string `json:"message"`
	RefusesOld bool   `json:"refusesOld"`
	AdmitsNew  bool   `json:"admitsNew"`
}

func (p *PDS) addLexicon(ctx context.Context, _ xrpc.Viewer, in addLexiconInput) (*lexiconPlan, error) {
	proposal := lexicons.Proposal{Force: in.Force}
	for i, raw := range in.Lexicons {
		l, err := lexicons.ParseLexicon(raw)
		if err != nil {
			return nil, xrpc.InvalidRequest("lexicons/%d: %v", i, err)
		}
		proposal.Put = append(proposal.Put, l)
	}
	return p.changeLexicons(ctx, proposal, in.DryRun)
}

func (p *PDS) removeLexicon(ctx context.Context, _ xrpc.Viewer, in removeLexiconInput) (*lexiconPlan, error) {
	return p.changeLexicons(ctx, lexicons.Proposal{Remove: in.NSIDs}, in.DryRun)
}

// changeLexicons carries out a proposal here and at the index. Should the index
// not answer, the call fails, and SyncLexicons tells it soon.
func (p *PDS) changeLexicons(ctx context.Context, proposal lexicons.Proposal, try bool) (*lexiconPlan, error) {
	plan, err := p.library.Change(ctx, proposal, try)
	if err != nil {
		return nil, err
	}
	if !try && len(plan.Problems) > 0 {
		return nil, xrpc.InvalidRequest("%s", strings.Join(plan.Problems, "\n"))
	}
	out := viewPlan(plan, !try)
	switch {
	case !try:
		err = p.SyncLexicons(ctx)
	case p.index != nil:
		var effects []lexicons.Effect
		effects, err = p.index.TrySetLexicons(ctx, plan.Catalog.Added())
		for _, e := range effects {
			out.Effects = append(out.Effects, lexiconEffect(e))
		}
	}
	return out, err
}

func viewPlan(plan *lexicons.Plan, applied bool) *lexiconPlan {
	out := &lexiconPlan{
		Applied: applied, Steps: []lexiconStep{},
		Problems: append([]string{}, plan.Problems...), Concerned: append([]syntax.NSID{}, plan.Concerned...),
	}
	for _, s := range plan.Steps {
		step := lexiconStep{NSID: s.NSID, Action: s.Action, Changes: []lexiconChange{}}
		for _, d := range s.Differences {
			step.Changes = append(step.Changes, lexiconChange(d))
		}
		out.Steps = append(out.Steps, step)
	}
	return out
}

// lexiconView is garden.herbarium.admin.defs#lexiconView.
type lexiconView struct {
	NSID    syntax.NSID     `json:"nsid"`
	Kind    string          `json:"kind"`
	Origin  string          `json:"origin"`
	InForce bool            `json:"inForce"`
	AddedAt string          `json:"addedAt,omitempty"`
	Size    int             `json:"size"`
	Lexicon json.RawMessage `json:"lexicon,omitempty"`
}

func viewLexicon(l *lexicons.Lexicon, added *library.Entry) lexiconView {
	view := lexiconView{NSID: l.NSID, Kind: l.Kind(), Origin: "program", InForce: true, Size: len(l.Source)}
	if added != nil {
		view.Origin, view.InForce, view.AddedAt = "added", added.InForce, migrations.FormatTime(added.AddedAt)
	}
	return view
}

// lexiconsHere are all lexicons, by NSID: each as it was added, or as the
// program has it.
func (p *PDS) lexiconsHere(ctx context.Context) ([]*lexicons.Lexicon, map[syntax.NSID]*library.Entry, error) {
	entries, err := p.library.Added(ctx)
	if err != nil {
		return nil, nil, err
	}
	added := make(map[syntax.NSID]*library.Entry, len(entries))
	all := make([]*lexicons.Lexicon, 0, len(entries))
	for i := range entries {
		added[entries[i].NSID] = &entries[i]
		all = append(all, entries[i].Lexicon)
	}
	catalog := p.library.Current().Catalog
	for _, nsid := range catalog.NSIDs() {
		if added[nsid] == nil {
			all = append(all, catalog.Lexicon(nsid))
		}
	}
	slices.SortFunc(all, func(a, b *lexicons.Lexicon) int { return strings.Compare(string(a.NSID), string(b.NSID)) })
	return all, added, nil
}

type getLexiconParams struct {
	NSID syntax.NSID `param:"nsid"`
}

func (p *PDS) getLexicon(ctx context.Context, _ xrpc.Viewer, in getLexiconParams) (*lexiconView, error) {
	all, added, err := p.lexiconsHere(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if l.NSID == in.NSID {
			view := viewLexicon(l, added[l.NSID])
			view.Lexicon = l.Source
			return &view, nil
		}
	}
	return nil, xrpc.Errorf(400, "NotFound", "there is no lexicon %s here; %s has those that are", in.NSID, listLexiconsMethod)
}

type listLexiconsParams struct {
	Origin string `param:"origin"`
	Limit  int    `param:"limit"`
	Cursor string `param:"cursor"`
}

type listLexiconsOutput struct {
	Cursor   string        `json:"cursor,omitempty"`
	Lexicons []lexiconView `json:"lexicons"`
}

func (p *PDS) listLexicons(ctx context.Context, _ xrpc.Viewer, in listLexiconsParams) (*listLexiconsOutput, error) {
	var after syntax.NSID
	if in.Cursor != "" {
		var err error
		if after, err = xrpc.DecodeCursor[syntax.NSID](listLexiconsMethod, in.Cursor); err != nil {
			return nil, err
		}
	}
	all, added, err := p.lexiconsHere(ctx)
	if err != nil {
		return nil, err
	}
	out := &listLexiconsOutput{Lexicons: []lexiconView{}}
	for _, l := range all {
		view := viewLexicon(l, added[l.NSID])
		if l.NSID <= after || in.Origin != "" && view.Origin != in.Origin {
			continue
		}
		if len(out.Lexicons) == in.Limit {
			out.Cursor = xrpc.EncodeCursor(listLexiconsMethod, out.Lexicons[in.Limit-1].NSID)
			break
		}
		out.Lexicons = append(out.Lexicons, view)
	}
	return out, nil
}
