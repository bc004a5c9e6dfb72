package account

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/migrations"
)

// PollEvery is how often a replica looks for sessions that ended and accounts
// that changed elsewhere.
const PollEvery = 2 * time.Second

// KeyKind is the curve of the keys made for new accounts.
type KeyKind string

// The two curves of atproto. P-256 signs faster (see BenchmarkSign).
const (
	P256 KeyKind = "p256"
	K256 KeyKind = "k256"
)

// Config is what a Store needs. DB, Secrets, PublicURL and ServiceDID have no
// default.
type Config struct {
	DB         *migrations.DB
	Secrets    *Secrets
	PublicURL  *url.URL   // where this host answers; the endpoint in DID documents
	ServiceDID syntax.DID // of this host; audience of every token

	HandleDomains  []string     // suffixes with the leading dot; default [".test"]
	Identity       IdentityKind // Web (default) or PLC
	PLCURL         *url.URL     // needed when Identity is PLC
	HTTPClient     *http.Client // to the PLC directory; default: 10 s, no redirects
	InviteRequired bool         // an account needs an invite unless an admin makes it
	KeyKind        KeyKind      // default P256

	PasswordWorkers int              // hashes at once; default one per two cores
	Now             func() time.Time // default time.Now
	Rand            io.Reader        // default crypto/rand
}

func (c *Config) setDefaults() error {
	switch {
	case c.DB == nil:
		return errors.New("no database")
	case c.Secrets == nil:
		return errors.New("no secrets")
	case c.PublicURL == nil || c.PublicURL.Host == "":
		return errors.New("no public URL")
	case c.ServiceDID == "":
		return errors.New("no service DID")
	}
	if c.Identity == "" {
		c.Identity = Web
	}
	if c.Identity != Web && c.Identity != PLC {
		return fmt.Errorf("identity %q: want web or plc", c.Identity)
	}
	if c.Identity == PLC && c.PLCURL == nil {
		return errors.New("identity plc needs a PLC URL")
	}
	if len(c.HandleDomains) == 0 {
		c.HandleDomains = []string{".test"}
	}
	for _, domain := range c.HandleDomains {
		if !strings.HasPrefix(domain, ".") || domain != strings.ToLower(domain) {
			return fmt.Errorf("handle domain %q: want a lower-case suffix that starts with a dot", domain)
		}
	}
	return nil
}

// Params asks for a new account.
type Params struct {
	Handle   syntax.Handle
	Email    string // optional
	Password string // optional: without one only an admin's or a key's credential signs in
	Invite   string
	// ByAdmin needs no invite and may take a reserved name.
	ByAdmin bool
	// DID is set when the account brings its identity along. The caller has
	// proven it (service JWT by its key) and the handle. The account starts
	// deactivated.
	DID syntax.DID
	// RecoveryKey (did:key) goes in front of the host's rotation key in a
	// did:plc genesis operation.
	RecoveryKey string
}

// Store is the accounts of one host. It is safe for concurrent use.
type Store struct {
	cfg Config
}

// New validates cfg. It reads nothing and starts nothing.
func New(cfg Config) (*Store, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, fmt.Errorf("account store: %w", err)
	}
	return &Store{cfg: cfg}, nil
}

// Run keeps this replica's memory up to date with what others did, and prunes
// dead tokens, until ctx ends.
func (s *Store) Run(ctx context.Context) error { panic("not yet") }
