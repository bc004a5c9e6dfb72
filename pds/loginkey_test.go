package pds_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	indigoauth "github.com/bluesky-social/indigo/atproto/auth"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds"
)

const keyLogin syntax.NSID = "garden.herbarium.createSession"

func didKey(t *testing.T, key atcrypto.PrivateKey) string {
	t.Helper()
	public, err := key.PublicKey()
	require.NoError(t, err)
	return public.DIDKey()
}

// register adds a login key for an account.
func (h *host) register(t *testing.T, did, name string, key atcrypto.PrivateKey, more ...any) reply {
	t.Helper()
	body := object{"did": did, "name": name, "publicKey": didKey(t, key)}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	return h.procedure(t, admin(), "garden.herbarium.admin.addLoginKey", body)
}

func (h *host) keyLogin(t *testing.T, assertion string) reply {
	t.Helper()
	return h.procedure(t, "", string(keyLogin), object{"assertion": assertion})
}

// From registering a key to its removal, with assertions that indigo signs.
func TestKeyLogin(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		method := keyLogin
		for kind, key := range bothKeys(t) {
			added := h.register(t, a.did, kind, key).ok(t)
			require.NotEmpty(t, added.str("createdAt"))
			delete(added, "createdAt")
			require.Equal(t, object{"name": kind, "publicKey": didKey(t, key), "scope": "com.atproto.appPass"}, added)
			h.register(t, a.did, "again", key).refused(t, 400, "DuplicateCreate")

			assertion, err := indigoauth.SignServiceAuth(syntax.DID(a.did), string(h.did), 50*time.Second, &method, key)
			require.NoError(t, err)
			opened := h.keyLogin(t, assertion).ok(t)
			require.Equal(t, a.did, opened.str("did"))
			require.Equal(t, a.handle, opened.str("handle"))
			require.Equal(t, true, opened.at("active"))
			h.keyLogin(t, assertion).refused(t, 401, "NonceNotUnique")
			listed := h.query(t, admin(), "garden.herbarium.admin.listLoginKeys", "did", a.did).ok(t).list("keys")
			require.Len(t, listed, 1)
			require.NotEmpty(t, object(listed[0].(map[string]any)).str("lastUsedAt"))

			// It acts for the account, and does not manage it.
			byKey := a
			byKey.access = "Bearer " + opened.str("accessJwt")
			h.create(t, byKey, note, object{"$type": note}).ok(t)
			h.procedure(t, byKey.access, "com.atproto.server.createAppPassword", object{"name": "mine"}).refused(t, 400, "InvalidToken")
			h.query(t, byKey.access, "com.atproto.server.getServiceAuth", "aud", "did:web:other.test", "lxm", "chat.bsky.convo.listConvos").refused(t, 400, "InvalidToken")

			h.procedure(t, admin(), "garden.herbarium.admin.removeLoginKey", object{"did": a.did, "publicKey": didKey(t, key)}).ok(t)
			h.query(t, byKey.access, "com.atproto.server.getSession").refused(t, 400, "ExpiredToken")
			h.procedure(t, "Bearer "+opened.str("refreshJwt"), "com.atproto.server.refreshSession", nil).refused(t, 400, "ExpiredToken")
			assertion, err = indigoauth.SignServiceAuth(syntax.DID(a.did), string(h.did), 50*time.Second, &method, key)
			require.NoError(t, err)
			h.keyLogin(t, assertion).refused(t, 401, "AuthenticationRequired")
			h.query(t, a.access, "com.atproto.server.getSession").ok(t) // other sessions go on
			require.Empty(t, h.query(t, admin(), "garden.herbarium.admin.listLoginKeys", "did", a.did).ok(t).list("keys"))
		}
	})
}

func TestPrivilegedLoginKey(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		key, err := atcrypto.GeneratePrivateKeyP256()
		require.NoError(t, err)
		h.register(t, a.did, "all", key, "scope", "com.atproto.access").refused(t, 400, "InvalidRequest")
		h.register(t, a.did, "all", key, "scope", "com.atproto.appPassPrivileged").ok(t)
		method := keyLogin
		assertion, err := indigoauth.SignServiceAuth(syntax.DID(a.did), string(h.did), 50*time.Second, &method, key)
		require.NoError(t, err)
		access := "Bearer " + h.keyLogin(t, assertion).ok(t).str("accessJwt")
		h.query(t, access, "com.atproto.server.getServiceAuth", "aud", "did:web:other.test", "lxm", "chat.bsky.convo.listConvos").ok(t)
	})
}

func TestLoginKeysThatAreRefused(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		key, err := atcrypto.GeneratePrivateKeyK256()
		require.NoError(t, err)
		h.register(t, "did:web:nobody.test", "x", key).refused(t, 400, "NotFound")
		h.query(t, admin(), "garden.herbarium.admin.listLoginKeys", "did", "did:web:nobody.test").refused(t, 400, "NotFound")
		for _, method := range []string{"addLoginKey", "removeLoginKey"} {
			for _, publicKey := range []string{"", "did:key:", "did:key:zQ3", "z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK", "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK"} {
				body := object{"did": a.did, "publicKey": publicKey}
				if method == "addLoginKey" {
					body["name"] = "x"
				}
				h.procedure(t, admin(), "garden.herbarium.admin."+method, body).refused(t, 400, "InvalidRequest")
			}
		}
	})
}

// Each claim on both sides of what is asked of it.
func TestAssertionClaims(t *testing.T) {
	time0 := newClock()
	eachHost(t, setting{clock: time0}, func(t *testing.T, h *host) {
		a, other := h.agent(t, "scout"), h.agent(t, "neighbour")
		key, err := atcrypto.GeneratePrivateKeyP256()
		require.NoError(t, err)
		stranger, err := atcrypto.GeneratePrivateKeyP256()
		require.NoError(t, err)
		h.register(t, a.did, "laptop", key).ok(t)
		now := time0.Now().Unix()
		for name, tc := range map[string]struct {
			change func(*pds.ServiceClaims)
			want   string
		}{
			"as it should be":           {func(*pds.ServiceClaims) {}, ""},
			"a second of life":          {func(c *pds.ServiceClaims) { c.Expires = now + 1 }, ""},
			"a minute and a second":     {func(c *pds.ServiceClaims) { c.Expires = now + 61 }, "BadJwt"},
			"expired now":               {func(c *pds.ServiceClaims) { c.Expires = now }, "JwtExpired"},
			"no exp":                    {func(c *pds.ServiceClaims) { c.Expires = 0 }, "JwtExpired"},
			"exp past all clocks":       {func(c *pds.ServiceClaims) { c.Expires = 1<<62 + 1 }, "BadJwt"},
			"issued in the future":      {func(c *pds.ServiceClaims) { c.IssuedAt = now + 31 }, "BadJwt"},
			"another host":              {func(c *pds.ServiceClaims) { c.Audience = "did:web:other.test" }, "BadJwtAudience"},
			"a service of this host":    {func(c *pds.ServiceClaims) { c.Audience += "#atproto_pds" }, "BadJwtAudience"},
			"no method":                 {func(c *pds.ServiceClaims) { c.Method = "" }, "BadJwtLexiconMethod"},
			"the other createSession":   {func(c *pds.ServiceClaims) { c.Method = "com.atproto.server.createSession" }, "BadJwtLexiconMethod"},
			"issuer is a handle":        {func(c *pds.ServiceClaims) { c.Issuer = a.handle }, "BadJwtIss"},
			"issuer is another account": {func(c *pds.ServiceClaims) { c.Issuer = other.did }, "AuthenticationRequired"},
			"issuer is not hosted":      {func(c *pds.ServiceClaims) { c.Issuer = "did:web:nobody.test" }, "AuthenticationRequired"},
			"longest jti":               {func(c *pds.ServiceClaims) { c.ID = strings.Repeat("x", 256) }, ""},
			"jti too long":              {func(c *pds.ServiceClaims) { c.ID = strings.Repeat("x", 257) }, "BadJwt"},
		} {
			t.Run(name, func(t *testing.T) {
				claims := pds.ServiceClaims{Issuer: a.did, Audience: string(h.did), Method: keyLogin, IssuedAt: now, Expires: now + 60}
				tc.change(&claims)
				assertion, err := pds.SignServiceJWT(key, claims)
				require.NoError(t, err)
				if tc.want == "" {
					h.keyLogin(t, assertion).ok(t)
					return
				}
				h.keyLogin(t, assertion).refused(t, 401, tc.want)
			})
		}

		claims := pds.ServiceClaims{Issuer: a.did, Audience: string(h.did), Method: keyLogin, Expires: now + 60}
		byStranger, err := pds.SignServiceJWT(stranger, claims)
		require.NoError(t, err)
		h.keyLogin(t, byStranger).refused(t, 401, "AuthenticationRequired")
		signing, err := h.accounts.SigningKey(t.Context(), syntax.DID(a.did))
		require.NoError(t, err)
		byRepoKey, err := pds.SignServiceJWT(signing, claims)
		require.NoError(t, err)
		h.keyLogin(t, byRepoKey).refused(t, 401, "AuthenticationRequired") // a service token must not open a session
		good, err := pds.SignServiceJWT(key, claims)
		require.NoError(t, err)
		parts := strings.Split(good, ".")
		for _, alg := range []string{"none", "HS256", "ES256K"} {
			forged := jsonPart(t, map[string]string{"alg": alg, "typ": "JWT"}) + "." + parts[1] + "." + parts[2]
			require.Equal(t, 401, h.keyLogin(t, forged).Status, alg)
		}
		h.query(t, "Bearer "+good, "com.atproto.server.getSession").refused(t, 401, "BadJwtLexiconMethod")
		h.keyLogin(t, a.access[len("Bearer "):]).refused(t, 401, "BadJwt")
		h.keyLogin(t, "").refused(t, 401, "BadJwt")
		h.keyLogin(t, good).ok(t)
	})
}

func TestKeyLoginsAreLimited(t *testing.T) {
	eachHost(t, setting{limits: pds.Limits{SignIns: []pds.Limit{{Points: 1, Window: time.Minute}}}}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		key, err := atcrypto.GeneratePrivateKeyP256()
		require.NoError(t, err)
		claims := pds.ServiceClaims{Issuer: a.did, Audience: string(h.did), Method: keyLogin, Expires: time.Now().Add(50 * time.Second).Unix()}
		assertion, err := pds.SignServiceJWT(key, claims)
		require.NoError(t, err)
		h.keyLogin(t, assertion).refused(t, 401, "AuthenticationRequired")
		h.keyLogin(t, assertion).refused(t, 429, "RateLimitExceeded")
	})
}

func FuzzAssertion(f *testing.F) {
	key, err := atcrypto.GeneratePrivateKeyP256()
	require.NoError(f, err)
	now := time.Unix(1_796_000_000, 0)
	good, err := pds.SignServiceJWT(key, pds.ServiceClaims{Issuer: "did:web:scout.test", Audience: string(theService), Method: keyLogin, Expires: now.Unix() + 30})
	require.NoError(f, err)
	for _, seed := range []string{good, "a.b.c", "eyJhbGciOiJFUzI1NiJ9.e30.AA", "eyJhbGciOiJFUzI1NksiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJkaWQ6d2ViOngudGVzdCJ9.", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, assertion string) {
		signedBy, err := pds.ReadAssertion(theService, assertion, now)
		if err != nil {
			var answer *xrpc.Error
			require.ErrorAs(t, err, &answer)
			require.Equal(t, 401, answer.Status)
			return
		}
		public, err := key.PublicKey()
		require.NoError(t, err)
		// Base64 can be written in several ways; what was signed cannot.
		if signedBy(public) && assertion[:strings.LastIndexByte(assertion, '.')] != good[:strings.LastIndexByte(good, '.')] {
			t.Fatalf("accepted %q", assertion)
		}
	})
}
