// Package secrettest makes credentials that open nothing, for the tests of those
// who must find them, or must not repeat them. They are put together at run time
// of random parts, the same in each run, so that no scanner takes a file here
// for a leak. It knows nothing of the rules but their names.
package secrettest

import (
	"encoding/base64"
	"hash/crc32"
	"math/rand/v2"
	"strings"
)

// The alphabets of credentials.
const (
	Uppers   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	Lowers   = "abcdefghijklmnopqrstuvwxyz"
	Decimals = "0123456789"
	Letters  = Uppers + Lowers
	Alnum    = Letters + Decimals
	Hex      = "0123456789abcdef"
	URLSafe  = Alnum + "-_"
	Base32   = Uppers + "234567"
)

// Maker makes random parts.
type Maker struct{ *rand.Rand }

// NewMaker makes the Maker of a seed, which always makes the same.
func NewMaker(seed uint64) Maker { return Maker{rand.New(rand.NewPCG(seed, 1))} }

// Of is n characters of an alphabet.
func (m Maker) Of(from string, n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = from[m.IntN(len(from))]
	}
	return string(out)
}

// summed is a token of GitHub or npm: 30 characters and their CRC-32 in base 62.
func (m Maker) summed() string {
	body := m.Of(Alnum, 30)
	sum := ""
	for n := uint64(crc32.ChecksumIEEE([]byte(body))); len(sum) < 6; n /= 62 {
		sum = string((Decimals + Uppers + Lowers)[n%62]) + sum
	}
	return body + sum
}

// inPEM is a sample of a key in a file.
func inPEM(rule, before, kind, lineEnd, after string) Sample {
	return within(rule, true, before+"-----BEGIN "+kind+"-----"+lineEnd, func(m Maker) string {
		var lines []string
		for range 8 {
			lines = append(lines, m.Of(Alnum+"+/", 64))
		}
		return strings.Join(lines, lineEnd)
	}, lineEnd+"-----END "+kind+"-----"+lineEnd+after)
}

// JWT is a token that nobody signed.
func (m Maker) JWT() string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode([]byte(`{"sub":"`+m.Of(Alnum, 12)+`"}`)) + "." + m.Of(URLSafe, 43)
}

// Sample is a text with one credential in it.
type Sample struct {
	Rule string // that finds it
	Sure bool   // that it is one
	Make func(Maker) (text, secret string)
}

// prefixed is a sample whose text is the credential.
func prefixed(rule string, sure bool, prefix, from string, n int) Sample {
	return Sample{rule, sure, func(m Maker) (string, string) {
		secret := m.Of(from, n)
		return prefix + secret, secret
	}}
}

// within is a sample whose credential stands between before and after.
func within(rule string, sure bool, before string, secret func(Maker) string, after string) Sample {
	return Sample{rule, sure, func(m Maker) (string, string) {
		s := secret(m)
		return before + s + after, s
	}}
}

// samples has one or more of each rule.
var samples = []Sample{
	within("github-token", true, "ghp_", Maker.summed, ""),
	within("github-token", true, `{"log":"\ngho_`, Maker.summed, `"}`),
	within("github-token", true, "https://x-access-token%3Aghs_", Maker.summed, "%40github.com"),
	prefixed("github-token", false, "ghu_", Alnum, 36), // of no checksum
	within("github-fine-grained-token", true, "github_pat_", func(m Maker) string { return m.Of(Alnum, 22) + "_" + m.Of(Alnum, 59) }, ""),
	prefixed("gitlab-token", true, "glpat-", URLSafe, 20),
	prefixed("gitlab-token", true, "glrt-", URLSafe, 20),
	within("bitbucket-app-password", true, "ATBB", func(m Maker) string { return m.Of(Alnum, 24) + m.Of(Decimals+"ABCDEF", 8) }, ""),
	prefixed("atlassian-token", true, "ATATT3", Alnum, 186),
	within("npm-token", true, "//registry.npmjs.org/:_authToken=npm_", Maker.summed, ""),
	prefixed("npm-token", false, "npm_", Alnum, 36),
	prefixed("pypi-token", true, "pypi-"+"AgEIcHlwaS5vcmc", URLSafe, 120),
	prefixed("docker-hub-token", true, "dckr_pat_", URLSafe, 27),
	within("aws-access-key", true, "AKIA", func(m Maker) string { return "Q" + m.Of(Base32, 15) }, ""),
	within("aws-access-key", true, "aws_access_key_id = ASIA", func(m Maker) string { return "I" + m.Of(Base32, 15) }, "\n"),
	prefixed("aws-secret-key", true, "aws_secret_access_key = ", Alnum+"+/", 40),
	within("aws-secret-key", true, `"SecretAccessKey": "`, func(m Maker) string { return m.Of(Alnum+"+/", 40) }, `",`),
	inPEM("gcp-service-account-key", `{"type": "service_account", "private_key": "`, "PRIVATE KEY", `\n`, `"}`),
	prefixed("google-oauth-secret", true, "GOCSPX-", URLSafe, 28),
	prefixed("google-api-key", false, "AIza", URLSafe, 35),
	prefixed("google-access-token", false, "ya29.", URLSafe, 120),
	within("azure-storage-key", true, "DefaultEndpointsProtocol=https;AccountName=seeds;AccountKey=", func(m Maker) string { return m.Of(Alnum+"+/", 86) + "==" }, ";EndpointSuffix=core.windows.net"),
	within("azure-client-secret", true, "", func(m Maker) string { return m.Of(Alnum, 3) + "8Q~" + m.Of(Alnum, 34) }, ""),
	prefixed("digitalocean-token", true, "dop_v1_", Hex, 64),
	within("cloudflare-origin-key", true, "v1.0-", func(m Maker) string { return m.Of(Hex, 24) + "-" + m.Of(Hex, 146) }, ""),
	prefixed("cloudflare-token", false, "CLOUDFLARE_API_TOKEN=", Alnum, 40),
	prefixed("databricks-token", true, "dapi", Hex, 32),
	prefixed("vault-token", true, "hvs.", URLSafe, 92),
	within("terraform-token", true, "", func(m Maker) string { return m.Of(Alnum, 14) + ".atlasv1." + m.Of(Alnum, 67) }, ""),
	within("tailscale-key", true, "tskey-auth-", func(m Maker) string { return m.Of(Alnum, 16) + "-" + m.Of(Alnum, 32) }, ""),
	within("grafana-token", true, "glsa_", func(m Maker) string { return m.Of(Alnum, 32) + "_" + m.Of(Hex, 8) }, ""),
	within("anthropic-key", true, "sk-ant-api03-", func(m Maker) string { return m.Of(URLSafe, 93) + "AA" }, ""),
	within("openai-key", true, "sk-proj-", func(m Maker) string { return m.Of(URLSafe, 74) + "T3Blbk" + "FJ" + m.Of(URLSafe, 74) }, ""),
	within("openai-key", true, "sk-", func(m Maker) string { return m.Of(Alnum, 20) + "T3Blbk" + "FJ" + m.Of(Alnum, 20) }, ""),
	prefixed("openrouter-key", true, "sk-or-v1-", Hex, 64),
	prefixed("huggingface-token", true, "hf_", Letters, 34),
	prefixed("groq-key", true, "gsk_", Alnum, 52),
	prefixed("xai-key", true, "xai-", Alnum, 80),
	within("slack-token", true, "xoxb-", func(m Maker) string { return m.Of(Decimals, 12) + "-" + m.Of(Decimals, 12) + "-" + m.Of(Alnum, 24) }, ""),
	within("slack-token", true, "xapp-1-", func(m Maker) string {
		return "A" + m.Of(Uppers, 10) + "-" + m.Of(Decimals, 13) + "-" + m.Of(Hex, 64)
	}, ""),
	within("slack-webhook", true, "https://hooks.slack.com/services/", func(m Maker) string { return "T" + m.Of(Uppers, 8) + "/B" + m.Of(Uppers, 10) + "/" + m.Of(Alnum, 24) }, ""),
	within("discord-webhook", true, "https://discord.com/api/webhooks/", func(m Maker) string { return "1" + m.Of(Decimals, 18) + "/" + m.Of(URLSafe, 68) }, ""),
	within("discord-bot-token", true, "DISCORD_TOKEN=", func(m Maker) string {
		return base64.RawURLEncoding.EncodeToString([]byte("1"+m.Of(Decimals, 17))) + "." + m.Of(Alnum, 6) + "." + m.Of(URLSafe, 38)
	}, ""),
	within("telegram-bot-token", true, "https://api.telegram.org/bot", func(m Maker) string { return "5" + m.Of(Decimals, 9) + ":AA" + m.Of(URLSafe, 33) }, "/getMe"),
	prefixed("stripe-key", true, "sk_live_", Alnum, 99),
	prefixed("stripe-key", true, "rk_live_", Alnum, 24),
	prefixed("stripe-webhook-secret", true, "whsec_", Alnum, 32),
	prefixed("square-token", true, "sq0csp-", URLSafe, 43),
	prefixed("shopify-token", true, "shpat_", Hex, 32),
	within("sendgrid-key", true, "SG.", func(m Maker) string { return m.Of(URLSafe, 22) + "." + m.Of(URLSafe, 43) }, ""),
	prefixed("mailgun-key", false, "key-", Hex, 32),
	prefixed("twilio-key", false, "SK", Hex, 32),
	inPEM("private-key", "", "OPENSSH PRIVATE KEY", "\n", ""),
	inPEM("private-key", "", "EC PRIVATE KEY", "\r\n", ""),
	within("private-key", true, "-----BEGIN PGP "+"PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\nComment: of nobody\n\n", func(m Maker) string { return m.Of(Alnum+"+/", 64) }, "\n=abcd\n-----END"),
	within("putty-private-key", true, "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n", func(m Maker) string { return m.Of(Alnum+"+/", 48) }, "\nPrivate-MAC:"),
	prefixed("age-secret-key", true, "AGE-SECRET-"+"KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
	within("jwt", false, "", Maker.JWT, ""),
	within("basic-auth", false, "Authorization: Basic ", func(m Maker) string {
		return base64.StdEncoding.EncodeToString([]byte("ada:" + m.Of(Alnum, 14)))
	}, "\n"),
	prefixed("bearer-token", false, "authorization: Bearer ", Alnum, 32),
	within("url-password", false, "postgres://ada:", func(m Maker) string { return m.Of(Alnum, 14) }, "@db.internal:5432/seeds"),
	within("curl-password", false, "curl -s -u ada:", func(m Maker) string { return m.Of(Alnum, 14) }, " https://example.org/"),
	within("atproto-app-password", false, "app password: ", func(m Maker) string {
		return m.Of(Lowers, 4) + "-" + m.Of(Lowers, 4) + "-" + m.Of(Lowers, 4) + "-" + m.Of(Lowers, 4)
	}, ""),
	within("assigned-secret", false, `"password": "`, func(m Maker) string { return "Zq7" + m.Of(Alnum, 9) }, `"`),
	within("assigned-secret", false, "SERVICE_API_KEY=", func(m Maker) string { return "k9" + m.Of(Alnum, 30) }, "\n"),
}

// Samples are one or more of each rule.
func Samples() []Sample { return append([]Sample(nil), samples...) }

// Of is the first sample of a rule.
func Of(rule string) (text, secret string) {
	for _, s := range samples {
		if s.Rule == rule {
			return s.Make(NewMaker(7))
		}
	}
	panic("no sample of " + rule)
}

// Repeats reports whether a text repeats a piece of a credential.
func Repeats(text, secret string) bool {
	const piece = 8
	for at := 0; at+piece <= len(secret); at += piece {
		if strings.Contains(text, secret[at:at+piece]) {
			return true
		}
	}
	return false
}
