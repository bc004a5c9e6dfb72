package appview_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// Whatever a client sends as a filter or a cursor, the answer is its fault or
// an empty list, in both dialects alike: never ours.
func TestHostileParameters(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		_, chain, _, _ := chainOfThree(t, s)
		c, container := newAuthor("did:web:eve.test").put(t, lexicons.ChatSessionNSID, string(tid(1)), object{"createdAt": written})
		s.apply(c)
		lists := map[string][]string{
			"listObservations":  {"sourceKind", "sourceValue", "method", "device", "model"},
			"listSessions":      {"machine", "harness", "repo", "branch", "model", "status"},
			"listClasses":       {"name"},
			"listConversations": nil,
			"listFindings":      {"code"},
		}
		for list, filters := range lists {
			for _, filter := range filters {
				for _, value := range []string{"a\x00b", "\xff\xfe", "%_'\"\\", "\u202e"} {
					res := s.ask(list, filter, value)
					require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, res.Code, "%s %s=%q: %s", list, filter, value, res.Body)
				}
			}
		}
		for _, position := range []index.Position{{}, {Key: "\x00", URI: "\x00"}, {Key: "nonsense", URI: "at://"}, {Key: "[1]", URI: "x"}, {Key: "-1"}} {
			for list := range lists {
				res := s.ask(list, "cursor", xrpc.EncodeCursor("garden.herbarium."+list, position))
				require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, res.Code, "%s %v: %s", list, position, res.Body)
			}
			res := s.ask("getObservationHistory", "uri", string(chain[0].URI), "cursor", xrpc.EncodeCursor("garden.herbarium.getObservationHistory", position))
			require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, res.Code, "%v: %s", position, res.Body)
			shown := map[string]any{"k": position.Key, "u": position.URI, "n": -5}
			res = s.ask("getConversation", "uri", string(container.URI), "cursor", xrpc.EncodeCursor("garden.herbarium.getConversation", shown))
			require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, res.Code, "%v: %s", position, res.Body)
		}
	})
}
