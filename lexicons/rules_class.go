package lexicons

import (
	"context"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

const (
	// maxSkills caps the skills of one class; its schema has no limit.
	maxSkills = 256
	// maxLineage is how many ancestors of a class are followed.
	maxLineage = 32
	// maxClassReads bounds the records that one class makes a rule read.
	maxClassReads = 64
)

// The ways in which a spawned agent comes by its identity.
const (
	bootstrapPassword = "atproto-password"
	bootstrapWelcome  = "welcome-mat-on-enroll"
	bootstrapNone     = "none"
)

// classRules need the class alone (SEMANTICS 3.6).
var classRules = []recordRule[Class]{
	classSkills,
	classParent,
	classEntryTool,
	classBootstrap,
	classTimes,
}

// classStateRules follow references inside the repo. Classes and skills may be
// written in any order, so that only a cycle refuses.
var classStateRules = []stateRule[Class]{
	classRefs,
	classLineage,
	classTools,
}

func classSkills(s *subject, c Class) {
	list := fields(s.Record.Value).list("skills")
	if len(list) > maxSkills {
		s.refuse(CodeTooManySkills, RefusalInvalidRequest, "/skills", "at most "+decimal(maxSkills)+" skills", "the class has %d skills", len(list))
	}
	seen := map[syntax.ATURI]bool{}
	for i, v := range list {
		path := pointerAt("/skills", i)
		s.strongRef(path, v)
		ref, err := ReadStrongRef(v)
		if err != nil {
			continue
		}
		if ref.URI.Collection() != SkillNSID {
			s.refuse(CodeSkillWrongType, RefusalInvalidRequest, pointer(path, "uri"), "want at://<did>/"+string(SkillNSID)+"/<rkey>",
				"a class bundles skills, not a record of %s", ref.URI.Collection())
		}
		if seen[ref.URI] {
			s.flag(Warning, CodeSkillDuplicate, path, "the skill is named twice")
		}
		seen[ref.URI] = true
	}
}

func classParent(s *subject, c Class) {
	s.strongRef("/parent", s.Record.Value["parent"])
	switch {
	case c.Parent == nil:
	case c.Parent.URI.Collection() != ClassNSID:
		s.refuse(CodeParentWrongType, RefusalInvalidRequest, "/parent/uri", "want at://<did>/"+string(ClassNSID)+"/<rkey>",
			"a class's parent is a class, not a record of %s", c.Parent.URI.Collection())
	case c.Parent.URI == s.URI:
		s.refuse(CodeParentSelf, RefusalInvalidRequest, "/parent/uri", "name another class, or leave parent out", "the class is its own parent")
	}
}

// classEntryTool: the runner makes a path of the name.
func classEntryTool(s *subject, c Class) {
	if c.EntryTool != "" && !SafeToolName(c.EntryTool) {
		s.unsafeToolName("/entryTool")
	}
}

// classBootstrap: the lexicon names three values in its description alone.
func classBootstrap(s *subject, c Class) {
	switch c.Bootstrap {
	case "", bootstrapPassword, bootstrapWelcome, bootstrapNone:
	default:
		s.unknownValue("/bootstrap", c.Bootstrap, []string{bootstrapPassword, bootstrapWelcome, bootstrapNone})
	}
	if c.SpawnsSubAgent && c.Bootstrap == bootstrapPassword || !c.SpawnsSubAgent && c.Bootstrap == bootstrapWelcome {
		s.flag(Info, CodeBootstrapMismatch, "/bootstrap", "%s does not go with spawnsSubAgent %v", c.Bootstrap, c.SpawnsSubAgent)
	}
}

func classTimes(s *subject, c Class) { s.notFuture("/createdAt", c.CreatedAt) }

// SafeToolName reports whether name can be one segment of a path: 1 to 128
// characters of A-Z a-z 0-9 _ . : -, and neither . nor ..
func SafeToolName(name string) bool {
	if name == "" || len(name) > 128 || name == "." || name == ".." {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '_' || c == '.' || c == ':' || c == '-':
		default:
			return false
		}
	}
	return true
}

func (s *subject) unsafeToolName(path string) {
	s.refuse(CodeToolNameUnsafe, RefusalInvalidRequest, path, "want 1 to 128 of A-Z a-z 0-9 _ . : - and neither . nor ..",
		"the tool's name is no safe path segment")
}

// classRefs compares what the class pins with what stands in the repo.
func classRefs(ctx context.Context, s *subject, c Class, snap Snapshot) error {
	for i, v := range fields(s.Record.Value).list("skills") {
		if i >= maxClassReads {
			break
		}
		if err := s.localRef(ctx, pointerAt("/skills", i), v, snap); err != nil {
			return err
		}
	}
	return s.localRef(ctx, "/parent", s.Record.Value["parent"], snap)
}

// localRef flags a strongRef inside this repo that leads nowhere or to another version.
func (s *subject) localRef(ctx context.Context, path string, v any, snap Snapshot) error {
	ref, err := ReadStrongRef(v)
	if err != nil || ref.URI.Authority().String() != s.DID.String() || ref.URI == s.URI {
		return nil
	}
	stored, err := snap.Record(ctx, ref.URI)
	switch {
	case err != nil:
		return err
	case stored == nil:
		s.flag(Warning, CodeRefMissing, path, "there is no record at %s", ref.URI)
	case !stored.CID.Equals(ref.CID):
		s.flag(Warning, CodeRefDrift, path, "pinned %s, the record is now %s", ref.CID, stored.CID)
	}
	return nil
}

// classLineage walks the parents by URI as they stand now.
func classLineage(ctx context.Context, s *subject, c Class, snap Snapshot) error {
	seen := map[syntax.ATURI]bool{s.URI: true}
	for parent := c.Parent; parent != nil && parent.URI != s.URI; {
		if len(seen) > maxLineage {
			s.flag(Warning, CodeParentTooDeep, "/parent", "the class has more than %d ancestors", maxLineage)
			return nil
		}
		seen[parent.URI] = true
		next, err := s.localClass(ctx, parent.URI, snap)
		if err != nil || next == nil || next.Parent == nil {
			return err
		}
		parent = next.Parent
		if parent.URI == s.URI {
			s.refuse(CodeParentCycle, RefusalInvalidRequest, "/parent", "choose a parent that does not descend from this class",
				"the class would be its own ancestor through %s", c.Parent.URI)
			return nil
		}
		if seen[parent.URI] {
			s.flag(Warning, CodeParentCycle, "/parent", "the ancestors form a cycle at %s", parent.URI)
			return nil
		}
	}
	return nil
}

// localClass reads a class of this repo; nil when it is elsewhere, missing or none.
func (s *subject) localClass(ctx context.Context, uri syntax.ATURI, snap Snapshot) (*Class, error) {
	if uri.Authority().String() != s.DID.String() || uri.Collection() != ClassNSID {
		return nil, nil
	}
	value, err := storedValue(ctx, uri, snap)
	if err != nil || value == nil {
		return nil, err
	}
	class := ReadClass(value)
	return &class, nil
}

func storedValue(ctx context.Context, uri syntax.ATURI, snap Snapshot) (map[string]any, error) {
	stored, err := snap.Record(ctx, uri)
	if err != nil || stored == nil {
		return nil, err
	}
	value, err := DecodeCBOR(stored.CBOR)
	if err != nil {
		return nil, nil // what stands in the repo is not this write's fault
	}
	return value, nil
}

// classTools looks whether the effective skills offer the entry tool, and each
// tool once. It says nothing when a skill is out of reach or none declares its
// tools: then nobody can know.
func classTools(ctx context.Context, s *subject, c Class, snap Snapshot) error {
	tools, complete, err := s.effectiveTools(ctx, c, snap)
	if err != nil {
		return err
	}
	for _, t := range tools.collisions {
		s.flag(Warning, CodeToolCollision, "/skills", "the tool %q comes from two skills", clip(t))
	}
	if c.EntryTool != "" && complete && len(tools.from) > 0 && tools.from[c.EntryTool] == "" {
		s.flag(Warning, CodeEntryToolUnresolved, "/entryTool", "no effective skill offers the tool %q", clip(c.EntryTool))
	}
	return nil
}

type toolSet struct {
	from       map[string]syntax.ATURI // the first skill that offers a tool, by name
	collisions []string
}

// effectiveTools gathers the tools of the class's own skills and those of its
// ancestors; complete means that every one of them could be read here.
func (s *subject) effectiveTools(ctx context.Context, c Class, snap Snapshot) (tools toolSet, complete bool, err error) {
	tools.from = map[string]syntax.ATURI{}
	done := map[syntax.ATURI]bool{s.URI: true}
	complete = true
	for class := &c; class != nil; {
		for _, skill := range class.Skills {
			if done[skill.URI] {
				continue
			}
			done[skill.URI] = true
			if len(done) > maxClassReads || skill.URI.Authority().String() != s.DID.String() {
				complete = false
				continue
			}
			value, err := storedValue(ctx, skill.URI, snap)
			if err != nil {
				return tools, false, err
			}
			complete = complete && value != nil
			tools.add(skill.URI, ReadSkill(value))
		}
		if class.Parent == nil || done[class.Parent.URI] {
			break
		}
		done[class.Parent.URI] = true
		if len(done) > maxClassReads {
			return tools, false, nil
		}
		if class, err = s.localClass(ctx, class.Parent.URI, snap); err != nil {
			return tools, false, err
		}
		complete = complete && class != nil
	}
	return tools, complete, nil
}

func (t *toolSet) add(skill syntax.ATURI, s Skill) {
	for _, tool := range s.Tools {
		if owner := t.from[tool.Name]; owner != "" && owner != skill {
			t.collisions = append(t.collisions, tool.Name)
			continue
		}
		t.from[tool.Name] = skill
	}
}
