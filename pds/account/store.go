package account

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	lru "github.com/hashicorp/golang-lru/v2"

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
	PLCURL         *url.URL     // needed when Identity is PLC; default for accounts that bring theirs: https://plc.directory
	HTTPClient     *http.Client // to the PLC directory; default: 10 s, no redirects
	InviteRequired bool         // an account needs an invite unless an admin makes it
	KeyKind        KeyKind      // default P256
	DevLoopback    bool         // development and tests: a did:web may move to http on loopback

	PasswordWorkers int              // hashes at once; default one per two cores
	Now             func() time.Time // default time.Now
	Rand            io.Reader        // default crypto/rand
	Report          func(error)      // told what fails in Run; default: nobody
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
	if c.KeyKind == "" {
		c.KeyKind = P256
	}
	if c.KeyKind != P256 && c.KeyKind != K256 {
		return fmt.Errorf("key kind %q: want p256 or k256", c.KeyKind)
	}
	if c.HTTPClient == nil {
		c.HTTPClient = &http.Client{Timeout: plcTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if c.PasswordWorkers <= 0 {
		c.PasswordWorkers = max(1, runtime.GOMAXPROCS(0)/2)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Report == nil {
		c.Report = func(error) {}
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	for _, domain := range c.HandleDomains {
		if !strings.HasPrefix(domain, ".") || domain != strings.ToLower(domain) {
			return fmt.Errorf("handle domain %q: want a lower-case suffix that starts with a dot", domain)
		}
	}
	return nil
}

// Store is the accounts of one host. It is safe for concurrent use.
type Store struct {
	cfg     Config
	keyring *keyring
	hasher  *hasher
	plc     *plcClient
	keys    *lru.Cache[keyPlace, atcrypto.PrivateKey]
	cache   *accountCache
	tokens  *lru.Cache[tokenHash, claims]
	ended   *endedSessions
}

// New validates cfg. It reads nothing and starts nothing.
func New(cfg Config) (*Store, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, fmt.Errorf("account store: %w", err)
	}
	s := &Store{cfg: cfg, ended: newEndedSessions(cfg.Now)}
	var err error
	if s.keyring, err = newKeyring(cfg.Secrets.masterKey, cfg.Rand); err != nil {
		return nil, fmt.Errorf("account store: %w", err)
	}
	if s.hasher, err = newHasher(cfg.PasswordWorkers, cfg.Rand); err != nil {
		return nil, fmt.Errorf("account store: %w", err)
	}
	s.plc = &plcClient{base: plcOrPublic(cfg.PLCURL), http: cfg.HTTPClient}
	if s.keys, err = lru.New[keyPlace, atcrypto.PrivateKey](keyCacheSize); err != nil {
		return nil, fmt.Errorf("account store: %w", err)
	}
	if s.tokens, err = lru.New[tokenHash, claims](tokenCacheSize); err != nil {
		return nil, fmt.Errorf("account store: %w", err)
	}
	if s.cache, err = newAccountCache(); err != nil {
		return nil, fmt.Errorf("account store: %w", err)
	}
	return s, nil
}

// Run keeps this replica's memory up to date with what others did, and prunes
// dead sessions, until ctx ends. A failing database does not end it (the
// failure is reported): a replica that stopped looking would honour sessions
// that ended elsewhere. While the last look is older than staleAfter, tokens
// are checked against the database one by one.
func (s *Store) Run(ctx context.Context) error {
	poll, prune := time.NewTicker(PollEvery), time.NewTicker(pruneEvery)
	defer poll.Stop()
	defer prune.Stop()
	work := s.Poll
	for {
		if err := work(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Report(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
			work = s.Poll
		case <-prune.C:
			work = s.Prune
		}
	}
}

// pruneEvery is how often dead sessions are removed.
const pruneEvery = time.Hour
