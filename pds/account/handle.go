package account

import (
	"fmt"
	"net"
	"strings"
	"unicode/utf8"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// Lengths of the first label of a handle under a domain of this host, as the
// reference PDS has them.
const (
	minLabel = 3
	maxLabel = 18
)

// reserved names are those that a reader would take for the host itself, or
// that hosts give to machines.
var reserved = func() map[string]bool {
	names := map[string]bool{}
	for _, name := range strings.Fields(`
		about abuse account accounts admin administrator api app appview atproto auth blob blobs cdn config console
		contact dns docs download email help herbarium host hostmaster http https imap info invite legal localhost
		login logout mail mailer-daemon master metrics moderation moderator noc noreply no-reply ns1 ns2 null oauth
		operator owner pds plc pop3 postmaster privacy proxy public register relay root security service session
		settings signin signup smtp ssl status support sysadmin system terms tls undefined webmaster well-known
		www xrpc`) {
		names[name] = true
	}
	return names
}()

// ParseHandle reads a handle as a client wrote it: any case, and with the
// leading @ that people write.
func ParseHandle(s string) (syntax.Handle, error) {
	handle, err := syntax.ParseHandle(strings.TrimPrefix(strings.TrimSpace(s), "@"))
	if err != nil {
		return "", fmt.Errorf("%w: want letters, digits and hyphens, with a domain behind", ErrHandleInvalid)
	}
	return handle.Normalize(), nil
}

// checkHandle says whether a new account may have the handle. An admin may
// give reserved names.
func (s *Store) checkHandle(handle syntax.Handle, byAdmin bool) (syntax.Handle, error) {
	handle, err := ParseHandle(string(handle))
	if err != nil {
		return "", err
	}
	name := handle.String()
	if !handle.AllowedTLD() || handle.IsInvalidHandle() {
		return "", fmt.Errorf("%w: .%s is not for handles", ErrHandleInvalid, handle.TLD())
	}
	if name == s.cfg.PublicURL.Hostname() {
		return "", fmt.Errorf("%w: it is the host itself", ErrHandleReserved)
	}
	label, ok := s.labelOf(handle)
	if !ok {
		return "", fmt.Errorf("%w: handles here end in %s", ErrDomainUnsupported, strings.Join(s.cfg.HandleDomains, " or "))
	}
	switch {
	case strings.Contains(label, "."):
		return "", fmt.Errorf("%w: only one label in front of the domain", ErrHandleInvalid)
	case len(label) < minLabel || len(label) > maxLabel:
		return "", fmt.Errorf("%w: the first label must have %d to %d characters, it has %d", ErrHandleInvalid, minLabel, maxLabel, len(label))
	case reserved[label] && !byAdmin:
		return "", ErrHandleReserved
	}
	return handle, nil
}

// labelOf answers what stands in front of a domain of this host. The longest
// domain counts, so that one may lie under another.
func (s *Store) labelOf(handle syntax.Handle) (label string, ok bool) {
	for _, domain := range s.cfg.HandleDomains {
		if rest, has := strings.CutSuffix(handle.String(), domain); has && (!ok || len(rest) < len(label)) {
			label, ok = rest, true
		}
	}
	return label, ok && label != ""
}

// OwnsDomain reports whether the handle lies under a domain of this host, so
// that nobody else can say whose it is.
func (s *Store) OwnsDomain(handle syntax.Handle) bool {
	_, ok := s.labelOf(handle.Normalize())
	return ok
}

// hostName reads a Host header: lower case, without port and final dot.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// normalizeEmail reads an e-mail address: one @, something on both sides,
// nothing that a header or a page would trip over. Whether it works only a
// mail can tell.
func normalizeEmail(s string) (string, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	local, domain, ok := strings.Cut(s, "@")
	if !ok || local == "" || !utf8.ValidString(s) || !strings.Contains(domain, ".") || len(s) > 254 || strings.ContainsAny(s, " \t\r\n<>,;\"'\\()[]") || strings.Contains(domain, "@") {
		return "", ErrEmailInvalid
	}
	for _, r := range s {
		if r < 0x21 || r == 0x7f {
			return "", ErrEmailInvalid
		}
	}
	return s, nil
}
