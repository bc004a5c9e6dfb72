package pds_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	indigoauth "github.com/bluesky-social/indigo/atproto/auth"
	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds"
)

const (
	theService = syntax.DID("did:web:herbarium.test")
	theIssuer  = syntax.DID("did:web:scout.elsewhere.test")
	theMethod  = syntax.NSID("com.atproto.repo.uploadBlob")
)

func directoryOf(t testing.TB, did syntax.DID, key atcrypto.PrivateKey) *identity.MockDirectory {
	t.Helper()
	public, err := key.PublicKey()
	require.NoError(t, err)
	dir := identity.NewMockDirectory()
	dir.Insert(identity.Identity{
		DID:    did,
		Handle: syntax.HandleInvalid,
		Keys:   map[string]identity.VerificationMethod{"atproto": {Type: "Multikey", PublicKeyMultibase: public.Multibase()}},
	})
	return dir
}

func bothKeys(t *testing.T) map[string]atcrypto.PrivateKey {
	t.Helper()
	p256, err := atcrypto.GeneratePrivateKeyP256()
	require.NoError(t, err)
	k256, err := atcrypto.GeneratePrivateKeyK256()
	require.NoError(t, err)
	return map[string]atcrypto.PrivateKey{"p256": p256, "k256": k256}
}

func TestServiceTokenRoundTripWithIndigo(t *testing.T) {
	t.Parallel()
	for name, key := range bothKeys(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := directoryOf(t, theIssuer, key)
			method := theMethod

			verify, err := pds.NewServiceVerifier(theService, dir, time.Now)
			require.NoError(t, err)
			theirs, err := indigoauth.SignServiceAuth(theIssuer, string(theService), time.Minute, &method, key)
			require.NoError(t, err)
			issuer, err := verify(t.Context(), theirs, method)
			require.NoError(t, err)
			require.Equal(t, theIssuer, issuer)

			ours, err := pds.SignServiceJWT(key, pds.ServiceClaims{
				Issuer: string(theIssuer), Audience: "did:web:other.test", Method: method,
				IssuedAt: time.Now().Unix(), Expires: time.Now().Add(time.Minute).Unix(),
			})
			require.NoError(t, err)
			validator := indigoauth.ServiceAuthValidator{Audience: "did:web:other.test", Dir: dir}
			issuer, err = validator.Validate(t.Context(), ours, &method)
			require.NoError(t, err)
			require.Equal(t, theIssuer, issuer)
		})
	}
}

func TestServiceTokenClaims(t *testing.T) {
	t.Parallel()
	key, err := atcrypto.GeneratePrivateKeyK256()
	require.NoError(t, err)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	good := func() pds.ServiceClaims {
		return pds.ServiceClaims{
			Issuer: string(theIssuer), Audience: string(theService), Method: theMethod,
			IssuedAt: now.Unix(), Expires: now.Add(time.Minute).Unix(),
		}
	}
	tests := []struct {
		name   string
		change func(*pds.ServiceClaims)
		want   string // error name, "" when accepted
	}{
		{"as it should be", func(*pds.ServiceClaims) {}, ""},
		{"audience with #herbarium_appview", func(c *pds.ServiceClaims) { c.Audience += "#herbarium_appview" }, ""},
		{"audience with #atproto_pds", func(c *pds.ServiceClaims) { c.Audience += "#atproto_pds" }, ""},
		{"audience with another fragment", func(c *pds.ServiceClaims) { c.Audience += "#bsky_appview" }, "BadJwtAudience"},
		{"another audience", func(c *pds.ServiceClaims) { c.Audience = "did:web:other.test" }, "BadJwtAudience"},
		{"no audience", func(c *pds.ServiceClaims) { c.Audience = "" }, "BadJwtAudience"},
		{"no lxm", func(c *pds.ServiceClaims) { c.Method = "" }, "BadJwtLexiconMethod"},
		{"another lxm", func(c *pds.ServiceClaims) { c.Method = "com.atproto.repo.createRecord" }, "BadJwtLexiconMethod"},
		{"an hour of life", func(c *pds.ServiceClaims) { c.Expires = now.Add(time.Hour).Unix() }, ""},
		{"a day of life", func(c *pds.ServiceClaims) { c.Expires = now.Add(24 * time.Hour).Unix() }, "BadJwt"},
		{"a year of life", func(c *pds.ServiceClaims) { c.Expires = now.AddDate(1, 0, 0).Unix() }, "BadJwt"},
		{"no exp", func(c *pds.ServiceClaims) { c.Expires = 0 }, "JwtExpired"},
		{"expired this second", func(c *pds.ServiceClaims) { c.Expires = now.Unix() }, "JwtExpired"},
		{"issued in the future", func(c *pds.ServiceClaims) { c.IssuedAt = now.Add(time.Hour).Unix() }, "BadJwt"},
		{"issuer is no DID", func(c *pds.ServiceClaims) { c.Issuer = "scout.test" }, "BadJwtIss"},
		{"issuer with a fragment", func(c *pds.ServiceClaims) { c.Issuer += "#atproto" }, "BadJwtIss"},
		{"issuer is not known", func(c *pds.ServiceClaims) { c.Issuer = "did:web:nobody.test" }, "BadJwtIss"},
		{"jti past all reason", func(c *pds.ServiceClaims) { c.ID = strings.Repeat("x", 300) }, "BadJwt"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			verify, err := pds.NewServiceVerifier(theService, directoryOf(t, theIssuer, key), func() time.Time { return now })
			require.NoError(t, err)
			claims := good()
			tc.change(&claims)
			token, err := pds.SignServiceJWT(key, claims)
			require.NoError(t, err)
			_, err = verify(t.Context(), token, theMethod)
			requireName(t, tc.want, err)
		})
	}
}

func TestServiceTokenIsGoodOnce(t *testing.T) {
	t.Parallel()
	key, err := atcrypto.GeneratePrivateKeyP256()
	require.NoError(t, err)
	verify, err := pds.NewServiceVerifier(theService, directoryOf(t, theIssuer, key), time.Now)
	require.NoError(t, err)
	method := theMethod
	token, err := indigoauth.SignServiceAuth(theIssuer, string(theService), time.Minute, &method, key)
	require.NoError(t, err)
	_, err = verify(t.Context(), token, theMethod)
	require.NoError(t, err)
	_, err = verify(t.Context(), token, theMethod)
	requireName(t, "NonceNotUnique", err)
}

func TestServiceTokenForgeries(t *testing.T) {
	t.Parallel()
	keys := bothKeys(t)
	now := time.Now() // stands still: the parallel subtests may wait longer than a token lives
	dir := directoryOf(t, theIssuer, keys["p256"])
	claims := pds.ServiceClaims{
		Issuer: string(theIssuer), Audience: string(theService), Method: theMethod, Expires: now.Add(time.Minute).Unix(),
	}
	good, err := pds.SignServiceJWT(keys["p256"], claims)
	require.NoError(t, err)
	otherAlg, err := pds.SignServiceJWT(keys["k256"], claims)
	require.NoError(t, err)
	stranger, err := atcrypto.GeneratePrivateKeyP256()
	require.NoError(t, err)
	otherKey, err := pds.SignServiceJWT(stranger, claims)
	require.NoError(t, err)
	parts := strings.Split(good, ".")

	tests := map[string]struct{ token, want string }{
		"signed by another key":      {otherKey, "BadJwtSignature"},
		"signed with another curve":  {otherAlg, "BadJwtSignature"},
		"alg none":                   {jsonPart(t, map[string]string{"alg": "none", "typ": "JWT"}) + "." + parts[1] + ".", "BadJwt"},
		"alg HS256":                  {jsonPart(t, map[string]string{"alg": "HS256", "typ": "JWT"}) + "." + parts[1] + "." + parts[2], "BadJwt"},
		"a session token's type":     {jsonPart(t, map[string]string{"alg": "ES256", "typ": "at+jwt"}) + "." + parts[1] + "." + parts[2], "BadJwtType"},
		"signature left out":         {parts[0] + "." + parts[1] + ".", "BadJwtSignature"},
		"two parts":                  {parts[0] + "." + parts[1], "BadJwt"},
		"no base64":                  {"%%%.%%%.%%%", "BadJwt"},
		"empty":                      {"", "BadJwt"},
		"a list where an object is":  {jsonPart(t, []int{1}) + "." + parts[1] + "." + parts[2], "BadJwt"},
		"claims of the wrong kind":   {parts[0] + "." + jsonPart(t, map[string]any{"iss": 7}) + "." + parts[2], "BadJwt"},
		"larger than a token can be": {parts[0] + "." + strings.Repeat("A", 20_000) + "." + parts[2], "BadJwt"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verify, err := pds.NewServiceVerifier(theService, dir, func() time.Time { return now })
			require.NoError(t, err)
			_, err = verify(t.Context(), tc.token, theMethod)
			requireName(t, tc.want, err)
		})
	}
}

func FuzzServiceToken(f *testing.F) {
	key, err := atcrypto.GeneratePrivateKeyP256()
	require.NoError(f, err)
	now := time.Unix(1_796_000_000, 0)
	good, err := pds.SignServiceJWT(key, pds.ServiceClaims{
		Issuer: string(theIssuer), Audience: string(theService), Method: theMethod, IssuedAt: now.Unix(), Expires: now.Unix() + 60,
	})
	require.NoError(f, err)
	for _, seed := range []string{good, "a.b.c", "eyJhbGciOiJFUzI1NiJ9.e30.AA", "eyJhbGciOiJFUzI1NksiLCJ0eXAiOiJKV1QifQ.eyJpc3MiOiJkaWQ6d2ViOngudGVzdCJ9.", ""} {
		f.Add(seed)
	}
	dir := directoryOf(f, theIssuer, key)
	f.Fuzz(func(t *testing.T, token string) {
		verify, err := pds.NewServiceVerifier(theService, dir, func() time.Time { return now })
		require.NoError(t, err)
		issuer, err := verify(t.Context(), token, theMethod)
		if err != nil {
			var answer *xrpc.Error
			require.ErrorAs(t, err, &answer)
			require.Equal(t, 401, answer.Status)
			return
		}
		// Base64 can be written in several ways; what was signed cannot.
		require.Equal(t, theIssuer, issuer)
		require.Equal(t, good[:strings.LastIndexByte(good, '.')], token[:strings.LastIndexByte(token, '.')])
	})
}

func jsonPart(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// requireName checks the XRPC error name of err; "" for no error.
func requireName(t *testing.T, want string, err error) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
		return
	}
	var answer *xrpc.Error
	require.True(t, errors.As(err, &answer), "want an XRPC error %s, got %v", want, err)
	require.Equal(t, want, answer.Name, answer.Message)
}
