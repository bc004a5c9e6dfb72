package account

import "errors"

// What callers compare with errors.Is. The comment names the XRPC error that
// pds answers with.
var (
	// ErrNotFound: no such account on this host (AccountNotFound, RepoNotFound
	// or HandleNotFound, by method).
	ErrNotFound = errors.New("account not found")
	// ErrCredentials: unknown account or wrong password; which one is never told
	// (401 AuthenticationRequired).
	ErrCredentials = errors.New("invalid identifier or password")
	// ErrTakenDown: the account is taken down (401 AccountTakedown).
	ErrTakenDown = errors.New("account has been taken down")
	// ErrSuspended: the account is suspended (401 AccountTakedown).
	ErrSuspended = errors.New("account is suspended")
	// ErrAgentExpired: the agent's time is over (401 AccountDeactivated).
	ErrAgentExpired = errors.New("agent has expired")
	// ErrAgentDisabled: the operator has disabled the agent (401 AccountDeactivated).
	ErrAgentDisabled = errors.New("agent is disabled")
	// ErrNotAgent: the account is no agent, or there is none (400 NotFound).
	ErrNotAgent = errors.New("agent not found")
	// ErrAgentInvalid: what is said of an agent is too long or does not fit (400
	// InvalidRequest, with its words).
	ErrAgentInvalid = errors.New("the agent is not valid")
	// ErrStatus: the change does not fit the status of the account, such as
	// activating one that is taken down (400 InvalidRequest).
	ErrStatus = errors.New("account status does not allow this")
	// ErrBusy: the queue for password hashing is full (503, try again).
	ErrBusy = errors.New("too many password checks at once")

	// ErrTokenInvalid: not a token of this host, or of another kind (400 InvalidToken).
	ErrTokenInvalid = errors.New("token is invalid")
	// ErrTokenExpired: past its time, or its session has ended (400 ExpiredToken).
	ErrTokenExpired = errors.New("token has expired or was revoked")

	// ErrHandleInvalid: syntax, length or a dot too many (400 InvalidHandle).
	ErrHandleInvalid = errors.New("invalid handle")
	// ErrHandleReserved: a name that the host keeps for itself (400 HandleNotAvailable).
	ErrHandleReserved = errors.New("reserved handle")
	// ErrHandleTaken: in use, or issued once to another DID (400 InvalidRequest).
	ErrHandleTaken = errors.New("handle already taken")
	// ErrDomainUnsupported: not under a domain of this host (400 UnsupportedDomain).
	ErrDomainUnsupported = errors.New("unsupported handle domain")
	// ErrDIDTaken: the DID has an account here already (400 InvalidRequest).
	ErrDIDTaken = errors.New("account already exists for this did")
	// ErrEmailTaken: another account has the e-mail address (400 InvalidRequest).
	ErrEmailTaken = errors.New("email already taken")
	// ErrEmailInvalid: not an e-mail address (400 InvalidRequest).
	ErrEmailInvalid = errors.New("invalid email")
	// ErrPasswordUnfit: too short or too long (400 InvalidPassword).
	ErrPasswordUnfit = errors.New("password must have 8 to 256 bytes")
	// ErrInvite: no invite code, an unknown, used up or disabled one (400 InvalidInviteCode).
	ErrInvite = errors.New("invalid invite code")
	// ErrNameTaken: the account has an app password, or a login key, of that name
	// (400 DuplicateCreate).
	ErrNameTaken = errors.New("name already used")
	// ErrKeyKnown: the account has the login key, or once had it (400 DuplicateCreate).
	ErrKeyKnown = errors.New("login key is or was the account's")
	// ErrProofUsed: the assertion has opened a session before (401 NonceNotUnique).
	ErrProofUsed = errors.New("assertion was used before")

	// ErrPolicy: a write policy with a number or list out of bounds (400
	// InvalidRequest).
	ErrPolicy = errors.New("the policy is not valid")

	// ErrPLCRefused: the PLC directory said no (400 InvalidRequest, its words are in the error).
	ErrPLCRefused = errors.New("plc directory refused the operation")
	// ErrPLCUnavailable: the PLC directory did not answer as one (502 UpstreamFailure).
	ErrPLCUnavailable = errors.New("plc directory unavailable")

	// ErrNoRotation: this host's key is not among the rotation keys of the DID
	// (400 InvalidRequest).
	ErrNoRotation = errors.New("the rotation keys of the did do not include this host's")

	// ErrKeyUnavailable: the private key was destroyed or never here.
	ErrKeyUnavailable = errors.New("signing key unavailable")
	// ErrMasterKey: what is stored was wrapped by another master key, or was
	// altered. A host must not start like this.
	ErrMasterKey = errors.New("stored keys do not open with this master key")
	// ErrTooMany: the account has as many app passwords, or login keys, as it may
	// (400 InvalidRequest).
	ErrTooMany = errors.New("too many app passwords or login keys")
	// ErrNameInvalid: the name of an app password or login key is empty, too long
	// or has control characters (400 InvalidRequest).
	ErrNameInvalid = errors.New("name must have 1 to 128 bytes and no control characters")
	// ErrScope: what a credential is to be allowed cannot be read, or is not for
	// one (400 InvalidRequest, in its words).
	ErrScope = errors.New("invalid scope")
	// ErrExpiry: a credential is to expire in the past, or past the year 9999
	// (400 InvalidRequest).
	ErrExpiry = errors.New("the expiry of a credential must be ahead")
	// ErrExpired: the credential is the account's and its time is over (401
	// AuthenticationRequired).
	ErrExpired = errors.New("credential has expired")
	// ErrNoCredential: the account has no app password of the name (400 NotFound).
	ErrNoCredential = errors.New("no such credential")
	// ErrInviteCount: codes or uses out of bounds (400 InvalidRequest).
	ErrInviteCount = errors.New("want 1 to 500 invite codes of 1 to 100000 uses each")
	// ErrInvitesDisabled: the account gets no new invite codes (400 InvalidRequest).
	ErrInvitesDisabled = errors.New("the account gets no invite codes")
	// ErrPreferences: too many preferences, or one that is no object with a $type
	// (400 InvalidRequest).
	ErrPreferences = errors.New("want at most 1000 preferences, each an object with a $type")
	// ErrRepoint: the new host or key of a did:web does not parse (400 InvalidRequest).
	ErrRepoint = errors.New("want the https URL of another host and the did:key of its signing key")
)
