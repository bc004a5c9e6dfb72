package pds_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	getPreferences = "app.bsky.actor.getPreferences"
	putPreferences = "app.bsky.actor.putPreferences"
	actorDefs      = "app.bsky.actor.defs#"
)

func TestPreferences(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a, b := h.agent(t, "scout"), h.agent(t, "neighbour")
		adult := object{"$type": actorDefs + "adultContentPref", "enabled": false}
		birth := object{"$type": actorDefs + "personalDetailsPref", "birthDate": "1990-01-02T00:00:00.000Z"}
		unknown := object{"$type": "app.bsky.somewhere.defs#newerPref", "whatever": object{"n": "1"}}
		put := func(credential string, list ...any) reply {
			return h.procedure(t, credential, putPreferences, object{"preferences": append([]any{}, list...)})
		}
		shown := func(credential string) []any {
			return h.query(t, credential, getPreferences).ok(t).list("preferences")
		}
		plain := func(list ...object) (out []any) {
			for _, o := range list {
				out = append(out, decoded(t, o))
			}
			return out
		}
		require.NotNil(t, shown(a.access), "an empty list, not null")
		require.Equal(t, 200, put(a.access, adult, birth, unknown).Status)
		require.Equal(t, plain(adult, birth, unknown), shown(a.access), "in their order, whatever they are")
		require.Empty(t, shown(b.access), "another account's are another account's")
		count := h.query(t, a.access, "com.atproto.server.checkAccountStatus").ok(t).at("privateStateValues")
		require.Equal(t, "3", fmt.Sprint(count))

		made := h.procedure(t, a.access, "com.atproto.server.createAppPassword", object{"name": "client"}).ok(t)
		session := h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.handle, "password": made.str("password")}).ok(t)
		app := "Bearer " + session.str("accessJwt")
		require.Equal(t, plain(adult, unknown), shown(app), "the birth date is not an app password's to see")
		put(app, birth).refused(t, 400, "InvalidRequest")
		require.Equal(t, 200, put(app, adult).Status)
		require.Equal(t, plain(birth, adult), shown(a.access), "nor to replace")

		for name, bad := range map[string]any{
			"no $type":           object{"enabled": true},
			"another namespace":  object{"$type": "org.example.defs#pref"},
			"a namespace alike":  object{"$type": "app.bskyish.defs#pref"},
			"no NSID":            object{"$type": "app.bsky.\x00#pref"},
			"not as its lexicon": object{"$type": actorDefs + "adultContentPref", "enabled": "yes"},
			"no object":          "x",
		} {
			t.Run(name, func(t *testing.T) { put(a.access, adult, bad).refused(t, 400, "InvalidRequest") })
		}
		many := make([]any, 1001)
		for i := range many {
			many[i] = unknown
		}
		put(a.access, many...).refused(t, 400, "InvalidRequest")
		require.Len(t, shown(a.access), 2, "what is refused changes nothing")
		require.Equal(t, 200, put(a.access, many[:900]...).Status)
		require.Len(t, shown(a.access), 900)
		require.Equal(t, 200, put(a.access).Status)
		require.Empty(t, shown(a.access))

		put("", adult).refused(t, 401, "AuthMissing")
		put(a.refresh, adult).refused(t, 400, "InvalidToken")
		put(admin(), adult).refused(t, 400, "InvalidToken")

		// A client of an application names its service with every call; the host
		// answers these itself all the same.
		const view = "did:web:view.example.org#view"
		h.do(t, "GET", "/xrpc/"+getPreferences, a.access, nil, "Atproto-Proxy", view).ok(t)

		// Preferences move with an account before it is active there.
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.deactivateAccount", object{}).Status)
		require.Equal(t, 200, put(a.access, adult).Status)
		require.Equal(t, plain(adult), shown(a.access))
		require.Equal(t, 200, h.procedure(t, admin(), "com.atproto.admin.deleteAccount", object{"did": a.did}).Status)
		var left int
		require.NoError(t, h.db.Read.Raw("SELECT COUNT(*) FROM preferences").Scan(&left).Error)
		require.Zero(t, left, "what is private goes with the account")
	})
}

// decoded is a value as it comes out of JSON.
func decoded(t *testing.T, o object) any {
	t.Helper()
	return map[string]any(reply{Body: encoded(t, o)}.object(t))
}
