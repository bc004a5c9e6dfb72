package appview

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
)

// classView is garden.herbarium.defs#classView.
type classView struct {
	URI            syntax.ATURI     `json:"uri"`
	CID            syntax.CID       `json:"cid,omitempty"`
	Author         actorView        `json:"author"`
	State          index.RefState   `json:"state"`
	DeletedAt      syntax.Datetime  `json:"deletedAt,omitempty"`
	Name           string           `json:"name,omitempty"`
	Description    string           `json:"description,omitempty"`
	CreatedAt      syntax.Datetime  `json:"createdAt,omitempty"`
	SpawnsSubAgent bool             `json:"spawnsSubAgent,omitempty"`
	Bootstrap      string           `json:"bootstrap,omitempty"`
	Entry          *entryTool       `json:"entry,omitempty"`
	Skills         []effectiveSkill `json:"skills,omitempty"`
	Tools          []toolView       `json:"tools,omitempty"`
	Writes         []syntax.NSID    `json:"writes,omitempty"`
	Examples       []exampleView    `json:"examples,omitempty"`
	ExamplesCapped bool             `json:"examplesCapped,omitempty"`
	Parents        []classLink      `json:"parents,omitempty"`
	ParentsEnd     index.LineEnd    `json:"parentsEnd,omitempty"`
	Children       []classLink      `json:"children,omitempty"`
	Drift          []driftView      `json:"drift,omitempty"`
	Versions       []classVersion   `json:"versions,omitempty"`
	Lock           *resolutionLock  `json:"lock,omitempty"`
	Findings       []findingView    `json:"findings"`
	Provenance     *provenanceView  `json:"provenance,omitempty"`
}

// classLink is garden.herbarium.defs#classLink.
type classLink struct {
	URI    syntax.ATURI   `json:"uri"`
	CID    syntax.CID     `json:"cid,omitempty"`
	Name   string         `json:"name,omitempty"`
	Author *actorView     `json:"author,omitempty"`
	State  index.RefState `json:"state,omitempty"`
}

// effectiveSkill is garden.herbarium.defs#effectiveSkill.
type effectiveSkill struct {
	Ref          refView   `json:"ref"`
	Name         string    `json:"name,omitempty"`
	Description  string    `json:"description,omitempty"`
	ContentBytes int       `json:"contentBytes,omitempty"`
	Origin       string    `json:"origin"` // own or inherited
	From         classLink `json:"from"`
	Overrides    []refView `json:"overrides,omitempty"`
	Tools        []string  `json:"tools,omitempty"`
	Legacy       bool      `json:"legacy,omitempty"`
}

// toolView is garden.herbarium.defs#toolView.
type toolView struct {
	Name           string          `json:"name"`
	Description    string          `json:"description,omitempty"`
	InputSchema    json.RawMessage `json:"inputSchema,omitempty"`
	SpawnsSubAgent bool            `json:"spawnsSubAgent,omitempty"`
	Skill          syntax.ATURI    `json:"skill"`
	Collides       bool            `json:"collides,omitempty"`
	Safe           bool            `json:"safe"`
}

// entryTool is garden.herbarium.defs#entryTool.
type entryTool struct {
	Name       string       `json:"name,omitempty"`
	Mode       string       `json:"mode"`
	Resolution string       `json:"resolution"`
	Skill      syntax.ATURI `json:"skill,omitempty"`
}

// driftView is garden.herbarium.defs#driftView.
type driftView struct {
	Role   string       `json:"role"` // skill or parent
	Holder syntax.ATURI `json:"holder"`
	Ref    refView      `json:"ref"`
	Diff   *textDiff    `json:"diff,omitempty"`
}

// classVersion is garden.herbarium.defs#classVersion.
type classVersion struct {
	URI         syntax.ATURI    `json:"uri"`
	CID         syntax.CID      `json:"cid"`
	FirstSeenAt syntax.Datetime `json:"firstSeenAt"`
	Current     bool            `json:"current,omitempty"`
	CreatedAt   syntax.Datetime `json:"createdAt,omitempty"`
}

// classItem is garden.herbarium.defs#classItem.
type classItem struct {
	URI          syntax.ATURI    `json:"uri"`
	CID          syntax.CID      `json:"cid"`
	Author       actorView       `json:"author"`
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	Parent       syntax.ATURI    `json:"parent,omitempty"`
	OwnSkills    int             `json:"ownSkills"`
	CreatedAt    syntax.Datetime `json:"createdAt,omitempty"`
	FirstSeenAt  syntax.Datetime `json:"firstSeenAt,omitempty"`
	FindingCount int             `json:"findingCount"`
}

// classFacts is all that the view of one class is made of.
type classFacts struct {
	class      index.Class
	resolution *resolution
	refs       *refTable // every skill and parent reference of the line
	examples   []exampleView
	capped     bool // there are more examples
	children   []index.Record
	versions   []index.Version // of the class itself, newest first
	namesakes  []index.Class   // classes of the same author and name, itself included
	findings   []index.Finding
	actors     actors
}

func viewClass(f classFacts) *classView {
	class, r := f.class, f.resolution
	view := &classView{
		URI:            class.URI,
		CID:            viewCID(class.CID),
		Author:         f.actors.of(class.URI),
		State:          index.RefCurrent,
		Name:           r.class.content.Name,
		Description:    r.class.content.Description,
		CreatedAt:      datetime(r.class.content.CreatedAt),
		SpawnsSubAgent: r.class.content.SpawnsSubAgent,
		Bootstrap:      r.class.content.Bootstrap,
		Skills:         each(r.skills, func(s resolvedSkill) effectiveSkill { return f.viewSkill(s) }),
		Tools:          viewTools(r.skills),
		Writes:         writes(r.skills),
		Examples:       f.examples,
		ExamplesCapped: f.capped,
		Parents:        each(r.parents, func(p resolvedClass) classLink { return f.viewParent(p.pin) }),
		ParentsEnd:     r.end,
		Children: each(f.children, func(c index.Record) classLink {
			author := f.actors.of(c.URI)
			return classLink{URI: c.URI, CID: viewCID(c.CID), Name: labelOf(c), Author: &author}
		}),
		Drift:      f.viewDrift(r),
		Versions:   f.viewVersions(),
		Lock:       viewLock(r),
		Findings:   viewFindings(f.findings),
		Provenance: viewProvenance(class.Record),
	}
	if view.Bootstrap == "" {
		view.Bootstrap = "none"
	}
	for _, bad := range r.bad {
		view.Skills = append(view.Skills, viewMalformedSkill(bad))
	}
	if bad := r.last().content.MalformedParent; bad != "" {
		view.Parents = append(view.Parents, classLink{URI: syntax.ATURI(bad), State: index.RefMalformed})
	}
	if r.missing != nil {
		view.Parents = append(view.Parents, f.viewParent(*r.missing))
	}
	view.Entry = viewEntry(r.class.content.EntryTool, r.skills, view.Tools)
	if view.Entry.Resolution == "unresolved" && len(r.bad) > 0 {
		view.Entry.Resolution = "unknown"
	}
	return view
}

// viewDeletedClass is all that is left of a class that its author deleted.
func viewDeletedClass(r index.Record, who actors) *classView {
	return &classView{
		URI:       r.URI,
		Author:    who.of(r.URI),
		State:     r.RefState(),
		DeletedAt: datetime(r.DeletedAt),
		Findings:  []findingView{},
	}
}

func (f classFacts) viewParent(pin lexicons.StrongRef) classLink {
	author, ref := f.actors.of(pin.URI), f.refs.view(pin)
	return classLink{URI: pin.URI, CID: ref.CID, Name: ref.Label, Author: &author, State: ref.State}
}

func (f classFacts) viewSkill(s resolvedSkill) effectiveSkill {
	view := effectiveSkill{
		Ref:       f.refs.view(s.ref),
		Origin:    "own",
		From:      classLink{URI: s.from.uri, CID: viewCID(s.from.pin.CID), Name: s.from.content.Name},
		Overrides: each(s.overrides, f.refs.view),
	}
	if s.inherited {
		view.Origin = "inherited"
	}
	if !s.known {
		return view
	}
	view.Name = s.content.Name
	view.Description = s.content.Description
	view.ContentBytes = len(s.content.Content)
	view.Legacy = s.content.Content == ""
	view.Tools = each(s.content.Tools, func(t lexicons.Tool) string { return t.Name })
	return view
}

// viewMalformedSkill lists what cannot be resolved, so that nobody takes the rest for all.
func viewMalformedSkill(bad malformedSkill) effectiveSkill {
	view := effectiveSkill{
		Ref:    refView{URI: bad.uri, State: index.RefMalformed},
		Origin: "own",
		From:   classLink{URI: bad.from.uri, CID: viewCID(bad.from.pin.CID), Name: bad.from.content.Name},
	}
	if bad.inherited {
		view.Origin = "inherited"
	}
	return view
}

func viewTools(skills []resolvedSkill) []toolView {
	var tools []toolView
	declared := map[string]map[syntax.ATURI]bool{}
	for _, s := range skills {
		for _, t := range s.content.Tools {
			if declared[t.Name] == nil {
				declared[t.Name] = map[syntax.ATURI]bool{}
			}
			declared[t.Name][s.ref.URI] = true
			tools = append(tools, toolView{
				Name:           t.Name,
				Description:    t.Description,
				InputSchema:    viewValue(t.InputSchema),
				SpawnsSubAgent: t.SpawnsSubAgent,
				Skill:          s.ref.URI,
				Safe:           lexicons.SafeToolName(t.Name),
			})
		}
	}
	for i := range tools {
		tools[i].Collides = len(declared[tools[i].Name]) > 1
	}
	return tools
}

// viewEntry resolves the entry tool. Skills that are not known may declare it,
// so only a complete set of skills that declares other tools says unresolved.
func viewEntry(name string, skills []resolvedSkill, tools []toolView) *entryTool {
	if name == "" {
		return &entryTool{Mode: "model", Resolution: "none"}
	}
	entry := &entryTool{Name: name, Mode: "deterministic"}
	for _, t := range tools {
		if t.Name == name {
			entry.Resolution, entry.Skill = "resolved", t.Skill // the nearest: later ones win
		}
	}
	if entry.Resolution != "" {
		return entry
	}
	entry.Resolution = "unresolved"
	if len(tools) == 0 {
		entry.Resolution = "unknown"
	}
	for _, s := range skills {
		if !s.known {
			entry.Resolution = "unknown"
		}
	}
	return entry
}

// writes are the collections of the skills' examples, which runners read as
// what the agent may write.
func writes(skills []resolvedSkill) []syntax.NSID {
	var collections []syntax.NSID
	for _, s := range skills {
		for _, example := range s.content.Examples {
			collections = append(collections, example.URI.Collection())
		}
	}
	return distinct(collections)
}

// viewDrift lists the references of the line that do not pin the latest version.
func (f classFacts) viewDrift(r *resolution) []driftView {
	var drift []driftView
	add := func(role string, holder syntax.ATURI, ref lexicons.StrongRef, text func(map[string]any) string) {
		view := f.refs.view(ref)
		if view.State != index.RefChanged {
			return
		}
		d := driftView{Role: role, Holder: holder, Ref: view}
		before, now := f.refs.exactly(ref), decodeRecord(f.refs.records[ref.URI])
		if before != nil && now != nil {
			d.Diff = diffTexts(text(before), text(now))
		}
		drift = append(drift, d)
	}
	for _, class := range append([]resolvedClass{r.class}, r.parents...) {
		if class.content.Parent != nil {
			add("parent", class.uri, *class.content.Parent, classText)
		}
		for _, ref := range class.content.Skills {
			add("skill", class.uri, ref, skillText)
		}
	}
	return drift
}

// skillText and classText are what a diff of two versions compares.
func skillText(value map[string]any) string {
	s := lexicons.ReadSkill(value)
	return fmt.Sprintf("name: %s\ndescription: %s\n\n%s", s.Name, s.Description, s.Content)
}

func classText(value map[string]any) string {
	c := lexicons.ReadClass(value)
	var text strings.Builder
	fmt.Fprintf(&text, "name: %s\ndescription: %s\nentryTool: %s\nbootstrap: %s\n", c.Name, c.Description, c.EntryTool, c.Bootstrap)
	if c.Parent != nil {
		fmt.Fprintf(&text, "parent: %s %s\n", c.Parent.URI, c.Parent.CID)
	}
	for _, ref := range c.Skills {
		fmt.Fprintf(&text, "skill: %s %s\n", ref.URI, ref.CID)
	}
	return text.String()
}

// viewVersions is the line of versions of one author's classes of one name: all
// versions of this record that were witnessed, and the latest of the others, for
// a publisher that deletes and creates again starts a new record. The record with
// the newest key is what the name means now; before it come the older ones.
func (f classFacts) viewVersions() []classVersion {
	var view []classVersion
	newest := f.class.RecordKey
	for _, other := range f.namesakes {
		newest = max(newest, other.RecordKey)
	}
	add := func(uri syntax.ATURI, version cid.Cid, seen time.Time, current bool, content []byte) {
		view = append(view, classVersion{
			URI:         uri,
			CID:         viewCID(version),
			FirstSeenAt: datetime(seen),
			Current:     current && uri.RecordKey() == newest,
			CreatedAt:   datetime(lexicons.ReadClass(decode(lexicons.ClassNSID, content)).CreatedAt),
		})
	}
	for _, v := range f.versions {
		if v.CBOR != nil {
			add(f.class.URI, v.CID, v.WitnessedAt, v.CID == f.class.CID, v.CBOR)
		}
	}
	for _, other := range f.namesakes {
		if other.URI != f.class.URI {
			add(other.URI, other.CID, other.Record.UpdatedAt, true, other.CBOR)
		}
	}
	// Stable: of this record the newest version is first already.
	slices.SortStableFunc(view, func(a, b classVersion) int { return cmp.Compare(b.URI.RecordKey(), a.URI.RecordKey()) })
	return view
}

func viewClassItem(c index.Class, findings int, who actors) classItem {
	content := lexicons.ReadClass(decodeRecord(c.Record))
	view := classItem{
		URI:          c.URI,
		CID:          viewCID(c.CID),
		Author:       who.of(c.URI),
		Name:         content.Name,
		Description:  excerpt(content.Description),
		OwnSkills:    len(content.Skills),
		CreatedAt:    datetime(content.CreatedAt),
		FirstSeenAt:  datetime(c.Record.UpdatedAt),
		FindingCount: findings,
	}
	if content.Parent != nil {
		view.Parent = content.Parent.URI
	}
	return view
}
