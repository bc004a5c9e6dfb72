package index

import (
	"strconv"

	"herbarium.garden/lexicons"
)

// foundRef is a record named inside another.
type foundRef struct {
	kind ReferenceKind
	path string
	uri  string
	cid  string
}

// maxRefs bounds the references that are kept of one record.
const maxRefs = 2000

// references finds the records that a record names: in the fields that its
// lexicon has for that, and, in any record of any type, in each object that
// has span, relation and target, which is a citation.
func references(rec *lexicons.Record) []foundRef {
	c := &refCollector{}
	v := rec.Value
	switch rec.Collection {
	case lexicons.ObservationNSID:
		c.strong(RefSupersedes, "/supersedes", v["supersedes"])
	case lexicons.ClassNSID:
		c.strong(RefParent, "/parent", v["parent"])
		c.each(RefSkill, "/skills", v["skills"])
	case lexicons.SkillNSID:
		c.each(RefExample, "/examples", v["examples"])
		properties, _ := v["property_references"].([]any)
		for i, p := range properties {
			path := "/property_references/" + strconv.Itoa(i)
			if m, ok := p.(map[string]any); ok && m["ref"] != nil {
				c.strong(RefProperty, path+"/ref", m["ref"])
			} else {
				c.strong(RefProperty, path, p)
			}
		}
	case lexicons.MessageNSID:
		if m := lexicons.ReadMessage(v); m.Session != "" {
			c.add(RefSession, "/session", string(m.Session), "")
		}
		if w, _ := v["withheld"].(bool); !w { // what was taken away is listed nowhere
			c.each(RefTurn, "/refs", v["refs"])
		}
	}
	if generator, ok := v["generator"].(map[string]any); ok {
		c.strong(RefTranscript, "/generator/transcript", generator["transcript"])
	}
	for _, citation := range citationsOf(string(rec.Collection), v) {
		if citation.Target != nil {
			c.add(RefCitation, citation.Path+"/target", string(citation.Target.URI), citation.Target.CID.String())
		}
		for i, via := range citation.Via {
			c.add(RefVia, citation.Path+"/via/"+strconv.Itoa(i), string(via.URI), via.CID.String())
		}
	}
	return c.found
}

type refCollector struct{ found []foundRef }

func (c *refCollector) add(kind ReferenceKind, path, uri, cid string) {
	if len(c.found) < maxRefs && len(uri) <= MaxURILength && len(path) <= maxFindingPath {
		c.found = append(c.found, foundRef{kind: kind, path: clean(path), uri: clean(uri), cid: cid})
	}
}

func (c *refCollector) strong(kind ReferenceKind, path string, v any) {
	if ref, err := lexicons.ReadStrongRef(v); err == nil {
		c.add(kind, path, string(ref.URI), ref.CID.String())
	}
}

func (c *refCollector) each(kind ReferenceKind, path string, v any) {
	list, _ := v.([]any)
	for i, item := range list {
		c.strong(kind, path+"/"+strconv.Itoa(i), item)
	}
}
