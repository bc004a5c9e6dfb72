package pds

import (
	"context"
	"errors"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/sequencer"
)

// registerOwner registers the steps that an owner confirms with a one-time
// token. This host sends no mail: the operator looks the token up and hands it
// over.
func (p *PDS) registerOwner(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Procedure(s, "com.atproto.server.requestAccountDelete", xrpc.AccessToken, p.requestAccountDelete),
		xrpc.Procedure(s, "com.atproto.server.deleteAccount", xrpc.Open, p.deleteAccount),
		xrpc.Procedure(s, "com.atproto.server.requestPasswordReset", xrpc.Open, p.requestPasswordReset),
		xrpc.Procedure(s, "com.atproto.server.resetPassword", xrpc.Open, p.resetPassword),
		xrpc.Query(s, "garden.herbarium.admin.listOneTimeTokens", xrpc.AdminOnly, p.listOneTimeTokens, xrpc.Audited()),
	)
}

func (p *PDS) requestAccountDelete(ctx context.Context, v xrpc.Viewer, _ xrpc.None) (*xrpc.None, error) {
	if err := fullAccess(v); err != nil {
		return nil, err
	}
	return &xrpc.None{}, p.accounts.RequestToken(ctx, v.DID, account.DeletingAccount)
}

type deleteAccountInput struct {
	DID      syntax.DID `json:"did"`
	Password string     `json:"password"`
	Token    string     `json:"token"`
}

// deleteAccount needs no session, as the lexicon has it: who knows the main
// password and has the token is the owner.
func (p *PDS) deleteAccount(ctx context.Context, _ xrpc.Viewer, in deleteAccountInput) (*xrpc.None, error) {
	if err := p.chargeSignIn(ctx, string(in.DID)); err != nil {
		return nil, err
	}
	if err := p.accounts.ConfirmPassword(ctx, in.DID, in.Password); err != nil {
		return nil, err
	}
	err := p.eraseAccount(ctx, in.DID, func(tx *gorm.DB) error {
		return p.accounts.SpendTokenTx(ctx, tx, in.DID, account.DeletingAccount, in.Token)
	})
	return &xrpc.None{}, oneTime(err, "com.atproto.server.requestAccountDelete")
}

// oneTime says of a one-time token that is no good where the next comes from.
func oneTime(err error, request syntax.NSID) error {
	switch {
	case errors.Is(err, account.ErrTokenInvalid):
		return xrpc.Errorf(400, "InvalidToken", "the token is not the newest one of the account for this, or was used; ask for one with %s, and the operator of this host for its text", request)
	case errors.Is(err, account.ErrTokenExpired):
		return xrpc.Errorf(400, "ExpiredToken", "the token was good for %s; ask for another one with %s", account.OneTimeLifetime, request)
	}
	return err
}

// eraseAccount deletes an account with its repo, and its older events, which
// must not be read again, if allow lets it in the same transaction. Blobs that
// others refer to too are theirs and stay.
func (p *PDS) eraseAccount(ctx context.Context, did syntax.DID, allow func(tx *gorm.DB) error) error {
	events, err := p.record(ctx, func(tx *gorm.DB) ([]sequencer.Draft, error) {
		if err := allow(tx); err != nil {
			return nil, err
		}
		a, err := p.accounts.DeleteTx(ctx, tx, did)
		if err != nil {
			return nil, err
		}
		if err := p.repos.DeleteRepo(ctx, tx, did); err != nil {
			return nil, err
		}
		return []sequencer.Draft{announce(a)}, p.events.Erase(ctx, tx, did)
	})
	if err != nil {
		return fmt.Errorf("delete account %s: %w", did, err)
	}
	p.accounts.Forget(did)
	p.events.Erased(did) // before the last event comes, which stays
	p.events.Published(events)
	return nil
}

// deletionsAtOnce bounds one run of DeleteDue; what is left comes next.
const deletionsAtOnce = 100

// DeleteDue deletes the accounts whose owner announced it, with deleteAfter of
// deactivateAccount, for a time that has come. It is a job, to be run every
// minute or so; several replicas may.
func (p *PDS) DeleteDue(ctx context.Context) error {
	due, err := p.accounts.DeletionsDue(ctx, deletionsAtOnce)
	if err != nil {
		return err
	}
	var errs []error
	for _, did := range due {
		err := p.eraseAccount(ctx, did, func(tx *gorm.DB) error { return p.accounts.StillDueTx(ctx, tx, did) })
		switch {
		case errors.Is(err, account.ErrStatus): // came back, or another replica was first
		case err != nil:
			errs = append(errs, err)
		default:
			p.log.InfoContext(ctx, "deleted an account at the time that its owner had set", "did", did)
		}
	}
	return errors.Join(errs...)
}

type requestPasswordResetInput struct {
	Email string `json:"email"` // or a handle or DID: an account here need not have an address
}

// requestPasswordReset answers the same whether there is such an account or
// not.
func (p *PDS) requestPasswordReset(ctx context.Context, _ xrpc.Viewer, in requestPasswordResetInput) (*xrpc.None, error) {
	if err := p.chargeSignIn(ctx, in.Email); err != nil {
		return nil, err
	}
	return &xrpc.None{}, p.accounts.RequestReset(ctx, in.Email)
}

type resetPasswordInput struct {
	Token    string `json:"token"`
	Password string `json:"password"`
}

func (p *PDS) resetPassword(ctx context.Context, _ xrpc.Viewer, in resetPasswordInput) (*xrpc.None, error) {
	if err := p.chargeSignIn(ctx, "com.atproto.server.resetPassword"); err != nil {
		return nil, err
	}
	return &xrpc.None{}, oneTime(p.accounts.ResetPassword(ctx, in.Token, in.Password), "com.atproto.server.requestPasswordReset")
}

type listOneTimeTokensParams struct {
	Limit  int    `param:"limit"`
	Cursor string `param:"cursor"`
}

type listOneTimeTokensOutput struct {
	Cursor string             `json:"cursor,omitempty"`
	Tokens []oneTimeTokenView `json:"tokens"`
}

// oneTimeTokenView is garden.herbarium.admin.defs#oneTimeToken.
type oneTimeTokenView struct {
	DID       syntax.DID      `json:"did"`
	Handle    syntax.Handle   `json:"handle"`
	Purpose   account.Purpose `json:"purpose"`
	Token     string          `json:"token"`
	CreatedAt string          `json:"createdAt"`
	ExpiresAt string          `json:"expiresAt"`
}

func (p *PDS) listOneTimeTokens(ctx context.Context, _ xrpc.Viewer, in listOneTimeTokensParams) (*listOneTimeTokensOutput, error) {
	const list = "garden.herbarium.admin.listOneTimeTokens"
	var after account.Position
	if in.Cursor != "" {
		var err error
		if after, err = xrpc.DecodeCursor[account.Position](list, in.Cursor); err != nil {
			return nil, err
		}
	}
	page, err := p.accounts.PendingTokens(ctx, after, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listOneTimeTokensOutput{Tokens: make([]oneTimeTokenView, len(page.Items))}
	for i, t := range page.Items {
		out.Tokens[i] = oneTimeTokenView{t.DID, t.Handle, t.Purpose, t.Token, migrations.FormatTime(t.CreatedAt), migrations.FormatTime(t.ExpiresAt)}
	}
	if page.Next != (account.Position{}) {
		out.Cursor = xrpc.EncodeCursor(list, page.Next)
	}
	return out, nil
}
