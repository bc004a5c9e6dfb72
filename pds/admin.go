package pds

import (
	"context"
	"encoding/json"
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

// repoSubject is com.atproto.admin.defs#repoRef.
type repoSubject struct {
	Type string     `json:"$type"`
	DID  syntax.DID `json:"did"`
}

const repoRefType = "com.atproto.admin.defs#repoRef"

// statusAttr is com.atproto.admin.defs#statusAttr.
type statusAttr struct {
	Applied bool   `json:"applied"`
	Ref     string `json:"ref,omitempty"`
}

type getSubjectStatusParams struct {
	DID  *syntax.DID   `param:"did"`
	URI  *syntax.ATURI `param:"uri"`
	Blob *syntax.CID   `param:"blob"`
}

type subjectStatus struct {
	Subject     repoSubject `json:"subject"`
	Takedown    *statusAttr `json:"takedown,omitempty"`
	Deactivated *statusAttr `json:"deactivated,omitempty"`
}

func viewSubjectStatus(a account.Account) *subjectStatus {
	return &subjectStatus{
		Subject:     repoSubject{Type: repoRefType, DID: a.DID},
		Takedown:    &statusAttr{Applied: a.TakenDownAt != nil, Ref: a.TakedownRef},
		Deactivated: &statusAttr{Applied: a.DeactivatedAt != nil},
	}
}

func (p *PDS) getSubjectStatus(ctx context.Context, _ xrpc.Viewer, in getSubjectStatusParams) (*subjectStatus, error) {
	if in.DID == nil || in.Blob != nil || in.URI != nil {
		return nil, xrpc.InvalidRequest("only accounts have a status here; send did alone")
	}
	a, err := p.accounts.Get(ctx, *in.DID)
	if err != nil {
		return nil, notFound(err)
	}
	return viewSubjectStatus(a), nil
}

type updateSubjectStatusInput struct {
	Subject     json.RawMessage `json:"subject"`
	Takedown    *statusAttr     `json:"takedown"`
	Deactivated *statusAttr     `json:"deactivated"`
}

type updateSubjectStatusOutput struct {
	Subject  repoSubject `json:"subject"`
	Takedown *statusAttr `json:"takedown,omitempty"`
}

// updateSubjectStatus takes an account down or lifts that, or (de)activates it.
func (p *PDS) updateSubjectStatus(ctx context.Context, _ xrpc.Viewer, in updateSubjectStatusInput) (*updateSubjectStatusOutput, error) {
	var subject repoSubject
	if err := json.Unmarshal(in.Subject, &subject); err != nil || subject.Type != repoRefType {
		return nil, xrpc.InvalidRequest("only accounts have a status here; send a subject of $type %s", repoRefType)
	}
	if in.Takedown != nil && in.Takedown.Applied && in.Deactivated != nil && !in.Deactivated.Applied {
		return nil, xrpc.InvalidRequest("an account cannot be taken down and activated at once; send one of the two")
	}
	var a account.Account
	err := p.changeAccount(ctx, subject.DID, func(tx *gorm.DB) ([]sequencer.Draft, error) {
		var err error
		if a, err = p.setStatus(ctx, tx, subject.DID, in); err != nil {
			return nil, notFound(err)
		}
		if a.Active() {
			return p.activation(ctx, tx, a)
		}
		return []sequencer.Draft{announce(a)}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("update status of %s: %w", subject.DID, err)
	}
	return &updateSubjectStatusOutput{Subject: subject, Takedown: in.Takedown}, nil
}

func (p *PDS) setStatus(ctx context.Context, tx *gorm.DB, did syntax.DID, in updateSubjectStatusInput) (a account.Account, err error) {
	if in.Takedown == nil && in.Deactivated == nil {
		return a, xrpc.InvalidRequest("nothing is to be changed; send takedown or deactivated")
	}
	if in.Takedown != nil {
		if in.Takedown.Applied {
			a, err = p.accounts.TakeDownTx(ctx, tx, did, in.Takedown.Ref)
		} else {
			a, err = p.accounts.LiftTakedownTx(ctx, tx, did)
		}
	}
	if err == nil && in.Deactivated != nil {
		if in.Deactivated.Applied {
			a, err = p.accounts.DeactivateTx(ctx, tx, did, nil)
		} else {
			a, err = p.accounts.ActivateTx(ctx, tx, did)
		}
	}
	return a, err
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
