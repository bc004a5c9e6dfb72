package lexicons

import "time"

// Class reads a com.publicdomainrelay.temp.agent.class: a template that agents are instantiated from.
type Class struct {
	Name        string
	Description string
	Skills      []StrongRef // in order; malformed ones left out
	CreatedAt   time.Time
	Parent      *StrongRef
	// What stands where a skill or the parent should, and is no strongRef: URIs as written.
	MalformedSkills []string
	MalformedParent string
	SpawnsSubAgent  bool
	EntryTool       string // set: deterministic mode; "": the model drives
	Bootstrap       string // "" is treated as none
}

// ReadClass reads the fields of a class.
func ReadClass(value map[string]any) Class {
	f := fields(value)
	c := Class{
		Name:           f.str("name"),
		Description:    f.str("description"),
		Skills:         f.strongRefs("skills"),
		CreatedAt:      f.time("createdAt"),
		Parent:         f.strongRef("parent"),
		SpawnsSubAgent: f.bool("spawnsSubAgent"),
		EntryTool:      f.str("entryTool"),
		Bootstrap:      f.str("bootstrap"),
	}
	if list := f.list("skills"); len(list) > len(c.Skills) {
		for _, v := range list {
			if _, err := ReadStrongRef(v); err != nil {
				m, _ := v.(map[string]any)
				c.MalformedSkills = append(c.MalformedSkills, fields(m).str("uri"))
			}
		}
	}
	if c.Parent == nil {
		c.MalformedParent = f.object("parent").str("uri")
	}
	return c
}

// Tool is a tool as a skill declares it; the schema does not have the field,
// public skills do.
type Tool struct {
	Name           string
	Description    string
	InputSchema    map[string]any // nil when absent or no object
	SpawnsSubAgent bool
}

// PropertyReference names a record that holds a value of an example.
type PropertyReference struct {
	Path    string
	Ref     *StrongRef // from `ref`, or from uri and cid on the entry itself, as the public writer emits
	Literal string     // from `string`, as the public writer emits
}

// Skill reads a com.publicdomainrelay.temp.agent.skill: a capability that
// classes bundle.
type Skill struct {
	Name               string
	Description        string
	Content            string // "" in records older than the field
	CreatedAt          time.Time
	Examples           []StrongRef
	PropertyReferences []PropertyReference
	Tools              []Tool
}

// ReadSkill reads the fields of a skill, undeclared `tools` included.
func ReadSkill(value map[string]any) Skill {
	f := fields(value)
	s := Skill{
		Name:        f.str("name"),
		Description: f.str("description"),
		Content:     f.str("content"),
		CreatedAt:   f.time("createdAt"),
		Examples:    f.strongRefs("examples"),
	}
	for _, v := range f.list("property_references") {
		if m, ok := v.(map[string]any); ok {
			s.PropertyReferences = append(s.PropertyReferences, readPropertyReference(m))
		}
	}
	for _, v := range f.list("tools") {
		if m, ok := v.(map[string]any); ok {
			tool := fields(m)
			s.Tools = append(s.Tools, Tool{
				Name:           tool.str("name"),
				Description:    tool.str("description"),
				InputSchema:    tool.object("inputSchema"),
				SpawnsSubAgent: tool.bool("spawnsSubAgent"),
			})
		}
	}
	return s
}

func readPropertyReference(m map[string]any) PropertyReference {
	f := fields(m)
	ref := f.strongRef("ref")
	if inline, err := ReadStrongRef(m); ref == nil && err == nil {
		ref = &inline
	}
	return PropertyReference{Path: f.str("path"), Ref: ref, Literal: f.str("string")}
}
