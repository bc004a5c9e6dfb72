package pds

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"
	lru "github.com/hashicorp/golang-lru/v2"

	"herbarium.garden/lexicons/xrpc"
)

// Limits on service JWTs (inter-service auth).
const (
	serviceTokenDefault = time.Minute      // life of an issued token when the caller names no exp
	serviceTokenUnbound = time.Minute      // longest life of an issued token that names no method
	serviceTokenLongest = time.Hour        // longest life of one that names a method, issued or accepted
	serviceClockSkew    = 30 * time.Second // how far the issuer's clock may be ahead
	maxServiceToken     = 8 << 10          // bytes; a real one has about 400
	rememberedTokens    = 1 << 16          // jti's remembered against replay
	rememberedPurges    = 1 << 12          // issuers whose document was fetched again lately
	purgeEvery          = time.Minute      // least time between two fetches that a bad signature causes
)

// serviceClaims are the claims of a service JWT
// (https://atproto.com/specs/xrpc#inter-service-authentication-jwt).
type serviceClaims struct {
	Issuer   string      `json:"iss"`
	Audience string      `json:"aud"`
	Expires  int64       `json:"exp"` // seconds since 1970
	IssuedAt int64       `json:"iat,omitempty"`
	Method   syntax.NSID `json:"lxm,omitempty"`
	ID       string      `json:"jti"`
}

type jwtHeader struct {
	Alg string `json:"alg"`
	Typ string `json:"typ"`
}

// signServiceJWT makes a service JWT by an account's key. It is written out
// here, not taken from indigo's auth package, because importing that one
// re-registers ES256 for the whole process.
func signServiceJWT(key atcrypto.PrivateKey, claims serviceClaims) (string, error) {
	header := jwtHeader{Typ: "JWT"}
	switch key.(type) {
	case *atcrypto.PrivateKeyP256:
		header.Alg = "ES256"
	case *atcrypto.PrivateKeyK256:
		header.Alg = "ES256K"
	default:
		return "", fmt.Errorf("sign service token: unknown kind of key %T", key)
	}
	if claims.ID == "" {
		claims.ID = rand.Text()
	}
	head, err := json.Marshal(header)
	if err != nil {
		return "", fmt.Errorf("sign service token: %w", err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("sign service token: %w", err)
	}
	signed := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(body)
	sig, err := key.HashAndSign([]byte(signed))
	if err != nil {
		return "", fmt.Errorf("sign service token: %w", err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(sig), nil
}

// serviceVerifier accepts service JWTs that are addressed to this service.
//
// Checks: the algorithm (ES256, ES256K); the type is not that of a session
// token; the audience is the service DID, bare or with one of the fragments
// that we serve; lxm is there and is the method that was called; exp is ahead
// and not further than an hour; iat is not ahead; the signature is by
// the #atproto key of the issuer's DID document; the jti was not seen before.
// Does not check: that the issuer's repo is active, or hosted anywhere.
type serviceVerifier struct {
	audiences map[string]bool
	directory identity.Directory
	now       func() time.Time

	mu     sync.Mutex // makes look-up and insertion of one jti a single step
	seen   *lru.Cache[string, time.Time]
	purged *lru.Cache[syntax.DID, time.Time]
}

func newServiceVerifier(service syntax.DID, directory identity.Directory, now func() time.Time) (*serviceVerifier, error) {
	seen, err := lru.New[string, time.Time](rememberedTokens)
	if err != nil {
		return nil, err
	}
	purged, err := lru.New[syntax.DID, time.Time](rememberedPurges)
	if err != nil {
		return nil, err
	}
	return &serviceVerifier{
		audiences: map[string]bool{
			string(service):                        true,
			string(service) + "#" + appviewService: true,
			string(service) + "#" + pdsService:     true,
		},
		directory: directory,
		now:       now,
		seen:      seen,
		purged:    purged,
	}, nil
}

func badServiceJWT(name, format string, args ...any) error {
	return xrpc.Errorf(401, name, format, args...)
}

// verify returns the issuer of the token for a call of method.
func (v *serviceVerifier) verify(ctx context.Context, token string, method syntax.NSID) (syntax.DID, error) {
	header, claims, signed, sig, err := splitServiceJWT(token)
	if err != nil {
		return "", badServiceJWT("BadJwt", "the service token is malformed: %v; ask for a new one with com.atproto.server.getServiceAuth", err)
	}
	issuer, err := v.checkClaims(header, claims, method)
	if err != nil {
		return "", err
	}
	if err := v.checkSignature(ctx, issuer, header.Alg, signed, sig); err != nil {
		return "", err
	}
	// Only a token with a good signature may take up room in the memory of
	// jti's: anybody can make up the others.
	if !v.remember(string(issuer)+" "+claims.ID, time.Unix(claims.Expires, 0)) {
		return "", badServiceJWT("NonceNotUnique", "the service token was used before; ask for a new one with com.atproto.server.getServiceAuth")
	}
	return issuer, nil
}

func (v *serviceVerifier) checkClaims(header jwtHeader, claims serviceClaims, method syntax.NSID) (syntax.DID, error) {
	now := v.now()
	expires := time.Unix(claims.Expires, 0)
	issuer, err := syntax.ParseDID(claims.Issuer)
	switch {
	case strings.Contains(strings.ToLower(header.Typ), "+jwt"):
		return "", badServiceJWT("BadJwtType", "a token of type %q is not a service token; ask for one with com.atproto.server.getServiceAuth", header.Typ)
	case err != nil:
		return "", badServiceJWT("BadJwtIss", "iss of the service token is not a DID; set it to the DID of the account that signs")
	case !v.audiences[claims.Audience]:
		return "", badServiceJWT("BadJwtAudience", "the service token is for another service; set aud to the DID that com.atproto.server.describeServer tells")
	case claims.Method == "":
		return "", badServiceJWT("BadJwtLexiconMethod", "the service token names no method; set lxm to %s", method)
	case claims.Method != method:
		return "", badServiceJWT("BadJwtLexiconMethod", "the service token is for another method; set lxm to %s", method)
	case claims.ID == "" || len(claims.ID) > 256:
		return "", badServiceJWT("BadJwt", "the service token has no usable jti; set it to a fresh random string")
	case !expires.After(now):
		return "", badServiceJWT("JwtExpired", "the service token has expired; ask for a new one with com.atproto.server.getServiceAuth")
	case expires.After(now.Add(serviceTokenLongest + serviceClockSkew)):
		return "", badServiceJWT("BadJwt", "the service token lives too long; set exp at most %d seconds ahead", int(serviceTokenLongest.Seconds()))
	case claims.IssuedAt != 0 && time.Unix(claims.IssuedAt, 0).After(now.Add(serviceClockSkew)):
		return "", badServiceJWT("BadJwt", "iat of the service token is ahead of this server's clock; check the clock of the issuer")
	}
	return issuer, nil
}

func (v *serviceVerifier) checkSignature(ctx context.Context, issuer syntax.DID, alg string, signed, sig []byte) error {
	err := v.tryKey(ctx, issuer, alg, signed, sig)
	if err == nil || !v.mayPurge(issuer) {
		return err
	}
	// The issuer may have rotated its key since its document was cached.
	if err := v.directory.Purge(ctx, issuer.AtIdentifier()); err != nil {
		return fmt.Errorf("purge identity %s: %w", issuer, err)
	}
	return v.tryKey(ctx, issuer, alg, signed, sig)
}

func (v *serviceVerifier) tryKey(ctx context.Context, issuer syntax.DID, alg string, signed, sig []byte) error {
	ident, err := v.directory.LookupDID(ctx, issuer)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("look up issuer %s: %w", issuer, err)
		}
		return badServiceJWT("BadJwtIss", "the DID document of the issuer %s cannot be read; check that it is published", issuer)
	}
	key, err := ident.PublicKey()
	if err != nil {
		return badServiceJWT("BadJwtIss", "the DID document of the issuer %s has no usable #atproto key; publish one", issuer)
	}
	if (alg == "ES256K") != isK256(key) {
		return badServiceJWT("BadJwtSignature", "the service token is signed with %s, which is not the kind of the issuer's #atproto key", alg)
	}
	if err := key.HashAndVerifyLenient(signed, sig); err != nil {
		return badServiceJWT("BadJwtSignature", "the signature of the service token is not by the issuer's #atproto key; sign it with that key")
	}
	return nil
}

func isK256(key atcrypto.PublicKey) bool {
	_, ok := key.(*atcrypto.PublicKeyK256)
	return ok
}

// mayPurge bounds how often a bad signature, which anybody can send, makes us
// fetch the issuer's document again.
func (v *serviceVerifier) mayPurge(issuer syntax.DID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	if last, ok := v.purged.Get(issuer); ok && now.Before(last.Add(purgeEvery)) {
		return false
	}
	v.purged.Add(issuer, now)
	return true
}

// remember reports whether key was not seen before.
func (v *serviceVerifier) remember(key string, expires time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if until, ok := v.seen.Get(key); ok && v.now().Before(until) {
		return false
	}
	v.seen.Add(key, expires)
	return true
}

var errJWTShape = errors.New("want three parts in base64url")

// splitServiceJWT takes a compact JWS apart without believing any of it.
func splitServiceJWT(token string) (header jwtHeader, claims serviceClaims, signed, sig []byte, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > maxServiceToken {
		return header, claims, nil, nil, errJWTShape
	}
	if err = decodePart(parts[0], &header); err != nil {
		return header, claims, nil, nil, err
	}
	if header.Alg != "ES256" && header.Alg != "ES256K" {
		return header, claims, nil, nil, errors.New("want alg ES256 or ES256K")
	}
	if err = decodePart(parts[1], &claims); err != nil {
		return header, claims, nil, nil, err
	}
	if sig, err = base64.RawURLEncoding.DecodeString(parts[2]); err != nil {
		return header, claims, nil, nil, errJWTShape
	}
	return header, claims, []byte(parts[0] + "." + parts[1]), sig, nil
}

func decodePart(part string, into any) error {
	raw, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return errJWTShape
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return errors.New("want a JSON object in each part")
	}
	return nil
}
