package lexicons

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"
)

// Bounds of what may be added to a catalog.
const (
	MaxAdded      = 500     // lexicons
	MaxAddedBytes = 8 << 20 // of their files together
)

// Proposal is a change of the lexicons that were added to a catalog.
type Proposal struct {
	Put    []*Lexicon
	Remove []syntax.NSID
	// Force carries out what the rules of evolution forbid. It does not let
	// what the program was loaded with refuse records that were valid.
	Force bool
}

// StepAction says what a Plan does with one lexicon.
type StepAction string

// The actions of a step.
const (
	StepAdd    StepAction = "add"    // there was none
	StepChange StepAction = "change" // there was another one
	StepKeep   StepAction = "keep"   // it is there already
	StepRemove StepAction = "remove"
)

// PlanStep is what a Plan does with one lexicon.
type PlanStep struct {
	NSID        syntax.NSID
	Action      StepAction
	Differences []Difference // of what is in force after it from what was before
}

// Plan is what comes of a Proposal.
type Plan struct {
	Catalog  *Catalog   // afterwards
	Steps    []PlanStep // in order of NSID
	Problems []string   // why it is refused, each with its repair; none: it may be carried out
	// Concerned are the record types whose records may be judged otherwise, in
	// order: those that a changed lexicon defines, those whose definitions lead
	// to one, and those with an open union, in which any type may stand.
	Concerned []syntax.NSID
}

// Effect is what a change of lexicons does to the records of one collection that
// an index holds.
type Effect struct {
	Collection  syntax.NSID
	Seen        int64 // records that were looked at
	Released    int64 // of them, those that would come out of quarantine
	Quarantined int64 // of them, those that would go in
	// Examples are a few of those that would go in.
	Examples []syntax.ATURI
	// Partial tells that there are more records than were looked at.
	Partial bool
}

// Changes tells whether carrying it out changes anything.
func (p *Plan) Changes() bool {
	return slices.ContainsFunc(p.Steps, func(s PlanStep) bool { return s.Action != StepKeep })
}

// Plan works out what a proposal does to the lexicons that were added. c stays
// as it is.
func (c *Catalog) Plan(p Proposal) *Plan {
	added := maps.Clone(c.added)
	if added == nil {
		added = map[syntax.NSID]*Lexicon{}
	}
	plan := &Plan{}
	steps := map[syntax.NSID]StepAction{}
	for _, l := range p.Put {
		if _, twice := steps[l.NSID]; twice {
			plan.refuse("%s is named twice; name it once", l.NSID)
			continue
		}
		steps[l.NSID] = c.putting(l)
		if steps[l.NSID] != StepKeep {
			added[l.NSID] = l
		}
	}
	for _, nsid := range p.Remove {
		switch _, twice := steps[nsid]; {
		case twice:
			plan.refuse("%s is named twice; name it once", nsid)
			continue
		case added[nsid] == nil && c.Loaded(nsid):
			plan.refuse("%s belongs to the program and cannot be removed", nsid)
		case added[nsid] == nil:
			plan.refuse("%s was not added here; list what was", nsid)
		}
		steps[nsid] = StepRemove
		delete(added, nsid)
	}
	plan.Catalog = c.With(slices.Collect(maps.Values(added))...)
	for _, nsid := range slices.Sorted(maps.Keys(steps)) {
		plan.step(c, nsid, steps[nsid], added[nsid], p.Force)
	}
	plan.checkWhole(c, added)
	plan.Concerned = concerned(c, plan.Catalog)
	return plan
}

// Become is the plan that makes the added lexicons this set, whatever is to be
// said of it: somebody else has decided. It has no problems.
func (c *Catalog) Become(set []*Lexicon) *Plan {
	plan := &Plan{Catalog: c.With(set...)}
	for _, nsid := range slices.Sorted(maps.Keys(union(c.added, plan.Catalog.added))) {
		s := PlanStep{NSID: nsid, Action: StepChange}
		switch was, is := c.added[nsid], plan.Catalog.added[nsid]; {
		case is == nil:
			s.Action = StepRemove
		case was == nil:
			s.Action = StepAdd
		case was.same(is):
			s.Action = StepKeep
		}
		plan.Steps = append(plan.Steps, s)
	}
	plan.Concerned = concerned(c, plan.Catalog)
	return plan
}

func union[K comparable, V any](a, b map[K]V) map[K]V {
	all := maps.Clone(b)
	maps.Copy(all, a)
	return all
}

func (p *Plan) refuse(format string, args ...any) {
	p.Problems = append(p.Problems, fmt.Sprintf(format, args...))
}

// putting says what it is to add l.
func (c *Catalog) putting(l *Lexicon) StepAction {
	was := c.files[l.NSID]
	if added := c.added[l.NSID]; added != nil {
		was = added // which may not be in force
	}
	switch {
	case was == nil:
		return StepAdd
	case was.same(l):
		return StepKeep
	default:
		return StepChange
	}
}

// step records one step, and refuses it when it breaks what may not be broken.
func (p *Plan) step(before *Catalog, nsid syntax.NSID, action StepAction, added *Lexicon, force bool) {
	s := PlanStep{NSID: nsid, Action: action}
	was, is := before.files[nsid], p.Catalog.files[nsid]
	if was != nil && is != nil {
		s.Differences = Compare(was, is)
	}
	if added != nil && before.Loaded(nsid) && !before.Replaceable(added) {
		// Not in force afterwards, so Compare found nothing above.
		s.Differences = Compare(before.loaded().files[nsid], added)
		p.refuse("%s belongs to the program, and %s; what stands in its place may only take more", nsid, firstOf(s.Differences, func(d Difference) bool { return d.RefusesOld }))
	} else if action == StepChange && !force && slices.ContainsFunc(s.Differences, Difference.Breaking) {
		p.refuse("%s breaks with its old version: %s; publish it under another name, or force it", nsid, firstOf(s.Differences, Difference.Breaking))
	}
	p.Steps = append(p.Steps, s)
}

// firstOf names the first difference of a kind.
func firstOf(all []Difference, of func(Difference) bool) string {
	i := slices.IndexFunc(all, of)
	if i < 0 {
		return ""
	}
	return all[i].Path + ": " + all[i].Message
}

// maxProblems bounds how many references without an end are told.
const maxProblems = 20

// checkWhole refuses what no step alone is to blame for.
func (p *Plan) checkWhole(before *Catalog, added map[syntax.NSID]*Lexicon) {
	was := before.dangling()
	for _, ref := range p.Catalog.dangling() {
		if _, old := slices.BinarySearch(was, ref); !old && len(p.Problems) < maxProblems {
			p.refuse("%s, which is not here; add the lexicon that defines it too, or remove the one that refers to it", ref)
		}
	}
	if len(added) > MaxAdded {
		p.refuse("%d lexicons would be added, at most %d; remove some", len(added), MaxAdded)
	}
	size := 0
	for _, l := range added {
		size += len(l.Source)
	}
	if size > MaxAddedBytes {
		p.refuse("the added lexicons would have %d bytes together, at most %d; remove some", size, MaxAddedBytes)
	}
}

// concerned are the record types of either catalog that depend on a lexicon
// which is another one afterwards.
func concerned(before, after *Catalog) []syntax.NSID {
	changed := map[syntax.NSID]bool{}
	for nsid := range union(before.files, after.files) {
		if was, is := before.files[nsid], after.files[nsid]; was == nil || is == nil || !was.same(is) {
			changed[nsid] = true
		}
	}
	if len(changed) == 0 {
		return nil
	}
	found := map[syntax.NSID]bool{}
	for _, c := range []*Catalog{before, after} {
		for nsid, l := range c.files {
			if l.isRecord() && c.dependsOn(nsid, changed) {
				found[nsid] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// dependsOn tells whether what a record type is follows from one of changed.
func (c *Catalog) dependsOn(record syntax.NSID, changed map[syntax.NSID]bool) bool {
	seen := map[string]bool{}
	var depends func(ref string) bool
	depends = func(ref string) bool {
		if changed[syntax.NSID(nsidOf(ref))] {
			return true
		}
		schema, known := c.defs[mainRef(ref)]
		if !known || seen[mainRef(ref)] {
			return false
		}
		seen[mainRef(ref)] = true
		open, next := false, []string{}
		eachDef(schema.Def, func(def any) {
			if u, ok := def.(lexicon.SchemaUnion); ok && (u.Closed == nil || !*u.Closed) {
				open = true
			}
		})
		eachRef(schema.Def, func(r string) { next = append(next, fullRef(nsidOf(ref), r)) })
		return open || slices.ContainsFunc(next, depends)
	}
	return depends(string(record))
}
