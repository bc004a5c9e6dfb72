package index

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"time"

	"github.com/ipfs/go-cid"

	"herbarium.garden/migrations"
)

// clean makes foreign text fit for a text column: Postgres takes neither NUL
// nor bad UTF-8.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// maxKey bounds free text in an index, in bytes.
const maxKey = 512

// indexKey is s, or its digest when it is too long for an index: good for
// equality, which is all that these columns are asked.
func indexKey(s string) string {
	s = clean(s)
	if len(s) <= maxKey {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}

// timeText is the stored form of a time that may be absent or out of the
// years that sort as text.
func timeText(t time.Time) string {
	if t.IsZero() || t.UTC().Year() < 0 || t.UTC().Year() > 9999 {
		return ""
	}
	return migrations.FormatTime(t)
}

func textTime(s string) time.Time {
	t, err := migrations.ParseTime(s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// earlier is the smaller of two stored times, where the first may be absent:
// a self-reported time never sorts a row past the moment it was witnessed.
func earlier(claimed, witnessed string) string {
	if claimed == "" || claimed > witnessed {
		return witnessed
	}
	return claimed
}

func cidText(c cid.Cid) string {
	if !c.Defined() {
		return ""
	}
	return c.String()
}

// parseCID reads a stored CID; undefined for "".
func parseCID(s string) cid.Cid {
	c, err := cid.Decode(s)
	if err != nil {
		return cid.Undef
	}
	return c
}

// RepoKey is a git remote in the form in which its spellings are equal: host
// and path, lower case, without scheme, user, port, trailing slashes and .git;
// an IPv6 address in brackets. What is neither a URL nor scp-like, such as a
// path on the disk, stays as it is.
func RepoKey(remote string) string {
	s := strings.TrimSpace(remote)
	host, path := "", ""
	if u, err := url.Parse(s); err == nil && u.Host != "" {
		host, path = u.Hostname(), u.Path
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
	} else {
		host, path = scpLike(s)
	}
	if host == "" {
		return s
	}
	path = strings.Trim(strings.ToLower(path), "/")
	path = strings.TrimRight(strings.TrimSuffix(path, ".git"), "/")
	return strings.ToLower(host) + "/" + path
}

// scpLike splits [user@]host:path; "" when s has another form. A single letter
// is a drive, not a host.
func scpLike(s string) (host, path string) {
	if user, rest, ok := strings.Cut(s, "@"); ok && !strings.ContainsAny(user, "/:[") {
		s = rest
	}
	end := strings.Index(s, ":")
	if strings.HasPrefix(s, "[") {
		end = strings.Index(s, "]:") + 1
	}
	if end < 2 || strings.Contains(s[:end], "/") || strings.HasPrefix(s[end+1:], "//") {
		return "", ""
	}
	return s[:end], s[end+1:]
}
