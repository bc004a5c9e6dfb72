package pds

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

func (p *PDS) registerInvites(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Procedure(s, "com.atproto.server.createInviteCode", xrpc.AdminOnly, p.createInviteCode),
		xrpc.Procedure(s, "com.atproto.server.createInviteCodes", xrpc.AdminOnly, p.createInviteCodes),
		xrpc.Query(s, "com.atproto.server.getAccountInviteCodes", xrpc.AccessToken, p.getAccountInviteCodes, xrpc.Ignores("createAvailable")),
		xrpc.Query(s, getInviteCodesMethod, xrpc.AdminOnly, p.getInviteCodes),
		xrpc.Procedure(s, "com.atproto.admin.disableInviteCodes", xrpc.AdminOnly, p.disableInviteCodes),
		xrpc.Procedure(s, "com.atproto.admin.enableAccountInvites", xrpc.AdminOnly, p.enableAccountInvites),
		xrpc.Procedure(s, "com.atproto.admin.disableAccountInvites", xrpc.AdminOnly, p.disableAccountInvites),
	)
}

// inviteView is com.atproto.server.defs#inviteCode.
type inviteView struct {
	Code       string          `json:"code"`
	Available  int             `json:"available"` // as created, used ones included
	Disabled   bool            `json:"disabled"`
	ForAccount string          `json:"forAccount"`
	CreatedBy  string          `json:"createdBy"`
	CreatedAt  string          `json:"createdAt"`
	Uses       []inviteUseView `json:"uses"`
}

type inviteUseView struct {
	UsedBy syntax.DID `json:"usedBy"`
	UsedAt string     `json:"usedAt"`
}

func viewInvite(i account.Invite) inviteView {
	view := inviteView{
		Code: i.Code, Available: i.Uses, Disabled: i.Disabled, ForAccount: i.ForAccount, CreatedBy: i.CreatedBy,
		CreatedAt: migrations.FormatTime(i.CreatedAt), Uses: make([]inviteUseView, len(i.UsedBy)),
	}
	for n, use := range i.UsedBy {
		view.Uses[n] = inviteUseView{UsedBy: use.DID, UsedAt: migrations.FormatTime(use.At)}
	}
	return view
}

func viewInvites(invites []account.Invite) []inviteView {
	views := make([]inviteView, len(invites))
	for i, invite := range invites {
		views[i] = viewInvite(invite)
	}
	return views
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

type getAccountInviteCodesParams struct {
	IncludeUsed bool `param:"includeUsed"`
}

type accountInvitesOutput struct {
	Codes []inviteView `json:"codes"`
}

// getAccountInviteCodes lists the codes that the operator has given the caller.
// Accounts earn none here, so there is nothing for createAvailable to create.
func (p *PDS) getAccountInviteCodes(ctx context.Context, v xrpc.Viewer, in getAccountInviteCodesParams) (*accountInvitesOutput, error) {
	if err := fullAccess(v); err != nil {
		return nil, err
	}
	invites, err := p.accounts.InvitesOf(ctx, v.DID)
	if err != nil {
		return nil, err
	}
	invites = slices.DeleteFunc(invites, func(i account.Invite) bool { return i.Disabled || !in.IncludeUsed && i.UsesLeft == 0 })
	return &accountInvitesOutput{Codes: viewInvites(invites)}, nil
}

const getInviteCodesMethod = "com.atproto.admin.getInviteCodes"

type getInviteCodesParams struct {
	Sort   string `param:"sort"`
	Limit  int    `param:"limit"`
	Cursor string `param:"cursor"`
}

type getInviteCodesOutput struct {
	Cursor string       `json:"cursor,omitempty"`
	Codes  []inviteView `json:"codes"`
}

// invitePosition is where a list of codes goes on.
type invitePosition struct {
	Code      string
	CreatedAt time.Time
	Used      int
}

func (p *PDS) getInviteCodes(ctx context.Context, _ xrpc.Viewer, in getInviteCodesParams) (*getInviteCodesOutput, error) {
	order := account.InviteOrder(in.Sort)
	if order != account.InvitesRecent && order != account.InvitesUsage {
		return nil, xrpc.InvalidRequest("unknown sort method: %s; use recent or usage", in.Sort)
	}
	list := getInviteCodesMethod + "#" + in.Sort // a cursor of one order makes no sense in the other
	var after *account.Invite
	if in.Cursor != "" {
		at, err := xrpc.DecodeCursor[invitePosition](list, in.Cursor)
		if err != nil {
			return nil, err
		}
		after = &account.Invite{Code: at.Code, CreatedAt: at.CreatedAt, Uses: at.Used}
	}
	invites, err := p.accounts.ListInvites(ctx, order, after, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &getInviteCodesOutput{Codes: viewInvites(invites)}
	if len(invites) == in.Limit {
		last := invites[len(invites)-1]
		out.Cursor = xrpc.EncodeCursor(list, invitePosition{last.Code, last.CreatedAt, last.Uses - last.UsesLeft})
	}
	return out, nil
}

type disableInviteCodesInput struct {
	Codes    []string `json:"codes"`
	Accounts []string `json:"accounts"`
}

func (p *PDS) disableInviteCodes(ctx context.Context, _ xrpc.Viewer, in disableInviteCodesInput) (*xrpc.None, error) {
	if slices.Contains(in.Accounts, account.InvitesForAdmin) {
		return nil, xrpc.InvalidRequest("cannot disable admin invite codes all at once; name them in codes")
	}
	if len(in.Codes) > maxInviteCodes || len(in.Accounts) > maxInviteCodes {
		return nil, xrpc.InvalidRequest("too many at once; name at most %d codes and accounts", maxInviteCodes)
	}
	return &xrpc.None{}, p.accounts.DisableInvites(ctx, in.Codes, in.Accounts)
}

type accountInvitesInput struct {
	Account syntax.DID `json:"account"`
	Note    string     `json:"note"`
}

func (p *PDS) enableAccountInvites(ctx context.Context, _ xrpc.Viewer, in accountInvitesInput) (*xrpc.None, error) {
	return &xrpc.None{}, notFound(p.accounts.SetInvitesDisabled(ctx, in.Account, false, in.Note))
}

func (p *PDS) disableAccountInvites(ctx context.Context, _ xrpc.Viewer, in accountInvitesInput) (*xrpc.None, error) {
	return &xrpc.None{}, notFound(p.accounts.SetInvitesDisabled(ctx, in.Account, true, in.Note))
}
