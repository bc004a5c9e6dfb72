package lexicons

import (
	"regexp"
	"strings"
)

const mask = "***"

// urlStart finds where a URL may begin, wherever it stands in a text: a
// command line holds URLs too.
var urlStart = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://`)

// MaskCredentials puts *** in place of user names and passwords in URLs, and
// tells whether it did. A user name alone is no secret outside http and https:
// ssh://git@host/ stays as it is.
func MaskCredentials(s string) (string, bool) {
	if !strings.Contains(s, "@") {
		return s, false
	}
	var out strings.Builder
	masked := false
	for {
		at := urlStart.FindStringIndex(s)
		if at == nil {
			break
		}
		scheme, rest := strings.TrimSuffix(s[at[0]:at[1]], "://"), s[at[1]:]
		out.WriteString(s[:at[1]])
		n := userinfoLength(rest)
		if user := rest[:n]; n > 0 && user != mask && (isWeb(scheme) || strings.Contains(user, ":")) {
			out.WriteString(mask)
			rest = rest[n:]
			masked = true
		}
		s = rest
	}
	return out.String() + s, masked
}

// userinfoLength is how much of what follows "://" is user name and password.
// A raw / or # in a password ends the authority early and leaves a port that
// is none; then all up to the last @ of the word is taken for a secret, since
// the harm is on one side.
func userinfoLength(s string) int {
	if i := strings.IndexAny(s, " \t\r\n\"'<>"); i >= 0 {
		s = s[:i]
	}
	authority := s
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		authority = s[:i]
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		return at
	}
	colon := strings.LastIndexByte(authority, ':')
	if colon < 0 || strings.Trim(authority[colon+1:], "0123456789") == "" || strings.HasSuffix(authority, "]") {
		return 0
	}
	return max(0, strings.LastIndexByte(s, '@'))
}

func isWeb(scheme string) bool {
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
}
