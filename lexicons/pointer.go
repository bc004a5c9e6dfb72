package lexicons

import (
	"strconv"
	"strings"
)

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// pointer appends a member name to an RFC 6901 pointer.
func pointer(base, member string) string { return base + "/" + pointerEscape.Replace(member) }

// pointerAt appends an array index to an RFC 6901 pointer.
func pointerAt(base string, index int) string { return base + "/" + strconv.Itoa(index) }

// trail is where a walk stands inside a value. It is kept as steps and only
// rendered when something is found, so that a clean record costs no pointers.
type trail struct {
	steps []step
}

// step is a member name, or an array index when index is not negative.
type step struct {
	name  string
	index int
}

func (t *trail) enter(name string)  { t.steps = append(t.steps, step{name: name, index: -1}) }
func (t *trail) enterAt(index int)  { t.steps = append(t.steps, step{index: index}) }
func (t *trail) leave()             { t.steps = t.steps[:len(t.steps)-1] }
func (t *trail) depth() int         { return len(t.steps) }
func (t *trail) at(m string) string { return pointer(t.String(), m) }

// maxNameShown bounds what one name of a hostile record takes of a pointer.
const maxNameShown = 128

// String renders the trail as an RFC 6901 pointer, of names as shownName has them.
func (t *trail) String() string {
	var path string
	for _, s := range t.steps {
		if s.index < 0 {
			path = pointer(path, shownName(s.name))
		} else {
			path = pointerAt(path, s.index)
		}
	}
	return path
}

// shownName is a name that a record chose as a finding may show it.
func shownName(name string) string { return shown(name, maxNameShown) }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// walkValue visits v and everything below it, members in the order of the
// canonical CBOR. Below a value for which visit returns false it does not go.
func walkValue(v any, visit func(at *trail, v any) (deeper bool)) {
	var at trail
	var walk func(v any)
	walk = func(v any) {
		if !visit(&at, v) {
			return
		}
		switch v := v.(type) {
		case []any:
			for i, item := range v {
				at.enterAt(i)
				walk(item)
				at.leave()
			}
		case map[string]any:
			for _, name := range canonicalNames(v) {
				at.enter(name)
				walk(v[name])
				at.leave()
			}
		}
	}
	walk(v)
}
