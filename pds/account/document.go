package account

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"
)

// Fragments in DID documents.
const (
	KeyID         = "atproto"           // key that signs an account's repo
	PDSServiceID  = "atproto_pds"       // where its repo is
	HostKeyID     = "herbarium_host"    // key that this host witnesses with, in the service's document
	AppviewID     = "herbarium_appview" // the appview, in the service's document
	pdsType       = "AtprotoPersonalDataServer"
	appviewType   = "HerbariumAppview"
	multikeyType  = "Multikey"
	didContext    = "https://www.w3.org/ns/did/v1"
	multikeyCtx   = "https://w3id.org/security/multikey/v1"
	ecdsaCtx      = "https://w3id.org/security/suites/ecdsa-2019/v1"
	secp256k1Ctx  = "https://w3id.org/security/suites/secp256k1-2019/v1"
	maxRepointURL = 2048
)

// Document is a DID document in the form that is served
// (https://atproto.com/specs/did).
type Document struct {
	Context            []string          `json:"@context"`
	ID                 syntax.DID        `json:"id"`
	AlsoKnownAs        []string          `json:"alsoKnownAs"`
	VerificationMethod []DocumentKey     `json:"verificationMethod"`
	Service            []DocumentService `json:"service"`
}

// DocumentKey is a verification method of a Document.
type DocumentKey struct {
	ID                 string     `json:"id"`
	Type               string     `json:"type"`
	Controller         syntax.DID `json:"controller"`
	PublicKeyMultibase string     `json:"publicKeyMultibase"`
}

// DocumentService is a service of a Document.
type DocumentService struct {
	ID              string `json:"id"`
	Type            string `json:"type"`
	ServiceEndpoint string `json:"serviceEndpoint"`
}

// newDocument makes a document with one key.
func newDocument(did syntax.DID, keyID string, key atcrypto.PublicKey) *Document {
	suite := ecdsaCtx
	if _, ok := key.(*atcrypto.PublicKeyK256); ok {
		suite = secp256k1Ctx
	}
	return &Document{
		Context: []string{didContext, multikeyCtx, suite}, ID: did, AlsoKnownAs: []string{},
		VerificationMethod: []DocumentKey{{ID: string(did) + "#" + keyID, Type: multikeyType, Controller: did, PublicKeyMultibase: key.Multibase()}},
	}
}

func (d *Document) addService(id, typ, endpoint string) {
	d.Service = append(d.Service, DocumentService{ID: "#" + id, Type: typ, ServiceEndpoint: endpoint})
}

func (d *Document) clone() *Document {
	return &Document{Context: slices.Clone(d.Context), ID: d.ID, AlsoKnownAs: slices.Clone(d.AlsoKnownAs),
		VerificationMethod: slices.Clone(d.VerificationMethod), Service: slices.Clone(d.Service)}
}

// identity is the document as indigo's directories have it, the handle not
// verified.
func (d *Document) identity() identity.Identity {
	doc := identity.DIDDocument{DID: d.ID, AlsoKnownAs: d.AlsoKnownAs}
	for _, key := range d.VerificationMethod {
		doc.VerificationMethod = append(doc.VerificationMethod, identity.DocVerificationMethod{
			ID: key.ID, Type: key.Type, Controller: string(key.Controller), PublicKeyMultibase: key.PublicKeyMultibase})
	}
	for _, service := range d.Service {
		doc.Service = append(doc.Service, identity.DocService{ID: service.ID, Type: service.Type, ServiceEndpoint: service.ServiceEndpoint})
	}
	return identity.ParseIdentity(&doc)
}

type labelRow struct {
	Label       string `gorm:"primaryKey"`
	DID         string `gorm:"column:did"`
	IssuedAt    string
	PDSEndpoint *string `gorm:"column:pds_endpoint"`
	PublicKey   *string
}

func (labelRow) TableName() string { return "issued_labels" }

// DIDDocument answers the document for GET /.well-known/did.json on a Host
// header (any case, the port does not matter): the service's own, or that of
// the DID whose did:web was issued for that name, for ever. ErrNotFound for
// any other host.
func (s *Store) DIDDocument(ctx context.Context, host string) (*Document, error) {
	name := hostName(host)
	if name == s.serviceHost() {
		return s.ServiceDocument(ctx)
	}
	if _, err := syntax.ParseHandle(name); err != nil {
		return nil, ErrNotFound
	}
	var label labelRow
	err := s.cfg.DB.Read.WithContext(ctx).Where("label = ?", name).Take(&label).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("find label %s: %w", name, err)
	}
	return s.Document(ctx, syntax.DID(label.DID))
}

// serviceHost is the host name that the service's did:web stands for.
func (s *Store) serviceHost() string {
	if s.cfg.ServiceDID.Method() != "web" {
		return s.cfg.PublicURL.Hostname()
	}
	// The colon before a port is percent-encoded in a did:web.
	host, err := url.PathUnescape(s.cfg.ServiceDID.Identifier())
	if err != nil {
		return ""
	}
	return hostName(host)
}

// ServiceDocument is the DID document of this host.
func (s *Store) ServiceDocument(ctx context.Context) (*Document, error) {
	key, err := s.HostKey(ctx)
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("host key: %w", err)
	}
	doc := newDocument(s.cfg.ServiceDID, HostKeyID, public)
	doc.addService(PDSServiceID, pdsType, s.cfg.PublicURL.String())
	doc.addService(AppviewID, appviewType, s.cfg.PublicURL.String())
	return doc, nil
}

// Document answers the DID document of an account as this host has it: what is
// served for a did:web, what getSession, createAccount and describeRepo send,
// what getRecommendedDidCredentials recommends for a DID brought along. It
// comes from memory while Run keeps that fresh; the caller may change it.
func (s *Store) Document(ctx context.Context, did syntax.DID) (*Document, error) {
	if s.ended.fresh() {
		if doc, ok := s.cache.documents.Get(did); ok {
			return doc.clone(), nil
		}
	}
	generation := s.cache.generation()
	a, err := s.Get(ctx, did)
	if err != nil {
		return nil, err
	}
	endpoint, public, err := s.whereAndWho(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("document of %s: %w", did, err)
	}
	doc := newDocument(did, KeyID, public)
	if a.Status != Deleted {
		doc.AlsoKnownAs = []string{"at://" + a.Handle.String()}
	}
	doc.addService(PDSServiceID, pdsType, endpoint)
	addAs(s.cache, s.cache.documents, did, doc, generation)
	return doc.clone(), nil
}

// whereAndWho answers the endpoint and the key of a document: this host's,
// unless a did:web was repointed.
func (s *Store) whereAndWho(ctx context.Context, a Account) (string, atcrypto.PublicKey, error) {
	if a.Identity == Web {
		var label labelRow
		if err := s.cfg.DB.Read.WithContext(ctx).Where("did = ?", string(a.DID)).Take(&label).Error; err != nil {
			return "", nil, fmt.Errorf("find label: %w", err)
		}
		if label.PDSEndpoint != nil {
			public, err := atcrypto.ParsePublicDIDKey(value(label.PublicKey))
			return *label.PDSEndpoint, public, err
		}
	}
	row, err := s.findKey(ctx, s.cfg.DB.Read, string(a.DID), purposeSigning)
	if err != nil {
		return "", nil, err
	}
	public, err := atcrypto.ParsePublicDIDKey(row.PublicKey)
	return s.cfg.PublicURL.String(), public, err
}

// HandleDID answers GET /.well-known/atproto-did on a Host header: the DID of
// the active account with that handle, ErrNotFound for any other host. A handle
// under another domain is answered too: that the request came here is DNS's word.
func (s *Store) HandleDID(ctx context.Context, host string) (syntax.DID, error) {
	handle, err := ParseHandle(hostName(host))
	if err != nil {
		return "", ErrNotFound
	}
	return s.activeDID(ctx, handle)
}

// RepointTx points the document of a did:web that was issued here at the host
// its account moved to, inside the caller's transaction (tx): the DID is bound
// to this host's name, so this host must go on saying where it lives. An empty
// endpoint points it back here.
func (s *Store) RepointTx(ctx context.Context, tx *gorm.DB, did syntax.DID, endpoint, didKey string) error {
	if endpoint != "" {
		if _, err := atcrypto.ParsePublicDIDKey(didKey); err != nil || !strings.HasPrefix(endpoint, "https://") || len(endpoint) > maxRepointURL {
			return ErrRepoint
		}
	}
	tx = tx.WithContext(ctx)
	updated := tx.Model(&labelRow{}).Where("did = ?", string(did)).
		Updates(map[string]any{"pds_endpoint": optional(endpoint), "public_key": optional(didKey)})
	if updated.Error != nil {
		return fmt.Errorf("repoint %s: %w", did, updated.Error)
	}
	if updated.RowsAffected == 0 {
		return fmt.Errorf("repoint %s: %w", did, ErrNotFound)
	}
	// For the replicas; a deleted account can be repointed too.
	if err := tx.Exec("UPDATE accounts SET changed_at = ? WHERE did = ?", s.nowText(), string(did)).Error; err != nil {
		return fmt.Errorf("repoint %s: %w", did, err)
	}
	return nil
}
