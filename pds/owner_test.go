package pds_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/pds/account"
)

// token is the one-time token of an account as the operator sees it, "" when
// there is none.
func (h *host) token(t *testing.T, a agent, purpose account.Purpose) string {
	t.Helper()
	for _, pending := range h.query(t, admin(), "garden.herbarium.admin.listOneTimeTokens").ok(t).list("tokens") {
		if p := object(pending.(map[string]any)); p.str("did") == a.did && p.str("purpose") == string(purpose) {
			require.Equal(t, a.handle, p.str("handle"))
			return p.str("token")
		}
	}
	return ""
}

// eventsOf lists the kinds of an account's events that can still be read.
func (h *host) eventsOf(t *testing.T, did string) []string {
	t.Helper()
	events, err := h.events.ReadFrom(t.Context(), 0, 1000)
	require.NoError(t, err)
	var kinds []string
	for _, e := range events {
		if e.DID.String() == did {
			kinds = append(kinds, string(e.Kind))
		}
	}
	return kinds
}

// Edge case 18 of the reference's tests: bad token, bad password, other
// accounts' blobs kept; and what the lexicon's two token errors mean.
func TestDeletingTheOwnAccount(t *testing.T) {
	clock := newClock()
	eachHost(t, setting{clock: clock}, func(t *testing.T, h *host) {
		a, other := h.agent(t, "scout"), h.agent(t, "other")
		for _, owner := range []agent{a, other} {
			blob := h.do(t, "POST", "/xrpc/com.atproto.repo.uploadBlob", owner.access, strings.NewReader("shared bytes"), "Content-Type", "text/plain").ok(t).at("blob")
			h.create(t, owner, note, object{"picture": blob}).ok(t)
		}
		cid := h.query(t, other.access, "com.atproto.sync.listBlobs", "did", other.did).ok(t).list("cids")[0].(string)
		made := h.procedure(t, a.access, "com.atproto.server.createAppPassword", object{"name": "tool"}).ok(t)
		byApp := "Bearer " + h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.did, "password": made.str("password")}).ok(t).str("accessJwt")
		h.procedure(t, byApp, "com.atproto.server.requestAccountDelete", nil).refused(t, 400, "InvalidToken")

		attempt := func(did, password, token string) reply {
			return h.procedure(t, "", "com.atproto.server.deleteAccount", object{"did": did, "password": password, "token": token})
		}
		attempt(a.did, a.password, "never-asked").refused(t, 400, "InvalidToken")
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.requestAccountDelete", nil).Status)
		first := h.token(t, a, account.DeletingAccount)
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.requestAccountDelete", nil).Status)
		token := h.token(t, a, account.DeletingAccount)
		require.NotEqual(t, first, token)

		wrong := attempt(a.did, "not the password", token)
		wrong.refused(t, 401, "AuthenticationRequired")
		require.Equal(t, wrong.Body, attempt("did:web:nobody.test", a.password, token).Body, "nothing tells an unknown account apart")
		require.Equal(t, wrong.Body, attempt(a.did, made.str("password"), token).Body, "an app password does not delete")
		attempt(a.did, a.password, first).refused(t, 400, "InvalidToken")
		attempt(other.did, other.password, token).refused(t, 400, "InvalidToken")
		clock.advance(account.OneTimeLifetime)
		require.Empty(t, h.token(t, a, account.DeletingAccount), "what has expired is not listed")
		attempt(a.did, a.password, token).refused(t, 400, "ExpiredToken")

		signedIn := h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.did, "password": a.password}).ok(t)
		require.Equal(t, 200, h.procedure(t, "Bearer "+signedIn.str("accessJwt"), "com.atproto.server.requestAccountDelete", nil).Status)
		require.Equal(t, 200, attempt(a.did, a.password, h.token(t, a, account.DeletingAccount)).Status)

		status := h.query(t, admin(), "com.atproto.sync.getRepoStatus", "did", a.did).ok(t)
		require.Equal(t, "deleted", status.str("status"))
		require.Equal(t, []string{"#account"}, h.eventsOf(t, a.did), "older events are erased")
		h.query(t, admin(), "com.atproto.sync.getRepo", "did", a.did).refused(t, 400, "RepoNotFound")
		require.Equal(t, "shared bytes", string(h.query(t, other.access, "com.atproto.sync.getBlob", "did", other.did, "cid", cid).Body))
	})
}

func TestResettingAPassword(t *testing.T) {
	clock := newClock()
	eachHost(t, setting{clock: clock}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		ask := func(who string) {
			t.Helper()
			r := h.procedure(t, "", "com.atproto.server.requestPasswordReset", object{"email": who})
			require.Equal(t, 200, r.Status)
			require.Empty(t, r.Body)
		}
		ask("nobody@example.org")
		require.Empty(t, h.query(t, admin(), "garden.herbarium.admin.listOneTimeTokens").ok(t).list("tokens"))
		ask(a.handle)
		token := h.token(t, a, account.ResettingPassword)
		require.NotEmpty(t, token)
		ask(a.did) // as a stranger may: what the owner was handed stays good
		require.Equal(t, token, h.token(t, a, account.ResettingPassword))
		reset := func(token, password string) reply {
			return h.procedure(t, "", "com.atproto.server.resetPassword", object{"token": token, "password": password})
		}
		reset("never-asked", "another long one").refused(t, 400, "InvalidToken")
		reset(token, "short").refused(t, 400, "InvalidPassword")
		require.Equal(t, 200, reset(" "+token, "another long one").Status, "what was refused left the token good")
		reset(token, "a third long one").refused(t, 400, "InvalidToken")
		h.query(t, a.access, "com.atproto.server.getSession").refused(t, 400, "ExpiredToken")
		h.procedure(t, a.refresh, "com.atproto.server.refreshSession", nil).refused(t, 400, "ExpiredToken")
		h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.did, "password": a.password}).refused(t, 401, "AuthenticationRequired")
		h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.did, "password": "another long one"}).ok(t)

		ask(a.did)
		token = h.token(t, a, account.ResettingPassword)
		clock.advance(account.OneTimeLifetime)
		reset(token, "a third long one").refused(t, 400, "ExpiredToken")
	})
}

// What deactivateAccount announced happens at that time, unless its owner
// comes back before.
func TestDeletionAtTheAnnouncedTime(t *testing.T) {
	clock := newClock()
	eachHost(t, setting{clock: clock}, func(t *testing.T, h *host) {
		gone, back := h.agent(t, "scout"), h.agent(t, "other")
		for _, a := range []agent{gone, back} {
			at := clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)
			require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.deactivateAccount", object{"deleteAfter": at}).Status)
		}
		require.NoError(t, h.pds.DeleteDue(t.Context()))
		status := func(a agent) string {
			return h.query(t, admin(), "com.atproto.sync.getRepoStatus", "did", a.did).ok(t).str("status")
		}
		require.Equal(t, "deactivated", status(gone))
		require.Equal(t, 200, h.procedure(t, back.access, "com.atproto.server.activateAccount", nil).Status)
		clock.advance(time.Hour)
		require.NoError(t, h.pds.DeleteDue(t.Context()))
		require.NoError(t, h.pds.DeleteDue(t.Context()))
		require.Equal(t, "deleted", status(gone))
		require.Empty(t, status(back))
		require.Equal(t, []string{"#account"}, h.eventsOf(t, gone.did))
	})
}

// The text of a token is nowhere in the database as it is.
func TestTokensAreNotReadableAtRest(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.requestAccountDelete", nil).Status)
		var rows []struct{ Hash, Wrapped []byte }
		require.NoError(t, h.db.Read.WithContext(t.Context()).Raw("SELECT hash, wrapped FROM one_time_tokens").Scan(&rows).Error)
		require.Len(t, rows, 1)
		token := h.token(t, a, account.DeletingAccount)
		require.NotContains(t, string(rows[0].Wrapped), token)
		require.NotContains(t, string(rows[0].Hash), token)
	})
}
