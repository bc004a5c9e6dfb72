package lexicons

import (
	"context"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// MaxExampleHops is how far the examples of a skill are followed: the
// publisher's writer goes from record to record.
const MaxExampleHops = 3

// maxExampleRecords bounds the records that the examples of one skill make a rule read.
const maxExampleRecords = 64

// skillRules need the skill alone (SEMANTICS 3.7).
var skillRules = []recordRule[Skill]{
	skillCreated,
	skillExamples,
	skillTools,
	skillProperties,
}

// skillStateRules follow references inside the repo.
var skillStateRules = []stateRule[Skill]{
	skillExampleRefs,
	skillExampleDepth,
}

// skillCreated: the publisher's schema gives createdAt no format.
func skillCreated(s *subject, v Skill) {
	if v.CreatedAt.IsZero() {
		s.flag(Warning, CodeCreatedUnparsed, "/createdAt", "createdAt is no datetime; the record key orders the skill")
	}
	s.notFuture("/createdAt", v.CreatedAt)
}

func skillExamples(s *subject, _ Skill) {
	for i, v := range fields(s.Record.Value).list("examples") {
		s.strongRef(pointerAt("/examples", i), v)
	}
}

// skillExampleRefs compares what the skill pins with what stands in the repo.
func skillExampleRefs(ctx context.Context, s *subject, _ Skill, snap Snapshot) error {
	for i, v := range fields(s.Record.Value).list("examples") {
		if i >= maxExampleRecords {
			break
		}
		if err := s.localRef(ctx, pointerAt("/examples", i), v, snap); err != nil {
			return err
		}
	}
	return nil
}

// skillExampleDepth follows the examples of examples, as the writer does, and
// says when they go on past its bounds or come back to this skill.
func skillExampleDepth(ctx context.Context, s *subject, v Skill, snap Snapshot) error {
	seen := map[syntax.ATURI]bool{s.URI: true}
	next := v.Examples
	for hop := 1; len(next) > 0; hop++ {
		var further []StrongRef
		for _, ref := range next {
			switch {
			case ref.URI == s.URI:
				s.flag(Info, CodeRefDepth, "/examples", "the examples lead back to this skill")
				return nil
			case seen[ref.URI] || ref.URI.Authority().String() != s.DID.String() || ref.URI.Collection() != SkillNSID:
				continue
			case hop > MaxExampleHops || len(seen) > maxExampleRecords:
				s.flag(Info, CodeRefDepth, "/examples", "the examples lead on to %s; they are followed %d steps and to %d records", ref.URI, MaxExampleHops, maxExampleRecords)
				return nil
			}
			seen[ref.URI] = true
			value, err := storedValue(ctx, ref.URI, snap)
			if err != nil {
				return err
			}
			further = append(further, ReadSkill(value).Examples...)
		}
		next = further
	}
	return nil
}

// skillTools reads the undeclared field `tools` as public skills have it. A
// runner makes a directory of each name, so that an unsafe one is refused.
func skillTools(s *subject, _ Skill) {
	raw, present := s.Record.Value["tools"]
	if !present {
		return
	}
	list, isList := raw.([]any)
	if !isList {
		s.flag(Warning, CodeToolInvalid, "/tools", "tools is %s, want an array", kindOf(raw))
	}
	for i, v := range list {
		path := pointerAt("/tools", i)
		m, isObject := v.(map[string]any)
		if !isObject {
			s.flag(Warning, CodeToolInvalid, path, "the tool is %s, want an object", kindOf(v))
			continue
		}
		f := fields(m)
		if f.has("name") && !SafeToolName(f.str("name")) {
			s.unsafeToolName(pointer(path, "name"))
		}
		for _, name := range [...]string{"name", "description"} {
			if f.str(name) == "" {
				s.flag(Warning, CodeToolInvalid, pointer(path, name), "the tool has no %s", name)
			}
		}
		if f.object("inputSchema") == nil {
			s.flag(Warning, CodeToolInvalid, pointer(path, "inputSchema"), "the input schema is %s, want an object", kindOf(m["inputSchema"]))
		}
	}
}

func skillProperties(s *subject, _ Skill) {
	for i, v := range fields(s.Record.Value).list("property_references") {
		m, isObject := v.(map[string]any)
		if !isObject {
			continue
		}
		path := pointerAt("/property_references", i)
		s.strongRef(pointer(path, "ref"), m["ref"])
		p := readPropertyReference(m)
		if p.Ref == nil && !fields(m).has("string") {
			s.flag(Warning, CodePropertyRefEmpty, path, "the entry has neither ref, string nor uri and cid")
		}
		if !strings.HasPrefix(p.Path, ".") {
			s.flag(Info, CodePropertyPath, pointer(path, "path"), "the path does not start with a point")
		}
	}
}
