package lexicons

import (
	"net/url"
	"regexp"
	"strings"
)

// scpLike is git's short form of a remote: [user@]host:path, without a scheme.
var scpLike = regexp.MustCompile(`^(?:[^\s/:@]+@)?[^\s/:@]+:[^\s]+$`)

// urlHasCredential reports whether s is a URL with a secret in it: any
// userinfo in http and https, a password in any other scheme. The user of
// ssh://git@host/ and of git@host:path is no secret. It does not ask for a
// well-formed URL: what leaks a password is seldom one.
func urlHasCredential(s string) bool {
	scheme, rest, ok := strings.Cut(strings.TrimSpace(s), "://")
	if !ok {
		return false
	}
	authority, tail := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, tail = rest[:end], rest[end:]
	}
	if strings.ContainsAny(authority, " \t\r\n") {
		return false // a sentence, not a URL
	}
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		// A raw / or # in a password ends the authority early and leaves a
		// port that is none.
		_, port, has := strings.Cut(authority, ":")
		return has && !strings.HasPrefix(authority, "[") && strings.Trim(port, "0123456789") != "" && strings.Contains(tail, "@")
	}
	_, password, _ := strings.Cut(authority[:at], ":")
	return password != "" || isHTTPScheme(scheme) && at > 0
}

func isHTTPScheme(scheme string) bool {
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
}

func isAbsoluteHTTP(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && isHTTPScheme(u.Scheme)
}

// isRemote reports whether s is a git remote: a URL with a scheme, or scp-like.
func isRemote(s string) bool {
	if strings.Contains(s, "://") {
		u, err := url.Parse(s)
		return err == nil && u.Scheme != "" && (u.Host != "" || u.Scheme == "file")
	}
	return scpLike.MatchString(s)
}
