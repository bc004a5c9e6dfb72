package pds

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/blobstore"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/library"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/operator"
	"herbarium.garden/pds/repostore"
	"herbarium.garden/pds/sequencer"
)

// Config is what the operator decides about the host.
type Config struct {
	// PublicURL is where clients reach this host: a scheme and an authority.
	PublicURL *url.URL
	// ServiceDID names this service to others; it is the audience of the
	// service tokens that we accept.
	ServiceDID syntax.DID
	// HandleDomains are the suffixes, each with its leading dot, under which
	// accounts get handles here.
	HandleDomains []string
	// Visibility decides about the routes of class Read; cmd gives the same
	// value to the XRPC server.
	Visibility xrpc.Visibility
	// PublicCollections are what whoever is no member may read in visibility
	// team: their records and the blobs that these refer to.
	PublicCollections []syntax.NSID
	// KeepObservations lets no account delete observations: the operator purges them.
	KeepObservations bool
	// InviteRequired refuses accounts without an invite code or the admin's word.
	InviteRequired bool
	// TeamDIDs are accounts of other hosts that read here as members do.
	TeamDIDs []syntax.DID
	// DevLoopback lets service proxying reach loopback addresses over http.
	DevLoopback bool
	// Limits are the rate limits; none when zero, but those that an account has
	// of its own. The server that the methods
	// are registered with takes PDS.Admit as its hook.
	Limits Limits
	// VerifyBlobs hashes blobs while they are served, so that a transfer fails
	// rather than end with wrong bytes.
	VerifyBlobs bool
	// BlobRedirect, when not 0, is how long a URL of the bucket is good to which
	// getBlob sends readers instead of serving the bytes.
	BlobRedirect time.Duration
	// BlobGrace is how long uploaded bytes are kept that no record refers to, and
	// BlobTrash how long they can be had back from the trash after that;
	// DefaultBlobGrace and DefaultBlobTrash when zero.
	BlobGrace, BlobTrash time.Duration
	// Scrub is how often stored bytes are read again; not at all when zero.
	Scrub Scrub
	// Version is told by the health check.
	Version string
	// Links and Contact are told by describeServer.
	Links   Links
	Contact Contact
}

// Links are pages for people about this host; "" where there is none.
type Links struct {
	PrivacyPolicy  string `json:"privacyPolicy,omitempty"`
	TermsOfService string `json:"termsOfService,omitempty"`
}

// Contact is how to reach the operator.
type Contact struct {
	Email string `json:"email,omitempty"` // "" for none
}

// Deps are the rooms that the handlers stand on, and the outside world. All
// but Handles, Log, Now and ProxyClient are required.
type Deps struct {
	DB        *migrations.DB
	Accounts  *account.Store
	Repos     *repostore.Store
	Events    *sequencer.Sequencer
	Blobs     *blobstore.Store
	Rules     *lexicons.Rules // over the lexicons of the program
	Audit     *operator.Log
	Directory identity.Directory // knows the accounts of this host without asking the network

	// Index, when not nil, is told which records the operator takes down or purges,
	// so that it hides or forgets them too, and which lexicons were added.
	Index Index

	// Foresight, when not nil, is what an index knows of a repo that is kept elsewhere,
	// for a dry run of a write to it; nil, and no error, when it knows nothing.
	Foresight func(ctx context.Context, did syntax.DID, record *lexicons.Record) (lexicons.Snapshot, error)

	// IsAdminPassword compares in constant time (account.Secrets does).
	IsAdminPassword func(password string) bool

	Handles     HandleResolver   // proves handles under other domains; without it they are refused
	Log         *slog.Logger     // slog.Default() when nil
	Now         func() time.Time // time.Now when nil
	ProxyClient *http.Client     // dials other services; one that reaches public addresses only when nil
}

// PDS is the repo host's face: it registers the methods and authenticates
// every request of the process.
type PDS struct {
	cfg         Config
	db          *migrations.DB
	accounts    *account.Store
	repos       *repostore.Store
	events      *sequencer.Sequencer
	blobs       *blobstore.Store
	library     *library.Library
	directory   identity.Directory
	index       Index // nil without one
	foresight   func(ctx context.Context, did syntax.DID, record *lexicons.Record) (lexicons.Snapshot, error)
	telling     sync.Mutex    // held while index is told of a takedown
	lexiconSync sync.Mutex    // held while index is told of the lexicons
	purging     chan struct{} // has room for one token: whoever put it there makes the steps of purges
	log         *slog.Logger
	now         func() time.Time
	proxyClient *http.Client
	audit       *operator.Log
	handles     HandleResolver
	auth        *Authenticator
	process     string // this process, in leases
	limiter     *limiter
	meters      meters
	signingIn   crowd
	keys        *syntax.TIDClock // makes record keys for clients that choose none
}

// New checks the configuration and puts the host together. It starts nothing.
func New(cfg Config, deps Deps) (*PDS, error) {
	if err := errors.Join(cfg.validate(), deps.validate()); err != nil {
		return nil, fmt.Errorf("pds: %w", err)
	}
	if cfg.BlobGrace == 0 {
		cfg.BlobGrace = DefaultBlobGrace
	}
	if cfg.BlobTrash == 0 {
		cfg.BlobTrash = DefaultBlobTrash
	}
	p := &PDS{
		cfg:         cfg,
		db:          deps.DB,
		accounts:    deps.Accounts,
		repos:       deps.Repos,
		events:      deps.Events,
		blobs:       deps.Blobs,
		audit:       deps.Audit,
		handles:     deps.Handles,
		directory:   deps.Directory,
		index:       deps.Index,
		foresight:   deps.Foresight,
		log:         deps.Log,
		now:         deps.Now,
		proxyClient: deps.ProxyClient,
		process:     crand.Text(),
		purging:     make(chan struct{}, 1),
		keys:        syntax.NewTIDClock(rand.UintN(1 << 10)), // replicas differ in the clock id
	}
	if p.log == nil {
		p.log = slog.Default()
	}
	if p.now == nil {
		p.now = time.Now
	}
	if p.proxyClient == nil {
		p.proxyClient = newProxyClient(cfg.DevLoopback)
	}
	var err error
	if p.library, err = library.New(deps.DB, deps.Rules, p.now); err != nil {
		return nil, fmt.Errorf("pds: %w", err)
	}
	p.limiter = &limiter{now: p.now}
	if p.meters, err = newMeters(cfg.Limits); err != nil {
		return nil, fmt.Errorf("pds: Config.Limits: %w", err)
	}
	if p.auth, err = newAuthenticator(cfg, deps, p.now, guesses{p.limiter, p.meters.signIns}); err != nil {
		return nil, fmt.Errorf("pds: %w", err)
	}
	return p, nil
}

// Authenticator says who makes a request, for the XRPC server that the methods
// are registered with.
func (p *PDS) Authenticator() *Authenticator { return p.auth }

// Register registers every method and route of the host with s, and the table
// that maps its errors to answers. s authenticates by p.Authenticator.
func (p *PDS) Register(s *xrpc.Server) error {
	s.Translate(translate)
	s.Divert(p.namesAnotherService)
	if err := errors.Join(
		p.registerPlain(s),
		p.registerServer(s),
		p.registerIdentity(s),
		p.registerRepo(s),
		p.registerSync(s),
		p.registerBlob(s),
		p.registerAdmin(s),
		p.registerInvites(s),
		p.registerPreferences(s),
		p.registerKeyLogin(s),
		p.registerCredentials(s),
		p.registerAgents(s),
		p.registerOwner(s),
		p.registerAudit(s),
		p.registerPLC(s),
		p.registerMove(s),
		p.registerPolicy(s),
		p.registerStorage(s),
		p.registerLexicons(s),
		p.registerPurge(s),
		s.Fallback(xrpc.AccessToken, p.proxy, xrpc.JudgesGrants()),
	); err != nil {
		return fmt.Errorf("pds: %w", err)
	}
	return nil
}

func (c Config) validate() error {
	var errs []error
	if c.PublicURL == nil || c.PublicURL.Host == "" {
		errs = append(errs, errors.New("Config.PublicURL is required"))
	}
	if _, err := syntax.ParseDID(string(c.ServiceDID)); err != nil {
		errs = append(errs, fmt.Errorf("Config.ServiceDID: %w", err))
	}
	if c.Visibility != xrpc.Team && c.Visibility != xrpc.Public {
		errs = append(errs, fmt.Errorf("Config.Visibility is %q, want %q or %q", c.Visibility, xrpc.Team, xrpc.Public))
	}
	return errors.Join(errs...)
}

func (d Deps) validate() error {
	switch {
	case d.DB == nil, d.Accounts == nil, d.Repos == nil, d.Events == nil, d.Blobs == nil,
		d.Rules == nil, d.Audit == nil, d.Directory == nil:
		return errors.New("Deps: every room is required")
	case d.IsAdminPassword == nil:
		return errors.New("Deps.IsAdminPassword is required")
	}
	return nil
}
