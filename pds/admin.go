package pds

import (
	"context"
	"errors"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/sequencer"
)

func (p *PDS) registerAdmin(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Query(s, "com.atproto.admin.getAccountInfo", xrpc.AdminOnly, p.getAccountInfo),
		xrpc.Query(s, "com.atproto.admin.getAccountInfos", xrpc.AdminOnly, p.getAccountInfos),
		xrpc.Query(s, "com.atproto.admin.getSubjectStatus", xrpc.AdminOnly, p.getSubjectStatus),
		xrpc.Procedure(s, "com.atproto.admin.updateSubjectStatus", xrpc.AdminOnly, p.updateSubjectStatus),
		xrpc.Procedure(s, "com.atproto.admin.updateAccountPassword", xrpc.AdminOnly, p.updateAccountPassword),
		xrpc.Procedure(s, "com.atproto.admin.updateAccountEmail", xrpc.AdminOnly, p.updateAccountEmail),
		xrpc.Procedure(s, "com.atproto.admin.updateAccountHandle", xrpc.AdminOnly, p.updateAccountHandle),
		xrpc.Procedure(s, "com.atproto.admin.deleteAccount", xrpc.AdminOnly, p.adminDeleteAccount),
	)
}

// accountView is com.atproto.admin.defs#accountView.
type accountView struct {
	DID              syntax.DID    `json:"did"`
	Handle           syntax.Handle `json:"handle"`
	Email            string        `json:"email,omitempty"`
	IndexedAt        string        `json:"indexedAt"` // when the account was created
	EmailConfirmedAt string        `json:"emailConfirmedAt,omitempty"`
	DeactivatedAt    string        `json:"deactivatedAt,omitempty"`
	InvitedBy        *inviteView   `json:"invitedBy,omitempty"` // the code that it was made with
	Invites          []inviteView  `json:"invites"`             // the codes that it was given
	InvitesDisabled  bool          `json:"invitesDisabled"`
	InviteNote       string        `json:"inviteNote,omitempty"`
}

func (p *PDS) viewAccount(ctx context.Context, a account.Account) (accountView, error) {
	view := accountView{
		DID: a.DID, Handle: a.Handle, Email: a.Email, IndexedAt: migrations.FormatTime(a.CreatedAt),
		InvitesDisabled: a.InvitesDisabled, InviteNote: a.InviteNote,
	}
	if a.EmailConfirmed != nil {
		view.EmailConfirmedAt = migrations.FormatTime(*a.EmailConfirmed)
	}
	if a.DeactivatedAt != nil {
		view.DeactivatedAt = migrations.FormatTime(*a.DeactivatedAt)
	}
	invites, err := p.accounts.InvitesOf(ctx, a.DID)
	if err != nil {
		return view, err
	}
	view.Invites = viewInvites(invites)
	by, err := p.accounts.InvitedBy(ctx, a.DID)
	if err == nil && by != nil {
		v := viewInvite(*by)
		view.InvitedBy = &v
	}
	return view, err
}

func (p *PDS) getAccountInfo(ctx context.Context, _ xrpc.Viewer, in didParams) (*accountView, error) {
	a, err := p.accounts.Get(ctx, in.DID)
	if err != nil {
		return nil, notFound(err)
	}
	view, err := p.viewAccount(ctx, a)
	return &view, err
}

type getAccountInfosParams struct {
	DIDs []syntax.DID `param:"dids"`
}

type getAccountInfosOutput struct {
	Infos []accountView `json:"infos"`
}

// maxAccountInfos bounds one call, as at the reference host.
const maxAccountInfos = 100

func (p *PDS) getAccountInfos(ctx context.Context, _ xrpc.Viewer, in getAccountInfosParams) (*getAccountInfosOutput, error) {
	if len(in.DIDs) > maxAccountInfos {
		return nil, xrpc.InvalidRequest("dids has %d items; ask for at most %d at a time", len(in.DIDs), maxAccountInfos)
	}
	out := &getAccountInfosOutput{}
	for _, did := range in.DIDs {
		a, err := p.accounts.Get(ctx, did)
		if errors.Is(err, account.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		view, err := p.viewAccount(ctx, a)
		if err != nil {
			return nil, err
		}
		out.Infos = append(out.Infos, view)
	}
	return out, nil
}

// notFound is how the admin methods name an account that is not here.
func notFound(err error) error {
	if errors.Is(err, account.ErrNotFound) {
		return xrpc.Errorf(400, "NotFound", "there is no such account on this host; check the DID")
	}
	return err
}

// statusAttr is com.atproto.admin.defs#statusAttr.
type statusAttr struct {
	Applied bool   `json:"applied"`
	Ref     string `json:"ref,omitempty"`
}

// announce is the event that tells an account's status.
func announce(a account.Account) sequencer.Draft {
	return sequencer.AccountDraft{DID: a.DID, Active: a.Active(), Status: a.HostedStatus()}
}

type updateAccountPasswordInput struct {
	DID      syntax.DID `json:"did"`
	Password string     `json:"password"`
}

func (p *PDS) updateAccountPassword(ctx context.Context, _ xrpc.Viewer, in updateAccountPasswordInput) (*xrpc.None, error) {
	return &xrpc.None{}, notFound(p.accounts.SetPassword(ctx, in.DID, in.Password))
}

type updateAccountEmailInput struct {
	Account syntax.AtIdentifier `json:"account"`
	Email   string              `json:"email"`
}

// updateAccountEmail sets an account's address; an empty one takes it away.
func (p *PDS) updateAccountEmail(ctx context.Context, _ xrpc.Viewer, in updateAccountEmailInput) (*xrpc.None, error) {
	did, err := p.hostedDID(ctx, in.Account)
	if err != nil {
		return nil, notFound(err)
	}
	return &xrpc.None{}, notFound(p.accounts.SetEmail(ctx, did, in.Email))
}

// hostedDID is the DID of an account of this host, whatever its status.
func (p *PDS) hostedDID(ctx context.Context, name syntax.AtIdentifier) (syntax.DID, error) {
	if did, err := name.AsDID(); err == nil {
		return did, nil
	}
	handle, err := name.AsHandle()
	if err != nil {
		return "", xrpc.InvalidRequest("account is neither a DID nor a handle; send one of them")
	}
	a, err := p.accounts.GetByHandle(ctx, handle)
	return a.DID, err
}

type updateAccountHandleInput struct {
	DID    syntax.DID    `json:"did"`
	Handle syntax.Handle `json:"handle"`
}

func (p *PDS) updateAccountHandle(ctx context.Context, _ xrpc.Viewer, in updateAccountHandleInput) (*xrpc.None, error) {
	return &xrpc.None{}, notFound(p.rename(ctx, in.DID, in.Handle, true))
}

type adminDeleteAccountInput struct {
	DID syntax.DID `json:"did"`
}

func (p *PDS) adminDeleteAccount(ctx context.Context, _ xrpc.Viewer, in adminDeleteAccountInput) (*xrpc.None, error) {
	return &xrpc.None{}, notFound(p.eraseAccount(ctx, in.DID, func(*gorm.DB) error { return nil }))
}
