package pds

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
)

// adminUser is the user name of HTTP Basic, as PDS tools send it.
const adminUser = "admin"

// Authenticator finds out who makes a request. It accepts an account's access
// or refresh token, a service JWT for the method that is called, and HTTP
// Basic of the admin.
type Authenticator struct {
	accounts *account.Store
	isAdmin  func(password string) bool
	services *serviceVerifier
	now      func() time.Time
	guesses  guesses
	team     map[syntax.DID]bool // other hosts' accounts that belong to the team
}

var _ xrpc.Authenticator = (*Authenticator)(nil)

func newAuthenticator(cfg Config, deps Deps, now func() time.Time, admin guesses) (*Authenticator, error) {
	services, err := newServiceVerifier(cfg.ServiceDID, deps.Directory, now, deps.Accounts.SpendJWT)
	if err != nil {
		return nil, err
	}
	a := &Authenticator{accounts: deps.Accounts, isAdmin: deps.IsAdminPassword, services: services, now: now, guesses: admin, team: map[syntax.DID]bool{}}
	for _, did := range cfg.TeamDIDs {
		a.team[did] = true
	}
	return a, nil
}

// Authenticate implements xrpc.Authenticator.
func (a *Authenticator) Authenticate(r *http.Request, lxm syntax.NSID) (xrpc.Viewer, error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return xrpc.Viewer{Kind: xrpc.Anonymous}, nil
	}
	if len(values) > 1 {
		return xrpc.Viewer{}, invalidToken("the request has more than one Authorization header; send one")
	}
	scheme, credential, _ := strings.Cut(values[0], " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return a.bearer(r.Context(), strings.TrimSpace(credential), lxm)
	case strings.EqualFold(scheme, "Basic"):
		return a.basic(r)
	default:
		return xrpc.Viewer{}, invalidToken("the Authorization scheme is not known here; send Bearer and an access token")
	}
}

// bearer tells the three kinds of token apart by their header, which decides
// nothing but who verifies them.
func (a *Authenticator) bearer(ctx context.Context, token string, lxm syntax.NSID) (xrpc.Viewer, error) {
	switch kindOfToken(token) {
	case xrpc.Service:
		return a.service(ctx, token, lxm)
	case xrpc.Refresh:
		grant, err := a.accounts.VerifyRefresh(ctx, token)
		if err != nil {
			return xrpc.Viewer{}, err
		}
		return viewerOf(xrpc.Refresh, grant), nil
	default:
		grant, err := a.accounts.VerifyAccess(ctx, token)
		if err != nil {
			return xrpc.Viewer{}, err
		}
		return viewerOf(xrpc.Account, grant), nil
	}
}

func kindOfToken(token string) xrpc.Kind {
	head, _, _ := strings.Cut(token, ".")
	var header jwtHeader
	if raw, err := base64.RawURLEncoding.DecodeString(head); err == nil {
		_ = json.Unmarshal(raw, &header) // what is no JWT is left to the verifier of access tokens, which says so
	}
	switch {
	case header.Alg == "ES256" || header.Alg == "ES256K":
		return xrpc.Service
	case strings.EqualFold(header.Typ, "refresh+jwt"):
		return xrpc.Refresh
	default:
		return xrpc.Account
	}
}

func viewerOf(kind xrpc.Kind, g account.Grant) xrpc.Viewer {
	return xrpc.Viewer{
		Kind:      kind,
		DID:       g.Account.DID,
		SessionID: g.SessionID,
		TokenID:   g.TokenID,
		Scope:     string(g.Scope),
		Active:    g.Account.Active(),
		Status:    g.Account.HostedStatus(),
		Member:    isMember(g.Account) && g.Scope != account.ScopeTakendown,
		Grants:    grantsOf(g.Permissions),
	}
}

// grantsOf keeps a nil from hiding in the interface, where it would be a scope
// that allows nothing.
func grantsOf(p *account.Permissions) xrpc.Grants {
	if p == nil {
		return nil
	}
	return p
}

// isMember: an account that its owner deactivated still belongs to the team,
// so that it can be exported and come back; one that was taken down does not.
func isMember(a account.Account) bool { return a.Active() || a.Status == account.Deactivated }

func (a *Authenticator) service(ctx context.Context, token string, lxm syntax.NSID) (xrpc.Viewer, error) {
	t, err := a.services.verify(ctx, token, lxm)
	if err != nil {
		return xrpc.Viewer{}, err
	}
	issuer := t.issuer
	v := xrpc.Viewer{Kind: xrpc.Service, DID: issuer, Active: true, Member: a.team[issuer]}
	hosted, err := a.accounts.Get(ctx, issuer)
	switch {
	case errors.Is(err, account.ErrNotFound):
		return v, nil
	case err != nil:
		return xrpc.Viewer{}, err
	}
	if t.session != "" {
		if _, err := a.accounts.SessionUntil(ctx, t.session); err != nil {
			return xrpc.Viewer{}, sessionOver(err)
		}
	}
	v.Active, v.Status, v.Member = hosted.Active(), hosted.HostedStatus(), isMember(hosted)
	if hosted.Held(a.now()) != nil {
		v.Active, v.Member = false, false
	}
	return v, nil
}

// sessionOver says that a service token ended with the session that asked for it.
func sessionOver(err error) error {
	if errors.Is(err, account.ErrTokenExpired) {
		return badJWT("JwtExpired", "the session that asked for the service token is over; sign in and ask for a new one with com.atproto.server.getServiceAuth")
	}
	return err
}

func (a *Authenticator) basic(r *http.Request) (xrpc.Viewer, error) {
	call := xrpc.CallFrom(r.Context())
	if err := a.guesses.spent(call); err != nil {
		return xrpc.Viewer{}, err
	}
	user, password, ok := r.BasicAuth()
	// Both are looked at in any case: the time tells nothing about either.
	good := a.isAdmin(password)
	if !ok || user != adminUser || !good {
		a.guesses.wrong(call)
		err := xrpc.Errorf(http.StatusUnauthorized, "AuthenticationRequired", "the admin credential is wrong; send HTTP Basic with user admin and the password from the data folder's secrets")
		err.Header = map[string]string{"WWW-Authenticate": "Basic"}
		return xrpc.Viewer{}, err
	}
	return xrpc.Viewer{Kind: xrpc.Admin, Active: true, Member: true}, nil
}

// StillMember looks again at who made a request that goes on for long. An
// access token is judged anew, so that a stream ends with its session or, at
// the latest, with the token; a service JWT, which is good once, by its issuer.
// What cannot be judged now is let go on until it can.
func (a *Authenticator) StillMember(ctx context.Context, r *http.Request, v xrpc.Viewer) bool {
	switch v.Kind {
	case xrpc.Account:
		token, err := bearerToken(r)
		if err != nil {
			return false
		}
		grant, err := a.accounts.VerifyAccess(ctx, token)
		if errors.Is(err, account.ErrTokenExpired) || errors.Is(err, account.ErrTokenInvalid) || errors.Is(err, account.ErrNotFound) ||
			errors.Is(err, account.ErrAgentExpired) || errors.Is(err, account.ErrAgentDisabled) {
			return false
		}
		return err != nil || isMember(grant.Account)
	case xrpc.Service:
		hosted, err := a.accounts.Get(ctx, v.DID)
		if errors.Is(err, account.ErrNotFound) {
			return a.team[v.DID]
		}
		return err != nil || isMember(hosted) && hosted.Held(a.now()) == nil
	default:
		return v.Member
	}
}

func invalidToken(format string, args ...any) *xrpc.Error {
	return xrpc.Errorf(http.StatusBadRequest, "InvalidToken", format, args...)
}

// bearerToken is the token of a request to one of the methods that judge it
// themselves, because an expired one may do there.
func bearerToken(r *http.Request) (string, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		err := xrpc.Errorf(http.StatusUnauthorized, "AuthMissing", "this method needs a credential in the Authorization header; send Bearer and the session's refresh token")
		err.Header = map[string]string{"WWW-Authenticate": "Bearer"}
		return "", err
	}
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", invalidToken("the Authorization scheme is not known here; send Bearer and the session's refresh token")
	}
	return strings.TrimSpace(token), nil
}

// The checks below are what a method asks of its caller beyond its Access.

// mayWrite refuses an account that is not active, and a session that is only
// good for leaving.
func mayWrite(v xrpc.Viewer) error {
	if err := notTakenDown(v); err != nil {
		return err
	}
	if !v.Active {
		return xrpc.Errorf(http.StatusUnauthorized, "AccountDeactivated", "the account is deactivated; activate it with com.atproto.server.activateAccount")
	}
	return nil
}

// notTakenDown refuses an account that the operator has hidden, and a session
// that was opened while it was.
func notTakenDown(v xrpc.Viewer) error {
	switch account.Status(v.Status) {
	case account.TakenDown, account.Suspended:
		return xrpc.Errorf(http.StatusUnauthorized, "AccountTakedown", "the account has been taken down; ask the operator of this host")
	case account.Deleted:
		return xrpc.Errorf(http.StatusForbidden, "AccountNotFound", "the account was deleted; create another one")
	}
	if v.Scope == string(account.ScopeTakendown) {
		return invalidToken("Bad token scope: this session was opened for a taken down account; sign in again")
	}
	return nil
}

// fullAccess refuses a session that was not opened with the main password.
func fullAccess(v xrpc.Viewer) error {
	if !account.Scope(v.Scope).Full() {
		return invalidToken("Bad token scope: this method manages the account itself; sign in with the main password, not an app password")
	}
	return notTakenDown(v)
}
