package account

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"
)

// Secrets are the three secrets of a host. They have no printable form.
type Secrets struct {
	masterKey     []byte
	jwtSecret     []byte
	adminPassword string
	created       bool
}

// GivenSecrets are secrets from the configuration; "" means: from the folder.
type GivenSecrets struct {
	MasterKey     string // 32 bytes as base64url or hex
	JWTSecret     string // at least 32 bytes
	AdminPassword string
}

// LoadOrCreateSecrets reads the secrets of the folder dir, creating what is
// neither there nor given.
func LoadOrCreateSecrets(dir string, given GivenSecrets) (*Secrets, error) { panic("not yet") }

// Created reports whether this call wrote a secret for the first time.
func (s *Secrets) Created() bool { return s.created }

// IsAdminPassword compares in constant time.
func (s *Secrets) IsAdminPassword(password string) bool { panic("not yet") }

// Prepared is an account that could be created: everything slow is done.
type Prepared struct{}

// DID of the account to be.
func (p *Prepared) DID() syntax.DID { panic("not yet") }

// Handle of the account to be.
func (p *Prepared) Handle() syntax.Handle { panic("not yet") }

// SigningKey signs the first commit, before the key is in the database.
func (p *Prepared) SigningKey() atcrypto.PrivateKey { panic("not yet") }

// Active is false for an account that brought its DID along.
func (p *Prepared) Active() bool { panic("not yet") }

// Prepare validates, hashes the password and makes the key. It writes nothing.
func (s *Store) Prepare(ctx context.Context, params Params) (*Prepared, error) { panic("not yet") }

// Submit sends the genesis operation of a did:plc account to the PLC
// directory; for other accounts it does nothing. Call it between Prepare and Insert.
func (s *Store) Submit(ctx context.Context, p *Prepared) error { panic("not yet") }

// Insert writes the account inside the caller's transaction (tx).
func (s *Store) Insert(ctx context.Context, tx *gorm.DB, p *Prepared) (Account, error) {
	panic("not yet")
}

// Get answers the account of a DID, deleted ones included. From memory.
func (s *Store) Get(ctx context.Context, did syntax.DID) (Account, error) { panic("not yet") }

// GetByHandle answers the account that has the handle now, whatever its status.
func (s *Store) GetByHandle(ctx context.Context, handle syntax.Handle) (Account, error) {
	panic("not yet")
}

// ResolveHandle answers the DID of an active account here, else ErrNotFound.
func (s *Store) ResolveHandle(ctx context.Context, handle syntax.Handle) (syntax.DID, error) {
	panic("not yet")
}

// List answers accounts in the order of creation, deleted ones left out.
func (s *Store) List(ctx context.Context, after Position, limit int) (Page[Account], error) {
	panic("not yet")
}

// ActivateTx, and its siblings, change the status inside the caller's
// transaction (tx) and answer the account as it is then. After the commit the
// caller calls Forget.
func (s *Store) ActivateTx(ctx context.Context, tx *gorm.DB, did syntax.DID) (Account, error) {
	panic("not yet")
}

// DeactivateTx deactivates.
func (s *Store) DeactivateTx(ctx context.Context, tx *gorm.DB, did syntax.DID, deleteAfter *time.Time) (Account, error) {
	panic("not yet")
}

// TakeDownTx takes down; ref is the moderator's reference.
func (s *Store) TakeDownTx(ctx context.Context, tx *gorm.DB, did syntax.DID, ref string) (Account, error) {
	panic("not yet")
}

// LiftTakedownTx undoes TakeDownTx.
func (s *Store) LiftTakedownTx(ctx context.Context, tx *gorm.DB, did syntax.DID) (Account, error) {
	panic("not yet")
}

// DeleteTx deletes: sessions end, credentials and the private key go, the DID
// and its public key stay.
func (s *Store) DeleteTx(ctx context.Context, tx *gorm.DB, did syntax.DID) (Account, error) {
	panic("not yet")
}

// SetHandleTx renames inside the caller's transaction (tx).
func (s *Store) SetHandleTx(ctx context.Context, tx *gorm.DB, did syntax.DID, handle syntax.Handle) (Account, error) {
	panic("not yet")
}

// Forget drops what memory holds of the account. Call it after the commit of a
// transaction that a …Tx method took part in.
func (s *Store) Forget(did syntax.DID) { panic("not yet") }

// SetPassword replaces the password and ends every session of the account.
func (s *Store) SetPassword(ctx context.Context, did syntax.DID, password string) error {
	panic("not yet")
}

// Login opens a session with a password or an app password. identifier is a
// handle in any case, a DID or an e-mail address.
func (s *Store) Login(ctx context.Context, identifier, password string, allowTakendown bool) (Account, Tokens, error) {
	panic("not yet")
}

// StartSession opens a session for an account that proved itself otherwise:
// just created, or signed in by key.
func (s *Store) StartSession(ctx context.Context, did syntax.DID, scope Scope) (Tokens, error) {
	panic("not yet")
}

// VerifyAccess accepts an access token of this host. No database read in the
// common case.
func (s *Store) VerifyAccess(ctx context.Context, token string) (Grant, error) { panic("not yet") }

// VerifyRefresh accepts a refresh token that may still be used.
func (s *Store) VerifyRefresh(ctx context.Context, token string) (Grant, error) { panic("not yet") }

// Refresh exchanges a refresh token for a new pair.
func (s *Store) Refresh(ctx context.Context, token string) (Account, Tokens, error) {
	panic("not yet")
}

// EndSession ends the session of a refresh token, also of an expired one.
func (s *Store) EndSession(ctx context.Context, token string) error { panic("not yet") }

// CreateAppPassword makes an app password and answers it, once.
func (s *Store) CreateAppPassword(ctx context.Context, did syntax.DID, name string, privileged bool) (AppPassword, string, error) {
	panic("not yet")
}

// ListAppPasswords lists them by name.
func (s *Store) ListAppPasswords(ctx context.Context, did syntax.DID) ([]AppPassword, error) {
	panic("not yet")
}

// RevokeAppPassword removes one and ends its sessions.
func (s *Store) RevokeAppPassword(ctx context.Context, did syntax.DID, name string) error {
	panic("not yet")
}

// CreateInvites makes n codes of so many uses each.
func (s *Store) CreateInvites(ctx context.Context, n, uses int, forAccount, createdBy string) ([]Invite, error) {
	panic("not yet")
}

// ListInvites lists codes in the order of creation.
func (s *Store) ListInvites(ctx context.Context, after Position, limit int) (Page[Invite], error) {
	panic("not yet")
}

// DisableInvites disables codes, and all codes of the accounts.
func (s *Store) DisableInvites(ctx context.Context, codes, forAccounts []string) error {
	panic("not yet")
}

// SigningKey answers the key that signs commits of the DID (repostore's and
// the service JWTs').
func (s *Store) SigningKey(ctx context.Context, did syntax.DID) (atcrypto.PrivateKey, error) {
	panic("not yet")
}

// HostKey is the key that this host witnesses with; it is #herbarium_host in
// the service's DID document.
func (s *Store) HostKey(ctx context.Context) (atcrypto.PrivateKey, error) { panic("not yet") }

// RotationKey signs did:plc operations.
func (s *Store) RotationKey(ctx context.Context) (atcrypto.PrivateKey, error) { panic("not yet") }

// EnsureHostKeys makes the host's keys on the first start, and on any later
// one finds out whether the master key is still the right one.
func (s *Store) EnsureHostKeys(ctx context.Context) error { panic("not yet") }

// Document is a DID document in the form that is served.
type Document struct {
	Context            []string         `json:"@context"`
	ID                 syntax.DID       `json:"id"`
	AlsoKnownAs        []string         `json:"alsoKnownAs"`
	VerificationMethod []DocumentKey    `json:"verificationMethod"`
	Service            []DocumentTarget `json:"service"`
}

// DocumentKey is a verification method of a Document.
type DocumentKey struct {
	ID                 string     `json:"id"`
	Type               string     `json:"type"`
	Controller         syntax.DID `json:"controller"`
	PublicKeyMultibase string     `json:"publicKeyMultibase"`
}

// DocumentTarget is a service of a Document.
type DocumentTarget struct {
	ID              string `json:"id"`
	Type            string `json:"type"`
	ServiceEndpoint string `json:"serviceEndpoint"`
}

// DIDDocument answers the document for GET /.well-known/did.json on a Host
// header: the service's own, or that of the account whose did:web was issued
// for that name. ErrNotFound for any other host.
func (s *Store) DIDDocument(ctx context.Context, host string) (*Document, error) {
	panic("not yet")
}

// Document answers the DID document of an account as this host knows it, for
// getSession, createAccount and describeRepo.
func (s *Store) Document(ctx context.Context, did syntax.DID) (*Document, error) { panic("not yet") }

// HandleDID answers GET /.well-known/atproto-did on a Host header.
func (s *Store) HandleDID(ctx context.Context, host string) (syntax.DID, error) { panic("not yet") }

// DirectoryConfig is what NewDirectory needs.
type DirectoryConfig struct {
	Accounts    *Store
	PLCURL      *url.URL          // default https://plc.directory
	DevLoopback bool              // http on loopback for localhost%3APORT and *.test
	Listener    string            // host:port that *.test names lead to, with DevLoopback
	Transport   http.RoundTripper // default: public addresses only
}

// NewDirectory makes the identity.Directory that the whole process uses:
// own DIDs and handles from the database, others over the network, cached.
func NewDirectory(cfg DirectoryConfig) (identity.Directory, error) { panic("not yet") }
