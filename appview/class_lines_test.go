package appview_test

import (
	"fmt"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// bench writes classes and skills of one author.
type bench struct {
	t  *testing.T
	s  *site
	by *author
}

func (b bench) put(collection syntax.NSID, n int, value object) lexicons.StrongRef {
	b.t.Helper()
	c, made := b.by.put(b.t, collection, string(tid(n)), value)
	b.s.apply(c)
	return made
}

func (b bench) class(r lexicons.StrongRef) any {
	b.t.Helper()
	return at(b.t, b.s.get("getClass", "uri", string(r.URI)), "class")
}

func names(t *testing.T, view any, list string) []any {
	t.Helper()
	items, _ := view.(object)[list].([]any)
	out := []any{}
	for _, item := range items {
		out = append(out, item.(object)["name"])
	}
	return out
}

func (b bench) codes(r lexicons.StrongRef) []string {
	b.t.Helper()
	var out []string
	for _, f := range b.s.get("listFindings", "uri", string(r.URI))["findings"].([]any) {
		out = append(out, f.(object)["code"].(string))
	}
	return out
}

func eachBench(t *testing.T, fn func(t *testing.T, b bench)) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		fn(t, bench{t: t, s: newSite(t, db), by: newAuthor("did:web:ada.test")})
	})
}

// A skill that several classes of a line name counts once, in the version that
// the nearest pins and at its place, however often each of them repeats it.
func TestClassDiamondAndDuplicateSkills(t *testing.T) {
	eachBench(t, func(t *testing.T, b bench) {
		shared := b.put(lexicons.SkillNSID, 1, skill("shared", "first version"))
		other := b.put(lexicons.SkillNSID, 2, skill("other", "o"))
		root := b.put(lexicons.ClassNSID, 3, class("root", nil, "", shared, other))
		newer := b.put(lexicons.SkillNSID, 1, skill("shared", "second version, longer"))
		middle := b.put(lexicons.ClassNSID, 4, class("middle", &root, "", shared))
		leaf := b.put(lexicons.ClassNSID, 5, class("leaf", &middle, "", newer, shared, newer))
		view := b.class(leaf)
		require.Equal(t, []any{"other", "shared"}, names(t, view, "skills"))
		nearest := at(t, view, "skills", 1)
		require.Equal(t, newer.CID.String(), at(t, nearest, "ref", "cid"))
		require.Equal(t, "own", at(t, nearest, "origin"))
		require.EqualValues(t, len("second version, longer"), at(t, nearest, "contentBytes"))
		require.Len(t, at(t, nearest, "overrides"), 4, "twice more here, once in the middle, once in the root")
		require.Contains(t, b.codes(leaf), lexicons.CodeSkillDuplicate)
		require.Contains(t, b.codes(middle), lexicons.CodeRefDrift)
	})
}

// What the middle of a line was when it was pinned is what counts, all the way
// up, though nothing that is there now leads to it.
func TestClassThreeLevelsWithStaleMiddle(t *testing.T) {
	eachBench(t, func(t *testing.T, b bench) {
		old := b.put(lexicons.SkillNSID, 1, skill("old", "o"))
		fresh := b.put(lexicons.SkillNSID, 2, skill("fresh", "f"))
		origin := b.put(lexicons.ClassNSID, 3, class("origin", nil, "", old))
		root := b.put(lexicons.ClassNSID, 4, class("root", &origin, ""))
		middle := b.put(lexicons.ClassNSID, 5, class("middle", &root, ""))
		leaf := b.put(lexicons.ClassNSID, 6, class("leaf", &middle, ""))
		b.put(lexicons.ClassNSID, 4, class("root", nil, ""))
		now := b.put(lexicons.ClassNSID, 5, class("middle", nil, "", fresh))
		view := b.class(leaf)
		require.Equal(t, []any{"old"}, names(t, view, "skills"))
		require.Equal(t, "root", at(t, view, "parentsEnd"))
		require.Len(t, at(t, view, "parents"), 3)
		require.Equal(t, true, at(t, view, "lock", "complete"))
		drift := at(t, view, "drift").([]any)
		require.Len(t, drift, 2)
		require.Equal(t, middle.CID.String(), at(t, drift, 0, "ref", "cid"), "both CIDs are told")
		require.Equal(t, now.CID.String(), at(t, drift, 0, "ref", "currentCid"))
		require.Equal(t, true, at(t, drift, 0, "ref", "held"))
		require.Contains(t, b.codes(leaf), lexicons.CodeRefDrift)
		require.Equal(t, []any{"fresh"}, names(t, b.class(now), "skills"))
	})
}

func TestClassSelfParent(t *testing.T) {
	eachBench(t, func(t *testing.T, b bench) {
		own := b.put(lexicons.SkillNSID, 1, skill("own", "o"))
		self := lexicons.StrongRef{URI: "at://did:web:ada.test/com.publicdomainrelay.temp.agent.class/" + syntax.ATURI(tid(2)), CID: neverMade}
		made := b.put(lexicons.ClassNSID, 2, class("self", &self, "", own))
		view := b.class(made)
		require.Equal(t, "cycle", at(t, view, "parentsEnd"))
		require.Equal(t, []any{"own"}, names(t, view, "skills"), "its own skills are shown all the same")
		require.NotContains(t, view, "parents")
		require.Equal(t, false, at(t, view, "lock", "complete"))
		require.Contains(t, b.codes(made), lexicons.CodeParentSelf)
	})
}

// What stands where a skill or the parent should and is no reference is listed,
// and nobody takes the rest for the whole.
func TestClassWithMalformedReferences(t *testing.T) {
	eachBench(t, func(t *testing.T, b bench) {
		own := b.put(lexicons.SkillNSID, 1, skill("own", "o", tool("open")))
		value := class("c", nil, "close", own)
		byHandle := func(collection syntax.NSID) object {
			return object{"uri": fmt.Sprintf("at://ada.test/%s/%s", collection, tid(7)), "cid": own.CID.String()}
		}
		value["skills"] = append(value["skills"].([]any), byHandle(lexicons.SkillNSID))
		value["parent"] = byHandle(lexicons.ClassNSID)
		made := b.put(lexicons.ClassNSID, 2, value)
		view := b.class(made)
		require.Len(t, at(t, view, "skills"), 2)
		require.Equal(t, "malformed", at(t, view, "skills", 1, "ref", "state"))
		require.Equal(t, "unresolved", at(t, view, "parentsEnd"))
		require.Equal(t, "malformed", at(t, view, "parents", 0, "state"))
		require.Equal(t, false, at(t, view, "lock", "complete"))
		require.Equal(t, "unknown", at(t, view, "entry", "resolution"))
		require.Contains(t, b.codes(made), lexicons.CodeRefMalformed)
		child := b.class(b.put(lexicons.ClassNSID, 3, class("child", &made, "")))
		require.Equal(t, "inherited", at(t, child, "skills", 1, "origin"))
		require.Equal(t, "unresolved", at(t, child, "parentsEnd"))
	})
}

func TestClassCycleByEdit(t *testing.T) {
	eachBench(t, func(t *testing.T, b bench) {
		up := b.put(lexicons.SkillNSID, 1, skill("up", "u"))
		down := b.put(lexicons.SkillNSID, 2, skill("down", "d"))
		root := b.put(lexicons.ClassNSID, 3, class("root", nil, "", up))
		leaf := b.put(lexicons.ClassNSID, 4, class("leaf", &root, "", down))
		edited := b.put(lexicons.ClassNSID, 3, class("root", &leaf, "", up))
		view := b.class(edited)
		require.Equal(t, "cycle", at(t, view, "parentsEnd"))
		require.Equal(t, []any{"down", "up"}, names(t, view, "skills"), "it stops at the first repeat")
		require.Equal(t, false, at(t, view, "lock", "complete"))
		require.Contains(t, b.codes(edited), lexicons.CodeParentCycle)
		require.Contains(t, b.codes(leaf), lexicons.CodeParentCycle)
		require.Equal(t, "root", at(t, b.class(leaf), "parentsEnd"), "what the leaf pins had no parent")
	})
}

func TestClassLineOfThirtyTwo(t *testing.T) {
	eachBench(t, func(t *testing.T, b bench) {
		var last *lexicons.StrongRef
		for n := range 34 {
			s := b.put(lexicons.SkillNSID, 100+n, skill(fmt.Sprint("skill ", n), "c"))
			c := b.put(lexicons.ClassNSID, 200+n, class(fmt.Sprint("class ", n), last, "", s))
			last = &c
			view := b.class(c)
			require.Len(t, at(t, view, "skills"), min(n, 32)+1)
			want := "root"
			if n > 32 {
				want = "too-deep"
			}
			require.Equal(t, want, at(t, view, "parentsEnd"), n)
		}
		require.Contains(t, b.codes(*last), lexicons.CodeParentTooDeep)
	})
}

func TestSkillWithoutContent(t *testing.T) {
	eachBench(t, func(t *testing.T, b bench) {
		bare := skill("bare", "")
		delete(bare, "content")
		bare["createdAt"] = "yesterday"
		made := b.put(lexicons.SkillNSID, 1, bare)
		view := b.class(b.put(lexicons.ClassNSID, 2, class("c", nil, "", made)))
		require.Equal(t, true, at(t, view, "skills", 0, "legacy"))
		require.Equal(t, "bare", at(t, view, "skills", 0, "name"))
		require.Equal(t, "current", at(t, view, "skills", 0, "ref", "state"), "kept with a finding, not quarantined")
		require.Equal(t, true, at(t, view, "lock", "complete"))
		require.Contains(t, b.codes(made), lexicons.CodeInvalidRecord)
		require.Contains(t, b.codes(made), lexicons.CodeCreatedUnparsed)
	})
}

// The published schema of skills has no tools; public skills do, and a runner
// needs them whole.
func TestUndeclaredToolsAreKept(t *testing.T) {
	eachBench(t, func(t *testing.T, b bench) {
		open := tool("open")
		open["inputSchema"] = object{"type": "object", "properties": object{"path": object{"type": "string"}}, "x-future": true}
		open["spawnsSubAgent"] = true
		unsafe := tool("../../etc")
		first := b.put(lexicons.SkillNSID, 1, skill("first", "c", open, unsafe))
		second := b.put(lexicons.SkillNSID, 2, skill("second", "c", tool("open")))
		c := b.put(lexicons.ClassNSID, 3, class("c", nil, "open", first, second))
		view := b.class(c)
		require.Equal(t, []any{"open", "../../etc", "open"}, names(t, view, "tools"))
		require.Equal(t, open["inputSchema"], at(t, view, "tools", 0, "inputSchema"))
		require.Equal(t, true, at(t, view, "tools", 0, "spawnsSubAgent"))
		require.Equal(t, []any{true, false, true}, []any{at(t, view, "tools", 0, "safe"), at(t, view, "tools", 1, "safe"), at(t, view, "tools", 2, "safe")})
		require.Equal(t, true, at(t, view, "tools", 0, "collides"))
		require.Equal(t, string(second.URI), at(t, view, "entry", "skill"), "of two the later one is what a runner is left with")
		require.Contains(t, b.codes(c), lexicons.CodeToolCollision)
		require.Contains(t, b.codes(first), lexicons.CodeToolNameUnsafe)
		require.Equal(t, open, at(t, b.s.get("getRecord", "uri", string(first.URI)), "value", "tools", 0), "to the letter")

		lost := b.class(b.put(lexicons.ClassNSID, 4, class("d", nil, "close", first)))
		require.Equal(t, "unresolved", at(t, lost, "entry", "resolution"))
		silent := b.put(lexicons.SkillNSID, 5, skill("silent", "c"))
		require.Equal(t, "unknown", at(t, b.class(b.put(lexicons.ClassNSID, 6, class("e", nil, "close", silent))), "entry", "resolution"))
	})
}

// A publisher that deletes everything and writes it anew leaves references that
// lead nowhere, and one line of each name.
func TestClassLineageAcrossRepublishing(t *testing.T) {
	eachBench(t, func(t *testing.T, b bench) {
		publish := func(from int) (lexicons.StrongRef, lexicons.StrongRef) {
			s := b.put(lexicons.SkillNSID, from, skill("reading", fmt.Sprint("edition ", from)))
			return s, b.put(lexicons.ClassNSID, from+1, class("reader", nil, "", s))
		}
		oldSkill, old := publish(1)
		child := b.put(lexicons.ClassNSID, 3, class("child", &old, ""))
		newSkill, fresh := publish(10)
		versions := at(t, b.class(fresh), "versions").([]any)
		require.Len(t, versions, 2, "while both are there")
		require.Equal(t, []any{string(fresh.URI), string(old.URI)}, []any{at(t, versions, 0, "uri"), at(t, versions, 1, "uri")})
		require.Equal(t, versions, at(t, b.class(old), "versions"), "one line, whichever is asked for")
		require.Equal(t, true, at(t, versions, 0, "current"))
		require.NotContains(t, at(t, versions, 1), "current")
		require.Contains(t, b.codes(oldSkill), "name-reused")

		b.s.apply(b.by.drop(t, lexicons.SkillNSID, string(oldSkill.URI.RecordKey())), b.by.drop(t, lexicons.ClassNSID, string(old.URI.RecordKey())))
		require.Len(t, at(t, b.class(fresh), "versions"), 1, "of what was deleted nothing is kept, its name included")
		require.Equal(t, "deleted", at(t, b.class(old), "state"))
		dangling := b.class(child)
		require.Equal(t, "unresolved", at(t, dangling, "parentsEnd"))
		require.Equal(t, "deleted", at(t, dangling, "parents", 0, "state"))
		require.Contains(t, b.codes(child), lexicons.CodeRefMissing)
		require.NotContains(t, b.codes(newSkill), "name-reused")
		require.Equal(t, string(fresh.URI), at(t, b.s.get("listClasses", "author", "did:web:ada.test", "name", "reader"), "classes", 0, "uri"), "by its name it is found")
	})
}

// Examples are followed three steps and to 64 records, around any circle.
func TestExamplesAreFollowedSoFar(t *testing.T) {
	eachBench(t, func(t *testing.T, b bench) {
		const note = "org.example.note"
		fifth := b.put(note, 1, object{"text": "5"})
		fourth := b.put(note, 2, object{"text": "4", "next": ref(fifth)})
		third := b.put(note, 3, object{"text": "3", "next": ref(fourth)})
		second := b.put(note, 4, object{"text": "2", "next": ref(third), "back": object{"uri": "at://did:web:ada.test/org.example.note/" + string(tid(5)), "cid": neverMade.String()}})
		first := b.put(note, 5, object{"text": "1", "next": ref(second)})
		taught := skill("taught", "c")
		taught["examples"] = []any{ref(first), ref(first)}
		view := b.class(b.put(lexicons.ClassNSID, 6, class("c", nil, "", b.put(lexicons.SkillNSID, 7, taught))))
		examples := at(t, view, "examples").([]any)
		require.Len(t, examples, 3)
		for i, want := range []lexicons.StrongRef{first, second, third} {
			require.Equal(t, string(want.URI), at(t, examples, i, "ref", "uri"))
			require.EqualValues(t, i+1, at(t, examples, i, "hop"))
		}
		require.Equal(t, string(second.URI), at(t, examples, 2, "from"))
		require.Equal(t, true, at(t, view, "examplesCapped"))
		require.Equal(t, []any{note}, at(t, view, "writes"), "what a runner reads is what the skill names itself")

		many := []any{}
		for n := range 80 {
			many = append(many, ref(b.put(note, 100+n, object{"text": fmt.Sprint(n)})))
		}
		taught["examples"] = many
		view = b.class(b.put(lexicons.ClassNSID, 8, class("d", nil, "", b.put(lexicons.SkillNSID, 9, taught))))
		require.Len(t, at(t, view, "examples"), 64)
		require.Equal(t, true, at(t, view, "examplesCapped"))
		require.NotContains(t, b.class(b.put(lexicons.ClassNSID, 10, class("e", nil, "", b.put(lexicons.SkillNSID, 11, skill("s", "c"))))), "examples")
	})
}

// The vector by which a runner can test its own: the text in testdata, whose
// digest sha256sum tells too.
func TestResolutionLockVector(t *testing.T) {
	eachBench(t, func(t *testing.T, b bench) {
		base := b.put(lexicons.SkillNSID, 1, skill("base", "b"))
		extra := b.put(lexicons.SkillNSID, 2, skill("extra", "e"))
		root := b.put(lexicons.ClassNSID, 3, class("root", nil, "", base))
		middle := b.put(lexicons.ClassNSID, 4, class("middle", &root, ""))
		leaf := b.put(lexicons.ClassNSID, 5, class("leaf", &middle, "", extra))
		lock := at(t, b.class(leaf), "lock")
		require.Equal(t, "a22d50a6e6d805cbfd51120acd0858971175a3889b3c207f309d7745a1876d27", at(t, lock, "digest"), "as sha256sum has it of the text")
		require.Equal(t, true, at(t, lock, "complete"))
		said := fmt.Sprintf("class %s %s\n", at(t, lock, "class", "uri"), at(t, lock, "class", "cid"))
		for _, list := range []string{"parents", "skills"} {
			for _, r := range at(t, lock, list).([]any) {
				said += fmt.Sprintf("%s %s %s\n", list[:len(list)-1], at(t, r, "uri"), at(t, r, "cid"))
			}
		}
		golden(t, "resolution_lock.txt", said)
	})
}
