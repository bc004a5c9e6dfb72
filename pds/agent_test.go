package pds_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
)

const (
	agentClass    = "com.publicdomainrelay.temp.agent.class"
	elsewhereURI  = "at://did:web:maker.example.org/" + agentClass + "/3mmzzzzzzzz2a"
	someRecordCID = "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a" // of {"a":"b"}, atproto's data model fixtures
)

func adminAgent(method string) string { return "garden.herbarium.admin." + method }

// openSession signs in with a password.
func (h *host) openSession(t *testing.T, handle, password string) reply {
	t.Helper()
	return h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": handle, "password": password})
}

func TestAgentLifecycle(t *testing.T) {
	clock := newClock()
	eachHost(t, setting{clock: clock}, func(t *testing.T, h *host) {
		expires := clock.Now().Add(time.Hour)
		made := h.procedure(t, admin(), adminAgent("createAgent"), object{
			"handle": "ada.test", "displayName": "Ada", "owner": "maps",
			"class": object{"uri": elsewhereURI, "cid": someRecordCID}, "expiresAt": migrations.FormatTime(expires),
			"policy":     object{"collections": []string{observation}, "maxRecords": 10},
			"credential": object{"name": "main", "scope": "repo:" + observation + "?action=create"},
		}).ok(t)
		did, password := made.str("agent", "did"), made.str("credential", "password")
		require.Equal(t, "did:web:ada.test", did)
		require.Equal(t, "elsewhere", made.str("agent", "classState"))
		got := h.query(t, admin(), adminAgent("getAgent"), "agent", "ada.test").ok(t)
		require.Equal(t, made.at("agent"), map[string]any(got))
		require.Equal(t, []any{observation}, got.list("policy", "collections"))

		opened := h.openSession(t, "ada.test", password).ok(t)
		ada := agent{did: did, handle: "ada.test", access: "Bearer " + opened.str("accessJwt")}
		h.create(t, ada, observation, observed("seen")).ok(t)
		h.create(t, ada, note, object{"text": "no"}).refused(t, 403, "Forbidden")

		// Past the expiry the agent is out, and then the world is told.
		before := h.lastSeq(t)
		clock.advance(time.Hour)
		h.create(t, ada, observation, observed("too late")).refused(t, 401, "AccountDeactivated")
		h.openSession(t, "ada.test", password).refused(t, 401, "AccountDeactivated")
		require.Equal(t, before, h.lastSeq(t))
		require.NoError(t, h.pds.ExpireAgents(t.Context()))
		require.NoError(t, h.pds.ExpireAgents(t.Context()))
		require.Equal(t, before+1, h.lastSeq(t), "one #account")
		got = h.query(t, admin(), adminAgent("getAgent"), "agent", did).ok(t)
		require.Equal(t, "expired", got.str("status"))
		require.Equal(t, "deactivated", h.query(t, admin(), "com.atproto.sync.getRepoStatus", "did", did).ok(t).str("status"))

		got = h.procedure(t, admin(), adminAgent("updateAgent"), object{"did": did, "owner": "", "clear": []string{"expiresAt", "class"}}).ok(t)
		require.Equal(t, true, got["active"])
		require.Empty(t, got.str("owner"))
		require.Nil(t, got["class"])
		require.Equal(t, "Ada", got.str("displayName"))
		require.Equal(t, before+4, h.lastSeq(t), "#account, #identity and #sync")
		opened = h.openSession(t, "ada.test", password).ok(t)
		ada.access = "Bearer " + opened.str("accessJwt")
		h.create(t, ada, observation, observed("again")).ok(t)

		require.Equal(t, "disabled", h.procedure(t, admin(), adminAgent("disableAgent"), object{"did": did}).ok(t).str("status"))
		h.query(t, ada.access, "com.atproto.server.getSession").refused(t, 401, "AccountDeactivated")
		h.procedure(t, admin(), adminAgent("enableAgent"), object{"did": did}).ok(t)
		h.openSession(t, "ada.test", password).ok(t)

		h.procedure(t, admin(), adminAgent("deleteAgent"), object{"did": did}).ok(t)
		h.query(t, admin(), adminAgent("getAgent"), "agent", "ada.test").refused(t, 400, "NotFound")
		h.procedure(t, admin(), adminAgent("createAgent"), object{"handle": "ada.test"}).refused(t, 400, "InvalidRequest")
		h.procedure(t, admin(), adminAgent("deleteAgent"), object{"did": h.agent(t, "person").did}).refused(t, 400, "NotFound")
	})
}

func TestListAgentsPages(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		for _, name := range []string{"ada", "bee", "cat"} {
			h.procedure(t, admin(), adminAgent("createAgent"), object{"handle": name + ".test", "owner": name[:1]}).ok(t)
		}
		first := h.query(t, admin(), adminAgent("listAgents"), "limit", "2").ok(t)
		require.Len(t, first.list("agents"), 2)
		second := h.query(t, admin(), adminAgent("listAgents"), "limit", "2", "cursor", first.str("cursor")).ok(t)
		require.Len(t, second.list("agents"), 1)
		require.Empty(t, second.str("cursor"))
		require.Len(t, h.query(t, admin(), adminAgent("listAgents"), "owner", "b").ok(t).list("agents"), 1)
		h.query(t, admin(), adminAgent("listAgents"), "cursor", "x").refused(t, 400, "InvalidRequest")
	})
}

// What is wrong with any part of an agent leaves nothing of it.
func TestCreateAgentIsAllOrNothing(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		before := h.lastSeq(t)
		for name, body := range map[string]object{
			"credential": {"credential": object{"name": "main", "scope": "repo:garden.engram.*"}},
			"login key":  {"credential": object{"name": "main", "publicKey": "did:key:zNothing"}},
			"class":      {"class": object{"uri": "at://did:web:a.test/" + observation + "/3mmzzzzzzzz2a", "cid": someRecordCID}},
			"expiry":     {"expiresAt": "2020-01-01T00:00:00.000Z"},
			"owner":      {"owner": "a\x00b"},
		} {
			body["handle"] = "ada.test"
			h.procedure(t, admin(), adminAgent("createAgent"), body).refused(t, 400, "InvalidRequest")
			require.Equal(t, before, h.lastSeq(t), name)
		}
		// The last statement before the commit fails, as in a crash.
		require.NoError(t, h.db.Tx(t.Context(), func(tx *gorm.DB) error {
			return tx.Exec("ALTER TABLE app_passwords RENAME TO away").Error
		}))
		body := object{"handle": "ada.test", "policy": object{"maxRecords": 1}, "credential": object{"name": "main"}}
		h.procedure(t, admin(), adminAgent("createAgent"), body).refused(t, 500, "InternalServerError")
		require.NoError(t, h.db.Tx(t.Context(), func(tx *gorm.DB) error {
			return tx.Exec("ALTER TABLE away RENAME TO app_passwords").Error
		}))
		for _, table := range []string{"accounts", "agents", "account_policies", "repos", "issued_labels"} {
			var count int64
			require.NoError(t, h.db.Read.Table(table).Count(&count).Error)
			require.Zero(t, count, table)
		}
		h.procedure(t, admin(), adminAgent("createAgent"), body).ok(t)
	})
}

func TestConcurrentCreateAgentHasOneWinner(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		answers := make([]reply, 4)
		var wait sync.WaitGroup
		for i := range answers {
			wait.Go(func() {
				answers[i] = h.procedure(t, admin(), adminAgent("createAgent"), object{"handle": "prize.test", "credential": object{"name": "main"}})
			})
		}
		wait.Wait()
		won := 0
		for _, answer := range answers {
			if answer.Status == 200 {
				won++
				h.openSession(t, "prize.test", answer.ok(t).str("credential", "password")).ok(t)
				continue
			}
			// Its handle or its DID is in use, whichever a loser noticed first.
			require.Contains(t, answer.refused(t, 400, "InvalidRequest"), "already")
		}
		require.Equal(t, 1, won)
	})
}

func TestClassStateOfAgent(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		maker := h.agent(t, "maker")
		missing := object{"uri": "at://" + maker.did + "/" + agentClass + "/3mmzzzzzzzz2a", "cid": someRecordCID}
		made := h.procedure(t, admin(), adminAgent("createAgent"), object{"handle": "ada.test", "class": missing}).ok(t)
		require.Equal(t, "missing", made.str("agent", "classState"))
	})
}
