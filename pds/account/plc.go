package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"
)

// Bounds of one request to the PLC directory.
const (
	plcTimeout   = 10 * time.Second
	maxPLCAnswer = 1 << 20 // a log of some 500 operations
)

// PLCOperation is a did:plc operation of type plc_operation
// (https://web.plc.directory/spec/v0.1/did-plc).
type PLCOperation struct {
	Type                string                `json:"type"`
	RotationKeys        []string              `json:"rotationKeys"`        // did:key, the highest authority first
	VerificationMethods map[string]string     `json:"verificationMethods"` // did:key by fragment
	AlsoKnownAs         []string              `json:"alsoKnownAs"`
	Services            map[string]PLCService `json:"services"`
	Prev                *string               `json:"prev"` // CID of the operation before; nil in the genesis
	Sig                 string                `json:"sig,omitempty"`

	created *createOperation // what was signed, where a log starts with the old form
}

// PLCService is a service of a PLCOperation.
type PLCService struct {
	Type     string `json:"type"`
	Endpoint string `json:"endpoint"`
}

const plcOperationType = "plc_operation"

// encode writes the operation as DAG-CBOR. The signature is over the form
// without sig (absent, not empty); DID and CID are over the form with it. prev
// is always there, null in the genesis.
func (op *PLCOperation) encode(signed bool) ([]byte, error) {
	if op.created != nil {
		return op.created.encode(signed)
	}
	fields := map[string]any{"type": op.Type, "rotationKeys": list(op.RotationKeys), "alsoKnownAs": list(op.AlsoKnownAs), "prev": nil}
	if op.Prev != nil {
		fields["prev"] = *op.Prev
	}
	methods := map[string]any{}
	for id, key := range op.VerificationMethods {
		methods[id] = key
	}
	services := map[string]any{}
	for id, service := range op.Services {
		services[id] = map[string]any{"type": service.Type, "endpoint": service.Endpoint}
	}
	fields["verificationMethods"], fields["services"] = methods, services
	if signed {
		fields["sig"] = op.Sig
	}
	raw, err := atdata.MarshalCBOR(fields)
	if err != nil {
		return nil, fmt.Errorf("encode plc operation: %w", err)
	}
	return raw, nil
}

func list(items []string) []any {
	out := make([]any, len(items))
	for i, item := range items {
		out[i] = item
	}
	return out
}

// Sign signs with a rotation key, low-S, as base64url without padding.
func (op *PLCOperation) Sign(key atcrypto.PrivateKey) error {
	raw, err := op.encode(false)
	if err != nil {
		return err
	}
	sig, err := key.HashAndSign(raw)
	if err != nil {
		return fmt.Errorf("sign plc operation: %w", err)
	}
	op.Sig = base64.RawURLEncoding.EncodeToString(sig)
	return nil
}

// DID derives the did:plc that a signed genesis operation creates.
func (op *PLCOperation) DID() (syntax.DID, error) {
	if op.Prev != nil || op.Sig == "" {
		return "", errors.New("derive did:plc: want a signed genesis operation")
	}
	raw, err := op.encode(true)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return syntax.DID("did:plc:" + lowerBase32.EncodeToString(sum[:])[:24]), nil
}

// CID names the signed operation, for the prev of the next.
func (op *PLCOperation) CID() (cid.Cid, error) {
	raw, err := op.encode(true)
	if err != nil {
		return cid.Undef, err
	}
	sum := sha256.Sum256(raw)
	hash, err := multihash.Encode(sum[:], multihash.SHA2_256)
	if err != nil {
		return cid.Undef, fmt.Errorf("cid of plc operation: %w", err)
	}
	return cid.NewCidV1(cid.DagCBOR, hash), nil
}

// Verify checks the signature against the rotation keys that may sign it (of
// the operation before, or for a genesis its own).
func (op *PLCOperation) Verify(rotationKeys []string) error {
	raw, err := op.encode(false)
	if err != nil {
		return err
	}
	sig, err := base64.RawURLEncoding.Strict().DecodeString(op.Sig)
	if err != nil {
		return fmt.Errorf("verify plc operation: %w", err)
	}
	for _, didKey := range rotationKeys {
		key, err := atcrypto.ParsePublicDIDKey(didKey)
		if err == nil && key.HashAndVerify(raw, sig) == nil {
			return nil
		}
	}
	return errors.New("verify plc operation: signed by none of the rotation keys")
}

// genesis makes and signs the operation that creates the DID of an account.
func (s *Store) genesis(ctx context.Context, handle syntax.Handle, signing atcrypto.PrivateKey, recovery string) (*PLCOperation, error) {
	rotation, err := s.RotationKey(ctx)
	if err != nil {
		return nil, err
	}
	rotationPublic, err := rotation.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("rotation key: %w", err)
	}
	signingPublic, err := signing.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	op := &PLCOperation{
		Type:                plcOperationType,
		RotationKeys:        []string{rotationPublic.DIDKey()},
		VerificationMethods: map[string]string{KeyID: signingPublic.DIDKey()},
		AlsoKnownAs:         []string{"at://" + handle.String()},
		Services:            map[string]PLCService{PDSServiceID: {Type: pdsType, Endpoint: s.cfg.PublicURL.String()}},
	}
	if recovery != "" {
		if _, err := atcrypto.ParsePublicDIDKey(recovery); err != nil {
			return nil, fmt.Errorf("%w: the recovery key is no did:key", ErrPLCRefused)
		}
		op.RotationKeys = append([]string{recovery}, op.RotationKeys...)
	}
	return op, op.Sign(rotation)
}

// SignPLC makes and signs the next operation of a did:plc that this host has a
// rotation key of: mutate changes a copy of the last one. Nothing is submitted.
// ErrNoRotation when this host may not sign for the DID.
//
// The operations before are verified from the genesis on, since what is carried
// over from the last one is signed again: a directory that lies must not get
// its own rotation keys signed by ours.
func (s *Store) SignPLC(ctx context.Context, did syntax.DID, mutate func(*PLCOperation)) (*PLCOperation, error) {
	log, err := s.plc.log(ctx, did)
	if err != nil {
		return nil, fmt.Errorf("sign operation of %s: %w", did, err)
	}
	if err := verifyPLCLog(did, log); err != nil {
		return nil, fmt.Errorf("sign operation of %s: %w: %w", did, ErrPLCUnavailable, err)
	}
	op := log[len(log)-1]
	prev, err := op.CID()
	if err != nil {
		return nil, fmt.Errorf("sign operation of %s: %w", did, err)
	}
	rotation, err := s.RotationKey(ctx)
	if err != nil {
		return nil, err
	}
	public, err := rotation.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("rotation key: %w", err)
	}
	if !slices.Contains(op.RotationKeys, public.DIDKey()) {
		return nil, fmt.Errorf("sign operation of %s: %w", did, ErrNoRotation)
	}
	mutate(&op)
	link := prev.String()
	op.Type, op.Prev, op.Sig, op.created = plcOperationType, &link, "", nil
	return &op, op.Sign(rotation)
}

// SubmitPLC sends a signed operation of a DID to the directory, which judges
// it. ErrPLCRefused, ErrPLCUnavailable.
func (s *Store) SubmitPLC(ctx context.Context, did syntax.DID, op *PLCOperation) error {
	if err := s.plc.submit(ctx, did, op); err != nil {
		return fmt.Errorf("update %s: %w", did, err)
	}
	return nil
}

// UpdatePLC signs and submits the next operation of a did:plc, as SignPLC has
// it. The caller emits the #identity event.
func (s *Store) UpdatePLC(ctx context.Context, did syntax.DID, mutate func(*PLCOperation)) error {
	op, err := s.SignPLC(ctx, did, mutate)
	if err != nil {
		return err
	}
	return s.SubmitPLC(ctx, did, op)
}

// plcClient speaks to one PLC directory.
type plcClient struct {
	base *url.URL
	http *http.Client
}

// plcOrPublic is the configured directory, or the public one.
func plcOrPublic(configured *url.URL) *url.URL {
	if configured != nil {
		return configured
	}
	return &url.URL{Scheme: "https", Host: "plc.directory"}
}

// submit posts a signed operation. 4xx is ErrPLCRefused with the directory's
// words, all else that is not 2xx ErrPLCUnavailable.
func (c *plcClient) submit(ctx context.Context, did syntax.DID, op *PLCOperation) error {
	body, err := json.Marshal(op)
	if err != nil {
		return fmt.Errorf("encode plc operation: %w", err)
	}
	_, err = c.do(ctx, http.MethodPost, string(did), body)
	return err
}

// log answers the operations of a DID that count, the genesis first, not
// verified.
func (c *plcClient) log(ctx context.Context, did syntax.DID) ([]PLCOperation, error) {
	answer, err := c.do(ctx, http.MethodGet, string(did)+"/log", nil)
	if err != nil {
		return nil, err
	}
	var log []PLCOperation
	if err := json.Unmarshal(answer, &log); err != nil {
		return nil, fmt.Errorf("%w: its answer does not parse", ErrPLCUnavailable)
	}
	return log, nil
}

func (c *plcClient) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, plcTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("plc request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPLCUnavailable, err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxPLCAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrPLCUnavailable, err)
	case len(answer) > maxPLCAnswer:
		return nil, fmt.Errorf("%w: its answer is too long", ErrPLCUnavailable)
	case res.StatusCode >= 400 && res.StatusCode < 500 && res.StatusCode != http.StatusTooManyRequests:
		return nil, fmt.Errorf("%w: %s", ErrPLCRefused, refusal(answer))
	case res.StatusCode < 200 || res.StatusCode > 299:
		return nil, fmt.Errorf("%w: status %d", ErrPLCUnavailable, res.StatusCode)
	}
	return answer, nil
}

// refusal is the directory's reason, fit to be shown: short and on one line.
func refusal(answer []byte) string {
	var body struct {
		Message string `json:"message"`
	}
	text := string(answer)
	if json.Unmarshal(answer, &body) == nil && body.Message != "" {
		text = body.Message
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	return text
}
