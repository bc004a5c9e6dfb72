package pds

import (
	"context"
	"fmt"
	"net/http"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/sequencer"
)

type createAccountInput struct {
	Email       string        `json:"email"`
	Handle      syntax.Handle `json:"handle"`
	DID         *syntax.DID   `json:"did"`
	InviteCode  string        `json:"inviteCode"`
	Password    string        `json:"password"`
	RecoveryKey string        `json:"recoveryKey"`
}

type createAccountOutput struct {
	AccessJWT  string            `json:"accessJwt"`
	RefreshJWT string            `json:"refreshJwt"`
	Handle     syntax.Handle     `json:"handle"`
	DID        syntax.DID        `json:"did"`
	DIDDoc     *account.Document `json:"didDoc,omitempty"`
}

// createAccount makes an account for whoever has an invite (where invites are
// required) or is the admin. With a did, the caller proves it by a service JWT
// of that DID.
func (p *PDS) createAccount(ctx context.Context, v xrpc.Viewer, in createAccountInput) (*createAccountOutput, error) {
	params := account.Params{
		Handle:      in.Handle.Normalize(),
		Email:       in.Email,
		Password:    in.Password,
		Invite:      in.InviteCode,
		RecoveryKey: in.RecoveryKey,
		ByAdmin:     v.IsAdmin(),
	}
	if in.DID != nil {
		if err := provesDID(ctx, v, *in.DID); err != nil {
			return nil, err
		}
		if err := p.provesHandle(ctx, *in.DID, params.Handle); err != nil {
			return nil, err
		}
		params.DID = *in.DID
	}
	if in.Password == "" && !v.IsAdmin() {
		return nil, xrpc.InvalidRequest("a password is missing; send one of 8 to 256 bytes")
	}
	created, err := p.openAccount(ctx, params)
	if err != nil {
		return nil, err
	}
	tokens, err := p.accounts.StartSession(ctx, created.DID, account.ScopeAccess)
	if err != nil {
		return nil, err
	}
	document, err := p.accounts.Document(ctx, created.DID)
	if err != nil {
		return nil, err
	}
	return &createAccountOutput{
		AccessJWT: tokens.Access, RefreshJWT: tokens.Refresh,
		Handle: created.Handle, DID: created.DID, DIDDoc: document,
	}, nil
}

// provesDID refuses a DID that the caller wants to bring along without a
// service JWT signed by its key.
func provesDID(ctx context.Context, v xrpc.Viewer, did syntax.DID) error {
	if v.Kind == xrpc.Service && v.DID == did {
		return nil
	}
	if call := xrpc.CallFrom(ctx); call != nil && call.CredentialErr != nil {
		return call.CredentialErr
	}
	return xrpc.Errorf(http.StatusUnauthorized, "AuthenticationRequired", "an account for an existing DID needs proof of it; send a service token by %s with aud this server and lxm com.atproto.server.createAccount", did)
}

// provesHandle refuses a handle of another domain that does not point to the
// DID.
func (p *PDS) provesHandle(ctx context.Context, did syntax.DID, handle syntax.Handle) error {
	if p.accounts.OwnsDomain(handle) {
		return nil
	}
	ident, err := p.directory.LookupDID(ctx, did)
	if err == nil && ident.Handle == handle || p.handles != nil && p.proves(ctx, handle, did) == nil {
		return nil
	}
	return xrpc.InvalidRequest("External handle did not resolve to DID; let %s name it, or take a handle of this host", handle)
}

// openAccount makes the account and its repo and announces them, in one
// transaction. What is slow or talks to others, such as the PLC directory,
// happens before it.
func (p *PDS) openAccount(ctx context.Context, params account.Params) (account.Account, error) {
	return p.openAccountWith(ctx, params, func(*gorm.DB, syntax.DID) error { return nil })
}

// openAccountWith is openAccount with what else belongs to the account, in the
// same transaction.
func (p *PDS) openAccountWith(ctx context.Context, params account.Params, also func(tx *gorm.DB, did syntax.DID) error) (account.Account, error) {
	prepared, err := p.accounts.Prepare(ctx, params)
	if err != nil {
		return account.Account{}, err
	}
	if err := p.accounts.Submit(ctx, prepared); err != nil {
		return account.Account{}, err
	}
	var created account.Account
	err = p.changeAccount(ctx, prepared.DID(), func(tx *gorm.DB) ([]sequencer.Draft, error) {
		if created, err = p.accounts.Insert(ctx, tx, prepared); err != nil {
			return nil, err
		}
		_, repo, err := p.repos.CreateRepo(ctx, tx, created.DID, prepared.SigningKey())
		if err == nil {
			err = also(tx, created.DID)
		}
		if err != nil || !created.Active() {
			return nil, err // what is not active yet is announced by its activation
		}
		return append([]sequencer.Draft{
			sequencer.IdentityDraft{DID: created.DID, Handle: created.Handle},
			sequencer.AccountDraft{DID: created.DID, Active: true},
		}, repo...), nil
	})
	if err != nil {
		return account.Account{}, fmt.Errorf("create account %s: %w", params.Handle, err)
	}
	return created, nil
}
