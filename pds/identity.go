package pds

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/sequencer"
)

func (p *PDS) registerIdentity(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Query(s, "com.atproto.identity.resolveHandle", xrpc.Open, p.resolveHandle),
		xrpc.Procedure(s, "com.atproto.identity.updateHandle", xrpc.AccessToken, p.updateHandle),
	)
}

type resolveHandleParams struct {
	Handle syntax.Handle `param:"handle"`
}

type resolveHandleOutput struct {
	DID syntax.DID `json:"did"`
}

// resolveHandle asks the accounts of this host first, then the network. A name
// under one of our own domains is never looked for elsewhere.
func (p *PDS) resolveHandle(ctx context.Context, _ xrpc.Viewer, in resolveHandleParams) (*resolveHandleOutput, error) {
	handle := in.Handle.Normalize()
	did, err := p.accounts.ResolveHandle(ctx, handle)
	if err == nil {
		return &resolveHandleOutput{DID: did}, nil
	}
	if !errors.Is(err, account.ErrNotFound) {
		return nil, err
	}
	if p.isOwnName(handle) {
		return nil, xrpc.Errorf(400, "HandleNotFound", "Unable to resolve handle; no active account here has it")
	}
	ident, err := p.directory.LookupHandle(ctx, handle)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("resolve handle %s: %w", handle, err)
		}
		return nil, xrpc.InvalidRequest("Unable to resolve handle; check its DNS record or its /.well-known/atproto-did")
	}
	return &resolveHandleOutput{DID: ident.DID}, nil
}

func (p *PDS) isOwnName(handle syntax.Handle) bool {
	for _, domain := range p.cfg.HandleDomains {
		if strings.HasSuffix(string(handle), domain) {
			return true
		}
	}
	return false
}

type updateHandleInput struct {
	Handle syntax.Handle `json:"handle"`
}

func (p *PDS) updateHandle(ctx context.Context, v xrpc.Viewer, in updateHandleInput) (*xrpc.None, error) {
	if err := mayWrite(v); err != nil {
		return nil, err
	}
	return &xrpc.None{}, p.rename(ctx, v.DID, in.Handle.Normalize())
}

// rename gives an account another handle and announces it, also when nothing
// changes: that is how a client asks for the identity to be looked at again.
func (p *PDS) rename(ctx context.Context, did syntax.DID, handle syntax.Handle) error {
	err := p.changeAccount(ctx, did, func(tx *gorm.DB) ([]sequencer.Draft, error) {
		a, err := p.accounts.SetHandleTx(ctx, tx, did, handle)
		if err != nil {
			return nil, err
		}
		return []sequencer.Draft{sequencer.IdentityDraft{DID: did, Handle: a.Handle}}, nil
	})
	if err != nil {
		return fmt.Errorf("rename %s: %w", did, err)
	}
	return nil
}

// changeAccount runs change in a transaction and makes known what it changed.
func (p *PDS) changeAccount(ctx context.Context, did syntax.DID, change func(tx *gorm.DB) ([]sequencer.Draft, error)) error {
	events, err := p.record(ctx, change)
	if err != nil {
		return err
	}
	p.accounts.Forget(did)
	p.events.Published(events)
	return nil
}

// record runs change in a transaction and appends the events that it returns
// as the last thing in it. The caller publishes them.
func (p *PDS) record(ctx context.Context, change func(tx *gorm.DB) ([]sequencer.Draft, error)) (events sequencer.Batch, err error) {
	err = p.db.Tx(ctx, func(tx *gorm.DB) error {
		drafts, err := change(tx)
		if err != nil || len(drafts) == 0 {
			return err
		}
		events, err = p.events.Append(ctx, tx, drafts...)
		return err
	})
	return events, err
}
