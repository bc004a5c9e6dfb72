package pds_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	indigoauth "github.com/bluesky-social/indigo/atproto/auth"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
)

// From making a credential to its end, over XRPC.
func TestCredentials(t *testing.T) {
	time0 := newClock()
	eachHost(t, setting{clock: time0}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		call := func(method string, more ...any) reply {
			body := object{"did": a.did, "name": "ci"}
			for i := 0; i+1 < len(more); i += 2 {
				body[more[i].(string)] = more[i+1]
			}
			return h.procedure(t, admin(), "garden.herbarium.admin."+method, body)
		}
		signIn := func(password string) reply {
			return h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.handle, "password": password})
		}
		list := func() []any {
			return h.query(t, admin(), "garden.herbarium.admin.listCredentials", "did", a.did).ok(t).list("credentials")
		}
		stamp := func(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }
		start := time0.Now()
		expires := stamp(start.Add(time.Hour))
		const scope = "repo:garden.engram.agents.observation?action=create blob:*/*"

		made := call("createCredential", "scope", "atproto "+scope, "expiresAt", expires).ok(t)
		want := map[string]any{"name": "ci", "scope": scope, "createdAt": stamp(start), "expiresAt": expires}
		require.Equal(t, any(want), made.at("credential"))
		call("createCredential").refused(t, 400, "DuplicateCreate")
		require.Equal(t, []any{want}, list(), "without the secret")

		time0.advance(time.Minute)
		open := signIn(made.str("password")).ok(t)
		want["lastUsedAt"] = stamp(time0.Now())
		require.Equal(t, []any{want}, list())

		renewed := call("rotateCredential").ok(t)
		require.NotEqual(t, made.str("password"), renewed.str("password"))
		require.Equal(t, any(map[string]any{"name": "ci", "scope": scope, "createdAt": stamp(time0.Now()), "expiresAt": expires}), renewed.at("credential"))
		h.query(t, "Bearer "+open.str("accessJwt"), "com.atproto.server.getSession").refused(t, 400, "ExpiredToken")
		signIn(made.str("password")).refused(t, 401, "AuthenticationRequired")
		open = signIn(renewed.str("password")).ok(t)

		time0.advance(time.Hour)
		h.query(t, "Bearer "+open.str("accessJwt"), "com.atproto.server.getSession").refused(t, 400, "ExpiredToken")
		h.procedure(t, "Bearer "+open.str("refreshJwt"), "com.atproto.server.refreshSession", nil).refused(t, 400, "ExpiredToken")
		require.Contains(t, signIn(renewed.str("password")).refused(t, 401, "AuthenticationRequired"), "expired")
		require.Len(t, list(), 1, "the operator sees that it is over")
		call("rotateCredential").refused(t, 400, "InvalidRequest")
		call("rotateCredential", "expiresAt", stamp(time0.Now())).refused(t, 400, "InvalidRequest")
		renewed = call("rotateCredential", "expiresAt", stamp(time0.Now().Add(time.Hour))).ok(t)
		open = signIn(renewed.str("password")).ok(t)

		call("revokeCredential").ok(t)
		call("revokeCredential").ok(t)
		h.query(t, "Bearer "+open.str("accessJwt"), "com.atproto.server.getSession").refused(t, 400, "ExpiredToken")
		signIn(renewed.str("password")).refused(t, 401, "AuthenticationRequired")
		require.Empty(t, list())
		call("rotateCredential").refused(t, 400, "NotFound")
		call("createCredential", "expiresAt", stamp(time0.Now())).refused(t, 400, "InvalidRequest")
		require.Equal(t, "com.atproto.appPass", call("createCredential").ok(t).str("credential", "scope"))

		for _, method := range []string{"createCredential", "rotateCredential", "revokeCredential"} {
			call(method, "did", "did:web:nobody.test").refused(t, 400, "NotFound")
		}
		h.query(t, admin(), "garden.herbarium.admin.listCredentials", "did", "did:web:nobody.test").refused(t, 400, "NotFound")
	})
}

// What cannot be read as a scope is refused with what to write instead.
func TestScopesThatAreRefused(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		key, err := atcrypto.GeneratePrivateKeyP256()
		require.NoError(t, err)
		for scope, repair := range map[string]string{
			"com.atproto.access":       "com.atproto.appPass",
			"transition:generic":       "com.atproto.appPass",
			"include:a.example.basics": "write its permissions out",
			"repo:garden.engram.*":     "named whole",
			"rpc:a.b.c":                "aud=",
			" ":                        "single spaces",
		} {
			made := h.procedure(t, admin(), "garden.herbarium.admin.createCredential", object{"did": a.did, "name": "ci", "scope": scope})
			require.Contains(t, made.refused(t, 400, "InvalidRequest"), repair)
			require.Contains(t, h.register(t, a.did, "laptop", key, "scope", scope).refused(t, 400, "InvalidRequest"), repair)
		}
	})
}

// A key login is scoped and ends as an app password's session does, with
// assertions that indigo signs in the process that reads our own tokens.
func TestScopedLoginKey(t *testing.T) {
	time0 := newClock()
	eachHost(t, setting{clock: time0}, func(t *testing.T, h *host) {
		time0.advance(time.Since(time0.Now())) // indigo signs by the machine's clock
		a := h.agent(t, "scout")
		key, err := atcrypto.GeneratePrivateKeyP256()
		require.NoError(t, err)
		expires := time0.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")
		added := h.register(t, a.did, "laptop", key, "scope", "repo:org.example.note?action=create", "expiresAt", expires).ok(t)
		require.Equal(t, expires, added.str("expiresAt"))
		signIn := func() reply {
			method := keyLogin
			assertion, err := indigoauth.SignServiceAuth(syntax.DID(a.did), string(h.did), 50*time.Second, &method, key)
			require.NoError(t, err)
			return h.keyLogin(t, assertion)
		}
		byKey := a
		byKey.access = "Bearer " + signIn().ok(t).str("accessJwt")
		written := h.create(t, byKey, note, object{}).ok(t)
		h.delete(t, byKey, note, rkeyOf(written)).refused(t, 403, "Forbidden")
		time0.advance(time.Hour)
		h.create(t, byKey, note, object{}).refused(t, 400, "ExpiredToken")
	})
}

func TestEmailIsForAScopeThatNamesIt(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		const email = "scout@example.com"
		a := agent{handle: "scout.test"}
		out := h.procedure(t, admin(), "com.atproto.server.createAccount", object{"handle": a.handle, "email": email, "password": "correct horse"}).ok(t)
		a.did = out.str("did")
		for scope, want := range map[string]string{"com.atproto.appPass": email, "account:email": email, "account:email?action=manage": email, "atproto": "", "account:repo identity:* repo:* rpc:*?aud=did:web:x.example%23atproto_pds": ""} {
			made := h.procedure(t, admin(), "garden.herbarium.admin.createCredential", object{"did": a.did, "name": scope, "scope": scope}).ok(t)
			opened := h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.handle, "password": made.str("password")}).ok(t)
			refreshed := h.procedure(t, "Bearer "+opened.str("refreshJwt"), "com.atproto.server.refreshSession", nil).ok(t)
			read := h.query(t, "Bearer "+refreshed.str("accessJwt"), "com.atproto.server.getSession").ok(t)
			for i, view := range []object{opened, refreshed, read} {
				require.Equal(t, want, view.str("email"), "%s: %d", scope, i)
				require.Equal(t, a.did, view.str("did"))
			}
		}
	})
}

// A like that replaces another one deletes it: a scope without delete is
// refused that, and nothing is written.
func TestCreateOnlyScopeDeletesNothing(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		const like = "app.bsky.feed.like"
		about := func(rkey string) object {
			return object{"createdAt": "2026-11-30T12:00:00.000Z", "subject": object{"uri": "at://" + a.did + "/app.bsky.feed.post/" + rkey, "cid": anyCID}}
		}
		creating, replacing := a, a
		creating.access = h.badge(t, a, "create", "repo:"+like+"?action=create").access
		replacing.access = h.badge(t, a, "replace", "repo:"+like+"?action=create&action=delete").access
		first := h.create(t, creating, like, about("3one")).ok(t)
		seq := h.lastSeq(t)
		message := h.create(t, creating, like, about("3one")).refused(t, 403, "Forbidden")
		require.Contains(t, message, rkeyOf(first))
		require.Contains(t, message, "repo:"+like+"?action=create&action=delete")
		require.Equal(t, seq, h.lastSeq(t))
		h.create(t, creating, like, about("3two")).ok(t)
		h.create(t, replacing, like, about("3one")).ok(t)
	})
}

// A refusal ends with a permission that would do, and one that says so does.
func TestRefusalNamesThePermission(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a, other := h.agent(t, "scout"), h.agent(t, "neighbour")
		for i, try := range []func(t *testing.T, a agent) reply{
			func(t *testing.T, a agent) reply { return h.create(t, a, note, object{}) },
			func(t *testing.T, a agent) reply { return h.put(t, a, note, "one", object{}) },
			func(t *testing.T, a agent) reply { return h.delete(t, a, note, "one") },
			func(t *testing.T, a agent) reply { return h.upload(t, a, []byte("seen"), "text/plain") },
			func(t *testing.T, a agent) reply {
				return h.query(t, a.access, "com.atproto.repo.describeRepo", "repo", other.did)
			},
			func(t *testing.T, a agent) reply { return h.query(t, a.access, "com.atproto.sync.listRepos") },
			func(t *testing.T, a agent) reply {
				return h.query(t, a.access, "com.atproto.server.getServiceAuth", "aud", toView, "lxm", carryOn)
			},
			func(t *testing.T, a agent) reply {
				return h.procedure(t, a.access, "com.atproto.identity.updateHandle", object{"handle": a.handle})
			},
		} {
			caller := a
			caller.access = h.badge(t, a, "without "+string(rune('a'+i)), "atproto").access
			message := try(t, caller).refused(t, 403, "Forbidden")
			_, permission, found := strings.Cut(message, "; use one with ")
			require.True(t, found, message)
			caller.access = h.badge(t, a, "with "+string(rune('a'+i)), permission).access
			r := try(t, caller)
			require.Equal(t, 200, r.Status, "with %s: %s", permission, r.Body)
		}
	})
}

// The firehose carries everybody's records: a scope opens it only by name.
func TestSubscriptionOfAScopedCredential(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		with := h.badge(t, a, "with", "rpc:com.atproto.sync.subscribeRepos?aud={did}%23atproto_pds")
		without := h.badge(t, a, "without", "repo:* blob:*/*")
		h.do(t, "GET", "/xrpc/com.atproto.sync.subscribeRepos", without.access, nil, "Upgrade", "websocket").refused(t, 403, "Forbidden")
		require.NotEqual(t, 403, h.do(t, "GET", "/xrpc/com.atproto.sync.subscribeRepos", with.access, nil, "Upgrade", "websocket").Status)
	})
}
