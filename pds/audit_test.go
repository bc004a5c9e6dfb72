package pds_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// audited answers the newest entries of the audit log.
func (h *host) audited(t *testing.T, params ...string) []object {
	t.Helper()
	var entries []object
	for _, e := range h.query(t, admin(), "garden.herbarium.admin.listAudit", params...).ok(t).list("entries") {
		entries = append(entries, e.(map[string]any))
	}
	return entries
}

func TestWhatOperatorsDoIsAudited(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout") // made by the admin
		made := h.audited(t)
		require.Len(t, made, 1)
		require.Equal(t, "com.atproto.server.createAccount", made[0].str("method"))
		require.Equal(t, "admin", made[0].str("actor"))
		require.Equal(t, "done", made[0].str("outcome"))
		require.Equal(t, a.did, made[0].str("subject"), "known since it was done")
		require.Equal(t, object{"handle": a.handle, "password": "(hidden)"}, object(made[0].at("input").(map[string]any)))
		require.Equal(t, "127.0.0.1", made[0].str("client"))
		require.NotEmpty(t, made[0].str("requestId"))

		h.procedure(t, a.access, "com.atproto.admin.deleteAccount", object{"did": a.did}).refused(t, 403, "Forbidden")
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.requestAccountDelete", nil).Status) // the owner's business
		h.procedure(t, admin(), "com.atproto.admin.updateAccountPassword", object{"did": a.did, "password": "a new long secret"})
		h.procedure(t, admin(), "com.atproto.admin.updateAccountHandle", object{"did": a.did, "handle": "x.test"}).refused(t, 400, "InvalidHandle")
		h.procedure(t, admin(), "com.atproto.admin.deleteAccount", object{"did": "did:web:nobody.test"}).refused(t, 400, "NotFound")
		h.procedure(t, admin(), "garden.herbarium.admin.moveIdentity", object{"did": a.did, "endpoint": "https://me:secret@new.example.org", "publicKey": "x"}).refused(t, 400, "InvalidRequest")
		h.query(t, admin(), "com.atproto.admin.getAccountInfo", "did", a.did).ok(t) // an ordinary reading
		h.query(t, admin(), "garden.herbarium.admin.listOneTimeTokens").ok(t)       // a sensitive one

		var said []string
		for _, e := range h.audited(t) {
			said = append(said, e.str("method")+" "+e.str("outcome")+" "+e.str("error"))
		}
		require.Equal(t, []string{
			"garden.herbarium.admin.listOneTimeTokens done ",
			"garden.herbarium.admin.moveIdentity refused InvalidRequest",
			"com.atproto.admin.deleteAccount refused NotFound",
			"com.atproto.admin.updateAccountHandle refused InvalidHandle",
			"com.atproto.admin.updateAccountPassword done ",
			"com.atproto.server.createAccount done ",
		}, said)
		require.Len(t, h.audited(t, "did", a.did), 4)
		require.Len(t, h.audited(t, "method", "com.atproto.admin.deleteAccount"), 1)
		require.Empty(t, h.audited(t, "until", "2020-01-01T00:00:00Z"))
		page := h.query(t, admin(), "garden.herbarium.admin.listAudit", "limit", "4").ok(t)
		require.Len(t, page.list("entries"), 4)
		rest := h.query(t, admin(), "garden.herbarium.admin.listAudit", "limit", "4", "cursor", page.str("cursor")).ok(t)
		require.Len(t, rest.list("entries"), 2)
		require.Empty(t, rest.str("cursor"))

		var kept []string
		require.NoError(t, h.db.Read.WithContext(t.Context()).Raw("SELECT input FROM audit_log").Scan(&kept).Error)
		for _, input := range kept {
			require.NotContains(t, input, "secret")
			require.NotContains(t, input, a.password)
		}
	})
}

// What cannot be audited is not done.
func TestNothingIsDoneWithoutAnEntry(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		require.NoError(t, h.db.Write.WithContext(t.Context()).Exec("ALTER TABLE audit_log RENAME TO gone").Error)
		h.procedure(t, admin(), "com.atproto.admin.deleteAccount", object{"did": a.did}).refused(t, 500, "InternalServerError")
		h.query(t, admin(), "garden.herbarium.admin.listOneTimeTokens").refused(t, 500, "InternalServerError")
		require.Empty(t, h.query(t, admin(), "com.atproto.sync.getRepoStatus", "did", a.did).ok(t).str("status"))
		h.create(t, a, note, object{}).ok(t)
	})
}
