package account

import (
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// Status is the state of an account as the protocol has it
// (com.atproto.sync.getRepoStatus). "active" is never sent as a status there:
// that an account is active is a field of its own.
type Status string

// The statuses, the one that hides the others first: a deleted account is
// deleted whatever else was done to it, and one that is both taken down and
// deactivated is taken down until the takedown is lifted.
const (
	Deleted     Status = "deleted"
	TakenDown   Status = "takendown"
	Suspended   Status = "suspended"
	Deactivated Status = "deactivated"
	Active      Status = "active"
)

// IdentityKind says where the DID of an account comes from.
type IdentityKind string

// The kinds of identity.
const (
	Web IdentityKind = "web" // did:web, issued and served by this host
	PLC IdentityKind = "plc" // did:plc, created by this host in a PLC directory
	Own IdentityKind = "own" // brought along by its owner; resolved like any foreign DID
)

// Account is a hosted DID. Times are UTC with milliseconds; a pointer that is
// nil means never.
type Account struct {
	DID            syntax.DID
	Handle         syntax.Handle // lower case; syntax.HandleInvalid once deleted
	Identity       IdentityKind
	Email          string // "" if none
	EmailConfirmed *time.Time
	HasPassword    bool
	Status         Status
	CreatedAt      time.Time
	DeactivatedAt  *time.Time
	DeleteAfter    *time.Time // asked for with the deactivation
	TakenDownAt    *time.Time
	TakedownRef    string
	DeletedAt      *time.Time

	InvitesDisabled bool       // it gets no new invite codes
	InviteNote      string     // the operator's reason
	ExpiresAt       *time.Time // agents only: held from then on
	DisabledAt      *time.Time // agents only: held since then, by the operator
}

// Active reports whether the account may write and its repo may be read.
func (a Account) Active() bool { return a.Status == Active }

// Held says why an agent may neither sign in nor use a token at a time:
// ErrAgentDisabled, ErrAgentExpired, or nil. It holds from the moment of the expiry, also
// before ExpireTx has deactivated the account.
func (a Account) Held(now time.Time) error {
	switch {
	case a.DisabledAt != nil:
		return ErrAgentDisabled
	case a.ExpiresAt != nil && !a.ExpiresAt.After(now):
		return ErrAgentExpired
	}
	return nil
}

// HostedStatus is the status as getSession and getRepoStatus send it: "" for
// an active account.
func (a Account) HostedStatus() string {
	if a.Active() {
		return ""
	}
	return string(a.Status)
}

// Position is where a list of accounts, agents or invites goes on: after
// the item of that time and key (a DID or code). The zero value is the
// beginning.
type Position struct {
	At  time.Time
	Key string
}

// Page is one page of a list. Next is the zero Position on the last one.
type Page[T any] struct {
	Items []T
	Next  Position
}

// maxPage bounds every list of this package.
const maxPage = 1000
