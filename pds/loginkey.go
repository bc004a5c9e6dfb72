package pds

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

const keyLoginMethod syntax.NSID = "garden.herbarium.createSession"

// assertionLongest is how far ahead the exp of an assertion may be: it is made
// for the moment, and remembered for that long.
const assertionLongest = time.Minute

func (p *PDS) registerKeyLogin(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Procedure(s, keyLoginMethod, xrpc.Open, p.keyLogin),
		xrpc.Procedure(s, "garden.herbarium.admin.addLoginKey", xrpc.AdminOnly, p.addLoginKey),
		xrpc.Query(s, "garden.herbarium.admin.listLoginKeys", xrpc.AdminOnly, p.listLoginKeys),
		xrpc.Procedure(s, "garden.herbarium.admin.removeLoginKey", xrpc.AdminOnly, p.removeLoginKey),
	)
}

// assertionRules are what key login asks of an assertion.
func assertionRules(service syntax.DID) jwtRules {
	return jwtRules{
		what: "assertion", renew: "sign a new one with a login key of the account",
		audiences: []string{string(service)},
		longest:   assertionLongest,
	}
}

type keyLoginInput struct {
	Assertion string `json:"assertion"`
}

// keyLogin opens a session for whoever holds a login key of an account.
func (p *PDS) keyLogin(ctx context.Context, _ xrpc.Viewer, in keyLoginInput) (*sessionOutput, error) {
	t, err := assertionRules(p.cfg.ServiceDID).read(in.Assertion, keyLoginMethod, p.now())
	if err != nil {
		return nil, err
	}
	if err := p.chargeSignIn(ctx, string(t.issuer)); err != nil {
		return nil, err
	}
	a, tokens, err := p.accounts.LoginWithKey(ctx, account.KeyProof{DID: t.issuer, ID: t.id, Expires: t.expires, SignedBy: t.signedBy})
	if errors.Is(err, account.ErrCredentials) {
		return nil, xrpc.Errorf(http.StatusUnauthorized, "AuthenticationRequired", "the assertion is not by a login key of the account in iss; check both, or have the operator register the key")
	}
	if err != nil {
		return nil, err
	}
	return p.openedSession(ctx, a, tokens)
}

// loginKeyView is garden.herbarium.admin.defs#loginKey.
type loginKeyView struct {
	Name       string        `json:"name"`
	PublicKey  string        `json:"publicKey"`
	Scope      account.Scope `json:"scope"`
	CreatedAt  string        `json:"createdAt"`
	ExpiresAt  string        `json:"expiresAt,omitempty"`
	LastUsedAt string        `json:"lastUsedAt,omitempty"`
}

func viewLoginKey(k account.LoginKey) loginKeyView {
	return loginKeyView{
		Name: k.Name, PublicKey: k.PublicKey.DIDKey(), Scope: k.Scope, CreatedAt: migrations.FormatTime(k.CreatedAt),
		ExpiresAt: formatMaybe(k.Expires), LastUsedAt: formatMaybe(k.LastUsed),
	}
}

func parseLoginKey(didKey string) (atcrypto.PublicKey, error) {
	key, err := atcrypto.ParsePublicDIDKey(didKey)
	if err != nil {
		return nil, xrpc.InvalidRequest("publicKey is not the did:key of a P-256 or K-256 key; send it as did:key:z…")
	}
	return key, nil
}

type addLoginKeyInput struct {
	DID       syntax.DID       `json:"did"`
	Name      string           `json:"name"`
	PublicKey string           `json:"publicKey"`
	Scope     account.Scope    `json:"scope"`
	ExpiresAt *syntax.Datetime `json:"expiresAt"`
}

func (p *PDS) addLoginKey(ctx context.Context, _ xrpc.Viewer, in addLoginKeyInput) (*loginKeyView, error) {
	key, err := parseLoginKey(in.PublicKey)
	if err != nil {
		return nil, err
	}
	added, err := p.accounts.AddLoginKey(ctx, in.DID, account.LoginKeyParams{Name: in.Name, PublicKey: key, Scope: in.Scope, Expires: timeOf(in.ExpiresAt)})
	if err != nil {
		return nil, notFound(err)
	}
	view := viewLoginKey(added)
	return &view, nil
}

type listLoginKeysOutput struct {
	Keys []loginKeyView `json:"keys"`
}

func (p *PDS) listLoginKeys(ctx context.Context, _ xrpc.Viewer, in didParams) (*listLoginKeysOutput, error) {
	if _, err := p.accounts.Get(ctx, in.DID); err != nil {
		return nil, notFound(err)
	}
	keys, err := p.accounts.ListLoginKeys(ctx, in.DID)
	if err != nil {
		return nil, err
	}
	out := &listLoginKeysOutput{Keys: make([]loginKeyView, len(keys))}
	for i, k := range keys {
		out.Keys[i] = viewLoginKey(k)
	}
	return out, nil
}

type removeLoginKeyInput struct {
	DID       syntax.DID `json:"did"`
	PublicKey string     `json:"publicKey"`
}

func (p *PDS) removeLoginKey(ctx context.Context, _ xrpc.Viewer, in removeLoginKeyInput) (*xrpc.None, error) {
	key, err := parseLoginKey(in.PublicKey)
	if err != nil {
		return nil, err
	}
	if _, err := p.accounts.Get(ctx, in.DID); err != nil {
		return nil, notFound(err)
	}
	return &xrpc.None{}, p.accounts.RemoveLoginKey(ctx, in.DID, key)
}
