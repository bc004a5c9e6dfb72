package lexicons_test

import (
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

var midnight = time.Date(2026, 2, 24, 0, 0, 0, 0, time.UTC)

func TestReadObservation(t *testing.T) {
	value := record(t, lexicons.ObservationNSID, edit(observation, map[string]any{
		"content":    blobValue("image/png", 3),
		"supersedes": strongRef(observationURI(tid2)),
		"generator":  map[string]any{"run": tid1, "device": "d", "harness": "h", "harnessVersion": "1", "model": "m", "transcript": strongRef("at://" + string(author) + "/com.example.t/1")},
		"unknown":    "kept",
	})).Value
	o := lexicons.ReadObservation(value)
	require.Equal(t, lexicons.Source{Kind: "command", Value: "uname -a"}, o.Source)
	require.True(t, o.ObservedAt.Equal(midnight))
	require.Equal(t, time.Second, o.CreatedAt.Sub(o.ObservedAt))
	require.Equal(t, "shell", o.Method)
	require.Equal(t, "Linux", o.Text)
	require.Equal(t, blobCID, o.Content.CID.String())
	require.Equal(t, int64(3), o.Content.Size)
	require.Equal(t, syntax.ATURI(observationURI(tid2)), o.Supersedes.URI)
	require.Equal(t, syntax.TID(tid1), o.Generator.Run)
	require.Equal(t, "d h 1 m", o.Generator.Device+" "+o.Generator.Harness+" "+o.Generator.HarnessVersion+" "+o.Generator.Model)
	require.NotNil(t, o.Generator.Transcript)
	require.Equal(t, "kept", value["unknown"], "reading drops nothing")
}

// Foreign records may have anything anywhere: a reader answers zero values.
func TestReadersAreTolerant(t *testing.T) {
	odd := []any{nil, int64(7), "x", []any{int64(1), nil}, map[string]any{"a": nil}, true}
	fields := []string{"source", "method", "observedAt", "text", "generator", "createdAt", "content", "supersedes", "title", "steps", "refs",
		"mentions", "withheld", "session", "skills", "parent", "tools", "property_references", "examples", "citations", "basis", "updatedAt", "discussion"}
	for _, v := range odd {
		value := map[string]any{}
		for _, f := range fields {
			value[f] = v
		}
		require.NotPanics(t, func() {
			lexicons.ReadObservation(value)
			lexicons.ReadSession(value)
			lexicons.ReadChatSession(value)
			lexicons.ReadMessage(value)
			lexicons.ReadClass(value)
			lexicons.ReadSkill(value)
			lexicons.ReadClaim(value)
			lexicons.FindCitations(value)
			lexicons.CompareMessages(value, map[string]any{})
			lexicons.CompareMessages(map[string]any{}, value)
		})
		// The rules as well: the dry run tells them of records that failed their lexicon.
		for nsid := range samples {
			copied := edit(value, map[string]any{"$type": string(nsid)})
			rec, err := lexicons.ParseValue(nsid, copied)
			require.NoError(t, err)
			ch := change(t, nsid, tid1, samples[nsid])
			ch.Record = rec
			require.NotPanics(t, func() { lexicons.NewRules(catalog(t), lexicons.Settings{}).CheckRecord(ch) })
		}
	}
	require.Equal(t, lexicons.Observation{}, lexicons.ReadObservation(nil))
}

func TestReadMessage(t *testing.T) {
	m := lexicons.ReadMessage(record(t, lexicons.MessageNSID, edit(message, map[string]any{
		"refs": []any{strongRef(observationURI(tid1)), map[string]any{"uri": "x"}}, "mentions": []any{string(other), "a.test"}, "withheld": true,
	})).Value)
	require.Equal(t, []lexicons.Step{{Tool: "open-drawer", Summary: "drawer four"}, {Tool: "look", Failed: true}}, m.Steps)
	require.Len(t, m.Refs, 1)
	require.Equal(t, []syntax.DID{other}, m.Mentions)
	require.True(t, m.Withheld)
	uri, ok := m.Conversation(author)
	require.True(t, ok)
	require.Equal(t, uriOf(lexicons.ChatSessionNSID, tid1), uri)
	_, ok = m.Conversation(other)
	require.False(t, ok, "anybody could inject a turn into another's conversation")
}

func TestReadSkill(t *testing.T) {
	s := lexicons.ReadSkill(record(t, lexicons.SkillNSID, edit(skill, map[string]any{
		"property_references": []any{
			map[string]any{"path": ".a", "ref": strongRef(skillURI(tid2))},
			edit(strongRef(skillURI(tid2)), map[string]any{"path": ".b"}),
			map[string]any{"path": ".c", "string": "literal"},
		},
	})).Value)
	require.Equal(t, "sort-seeds", s.Tools[0].Name)
	require.NotNil(t, s.Tools[0].InputSchema)
	require.NotNil(t, s.PropertyReferences[0].Ref)
	require.NotNil(t, s.PropertyReferences[1].Ref, "inline, as the public writer emits it")
	require.Equal(t, "literal", s.PropertyReferences[2].Literal)
}

func TestFindCitations(t *testing.T) {
	rec := record(t, "com.example.essay", map[string]any{
		"text":  "abc",
		"parts": []any{map[string]any{"deep": citation(0, 3)}, map[string]any{"span": span(0, 1), "kind": "opinion"}},
	})
	found := lexicons.FindCitations(rec.Value)
	require.Len(t, found, 1)
	require.Equal(t, "/parts/0/deep", found[0].Path)
	require.Equal(t, lexicons.Span{Start: 0, End: 3}, found[0].Span)
	require.Equal(t, "restates", found[0].Relation)
}

func TestParseRecordURI(t *testing.T) {
	for uri, ok := range map[string]bool{
		"at://did:web:a.test/com.example.a/1":   true,
		"at://a.test/com.example.a/1":           false,
		"at://did:web:a.test/com.example.a":     false,
		"at://did:web:a.test":                   false,
		"https://a.test/com.example.a/1":        false,
		"":                                      false,
		"at://did:web:a.test/com.example.a/1/2": false,
		"at://did:web:a.test/com.example.a/1#x": false,
		"at://did:web:a.test/com.example.a/1?x": false,
	} {
		_, err := lexicons.ParseRecordURI(uri)
		require.Equal(t, ok, err == nil, uri)
	}
}
