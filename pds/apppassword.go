package pds

import (
	"context"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

// isPrivileged tells the methods that an app password only reaches when it was
// made privileged, as at the reference host: direct messages, and taking the
// identity to another host.
func isPrivileged(method syntax.NSID) bool {
	return strings.HasPrefix(string(method), "chat.bsky.") || method == createAccountMethod
}

// appPassword is what is told of one once; later only its view is.
type appPassword struct {
	appPasswordView
	Password string `json:"password"`
}

type appPasswordView struct {
	Name       string `json:"name"`
	CreatedAt  string `json:"createdAt"`
	Privileged bool   `json:"privileged"`
}

func viewAppPassword(a account.AppPassword) appPasswordView {
	return appPasswordView{Name: a.Name, CreatedAt: migrations.FormatTime(a.CreatedAt), Privileged: a.Scope.Privileged()}
}

type createAppPasswordInput struct {
	Name       string `json:"name"`
	Privileged bool   `json:"privileged"`
}

func (p *PDS) createAppPassword(ctx context.Context, v xrpc.Viewer, in createAppPasswordInput) (*appPassword, error) {
	if err := fullAccess(v); err != nil {
		return nil, err
	}
	params := account.AppPasswordParams{Name: in.Name, Scope: account.ScopeAppPass}
	if in.Privileged {
		params.Scope = account.ScopeAppPassPrivileged
	}
	made, password, err := p.accounts.CreateAppPassword(ctx, v.DID, params)
	if err != nil {
		return nil, err
	}
	return &appPassword{viewAppPassword(made), password}, nil
}

type listAppPasswordsOutput struct {
	Passwords []appPasswordView `json:"passwords"`
}

func (p *PDS) listAppPasswords(ctx context.Context, v xrpc.Viewer, _ xrpc.None) (*listAppPasswordsOutput, error) {
	if err := unscoped(v); err != nil {
		return nil, err
	}
	if err := notTakenDown(v); err != nil {
		return nil, err
	}
	all, err := p.accounts.ListAppPasswords(ctx, v.DID)
	if err != nil {
		return nil, err
	}
	out := &listAppPasswordsOutput{Passwords: make([]appPasswordView, len(all))}
	for i, a := range all {
		out.Passwords[i] = viewAppPassword(a)
	}
	return out, nil
}

type revokeAppPasswordInput struct {
	Name string `json:"name"`
}

func (p *PDS) revokeAppPassword(ctx context.Context, v xrpc.Viewer, in revokeAppPasswordInput) (*xrpc.None, error) {
	if err := unscoped(v); err != nil {
		return nil, err
	}
	if err := notTakenDown(v); err != nil {
		return nil, err
	}
	return &xrpc.None{}, p.accounts.RevokeAppPassword(ctx, v.DID, in.Name)
}
