package account

import (
	"time"
)

// Scope is what a session may do. It is fixed when the session starts and
// survives every refresh.
type Scope string

// The scopes, named as the reference PDS names them.
const (
	ScopeAccess            Scope = "com.atproto.access"            // signed in with the main password
	ScopeAppPass           Scope = "com.atproto.appPass"           // an app password
	ScopeAppPassPrivileged Scope = "com.atproto.appPassPrivileged" // a privileged app password
	ScopeTakendown         Scope = "com.atproto.takendown"         // a taken down account that asked to sign in (allowTakendown)
)

// scopeRefresh is the scope claim of every refresh token.
const scopeRefresh Scope = "com.atproto.refresh"

// Full reports whether the session was opened with the main password: the
// methods that manage the account itself ask for that.
func (s Scope) Full() bool { return s == ScopeAccess }

// Lifetimes of what a session hands out.
const (
	AccessLifetime  = 2 * time.Hour
	RefreshLifetime = 90 * 24 * time.Hour
	// RefreshGrace is how long a used refresh token still leads to its one
	// successor: two racing refreshes get the same token, a lost answer can be
	// asked for again.
	RefreshGrace = 2 * time.Hour
)

// Tokens are what a client keeps of a session.
type Tokens struct {
	SessionID string
	Access    string // JWT, typ at+jwt, AccessLifetime
	Refresh   string // JWT, typ refresh+jwt, RefreshLifetime, single use
}

// Grant is an accepted token: who holds it and what for. The account's status
// is not judged here, for it depends on the method: a deactivated account may
// read its session and refresh it, a taken down one may not.
type Grant struct {
	Account   Account
	SessionID string
	TokenID   string // jti; refresh tokens only
	Scope     Scope  // of the session, for refresh tokens too
	ExpiresAt time.Time
}

// AppPassword describes an app password; the password itself is shown once.
type AppPassword struct {
	Name       string
	Privileged bool
	CreatedAt  time.Time
}

// Invite is an invite code.
type Invite struct {
	Code       string
	ForAccount string // a DID, or "admin"
	CreatedBy  string
	CreatedAt  time.Time
	Uses       int // as created
	UsesLeft   int
	Disabled   bool
}
