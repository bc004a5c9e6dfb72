package config

import (
	"net"
	"net/url"
	"strings"
	"time"
)

// Prefix starts the name of every environment variable.
const Prefix = "HERBARIUM_"

// Field documents one key. The table below is the only place where a key is
// named, documented and defaulted.
type Field struct {
	Name    string // in the environment after Prefix; in the file the same in lower case
	Default string // text as it would be configured; {KEY} stands for the value of another key
	Doc     string // one sentence or two
	Group   string // heading in the template
	Secret  bool   // never printed, may come as NAME_FILE, may not be a flag

	set    func(*Config, string) error
	derive func(*Config) string // the default when it follows from other keys, which stand before it in the table
}

// Key is the name of the field in the config file.
func (f Field) Key() string { return strings.ToLower(f.Name) }

// Flag is the name of the command-line flag, "" for secrets: arguments are
// visible to every user of a machine.
func (f Field) Flag() string {
	if f.Secret {
		return ""
	}
	return strings.ReplaceAll(f.Key(), "_", "-")
}

// Fields lists every key in the order of the template.
func Fields() []Field { return append([]Field(nil), fields...) }

// into adapts a parser and a destination to the form of the table.
func into[T any](parse func(string) (T, error), dst func(*Config) *T) func(*Config, string) error {
	return func(c *Config, s string) error {
		v, err := parse(s)
		if err != nil {
			return err
		}
		*dst(c) = v
		return nil
	}
}

func text(s string) (string, error)   { return s, nil }
func secret(s string) (Secret, error) { return NewSecret(s), nil }

var fields = []Field{
	{Name: "CONFIG", Group: "Files",
		Doc: "Path of this file. Only from the environment or the flag.",
		set: into(text, func(c *Config) *string { return &c.ConfigFile })},
	{Name: "DATA_DIR", Group: "Files", Default: "./data",
		Doc: "Folder of everything that this host keeps: databases, blobs, secrets.",
		set: into(text, func(c *Config) *string { return &c.DataDir })},
	{Name: "PDS_DB", Group: "Files", Default: "sqlite:{DATA_DIR}/pds.db", Secret: true,
		Doc:    "Database of the repo host: sqlite:PATH or postgres://USER:PASSWORD@HOST/NAME. Several replicas need Postgres.",
		derive: func(c *Config) string { return "sqlite:" + c.DataDir + "/pds.db" },
		set:    into(parseDSN, func(c *Config) *DSN { return &c.PDSDB })},
	{Name: "APPVIEW_DB", Group: "Files", Default: "sqlite:{DATA_DIR}/appview.db", Secret: true,
		Doc:    "Database of the appview, in the same forms. It must be another one than PDS_DB.",
		derive: func(c *Config) string { return "sqlite:" + c.DataDir + "/appview.db" },
		set:    into(parseDSN, func(c *Config) *DSN { return &c.AppviewDB })},
	{Name: "BLOBS", Group: "Files", Default: "dir:{DATA_DIR}/blobs",
		Doc:    "Where blob bytes are kept: dir:PATH or s3://BUCKET/PREFIX?endpoint=URL&region=NAME&path_style=true&public_endpoint=URL. Credentials come by the AWS chain.",
		derive: func(c *Config) string { return "dir:" + c.DataDir + "/blobs" },
		set:    into(parseBlobs, func(c *Config) *string { return &c.Blobs })},
	{Name: "BLOB_LIMIT", Group: "Files", Default: "100MiB",
		Doc: "Largest blob that is accepted, 5GiB at most. A proxy in front must allow as much.",
		set: into(parseSize, func(c *Config) *ByteSize { return &c.BlobLimit })},
	{Name: "BLOB_VERIFY", Group: "Files", Default: "false",
		Doc: "Hash blobs while they are served: a transfer fails rather than end with wrong bytes. Costs a core per 1 GB/s, and a whole read before a part.",
		set: into(parseBool, func(c *Config) *bool { return &c.BlobVerify })},
	{Name: "BLOB_REDIRECT", Group: "Files", Default: "0s",
		Doc: "How long a URL of the bucket is good to which getBlob sends readers (5m, for one); 0s serves the bytes from here. Only with BLOBS=s3://…, where &public_endpoint=URL names the address that they reach. Who has the URL can read the blob until then.",
		set: into(parseDuration, func(c *Config) *time.Duration { return &c.BlobRedirect })},
	{Name: "BLOB_GRACE", Group: "Files", Default: "24h",
		Doc: "How long uploaded bytes are kept that no record refers to, before they go to the trash.",
		set: into(parseDuration, func(c *Config) *time.Duration { return &c.BlobGrace })},
	{Name: "BLOB_TRASH", Group: "Files", Default: "168h",
		Doc: "How long bytes lie in the trash, from where they can be had back, before they are deleted.",
		set: into(parseDuration, func(c *Config) *time.Duration { return &c.BlobTrash })},
	{Name: "BLOB_SCRUB", Group: "Files", Default: "720h",
		Doc: "How often each blob is read again and held against its hash; damaged ones go out of service, and the log tells what they were evidence for. 0s: never.",
		set: into(parseDuration, func(c *Config) *time.Duration { return &c.BlobScrub })},
	{Name: "BLOB_SCRUB_RATE", Group: "Files", Default: "8MiB",
		Doc: "How much of it is read in a second at most, by all replicas together; 0 for no bound. In 720h 8MiB make 20 TiB.",
		set: into(parseSize, func(c *Config) *ByteSize { return &c.BlobScrubRate })},
	{Name: "SPOOL_DIR", Group: "Files", Default: "{DATA_DIR}/spool",
		Doc:    "Folder for uploads while they are hashed. It needs room for the uploads of one moment.",
		derive: func(c *Config) string { return c.DataDir + "/spool" },
		set:    into(text, func(c *Config) *string { return &c.SpoolDir })},

	{Name: "LISTEN", Group: "Network", Default: "127.0.0.1:2583",
		Doc: "Address that the server listens on.",
		set: into(parseListen, func(c *Config) *string { return &c.Listen })},
	{Name: "PUBLIC_URL", Group: "Network", Default: "http://localhost:2583",
		Doc:    "URL that clients and other hosts reach this one by; it goes into DID documents. http is for localhost only. The default follows the port of LISTEN.",
		derive: func(c *Config) string { return "http://localhost:" + portOf(c.Listen) },
		set:    into(parseOrigin, func(c *Config) **url.URL { return &c.PublicURL })},
	{Name: "TRUSTED_PROXIES", Group: "Network",
		Doc: "Networks (CIDR) of the proxies in front, whose X-Forwarded-For is believed. Empty: nobody's is.",
		set: into(parseNetworks, networksOf)},
	{Name: "METRICS_LISTEN", Group: "Network",
		Doc: "Address of the Prometheus metrics, which need no credential: keep it private. Empty: off.",
		set: into(parseListen, func(c *Config) *string { return &c.MetricsListen })},
	{Name: "SHUTDOWN_TIMEOUT", Group: "Network", Default: "20s",
		Doc: "How long running requests may finish in when the server stops.",
		set: into(parseDuration, func(c *Config) *time.Duration { return &c.ShutdownTimeout })},

	{Name: "SERVICE_DID", Group: "Identity", Default: "did:web of PUBLIC_URL's host",
		Doc:    "DID of this host, the audience of its tokens. Do not change it once clients are signed in.",
		derive: func(c *Config) string { return webDID(c.PublicURL) },
		set:    into(parseServiceDID, didOf)},
	{Name: "HANDLE_DOMAINS", Group: "Identity", Default: ".test",
		Doc: "Domains that handles are given under. With IDENTITY=web each handle must reach this host by HTTPS for others to resolve it.",
		set: into(parseDomains, func(c *Config) *[]string { return &c.HandleDomains })},
	{Name: "IDENTITY", Group: "Identity", Default: IdentityWeb,
		Doc: "What new accounts get: web (did:web:HANDLE, works offline) or plc (did:plc in the directory at PLC_URL).",
		set: into(oneOf(IdentityWeb, IdentityPLC), func(c *Config) *string { return &c.Identity })},
	{Name: "PLC_URL", Group: "Identity",
		Doc: "PLC directory, such as https://plc.directory. Needed by IDENTITY=plc; also used to resolve did:plc.",
		set: into(parseOrigin, func(c *Config) **url.URL { return &c.PLCURL })},
	{Name: "KEY_TYPE", Group: "Identity", Default: KeyP256,
		Doc: "Curve of the keys of new accounts: p256 (signs faster) or k256.",
		set: into(oneOf(KeyP256, KeyK256), func(c *Config) *string { return &c.KeyType })},
	{Name: "TEAM_DIDS", Group: "Identity",
		Doc: "DIDs hosted elsewhere that count as members of the team.",
		set: into(parseDIDs, didsOf)},

	{Name: "CRAWLERS", Group: "Identity",
		Doc: "Relays that are asked to crawl this host, such as https://bsky.network: once there is an account, and when there are writes that nobody listens to. Needs VISIBILITY=public.",
		set: into(parseOrigins, func(c *Config) *[]*url.URL { return &c.Crawlers })},
	{Name: "PRIVACY_POLICY_URL", Group: "Identity",
		Doc: "Page with the privacy policy, told by describeServer.",
		set: into(parsePage, func(c *Config) *string { return &c.PrivacyPolicyURL })},
	{Name: "TERMS_OF_SERVICE_URL", Group: "Identity",
		Doc: "Page with the terms of service, told by describeServer.",
		set: into(parsePage, func(c *Config) *string { return &c.TermsOfServiceURL })},
	{Name: "CONTACT_EMAIL", Group: "Identity",
		Doc: "Address of the operator, told by describeServer.",
		set: into(parseEmail, func(c *Config) *string { return &c.ContactEmail })},

	{Name: "VISIBILITY", Group: "Access", Default: VisibilityTeam,
		Doc: "Who may read: team (members only) or public (anybody).",
		set: into(oneOf(VisibilityTeam, VisibilityPublic), func(c *Config) *string { return &c.Visibility })},
	{Name: "PUBLIC_COLLECTIONS", Group: "Access",
		Doc: "With VISIBILITY=team, collections (whole NSIDs, separated by commas) whose records, blobs and views anybody may read; repos and proofs stay the team's. A conversation needs both its collections.",
		set: into(parseCollections, collectionsOf)},
	{Name: "INVITES", Group: "Access", Default: InvitesRequired,
		Doc: "Whether createAccount needs an invite code: required or open.",
		set: into(oneOf(InvitesRequired, InvitesOpen), func(c *Config) *string { return &c.Invites })},
	{Name: "RATE_LIMITS", Group: "Access", Default: "on",
		Doc: "Rate limits per account and client address (ten times the reference PDS's points), counted by each process: on or off. Behind a proxy set TRUSTED_PROXIES too, or all clients count as one address.",
		set: into(parseBool, func(c *Config) *bool { return &c.RateLimits })},
	{Name: "EVENT_RETENTION", Group: "Access", Default: "72h",
		Doc: "How long the event log (subscribeRepos), and the changes of the views (subscribeChanges), can be read back.",
		set: into(parseDuration, func(c *Config) *time.Duration { return &c.EventRetention })},

	{Name: "SUPERSEDES_POLICY", Group: "Rules", Default: "reject",
		Doc: "A second successor of one observation: reject (the answer carries the chain head) or flag.",
		set: into(oneOf("reject", "flag"), func(c *Config) *string { return &c.SupersedesPolicy })},
	{Name: "MESSAGES_POLICY", Group: "Rules", Default: "redact-only",
		Doc: "Rewriting a published message: redact-only (words may be taken away, never changed), strict (never) or off.",
		set: into(oneOf("redact-only", "strict", "off"), func(c *Config) *string { return &c.MessagesPolicy })},
	{Name: "SECRETS_POLICY", Group: "Rules", Default: "reject",
		Doc: "Credentials in the texts of records and in the blobs of observations: reject those that are surely some (private keys, tokens of providers) and flag the others, flag all, or off.",
		set: into(oneOf("reject", "flag", "off"), func(c *Config) *string { return &c.SecretsPolicy })},
	{Name: "OBSERVATION_DELETION", Group: "Rules", Default: "author",
		Doc: "Who deletes observations: author (a tombstone stays) or admin (accounts are refused; an administrator purges).",
		set: into(oneOf("author", "admin"), func(c *Config) *string { return &c.ObservationDeletion })},
	{Name: "TRUST_GROUPS", Group: "Rules",
		Doc: "Trust groups that the index starts with: DIDs whose observations may supersede each other's, as NAME=DID DID…; NAME=DID DID…. What an operator changes later stays until this says something else of that group. Empty: only an author's own count.",
		set: into(parseTrustGroups, func(c *Config) *[]TrustGroup { return &c.TrustGroups })},
	{Name: "SESSION_ACTIVE", Group: "Rules", Default: "30m",
		Doc: "How long after its last update a session that says active is shown as active, which is inferred and says so.",
		set: into(parseDuration, func(c *Config) *time.Duration { return &c.SessionActive })},
	{Name: "SESSION_IDLE", Group: "Rules", Default: "24h",
		Doc: "How long after its last update it is shown as idle; beyond that as stale. Longer than SESSION_ACTIVE.",
		set: into(parseDuration, func(c *Config) *time.Duration { return &c.SessionIdle })},

	{Name: "LOG_FORMAT", Group: "Logs", Default: LogText,
		Doc: "text or json.",
		set: into(oneOf(LogText, LogJSON), func(c *Config) *string { return &c.LogFormat })},
	{Name: "LOG_LEVEL", Group: "Logs", Default: "info",
		Doc: "debug, info, warn or error.",
		set: into(parseLevel, levelOf)},

	{Name: "ADMIN_PASSWORD", Group: "Secrets", Secret: true,
		Doc: "Password of the HTTP Basic user admin. Unset: made at the first start, in DATA_DIR/secrets.",
		set: into(secret, func(c *Config) *Secret { return &c.AdminPassword })},
	{Name: "MASTER_KEY", Group: "Secrets", Secret: true,
		Doc: "32 bytes (base64url or hex) that wrap every private key at rest. Unset: made at the first start, in DATA_DIR/secrets. Losing it loses the accounts' keys.",
		set: into(secret, func(c *Config) *Secret { return &c.MasterKey })},
	{Name: "JWT_SECRET", Group: "Secrets", Secret: true,
		Doc: "At least 32 bytes that sign session tokens. Unset: made at the first start, in DATA_DIR/secrets. Replicas must share it.",
		set: into(secret, func(c *Config) *Secret { return &c.JWTSecret })},

	{Name: "DEV_LOOPBACK", Group: "Development", Default: "false",
		Doc: "Development and tests only: http on loopback for did:web, service proxying, PLC and sources.",
		set: into(parseBool, func(c *Config) *bool { return &c.DevLoopback })},
}

// portOf answers the port of an address that parseListen accepted.
func portOf(listen string) string {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return ""
	}
	return port
}

// webDID is the did:web of a host; the colon before a port is percent-encoded
// (did:web method specification).
func webDID(u *url.URL) string {
	if u == nil {
		return ""
	}
	return "did:web:" + strings.ReplaceAll(u.Host, ":", "%3A")
}
