package lexicons_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/secrettest"
)

func TestFindSecrets(t *testing.T) {
	tried := map[string]bool{}
	for i, sample := range secrettest.Samples() {
		tried[sample.Rule] = true
		t.Run(fmt.Sprintf("%s/%d", sample.Rule, i), func(t *testing.T) {
			for seed := range uint64(20) {
				credential, secret := sample.Make(secrettest.NewMaker(seed))
				text := "line one\n" + credential + "\nline three"
				found := lexicons.FindSecrets(text)
				require.Len(t, found, 1, credential)
				require.Equal(t, sample.Rule, found[0].Rule, credential)
				require.Equal(t, sample.Sure, found[0].Sure, credential)
				rest := text[:found[0].Start] + text[found[0].End:]
				require.False(t, secrettest.Repeats(rest, secret), "masked to its end: %s", rest)
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
	m := secrettest.NewMaker(3)
	texts := map[string]string{
		"empty":                    "",
		"AWS's own example":        "AKIA" + "IOSFODNN7EXAMPLE",
		"AWS's own secret":         "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
		"AWS of no account":        "AKIA" + "7777777777777777",
		"AWS inside a word":        "XAKIA" + "Q" + m.Of(secrettest.Base32, 15),
		"AWS secret is a SHA-1":    "secret_access_key: " + m.Of(secrettest.Hex, 40),
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
		"public key":               "-----BEGIN PUBLIC KEY-----\n" + m.Of(secrettest.Alnum, 64) + "\n-----END PUBLIC KEY-----",
		"certificate":              "-----BEGIN CERTIFICATE-----\n" + m.Of(secrettest.Alnum, 64) + "\n-----END CERTIFICATE-----",
		"public SSH key":           "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + m.Of(secrettest.Alnum, 43) + " ada@seeds",
		"git":                      "commit " + m.Of(secrettest.Hex, 40) + "\nindex " + m.Of(secrettest.Hex, 7) + ".." + m.Of(secrettest.Hex, 7),
		"go.sum":                   "github.com/a/b v1.2.3 h1:" + m.Of(secrettest.Alnum+"+/", 43) + "=\ngithub.com/a/b v1.2.3/go.mod h1:" + m.Of(secrettest.Alnum+"+/", 43) + "=",
		"npm lock file":            `"integrity": "sha512-` + m.Of(secrettest.Alnum+"+/", 86) + `=="`,
		"yarn lock file":           "resolved \"https://registry.yarnpkg.com/a/-/a-1.0.0.tgz#" + m.Of(secrettest.Hex, 40) + `"`,
		"pip hash":                 "--hash=sha256:" + m.Of(secrettest.Hex, 64),
		"Docker digest":            "sha256:" + m.Of(secrettest.Hex, 64) + " token-service@sha256:" + m.Of(secrettest.Hex, 64),
		"UUID":                     `{"token": "123e4567-e89b-12d3-a456-426614174000", "id": "` + m.Of(secrettest.Hex, 8) + `-0000-4000-8000-` + m.Of(secrettest.Hex, 12) + `"}`,
		"CID":                      "token: bafyreic4ij67eiaxqqpcr3fam6bu5ve5gtomnmjj4ueits72rgknmij4nq",
		"DID":                      "token=did:plc:ewvi7nxzyoun6zhxrhs64oiz secret: did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme",
		"AT URI":                   `secret = "at://did:plc:ewvi7nxzyoun6zhxrhs64oiz/app.bsky.feed.post/3k2aexample22"`,
		"TID":                      "token: 3jzfcijpj2z2a rev=3jzfcijpj2z2a",
		"base64 image":             "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA" + m.Of(secrettest.Alnum+"+/", 4000),
		"URL of a secret":          `secret: https://vault.internal/v1/secret/data/a1b2c3d4e5f6`,
		"path":                     "token_file = /var/run/secrets/kubernetes.io/serviceaccount/token1",
		"time":                     "token expires: 2026-12-01T04:36:55.123Z",
		"host name":                "access_key = s3-1.eu-west-2.amazonaws.com",
		"JSON that is no header":   base64.RawURLEncoding.EncodeToString([]byte(`{"a":"bcdefgh"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"b":"cdefghi"}`)) + "." + m.Of(secrettest.URLSafe, 43),
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
	token, _ := secrettest.Of("github-token")
	found := lexicons.FindSecrets(`password = "` + token + `" Authorization: Bearer ` + secrettest.NewMaker(1).JWT())
	require.Len(t, found, 2)
	require.Equal(t, "github-token", found[0].Rule)
	require.True(t, found[0].Sure)
	require.Equal(t, "jwt", found[1].Rule)
}

// Many suspicions cannot hide a credential, and many credentials make no
// answer without end.
func TestFoundSecretsAreBounded(t *testing.T) {
	m := secrettest.NewMaker(1)
	var text strings.Builder
	for range 500 {
		text.WriteString(m.JWT() + "\n")
	}
	token, _ := secrettest.Of("github-token")
	found := lexicons.FindSecrets(text.String() + strings.Repeat(token+"\n", 500))
	require.Len(t, found, 40)
	require.False(t, found[19].Sure)
	require.True(t, found[20].Sure)
}

func TestScanSecretsInAStream(t *testing.T) {
	token, _ := secrettest.Of("github-token")
	key, _ := secrettest.Of("private-key")
	jwt, _ := secrettest.Of("jwt")
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
	sure, sureSecret := secrettest.Of("github-token")
	perhaps, perhapsSecret := secrettest.Of("bearer-token")
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
	secret, _ := secrettest.Of("slack-token")
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
	for i, sample := range secrettest.Samples() {
		text, secret := sample.Make(secrettest.NewMaker(1))
		broken, _, _ := strings.Cut(text, secret)
		for name, repeated := range map[string]string{"begun": broken, "cut": text[:len(text)-1], "glued": text[:len(text)/2]} {
			if repeated == "" {
				continue
			}
			hostile := strings.Repeat(repeated, 32<<10/len(repeated))
			start := time.Now()
			found := lexicons.FindSecrets(hostile)
			took := time.Since(start)
			require.Less(t, took, most, "%s/%d, %s", sample.Rule, i, name)
			require.LessOrEqual(t, len(found), 40)
		}
	}
}
