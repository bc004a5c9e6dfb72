package pds

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons/xrpc"
)

// Limits on a JWT that somebody else signed.
const (
	maxSignedToken = 8 << 10          // bytes; a real one has about 400
	maxTokenID     = 256              // bytes of a jti
	clockSkew      = 30 * time.Second // how far the issuer's clock may be ahead of ours
)

// serviceClaims are the claims of a service JWT, and of an assertion of key
// login (https://atproto.com/specs/xrpc#inter-service-authentication-jwt).
type serviceClaims struct {
	Issuer   string      `json:"iss"`
	Audience string      `json:"aud"`
	Expires  int64       `json:"exp"` // seconds since 1970
	IssuedAt int64       `json:"iat,omitempty"`
	Method   syntax.NSID `json:"lxm,omitempty"`
	ID       string      `json:"jti"`
	// SessionID is ours: the session that asked for a token to this very host,
	// whose end is the token's.
	SessionID string `json:"sid,omitempty"`
}

type jwtHeader struct {
	Alg string `json:"alg"`
	Typ string `json:"typ"`
}

// jwtRules are what a JWT by an account's key must claim, and the words that a
// refusal speaks of it in.
type jwtRules struct {
	what      string   // what the token is, as a noun
	renew     string   // how to get another one, as an imperative
	audiences []string // any of them will do
	longest   time.Duration
	skew      time.Duration // how much further ahead exp may be, for clocks differ
}

// signedToken is a JWT whose claims fit; who signed it is still to be found out.
type signedToken struct {
	issuer  syntax.DID
	id      string // jti
	session string // sid; "" in what another host made
	expires time.Time
	alg     string // ES256 or ES256K
	signed  []byte // what the signature is over
	sig     []byte
}

func badJWT(name, format string, args ...any) error { return xrpc.Errorf(401, name, format, args...) }

// read takes a token for a call of method.
//
// Checks: the algorithm (ES256, ES256K); that the type is not that of a session
// token; issuer, audience, method and jti; that exp is ahead and not too far;
// that iat is not ahead. Does not check: the signature, and whether the token
// was used before.
func (r jwtRules) read(token string, method syntax.NSID, now time.Time) (signedToken, error) {
	header, claims, t, err := splitJWT(token)
	if err != nil {
		return signedToken{}, badJWT("BadJwt", "the %s is malformed: %v; %s", r.what, err, r.renew)
	}
	t.issuer, err = syntax.ParseDID(claims.Issuer)
	switch {
	case strings.Contains(strings.ToLower(header.Typ), "+jwt"):
		return signedToken{}, badJWT("BadJwtType", "a token of type %q is no %s; %s", header.Typ, r.what, r.renew)
	case err != nil:
		return signedToken{}, badJWT("BadJwtIss", "iss of the %s is not a DID; set it to the DID of the account that signs", r.what)
	case !slices.Contains(r.audiences, claims.Audience):
		return signedToken{}, badJWT("BadJwtAudience", "the %s is for another service; set aud to the DID that com.atproto.server.describeServer tells", r.what)
	case claims.Method == "":
		return signedToken{}, badJWT("BadJwtLexiconMethod", "the %s names no method; set lxm to %s", r.what, method)
	case claims.Method != method:
		return signedToken{}, badJWT("BadJwtLexiconMethod", "the %s is for another method; set lxm to %s", r.what, method)
	case claims.ID == "" || len(claims.ID) > maxTokenID:
		return signedToken{}, badJWT("BadJwt", "the %s has no usable jti; set it to a fresh random string", r.what)
	case !t.expires.After(now):
		return signedToken{}, badJWT("JwtExpired", "the %s has expired; %s", r.what, r.renew)
	case t.expires.After(now.Add(r.longest + r.skew)):
		return signedToken{}, badJWT("BadJwt", "the %s lives too long; set exp at most %d seconds ahead", r.what, int(r.longest.Seconds()))
	case claims.IssuedAt != 0 && time.Unix(claims.IssuedAt, 0).After(now.Add(clockSkew)):
		return signedToken{}, badJWT("BadJwt", "iat of the %s is ahead of this server's clock; check the clock of the issuer", r.what)
	}
	return t, nil
}

// fits reports whether the key is of the kind that alg says.
func (t signedToken) fits(key atcrypto.PublicKey) bool {
	_, k256 := key.(*atcrypto.PublicKeyK256)
	return k256 == (t.alg == "ES256K")
}

// signedBy reports whether the key made the signature. JWT libraries do not
// care for the low-S form that atproto asks of commits.
func (t signedToken) signedBy(key atcrypto.PublicKey) bool {
	return t.fits(key) && key.HashAndVerifyLenient(t.signed, t.sig) == nil
}

var errJWTShape = errors.New("want three parts in base64url")

// splitJWT takes a compact JWS apart without believing any of it.
func splitJWT(token string) (header jwtHeader, claims serviceClaims, t signedToken, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > maxSignedToken {
		return header, claims, t, errJWTShape
	}
	if err = decodePart(parts[0], &header); err != nil {
		return header, claims, t, err
	}
	if header.Alg != "ES256" && header.Alg != "ES256K" {
		return header, claims, t, errors.New("want alg ES256 or ES256K")
	}
	if err = decodePart(parts[1], &claims); err != nil {
		return header, claims, t, err
	}
	if t.sig, err = base64.RawURLEncoding.DecodeString(parts[2]); err != nil {
		return header, claims, t, errJWTShape
	}
	t.alg, t.id, t.session, t.expires = header.Alg, claims.ID, claims.SessionID, time.Unix(claims.Expires, 0)
	t.signed = []byte(parts[0] + "." + parts[1])
	return header, claims, t, nil
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
