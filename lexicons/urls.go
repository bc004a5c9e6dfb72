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
// ssh://git@host/ and of git@host:path is no secret. Text that only looks like
// a URL is taken for one when in doubt, since the harm is on one side.
func urlHasCredential(s string) bool {
	s = strings.TrimSpace(s)
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return false
	}
	u, err := url.Parse(s)
	if err != nil {
		// A raw / or # in a password ends the authority early and leaves a
		// port that is none.
		authority, _, _ := strings.Cut(rest, "@")
		return len(authority) < len(rest) && !strings.ContainsAny(authority, " \t\n")
	}
	if u.User == nil {
		return false
	}
	if _, has := u.User.Password(); has {
		return true
	}
	return isHTTPScheme(scheme) && u.User.Username() != ""
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
