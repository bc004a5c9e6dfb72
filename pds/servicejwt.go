package pds

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"
	lru "github.com/hashicorp/golang-lru/v2"

	"herbarium.garden/pds/account"
)

// Limits on service JWTs (inter-service auth).
const (
	serviceTokenDefault = time.Minute // life of an issued token when the caller names no exp
	serviceTokenUnbound = time.Minute // longest life of an issued token that names no method
	serviceTokenLongest = time.Hour   // longest life of one that names a method, issued or accepted
	rememberedPurges    = 1 << 12     // issuers whose document was fetched again lately
	purgeEvery          = time.Minute // least time between two fetches that a bad signature causes
)

// signServiceJWT makes a service JWT by an account's key. It is written out
// here: indigo's auth package, which account parses permissions with, changes
// ES256 of the JWT library for the whole process, so nothing of ours signs or
// verifies with that but HS256.
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
// Checks: what jwtRules.read does, with the service DID as the audience, bare or
// with one of the fragments that we serve, and an hour as the longest life; that
// the signature is by the #atproto key of the issuer's DID document; that the
// jti was not seen before.
// Does not check: that the issuer's repo is active, or hosted anywhere.
type serviceVerifier struct {
	rules     jwtRules
	directory identity.Directory
	now       func() time.Time

	// spend notes that a token was used, for all replicas and for good;
	// account.ErrProofUsed if it was before.
	spend func(ctx context.Context, issuer syntax.DID, jti string, expires time.Time) error

	mu     sync.Mutex // makes look-up and insertion of one issuer a single step
	purged *lru.Cache[syntax.DID, time.Time]
}

func newServiceVerifier(service syntax.DID, directory identity.Directory, now func() time.Time,
	spend func(ctx context.Context, issuer syntax.DID, jti string, expires time.Time) error) (*serviceVerifier, error) {
	purged, err := lru.New[syntax.DID, time.Time](rememberedPurges)
	if err != nil {
		return nil, err
	}
	return &serviceVerifier{
		rules: jwtRules{
			what: "service token", renew: "ask for a new one with com.atproto.server.getServiceAuth",
			audiences: []string{string(service), string(service) + "#" + appviewService, string(service) + "#" + pdsService},
			longest:   serviceTokenLongest,
			skew:      clockSkew,
		},
		directory: directory,
		now:       now,
		spend:     spend,
		purged:    purged,
	}, nil
}

// verify returns the token for a call of method, which is spent then.
func (v *serviceVerifier) verify(ctx context.Context, token string, method syntax.NSID) (signedToken, error) {
	t, err := v.rules.read(token, method, v.now())
	if err != nil {
		return signedToken{}, err
	}
	if err := v.checkSignature(ctx, t); err != nil {
		return signedToken{}, err
	}
	// Only a token with a good signature takes up room: anybody can make up the
	// others.
	err = v.spend(ctx, t.issuer, t.id, t.expires)
	if errors.Is(err, account.ErrProofUsed) {
		return signedToken{}, badJWT("NonceNotUnique", "the service token was used before; %s", v.rules.renew)
	}
	return t, err
}

func (v *serviceVerifier) checkSignature(ctx context.Context, t signedToken) error {
	err := v.tryKey(ctx, t)
	if err == nil || !v.mayPurge(t.issuer) {
		return err
	}
	// The issuer may have rotated its key since its document was cached.
	if err := v.directory.Purge(ctx, t.issuer.AtIdentifier()); err != nil {
		return fmt.Errorf("purge identity %s: %w", t.issuer, err)
	}
	return v.tryKey(ctx, t)
}

func (v *serviceVerifier) tryKey(ctx context.Context, t signedToken) error {
	issuer := t.issuer
	ident, err := v.directory.LookupDID(ctx, issuer)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("look up issuer %s: %w", issuer, err)
		}
		return badJWT("BadJwtIss", "the DID document of the issuer %s cannot be read; check that it is published", issuer)
	}
	key, err := ident.PublicKey()
	if err != nil {
		return badJWT("BadJwtIss", "the DID document of the issuer %s has no usable #atproto key; publish one", issuer)
	}
	switch {
	case !t.fits(key):
		return badJWT("BadJwtSignature", "the service token is signed with %s, which is not the kind of the issuer's #atproto key", t.alg)
	case !t.signedBy(key):
		return badJWT("BadJwtSignature", "the signature of the service token is not by the issuer's #atproto key; sign it with that key")
	}
	return nil
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
