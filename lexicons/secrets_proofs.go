package lexicons

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"hash/crc32"
	"math"
	"regexp"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// confidence is how sure it is that a text of the right form is a credential.
type confidence int

const (
	noSecret  confidence = iota
	suspected            // flagged
	certain              // refused, unless the operator says otherwise
)

// proof judges what has the form of a credential by what is inside it.
type proof func(secret string) confidence

// always takes the form for proof enough.
func always(c confidence) proof { return func(string) confidence { return c } }

// base62CRC is the proof of GitHub's tokens and of npm's: the last six
// characters are the CRC-32 of the others, in base 62. Where they are not it is
// an invented example, or a token with a slip.
// https://github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats/
func base62CRC(secret string) confidence {
	body, sum := secret[:len(secret)-6], secret[len(secret)-6:]
	if base62(crc32.ChecksumIEEE([]byte(body))) == sum {
		return certain
	}
	return suspected
}

// base62 is n in six digits.
func base62(n uint32) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	var out [6]byte
	for i := range out {
		out[len(out)-1-i] = digits[n%62]
		n /= 62
	}
	return string(out[:])
}

// awsAccount is the proof of an AWS access key ID: it has the number of its
// account inside, which has twelve digits. Keys from before 2019, whose first
// bit is 0, have none.
func awsAccount(id string) confidence {
	raw, err := base32.StdEncoding.DecodeString(id)
	if err != nil || len(raw) < 6 {
		return noSecret
	}
	if raw[0]&0x80 == 0 {
		return certain
	}
	var n uint64
	for _, b := range raw[:6] {
		n = n<<8 | uint64(b)
	}
	if account := n & 0x7fffffffff80 >> 7; account > 999_999_999_999 {
		return noSecret
	}
	return certain
}

// random is a proof by entropy: at least bits for each character.
func random(bits float64, c confidence) proof {
	return func(secret string) confidence {
		if entropy(secret) < bits {
			return noSecret
		}
		return c
	}
}

// entropy is Shannon's, in bits for each byte, of the bytes of s by themselves.
func entropy(s string) float64 {
	var counts [256]int
	for i := range len(s) {
		counts[s[i]]++
	}
	var bits float64
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// jwtHeader is the proof of a JWT: it starts with a JSON object that names an
// algorithm. What it opens, and whether it has ended, only its issuer knows.
func jwtHeader(jwt string) confidence {
	head, _, _ := strings.Cut(jwt, ".")
	raw, err := base64.RawURLEncoding.DecodeString(head)
	var header struct {
		Algorithm string `json:"alg"`
	}
	if err != nil || json.Unmarshal(raw, &header) != nil || header.Algorithm == "" {
		return noSecret
	}
	return suspected
}

// basicCredentials is the proof of HTTP Basic: base64 of user:password.
func basicCredentials(encoded string) confidence {
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	user, password, has := bytes.Cut(raw, []byte(":"))
	if err != nil || !has || len(user) == 0 || len(password) < 3 || isPlaceholder(string(password)) {
		return noSecret
	}
	return suspected
}

// snowflake is the proof of a Discord bot token: it starts with base64 of the
// decimal number of the bot.
func snowflake(token string) confidence {
	head, _, _ := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil || len(raw) < 17 || strings.Trim(string(raw), "0123456789") != "" {
		return noSecret
	}
	return certain
}

// password is the proof of what stands in a URL or behind -u: not a reference
// to a variable, and not the name of the thing.
func password(text string) confidence {
	if len(text) < 3 || strings.Trim(text, "0123456789") == "" || strings.HasPrefix(text, "$") {
		return noSecret
	}
	switch strings.ToLower(text) {
	case "password", "passwd", "pass", "secret", "token", "pwd":
		return noSecret
	}
	return suspected
}

// notSecrets have the entropy of a secret and are none: identifiers that are
// made to be shown.
var notSecrets = regexp.MustCompile(`(?i)^(?:` +
	`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}` + // UUID
	`|baf[yk][a-z2-7]{50,}|Qm[1-9A-HJ-NP-Za-km-z]{44}` + // CIDs
	`|did:[a-z]+:.*|at://.*|[a-z][a-z0-9+.-]*://.*` + // DIDs, AT URIs, URLs
	`|sha(?:1|256|384|512)[:-].*` + // digests
	`|[0-9a-f]{40}|[0-9a-f]{64}` + // and those without a name: git's, SHA-256
	`|[~.]{0,2}/.*` + // paths
	`|[0-9TZ:.+-]+` + // numbers and times
	`)$`)

// assigned is the proof of a value that a key calls a secret: letters and
// digits without a pattern, and nothing that is made to be shown.
func assigned(value string) confidence {
	digits := strings.IndexAny(value, "0123456789")
	letters := strings.IndexFunc(value, func(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' })
	switch {
	case digits < 0 || letters < 0 || notSecrets.MatchString(value):
		return noSecret
	case len(value) < 16 && entropy(value) < 2.8, len(value) >= 16 && entropy(value) < 3.5:
		return noSecret
	}
	if _, err := syntax.ParseHandle(value); err == nil && strings.Contains(value, ".") {
		return noSecret // a host name
	}
	return suspected
}

// placeholders are in values that stand for a secret and are none. In a random
// token of 100 characters one of them is found by chance less than once in a
// hundred thousand.
var placeholders = []string{
	"example", "placeholder", "changeme", "change-me", "change_me", "redacted", "dummy", "insert", "replace",
	"your_", "your-", "yourkey", "yourtoken", "yoursecret", "yourpassword",
	"xxxxx", "****", "....", "0000000", "aaaaaaa", "123456789", "abcdefg", "deadbeef",
	"${", "{{", "$(", "%(", "<", ">", "…", "█",
}

// isPlaceholder reports a documented example, a variable, or a blank to fill in.
func isPlaceholder(secret string) bool {
	lower := strings.ToLower(secret)
	for _, p := range placeholders {
		if strings.Contains(lower, p) {
			return true
		}
	}
	return len(secret) >= 16 && entropy(secret) < 2.5
}
