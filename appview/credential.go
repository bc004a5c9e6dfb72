package appview

import (
	"regexp"
	"strings"
)

// userinfo finds the authority of a URL up to its last @, wherever the URL
// stands in a text: a command line holds URLs too.
var userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*)://([^\s/?#]*)@`)

const mask = "***"

// maskCredentials puts *** in place of user names and passwords in URLs, and
// tells whether it did. A user name alone is no secret outside http and https:
// ssh://git@host/ stays as it is.
func maskCredentials(s string) (string, bool) {
	if !strings.Contains(s, "@") {
		return s, false
	}
	masked := false
	out := userinfo.ReplaceAllStringFunc(s, func(found string) string {
		scheme, user, _ := strings.Cut(strings.TrimSuffix(found, "@"), "://")
		web := strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
		if user == "" || user == mask || !web && !strings.Contains(user, ":") {
			return found
		}
		masked = true
		return scheme + "://" + mask + "@"
	})
	return out, masked
}
