package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// ByteSize is a number of bytes.
type ByteSize int64

// units of ByteSize, the largest first. Decimal and binary are told apart.
var units = []struct {
	suffix string
	bytes  int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1},
}

func (b ByteSize) String() string {
	for _, u := range units[:4] {
		if b != 0 && int64(b)%u.bytes == 0 {
			return strconv.FormatInt(int64(b)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// parseSize reads "100MiB", "5 MB" or a bare number of bytes.
func parseSize(s string) (ByteSize, error) {
	number, unit := s, int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, errors.New("want a size such as 100MiB, 5MB or a number of bytes")
	}
	return ByteSize(n * unit), nil
}

// parseDuration reads Go's form and whole days ("30d").
func parseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("want a duration such as 90s, 72h or 30d")
	}
	return d, nil
}

// parseBool reads true and false, and on and off as the keys of that form say.
func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "on", "yes", "1":
		return true, nil
	case "false", "off", "no", "0":
		return false, nil
	}
	return false, errors.New("want true or false (or on, off)")
}

// parseList splits at commas and white space.
func parseList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' })
}

// parseOrigin reads an http(s) URL of a server: no path, query, fragment or
// user.
func parseOrigin(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, errors.New("want a URL such as https://pds.example.com")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("want scheme, host and port only: no path, query or user")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n > math.MaxUint16 {
			return nil, errors.New("the port is not a number up to 65535")
		}
	}
	return &url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host)}, nil
}

// parseOrigins reads a list of what parseOrigin reads.
func parseOrigins(s string) ([]*url.URL, error) {
	var out []*url.URL
	for _, item := range parseList(s) {
		u, err := parseOrigin(item)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		out = append(out, u)
	}
	return out, nil
}

// parsePage reads the address of a page for people.
func parsePage(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return "", errors.New("want a URL such as https://example.com/privacy")
	}
	return u.String(), nil
}

func parseEmail(s string) (string, error) {
	address, err := mail.ParseAddress(s)
	if err != nil || address.Address != s {
		return "", errors.New("want an address such as operator@example.com")
	}
	return s, nil
}

// parseListen reads HOST:PORT; an empty host is every address.
func parseListen(s string) (string, error) {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", errors.New("want HOST:PORT, such as 127.0.0.1:2583")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", errors.New("the port is not a number up to 65535")
	}
	return s, nil
}

func parseLevel(s string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s)); err != nil {
		return 0, errors.New("want debug, info, warn or error")
	}
	return level, nil
}

// parseNetworks reads CIDRs and single addresses.
func parseNetworks(s string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, item := range parseList(s) {
		if addr, err := netip.ParseAddr(item); err == nil {
			out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(item)
		if err != nil {
			return nil, fmt.Errorf("%q is no network: want CIDRs such as 10.0.0.0/8 or addresses", item)
		}
		out = append(out, prefix.Masked())
	}
	return out, nil
}

// parseDomains reads handle domains: ".example.com", the dot may be left out.
func parseDomains(s string) ([]string, error) {
	var out []string
	for _, item := range parseList(s) {
		domain := "." + strings.ToLower(strings.TrimPrefix(item, "."))
		handle, err := syntax.ParseHandle("a" + domain)
		if err != nil {
			return nil, fmt.Errorf("%q is no domain: want .example.com", item)
		}
		if !handle.AllowedTLD() {
			return nil, fmt.Errorf("%q: handles under this top-level domain are not allowed in atproto", item)
		}
		out = append(out, domain)
	}
	if len(out) == 0 {
		return nil, errors.New("want at least one domain")
	}
	return out, nil
}

func parseDIDs(s string) ([]syntax.DID, error) {
	var out []syntax.DID
	for _, item := range parseList(s) {
		did, err := syntax.ParseDID(item)
		if err != nil {
			return nil, fmt.Errorf("%q is no DID", item)
		}
		out = append(out, did)
	}
	return out, nil
}

// parseTrustGroups reads NAME=DID DID…; NAME=DID DID…. How many members a group
// may have, and how it may be called, is the index's to say.
func parseTrustGroups(s string) ([]TrustGroup, error) {
	var groups []TrustGroup
	in := map[syntax.DID]string{}
	for item := range strings.SplitSeq(s, ";") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, list, ok := strings.Cut(item, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("%q is no trust group: want NAME=DID DID…", item)
		}
		members, err := parseDIDs(list)
		if err != nil {
			return nil, fmt.Errorf("trust group %s: %w", name, err)
		}
		for _, did := range members {
			if other, twice := in[did]; twice {
				return nil, fmt.Errorf("trust group %s: %s is in %s already", name, did, other)
			}
			in[did] = name
		}
		if slices.ContainsFunc(groups, func(g TrustGroup) bool { return g.Name == name }) {
			return nil, fmt.Errorf("trust group %s is there twice", name)
		}
		groups = append(groups, TrustGroup{Name: name, Members: members})
	}
	slices.SortFunc(groups, func(a, b TrustGroup) int { return strings.Compare(a.Name, b.Name) })
	return groups, nil
}

// parseCollections reads collections, each once and in order. A wildcard would
// publish what does not exist yet, so there is none.
func parseCollections(s string) ([]syntax.NSID, error) {
	var out []syntax.NSID
	for _, item := range parseList(s) {
		collection, err := syntax.ParseNSID(item)
		if err != nil {
			return nil, fmt.Errorf("%q is no collection: want whole NSIDs such as garden.engram.agents.observation", item)
		}
		out = append(out, collection.Normalize())
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func parseDSN(s string) (DSN, error) {
	switch {
	case strings.HasPrefix(s, "sqlite:") && len(s) > len("sqlite:"):
	case strings.HasPrefix(s, "postgres://"), strings.HasPrefix(s, "postgresql://"):
		if _, err := url.Parse(s); err != nil {
			return DSN{}, errors.New("the postgres URL does not parse (percent-encode what is special in the password)")
		}
	default:
		return DSN{}, errors.New("want sqlite:PATH or postgres://USER:PASSWORD@HOST/NAME")
	}
	return NewDSN(s), nil
}

// parseBlobs looks only at the scheme and for credentials: the form of the rest
// is the blob store's, which reads it at start-up.
func parseBlobs(s string) (string, error) {
	switch {
	case strings.HasPrefix(s, "dir:") && len(s) > len("dir:"):
	case strings.HasPrefix(s, "s3://") && len(s) > len("s3://"):
		u, err := url.Parse(s)
		if err != nil {
			return "", errors.New("want s3://BUCKET/PREFIX?endpoint=…&region=…&path_style=true")
		}
		endpoint, err := url.Parse(u.Query().Get("endpoint"))
		if u.User != nil || err == nil && endpoint.User != nil {
			return "", errors.New("credentials do not belong here: give them by the AWS chain (AWS_ACCESS_KEY_ID, …)")
		}
	default:
		return "", errors.New("want dir:PATH or s3://BUCKET/PREFIX?endpoint=…&region=…&path_style=true")
	}
	return s, nil
}

// oneOf answers a parser for a key that is one word of a few.
func oneOf(words ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		for _, word := range words {
			if strings.EqualFold(s, word) {
				return word, nil
			}
		}
		return "", fmt.Errorf("want %s", strings.Join(words, " or "))
	}
}
