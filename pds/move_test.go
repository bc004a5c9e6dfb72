package pds_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The way out of a did:web that was issued here: its document, served here for
// ever, names the new host.
func TestMovingADIDWeb(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		const (
			key  = "did:key:zQ3shZc2QzApp2oymGvQbzP8eKheVshBHbU4ZYjeXqwSKEn6N" // atproto's did:key test fixture
			next = "https://new.example.org"
		)
		a := h.agent(t, "scout")
		move := func(in object) reply { return h.procedure(t, a.access, "garden.herbarium.moveIdentity", in) }
		served := func() object { return h.do(t, "GET", "/.well-known/did.json", "", nil, "Host", a.handle).ok(t) }
		endpoint := func() string {
			return object(served().list("service")[0].(map[string]any)).str("serviceEndpoint")
		}
		made := h.procedure(t, a.access, "com.atproto.server.createAppPassword", object{"name": "tool"}).ok(t)
		byApp := "Bearer " + h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.did, "password": made.str("password")}).ok(t).str("accessJwt")
		h.procedure(t, byApp, "garden.herbarium.moveIdentity", object{"endpoint": next, "publicKey": key}).refused(t, 400, "InvalidToken")
		for name, in := range map[string]object{
			"http":        {"endpoint": "http://new.example.org", "publicKey": key},
			"a path":      {"endpoint": next + "/xrpc", "publicKey": key},
			"credentials": {"endpoint": "https://me:secret@new.example.org", "publicKey": key},
			"an address":  {"endpoint": "https://10.0.0.1", "publicKey": key},
			"no host":     {"endpoint": "https://", "publicKey": key},
			"no key":      {"endpoint": next},
			"no endpoint": {"publicKey": key},
			"a did":       {"endpoint": next, "publicKey": a.did},
			"Ed25519":     {"endpoint": next, "publicKey": "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"},
		} {
			t.Run(name, func(t *testing.T) { move(in).refused(t, 400, "InvalidRequest") })
		}
		require.Equal(t, h.publicURL(), endpoint())

		require.Equal(t, next, object(object(move(object{"endpoint": next + "/", "publicKey": key}).ok(t).at("didDoc").(map[string]any)).list("service")[0].(map[string]any)).str("serviceEndpoint"))
		require.Equal(t, next, endpoint())
		require.Equal(t, []any{"at://" + a.handle}, served().list("alsoKnownAs"))
		require.Equal(t, []string{"#identity", "#account", "#commit", "#sync", "#identity", "#account"}, h.eventsOf(t, a.did))
		h.create(t, a, note, object{}).refused(t, 401, "AccountDeactivated")
		h.procedure(t, a.access, "com.atproto.server.activateAccount", nil).refused(t, 400, "InvalidRequest")
		h.procedure(t, admin(), "com.atproto.admin.updateSubjectStatus", object{
			"subject": object{"$type": "com.atproto.admin.defs#repoRef", "did": a.did}, "deactivated": object{"applied": false},
		}).refused(t, 400, "InvalidRequest")
		require.Equal(t, a.did, string(h.do(t, "GET", "/.well-known/atproto-did", "", nil, "Host", a.handle).Body), "nobody else could confirm the handle")

		move(object{"endpoint": "http://localhost:1234", "publicKey": key, "handle": "Scout.example.org"}).ok(t)
		require.Equal(t, "http://localhost:1234", endpoint(), "in development")
		require.Equal(t, []any{"at://scout.example.org"}, served().list("alsoKnownAs"))

		move(object{}).ok(t)
		require.Equal(t, h.publicURL(), endpoint())
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.activateAccount", nil).Status)
		h.create(t, a, note, object{}).ok(t)

		require.Equal(t, 200, h.procedure(t, admin(), "com.atproto.admin.deleteAccount", object{"did": a.did}).Status)
		h.procedure(t, admin(), "garden.herbarium.admin.moveIdentity", object{"did": a.did, "endpoint": next, "publicKey": key}).ok(t)
		require.Equal(t, next, endpoint(), "after the deletion too")
		require.Equal(t, []string{"#account", "#identity"}, h.eventsOf(t, a.did))
		h.procedure(t, admin(), "garden.herbarium.admin.moveIdentity", object{"did": "did:web:nobody.test", "endpoint": next, "publicKey": key}).refused(t, 400, "NotFound")
	})
}
