package appview_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

func TestAgentView(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		_, o, _, _ := chainOfThree(t, s)
		agent := at(t, s.get("getAgent", "actor", "ada.test"), "agent")
		require.Equal(t, "synced", at(t, agent, "state"))
		require.Equal(t, []any{object{"collection": "garden.engram.agents.observation", "records": 3.0}}, at(t, agent, "records"))
		require.Equal(t, []any{object{"name": "lab-1", "observations": 3.0}}, at(t, agent, "devices"))
		require.Equal(t, []any{object{"name": "m-1", "observations": 3.0}}, at(t, agent, "models"))
		require.Equal(t, []any{object{"name": "pi", "observations": 3.0}}, at(t, agent, "harnesses"))
		require.Equal(t, []any{object{"run": string(tid(1)), "startedAt": "2026-11-30T10:00:01.000Z", "observations": 3.0}}, at(t, agent, "runs"))

		list := at(t, s.get("listAgents", "state", "synced"), "agents").([]any)
		require.Len(t, list, 2)
		require.Equal(t, "did:web:bob.test", at(t, list, 1, "author", "did"))
		require.Empty(t, at(t, s.get("listAgents", "state", "desynchronized"), "agents"))

		s.apply(&index.Account{DID: "did:web:ada.test", Status: "takendown"})
		agent = at(t, s.get("getAgent", "actor", "did:web:ada.test"), "agent")
		require.Equal(t, "takendown", at(t, agent, "status"))
		require.Empty(t, at(t, agent, "records"))
		require.NotContains(t, agent, "runs")
		_, codes := s.refuse("getObservation", "uri", string(o[0].URI))
		require.Equal(t, []string{"repo-inactive"}, codes)
		name, codes := s.refuse("getAgent", "actor", "did:web:nobody.test")
		require.Equal(t, "RecordNotFound", name)
		require.Equal(t, []string{"not-indexed"}, codes)
	})
}
