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

func (p *PDS) registerAdmin(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Query(s, "com.atproto.admin.getAccountInfo", xrpc.AdminOnly, p.getAccountInfo),
		xrpc.Query(s, "com.atproto.admin.getAccountInfos", xrpc.AdminOnly, p.getAccountInfos),
		xrpc.Query(s, "com.atproto.admin.getSubjectStatus", xrpc.AdminOnly, p.getSubjectStatus),
		xrpc.Procedure(s, "com.atproto.admin.updateSubjectStatus", xrpc.AdminOnly, p.updateSubjectStatus),
		xrpc.Procedure(s, "com.atproto.admin.updateAccountPassword", xrpc.AdminOnly, p.updateAccountPassword),
		xrpc.Procedure(s, "com.atproto.admin.updateAccountHandle", xrpc.AdminOnly, p.updateAccountHandle),
		xrpc.Procedure(s, "com.atproto.admin.deleteAccount", xrpc.AdminOnly, p.adminDeleteAccount),
		xrpc.Procedure(s, "com.atproto.server.createInviteCode", xrpc.AdminOnly, p.createInviteCode),
		xrpc.Procedure(s, "com.atproto.server.createInviteCodes", xrpc.AdminOnly, p.createInviteCodes),
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
}

func viewAccount(a account.Account) accountView {
	view := accountView{DID: a.DID, Handle: a.Handle, Email: a.Email, IndexedAt: migrations.FormatTime(a.CreatedAt)}
	if a.EmailConfirmed != nil {
		view.EmailConfirmedAt = migrations.FormatTime(*a.EmailConfirmed)
	}
	if a.DeactivatedAt != nil {
		view.DeactivatedAt = migrations.FormatTime(*a.DeactivatedAt)
	}
	return view
}

func (p *PDS) getAccountInfo(ctx context.Context, _ xrpc.Viewer, in didParams) (*accountView, error) {
	a, err := p.accounts.Get(ctx, in.DID)
	if err != nil {
		return nil, notFound(err)
	}
	view := viewAccount(a)
	return &view, nil
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
		out.Infos = append(out.Infos, viewAccount(a))
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

// adminDeleteAccount deletes an account with its repo, and its older events,
// which must not be read again.
func (p *PDS) adminDeleteAccount(ctx context.Context, _ xrpc.Viewer, in adminDeleteAccountInput) (*xrpc.None, error) {
	events, err := p.record(ctx, func(tx *gorm.DB) ([]sequencer.Draft, error) {
		a, err := p.accounts.DeleteTx(ctx, tx, in.DID)
		if err != nil {
			return nil, notFound(err)
		}
		if err := p.repos.DeleteRepo(ctx, tx, in.DID); err != nil {
			return nil, err
		}
		return []sequencer.Draft{announce(a)}, p.events.Erase(ctx, tx, in.DID)
	})
	if err != nil {
		return nil, fmt.Errorf("delete account %s: %w", in.DID, err)
	}
	p.accounts.Forget(in.DID)
	p.events.Erased(in.DID) // before the last event comes, which stays
	p.events.Published(events)
	return &xrpc.None{}, nil
}

type createInviteCodeInput struct {
	UseCount   int         `json:"useCount"`
	ForAccount *syntax.DID `json:"forAccount"`
}

type createInviteCodeOutput struct {
	Code string `json:"code"`
}

func (p *PDS) createInviteCode(ctx context.Context, _ xrpc.Viewer, in createInviteCodeInput) (*createInviteCodeOutput, error) {
	owner := adminUser
	if in.ForAccount != nil {
		owner = in.ForAccount.String()
	}
	codes, err := p.inviteCodes(ctx, 1, in.UseCount, owner)
	if err != nil {
		return nil, err
	}
	return &createInviteCodeOutput{Code: codes[0]}, nil
}

type createInviteCodesInput struct {
	CodeCount   int          `json:"codeCount"`
	UseCount    int          `json:"useCount"`
	ForAccounts []syntax.DID `json:"forAccounts"`
}

type createInviteCodesOutput struct {
	Codes []accountCodes `json:"codes"`
}

type accountCodes struct {
	Account string   `json:"account"`
	Codes   []string `json:"codes"`
}

func (p *PDS) createInviteCodes(ctx context.Context, _ xrpc.Viewer, in createInviteCodesInput) (*createInviteCodesOutput, error) {
	owners := []string{adminUser}
	if len(in.ForAccounts) > 0 {
		owners = owners[:0]
		for _, did := range in.ForAccounts {
			owners = append(owners, did.String())
		}
	}
	if in.CodeCount*len(owners) > maxInviteCodes {
		return nil, xrpc.InvalidRequest("%d codes are too many at once; ask for at most %d", in.CodeCount*len(owners), maxInviteCodes)
	}
	out := &createInviteCodesOutput{}
	for _, owner := range owners {
		codes, err := p.inviteCodes(ctx, in.CodeCount, in.UseCount, owner)
		if err != nil {
			return nil, err
		}
		out.Codes = append(out.Codes, accountCodes{Account: owner, Codes: codes})
	}
	return out, nil
}

const maxInviteCodes = 1000 // made by one call

func (p *PDS) inviteCodes(ctx context.Context, n, uses int, owner string) ([]string, error) {
	if n < 1 || n > maxInviteCodes || uses < 1 {
		return nil, xrpc.InvalidRequest("codeCount and useCount are numbers from 1; ask for at most %d codes at once", maxInviteCodes)
	}
	made, err := p.accounts.CreateInvites(ctx, n, uses, owner, adminUser)
	if err != nil {
		return nil, err
	}
	codes := make([]string, len(made))
	for i, invite := range made {
		codes[i] = invite.Code
	}
	return codes, nil
}
