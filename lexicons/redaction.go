package lexicons

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// redactionBar stands for covered words of any length: three full blocks.
const redactionBar = "\u2588\u2588\u2588"

// RewriteKind names one way in which a turn was rewritten.
type RewriteKind string

// The kinds of rewrite.
const (
	RewriteWithheld    RewriteKind = "withheld"     // became a gap
	RewriteRevealed    RewriteKind = "revealed"     // was a gap
	RewriteRedacted    RewriteKind = "redacted"     // words were covered
	RewriteUnredacted  RewriteKind = "unredacted"   // covered words came back
	RewriteTextChanged RewriteKind = "text-changed" // says something else
	RewriteSteps       RewriteKind = "steps-changed"
	RewriteRefs        RewriteKind = "refs-changed"
	RewriteMentions    RewriteKind = "mentions-changed"
	RewriteOther       RewriteKind = "other-changed" // role, session, createdAt, model or a field not known here
)

// Rewrite is what changed between two versions of one turn.
type Rewrite struct {
	Kinds []RewriteKind
	// Refused says what goes beyond taking away, and Path where; "" when the
	// new version only takes away (words behind bars, steps, refs, mentions, or
	// everything by withholding) or adds refs or mentions.
	Refused string
	Path    string
}

func (r Rewrite) severity() Severity {
	for _, k := range r.Kinds {
		switch k {
		case RewriteRevealed, RewriteUnredacted, RewriteTextChanged, RewriteOther:
			return Violation
		}
	}
	return Info
}

func (r *Rewrite) add(kind RewriteKind, path, refused string) {
	r.Kinds = append(r.Kinds, kind)
	if refused != "" && r.Refused == "" {
		r.Refused, r.Path = refused, path
	}
}

// CompareMessages tells how the turn old became the turn now; both are values
// of click.aligned.chat.message records.
func CompareMessages(old, now map[string]any) Rewrite {
	var r Rewrite
	was, is := fields(old).bool("withheld"), fields(now).bool("withheld")
	switch {
	case was && !is:
		r.add(RewriteRevealed, "/withheld", "a withheld turn is not shown again")
	case is && !was:
		r.add(RewriteWithheld, "", "")
	}
	compareOther(&r, old, now, is)
	if !is && !was {
		compareText(&r, fields(old).str("text"), fields(now).str("text"))
		compareSteps(&r, fields(old).list("steps"), fields(now).list("steps"))
	}
	if !is {
		if !reflect.DeepEqual(fields(old).list("refs"), fields(now).list("refs")) {
			r.add(RewriteRefs, "/refs", "")
		}
		if !reflect.DeepEqual(fields(old).list("mentions"), fields(now).list("mentions")) {
			r.add(RewriteMentions, "/mentions", "")
		}
	}
	return r
}

// compareOther holds every field that has no rule of its own: it may go, never
// change or come. Withholding takes the model away; nothing else may.
func compareOther(r *Rewrite, old, now map[string]any, withheld bool) {
	names := slices.Sorted(maps.Keys(old))
	for name := range now {
		if _, had := old[name]; !had {
			names = append(names, name)
		}
	}
	for _, name := range names {
		switch name {
		case "text", "steps", "refs", "mentions", "withheld":
			continue
		}
		is, has := now[name]
		if reflect.DeepEqual(old[name], is) && has {
			continue
		}
		required := name == "session" || name == "role" || name == "createdAt" || name == "model" && !withheld
		if !has && !required {
			continue
		}
		shown := shownName(name)
		r.add(RewriteOther, pointer("", shown), "only words may be taken away, "+shown+" stays as it is")
	}
}

func compareText(r *Rewrite, old, now string) {
	switch {
	case old == now:
	case isRedactionOf(old, now):
		r.add(RewriteRedacted, "/text", "")
	case isRedactionOf(now, old):
		r.add(RewriteUnredacted, "/text", "covered words do not come back")
	default:
		r.add(RewriteTextChanged, "/text", "the new text says something else than the old one with words covered")
	}
}

// compareSteps: steps may go; those that stay are as they were, in their order.
func compareSteps(r *Rewrite, old, now []any) {
	if reflect.DeepEqual(old, now) || len(old) == 0 && len(now) == 0 {
		return
	}
	next := 0
	for i, step := range now {
		for next < len(old) && !reflect.DeepEqual(old[next], step) {
			next++
		}
		if next == len(old) {
			r.add(RewriteSteps, pointerAt("/steps", i), "a step may be removed, not reworded, added or moved")
			return
		}
		next++
	}
	r.add(RewriteSteps, "/steps", "")
}

// isRedactionOf reports whether now is old with one span or more covered by a
// bar each: the pieces of now between its bars occur in old in order, the
// first and last at its ends, with at least one byte in every gap. Leftmost
// matching decides it: if any placing of the pieces fits, the leftmost does. A
// loose block that touches a bar reads as part of it and is refused.
func isRedactionOf(old, now string) bool {
	pieces := strings.Split(now, redactionBar)
	last := len(pieces) - 1
	if last == 0 || !strings.HasPrefix(old, pieces[0]) || !strings.HasSuffix(old, pieces[last]) {
		return false
	}
	from, end := len(pieces[0]), len(old)-len(pieces[last])
	for _, piece := range pieces[1:last] {
		if from+1 > end {
			return false
		}
		at := strings.Index(old[from+1:end], piece)
		if at < 0 {
			return false
		}
		from += 1 + at + len(piece)
	}
	return from+1 <= end
}

func kindNames(kinds []RewriteKind) []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return names
}
