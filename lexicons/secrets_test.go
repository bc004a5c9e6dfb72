package lexicons_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

// The samples are put together at run time, so that no scanner takes this file
// for a leak.
var (
	alnum36 = "0123456789abcdefghijABCDEFGHIJ012345"
	secrets = map[string]string{
		"private key":              "-----BEGIN OPENSSH " + "PRIVATE KEY-----\n" + strings.Repeat("b3BlbnNzaC1rZXktdjEA", 3) + "\n-----END",
		"AWS access key":           "AKIA" + "QWERTYUIOPASDFGH",
		"AWS temporary access key": "ASIA" + "QWERTYUIOPASDFGH",
		"GitHub token":             "ghp_" + alnum36,
		"GitLab token":             "glpat-" + alnum36[:20],
		"Slack token":              "xoxb-" + "1234567890-" + alnum36[:20],
		"Slack webhook":            "hooks.slack.com/" + "services/T12345678/B12345678/" + alnum36[:24],
		"Stripe key":               "sk_live_" + alnum36[:24],
		"Google API key":           "AIza" + alnum36[:35],
		"npm token":                "npm_" + alnum36,
		"PyPI token":               "pypi-" + "AgEIcHlwaS5vcmc" + alnum36 + alnum36,
		"SendGrid key":             "SG." + alnum36[:22] + "." + alnum36 + alnum36[:7],
		"DigitalOcean token":       "dop_v1_" + strings.Repeat("0123456789abcdef", 4),
		"Hugging Face token":       "hf_" + strings.Repeat("abcdefghij", 3) + "ABCD",
		"Anthropic key":            "sk-ant-" + "api03-" + alnum36 + alnum36 + alnum36,
		"OpenAI key":               "sk-" + alnum36[:20] + "T3BlbkFJ" + alnum36[:20],
		"age secret key":           "AGE-SECRET-KEY-1" + strings.Repeat("QPZRY9X8GF", 5) + "QPZRY9X8",
	}
	suspects = map[string]string{
		"JWT":          "eyJhbGciOiJub25lIn0" + ".eyJzdWIiOiJleGFtcGxlIn0." + "c2lnbmF0dXJl",
		"bearer token": "Authorization: Bearer " + alnum36,
		"password":     `password: "` + alnum36[:12] + `"`,
	}
)

func TestFindSecrets(t *testing.T) {
	check := func(kind, secret string, sure bool) {
		text := "line one\n" + secret + "\nline three"
		found := lexicons.FindSecrets(text)
		require.Len(t, found, 1, kind)
		require.Equal(t, kind, found[0].Kind)
		require.Equal(t, sure, found[0].Sure, kind)
		require.Equal(t, 9, found[0].Start, kind)
		require.Contains(t, secret, text[found[0].Start:found[0].End])
	}
	for kind, secret := range secrets {
		check(kind, secret, true)
	}
	for kind, secret := range suspects {
		check(kind, secret, false)
	}
}

func TestFindSecretsLeavesAlone(t *testing.T) {
	for _, text := range []string{
		"",
		"AKIA" + "IOSFODNN7EXAMPLE", // from the vendor's documentation
		"-----BEGIN " + "PRIVATE KEY-----\n...\n-----END",
		"-----BEGIN PUBLIC KEY-----\n" + strings.Repeat("MIIBIjANBgkqhkiG9w0B", 4),
		"commit 0123456789abcdef0123456789abcdef01234567",
		"bafyreic4ij67eiaxqqpcr3fam6bu5ve5gtomnmjj4ueits72rgknmij4nq",
		"the sk-learn package, ghp_ prefixes and npm_config_registry",
		"password: ask the gardener",
	} {
		require.Empty(t, lexicons.FindSecrets(text), text)
	}
}

func TestSecretPolicies(t *testing.T) {
	secret := secrets["GitHub token"]
	ch := change(t, lexicons.ObservationNSID, tid1, edit(observation, map[string]any{"text": secret}))
	for policy, want := range map[lexicons.Policy][]string{
		"":                    {"!SecretDetected /text SecretDetected"},
		lexicons.PolicyReject: {"!SecretDetected /text SecretDetected"},
		lexicons.PolicyFlag:   {"SecretDetected /text"},
		lexicons.PolicyOff:    {},
	} {
		found := lexicons.NewRules(catalog(t), lexicons.Settings{Secrets: policy}).CheckRecord(ch)
		require.Equal(t, want, summary(found), policy)
		for _, f := range found {
			require.NotContains(t, f.Message+f.Repair, secret[4:12], "no finding repeats a secret")
		}
	}
}
