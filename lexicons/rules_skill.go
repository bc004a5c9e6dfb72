package lexicons

import "strings"

// skillRules need the skill alone (SEMANTICS 3.7). What its examples refer to
// is the index's to resolve.
var skillRules = []recordRule[Skill]{
	skillCreated,
	skillExamples,
	skillTools,
	skillProperties,
}

// skillCreated: the publisher's schema gives createdAt no format.
func skillCreated(s *subject, v Skill) {
	if v.CreatedAt.IsZero() {
		s.flag(Info, CodeCreatedUnparsed, "/createdAt", "createdAt is no datetime; the record key orders the skill")
	}
	s.notFuture("/createdAt", v.CreatedAt)
}

func skillExamples(s *subject, _ Skill) {
	for i, v := range fields(s.Record.Value).list("examples") {
		s.strongRef(pointerAt("/examples", i), v)
	}
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
