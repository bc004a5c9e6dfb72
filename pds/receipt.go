package pds

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/repostore"
)

// Receipt says what a purge removed, and what was found when everything was
// looked through again. It names content by CID and never has any. It is signed
// as a JWS in its compact form (RFC 7515): the payload is the JSON of a Receipt,
// the signature ES256 or ES256K by the host key, which is #herbarium_host in the
// DID document of the service.
type Receipt struct {
	Type        string          `json:"$type"` // ReceiptType
	ID          syntax.TID      `json:"id"`
	Host        syntax.DID      `json:"host"`
	HostKey     string          `json:"hostKey"` // did:key; whoever verifies compares it with the document
	BegunAt     string          `json:"begunAt"`
	CompletedAt string          `json:"completedAt"`
	Actor       string          `json:"actor"`
	Reason      string          `json:"reason,omitempty"`
	Records     []purgeRecordID `json:"records"`
	Blobs       []purgeBlobID   `json:"blobs"`
	Steps       []purgeStepView `json:"steps"`
	Absence     Absence         `json:"absence"`
	// MayRemain says where copies can still be that this host cannot reach.
	MayRemain []string `json:"mayRemain"`
}

// ReceiptType is the $type of a Receipt.
const ReceiptType = "garden.herbarium.admin.defs#purgeReceipt"

// Absence is what was found of the CIDs afterwards: nothing, in a receipt.
type Absence struct {
	At     string           `json:"at"`
	Tables map[string]int64 `json:"tables"`          // rows of the host, by what they are
	Index  *int64           `json:"index,omitempty"` // journal rows with content; absent when this host has no index
	Bucket []string         `json:"bucket"`          // keys and versions
}

// nothing tells whether nothing was found.
func (a *Absence) nothing() bool {
	for _, n := range a.Tables {
		if n > 0 {
			return false
		}
	}
	return len(a.Bucket) == 0 && (a.Index == nil || *a.Index == 0)
}

// receipt writes and signs the receipt of a purge that has made all its steps.
func (p *PDS) receipt(ctx context.Context, purge *repostore.Purge, found *Absence) (string, error) {
	key, err := p.accounts.HostKey(ctx)
	if err != nil {
		return "", err
	}
	public, err := key.PublicKey()
	if err != nil {
		return "", err
	}
	view := viewPurge(purge)
	return signReceipt(&Receipt{
		Type: ReceiptType, ID: purge.ID, Host: p.cfg.ServiceDID, HostKey: public.DIDKey(),
		BegunAt: view.At, CompletedAt: migrations.FormatTime(p.now()),
		Actor: purge.Actor, Reason: purge.Reason, Records: view.Records, Blobs: view.Blobs, Steps: view.Steps,
		Absence: *found, MayRemain: mayRemain(p.db.Dialect),
	}, key)
}

// mayRemain is what no purge reaches.
func mayRemain(dialect migrations.Dialect) []string {
	places := []string{
		"backups of the databases, of the blobs and of the disks, until they are rotated out; after a restore the log of purges is to be applied again (garden.herbarium.admin.applyPurges)",
		"consumers of the firehose and relays that had read the record, whoever had fetched the repo, the record or the blob, and caches on the way",
		"proofs and exports that were handed out; MST nodes that are kept, here and there, show that the path held this CID, not what it was",
		"other records that quote it",
		"the CIDs: whoever guesses the content can tell by them that it was this",
		"temporary files of uploads that a crash cut off within the last hour before, until the next start",
		"logs of proxies and clients outside of this process",
	}
	if dialect == migrations.Postgres {
		return append(places,
			"the write-ahead log of Postgres and its archive, and replicas, until they have moved on",
			"free space within the pages of Postgres' tables, until it is used again (VACUUM FULL writes them anew)")
	}
	return append(places, "blocks that the file system has freed and not written over")
}

// ErrReceipt is about a receipt that is none, or not by the key. Its message is
// for whoever sent it.
var ErrReceipt = errors.New("this is no purge receipt of this host")

// receiptTyp keeps a receipt from being taken for a token.
const receiptTyp = "herbarium-purge-receipt"

// maxReceipt bounds a receipt, in bytes: one of as many versions and blobs as a
// purge may name has less.
const maxReceipt = 1 << 19

type receiptHeader struct {
	Alg string `json:"alg"`
	Typ string `json:"typ"`
	Key string `json:"kid"`
}

// signReceipt signs with the host key.
func signReceipt(r *Receipt, key atcrypto.PrivateKey) (string, error) {
	header := receiptHeader{Alg: "ES256", Typ: receiptTyp, Key: string(r.Host) + "#" + account.HostKeyID}
	if _, k256 := key.(*atcrypto.PrivateKeyK256); k256 {
		header.Alg = "ES256K"
	}
	head, err := json.Marshal(header)
	if err != nil {
		return "", fmt.Errorf("sign receipt: %w", err)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("sign receipt: %w", err)
	}
	signed := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(body)
	sig, err := key.HashAndSign([]byte(signed))
	if err != nil {
		return "", fmt.Errorf("sign receipt: %w", err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(sig), nil
}

// VerifyReceipt reads a receipt that the key has signed. With a nil key it is held
// against the one that it names itself: then it is whole, and Receipt.HostKey is to
// be compared with what is known of the host. ErrReceipt.
func VerifyReceipt(jws string, key atcrypto.PublicKey) (*Receipt, error) {
	jws = strings.TrimSpace(jws)
	parts := strings.Split(jws, ".")
	if len(parts) != 3 || len(jws) > maxReceipt {
		return nil, fmt.Errorf("%w: it is not a JWS in its compact form; send the whole line", ErrReceipt)
	}
	var header receiptHeader
	if err := decodePart(parts[0], &header); err != nil || header.Typ != receiptTyp {
		return nil, fmt.Errorf("%w: its header is of something else; send a receipt", ErrReceipt)
	}
	var r Receipt
	if err := decodePart(parts[1], &r); err != nil || r.Type != ReceiptType {
		return nil, fmt.Errorf("%w: its payload is none; send a receipt", ErrReceipt)
	}
	if key == nil {
		var err error
		if key, err = atcrypto.ParsePublicDIDKey(r.HostKey); err != nil {
			return nil, fmt.Errorf("%w: the key that it names is none; get it again", ErrReceipt)
		}
	}
	want := "ES256"
	if _, k256 := key.(*atcrypto.PublicKeyK256); k256 {
		want = "ES256K"
	}
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || header.Alg != want || r.HostKey != key.DIDKey() || key.HashAndVerify([]byte(parts[0]+"."+parts[1]), sig) != nil {
		return nil, fmt.Errorf("%w: it is not signed by the host key %s; get it again", ErrReceipt, key.DIDKey())
	}
	return &r, nil
}
