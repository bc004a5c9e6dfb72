package appview

import (
	"context"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
)

// Bounds of what examples lead to: their writer follows references, so a reader
// has to, and a record can name a thousand others.
const (
	maxExampleHops = 3
	maxExamples    = 64
)

// exampleView is garden.herbarium.defs#exampleView.
type exampleView struct {
	Ref  refView      `json:"ref"`
	From syntax.ATURI `json:"from"`
	Hop  int          `json:"hop"`
}

// examples are the records that the examples of skills lead to: those that a
// skill names, those that these name, and so on, each once, as far as the bounds
// go. capped tells that there were more.
func (a *Appview) examples(ctx context.Context, v index.Viewer, skills []resolvedSkill) (found []exampleView, capped bool, err error) {
	type named struct {
		ref  lexicons.StrongRef
		from syntax.ATURI
	}
	var next []named
	seen := map[syntax.ATURI]bool{}
	for _, s := range skills {
		for _, ref := range s.content.Examples {
			next = append(next, named{ref, s.ref.URI})
		}
	}
	for hop := 1; len(next) > 0; hop++ {
		var level []named
		for _, n := range next {
			switch {
			case seen[n.ref.URI]:
			case hop > maxExampleHops || len(found)+len(level) == maxExamples:
				capped = true
			default:
				seen[n.ref.URI] = true
				level = append(level, n)
			}
		}
		refs, err := a.refs(ctx, v, each(level, func(n named) lexicons.StrongRef { return n.ref }))
		if err != nil {
			return nil, false, err
		}
		next = nil
		for _, n := range level {
			found = append(found, exampleView{Ref: refs.view(n.ref), From: n.from, Hop: hop})
			for _, l := range strongRefs(refs.content(n.ref), maxExamples+1) {
				if l.malformed == "" {
					next = append(next, named{l.ref, n.ref.URI})
				}
			}
		}
	}
	return found, capped, nil
}
