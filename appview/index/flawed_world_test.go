package index_test

import (
	"context"
	"fmt"
	"maps"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
)

// testContext is the context of a test or of a property.
func testContext(t require.TestingT) context.Context {
	if t, ok := t.(interface{ Context() context.Context }); ok {
		return t.Context()
	}
	return context.Background()
}

// flawedWorld draws records of all types, of two authors over few keys, that
// name each other and of which some lack a field that their lexicon asks for.
type flawedWorld struct {
	authors []*author
	refs    map[syntax.NSID][]lexicons.StrongRef // written at some time
	written map[syntax.ATURI]string              // what stands there, to write nothing twice
}

func newFlawedWorld() *flawedWorld {
	return &flawedWorld{authors: []*author{newAuthor(ada), newAuthor(bob)}, refs: map[syntax.NSID][]lexicons.StrongRef{}, written: map[syntax.ATURI]string{}}
}

var flawedTypes = []syntax.NSID{
	lexicons.ObservationNSID, lexicons.ObservationNSID, lexicons.ObservationNSID, lexicons.SessionNSID, lexicons.ChatSessionNSID,
	lexicons.MessageNSID, lexicons.MessageNSID, lexicons.ClassNSID, lexicons.SkillNSID, noteNSID,
}

// ref draws a record of a type that was written at some time.
func (w *flawedWorld) ref(t *rapid.T, of syntax.NSID) *lexicons.StrongRef {
	refs := w.refs[of]
	if len(refs) == 0 || rapid.IntRange(0, 4).Draw(t, "linked") == 0 {
		return nil
	}
	return &refs[rapid.IntRange(0, len(refs)-1).Draw(t, "target")]
}

// some draws URIs to judge again.
func (w *flawedWorld) some(t *rapid.T) []syntax.ATURI {
	var uris []syntax.ATURI
	for range 2 {
		if ref := w.ref(t, rapid.SampledFrom(flawedTypes).Draw(t, "type")); ref != nil {
			uris = append(uris, ref.URI)
		}
	}
	return uris
}

// events draws one transaction of events.
func (w *flawedWorld) events(t *rapid.T) []index.Event {
	var events []index.Event
	for range rapid.IntRange(1, 3).Draw(t, "events") {
		a := w.authors[rapid.IntRange(0, len(w.authors)-1).Draw(t, "author")]
		of := rapid.SampledFrom(flawedTypes).Draw(t, "type")
		rkey := key(100 + rapid.IntRange(0, 3).Draw(t, "key"))
		uri := a.uri(of, rkey)
		if _, held := a.held[string(of)+"/"+rkey]; held && rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
			events = append(events, a.drop(of, rkey))
			delete(w.written, uri)
			continue
		}
		value := w.value(t, of)
		if is := fmt.Sprint(value); w.written[uri] != is {
			w.written[uri] = is
			c, ref := a.put(t, of, rkey, value)
			w.refs[of] = append(w.refs[of], ref)
			events = append(events, c)
		}
	}
	return events
}

// value draws a record, which may lack the field that a looser lexicon allows
// it to.
func (w *flawedWorld) value(t *rapid.T, of syntax.NSID) map[string]any {
	flawed := rapid.IntRange(0, 1).Draw(t, "flawed") == 0
	var v map[string]any
	missing := ""
	switch of {
	case lexicons.ObservationNSID:
		v, missing = observation(fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "text")), w.ref(t, of)), "method"
	case lexicons.SessionNSID:
		v, missing = session("2026-11-30T10:00:00.000Z", rapid.SampledFrom([]string{"m1", "m2"}).Draw(t, "machine"), "active"), "summary"
	case lexicons.ChatSessionNSID:
		v, missing = map[string]any{"createdAt": "2026-11-30T09:00:00.000Z", "title": rapid.SampledFrom([]string{"one", "two"}).Draw(t, "title")}, "createdAt"
	case lexicons.MessageNSID:
		chat := w.ref(t, lexicons.ChatSessionNSID)
		if chat == nil {
			chat = &lexicons.StrongRef{URI: w.authors[0].uri(lexicons.ChatSessionNSID, key(100))}
		}
		v, missing = message(chat.URI, "user", rapid.SampledFrom([]string{"words", "wor██"}).Draw(t, "text")), "role"
	case lexicons.ClassNSID:
		skills := []any{}
		if s := w.ref(t, lexicons.SkillNSID); s != nil {
			skills = append(skills, strong(*s))
		}
		v, missing = map[string]any{"name": "c", "description": "d", "skills": skills, "createdAt": "2026-11-30T10:00:00.000Z"}, "description"
		if p := w.ref(t, of); p != nil {
			v["parent"] = strong(*p)
		}
	case lexicons.SkillNSID:
		v, missing = map[string]any{"name": "s", "description": "d", "content": rapid.SampledFrom([]string{"c", "d"}).Draw(t, "content"), "createdAt": "2026-11-30"}, "description"
	default:
		v, missing = map[string]any{"text": rapid.SampledFrom([]string{"", "a", "ab", "abc"}).Draw(t, "text")}, "text"
		if o := w.ref(t, lexicons.ObservationNSID); o != nil {
			v["cites"] = map[string]any{"span": "x", "relation": "supports", "target": strong(*o)}
		}
	}
	if flawed {
		v = maps.Clone(v)
		delete(v, missing)
	}
	return v
}
