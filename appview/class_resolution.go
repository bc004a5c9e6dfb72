package appview

import (
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
)

// resolvedClass is a class of a line, in the version that the view uses.
type resolvedClass struct {
	uri     syntax.ATURI
	pin     lexicons.StrongRef // the reference that led here; for the class itself its own version
	exact   bool               // the version in use is the one that is pinned
	content lexicons.Class
}

// resolvedSkill is a reference to a skill that counts.
type resolvedSkill struct {
	ref       lexicons.StrongRef
	from      *resolvedClass
	inherited bool
	overrides []lexicons.StrongRef // references to the same skill that do not count
	exact     bool                 // the version in use is the one that is pinned
	known     bool                 // there is a version to use
	content   lexicons.Skill
}

// resolution is what a class comes to: itself, its ancestors, its skills.
type resolution struct {
	class   resolvedClass
	parents []resolvedClass // nearest first
	end     index.LineEnd
	missing *lexicons.StrongRef // the parent that could not be followed
	skills  []resolvedSkill     // in effective order
	bad     []malformedSkill
}

// malformedSkill is what stands where a skill should and is no reference.
type malformedSkill struct {
	uri       string
	from      *resolvedClass
	inherited bool
}

// resolve combines a class and its line with what their references lead to.
// Each is followed to the version that it pins; only where that is not held the
// current version stands in for it, and exact is false.
func resolve(r *index.Resolution, refs *refTable) *resolution {
	out := &resolution{end: r.End, missing: r.Missing, class: resolvedClass{
		uri:     r.Class.URI,
		pin:     lexicons.StrongRef{URI: r.Class.URI, CID: r.Class.CID},
		exact:   true,
		content: lexicons.ReadClass(decodeRecord(r.Class.Record)),
	}}
	out.parents = each(r.Parents, func(p index.Ancestor) resolvedClass {
		return resolvedClass{uri: p.Pin.URI, pin: p.Pin, exact: p.Exact, content: p.Content}
	})
	out.combineSkills(refs)
	return out
}

// last is the end of the line: the root, where it was reached.
func (out *resolution) last() resolvedClass {
	if len(out.parents) == 0 {
		return out.class
	}
	return out.parents[len(out.parents)-1]
}

// combineSkills puts the skills of the root ancestor first and those of the
// class last. Of several references to one skill the one of the nearest class
// counts, in its place; within a class the first.
func (out *resolution) combineSkills(refs *refTable) {
	counts := map[syntax.ATURI]*resolvedSkill{}
	var nearestFirst [][]*resolvedSkill
	line := []*resolvedClass{&out.class}
	for i := range out.parents {
		line = append(line, &out.parents[i])
	}
	for depth, class := range line {
		var own []*resolvedSkill
		for _, ref := range class.content.Skills {
			if nearer, taken := counts[ref.URI]; taken {
				nearer.overrides = append(nearer.overrides, ref)
				continue
			}
			skill := &resolvedSkill{ref: ref, from: class, inherited: depth > 0}
			skill.use(refs)
			counts[ref.URI] = skill
			own = append(own, skill)
		}
		nearestFirst = append(nearestFirst, own)
		for _, uri := range class.content.MalformedSkills {
			out.bad = append(out.bad, malformedSkill{uri: uri, from: class, inherited: depth > 0})
		}
	}
	for _, own := range slices.Backward(nearestFirst) {
		for _, skill := range own {
			out.skills = append(out.skills, *skill)
		}
	}
}

// use finds the version of a skill that the view shows.
func (s *resolvedSkill) use(refs *refTable) {
	value := refs.exactly(s.ref)
	if s.exact = value != nil; value == nil {
		value = refs.value(s.ref.URI)
	}
	if s.known = value != nil && s.ref.URI.Collection() == lexicons.SkillNSID; s.known {
		s.content = lexicons.ReadSkill(value)
	}
}

// exact tells whether the whole resolution is made of pinned versions.
func (out *resolution) exact() bool {
	inexactClass := func(c resolvedClass) bool { return !c.exact }
	inexactSkill := func(s resolvedSkill) bool { return !s.exact || !s.known }
	return out.end == index.LineRoot && len(out.bad) == 0 && !slices.ContainsFunc(out.parents, inexactClass) && !slices.ContainsFunc(out.skills, inexactSkill)
}
