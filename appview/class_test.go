package appview_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

const written = "2026-11-30T10:00:00.000Z"

func skill(name, content string, tools ...any) object {
	v := object{"name": name, "description": "when to use " + name, "content": content, "createdAt": written}
	if len(tools) > 0 {
		v["tools"] = tools
	}
	return v
}

func tool(name string) object {
	return object{"name": name, "description": "does " + name, "inputSchema": object{"type": "object"}}
}

func class(name string, parent *lexicons.StrongRef, entry string, skills ...lexicons.StrongRef) object {
	list := []any{}
	for _, s := range skills {
		list = append(list, ref(s))
	}
	v := object{"name": name, "description": "a class", "skills": list, "createdAt": written}
	if parent != nil {
		v["parent"] = ref(*parent)
	}
	if entry != "" {
		v["entryTool"] = entry
	}
	return v
}

func TestClassView(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		n := 0
		put := func(collection syntax.NSID, value object) lexicons.StrongRef {
			n++
			c, made := ada.put(t, collection, string(tid(n)), value)
			s.apply(c)
			return made
		}
		example := put(lexicons.ObservationNSID, observation("an example", nil))
		reading := skill("reading", "read first\n", tool("open"))
		reading["examples"] = []any{ref(example)}
		read := put(lexicons.SkillNSID, reading)
		write := put(lexicons.SkillNSID, skill("writing", "write then\n", tool("save"), tool("open")))
		extra := put(lexicons.SkillNSID, skill("extra", "more\n"))
		root := put(lexicons.ClassNSID, class("root", nil, "", read, write))
		middle := put(lexicons.ClassNSID, class("middle", &root, "", extra))
		leaf := put(lexicons.ClassNSID, class("leaf", &middle, "save", write, write))

		view := at(t, s.get("getClass", "uri", string(leaf.URI)), "class")
		names, origins := []any{}, []any{}
		for _, sk := range at(t, view, "skills").([]any) {
			names, origins = append(names, at(t, sk, "name")), append(origins, at(t, sk, "origin"))
		}
		require.Equal(t, []any{"reading", "extra", "writing"}, names, "root first, own last, the nearest of two references")
		require.Equal(t, []any{"inherited", "inherited", "own"}, origins)
		require.Len(t, at(t, view, "skills", 2, "overrides"), 2, "the repeated one and that of the root")
		require.Equal(t, "root", at(t, view, "skills", 0, "from", "name"))
		require.Equal(t, []any{"garden.engram.agents.observation"}, at(t, view, "writes"))
		require.Equal(t, "resolved", at(t, view, "entry", "resolution"))
		require.Equal(t, string(write.URI), at(t, view, "entry", "skill"))
		require.Equal(t, true, at(t, view, "tools", 0, "collides"), "two skills declare open")
		require.Equal(t, "root", at(t, view, "parentsEnd"))
		require.Equal(t, []any{"middle", "root"}, []any{at(t, view, "parents", 0, "name"), at(t, view, "parents", 1, "name")})
		require.NotContains(t, view, "drift")
		require.Equal(t, string(leaf.URI), at(t, s.get("getClass", "uri", string(middle.URI)), "class", "children", 0, "uri"))

		text := ""
		for _, line := range []struct {
			word string
			ref  lexicons.StrongRef
		}{{"class", leaf}, {"parent", middle}, {"parent", root}, {"skill", read}, {"skill", extra}, {"skill", write}} {
			text += fmt.Sprintf("%s %s %s\n", line.word, line.ref.URI, line.ref.CID)
		}
		sum := sha256.Sum256([]byte(text))
		require.Equal(t, hex.EncodeToString(sum[:]), at(t, view, "lock", "digest"), "as the lexicon defines it")
		require.Equal(t, true, at(t, view, "lock", "complete"))

		// A skill moves on: what the class pins stays what it is.
		n--
		c, moved := ada.put(t, lexicons.SkillNSID, string(write.URI.RecordKey()), skill("writing", "write now\n", tool("save")))
		s.apply(c)
		after := at(t, s.get("getClass", "uri", string(leaf.URI)), "class")
		require.Equal(t, at(t, view, "lock"), at(t, after, "lock"), "the lock names what is pinned, which is still held")
		require.Equal(t, "changed", at(t, after, "skills", 2, "ref", "state"))
		require.Equal(t, moved.CID.String(), at(t, after, "skills", 2, "ref", "currentCid"))
		require.Equal(t, true, at(t, after, "skills", 2, "ref", "held"))
		require.EqualValues(t, len("write then\n"), at(t, after, "skills", 2, "contentBytes"), "the pinned version, not the latest")
		require.Contains(t, at(t, after, "drift", 0, "diff", "unified"), "-write then\n+write now\n")

		// It is deleted: the class no longer resolves whole, and says so.
		s.apply(ada.drop(t, lexicons.SkillNSID, string(write.URI.RecordKey())))
		broken := at(t, s.get("getClass", "uri", string(leaf.URI)), "class")
		require.Equal(t, false, at(t, broken, "lock", "complete"))
		require.Equal(t, at(t, view, "lock", "digest"), at(t, broken, "lock", "digest"))
		require.Equal(t, "deleted", at(t, broken, "skills", 2, "ref", "state"))
		require.NotContains(t, at(t, broken, "skills", 2), "name")
		require.Equal(t, "unknown", at(t, broken, "entry", "resolution"), "the missing skill may declare it")
	})
}

func TestClassParentLines(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		put := func(n int, value object) lexicons.StrongRef {
			c, made := ada.put(t, lexicons.ClassNSID, string(tid(n)), value)
			s.apply(c)
			return made
		}
		nowhere := lexicons.StrongRef{URI: "at://did:web:else.test/com.publicdomainrelay.temp.agent.class/" + syntax.ATURI(tid(1)), CID: put(1, class("any", nil, "")).CID}
		lost := put(2, class("lost", &nowhere, ""))
		view := at(t, s.get("getClass", "uri", string(lost.URI)), "class")
		require.Equal(t, "unresolved", at(t, view, "parentsEnd"))
		require.Equal(t, "not-indexed", at(t, view, "parents", 0, "state"))
		require.Equal(t, false, at(t, view, "lock", "complete"))

		a := put(3, class("a", nil, ""))
		b := put(4, class("b", &a, ""))
		put(3, class("a", &b, ""))
		view = at(t, s.get("getClass", "uri", string(b.URI)), "class")
		require.Equal(t, "root", at(t, view, "parentsEnd"), "the pinned version of a has no parent")
		require.Equal(t, "parent", at(t, view, "drift", 0, "role"))
		view = at(t, s.get("getClass", "uri", string(a.URI)), "class")
		require.Equal(t, "cycle", at(t, view, "parentsEnd"))

		list := s.get("listClasses", "name", "b")
		require.Equal(t, string(b.URI), at(t, list, "classes", 0, "uri"))
		require.Equal(t, string(a.URI), at(t, list, "classes", 0, "parent"))
		again := put(9, class("b", nil, ""))
		versions := at(t, s.get("getClass", "uri", string(b.URI)), "class", "versions").([]any)
		require.Len(t, versions, 2)
		require.Equal(t, string(again.URI), at(t, versions, 0, "uri"), "the same name under another key is the same line")
		require.Equal(t, true, at(t, versions, 0, "current"), "the newest key is what the name means")
		require.NotContains(t, at(t, versions, 1), "current")
	})
}
