package xrpc

import (
	"net/http"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// Kind says what sort of credential a Viewer showed.
type Kind string

// The kinds of credential.
const (
	Anonymous Kind = "anonymous" // none
	Account   Kind = "account"   // an access token of an account hosted here
	Refresh   Kind = "refresh"   // a refresh token of an account hosted here
	Service   Kind = "service"   // a service JWT (inter-service auth) of a DID, for this method
	Admin     Kind = "admin"     // HTTP Basic admin
	Token     Kind = "token"     // an operator's API token
)

// Viewer is who asks. The zero value is nobody.
type Viewer struct {
	Kind      Kind
	DID       syntax.DID // the account or the issuer of the service JWT; "" for nobody and admin
	SessionID string     // sid of the session, when Kind is Account or Refresh
	TokenID   string     // jti of the refresh token, when Kind is Refresh
	Scope     string     // scope of the session as granted ("com.atproto.access", "com.atproto.appPass", "com.atproto.takendown", …)
	Active    bool       // the account is active (not deactivated, not taken down)
	Status    string     // account status when not active ("deactivated", "takendown", …)
	Member    bool       // belongs to the team: hosted account, TEAM_DIDS, admin or API token
	Grants    Grants     // all that a scoped credential may do; nil when its kind alone decides
}

// Grants is what a credential was given, in the permission grammar of atproto
// (https://atproto.com/specs/permission). What it does not name it does not
// allow.
type Grants interface {
	// Repo reports whether a record of collection may be created, updated or
	// deleted (action, as in the grammar) in the credential's own repo.
	Repo(collection syntax.NSID, action string) bool
	// Blob reports whether bytes of a media type may be uploaded.
	Blob(mediaType string) bool
	// RPC reports whether method may be called of audience, a DID with its
	// #service.
	RPC(method syntax.NSID, audience string) bool
	// Account reports whether an attribute of the account ("email", "repo") may
	// be read or managed (action); managing includes reading.
	Account(attribute, action string) bool
	// Identity reports whether "handle", or the whole identity ("*"), may be
	// changed.
	Identity(attribute string) bool
}

// Known reports whether any credential was shown and accepted.
func (v Viewer) Known() bool { return v.Kind != "" && v.Kind != Anonymous }

// IsAdmin reports whether the viewer may do what the operator may do.
func (v Viewer) IsAdmin() bool { return v.Kind == Admin }

// Authenticator turns the credentials of a request into a Viewer. A request
// without credentials is (Viewer{Kind: Anonymous}, nil); a credential that is
// wrong, expired or revoked is an *Error, never nobody. lxm is the method
// asked for, which a service JWT must name. The PDS implements it, cmd wires it.
type Authenticator interface {
	Authenticate(r *http.Request, lxm syntax.NSID) (Viewer, error)
}

// Access classifies a route: which credential it needs. The zero value is
// Unclassified, which registration refuses and a test fails on.
type Access int

// The classes of a route.
const (
	Unclassified Access = iota
	Open                // answers without a credential, in visibility team too (DESIGN.md section 1 lists these)
	Read                // visibility decides: team needs any member, public answers anybody
	Member              // needs a member of the team in both visibilities
	AccessToken         // needs an access token of an account hosted here
	RefreshToken        // needs a refresh token
	AdminOnly           // needs Basic admin
	OwnGate             // the handler asks for a credential of its own kind (the console and its sign-in session)
	Published           // as Read, but while the operator publishes some collections (Config.Published) anybody gets in, and the handler shows who is no Member those alone
)
