package pds

import (
	"context"
	"errors"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

// registerCredentials registers what the operator makes app passwords with:
// com.atproto.server.createAppPassword knows neither scope nor expiry.
func (p *PDS) registerCredentials(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Procedure(s, "garden.herbarium.admin.createCredential", xrpc.AdminOnly, p.createCredential, xrpc.Strict()),
		xrpc.Query(s, "garden.herbarium.admin.listCredentials", xrpc.AdminOnly, p.listCredentials),
		xrpc.Procedure(s, "garden.herbarium.admin.rotateCredential", xrpc.AdminOnly, p.rotateCredential),
		xrpc.Procedure(s, "garden.herbarium.admin.revokeCredential", xrpc.AdminOnly, p.revokeCredential),
	)
}

// credentialView is garden.herbarium.admin.defs#credential.
type credentialView struct {
	Name       string        `json:"name"`
	Scope      account.Scope `json:"scope"`
	CreatedAt  string        `json:"createdAt"`
	ExpiresAt  string        `json:"expiresAt,omitempty"`
	LastUsedAt string        `json:"lastUsedAt,omitempty"`
}

func viewCredential(a account.AppPassword) credentialView {
	return credentialView{
		Name: a.Name, Scope: a.Scope, CreatedAt: migrations.FormatTime(a.CreatedAt),
		ExpiresAt: formatMaybe(a.Expires), LastUsedAt: formatMaybe(a.LastUsed),
	}
}

// formatMaybe is "" for a time that there is not.
func formatMaybe(t *time.Time) string {
	if t == nil {
		return ""
	}
	return migrations.FormatTime(*t)
}

// timeOf is nil for a field that was left out.
func timeOf(d *syntax.Datetime) *time.Time {
	if d == nil {
		return nil
	}
	t := d.Time()
	return &t
}

// shownCredential is garden.herbarium.admin.defs#shownCredential.
type shownCredential struct {
	Credential credentialView `json:"credential"`
	Password   string         `json:"password"`
}

type createCredentialInput struct {
	DID       syntax.DID       `json:"did"`
	Name      string           `json:"name"`
	Scope     account.Scope    `json:"scope"`
	ExpiresAt *syntax.Datetime `json:"expiresAt"`
}

func (p *PDS) createCredential(ctx context.Context, _ xrpc.Viewer, in createCredentialInput) (*shownCredential, error) {
	made, password, err := p.accounts.CreateAppPassword(ctx, in.DID, account.AppPasswordParams{Name: in.Name, Scope: in.Scope, Expires: timeOf(in.ExpiresAt)})
	if err != nil {
		return nil, notFound(err)
	}
	return &shownCredential{viewCredential(made), password}, nil
}

type listCredentialsOutput struct {
	Credentials []credentialView `json:"credentials"`
}

func (p *PDS) listCredentials(ctx context.Context, _ xrpc.Viewer, in didParams) (*listCredentialsOutput, error) {
	if _, err := p.accounts.Get(ctx, in.DID); err != nil {
		return nil, notFound(err)
	}
	all, err := p.accounts.ListAppPasswords(ctx, in.DID)
	if err != nil {
		return nil, err
	}
	out := &listCredentialsOutput{Credentials: make([]credentialView, len(all))}
	for i, a := range all {
		out.Credentials[i] = viewCredential(a)
	}
	return out, nil
}

type rotateCredentialInput struct {
	DID       syntax.DID       `json:"did"`
	Name      string           `json:"name"`
	ExpiresAt *syntax.Datetime `json:"expiresAt"`
}

func (p *PDS) rotateCredential(ctx context.Context, _ xrpc.Viewer, in rotateCredentialInput) (*shownCredential, error) {
	if _, err := p.accounts.Get(ctx, in.DID); err != nil {
		return nil, notFound(err)
	}
	renewed, password, err := p.accounts.RotateAppPassword(ctx, in.DID, in.Name, timeOf(in.ExpiresAt))
	if err != nil {
		return nil, err
	}
	return &shownCredential{viewCredential(renewed), password}, nil
}

type revokeCredentialInput struct {
	DID  syntax.DID `json:"did"`
	Name string     `json:"name"`
}

func (p *PDS) revokeCredential(ctx context.Context, _ xrpc.Viewer, in revokeCredentialInput) (*xrpc.None, error) {
	if _, err := p.accounts.Get(ctx, in.DID); err != nil {
		return nil, notFound(err)
	}
	return &xrpc.None{}, p.accounts.RevokeAppPassword(ctx, in.DID, in.Name)
}
