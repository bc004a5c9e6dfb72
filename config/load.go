package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/knadh/koanf/parsers/toml/v2"
)

// Input is everything that Load looks at.
type Input struct {
	Flags   map[string]string // flags that were given, by Field.Flag
	Environ []string          // NAME=value, as os.Environ has it
	File    []byte            // TOML; nil: no file
	// ReadFile reads what NAME_FILE points at. Nil: such variables are refused.
	ReadFile func(path string) ([]byte, error)
}

// testPrefix starts variables that belong to the tests of this project and not
// to a running server.
const testPrefix = Prefix + "TEST_"

// maxSecretFile bounds what is taken from a NAME_FILE.
const maxSecretFile = 64 << 10

// raw is a value before it is parsed, with its source.
type raw struct {
	text   string
	source Source
	where  string // for errors: the name that the operator wrote
}

// Load reads the configuration: defaults, then the file, the environment and
// the flags, each overruling the one before. An empty value means not set. All
// faults found are in the error.
// maxBlobLimit is what S3 copies in one request, which is how a blob is moved.
const maxBlobLimit = 5 << 30

// maxBlobRedirect is how long S3 lets a signed URL be good.
const maxBlobRedirect = 7 * 24 * time.Hour

func Load(in Input) (*Config, error) {
	given := map[string]raw{}
	var errs []error
	for _, read := range []func(Input, map[string]raw) []error{readFile, readEnviron, readFlags} {
		errs = append(errs, read(in, given)...)
	}
	c := &Config{}
	for _, f := range fields {
		v, ok := given[f.Name]
		switch {
		case ok:
		case f.derive != nil:
			v = raw{text: f.derive(c), source: FromDerived, where: f.Name}
		default:
			v = raw{text: f.Default, source: FromDefault, where: f.Name}
		}
		if v.text != "" {
			// What a key that failed would have led to is not reported a second time.
			if err := f.set(c, v.text); err != nil && (ok || len(errs) == 0) {
				errs = append(errs, fmt.Errorf("%s: %w", v.where, err))
			}
		}
		c.values = append(c.values, Value{Name: f.Name, Text: printable(c, f, v.text), Source: v.source})
	}
	if len(errs) == 0 {
		errs = c.contradictions()
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("configuration: %w", errors.Join(errs...))
	}
	return c, nil
}

// printable is the text of a value as `config show` prints it.
func printable(c *Config, f Field, text string) string {
	switch {
	case text == "":
		return ""
	case f.Name == "PDS_DB":
		return c.PDSDB.String()
	case f.Name == "APPVIEW_DB":
		return c.AppviewDB.String()
	case f.Secret:
		return redacted
	}
	return text
}

func field(name string) (Field, bool) {
	for _, f := range fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// readFile takes the keys of the TOML file, which are those of the table in
// either case, flat.
func readFile(in Input, given map[string]raw) (errs []error) {
	if len(in.File) == 0 {
		return nil
	}
	values, err := toml.Parser().Unmarshal(in.File)
	if err != nil {
		return []error{fmt.Errorf("config file: %w", err)}
	}
	for key, value := range values {
		f, ok := field(strings.ToUpper(key))
		if !ok || f.Name == "CONFIG" {
			errs = append(errs, fmt.Errorf("config file: unknown key %q%s", key, suggest(strings.ToUpper(key), keys(strings.ToLower))))
			continue
		}
		text, err := fileText(value)
		if err != nil {
			errs = append(errs, fmt.Errorf("config file: %s: %w", key, err))
			continue
		}
		if text != "" {
			given[f.Name] = raw{text: text, source: FromFile, where: "config file: " + key}
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

// fileText turns a TOML value into the text that the environment would have.
func fileText(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			s, ok := item.(string)
			if !ok {
				return "", errors.New("want a list of strings")
			}
			items[i] = s
		}
		return strings.Join(items, ","), nil
	}
	return "", errors.New("want a string, a number, true, false or a list of strings")
}

// readEnviron takes HERBARIUM_NAME, and for secrets HERBARIUM_NAME_FILE.
func readEnviron(in Input, given map[string]raw) (errs []error) {
	seen := map[string]string{}
	for _, entry := range in.Environ {
		variable, value, ok := strings.Cut(entry, "=")
		if !ok || !strings.HasPrefix(variable, Prefix) || strings.HasPrefix(variable, testPrefix) {
			continue
		}
		name := strings.TrimPrefix(variable, Prefix)
		f, known := field(name)
		if !known {
			base, isFile := strings.CutSuffix(name, "_FILE")
			if f, known = field(base); !known || !isFile || !f.Secret {
				errs = append(errs, fmt.Errorf("unknown variable %s%s", variable, suggest(variable, keys(func(s string) string { return Prefix + s }))))
				continue
			}
			if value != "" {
				var err error
				if value, err = secretFile(in, value); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", variable, err))
					continue
				}
			}
		}
		if value == "" {
			continue
		}
		if other, twice := seen[f.Name]; twice && other != variable {
			errs = append(errs, fmt.Errorf("%s and %s are both set: want one", other, variable))
			continue
		}
		seen[f.Name] = variable
		given[f.Name] = raw{text: value, source: FromEnvironment, where: variable}
	}
	return errs
}

func secretFile(in Input, path string) (string, error) {
	if in.ReadFile == nil {
		return "", errors.New("files cannot be read here")
	}
	content, err := in.ReadFile(path)
	if err != nil {
		return "", err
	}
	if len(content) > maxSecretFile {
		return "", errors.New("the file is too large for a secret")
	}
	value := strings.TrimRight(string(content), "\r\n")
	if value == "" {
		return "", errors.New("the file is empty")
	}
	return value, nil
}

func readFlags(in Input, given map[string]raw) (errs []error) {
	for flag, value := range in.Flags {
		f, ok := field(strings.ToUpper(strings.ReplaceAll(flag, "-", "_")))
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("unknown flag --%s", flag))
		case f.Secret:
			errs = append(errs, fmt.Errorf("--%s: a secret is not given on the command line; use %s%s_FILE", flag, Prefix, f.Name))
		case value != "":
			given[f.Name] = raw{text: value, source: FromFlag, where: "--" + flag}
		}
	}
	return errs
}

// contradictions checks what no key can check alone.
func (c *Config) contradictions() (errs []error) {
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.PublicURL.Scheme == "http" && !isLoopback(c.PublicURL.Hostname()) {
		fault("PUBLIC_URL: http is for localhost only; want https://%s (a proxy in front may speak TLS)", c.PublicURL.Host)
	}
	if host := c.PublicURL.Hostname(); c.DevLoopback && !isLoopback(host) && !strings.HasSuffix(host, ".test") {
		fault("DEV_LOOPBACK: for development only, and PUBLIC_URL is %s; unset one of them", c.PublicURL)
	}
	if c.Identity == IdentityPLC && c.PLCURL == nil {
		fault("IDENTITY=plc needs PLC_URL, such as https://plc.directory")
	}
	if c.PLCURL != nil && c.PLCURL.Scheme == "http" && (!c.DevLoopback || !isLoopback(c.PLCURL.Hostname())) {
		fault("PLC_URL: http needs DEV_LOOPBACK=true and a loopback address")
	}
	if c.Visibility == VisibilityPublic && len(c.PublicCollections) > 0 {
		fault("PUBLIC_COLLECTIONS: with VISIBILITY=public every collection is; unset it, or set VISIBILITY=team to publish these alone")
	}
	if len(c.Crawlers) > 0 && c.Visibility != VisibilityPublic {
		fault("CRAWLERS needs VISIBILITY=public: what only the team may read is announced to nobody")
	}
	for _, relay := range c.Crawlers {
		if relay.Scheme == "http" && (!c.DevLoopback || !isLoopback(relay.Hostname())) {
			fault("CRAWLERS: %s: http needs DEV_LOOPBACK=true and a loopback address", relay)
		}
	}
	if sameDatabase(c.PDSDB.Reveal(), c.AppviewDB.Reveal()) {
		fault("PDS_DB and APPVIEW_DB are one database: want two")
	}
	if c.BlobTrash < 0 {
		fault("BLOB_TRASH: want 0 or more")
	}
	if c.BlobGrace < time.Hour {
		fault("BLOB_GRACE: want 1h or more: an upload and the record that refers to it are two requests")
	}
	if c.BlobScrub < 0 || (c.BlobScrub > 0 && c.BlobScrub < time.Hour) {
		fault("BLOB_SCRUB: want 0s, or 1h or more")
	}
	if c.BlobScrubRate < 0 {
		fault("BLOB_SCRUB_RATE: want 0 or more")
	}
	if c.BlobLimit <= 0 {
		fault("BLOB_LIMIT: want more than 0")
	}
	if c.BlobLimit > maxBlobLimit {
		fault("BLOB_LIMIT: want 5GiB at most: a bucket moves no larger object in one step")
	}
	switch redirects := c.BlobRedirect != 0; {
	case c.BlobRedirect < 0 || c.BlobRedirect > maxBlobRedirect:
		fault("BLOB_REDIRECT: want 0s to %s", maxBlobRedirect)
	case redirects && !strings.HasPrefix(c.Blobs, "s3:"):
		fault("BLOB_REDIRECT needs BLOBS=s3://…: nothing else has URLs")
	case redirects && c.BlobVerify:
		fault("BLOB_REDIRECT and BLOB_VERIFY: want one of them; bytes that pass by this host are not hashed")
	}
	if c.SessionActive < time.Second || c.SessionIdle <= c.SessionActive {
		fault("SESSION_ACTIVE and SESSION_IDLE: want a second or more, and SESSION_IDLE longer than SESSION_ACTIVE")
	}
	if c.EventRetention <= 0 {
		fault("EVENT_RETENTION: want more than 0")
	}
	if c.ShutdownTimeout <= 0 {
		fault("SHUTDOWN_TIMEOUT: want more than 0")
	}
	return errs
}

// sameDatabase reports whether two DSNs name one database. A SQLite path may be
// spelled in several ways; links are not followed, for nothing is read here.
func sameDatabase(a, b string) bool {
	if a == b {
		return true
	}
	pathA, fileA := strings.CutPrefix(a, "sqlite:")
	pathB, fileB := strings.CutPrefix(b, "sqlite:")
	if !fileA || !fileB {
		return false
	}
	absA, errA := filepath.Abs(pathA)
	absB, errB := filepath.Abs(pathB)
	return errA == nil && errB == nil && absA == absB
}

// isLoopback reports whether a host of a URL is this machine by name.
func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func parseServiceDID(s string) (syntax.DID, error) {
	did, err := syntax.ParseDID(s)
	if err != nil || (did.Method() != "web" && did.Method() != "plc") {
		return "", errors.New("want a did:web or did:plc")
	}
	return did, nil
}

// Destinations whose types would crowd the table.
func networksOf(c *Config) *[]netip.Prefix { return &c.TrustedProxies }
func didOf(c *Config) *syntax.DID          { return &c.ServiceDID }
func didsOf(c *Config) *[]syntax.DID       { return &c.TeamDIDs }
func collectionsOf(c *Config) *[]syntax.NSID {
	return &c.PublicCollections
}
func levelOf(c *Config) *slog.Level { return &c.LogLevel }
