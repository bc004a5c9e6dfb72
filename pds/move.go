package pds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/sequencer"
)

const moveIdentityMethod syntax.NSID = "garden.herbarium.moveIdentity"

// registerMove registers the way out for a did:web that was issued here: its
// document is served here for ever, so this host has to name the next one.
func (p *PDS) registerMove(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Procedure(s, moveIdentityMethod, xrpc.AccessToken, p.moveIdentity, xrpc.JudgesGrants()),
		xrpc.Procedure(s, "garden.herbarium.admin.moveIdentity", xrpc.AdminOnly, p.adminMoveIdentity),
	)
}

// newHome is where a did:web lives from now on; all empty: here again.
type newHome struct {
	Endpoint  string        `json:"endpoint"`
	PublicKey string        `json:"publicKey"`
	Handle    syntax.Handle `json:"handle"`
}

type moveIdentityOutput struct {
	Document *account.Document `json:"didDoc"`
}

func (p *PDS) moveIdentity(ctx context.Context, v xrpc.Viewer, in newHome) (*moveIdentityOutput, error) {
	if err := ownsIdentity(v); err != nil {
		return nil, err
	}
	return p.move(ctx, v.DID, in)
}

type adminMoveIdentityInput struct {
	DID syntax.DID `json:"did"`
	newHome
}

func (p *PDS) adminMoveIdentity(ctx context.Context, _ xrpc.Viewer, in adminMoveIdentityInput) (*moveIdentityOutput, error) {
	out, err := p.move(ctx, in.DID, in.newHome)
	return out, notFound(err)
}

// move points the document of a did:web at its home and, when that is
// elsewhere, deactivates the account here in the same transaction: from then
// on only the other host may write to the repo. Coming back leaves it
// deactivated; activateAccount looks at the document and opens it.
func (p *PDS) move(ctx context.Context, did syntax.DID, home newHome) (*moveIdentityOutput, error) {
	before, err := p.accounts.Get(ctx, did)
	if err != nil {
		return nil, err
	}
	if before.Identity != account.Web {
		return nil, xrpc.InvalidRequest("the document of %s is not served here; change it where it is, a did:plc with com.atproto.identity.signPlcOperation", did)
	}
	err = p.changeAccount(ctx, did, func(tx *gorm.DB) ([]sequencer.Draft, error) {
		if err := p.accounts.RepointTx(ctx, tx, did, account.Home(home)); err != nil {
			return nil, err
		}
		a, err := p.accounts.GetTx(ctx, tx, did)
		if err != nil {
			return nil, err
		}
		drafts := []sequencer.Draft{p.movedDraft(a, home)}
		if home.Endpoint == "" || !a.Active() {
			return drafts, nil
		}
		if a, err = p.accounts.DeactivateTx(ctx, tx, did, (*time.Time)(nil)); err != nil {
			return nil, err
		}
		return append(drafts, announce(a)), nil
	})
	if err != nil {
		return nil, fmt.Errorf("move %s: %w", did, err)
	}
	document, err := p.accounts.Document(ctx, did)
	return &moveIdentityOutput{document}, err
}

// movedDraft announces the identity with the handle that its document names.
func (p *PDS) movedDraft(a account.Account, home newHome) sequencer.Draft {
	if home.Handle != "" {
		return sequencer.IdentityDraft{DID: a.DID, Handle: home.Handle.Normalize()}
	}
	return identityDraft(a)
}
