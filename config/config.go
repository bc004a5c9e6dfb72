package config

import (
	"log/slog"
	"net/netip"
	"net/url"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// The values of the keys that are one word of a few.
const (
	IdentityWeb      = "web"    // IDENTITY: did:web per handle, served by this host
	IdentityPLC      = "plc"    // IDENTITY: did:plc in the directory at PLC_URL
	VisibilityTeam   = "team"   // VISIBILITY: nothing is readable without a credential
	VisibilityPublic = "public" // VISIBILITY: records and blobs are readable by anybody
	InvitesRequired  = "required"
	InvitesOpen      = "open"
	LogText          = "text"
	LogJSON          = "json"
	KeyP256          = "p256"
	KeyK256          = "k256"
)

// Config is a complete, validated configuration. What each key means, its
// default and its form are in the table of fields.go, which is also what
// `herbarium config template` prints.
type Config struct {
	ConfigFile string

	DataDir   string
	Listen    string
	PublicURL *url.URL

	ServiceDID    syntax.DID
	HandleDomains []string // lower case, each with its leading dot
	Identity      string   // IdentityWeb | IdentityPLC
	PLCURL        *url.URL // nil if not set
	KeyType       string   // KeyP256 | KeyK256
	TeamDIDs      []syntax.DID
	Crawlers      []*url.URL // relays that are asked to crawl this host

	PrivacyPolicyURL  string // "" for none, as the two below
	TermsOfServiceURL string
	ContactEmail      string

	PDSDB     DSN
	AppviewDB DSN

	Blobs     string // dir:PATH or s3://…, as blobstore.OpenBucket reads it
	BlobLimit ByteSize
	BlobGrace time.Duration
	BlobTrash time.Duration
	// BlobScrub is how often each blob is read again and held against its CID, 0
	// for never; BlobScrubRate bounds the bytes per second of that, 0 for no bound.
	BlobScrub     time.Duration
	BlobScrubRate ByteSize
	SpoolDir      string
	// BlobVerify hashes what is served; BlobRedirect is how long the URLs are good
	// to which getBlob sends readers, 0 when it serves the bytes itself.
	BlobVerify   bool
	BlobRedirect time.Duration

	Visibility        string        // VisibilityTeam | VisibilityPublic
	PublicCollections []syntax.NSID // sorted; only with VisibilityTeam
	Invites           string        // InvitesRequired | InvitesOpen
	RateLimits        bool

	SupersedesPolicy string // reject | flag
	MessagesPolicy   string // redact-only | strict | off
	SecretsPolicy    string // reject | flag | off

	ObservationDeletion string // author | admin

	TrustGroups []TrustGroup // in order of name
	// SessionActive and SessionIdle are the times after which the derived state of
	// a session changes.
	SessionActive time.Duration
	SessionIdle   time.Duration

	EventRetention  time.Duration
	ShutdownTimeout time.Duration

	MetricsListen  string // "" is off
	TrustedProxies []netip.Prefix
	LogFormat      string // LogText | LogJSON
	LogLevel       slog.Level

	AdminPassword Secret
	MasterKey     Secret
	JWTSecret     Secret

	DevLoopback bool

	values []Value // in the order of the table
}

// TrustGroup is DIDs whose observations may supersede each other's.
type TrustGroup struct {
	Name    string
	Members []syntax.DID
}

// Source is where a value came from: "default", "file", "environment", "flag",
// or "derived" when it follows from another key.
type Source string

// The sources, the weakest first.
const (
	FromDefault     Source = "default"
	FromDerived     Source = "derived"
	FromFile        Source = "file"
	FromEnvironment Source = "environment"
	FromFlag        Source = "flag"
)

// Value is one key as it was loaded, fit to be printed: secrets are "***".
type Value struct {
	Name   string // as in the environment, without the prefix
	Text   string
	Source Source
}

// Values lists every key in the order of the template, for `config show`.
func (c *Config) Values() []Value { return append([]Value(nil), c.values...) }
