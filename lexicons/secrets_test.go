package lexicons_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

const (
	uppers   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lowers   = "abcdefghijklmnopqrstuvwxyz"
	decimals = "0123456789"
	alphabet = uppers + lowers
	alnum    = alphabet + decimals
	hexits   = "0123456789abcdef"
	urlsafe  = alnum + "-_"
	base32s  = uppers + "234567"
)

// maker makes credentials that open nothing, at run time and of random parts,
// so that no scanner takes this file for a leak. They are the same in each run.
type maker struct{ *rand.Rand }

func newMaker(seed uint64) maker { return maker{rand.New(rand.NewPCG(seed, 1))} }

// of is n characters of an alphabet.
func (m maker) of(from string, n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = from[m.IntN(len(from))]
	}
	return string(out)
}

// summed is a token of GitHub or npm: 30 characters and their CRC-32 in base 62.
func (m maker) summed() string {
	body := m.of(alnum, 30)
	sum := ""
	for n := uint64(crc32.ChecksumIEEE([]byte(body))); len(sum) < 6; n /= 62 {
		sum = string((decimals + uppers + lowers)[n%62]) + sum
	}
	return body + sum
}

// inPEM is a sample of a key in a file.
func inPEM(rule, before, kind, lineEnd, after string) secretSample {
	return within(rule, true, before+"-----BEGIN "+kind+"-----"+lineEnd, func(m maker) string {
		var lines []string
		for range 8 {
			lines = append(lines, m.of(alnum+"+/", 64))
		}
		return strings.Join(lines, lineEnd)
	}, lineEnd+"-----END "+kind+"-----"+lineEnd+after)
}

func (m maker) jwt() string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode([]byte(`{"sub":"`+m.of(alnum, 12)+`"}`)) + "." + m.of(urlsafe, 43)
}

// secretSample is a text with one credential in it.
type secretSample struct {
	rule string
	sure bool
	make func(maker) (text, secret string)
}

// prefixed is a sample whose text is the credential.
func prefixed(rule string, sure bool, prefix, from string, n int) secretSample {
	return secretSample{rule, sure, func(m maker) (string, string) {
		secret := m.of(from, n)
		return prefix + secret, secret
	}}
}

// within is a sample whose credential stands between before and after.
func within(rule string, sure bool, before string, secret func(maker) string, after string) secretSample {
	return secretSample{rule, sure, func(m maker) (string, string) {
		s := secret(m)
		return before + s + after, s
	}}
}

// secretSamples has one or more of each rule.
var secretSamples = []secretSample{
	within("github-token", true, "ghp_", maker.summed, ""),
	within("github-token", true, `{"log":"\ngho_`, maker.summed, `"}`),
	within("github-token", true, "https://x-access-token%3Aghs_", maker.summed, "%40github.com"),
	prefixed("github-token", false, "ghu_", alnum, 36), // of no checksum
	within("github-fine-grained-token", true, "github_pat_", func(m maker) string { return m.of(alnum, 22) + "_" + m.of(alnum, 59) }, ""),
	prefixed("gitlab-token", true, "glpat-", urlsafe, 20),
	prefixed("gitlab-token", true, "glrt-", urlsafe, 20),
	within("bitbucket-app-password", true, "ATBB", func(m maker) string { return m.of(alnum, 24) + m.of(decimals+"ABCDEF", 8) }, ""),
	prefixed("atlassian-token", true, "ATATT3", alnum, 186),
	within("npm-token", true, "//registry.npmjs.org/:_authToken=npm_", maker.summed, ""),
	prefixed("npm-token", false, "npm_", alnum, 36),
	prefixed("pypi-token", true, "pypi-"+"AgEIcHlwaS5vcmc", urlsafe, 120),
	prefixed("docker-hub-token", true, "dckr_pat_", urlsafe, 27),
	within("aws-access-key", true, "AKIA", func(m maker) string { return "Q" + m.of(base32s, 15) }, ""),
	within("aws-access-key", true, "aws_access_key_id = ASIA", func(m maker) string { return "I" + m.of(base32s, 15) }, "\n"),
	prefixed("aws-secret-key", true, "aws_secret_access_key = ", alnum+"+/", 40),
	within("aws-secret-key", true, `"SecretAccessKey": "`, func(m maker) string { return m.of(alnum+"+/", 40) }, `",`),
	inPEM("gcp-service-account-key", `{"type": "service_account", "private_key": "`, "PRIVATE KEY", `\n`, `"}`),
	prefixed("google-oauth-secret", true, "GOCSPX-", urlsafe, 28),
	prefixed("google-api-key", false, "AIza", urlsafe, 35),
	prefixed("google-access-token", false, "ya29.", urlsafe, 120),
	within("azure-storage-key", true, "DefaultEndpointsProtocol=https;AccountName=seeds;AccountKey=", func(m maker) string { return m.of(alnum+"+/", 86) + "==" }, ";EndpointSuffix=core.windows.net"),
	within("azure-client-secret", true, "", func(m maker) string { return m.of(alnum, 3) + "8Q~" + m.of(alnum, 34) }, ""),
	prefixed("digitalocean-token", true, "dop_v1_", hexits, 64),
	within("cloudflare-origin-key", true, "v1.0-", func(m maker) string { return m.of(hexits, 24) + "-" + m.of(hexits, 146) }, ""),
	prefixed("cloudflare-token", false, "CLOUDFLARE_API_TOKEN=", alnum, 40),
	prefixed("databricks-token", true, "dapi", hexits, 32),
	prefixed("vault-token", true, "hvs.", urlsafe, 92),
	within("terraform-token", true, "", func(m maker) string { return m.of(alnum, 14) + ".atlasv1." + m.of(alnum, 67) }, ""),
	within("tailscale-key", true, "tskey-auth-", func(m maker) string { return m.of(alnum, 16) + "-" + m.of(alnum, 32) }, ""),
	within("grafana-token", true, "glsa_", func(m maker) string { return m.of(alnum, 32) + "_" + m.of(hexits, 8) }, ""),
	within("anthropic-key", true, "sk-ant-api03-", func(m maker) string { return m.of(urlsafe, 93) + "AA" }, ""),
	within("openai-key", true, "sk-proj-", func(m maker) string { return m.of(urlsafe, 74) + "T3Blbk" + "FJ" + m.of(urlsafe, 74) }, ""),
	within("openai-key", true, "sk-", func(m maker) string { return m.of(alnum, 20) + "T3Blbk" + "FJ" + m.of(alnum, 20) }, ""),
	prefixed("openrouter-key", true, "sk-or-v1-", hexits, 64),
	prefixed("huggingface-token", true, "hf_", alphabet, 34),
	prefixed("groq-key", true, "gsk_", alnum, 52),
	prefixed("xai-key", true, "xai-", alnum, 80),
	within("slack-token", true, "xoxb-", func(m maker) string { return m.of(decimals, 12) + "-" + m.of(decimals, 12) + "-" + m.of(alnum, 24) }, ""),
	within("slack-token", true, "xapp-1-", func(m maker) string {
		return "A" + m.of(uppers, 10) + "-" + m.of(decimals, 13) + "-" + m.of(hexits, 64)
	}, ""),
	within("slack-webhook", true, "https://hooks.slack.com/services/", func(m maker) string { return "T" + m.of(uppers, 8) + "/B" + m.of(uppers, 10) + "/" + m.of(alnum, 24) }, ""),
	within("discord-webhook", true, "https://discord.com/api/webhooks/", func(m maker) string { return "1" + m.of(decimals, 18) + "/" + m.of(urlsafe, 68) }, ""),
	within("discord-bot-token", true, "DISCORD_TOKEN=", func(m maker) string {
		return base64.RawURLEncoding.EncodeToString([]byte("1"+m.of(decimals, 17))) + "." + m.of(alnum, 6) + "." + m.of(urlsafe, 38)
	}, ""),
	within("telegram-bot-token", true, "https://api.telegram.org/bot", func(m maker) string { return "5" + m.of(decimals, 9) + ":AA" + m.of(urlsafe, 33) }, "/getMe"),
	prefixed("stripe-key", true, "sk_live_", alnum, 99),
	prefixed("stripe-key", true, "rk_live_", alnum, 24),
	prefixed("stripe-webhook-secret", true, "whsec_", alnum, 32),
	prefixed("square-token", true, "sq0csp-", urlsafe, 43),
	prefixed("shopify-token", true, "shpat_", hexits, 32),
	within("sendgrid-key", true, "SG.", func(m maker) string { return m.of(urlsafe, 22) + "." + m.of(urlsafe, 43) }, ""),
	prefixed("mailgun-key", false, "key-", hexits, 32),
	prefixed("twilio-key", false, "SK", hexits, 32),
	inPEM("private-key", "", "OPENSSH PRIVATE KEY", "\n", ""),
	inPEM("private-key", "", "EC PRIVATE KEY", "\r\n", ""),
	within("private-key", true, "-----BEGIN PGP "+"PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\nComment: of nobody\n\n", func(m maker) string { return m.of(alnum+"+/", 64) }, "\n=abcd\n-----END"),
	within("putty-private-key", true, "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n", func(m maker) string { return m.of(alnum+"+/", 48) }, "\nPrivate-MAC:"),
	prefixed("age-secret-key", true, "AGE-SECRET-"+"KEY-1", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
	within("jwt", false, "", maker.jwt, ""),
	within("basic-auth", false, "Authorization: Basic ", func(m maker) string {
		return base64.StdEncoding.EncodeToString([]byte("ada:" + m.of(alnum, 14)))
	}, "\n"),
	prefixed("bearer-token", false, "authorization: Bearer ", alnum, 32),
	within("url-password", false, "postgres://ada:", func(m maker) string { return m.of(alnum, 14) }, "@db.internal:5432/seeds"),
	within("curl-password", false, "curl -s -u ada:", func(m maker) string { return m.of(alnum, 14) }, " https://example.org/"),
	within("atproto-app-password", false, "app password: ", func(m maker) string {
		return m.of(lowers, 4) + "-" + m.of(lowers, 4) + "-" + m.of(lowers, 4) + "-" + m.of(lowers, 4)
	}, ""),
	within("assigned-secret", false, `"password": "`, func(m maker) string { return "Zq7" + m.of(alnum, 9) }, `"`),
	within("assigned-secret", false, "SERVICE_API_KEY=", func(m maker) string { return "k9" + m.of(alnum, 30) }, "\n"),
}

// sampleOf is the first sample of a rule.
func sampleOf(rule string) (text, secret string) {
	for _, s := range secretSamples {
		if s.rule == rule {
			return s.make(newMaker(7))
		}
	}
	panic("no sample of " + rule)
}

func TestFindSecrets(t *testing.T) {
	tried := map[string]bool{}
	for i, sample := range secretSamples {
		tried[sample.rule] = true
		t.Run(fmt.Sprintf("%s/%d", sample.rule, i), func(t *testing.T) {
			for seed := range uint64(20) {
				credential, secret := sample.make(newMaker(seed))
				text := "line one\n" + credential + "\nline three"
				found := lexicons.FindSecrets(text)
				require.Len(t, found, 1, credential)
				require.Equal(t, sample.rule, found[0].Rule, credential)
				require.Equal(t, sample.sure, found[0].Sure, credential)
				rest := text[:found[0].Start] + text[found[0].End:]
				for at := 0; at+8 <= len(secret); at += 8 {
					require.NotContains(t, rest, secret[at:at+8], "masked to its end")
				}
				streamed, err := lexicons.ScanSecrets(strings.NewReader(text))
				require.NoError(t, err)
				require.Equal(t, found, streamed)
			}
		})
	}
	for _, rule := range lexicons.SecretRules() {
		require.True(t, tried[rule.ID], "a sample of %s", rule.ID)
		require.NotEmpty(t, rule.Kind)
	}
}

// What GitHub's own articles show has the right checksum, which is how the
// computation is known to be right.
func TestGitHubChecksum(t *testing.T) {
	found := lexicons.FindSecrets("gh" + "p_zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq17")
	require.Len(t, found, 1)
	require.True(t, found[0].Sure)
}

// harmless texts have no secret, and look as if they had.
func harmless() map[string]string {
	m := newMaker(3)
	texts := map[string]string{
		"empty":                    "",
		"AWS's own example":        "AKIA" + "IOSFODNN7EXAMPLE",
		"AWS's own secret":         "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
		"AWS of no account":        "AKIA" + "7777777777777777",
		"AWS inside a word":        "XAKIA" + "Q" + m.of(base32s, 15),
		"AWS secret is a SHA-1":    "secret_access_key: " + m.of(hexits, 40),
		"blank to fill in":         "ghp_" + strings.Repeat("x", 36),
		"starred":                  "glpat-" + strings.Repeat("*", 20),
		"zeros":                    "dop_v1_" + strings.Repeat("0", 64),
		"counted":                  "npm_" + "0123456789abcdefghijABCDEFGHIJ012345",
		"angle brackets":           `password = "<your-password>"`,
		"variable":                 `password: "${DB_PASSWORD}"` + "\npostgres://ada:$PGPASSWORD@db/x\ncurl -u ada:$PW https://a.test",
		"template":                 `token: "{{ .Values.token }}"` + "\npostgres://{{user}}:{{password}}@db/x",
		"word for it":              "postgres://user:password@localhost:5432/db",
		"port":                     "http://user:8080@example.org",
		"read from a place":        `token := os.Getenv("API_TOKEN"); secret = config.LoadSecretFromVault2(ctx)`,
		"PEM to fill in":           "-----BEGIN " + "PRIVATE KEY-----\n...\n-----END",
		"public key":               "-----BEGIN PUBLIC KEY-----\n" + m.of(alnum, 64) + "\n-----END PUBLIC KEY-----",
		"certificate":              "-----BEGIN CERTIFICATE-----\n" + m.of(alnum, 64) + "\n-----END CERTIFICATE-----",
		"public SSH key":           "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + m.of(alnum, 43) + " ada@seeds",
		"git":                      "commit " + m.of(hexits, 40) + "\nindex " + m.of(hexits, 7) + ".." + m.of(hexits, 7),
		"go.sum":                   "github.com/a/b v1.2.3 h1:" + m.of(alnum+"+/", 43) + "=\ngithub.com/a/b v1.2.3/go.mod h1:" + m.of(alnum+"+/", 43) + "=",
		"npm lock file":            `"integrity": "sha512-` + m.of(alnum+"+/", 86) + `=="`,
		"yarn lock file":           "resolved \"https://registry.yarnpkg.com/a/-/a-1.0.0.tgz#" + m.of(hexits, 40) + `"`,
		"pip hash":                 "--hash=sha256:" + m.of(hexits, 64),
		"Docker digest":            "sha256:" + m.of(hexits, 64) + " token-service@sha256:" + m.of(hexits, 64),
		"UUID":                     `{"token": "123e4567-e89b-12d3-a456-426614174000", "id": "` + m.of(hexits, 8) + `-0000-4000-8000-` + m.of(hexits, 12) + `"}`,
		"CID":                      "token: bafyreic4ij67eiaxqqpcr3fam6bu5ve5gtomnmjj4ueits72rgknmij4nq",
		"DID":                      "token=did:plc:ewvi7nxzyoun6zhxrhs64oiz secret: did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme",
		"AT URI":                   `secret = "at://did:plc:ewvi7nxzyoun6zhxrhs64oiz/app.bsky.feed.post/3k2aexample22"`,
		"TID":                      "token: 3jzfcijpj2z2a rev=3jzfcijpj2z2a",
		"base64 image":             "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA" + m.of(alnum+"+/", 4000),
		"URL of a secret":          `secret: https://vault.internal/v1/secret/data/a1b2c3d4e5f6`,
		"path":                     "token_file = /var/run/secrets/kubernetes.io/serviceaccount/token1",
		"time":                     "token expires: 2026-12-01T04:36:55.123Z",
		"host name":                "access_key = s3-1.eu-west-2.amazonaws.com",
		"JSON that is no header":   base64.RawURLEncoding.EncodeToString([]byte(`{"a":"bcdefgh"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"b":"cdefghi"}`)) + "." + m.of(urlsafe, 43),
		"prefixes":                 "the sk-learn package, ghp_ prefixes and npm_config_registry; task-123, risk-ant-x; hf_hub_download; SG.A",
		"prose":                    "password: ask the gardener. The secret is that the token was never a token. Authorization: Bearer of good news",
		"basic of nothing":         "Authorization: Basic c2VlZHM=",
		"discord":                  "discord.com/channels/123456/98765.abcdef.0123456789012345678901234567",
		"scp-like":                 "git@github.com:ada/seeds.git ssh://git@github.com/ada/seeds.git",
		"curl without a password":  "curl -u ada https://example.org/a:b && curl --user-agent x:y https://example.org",
		"words that look like one": "app-password: abcd or this-that-what-ever-else",
		"Go source":                "func (t *Token) Secret(password string) (token string, err error) {\n\ttoken = t.secret[password]\n\treturn token, nil\n}",
		"Google public web page":   "https://maps.googleapis.com/maps/api/js?key=YOUR_API_KEY",
	}
	return texts
}

func TestFindSecretsLeavesAlone(t *testing.T) {
	for name, text := range harmless() {
		require.Empty(t, lexicons.FindSecrets(text), "%s: %s", name, text)
	}
}

func TestBetterOfTwoOverlapping(t *testing.T) {
	token, _ := sampleOf("github-token")
	found := lexicons.FindSecrets(`password = "` + token + `" Authorization: Bearer ` + newMaker(1).jwt())
	require.Len(t, found, 2)
	require.Equal(t, "github-token", found[0].Rule)
	require.True(t, found[0].Sure)
	require.Equal(t, "jwt", found[1].Rule)
}

// Many suspicions cannot hide a credential, and many credentials make no
// answer without end.
func TestFoundSecretsAreBounded(t *testing.T) {
	m := newMaker(1)
	var text strings.Builder
	for range 500 {
		text.WriteString(m.jwt() + "\n")
	}
	token, _ := sampleOf("github-token")
	found := lexicons.FindSecrets(text.String() + strings.Repeat(token+"\n", 500))
	require.Len(t, found, 40)
	require.False(t, found[19].Sure)
	require.True(t, found[20].Sure)
}

func TestScanSecretsInAStream(t *testing.T) {
	token, _ := sampleOf("github-token")
	key, _ := sampleOf("private-key")
	jwt, _ := sampleOf("jwt")
	const part = 256 << 10
	for _, at := range []int{0, 1, 7999, 8000, part - 4096 - 65, part - 4096 - 64, part - 4096 - 4, part - 4096, part - 100, part - 1, part, part + 1, 3*part - 20, 1 << 20} {
		filler := strings.Repeat("seeds of the field\n", at/19+1)[:at]
		text := filler + "\n" + token + " \n" + key + jwt + "\n" + strings.Repeat("more seeds\n", 50_000)
		want := lexicons.FindSecrets(text)
		require.Len(t, want, 3)
		require.EqualValues(t, at+1, want[0].Start)
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(text), "in halves": iotest.HalfReader(strings.NewReader(text))} {
			found, err := lexicons.ScanSecrets(r)
			require.NoError(t, err)
			require.Equal(t, want, found, "%s at %d", name, at)
		}
		for name, encoded := range map[string][]byte{"little": utf16Of(text, 0), "big": utf16Of(text, 1)} {
			found, err := lexicons.ScanSecrets(bytes.NewReader(encoded))
			require.NoError(t, err)
			require.Len(t, found, 3, "%s endian at %d", name, at)
			require.EqualValues(t, 2*(at+1)+2, found[0].Start, "%s endian at %d", name, at)
		}
	}
	found, err := lexicons.ScanSecrets(strings.NewReader("\x7fELF\x00 " + token))
	require.NoError(t, err)
	require.Empty(t, found, "not text")
	for after := range 2 {
		_, err = lexicons.ScanSecrets(io.MultiReader(strings.NewReader(strings.Repeat("x", after*9000)), iotest.ErrReader(io.ErrClosedPipe)))
		require.ErrorIs(t, err, io.ErrClosedPipe)
	}
}

// utf16Of is a text in UTF-16 with its byte order mark.
func utf16Of(text string, low int) []byte {
	out := []byte{0xff, 0xfe}
	if low == 1 {
		out = []byte{0xfe, 0xff}
	}
	for _, unit := range utf16.Encode([]rune(text)) {
		pair := [2]byte{}
		pair[low], pair[1-low] = byte(unit), byte(unit>>8)
		out = append(out, pair[:]...)
	}
	return out
}

func TestSecretPolicies(t *testing.T) {
	sure, sureSecret := sampleOf("github-token")
	perhaps, perhapsSecret := sampleOf("bearer-token")
	ch := change(t, lexicons.ObservationNSID, tid1, edit(observation, map[string]any{"text": perhaps + "\n" + sure}))
	for policy, want := range map[lexicons.Policy][]string{
		"":                    {"!SecretDetected /text SecretDetected", "secret-suspect /text"},
		lexicons.PolicyReject: {"!SecretDetected /text SecretDetected", "secret-suspect /text"},
		lexicons.PolicyFlag:   {"SecretDetected /text", "secret-suspect /text"},
		lexicons.PolicyOff:    {},
	} {
		rules := lexicons.NewRules(catalog(t), lexicons.Settings{Secrets: policy})
		found := rules.CheckRecord(ch)
		require.Equal(t, want, summary(found), policy)
		for _, f := range found {
			require.NotContains(t, f.Message+f.Repair, sureSecret[:8])
			require.NotContains(t, f.Message+f.Repair, perhapsSecret[:8])
		}
		require.Equal(t, policy != lexicons.PolicyOff, rules.LooksForSecrets())
		require.Equal(t, policy != lexicons.PolicyOff, rules.ReadsContent("application/octet-stream"))
		require.True(t, rules.ReadsContent("text/plain"))
		require.False(t, rules.ReadsContent("image/png"))
	}
}

// Every text of an enforced record is looked at, those too that its lexicon
// does not know.
func TestSecretsInEveryText(t *testing.T) {
	secret, _ := sampleOf("slack-token")
	rules := lexicons.NewRules(catalog(t), lexicons.Settings{})
	for _, c := range []struct {
		path   string
		record map[string]any
		nsid   string
	}{
		{"/text", map[string]any{"text": secret}, "garden.engram.agents.observation"},
		{"/source/value", map[string]any{"source": map[string]any{"kind": "command", "value": "echo " + secret}}, "garden.engram.agents.observation"},
		{"/title", map[string]any{"title": secret}, "garden.engram.session"},
		{"/summary", map[string]any{"summary": "next: use " + secret}, "garden.engram.session"},
		{"/branch", map[string]any{"branch": secret}, "garden.engram.session"},
		{"/description", map[string]any{"description": secret}, "click.aligned.chat.session"},
		{"/text", map[string]any{"text": secret}, "click.aligned.chat.message"},
		{"/steps/0/summary", map[string]any{"steps": []any{map[string]any{"tool": "bash", "summary": secret}}}, "click.aligned.chat.message"},
		{"/description", map[string]any{"description": secret}, "com.publicdomainrelay.temp.agent.class"},
		{"/content", map[string]any{"content": "# Skill\n" + secret}, "com.publicdomainrelay.temp.agent.skill"},
		{"/tools/0/inputSchema/default", map[string]any{"tools": []any{map[string]any{"name": "t", "description": "d", "inputSchema": map[string]any{"default": secret}}}}, "com.publicdomainrelay.temp.agent.skill"},
		{"/text", map[string]any{"text": secret, "citations": nil, "basis": nil}, "garden.herbarium.claim"},
		{"/note/0", map[string]any{"note": []any{secret}}, "garden.engram.session"},
	} {
		nsid := lexicons.SessionNSID
		for known := range samples {
			if string(known) == c.nsid {
				nsid = known
			}
		}
		found := rules.CheckRecord(change(t, nsid, tid1, edit(samples[nsid], c.record)))
		require.Equal(t, []string{"!SecretDetected " + c.path + " SecretDetected"}, summary(found), "%s%s", c.nsid, c.path)
	}
	require.Empty(t, rules.CheckRecord(change(t, "com.example.note", tid1, map[string]any{"text": secret})), "not of a type that is enforced")
}

// BenchmarkFindSecrets is the price of a text without secrets, for each kind.
func BenchmarkFindSecrets(b *testing.B) {
	for name, text := range cleanTexts() {
		b.Run(name+"/"+strconv.Itoa(len(text)>>10)+"KB", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				lexicons.FindSecrets(text)
			}
		})
	}
}

// What was written to make the search slow does not: 32 KiB of nothing but
// beginnings of one credential, for each rule, takes no more than a moment.
func TestSecretsInHostileText(t *testing.T) {
	const most = 5 * time.Second // 10 ms on an idle machine; one search that is quadratic takes minutes
	for i, sample := range secretSamples {
		text, secret := sample.make(newMaker(1))
		broken, _, _ := strings.Cut(text, secret)
		for name, repeated := range map[string]string{"begun": broken, "cut": text[:len(text)-1], "glued": text[:len(text)/2]} {
			if repeated == "" {
				continue
			}
			hostile := strings.Repeat(repeated, 32<<10/len(repeated))
			start := time.Now()
			found := lexicons.FindSecrets(hostile)
			took := time.Since(start)
			require.Less(t, took, most, "%s/%d, %s", sample.rule, i, name)
			require.LessOrEqual(t, len(found), 40)
		}
	}
}
