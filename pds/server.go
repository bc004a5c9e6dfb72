package pds

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
)

func (p *PDS) registerServer(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Query(s, "com.atproto.server.describeServer", xrpc.Open, p.describeServer),
		xrpc.Procedure(s, "com.atproto.server.createAccount", xrpc.Open, p.createAccount, xrpc.ReadsCredential(), xrpc.Ignores("plcOp", "verificationCode", "verificationPhone")),
		xrpc.Procedure(s, "com.atproto.server.createSession", xrpc.Open, p.createSession),
		xrpc.Procedure(s, "com.atproto.server.refreshSession", xrpc.Open, p.refreshSession),
		xrpc.Procedure(s, "com.atproto.server.deleteSession", xrpc.Open, p.deleteSession),
		xrpc.Query(s, "com.atproto.server.getSession", xrpc.AccessToken, p.getSession, xrpc.JudgesGrants()),
		xrpc.Query(s, "com.atproto.server.getServiceAuth", xrpc.AccessToken, p.getServiceAuth, xrpc.JudgesGrants()),
		xrpc.Query(s, "com.atproto.server.checkAccountStatus", xrpc.AccessToken, p.checkAccountStatus, xrpc.JudgesGrants()),
		xrpc.Procedure(s, "com.atproto.server.activateAccount", xrpc.AccessToken, p.activateAccount),
		xrpc.Procedure(s, "com.atproto.server.deactivateAccount", xrpc.AccessToken, p.deactivateAccount),
		xrpc.Procedure(s, "com.atproto.server.createAppPassword", xrpc.AccessToken, p.createAppPassword),
		xrpc.Query(s, "com.atproto.server.listAppPasswords", xrpc.AccessToken, p.listAppPasswords),
		xrpc.Procedure(s, "com.atproto.server.revokeAppPassword", xrpc.AccessToken, p.revokeAppPassword),
		xrpc.Query(s, "com.atproto.temp.checkSignupQueue", xrpc.AccessToken, p.checkSignupQueue),
	)
}

type describeServerOutput struct {
	DID                  syntax.DID `json:"did"`
	AvailableUserDomains []string   `json:"availableUserDomains"`
	InviteCodeRequired   bool       `json:"inviteCodeRequired"`
	BlobUploadLimit      int64      `json:"blobUploadLimit" xrpc:"extra"` // bytes
	Links                Links      `json:"links"`
	Contact              Contact    `json:"contact"`
}

func (p *PDS) describeServer(context.Context, xrpc.Viewer, xrpc.None) (*describeServerOutput, error) {
	return &describeServerOutput{
		DID:                  p.cfg.ServiceDID,
		AvailableUserDomains: p.cfg.HandleDomains,
		InviteCodeRequired:   p.cfg.InviteRequired,
		BlobUploadLimit:      p.blobs.Limit(),
		Links:                p.cfg.Links,
		Contact:              p.cfg.Contact,
	}, nil
}

// sessionView is an account as its own session sees it.
type sessionView struct {
	Handle         syntax.Handle     `json:"handle"`
	DID            syntax.DID        `json:"did"`
	DIDDoc         *account.Document `json:"didDoc,omitempty"`
	Email          string            `json:"email,omitempty"`
	EmailConfirmed bool              `json:"emailConfirmed"`
	Active         bool              `json:"active"`
	Status         string            `json:"status,omitempty"`
}

type sessionOutput struct {
	AccessJWT  string `json:"accessJwt"`
	RefreshJWT string `json:"refreshJwt"`
	sessionView
}

// viewSession shows an account to a session of its own. A scoped one (grants)
// sees the e-mail address only if that is in its scope.
func (p *PDS) viewSession(ctx context.Context, a account.Account, grants xrpc.Grants) (sessionView, error) {
	document, err := p.accounts.Document(ctx, a.DID)
	if err != nil {
		return sessionView{}, err
	}
	view := sessionView{Handle: a.Handle, DID: a.DID, DIDDoc: document, Active: a.Active(), Status: a.HostedStatus()}
	if grants == nil || grants.Account("email", "read") {
		view.Email, view.EmailConfirmed = a.Email, a.EmailConfirmed != nil
	}
	return view, nil
}

// openedSession is what every way to sign in, and a refresh, answers.
func (p *PDS) openedSession(ctx context.Context, a account.Account, tokens account.Tokens) (*sessionOutput, error) {
	view, err := p.viewSession(ctx, a, grantsOf(tokens.Permissions))
	if err != nil {
		return nil, err
	}
	return &sessionOutput{AccessJWT: tokens.Access, RefreshJWT: tokens.Refresh, sessionView: view}, nil
}

type createSessionInput struct {
	Identifier      string `json:"identifier"`
	Password        string `json:"password"`
	AuthFactorToken string `json:"authFactorToken"` // no second factor here: ignored
	AllowTakendown  bool   `json:"allowTakendown"`
}

func (p *PDS) createSession(ctx context.Context, _ xrpc.Viewer, in createSessionInput) (*sessionOutput, error) {
	if err := p.chargeSignIn(ctx, in.Identifier); err != nil {
		return nil, err
	}
	leave, err := p.enterSignIn(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	a, tokens, err := p.accounts.Login(ctx, in.Identifier, in.Password, in.AllowTakendown)
	if err != nil {
		return nil, err
	}
	return p.openedSession(ctx, a, tokens)
}

func (p *PDS) refreshSession(ctx context.Context, _ xrpc.Viewer, _ xrpc.None) (*sessionOutput, error) {
	token, err := bearerToken(xrpc.CallFrom(ctx).Request)
	if err != nil {
		return nil, err
	}
	a, tokens, err := p.accounts.Refresh(ctx, token)
	if err != nil {
		return nil, err
	}
	return p.openedSession(ctx, a, tokens)
}

func (p *PDS) deleteSession(ctx context.Context, _ xrpc.Viewer, _ xrpc.None) (*xrpc.None, error) {
	token, err := bearerToken(xrpc.CallFrom(ctx).Request)
	if err != nil {
		return nil, err
	}
	return &xrpc.None{}, p.accounts.EndSession(ctx, token)
}

func (p *PDS) getSession(ctx context.Context, v xrpc.Viewer, _ xrpc.None) (*sessionView, error) {
	a, err := p.accounts.Get(ctx, v.DID)
	if err != nil {
		return nil, err
	}
	if a.Status == account.Deleted {
		return nil, xrpc.InvalidRequest("Could not find user info for account: %s; it was deleted", v.DID)
	}
	view, err := p.viewSession(ctx, a, v.Grants)
	return &view, err
}

type getServiceAuthParams struct {
	Audience string       `param:"aud"`
	Expires  *int64       `param:"exp"` // seconds since 1970
	Method   *syntax.NSID `param:"lxm"`
}

type getServiceAuthOutput struct {
	Token string `json:"token"`
}

func (p *PDS) getServiceAuth(ctx context.Context, v xrpc.Viewer, in getServiceAuthParams) (*getServiceAuthOutput, error) {
	claims := serviceClaims{Audience: in.Audience, Expires: p.now().Add(serviceTokenDefault).Unix()}
	if in.Method != nil {
		claims.Method = *in.Method
	}
	if err := p.mayGetServiceAuth(v, claims, in.Audience); err != nil {
		return nil, err
	}
	if in.Expires != nil {
		if err := checkExpiration(p.now(), *in.Expires, claims.Method); err != nil {
			return nil, err
		}
		claims.Expires = *in.Expires
	}
	// It ends with what asked for it: elsewhere by its time, here at once.
	until, err := p.accounts.SessionUntil(ctx, v.SessionID)
	if err != nil {
		return nil, err
	}
	claims.Expires = min(claims.Expires, until.Unix())
	if did, err := audienceDID(in.Audience); err == nil && did == p.cfg.ServiceDID {
		claims.SessionID = v.SessionID
	}
	token, err := p.serviceToken(ctx, v.DID, claims)
	return &getServiceAuthOutput{Token: token}, err
}

// createAccountMethod may be asked of another host even by an account that was
// taken down here: it is how one leaves.
const createAccountMethod syntax.NSID = "com.atproto.server.createAccount"

// mayGetServiceAuth judges a token before it is made. audience is the service
// that it is for, with the fragment that the caller named; a claim may leave
// that out.
func (p *PDS) mayGetServiceAuth(v xrpc.Viewer, claims serviceClaims, audience string) error {
	did, err := audienceDID(audience)
	if err != nil {
		return err
	}
	if v.Grants != nil && did == p.cfg.ServiceDID {
		// Whoever showed it here would be judged by the method alone, not by the scope.
		return xrpc.Errorf(http.StatusForbidden, "Forbidden", "a scoped credential gets no service token for its own host; call the method here with the access token")
	}
	if err := mayAsk(v, claims.Method, audience); err != nil {
		return err
	}
	if slices.Contains(protectedMethods, claims.Method) {
		return xrpc.InvalidRequest("%s concerns the account at its own host and is asked of no other service; call it here with the access token", claims.Method)
	}
	if account.Scope(v.Scope) == account.ScopeAppPass && isPrivileged(claims.Method) {
		return invalidToken("Bad token scope: %s needs the main password or a privileged app password", claims.Method)
	}
	if claims.Method == createAccountMethod {
		return nil
	}
	return notTakenDown(v)
}

func checkExpiration(now time.Time, exp int64, method syntax.NSID) error {
	life := time.Unix(exp, 0).Sub(now)
	switch {
	case life < 0:
		return xrpc.Errorf(400, "BadExpiration", "exp is in the past; choose a time up to an hour ahead")
	case life > serviceTokenLongest:
		return xrpc.Errorf(400, "BadExpiration", "exp is more than an hour ahead; choose a nearer time")
	case method == "" && life > serviceTokenUnbound:
		return xrpc.Errorf(400, "BadExpiration", "a token without lxm may live a minute; name the method in lxm or choose a nearer exp")
	}
	return nil
}

func audienceDID(audience string) (syntax.DID, error) {
	did, _, _ := strings.Cut(audience, "#")
	parsed, err := syntax.ParseDID(did)
	if err != nil {
		return "", xrpc.InvalidRequest("aud is not a DID, with or without a #service; name the service that the token is for")
	}
	return parsed, nil
}

// serviceToken makes a service JWT in the name of a hosted account.
func (p *PDS) serviceToken(ctx context.Context, did syntax.DID, claims serviceClaims) (string, error) {
	key, err := p.accounts.SigningKey(ctx, did)
	if err != nil {
		return "", err
	}
	claims.Issuer, claims.IssuedAt = string(did), p.now().Unix()
	return signServiceJWT(key, claims)
}

type checkSignupQueueOutput struct {
	Activated bool `json:"activated"`
}

// checkSignupQueue: there is no queue here, but a client asks after signing up.
func (p *PDS) checkSignupQueue(context.Context, xrpc.Viewer, xrpc.None) (*checkSignupQueueOutput, error) {
	return &checkSignupQueueOutput{Activated: true}, nil
}
