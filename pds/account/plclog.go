package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/bluesky-social/indigo/atproto/syntax"
)

// LoggedKeys answers the keys that a did:plc has named for its repo, now or
// before, the newest first: a repo that its old host signed was signed by one
// of them, whatever the document names by now. The directory's log is verified
// from the genesis on; keys of operations that were taken back are not in it,
// and neither are keys of a curve that we cannot check. Other methods keep no
// log: for them there are none. ErrPLCRefused, ErrPLCUnavailable.
func (s *Store) LoggedKeys(ctx context.Context, did syntax.DID) ([]atcrypto.PublicKey, error) {
	if did.Method() != "plc" {
		return nil, nil
	}
	log, err := s.plc.log(ctx, did)
	if err != nil {
		return nil, fmt.Errorf("keys of %s: %w", did, err)
	}
	if err := verifyPLCLog(did, log); err != nil {
		return nil, fmt.Errorf("keys of %s: %w: %w", did, ErrPLCUnavailable, err)
	}
	var keys []atcrypto.PublicKey
	for _, op := range slices.Backward(log) {
		key, err := atcrypto.ParsePublicDIDKey(op.VerificationMethods[KeyID])
		if err == nil && !slices.ContainsFunc(keys, key.Equal) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// verifyPLCLog checks that the operations lead from the genesis that did is
// the hash of, each signed by a rotation key of the one before. It does not
// check whether there are newer ones or the recovery window.
func verifyPLCLog(did syntax.DID, log []PLCOperation) error {
	if len(log) == 0 {
		return errors.New("its log is empty")
	}
	rotationKeys := log[0].RotationKeys
	for i := range log {
		op := &log[i]
		if op.Type != plcOperationType && (i > 0 || op.created == nil) {
			return fmt.Errorf("operation %d is a %q", i, op.Type)
		}
		if i == 0 {
			derived, err := op.DID()
			if err != nil || derived != did {
				return errors.New("its first operation is not the genesis of this DID")
			}
		} else {
			before, err := log[i-1].CID()
			if err != nil || op.Prev == nil || *op.Prev != before.String() {
				return fmt.Errorf("operation %d does not follow the one before", i)
			}
		}
		if err := op.Verify(rotationKeys); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
		rotationKeys = op.RotationKeys
	}
	return nil
}

// createOperation is the form of genesis that the oldest DIDs have; nobody
// makes it any more (https://web.plc.directory/spec/v0.1/did-plc).
type createOperation struct {
	Type        string `json:"type"`
	SigningKey  string `json:"signingKey"`  // did:key
	RecoveryKey string `json:"recoveryKey"` // did:key, of higher authority than the signing key
	Handle      string `json:"handle"`
	Service     string `json:"service"`
	Sig         string `json:"sig"`
}

const createOperationType = "create"

func (op *createOperation) encode(signed bool) ([]byte, error) {
	fields := map[string]any{
		"type": op.Type, "signingKey": op.SigningKey, "recoveryKey": op.RecoveryKey,
		"handle": op.Handle, "service": op.Service, "prev": nil,
	}
	if signed {
		fields["sig"] = op.Sig
	}
	raw, err := atdata.MarshalCBOR(fields)
	if err != nil {
		return nil, fmt.Errorf("encode plc operation: %w", err)
	}
	return raw, nil
}

// scheme puts one in front of what the old form was free to leave it out of.
func scheme(prefix, s string) string {
	if strings.Contains(s, "://") {
		return s
	}
	return prefix + s
}

// UnmarshalJSON reads an operation; one of the old form says what it means in
// the fields of the new one, and is hashed and verified as it was signed.
func (op *PLCOperation) UnmarshalJSON(raw []byte) error {
	type fields PLCOperation // without this method
	if err := json.Unmarshal(raw, (*fields)(op)); err != nil {
		return err
	}
	op.created = nil
	if op.Type != createOperationType {
		return nil
	}
	var old createOperation
	if err := json.Unmarshal(raw, &old); err != nil {
		return err
	}
	*op = PLCOperation{
		Type:                old.Type,
		RotationKeys:        []string{old.RecoveryKey, old.SigningKey},
		VerificationMethods: map[string]string{KeyID: old.SigningKey},
		AlsoKnownAs:         []string{scheme("at://", old.Handle)},
		Services:            map[string]PLCService{PDSServiceID: {Type: pdsType, Endpoint: scheme("https://", old.Service)}},
		Prev:                op.Prev,
		Sig:                 old.Sig,
		created:             &old,
	}
	return nil
}
