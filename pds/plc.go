package pds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/sequencer"
)

func (p *PDS) registerPLC(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Procedure(s, "com.atproto.identity.requestPlcOperationSignature", xrpc.AccessToken, p.requestPlcOperationSignature, xrpc.JudgesGrants()),
		xrpc.Procedure(s, "com.atproto.identity.signPlcOperation", xrpc.AccessToken, p.signPlcOperation, xrpc.JudgesGrants()),
		xrpc.Procedure(s, "com.atproto.identity.submitPlcOperation", xrpc.AccessToken, p.submitPlcOperation, xrpc.JudgesGrants()),
	)
}

// hasPLC refuses a DID that is in no PLC directory.
func hasPLC(did syntax.DID) error {
	if did.Method() == "plc" {
		return nil
	}
	return xrpc.InvalidRequest("%s has no PLC operations; a did:web that was issued here is pointed at its new host with %s, any other where its document is served", did, moveIdentityMethod)
}

func (p *PDS) requestPlcOperationSignature(ctx context.Context, v xrpc.Viewer, _ xrpc.None) (*xrpc.None, error) {
	if err := ownsIdentity(v); err != nil {
		return nil, err
	}
	if err := hasPLC(v.DID); err != nil {
		return nil, err
	}
	return &xrpc.None{}, p.accounts.RequestToken(ctx, v.DID, account.SigningPLC)
}

type signPlcOperationInput struct {
	Token               string          `json:"token"`
	RotationKeys        []string        `json:"rotationKeys"`
	AlsoKnownAs         []string        `json:"alsoKnownAs"`
	VerificationMethods json.RawMessage `json:"verificationMethods"`
	Services            json.RawMessage `json:"services"`
}

type plcOperationOutput struct {
	Operation *account.PLCOperation `json:"operation"`
}

// signPlcOperation signs the operation that takes an identity elsewhere. What
// is left out stays as the last operation has it. The token is spent only on
// an operation that was signed.
func (p *PDS) signPlcOperation(ctx context.Context, v xrpc.Viewer, in signPlcOperationInput) (*plcOperationOutput, error) {
	if err := ownsIdentity(v); err != nil {
		return nil, err
	}
	if err := hasPLC(v.DID); err != nil {
		return nil, err
	}
	var methods map[string]string
	if err := readPlain("verificationMethods", in.VerificationMethods, &methods); err != nil {
		return nil, err
	}
	var services map[string]account.PLCService
	if err := readPlain("services", in.Services, &services); err != nil {
		return nil, err
	}
	op, err := p.accounts.SignPLC(ctx, v.DID, func(op *account.PLCOperation) {
		if in.RotationKeys != nil {
			op.RotationKeys = in.RotationKeys
		}
		if in.AlsoKnownAs != nil {
			op.AlsoKnownAs = in.AlsoKnownAs
		}
		if methods != nil {
			op.VerificationMethods = methods
		}
		if services != nil {
			op.Services = services
		}
	})
	if err != nil {
		return nil, err
	}
	err = p.db.Tx(ctx, func(tx *gorm.DB) error {
		return p.accounts.SpendTokenTx(ctx, tx, v.DID, account.SigningPLC, in.Token)
	})
	if err != nil {
		return nil, oneTime(err, "com.atproto.identity.requestPlcOperationSignature")
	}
	return &plcOperationOutput{op}, nil
}

// readPlain reads what a lexicon calls unknown and what has one form all the
// same. A field too much would be lost, and with it what was signed.
func readPlain(field string, raw json.RawMessage, into any) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return xrpc.InvalidRequest("%s has not the form that the did:plc specification gives it; see com.atproto.identity.getRecommendedDidCredentials", field)
	}
	return nil
}

type submitPlcOperationInput struct {
	Operation json.RawMessage `json:"operation"`
}

// submitPlcOperation sends an operation that keeps the account at home here to
// the directory, which judges its signature, and announces it.
func (p *PDS) submitPlcOperation(ctx context.Context, v xrpc.Viewer, in submitPlcOperationInput) (*xrpc.None, error) {
	if v.Grants != nil {
		if err := ownsIdentity(v); err != nil {
			return nil, err
		}
	}
	if err := hasPLC(v.DID); err != nil {
		return nil, err
	}
	if err := notTakenDown(v); err != nil {
		return nil, err
	}
	// The form is checked apart: PLCOperation has a reader of its own, which is
	// as patient as the directory's history needs it.
	var form struct {
		Type, Sig           string
		RotationKeys        []string
		VerificationMethods map[string]string
		AlsoKnownAs         []string
		Services            map[string]account.PLCService
		Prev                *string
	}
	if err := readPlain("operation", in.Operation, &form); err != nil {
		return nil, err
	}
	var op account.PLCOperation
	if err := json.Unmarshal(in.Operation, &op); err != nil || op.Type != "plc_operation" {
		return nil, xrpc.InvalidRequest("operation is no plc_operation; sign one with com.atproto.identity.signPlcOperation")
	}
	wanted, err := p.recommendedCredentials(ctx, v.DID)
	if err != nil {
		return nil, err
	}
	if err := keepsHome(op, wanted); err != nil {
		return nil, err
	}
	if err := p.accounts.SubmitPLC(ctx, v.DID, &op); err != nil {
		if errors.Is(err, account.ErrPLCRefused) {
			return nil, xrpc.InvalidRequest("%v; correct the operation and sign it again", err)
		}
		return nil, err
	}
	return &xrpc.None{}, p.announceIdentity(ctx, v.DID)
}

// keepsHome refuses an operation after which the account would not be at home
// here: what takes it elsewhere is submitted by its new host.
func keepsHome(op account.PLCOperation, wanted *recommendedCredentials) error {
	const repair = "; com.atproto.identity.getRecommendedDidCredentials has what to keep, and the new host submits what leads away from here"
	home, service := wanted.Services[pdsService], op.Services[pdsService]
	switch {
	case !slices.Contains(op.RotationKeys, wanted.RotationKeys[0]):
		return xrpc.InvalidRequest("Rotation keys do not include server's rotation key" + repair)
	case service.Type != home.Type:
		return xrpc.InvalidRequest("Incorrect type on atproto_pds service" + repair)
	case strings.TrimSuffix(service.Endpoint, "/") != strings.TrimSuffix(home.Endpoint, "/"):
		return xrpc.InvalidRequest("Incorrect endpoint on atproto_pds service" + repair)
	case op.VerificationMethods[account.KeyID] != wanted.VerificationMethods[account.KeyID]:
		return xrpc.InvalidRequest("Incorrect signing key" + repair)
	case len(op.AlsoKnownAs) == 0 || op.AlsoKnownAs[0] != wanted.AlsoKnownAs[0]:
		return xrpc.InvalidRequest("Incorrect handle in alsoKnownAs" + repair)
	}
	return nil
}

// announceIdentity tells the world to look at an identity again, and forgets
// what was known of it here.
func (p *PDS) announceIdentity(ctx context.Context, did syntax.DID) error {
	if err := p.directory.Purge(ctx, did.AtIdentifier()); err != nil {
		return fmt.Errorf("purge identity %s: %w", did, err)
	}
	return p.changeAccount(ctx, did, func(tx *gorm.DB) ([]sequencer.Draft, error) {
		a, err := p.accounts.GetTx(ctx, tx, did)
		if err != nil {
			return nil, err
		}
		return []sequencer.Draft{identityDraft(a)}, nil
	})
}

// identityDraft leaves the handle out where there is none any more.
func identityDraft(a account.Account) sequencer.Draft {
	if a.Handle.IsInvalidHandle() {
		return sequencer.IdentityDraft{DID: a.DID}
	}
	return sequencer.IdentityDraft{DID: a.DID, Handle: a.Handle}
}
