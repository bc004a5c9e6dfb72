package account

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/golang-jwt/jwt/v5"
)

const (
	typAccess  = "at+jwt" // RFC 9068
	typRefresh = "refresh+jwt"

	// maxToken bounds what is parsed: our own tokens have some 500 bytes, and a
	// third more than maxScope with the longest scope.
	maxToken       = 4 << 10
	tokenCacheSize = 16384
)

// tokenHash is the key of a verified token in memory: not the token itself.
type tokenHash [sha256.Size]byte

// claims are what a token of this host says, its signature verified.
type claims struct {
	did     syntax.DID
	sid     string
	jti     string
	scope   Scope
	refresh bool
	issued  time.Time // not read back
	expires time.Time

	permissions *Permissions // what scope is made of; nil when it has a name
}

// tokenClaims is the payload. The audience is a string, as in the reference
// PDS, and not the list that the library would write.
type tokenClaims struct {
	jwt.RegisteredClaims
	Audience  string `json:"aud"`
	Scope     Scope  `json:"scope"`
	SessionID string `json:"sid"`
}

// mint signs a token (HS256).
func (s *Store) mint(c claims) (string, error) {
	typ := typAccess
	if c.refresh {
		typ = typRefresh
	}
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, tokenClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: string(c.did), ID: c.jti,
			IssuedAt: jwt.NewNumericDate(c.issued), ExpiresAt: jwt.NewNumericDate(c.expires),
		},
		Audience: string(s.cfg.ServiceDID), Scope: c.scope, SessionID: c.sid,
	})
	token.Header["typ"] = typ
	signed, err := token.SignedString(*s.cfg.Secrets.jwtSecret)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return signed, nil
}

// read accepts a token of this host, expired or not.
//
// Checks: HS256 and no other algorithm, the signature, typ, audience, that
// subject, session and expiry are there, that typ and scope belong together,
// that the scope is one we know how to judge.
// Does not check: the time (expired), whether the session goes on, the account.
func (s *Store) read(token string) (claims, error) {
	if len(token) > maxToken {
		return claims{}, fmt.Errorf("%w: too long", ErrTokenInvalid)
	}
	hash := tokenHash(sha256.Sum256([]byte(token)))
	if c, ok := s.tokens.Get(hash); ok {
		return c, nil
	}
	var payload tokenClaims
	parsed, err := s.parser().ParseWithClaims(token, &payload, func(*jwt.Token) (any, error) { return *s.cfg.Secrets.jwtSecret, nil })
	if err != nil {
		// The library's words may quote the token.
		return claims{}, fmt.Errorf("%w: %s", ErrTokenInvalid, tokenFault(err))
	}
	c := claims{sid: payload.SessionID, jti: payload.ID, scope: payload.Scope}
	switch parsed.Header["typ"] {
	case typAccess:
	case typRefresh:
		c.refresh = true
	default:
		return claims{}, fmt.Errorf("%w: unknown typ", ErrTokenInvalid)
	}
	if c.did, err = syntax.ParseDID(payload.Subject); err != nil {
		return claims{}, fmt.Errorf("%w: no subject", ErrTokenInvalid)
	}
	switch {
	case payload.Audience != string(s.cfg.ServiceDID):
		return claims{}, fmt.Errorf("%w: made for another host", ErrTokenInvalid)
	case payload.ExpiresAt == nil || c.sid == "":
		return claims{}, fmt.Errorf("%w: incomplete", ErrTokenInvalid)
	case c.refresh && (c.jti == "" || c.scope != scopeRefresh), !c.refresh && c.scope == scopeRefresh:
		return claims{}, fmt.Errorf("%w: scope and typ differ", ErrTokenInvalid)
	}
	if !c.refresh {
		if c.permissions, err = c.scope.Permissions(); err != nil {
			return claims{}, fmt.Errorf("%w: unknown scope", ErrTokenInvalid)
		}
	}
	c.expires = payload.ExpiresAt.Time
	s.tokens.Add(hash, c)
	return c, nil
}

func (s *Store) parser() *jwt.Parser {
	return jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding())
}

func tokenFault(err error) string {
	switch {
	case errors.Is(err, jwt.ErrTokenMalformed):
		return "not a JWT"
	case errors.Is(err, jwt.ErrTokenUnverifiable):
		return "cannot be verified"
	}
	return "not signed by this host"
}

// expired reports whether the token is past its time.
func (s *Store) expired(c claims) bool { return !s.cfg.Now().Before(c.expires) }
