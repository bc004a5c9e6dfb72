package account

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	Handle      *string // when it lives elsewhere, and is called otherwise there
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
	home, public, err := s.homeOf(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("document of %s: %w", did, err)
	}
	doc := newDocument(did, KeyID, public)
	if !home.Handle.IsInvalidHandle() {
		doc.AlsoKnownAs = []string{"at://" + home.Handle.String()}
	}
	doc.addService(PDSServiceID, pdsType, home.Endpoint)
	addAs(s.cache, s.cache.documents, did, doc, generation)
	return doc.clone(), nil
}

// homeOf answers what a document says of its home, and its key: this host and
// the account here, unless a did:web was repointed.
func (s *Store) homeOf(ctx context.Context, a Account) (Home, atcrypto.PublicKey, error) {
	home := Home{Endpoint: s.cfg.PublicURL.String(), Handle: a.Handle}
	if a.Identity == Web {
		var label labelRow
		if err := s.cfg.DB.Read.WithContext(ctx).Where("did = ?", string(a.DID)).Take(&label).Error; err != nil {
			return Home{}, nil, fmt.Errorf("find label: %w", err)
		}
		if label.PDSEndpoint != nil {
			home.Endpoint = *label.PDSEndpoint
			if label.Handle != nil {
				home.Handle = syntax.Handle(*label.Handle)
			}
			public, err := atcrypto.ParsePublicDIDKey(value(label.PublicKey))
			return home, public, err
		}
	}
	row, err := s.findKey(ctx, s.cfg.DB.Read, string(a.DID), purposeSigning)
	if err != nil {
		return Home{}, nil, err
	}
	public, err := atcrypto.ParsePublicDIDKey(row.PublicKey)
	return home, public, err
}

// HandleDID answers GET /.well-known/atproto-did on a Host header: the DID of
// the account with that handle, if it is active or has moved away (nobody else
// could then say that the handle is its), ErrNotFound for any other host. A
// handle under another domain is answered too: that the request came here is
// DNS's word.
func (s *Store) HandleDID(ctx context.Context, host string) (syntax.DID, error) {
	handle, err := ParseHandle(hostName(host))
	if err != nil {
		return "", ErrNotFound
	}
	return s.activeDID(ctx, handle)
}

// Home is where a did:web that was issued here lives.
type Home struct {
	Endpoint  string        // of its host; "": this host, and then there is no PublicKey
	PublicKey string        // did:key that signs its repo there
	Handle    syntax.Handle // that the document names; "": the account's here
}

// RepointTx points the document of a did:web that was issued here at its home,
// inside the caller's transaction (tx): the DID is bound to this host's name,
// so this host must go on saying where it lives, also when the account here is
// deleted. ErrRepoint, ErrHandleInvalid; ErrNotFound for a DID that was not
// issued here.
func (s *Store) RepointTx(ctx context.Context, tx *gorm.DB, did syntax.DID, home Home) error {
	if err := s.checkHome(&home); err != nil {
		return err
	}
	tx = tx.WithContext(ctx)
	updated := tx.Model(&labelRow{}).Where("did = ?", string(did)).Updates(map[string]any{
		"pds_endpoint": optional(home.Endpoint), "public_key": optional(home.PublicKey), "handle": optional(string(home.Handle)),
	})
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

// checkHome refuses what no other host could follow: an address that is not a
// host's, a key that is none.
func (s *Store) checkHome(home *Home) error {
	if home.Handle != "" {
		handle, err := ParseHandle(string(home.Handle))
		if err != nil {
			return err
		}
		if !handle.AllowedTLD() && !s.cfg.DevLoopback || handle.IsInvalidHandle() {
			return fmt.Errorf("%w: .%s is not for handles", ErrHandleInvalid, handle.TLD())
		}
		home.Handle = handle
	}
	if home.Endpoint == "" {
		if home.PublicKey != "" || home.Handle != "" {
			return fmt.Errorf("%w: a key or handle elsewhere needs the endpoint", ErrRepoint)
		}
		return nil
	}
	if _, err := atcrypto.ParsePublicDIDKey(home.PublicKey); err != nil {
		return fmt.Errorf("%w: the key is not a P-256 or K-256 one as did:key", ErrRepoint)
	}
	endpoint, err := url.Parse(home.Endpoint)
	if err != nil || len(home.Endpoint) > maxRepointURL || endpoint.Host == "" || endpoint.User != nil ||
		strings.Trim(endpoint.Path, "/") != "" || endpoint.RawQuery != "" || endpoint.Fragment != "" {
		return fmt.Errorf("%w: the endpoint is a scheme and a host, nothing else", ErrRepoint)
	}
	name := hostName(endpoint.Host)
	if s.cfg.DevLoopback && isLoopback(name) && (endpoint.Scheme == "http" || endpoint.Scheme == "https") {
		home.Endpoint = endpoint.Scheme + "://" + strings.ToLower(endpoint.Host)
		return nil
	}
	if endpoint.Scheme != "https" {
		return fmt.Errorf("%w: the endpoint is not https", ErrRepoint)
	}
	if _, err := syntax.ParseHandle(name); err != nil || name == s.cfg.PublicURL.Hostname() {
		return fmt.Errorf("%w: %q is no public host name of another host", ErrRepoint, name)
	}
	home.Endpoint = "https://" + strings.ToLower(endpoint.Host)
	return nil
}

func isLoopback(name string) bool {
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// movedAway reports whether the did:web of an account lives elsewhere.
func (s *Store) movedAway(ctx context.Context, did syntax.DID) (bool, error) {
	return exists(ctx, s.cfg.DB.Read, "issued_labels", "did = ? AND pds_endpoint IS NOT NULL", string(did))
}
