package pds_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/pds"
)

func TestDescribeServer(t *testing.T) {
	eachHost(t, setting{invites: true}, func(t *testing.T, h *host) {
		out := h.query(t, "", "com.atproto.server.describeServer").ok(t)
		require.Equal(t, string(h.did), out.str("did"))
		require.Equal(t, []any{".test"}, out.list("availableUserDomains"))
		require.Equal(t, true, out.at("inviteCodeRequired"))
		require.Equal(t, fmt.Sprint(blobLimit), fmt.Sprint(out.at("blobUploadLimit")))
		require.Equal(t, map[string]any{"privacyPolicy": "https://example.org/privacy"}, out.at("links"), "what there is none of is left out")
		require.Equal(t, "operator@example.org", out.str("contact", "email"))
	})
}

func TestCreateAccount(t *testing.T) {
	eachHost(t, setting{invites: true}, func(t *testing.T, h *host) {
		sign := func(credential, handle string, more ...any) reply {
			body := object{"handle": handle, "password": "long enough"}
			for i := 0; i+1 < len(more); i += 2 {
				body[more[i].(string)] = more[i+1]
			}
			return h.procedure(t, credential, "com.atproto.server.createAccount", body)
		}
		before := h.lastSeq(t)
		sign("", "scout.test").refused(t, 400, "InvalidInviteCode")
		sign("", "scout.test", "inviteCode", "made-up").refused(t, 400, "InvalidInviteCode")
		require.Equal(t, before, h.lastSeq(t), "nothing is announced of an account that was refused")

		code := h.procedure(t, admin(), "com.atproto.server.createInviteCode", object{"useCount": 1}).ok(t).str("code")
		out := sign("", "Scout.Test", "inviteCode", code).ok(t)
		require.Equal(t, "scout.test", out.str("handle"), "handles are lower case")
		require.Equal(t, out.str("did"), out.str("didDoc", "id"))
		sign("", "second.test", "inviteCode", code).refused(t, 400, "InvalidInviteCode")

		sign(admin(), "scout.test").refused(t, 400, "InvalidRequest")
		sign(admin(), "a.test").refused(t, 400, "InvalidHandle")
		sign(admin(), "one.two.test").refused(t, 400, "InvalidHandle")
		sign(admin(), "scout.example.org").refused(t, 400, "UnsupportedDomain")
		sign(admin(), "no handle at all").refused(t, 400, "InvalidRequest")
		sign(admin(), "short.test", "password", "short").refused(t, 400, "InvalidPassword")
		sign("Basic YWRtaW46d3Jvbmc=", "wrong.test").refused(t, 400, "InvalidInviteCode")
		sign("", "mine.test", "did", "did:web:mine.example.org").refused(t, 401, "AuthenticationRequired")
	})
}

func TestNewAccountIsAnnouncedAtOnce(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		events, err := h.events.ReadFrom(t.Context(), 0, 100)
		require.NoError(t, err)
		var kinds []string
		for _, e := range events {
			require.Equal(t, a.did, e.DID.String())
			kinds = append(kinds, string(e.Kind))
		}
		require.Equal(t, []string{"#identity", "#account", "#commit", "#sync"}, kinds)
	})
}

func TestRacingSignUpsLeaveOneWinner(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		const racers = 4
		answers := make([]reply, racers)
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() {
				answers[i] = h.procedure(t, admin(), "com.atproto.server.createAccount", object{"handle": "prize.test", "password": "long enough"})
			})
		}
		wg.Wait()
		won := 0
		for _, r := range answers {
			if r.Status == 200 {
				won++
				continue
			}
			r.refused(t, 400, "InvalidRequest")
		}
		require.Equal(t, 1, won)
		require.Len(t, h.query(t, admin(), "com.atproto.sync.listRepos").ok(t).list("repos"), 1, "a loser leaves no repo")
	})
}

func TestSessions(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		login := func(identifier, password string) reply {
			return h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": identifier, "password": password})
		}
		for _, identifier := range []string{a.handle, strings.ToUpper(a.handle), a.did} {
			out := login(identifier, a.password).ok(t)
			require.Equal(t, a.did, out.str("did"))
			require.Equal(t, true, out.at("active"))
			require.Nil(t, out.at("status"))
		}
		wrong := login(a.handle, "not it").refused(t, 401, "AuthenticationRequired")
		unknown := login("nobody.test", "not it").refused(t, 401, "AuthenticationRequired")
		require.Equal(t, wrong, unknown, "whether an account exists is not told")

		got := h.query(t, a.access, "com.atproto.server.getSession").ok(t)
		require.Equal(t, a.handle, got.str("handle"))
		h.query(t, a.refresh, "com.atproto.server.getSession").refused(t, 400, "InvalidToken")
		h.procedure(t, a.access, "com.atproto.server.refreshSession", nil).refused(t, 400, "InvalidToken")

		first := h.procedure(t, a.refresh, "com.atproto.server.refreshSession", nil).ok(t)
		second := h.procedure(t, a.refresh, "com.atproto.server.refreshSession", nil).ok(t)
		require.Equal(t, first.str("refreshJwt"), second.str("refreshJwt"), "racing refreshes lead to one successor")

		require.Equal(t, 200, h.procedure(t, "Bearer "+first.str("refreshJwt"), "com.atproto.server.deleteSession", nil).Status)
		h.procedure(t, "Bearer "+first.str("refreshJwt"), "com.atproto.server.refreshSession", nil).refused(t, 400, "ExpiredToken")
		h.procedure(t, a.refresh, "com.atproto.server.refreshSession", nil).refused(t, 400, "ExpiredToken")
		h.query(t, a.access, "com.atproto.server.getSession").refused(t, 400, "ExpiredToken")
	})
}

func TestAppPasswords(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		made := h.procedure(t, a.access, "com.atproto.server.createAppPassword", object{"name": "harness"}).ok(t)
		h.procedure(t, a.access, "com.atproto.server.createAppPassword", object{"name": "harness"}).refused(t, 400, "DuplicateCreate")
		out := h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.handle, "password": made.str("password")}).ok(t)
		app := "Bearer " + out.str("accessJwt")

		h.procedure(t, app, "com.atproto.server.createAppPassword", object{"name": "more"}).refused(t, 400, "InvalidToken")
		refreshed := h.procedure(t, "Bearer "+out.str("refreshJwt"), "com.atproto.server.refreshSession", nil).ok(t)
		h.procedure(t, "Bearer "+refreshed.str("accessJwt"), "com.atproto.server.createAppPassword", object{"name": "more"}).refused(t, 400, "InvalidToken")
		h.query(t, app, "com.atproto.server.getServiceAuth", "aud", "did:web:chat.example.org", "lxm", "chat.bsky.convo.listConvos").refused(t, 400, "InvalidToken")
		h.query(t, app, "com.atproto.server.getServiceAuth", "aud", "did:web:other.example.org", "lxm", "com.atproto.server.createAccount").refused(t, 400, "InvalidToken")
		h.query(t, app, "com.atproto.server.getServiceAuth", "aud", "did:web:video.example.org", "lxm", "com.atproto.repo.uploadBlob").ok(t)

		list := h.query(t, app, "com.atproto.server.listAppPasswords").ok(t).list("passwords")
		require.Len(t, list, 1)
		require.NotContains(t, list[0], "password")
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.revokeAppPassword", object{"name": "harness"}).Status)
		h.procedure(t, "Bearer "+refreshed.str("refreshJwt"), "com.atproto.server.refreshSession", nil).refused(t, 400, "ExpiredToken")
	})
}

func TestDeactivation(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a, other := h.agent(t, "scout"), h.agent(t, "other")
		h.create(t, a, observation, observed("before")).ok(t)
		h.procedure(t, admin(), "com.atproto.admin.updateSubjectStatus", object{
			"subject":     object{"$type": "com.atproto.admin.defs#repoRef", "did": a.did},
			"deactivated": object{"applied": true},
		}).ok(t)

		h.create(t, a, observation, observed("during")).refused(t, 401, "AccountDeactivated")
		h.query(t, other.access, "com.atproto.sync.getRepo", "did", a.did).refused(t, 400, "RepoDeactivated")
		h.query(t, other.access, "com.atproto.sync.getLatestCommit", "did", a.did).refused(t, 400, "RepoDeactivated")
		h.query(t, other.access, "com.atproto.repo.describeRepo", "repo", a.did).refused(t, 400, "RepoDeactivated")
		h.query(t, other.access, "com.atproto.repo.listRecords", "repo", a.did, "collection", observation).refused(t, 400, "InvalidRequest")
		require.Equal(t, 200, h.query(t, a.access, "com.atproto.sync.getRepo", "did", a.did).Status, "the owner can export it")
		require.Equal(t, 200, h.query(t, admin(), "com.atproto.sync.getRepo", "did", a.did).Status)
		h.query(t, "", "com.atproto.identity.resolveHandle", "handle", a.handle).refused(t, 400, "HandleNotFound")

		status := h.query(t, other.access, "com.atproto.sync.getRepoStatus", "did", a.did).ok(t)
		require.Equal(t, object{"did": a.did, "active": false, "status": "deactivated"}, status)
		require.Equal(t, "deactivated", h.query(t, a.access, "com.atproto.server.getSession").ok(t).str("status"))
		h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.handle, "password": a.password}).ok(t)
		h.procedure(t, a.refresh, "com.atproto.server.refreshSession", nil).ok(t)

		h.procedure(t, admin(), "com.atproto.admin.updateSubjectStatus", object{
			"subject":     object{"$type": "com.atproto.admin.defs#repoRef", "did": a.did},
			"deactivated": object{"applied": false},
		}).ok(t)
		h.create(t, a, observation, observed("after")).ok(t)
		status = h.query(t, other.access, "com.atproto.sync.getRepoStatus", "did", a.did).ok(t)
		require.Equal(t, true, status.at("active"))
		require.Nil(t, status.at("status"), "status is left out while active")
		require.Equal(t, h.rev(t, a.did), status.str("rev"))
	})
}

func TestTakedown(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a, other := h.agent(t, "scout"), h.agent(t, "other")
		subject := object{"$type": "com.atproto.admin.defs#repoRef", "did": a.did}
		h.procedure(t, admin(), "com.atproto.admin.updateSubjectStatus", object{
			"subject": subject, "takedown": object{"applied": true}, "deactivated": object{"applied": false},
		}).refused(t, 400, "InvalidRequest")
		h.procedure(t, admin(), "com.atproto.admin.updateSubjectStatus", object{"subject": subject, "takedown": object{"applied": true, "ref": "case 7"}}).ok(t)

		h.query(t, other.access, "com.atproto.sync.getRepo", "did", a.did).refused(t, 400, "RepoTakendown")
		h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.handle, "password": a.password}).refused(t, 401, "AccountTakedown")
		require.Equal(t, 401, h.create(t, a, observation, observed("during")).Status)
		got := h.query(t, admin(), "com.atproto.admin.getSubjectStatus", "did", a.did).ok(t)
		require.Equal(t, "case 7", got.str("takedown", "ref"))

		leaving := h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.handle, "password": a.password, "allowTakendown": true}).ok(t)
		token := "Bearer " + leaving.str("accessJwt")
		h.query(t, token, "com.atproto.server.getServiceAuth", "aud", "did:web:new.example.org", "lxm", "com.atproto.server.createAccount").ok(t)
		require.Equal(t, 401, h.query(t, token, "com.atproto.server.getServiceAuth", "aud", "did:web:new.example.org", "lxm", "com.atproto.repo.uploadBlob").Status)

		h.procedure(t, admin(), "com.atproto.admin.updateSubjectStatus", object{"subject": subject, "takedown": object{"applied": false}}).ok(t)
		require.Equal(t, 200, h.query(t, other.access, "com.atproto.sync.getRepo", "did", a.did).Status)
		a.access = token
		h.create(t, a, note, object{}).refused(t, 400, "InvalidToken")
	})
}

func TestDeletionErasesEarlierEvents(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a, other := h.agent(t, "scout"), h.agent(t, "other")
		h.create(t, a, observation, observed("to be forgotten")).ok(t)
		require.Equal(t, 200, h.procedure(t, admin(), "com.atproto.admin.deleteAccount", object{"did": a.did}).Status)

		events, err := h.events.ReadFrom(t.Context(), 0, 1000)
		require.NoError(t, err)
		var kinds []string
		for _, e := range events {
			if e.DID.String() == a.did {
				kinds = append(kinds, string(e.Kind))
			}
		}
		require.Equal(t, []string{"#account"}, kinds)
		h.query(t, other.access, "com.atproto.sync.getRepo", "did", a.did).refused(t, 400, "RepoNotFound")
		require.NotEqual(t, 200, h.query(t, a.access, "com.atproto.server.getSession").Status)
		require.NotEqual(t, 200, h.create(t, a, observation, observed("from beyond")).Status)
		require.Equal(t, 200, h.query(t, other.access, "com.atproto.sync.getRepo", "did", other.did).Status)
		document := h.do(t, "GET", "/.well-known/did.json", "", nil, "Host", a.handle)
		require.Equal(t, 200, document.Status, "a did:web document is served for ever")
		h.procedure(t, admin(), "com.atproto.server.createAccount", object{"handle": a.handle, "password": "long enough"}).refused(t, 400, "InvalidRequest")
	})
}

func TestServiceAuthExpiration(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		ask := func(params ...string) reply {
			return h.query(t, a.access, "com.atproto.server.getServiceAuth", append([]string{"aud", "did:web:x.example.org"}, params...)...)
		}
		in := func(seconds int64) string { return fmt.Sprint(nowUnix() + seconds) }
		ask("exp", in(-5)).refused(t, 400, "BadExpiration")
		ask("exp", in(7200), "lxm", "com.example.method").refused(t, 400, "BadExpiration")
		ask("exp", in(600)).refused(t, 400, "BadExpiration")
		ask("exp", in(600), "lxm", "com.example.method").ok(t)
		ask().ok(t)
		ask("lxm", "com.atproto.server.createAppPassword").refused(t, 400, "InvalidRequest")
		h.query(t, a.access, "com.atproto.server.getServiceAuth", "aud", "not a did").refused(t, 400, "InvalidRequest")
	})
}

// A service token to this host is an errand of a session: it is no good once
// that is over, and nowhere good for longer than the credential was.
func TestServiceTokensEndWithTheirSession(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		const method = "com.atproto.sync.listRepos"
		expires := time.Now().Add(20 * time.Minute)
		made := h.procedure(t, admin(), "garden.herbarium.admin.createCredential", object{
			"did": a.did, "name": "errand", "scope": "com.atproto.appPass", "expiresAt": expires.UTC().Format(time.RFC3339)}).ok(t)
		opened := h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.handle, "password": made.str("password")}).ok(t)
		ask := func(audience string) string {
			return h.query(t, "Bearer "+opened.str("accessJwt"), "com.atproto.server.getServiceAuth",
				"aud", audience, "lxm", method, "exp", fmt.Sprint(nowUnix()+3000)).ok(t).str("token")
		}
		_, body, _ := strings.Cut(ask("did:web:elsewhere.example.org"), ".")
		raw, err := base64.RawURLEncoding.DecodeString(body[:strings.IndexByte(body, '.')])
		require.NoError(t, err)
		var claims map[string]any
		require.NoError(t, json.Unmarshal(raw, &claims))
		require.LessOrEqual(t, claims["exp"], float64(expires.Unix()))
		require.NotContains(t, claims, "sid", "that is nobody else's business")

		before, after := "Bearer "+ask(string(h.did)), "Bearer "+ask(string(h.did))
		h.query(t, before, method).ok(t)
		require.Equal(t, 200, h.procedure(t, admin(), "garden.herbarium.admin.revokeCredential", object{"did": a.did, "name": "errand"}).Status)
		h.query(t, after, method).refused(t, 401, "JwtExpired")
	})
}

func TestServiceTokensOfAnAccountOpenTheHost(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		token := func(audience, method string) string {
			return "Bearer " + h.query(t, a.access, "com.atproto.server.getServiceAuth", "aud", audience, "lxm", method).ok(t).str("token")
		}
		const method = "com.atproto.sync.listRepos"
		for _, audience := range []string{string(h.did), string(h.did) + "#herbarium_appview", string(h.did) + "#atproto_pds"} {
			once := token(audience, method)
			h.query(t, once, method).ok(t)
			h.query(t, once, method).refused(t, 401, "NonceNotUnique")
		}
		h.query(t, token("did:web:other.example.org", method), method).refused(t, 401, "BadJwtAudience")
		h.query(t, token(string(h.did), "com.atproto.sync.getRepo"), method).refused(t, 401, "BadJwtLexiconMethod")
		r := h.procedure(t, token(string(h.did), "com.atproto.repo.createRecord"), "com.atproto.repo.createRecord",
			object{"repo": a.did, "collection": note, "record": object{}})
		r.refused(t, 400, "InvalidToken")
	})
}

func TestRename(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a, other := h.agent(t, "scout"), h.agent(t, "other")
		rename := func(handle string) reply {
			return h.procedure(t, a.access, "com.atproto.identity.updateHandle", object{"handle": handle})
		}
		rename(other.handle).refused(t, 400, "InvalidRequest")
		require.Contains(t, rename("scout.example.org").refused(t, 400, "InvalidRequest"), "did not resolve", "the domain is the owner's to prove")
		rename("admin.test").refused(t, 400, "HandleNotAvailable")
		require.Equal(t, 200, h.do(t, "GET", "/.well-known/atproto-did", "", nil, "Host", a.handle).Status, "a failed change changes nothing")
		require.Equal(t, 200, rename("Ranger.test").Status)
		require.Equal(t, a.did, h.query(t, "", "com.atproto.identity.resolveHandle", "handle", "ranger.test").ok(t).str("did"))
		h.query(t, "", "com.atproto.identity.resolveHandle", "handle", a.handle).refused(t, 400, "HandleNotFound")
		before := h.lastSeq(t)
		require.Equal(t, 200, rename("ranger.test").Status)
		require.Equal(t, before+1, h.lastSeq(t), "the identity is announced even when it stays")
		require.Equal(t, 200, h.do(t, "GET", "/.well-known/did.json", "", nil, "Host", a.handle).Status, "the DID stays where it was issued")
		h.procedure(t, admin(), "com.atproto.server.createAccount", object{"handle": a.handle, "password": "long enough"}).refused(t, 400, "InvalidRequest")
	})
}

// TestBringAnIdentityAlong is the host's half of a migration: an account for a
// DID whose document names another host stays closed until it names this one.
func TestBringAnIdentityAlong(t *testing.T) {
	const did = "did:web:mine.example.org"
	key, err := atcrypto.GeneratePrivateKeyK256()
	require.NoError(t, err)
	eachHost(t, setting{others: func(t *testing.T) identity.Directory { return directoryOf(t, did, key) }}, func(t *testing.T, h *host) {
		others := h.others.(*identity.MockDirectory)
		proof := func(audience string) string {
			token, err := pds.SignServiceJWT(key, pds.ServiceClaims{
				Issuer: did, Audience: audience, Method: "com.atproto.server.createAccount", Expires: nowUnix() + 60,
			})
			require.NoError(t, err)
			return "Bearer " + token
		}
		seq := h.lastSeq(t)
		body := object{"handle": "mine.test", "did": did, "password": "long enough"}
		h.procedure(t, proof("did:web:other.example.org"), "com.atproto.server.createAccount", body).refused(t, 401, "BadJwtAudience")
		h.procedure(t, admin(), "com.atproto.server.createAccount", body).refused(t, 401, "AuthenticationRequired")
		body["handle"] = "not.mine.example.org"
		h.procedure(t, proof(string(h.did)), "com.atproto.server.createAccount", body).refused(t, 400, "InvalidRequest")
		body["handle"] = "mine.test"
		a := agent{did: did, handle: "mine.test"}
		a.access = "Bearer " + h.procedure(t, proof(string(h.did)), "com.atproto.server.createAccount", body).ok(t).str("accessJwt")
		require.Equal(t, seq, h.lastSeq(t), "nobody is told yet")
		require.Equal(t, "deactivated", h.query(t, a.access, "com.atproto.server.getSession").ok(t).str("status"))
		h.create(t, a, note, object{}).refused(t, 401, "AccountDeactivated")
		h.upload(t, a, []byte("a blob from the old host"), "text/plain").ok(t)
		status := h.query(t, a.access, "com.atproto.server.checkAccountStatus").ok(t)
		require.Equal(t, false, status.at("activated"))
		require.Equal(t, false, status.at("validDid"))
		require.Empty(t, h.query(t, a.access, "com.atproto.repo.listMissingBlobs").ok(t).list("blobs"))

		h.procedure(t, a.access, "com.atproto.server.activateAccount", nil).refused(t, 400, "InvalidRequest")
		wanted := h.query(t, a.access, "com.atproto.identity.getRecommendedDidCredentials").ok(t)
		signing, err := atcrypto.ParsePublicDIDKey(wanted.str("verificationMethods", "atproto"))
		require.NoError(t, err)
		others.Insert(identity.Identity{
			DID: did, Handle: syntax.HandleInvalid,
			Keys:     map[string]identity.VerificationMethod{"atproto": {Type: "Multikey", PublicKeyMultibase: signing.Multibase()}},
			Services: map[string]identity.ServiceEndpoint{"atproto_pds": {Type: "AtprotoPersonalDataServer", URL: wanted.str("services", "atproto_pds", "endpoint")}},
		})
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.activateAccount", nil).Status)
		events, err := h.events.ReadFrom(t.Context(), seq, 10)
		require.NoError(t, err)
		var kinds []string
		for _, e := range events {
			kinds = append(kinds, string(e.Kind))
		}
		require.Equal(t, []string{"#account", "#identity", "#sync"}, kinds)
		require.Equal(t, true, h.query(t, a.access, "com.atproto.server.checkAccountStatus").ok(t).at("validDid"))
		h.create(t, a, note, object{}).ok(t)
	})
}

func TestDeactivateAndActivate(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.deactivateAccount", nil).Status)
		h.create(t, a, note, object{}).refused(t, 401, "AccountDeactivated")
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.activateAccount", nil).Status)
		h.create(t, a, note, object{}).ok(t)
	})
}

func TestTeamOfOtherHosts(t *testing.T) {
	key, err := atcrypto.GeneratePrivateKeyP256()
	require.NoError(t, err)
	const method = "com.atproto.sync.listRepos"
	for name, tc := range map[string]struct {
		team   []syntax.DID
		status int
	}{"in the team": {[]syntax.DID{theIssuer}, 200}, "a stranger": {nil, 403}} {
		t.Run(name, func(t *testing.T) {
			others := func(t *testing.T) identity.Directory { return directoryOf(t, theIssuer, key) }
			eachHost(t, setting{teamDIDs: tc.team, others: others}, func(t *testing.T, h *host) {
				token, err := pds.SignServiceJWT(key, pds.ServiceClaims{
					Issuer: string(theIssuer), Audience: string(h.did), Method: method, Expires: nowUnix() + 60,
				})
				require.NoError(t, err)
				require.Equal(t, tc.status, h.query(t, "Bearer "+token, method).Status)
				upload, err := pds.SignServiceJWT(key, pds.ServiceClaims{
					Issuer: string(theIssuer), Audience: string(h.did), Method: "com.atproto.repo.uploadBlob", Expires: nowUnix() + 60,
				})
				require.NoError(t, err)
				r := h.do(t, "POST", "/xrpc/com.atproto.repo.uploadBlob", "Bearer "+upload, strings.NewReader("x"), "Content-Type", "text/plain")
				require.Equal(t, 403, r.Status, "reading is not having an account")
			})
		})
	}
}
