package pds

import (
	"context"
	"errors"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/sequencer"
)

func (p *PDS) registerIdentity(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Query(s, "com.atproto.identity.resolveHandle", xrpc.Open, p.resolveHandle),
		xrpc.Procedure(s, "com.atproto.identity.updateHandle", xrpc.AccessToken, p.updateHandle, xrpc.JudgesGrants()),
		xrpc.Query(s, "com.atproto.identity.getRecommendedDidCredentials", xrpc.AccessToken, p.getRecommendedDidCredentials),
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
	if p.accounts.OwnsDomain(handle) {
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

type updateHandleInput struct {
	Handle syntax.Handle `json:"handle"`
}

func (p *PDS) updateHandle(ctx context.Context, v xrpc.Viewer, in updateHandleInput) (*xrpc.None, error) {
	if err := mayRename(v); err != nil {
		return nil, err
	}
	if err := mayWrite(v); err != nil {
		return nil, err
	}
	return &xrpc.None{}, p.rename(ctx, v.DID, in.Handle, false)
}

// HandleResolver asks the network, now, which DID a handle under a domain of
// others names; account.HandleResolver is one.
type HandleResolver interface {
	Resolve(ctx context.Context, handle syntax.Handle) (syntax.DID, error)
}

// proves refuses a handle under a domain of others that does not name the DID.
func (p *PDS) proves(ctx context.Context, handle syntax.Handle, did syntax.DID) error {
	if p.handles == nil {
		return account.ErrDomainUnsupported
	}
	named, err := p.handles.Resolve(ctx, handle)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("resolve handle %s: %w", handle, err)
	case err != nil:
		return xrpc.InvalidRequest("External handle did not resolve to DID; publish the TXT record _atproto.%[1]s with did=%[2]s, and no other, or https://%[1]s/.well-known/atproto-did with %[2]s", handle, did)
	case named != did:
		return xrpc.InvalidRequest("External handle resolves to another DID, %[3]s; let the TXT record _atproto.%[1]s, which counts before https://%[1]s/.well-known/atproto-did, say did=%[2]s", handle, did, named)
	}
	return nil
}

// rename gives an account another handle, under a domain of this host or a
// proven one under another, and announces it, also when nothing changes: that is how a client asks for the
// identity to be looked at again.
func (p *PDS) rename(ctx context.Context, did syntax.DID, handle syntax.Handle, byAdmin bool) error {
	handle, ours, err := p.accounts.CheckHandle(handle, byAdmin)
	if err != nil {
		return err
	}
	if !ours {
		if err := p.proves(ctx, handle, did); err != nil {
			return err
		}
	}
	before, err := p.accounts.Get(ctx, did)
	if err != nil {
		return err
	}
	if before.Identity == account.PLC && before.Handle != handle {
		if err := p.renameInPLC(ctx, before, handle); err != nil {
			return fmt.Errorf("rename %s: %w", did, err)
		}
	}
	err = p.changeAccount(ctx, did, func(tx *gorm.DB) ([]sequencer.Draft, error) {
		a, err := p.accounts.SetHandleTx(ctx, tx, did, handle)
		if err != nil {
			return nil, err
		}
		return []sequencer.Draft{sequencer.IdentityDraft{DID: did, Handle: a.Handle}}, nil
	})
	if err != nil {
		return fmt.Errorf("rename %s: %w", did, err)
	}
	// What was known of the names, also that one of them named nobody.
	for _, name := range []syntax.Handle{before.Handle, handle} {
		if err := p.directory.Purge(ctx, name.AtIdentifier()); err != nil {
			return fmt.Errorf("purge identity %s: %w", name, err)
		}
	}
	return nil
}

// renameInPLC takes the handle here first, so that a name which is not free
// never gets into the PLC log, and gives it back when the directory says no.
func (p *PDS) renameInPLC(ctx context.Context, before account.Account, handle syntax.Handle) error {
	set := func(to syntax.Handle) error {
		return p.changeAccount(ctx, before.DID, func(tx *gorm.DB) ([]sequencer.Draft, error) {
			_, err := p.accounts.SetHandleTx(ctx, tx, before.DID, to)
			return nil, err
		})
	}
	if err := set(handle); err != nil {
		return err
	}
	err := p.accounts.UpdatePLC(ctx, before.DID, func(op *account.PLCOperation) {
		op.AlsoKnownAs = []string{"at://" + handle.String()}
	})
	if err != nil {
		return errors.Join(err, set(before.Handle))
	}
	return nil
}

type recommendedCredentials struct {
	RotationKeys        []string                          `json:"rotationKeys,omitempty"`
	AlsoKnownAs         []string                          `json:"alsoKnownAs"`
	VerificationMethods map[string]string                 `json:"verificationMethods"` // did:key by fragment
	Services            map[string]recommendedCredService `json:"services"`
}

type recommendedCredService struct {
	Type     string `json:"type"`
	Endpoint string `json:"endpoint"`
}

// getRecommendedDidCredentials says what the DID document of an account has to
// name while this host is its home.
func (p *PDS) getRecommendedDidCredentials(ctx context.Context, v xrpc.Viewer, _ xrpc.None) (*recommendedCredentials, error) {
	return p.recommendedCredentials(ctx, v.DID)
}

func (p *PDS) recommendedCredentials(ctx context.Context, did syntax.DID) (*recommendedCredentials, error) {
	a, err := p.accounts.Get(ctx, did)
	if err != nil {
		return nil, err
	}
	signing, err := p.accounts.SigningKey(ctx, did)
	if err != nil {
		return nil, err
	}
	out := &recommendedCredentials{
		AlsoKnownAs: []string{"at://" + a.Handle.String()},
		Services:    map[string]recommendedCredService{pdsService: {"AtprotoPersonalDataServer", p.cfg.PublicURL.String()}},
	}
	public, err := signing.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("public key of %s: %w", did, err)
	}
	out.VerificationMethods = map[string]string{"atproto": public.DIDKey()}
	if did.Method() != "plc" {
		return out, nil
	}
	rotation, err := p.accounts.RotationKey(ctx)
	if err != nil {
		return nil, err
	}
	if public, err = rotation.PublicKey(); err != nil {
		return nil, fmt.Errorf("rotation key: %w", err)
	}
	out.RotationKeys = []string{public.DIDKey()}
	return out, nil
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
