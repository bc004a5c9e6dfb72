package pds_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return raw
}

func TestInvitesOfAccounts(t *testing.T) {
	eachHost(t, setting{invites: true}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		given := h.procedure(t, admin(), "com.atproto.server.createInviteCodes", object{"codeCount": 2, "useCount": 1, "forAccounts": []string{a.did}}).ok(t)
		codes := given.list("codes")[0].(map[string]any)["codes"].([]any)
		require.Len(t, codes, 2)
		guest := h.procedure(t, "", "com.atproto.server.createAccount", object{"handle": "guest.test", "password": "password of guest", "inviteCode": codes[0]}).ok(t)

		mine := func(params ...string) []any {
			return h.query(t, a.access, "com.atproto.server.getAccountInviteCodes", params...).ok(t).list("codes")
		}
		require.Len(t, mine(), 2)
		require.Len(t, mine("includeUsed", "false"), 1)
		require.Empty(t, h.query(t, "Bearer "+guest.str("accessJwt"), "com.atproto.server.getAccountInviteCodes").ok(t).list("codes"))

		info := h.query(t, admin(), "com.atproto.admin.getAccountInfo", "did", guest.str("did")).ok(t)
		require.Equal(t, codes[0], info.at("invitedBy", "code"))
		require.Equal(t, a.did, info.at("invitedBy", "forAccount"))
		require.Equal(t, guest.str("did"), info.list("invitedBy", "uses")[0].(map[string]any)["usedBy"])
		require.Empty(t, info.list("invites"))
		info = h.query(t, admin(), "com.atproto.admin.getAccountInfo", "did", a.did).ok(t)
		require.Len(t, info.list("invites"), 2)
		require.Nil(t, info.at("invitedBy"), "the admin made it without a code")
		require.Equal(t, false, info.at("invitesDisabled"))

		// No new codes; those that are there still serve.
		require.Equal(t, 200, h.procedure(t, admin(), "com.atproto.admin.disableAccountInvites", object{"account": a.did, "note": "too many\x00 guests"}).Status)
		info = h.query(t, admin(), "com.atproto.admin.getAccountInfo", "did", a.did).ok(t)
		require.Equal(t, true, info.at("invitesDisabled"))
		require.Equal(t, "too many guests", info.str("inviteNote"))
		h.procedure(t, admin(), "com.atproto.server.createInviteCode", object{"useCount": 1, "forAccount": a.did}).refused(t, 400, "InvalidRequest")
		h.procedure(t, "", "com.atproto.server.createAccount", object{"handle": "second.test", "password": "password of guest", "inviteCode": codes[1]}).ok(t)
		require.Equal(t, 200, h.procedure(t, admin(), "com.atproto.admin.enableAccountInvites", object{"account": a.did}).Status)
		third := h.procedure(t, admin(), "com.atproto.server.createInviteCode", object{"useCount": 3, "forAccount": a.did}).ok(t).str("code")
		fourth := h.procedure(t, admin(), "com.atproto.server.createInviteCode", object{"useCount": 3}).ok(t).str("code")

		list := func(sort string) (all []string) {
			for cursor := ""; ; {
				page := h.query(t, admin(), "com.atproto.admin.getInviteCodes", "sort", sort, "limit", "1", "cursor", cursor).ok(t)
				for _, code := range page.list("codes") {
					all = append(all, code.(map[string]any)["code"].(string))
				}
				if cursor = page.str("cursor"); cursor == "" {
					return all
				}
			}
		}
		require.Len(t, list("recent"), 4)
		require.ElementsMatch(t, list("recent"), list("usage"))
		require.ElementsMatch(t, []any{codes[0], codes[1]}, []any{list("usage")[0], list("usage")[1]}, "the used ones first")
		h.query(t, admin(), "com.atproto.admin.getInviteCodes", "sort", "alphabetical").refused(t, 400, "InvalidRequest")
		cursor := h.query(t, admin(), "com.atproto.admin.getInviteCodes", "limit", "1").ok(t).str("cursor")
		h.query(t, admin(), "com.atproto.admin.getInviteCodes", "sort", "usage", "cursor", cursor).refused(t, 400, "InvalidRequest")

		disable := func(body object) reply {
			return h.procedure(t, admin(), "com.atproto.admin.disableInviteCodes", body)
		}
		sign := func(handle, code string) reply {
			return h.procedure(t, "", "com.atproto.server.createAccount", object{"handle": handle, "password": "password of guest", "inviteCode": code})
		}
		disable(object{"accounts": []string{"admin"}}).refused(t, 400, "InvalidRequest")
		sign("third.test", fourth).ok(t)
		require.Equal(t, 200, disable(object{"codes": []string{fourth, "no such code"}}).Status)
		sign("fourth.test", fourth).refused(t, 400, "InvalidInviteCode")
		require.Equal(t, 200, disable(object{"accounts": []string{a.did}}).Status)
		sign("fourth.test", third).refused(t, 400, "InvalidInviteCode")
		require.Empty(t, mine(), "disabled ones are not shown")

		const nobody = "did:web:nobody.test"
		h.procedure(t, admin(), "com.atproto.admin.disableAccountInvites", object{"account": nobody}).refused(t, 400, "NotFound")
	})
}

func TestAdminUpdatesEmail(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a, b := h.agent(t, "scout"), h.agent(t, "neighbour")
		set := func(account, email string) reply {
			return h.procedure(t, admin(), "com.atproto.admin.updateAccountEmail", object{"account": account, "email": email})
		}
		email := func() string { return h.query(t, a.access, "com.atproto.server.getSession").ok(t).str("email") }
		require.Equal(t, 200, set(a.did, "Scout@Example.org").Status)
		require.Equal(t, "scout@example.org", email())
		require.Equal(t, 200, set(a.handle, "other@example.org").Status, "a handle names an account too")
		require.Equal(t, "other@example.org", email())
		set(b.did, "other@example.org").refused(t, 400, "InvalidRequest")
		set(a.did, "not an address").refused(t, 400, "InvalidRequest")
		set("nobody.test", "x@example.org").refused(t, 400, "NotFound")
		set("did:web:nobody.test", "x@example.org").refused(t, 400, "NotFound")
		require.Equal(t, 200, set(a.did, "").Status)
		require.Empty(t, email())
	})
}
