package lexicons

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/lexicon"
)

// Difference is one change between two versions of a lexicon. By the rules of
// lexicon evolution (https://atproto.com/specs/lexicon, "Lexicon Evolution") old
// data must be valid under the new version and new data under the old one: new
// fields are optional, required fields stay, types do not change.
//
// A field or a type that a lexicon defines anew is taken as compatible, as that
// specification does, although a record may have used the name for something
// else before.
type Difference struct {
	Path    string // RFC 6901 pointer into the lexicon file
	Message string
	// RefusesOld: a record that was valid may be invalid now.
	RefusesOld bool
	// AdmitsNew: a record that is valid now may be invalid for whoever still has the old version.
	AdmitsNew bool
}

// Breaking tells whether the rules of evolution forbid it.
func (d Difference) Breaking() bool { return d.RefusesOld || d.AdmitsNew }

// Compare lists how a lexicon changed, in order of path. What only tells people
// something (descriptions) and what only helps writers (defaults) is no change.
// References are compared by name: what they lead to is compared where it is
// defined.
func Compare(before, after *Lexicon) []Difference {
	c := comparison{base: string(before.NSID)}
	c.at.enter("defs")
	for _, name := range namesOf(before.defs, after.defs) {
		was, had := before.defs[name]
		is, has := after.defs[name]
		c.at.enter(name)
		switch {
		case !had:
			c.compatible("a new definition")
		case !has:
			c.report(Difference{AdmitsNew: true, Message: "the definition is gone, and what is of that type is not checked any more"})
		default:
			c.def(was, is)
		}
		c.at.leave()
	}
	return c.found
}

// comparison walks two versions of a definition together.
type comparison struct {
	base  string // NSID of the file, for references within it
	at    trail
	found []Difference
}

func (c *comparison) report(d Difference) {
	d.Path = c.at.String()
	c.found = append(c.found, d)
}

func (c *comparison) compatible(format string, args ...any) {
	c.report(Difference{Message: fmt.Sprintf(format, args...)})
}

func (c *comparison) replaced(format string, args ...any) {
	c.report(Difference{Message: fmt.Sprintf(format, args...), RefusesOld: true, AdmitsNew: true})
}

// below runs compare one step down.
func (c *comparison) below(name string, compare func()) {
	c.at.enter(name)
	compare()
	c.at.leave()
}

func (c *comparison) def(was, is any) {
	switch was := was.(type) {
	case lexicon.SchemaRecord:
		if is, ok := is.(lexicon.SchemaRecord); ok {
			c.below("key", func() { c.key(was.Key, is.Key) })
			c.below("record", func() { c.object(was.Record, is.Record) })
			return
		}
	case lexicon.SchemaObject:
		if is, ok := is.(lexicon.SchemaObject); ok {
			c.object(was, is)
			return
		}
	case lexicon.SchemaArray:
		if is, ok := is.(lexicon.SchemaArray); ok {
			c.bounds("minLength", "maxLength", was.MinLength, was.MaxLength, is.MinLength, is.MaxLength)
			c.below("items", func() { c.def(was.Items.Inner, is.Items.Inner) })
			return
		}
	case lexicon.SchemaRef:
		if is, ok := is.(lexicon.SchemaRef); ok {
			if a, b := mainRef(fullRef(c.base, was.Ref)), mainRef(fullRef(c.base, is.Ref)); a != b {
				c.below("ref", func() { c.replaced("the reference led to %s, and leads to %s", a, b) })
			}
			return
		}
	case lexicon.SchemaUnion:
		if is, ok := is.(lexicon.SchemaUnion); ok {
			c.union(was, is)
			return
		}
	case lexicon.SchemaString:
		if is, ok := is.(lexicon.SchemaString); ok {
			c.str(was, is)
			return
		}
	case lexicon.SchemaInteger:
		if is, ok := is.(lexicon.SchemaInteger); ok {
			c.bounds("minimum", "maximum", was.Minimum, was.Maximum, is.Minimum, is.Maximum)
			values(c, was.Enum, was.Const, is.Enum, is.Const)
			return
		}
	case lexicon.SchemaBoolean:
		if is, ok := is.(lexicon.SchemaBoolean); ok {
			values(c, nil, was.Const, nil, is.Const)
			return
		}
	case lexicon.SchemaBytes:
		if is, ok := is.(lexicon.SchemaBytes); ok {
			c.bounds("minLength", "maxLength", was.MinLength, was.MaxLength, is.MinLength, is.MaxLength)
			return
		}
	case lexicon.SchemaBlob:
		if is, ok := is.(lexicon.SchemaBlob); ok {
			c.below("accept", func() { c.accept(was.Accept, is.Accept) })
			c.bounds("", "maxSize", nil, was.MaxSize, nil, is.MaxSize)
			return
		}
	default:
		if c.method(was, is) || fmt.Sprintf("%T", was) == fmt.Sprintf("%T", is) {
			return
		}
	}
	c.replaced("the type was %s, and is %s", Describe(was), Describe(is))
}

// key compares the kinds of record key; "any" holds all others.
func (c *comparison) key(was, is string) {
	switch {
	case was == is:
	case was == "any":
		c.report(Difference{RefusesOld: true, Message: "the record key was any, and is " + is})
	case is == "any":
		c.report(Difference{AdmitsNew: true, Message: "the record key was " + was + ", and is any"})
	default:
		c.replaced("the record key was %s, and is %s", was, is)
	}
}

func (c *comparison) object(was, is lexicon.SchemaObject) {
	c.below("properties", func() { c.properties(was, is) })
	c.below("nullable", func() {
		for _, name := range sharedNames(was.Properties, is.Properties) {
			switch before, after := slices.Contains(was.Nullable, name), slices.Contains(is.Nullable, name); {
			case before && !after:
				c.report(Difference{RefusesOld: true, Message: name + " must not be null any more"})
			case !before && after:
				c.report(Difference{AdmitsNew: true, Message: name + " may be null"})
			}
		}
	})
}

func (c *comparison) properties(was, is lexicon.SchemaObject) {
	for _, name := range namesOf(was.Properties, is.Properties) {
		before, had := was.Properties[name]
		after, has := is.Properties[name]
		wasRequired, isRequired := slices.Contains(was.Required, name), slices.Contains(is.Required, name)
		c.at.enter(name)
		switch {
		case !had && isRequired:
			c.report(Difference{RefusesOld: true, Message: "a new required field"})
		case !had:
			c.compatible("a new optional field")
		case !has && wasRequired:
			c.report(Difference{AdmitsNew: true, Message: "a required field is gone"})
		case !has:
			c.compatible("an optional field is gone; better keep it, so that its name is not used for something else")
		default:
			if isRequired && !wasRequired {
				c.report(Difference{RefusesOld: true, Message: "the field is required now"})
			}
			if wasRequired && !isRequired {
				c.report(Difference{AdmitsNew: true, Message: "the field is not required any more"})
			}
			c.def(before.Inner, after.Inner)
		}
		c.at.leave()
	}
}

func (c *comparison) union(was, is lexicon.SchemaUnion) {
	wasClosed, isClosed := was.Closed != nil && *was.Closed, is.Closed != nil && *is.Closed
	gone, come := changedSet(mainRefs(c.base, was.Refs), mainRefs(c.base, is.Refs))
	if wasClosed != isClosed {
		c.below("closed", func() {
			c.report(Difference{RefusesOld: isClosed, AdmitsNew: wasClosed, Message: fmt.Sprintf("closed was %v, and is %v", wasClosed, isClosed)})
		})
	}
	c.below("refs", func() {
		// An open union takes any type, and checks each that it knows.
		for _, ref := range gone {
			c.report(Difference{RefusesOld: isClosed, Message: ref + " is gone"})
		}
		for _, ref := range come {
			c.report(Difference{AdmitsNew: wasClosed, Message: ref + " is new"})
		}
	})
}

func (c *comparison) str(was, is lexicon.SchemaString) {
	c.bounds("minLength", "maxLength", was.MinLength, was.MaxLength, is.MinLength, is.MaxLength)
	c.bounds("minGraphemes", "maxGraphemes", was.MinGraphemes, was.MaxGraphemes, is.MinGraphemes, is.MaxGraphemes)
	values(c, was.Enum, was.Const, is.Enum, is.Const)
	c.below("format", func() {
		switch before, after := orNone(was.Format), orNone(is.Format); {
		case before == after:
		case before == "":
			c.report(Difference{RefusesOld: true, Message: "the format is " + after + " now"})
		case after == "":
			c.report(Difference{AdmitsNew: true, Message: "the format is not " + before + " any more"})
		default:
			c.replaced("the format was %s, and is %s", before, after)
		}
	})
	if gone, come := changedSet(was.KnownValues, is.KnownValues); len(gone)+len(come) > 0 {
		c.below("knownValues", func() { c.compatible("the known values changed; such a set is open") })
	}
}

func orNone(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// bounds compares a least and a most, of which nil is none.
func (c *comparison) bounds(least, most string, wasLeast, wasMost, isLeast, isMost *int) {
	c.bound(least, wasLeast, isLeast, func(a, b int) bool { return a < b })
	c.bound(most, wasMost, isMost, func(a, b int) bool { return a > b })
}

// bound compares one bound; wider says of two which allows more.
func (c *comparison) bound(name string, was, is *int, wider func(a, b int) bool) {
	if was == nil && is == nil || was != nil && is != nil && *was == *is {
		return
	}
	c.below(name, func() {
		switch {
		case is == nil:
			c.report(Difference{AdmitsNew: true, Message: fmt.Sprintf("the bound was %d, and is gone", *was)})
		case was == nil:
			c.report(Difference{RefusesOld: true, Message: fmt.Sprintf("the bound is %d now", *is)})
		default:
			widened := wider(*is, *was)
			c.report(Difference{AdmitsNew: widened, RefusesOld: !widened, Message: fmt.Sprintf("the bound was %d, and is %d", *was, *is)})
		}
	})
}

// values compares the sets that enum and const allow; neither allows all.
func values[T comparable](c *comparison, wasEnum []T, wasConst *T, isEnum []T, isConst *T) {
	was, is := allowed(wasEnum, wasConst), allowed(isEnum, isConst)
	name := "enum"
	if wasConst != nil || isConst != nil {
		name = "const"
	}
	c.below(name, func() {
		switch {
		case was == nil && is == nil:
		case was == nil:
			c.report(Difference{RefusesOld: true, Message: fmt.Sprintf("only %v is allowed now", is)})
		case is == nil:
			c.report(Difference{AdmitsNew: true, Message: fmt.Sprintf("only %v was allowed, and everything is", was)})
		default:
			gone, come := changedSet(was, is)
			if len(gone) > 0 {
				c.report(Difference{RefusesOld: true, Message: fmt.Sprintf("%v is not allowed any more", gone)})
			}
			if len(come) > 0 {
				c.report(Difference{AdmitsNew: true, Message: fmt.Sprintf("%v is allowed", come)})
			}
		}
	})
}

// allowed is the set of both together; nil allows all.
func allowed[T comparable](enum []T, constant *T) []T {
	switch {
	case constant == nil && len(enum) == 0:
		return nil
	case constant == nil:
		return enum
	case len(enum) == 0 || slices.Contains(enum, *constant):
		return []T{*constant}
	}
	return []T{} // they contradict each other
}

// accept compares the MIME types of a blob; none allows all.
func (c *comparison) accept(was, is []string) {
	if len(was) == 0 {
		was = []string{"*/*"}
	}
	if len(is) == 0 {
		is = []string{"*/*"}
	}
	for _, pattern := range was {
		if !covered(pattern, is) {
			c.report(Difference{RefusesOld: true, Message: pattern + " is not accepted any more"})
		}
	}
	for _, pattern := range is {
		if !covered(pattern, was) {
			c.report(Difference{AdmitsNew: true, Message: pattern + " is accepted"})
		}
	}
}

// covered tells whether one of patterns takes all that pattern does.
func covered(pattern string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		p, pattern := strings.ToLower(p), strings.ToLower(pattern)
		prefix, wild := strings.CutSuffix(p, "*")
		return p == "*/*" || p == pattern || wild && strings.HasPrefix(pattern, prefix)
	})
}

// method compares methods, whose parts are objects and bodies; false when they
// are not of one kind, or none. What errors they name is free.
func (c *comparison) method(was, is any) bool {
	a, okA := methodOf("", was)
	b, okB := methodOf("", is)
	if !okA || !okB || a.Kind != b.Kind {
		return false
	}
	c.below("parameters", func() { c.object(parameters(a.Parameters), parameters(b.Parameters)) })
	c.below("input", func() { c.body(a.Input, b.Input) })
	c.below("output", func() { c.body(a.Output, b.Output) })
	if a.Message != nil && b.Message != nil {
		c.below("message", func() { c.below("schema", func() { c.union(*a.Message, *b.Message) }) })
	}
	return true
}

func parameters(p *lexicon.SchemaParams) lexicon.SchemaObject {
	if p == nil {
		return lexicon.SchemaObject{}
	}
	return lexicon.SchemaObject{Properties: p.Properties, Required: p.Required}
}

func (c *comparison) body(was, is *lexicon.SchemaBody) {
	switch {
	case was == nil && is == nil:
	case was == nil || is == nil, was.Encoding != is.Encoding, (was.Schema == nil) != (is.Schema == nil):
		c.replaced("the body is another")
	case was.Schema != nil:
		c.below("schema", func() { c.def(was.Schema.Inner, is.Schema.Inner) })
	}
}

// changedSet is what of was is not in is, and the other way round.
func changedSet[T comparable](was, is []T) (gone, come []T) {
	for _, v := range was {
		if !slices.Contains(is, v) {
			gone = append(gone, v)
		}
	}
	for _, v := range is {
		if !slices.Contains(was, v) {
			come = append(come, v)
		}
	}
	return gone, come
}

func mainRefs(base string, refs []string) []string {
	full := fullRefs(base, refs)
	for i := range full {
		full[i] = mainRef(full[i])
	}
	return full
}

// namesOf are the names in either map, sorted.
func namesOf[T any](a, b map[string]T) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	return slices.Compact(names)
}

// sharedNames are the names in both maps, sorted.
func sharedNames[T any](a, b map[string]T) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a)), func(name string) bool {
		_, ok := b[name]
		return !ok
	})
}
