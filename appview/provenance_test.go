package appview_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// graph is the nodes and edges of an answer, each as a line, with names for URIs.
func (s *site) graph(names map[string]string, params ...string) (nodes, edges []string) {
	s.t.Helper()
	t := s.t.(*testing.T)
	answer := s.get("getProvenance", params...)
	name := func(id any) string {
		if n, ok := names[id.(string)]; ok {
			return n
		}
		return id.(string)
	}
	ids := map[any]bool{}
	for _, n := range answer["nodes"].([]any) {
		ids[at(t, n, "id")] = true
		nodes = append(nodes, fmt.Sprint(at(t, n, "depth"), " ", at(t, n, "kind"), " ", name(at(t, n, "id"))))
	}
	for _, e := range answer["edges"].([]any) {
		require.True(t, ids[at(t, e, "from")] && ids[at(t, e, "to")], "an edge between nodes: %v", e)
		edges = append(edges, name(at(t, e, "from"))+" "+at(t, e, "kind").(string)+" "+name(at(t, e, "to")))
	}
	slices.Sort(nodes)
	slices.Sort(edges)
	return nodes, edges
}

func TestProvenanceGraph(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db, lexicons.ObservationNSID)
		ada, bob := newAuthor("did:web:ada.test"), newAuthor("did:web:bob.test")
		s.team[ada.did], s.team[bob.did] = "https://host.test", "https://host.test"
		put := func(a *author, of syntax.NSID, n int, value object) lexicons.StrongRef {
			c, made := a.put(t, of, string(tid(n)), value)
			s.apply(c)
			return made
		}
		run := string(tid(1))
		seen := func(text string, supersedes *lexicons.StrongRef) object {
			value := observation(text, object{"source": object{"kind": "file", "value": "/etc/hosts"}, "generator": object{"run": run}})
			if supersedes != nil {
				value["supersedes"] = ref(*supersedes)
			}
			return value
		}
		claim := func(text string, of lexicons.StrongRef) object {
			return object{"text": text, "createdAt": written, "generator": object{"run": run}, "citations": []any{object{
				"span": object{"byteStart": 0, "byteEnd": len(text)}, "relation": "restates", "target": ref(of),
			}}}
		}
		first := put(ada, lexicons.ObservationNSID, 10, seen("one", nil))
		second := put(ada, lexicons.ObservationNSID, 11, seen("two", &first))
		said := put(bob, lexicons.ClaimNSID, 12, claim("it says one", first))
		chat := put(bob, lexicons.ChatSessionNSID, 13, object{"createdAt": written, "title": "Talk"})
		turned := put(bob, lexicons.MessageNSID, 14, turn(chat, "assistant", "so I claim", object{"refs": []any{ref(said)}}))
		hidden := put(bob, lexicons.MessageNSID, 15, turn(chat, "assistant", "", object{"withheld": true, "refs": []any{ref(first)}}))
		names := map[string]string{
			string(first.URI): "first", string(second.URI): "second", string(said.URI): "said", string(chat.URI): "chat", string(turned.URI): "turned",
			string(hidden.URI): "hidden", "source:file /etc/hosts": "hosts", "run:" + run: "run", string(ada.did): "ada",
		}
		nodes, edges := s.graph(names, "uri", string(first.URI))
		require.Equal(t, []string{
			"0 observation first", "1 agent ada", "1 claim said", "1 observation second", "1 run run", "1 source hosts", "2 message turned",
		}, nodes)
		require.Equal(t, []string{
			"first by ada", "first run run", "first source hosts", "said cites first",
			"second by ada", "second run run", "second source hosts", "second supersedes first", "turned refs said",
		}, edges)

		nodes, edges = s.graph(names, "uri", string(turned.URI), "direction", "restsOn")
		require.Equal(t, []string{"0 message turned", "1 claim said", "1 conversation chat", "2 observation first", "3 agent ada", "3 run run", "3 source hosts"}, nodes)
		require.Contains(t, edges, "turned session chat")
		nodes, _ = s.graph(names, "uri", string(turned.URI), "direction", "restsOn", "depth", "1")
		require.Equal(t, []string{"0 message turned", "1 claim said", "1 conversation chat"}, nodes)
		nodes, _ = s.graph(names, "uri", string(second.URI), "direction", "resting")
		require.Equal(t, []string{"0 observation second", "1 agent ada", "1 run run", "1 source hosts"}, nodes)

		answer := s.get("getProvenance", "uri", string(first.URI), "limit", "2")
		require.Equal(t, true, answer["truncated"])
		for _, n := range answer["nodes"].([]any) {
			if at(t, n, "kind") == "message" {
				require.NotContains(t, n, "label", "words of a turn may be taken away")
			}
		}
		s.apply(ada.drop(t, lexicons.ObservationNSID, string(first.URI.RecordKey())))
		gone := at(t, s.get("getProvenance", "uri", string(said.URI), "direction", "restsOn"), "nodes", 1)
		require.Equal(t, "deleted", at(t, gone, "state"))
		require.NotContains(t, gone, "label")

		s.viewer = xrpc.Viewer{} // to whom observations alone are published
		nodes, edges = s.graph(names, "uri", string(second.URI))
		require.Equal(t, []string{"0 observation second", "1 agent ada", "1 observation first", "1 run run", "1 source hosts"}, nodes)
		require.NotContains(t, edges, "said cites first")
		name, _ := s.refuse("getProvenance", "uri", string(said.URI))
		require.Equal(t, "RecordNotFound", name)
	})
}

// A graph costs a number of queries by its levels, and ends at its bounds, whatever
// refers to what: circles too.
func TestProvenanceIsBounded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		c, hub := ada.put(t, lexicons.ObservationNSID, string(tid(1)), observation("hub", nil))
		s.apply(c)
		for n := range 60 {
			c, _ := ada.put(t, lexicons.SkillNSID, string(tid(100+n)), object{"name": "s", "description": "d", "content": "c", "createdAt": written, "examples": []any{ref(hub)}})
			s.apply(c)
		}
		answer := s.get("getProvenance", "uri", string(hub.URI), "limit", "20")
		require.Equal(t, true, answer["truncated"])
		records := 0
		for _, n := range answer["nodes"].([]any) {
			if _, ok := n.(object)["uri"]; ok {
				records++
			}
		}
		require.Equal(t, 20, records)
		require.NotContains(t, s.get("getProvenance", "uri", string(hub.URI)), "truncated")
		name, _ := s.refuse("getProvenance", "uri", string(hub.URI), "limit", "501")
		require.Equal(t, "InvalidRequest", name)
	})
}
