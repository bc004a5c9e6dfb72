package pds

import (
	"context"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/sequencer"
)

type checkAccountStatusOutput struct {
	Activated          bool   `json:"activated"`
	ValidDID           bool   `json:"validDid"`
	RepoCommit         string `json:"repoCommit"`
	RepoRev            string `json:"repoRev"`
	RepoBlocks         int64  `json:"repoBlocks"`
	IndexedRecords     int64  `json:"indexedRecords"`
	PrivateStateValues int64  `json:"privateStateValues"` // preferences
	ExpectedBlobs      int64  `json:"expectedBlobs"`
	ImportedBlobs      int64  `json:"importedBlobs"`
}

func (p *PDS) checkAccountStatus(ctx context.Context, v xrpc.Viewer, _ xrpc.None) (*checkAccountStatusOutput, error) {
	head, err := p.repos.Head(ctx, v.DID)
	if err != nil {
		return nil, err
	}
	counts, err := p.repos.Counts(ctx, v.DID)
	if err != nil {
		return nil, err
	}
	preferences, err := p.accounts.CountPreferences(ctx, v.DID)
	if err != nil {
		return nil, err
	}
	return &checkAccountStatusOutput{
		Activated: v.Active, ValidDID: p.checkDocument(ctx, v.DID) == nil,
		RepoCommit: head.Commit.String(), RepoRev: head.Rev.String(), RepoBlocks: counts.Blocks, IndexedRecords: counts.Records,
		PrivateStateValues: preferences,
		ExpectedBlobs:      counts.Blobs + counts.Awaited, ImportedBlobs: counts.Blobs,
	}, nil
}

// checkDocument compares the DID document, as others see it, with what this
// host would need it to say: the key that signs here, and this host.
func (p *PDS) checkDocument(ctx context.Context, did syntax.DID) error {
	if err := p.directory.Purge(ctx, did.AtIdentifier()); err != nil {
		return fmt.Errorf("purge identity %s: %w", did, err)
	}
	ident, err := p.directory.LookupDID(ctx, did)
	if err != nil {
		return xrpc.InvalidRequest("the DID document of %s cannot be read; check that it is published", did)
	}
	if strings.TrimSuffix(ident.PDSEndpoint(), "/") != strings.TrimSuffix(p.cfg.PublicURL.String(), "/") {
		return xrpc.InvalidRequest("the DID document names another host; set the endpoint of #%s to %s", pdsService, p.cfg.PublicURL)
	}
	return p.checkDocumentKey(ctx, ident)
}

func (p *PDS) checkDocumentKey(ctx context.Context, ident *identity.Identity) error {
	key, err := p.accounts.SigningKey(ctx, ident.DID)
	if err != nil {
		return err
	}
	ours, err := key.PublicKey()
	if err != nil {
		return fmt.Errorf("public key of %s: %w", ident.DID, err)
	}
	named, err := ident.PublicKey()
	if err != nil || !named.Equal(ours) {
		return xrpc.InvalidRequest("the DID document has another signing key; set #atproto to %s", ours.Multibase())
	}
	return nil
}

// activateAccount opens an account to the world, after a migration or a pause.
func (p *PDS) activateAccount(ctx context.Context, v xrpc.Viewer, _ xrpc.None) (*xrpc.None, error) {
	if err := fullAccess(v); err != nil {
		return nil, err
	}
	if err := p.checkDocument(ctx, v.DID); err != nil {
		return nil, err
	}
	err := p.changeAccount(ctx, v.DID, func(tx *gorm.DB) ([]sequencer.Draft, error) {
		a, err := p.accounts.ActivateTx(ctx, tx, v.DID)
		if err != nil {
			return nil, err
		}
		return p.activation(ctx, tx, a)
	})
	if err != nil {
		return nil, fmt.Errorf("activate %s: %w", v.DID, err)
	}
	return &xrpc.None{}, nil
}

// activation is what the world is told of an account that becomes active: its
// status, its identity, and where its repo stands.
func (p *PDS) activation(ctx context.Context, tx *gorm.DB, a account.Account) ([]sequencer.Draft, error) {
	repo, err := p.repos.SyncDraft(ctx, tx, a.DID)
	if err != nil {
		return nil, err
	}
	return []sequencer.Draft{announce(a), sequencer.IdentityDraft{DID: a.DID, Handle: a.Handle}, repo}, nil
}

type deactivateAccountInput struct {
	DeleteAfter *syntax.Datetime `json:"deleteAfter"`
}

func (p *PDS) deactivateAccount(ctx context.Context, v xrpc.Viewer, in deactivateAccountInput) (*xrpc.None, error) {
	if err := fullAccess(v); err != nil {
		return nil, err
	}
	err := p.changeAccount(ctx, v.DID, func(tx *gorm.DB) ([]sequencer.Draft, error) {
		a, err := p.accounts.DeactivateTx(ctx, tx, v.DID, timeOf(in.DeleteAfter))
		if err != nil {
			return nil, err
		}
		return []sequencer.Draft{announce(a)}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("deactivate %s: %w", v.DID, err)
	}
	return &xrpc.None{}, nil
}
