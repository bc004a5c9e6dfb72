package lexicons_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/secrettest"
)

// gitleaks is the yardstick of the rules on secrets: its 222 rules are what most
// repositories are checked by. It is a tool of the tests and not linked into
// anything: it takes 0.8 s for a mebibyte, and half of its modules are a
// configuration library's.
func gitleaks(t *testing.T, texts map[string]string) map[string][]string {
	t.Helper()
	dir, report := t.TempDir(), filepath.Join(t.TempDir(), "report.json")
	names := slices.Sorted(maps.Keys(texts))
	for i, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d.txt", i)), []byte(texts[name]), 0o600))
	}
	runGitleaks(t, dir, report)
	raw, err := os.ReadFile(report)
	require.NoError(t, err)
	var leaks []struct{ RuleID, File string }
	require.NoError(t, json.Unmarshal(raw, &leaks))
	found := map[string][]string{}
	for _, leak := range leaks {
		var i int
		_, err := fmt.Sscanf(filepath.Base(leak.File), "%04d.txt", &i)
		require.NoError(t, err)
		if !slices.Contains(found[names[i]], leak.RuleID) {
			found[names[i]] = append(found[names[i]], leak.RuleID)
		}
	}
	return found
}

// runGitleaks writes a report on the files of a folder and tells what CPU time it took.
func runGitleaks(t testing.TB, dir, report string) time.Duration {
	t.Helper()
	tools := os.Getenv("HERBARIUM_TEST_TOOLS")
	if tools == "" {
		home, err := os.UserHomeDir()
		require.NoError(t, err)
		tools = filepath.Join(home, ".cache", "herbarium", "tools")
	}
	path := filepath.Join(tools, "gitleaks")
	if _, err := os.Stat(path); err != nil {
		t.Fatal("gitleaks is not built: make deps")
	}
	// What ours do not: it decodes nothing.
	cmd := exec.CommandContext(t.Context(), path, "dir", "--no-banner", "--log-level", "error", "--max-decode-depth", "0",
		"--exit-code", "0", "--report-format", "json", "--report-path", report, dir)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return cmd.ProcessState.UserTime()
}

// oursAlone are the samples that gitleaks passes over, by rule and number of the
// sample, and why they count here.
var oursAlone = map[string]string{
	"bitbucket-app-password": "it wants the word bitbucket before a client's id or secret, and does not know the prefix",
	"discord-webhook":        "who has the URL can post; it does not know webhooks of Discord",
	"docker-hub-token":       "it does not know the prefix",
	"google-access-token":    "it does not know the prefix; here a suspicion, for it ends within the hour",
	"google-oauth-secret":    "it does not know the prefix",
	"groq-key":               "it does not know the prefix",
	"mailgun-key":            "it wants the word mailgun before it; here a suspicion",
	"openrouter-key":         "it does not know the prefix",
	"private-key/pgp":        "the text ends before the key does, as the text of an observation may; it wants the last line",
	"putty-private-key":      "it does not know the format",
	"square-token":           "it knows access tokens, not the secret of an application",
	"stripe-webhook-secret":  "it does not know the prefix",
	"tailscale-key":          "it does not know the prefix",
	"telegram-bot-token":     "it wants an assignment; this is the URL that a bot calls",
	"xai-key":                "it does not know the prefix",
	"assigned-secret":        "it wants more entropy than a password of twelve characters has; here a suspicion",
	"atproto-app-password":   "this network's own; here a suspicion",
	"basic-auth":             "it wants a command of curl around it; a log has the header alone. Here a suspicion",
	"bearer-token":           "the same",
	"url-password":           "it does not look into URLs; here a suspicion",
}

// theirsAlone are the texts in which gitleaks sees a credential, and why none is
// seen here.
var theirsAlone = map[string]string{
	"AWS secret is a SHA-1":  "40 hexadecimal digits are the name of a commit here, whatever stands before them",
	"CID":                    "names of content are what this network is made of",
	"DID":                    "so are names of accounts, and a did:key is a public key",
	"UUID":                   "a UUID is made to be shown",
	"JSON that is no header": "without an algorithm it is no JWT",
	"counted":                "a blank to fill in: the Letters",
	"Linear":                 "providers that are not among ours, of which gitleaks knows a hundred more",
	"Notion":                 "the same",
	"Pulumi":                 "the same",
	"RubyGems":               "the same",
	"Postman":                "the same",
	"Perplexity":             "the same",
	"Stripe's test keys":     "they open nothing that is of worth, and documentation is full of them",
}

// TestSecretsAgainstGitleaks holds the rules against gitleaks: each of the two
// sees a credential where the other does, and where not, one of the tables above
// says why.
func TestSecretsAgainstGitleaks(t *testing.T) {
	m := secrettest.NewMaker(11)
	texts := harmless()
	for name, text := range map[string]string{
		"Linear":             "lin_api_" + m.Of(secrettest.Alnum, 40),
		"Notion":             "ntn_" + m.Of(secrettest.Decimals, 11) + m.Of(secrettest.Alnum, 35),
		"Pulumi":             "pul-" + m.Of(secrettest.Hex, 40),
		"RubyGems":           "rubygems_" + m.Of(secrettest.Hex, 48),
		"Postman":            "PMAK-" + m.Of(secrettest.Hex, 24) + "-" + m.Of(secrettest.Hex, 34),
		"Perplexity":         "pplx-" + m.Of(secrettest.Alnum, 48),
		"Stripe's test keys": "sk_test_" + m.Of(secrettest.Alnum, 24),
	} {
		texts[name] = text + "\n"
	}
	for i, sample := range secrettest.Samples() {
		text, _ := sample.Make(secrettest.NewMaker(7))
		name := sample.Rule
		if strings.Contains(text, "PGP") {
			name += "/pgp"
		}
		texts[fmt.Sprintf("%s #%d", name, i)] = "line one\n" + text + "\nline three\n"
	}
	theirs := gitleaks(t, texts)
	require.NotEmpty(t, theirs)
	needed := map[string]bool{}
	for full, text := range texts {
		ours := lexicons.FindSecrets(text)
		name, _, _ := strings.Cut(full, " #")
		switch {
		case len(ours) > 0 && len(theirs[full]) == 0:
			needed[name] = true
			require.Contains(t, oursAlone, name, "we see %s in %q, gitleaks nothing", ours, text)
		case len(ours) == 0 && len(theirs[full]) > 0:
			needed[name] = true
			require.Contains(t, theirsAlone, name, "gitleaks sees %s in %q, we nothing", theirs[full], text)
		}
	}
	for _, table := range []map[string]string{oursAlone, theirsAlone} {
		for name := range table {
			require.True(t, needed[name], "the two agree about %s by now", name)
		}
	}
}

// BenchmarkSecretsAgainstGitleaks is what a clean text costs both, in CPU time;
// that of gitleaks has the start of its process in it.
func BenchmarkSecretsAgainstGitleaks(b *testing.B) {
	for name, text := range cleanTexts() {
		dir := b.TempDir()
		require.NoError(b, os.WriteFile(filepath.Join(dir, "text.txt"), []byte(strings.Repeat(text, 8)), 0o600))
		b.Run(name+"/gitleaks", func(b *testing.B) {
			var took time.Duration
			for b.Loop() {
				took += runGitleaks(b, dir, filepath.Join(b.TempDir(), "report.json"))
			}
			b.ReportMetric(8*float64(b.N)/took.Seconds(), "MiB/CPU-s")
		})
		b.Run(name+"/ours", func(b *testing.B) {
			for b.Loop() {
				lexicons.FindSecrets(text)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "MiB/CPU-s")
		})
	}
}

// cleanTexts are a MiB each of what agents observe.
func cleanTexts() map[string]string {
	fill := func(s string) string { return strings.Repeat(s, (1<<20)/len(s)+1)[:1<<20] }
	return map[string]string{
		"log":  fill("2026-12-01T04:36:55.123Z INFO request done route=/xrpc/com.atproto.repo.getRecord status=200 duration=1.23ms client=192.0.2.17\n"),
		"go":   fill("func (s *Store) token(ctx context.Context, key string) (string, error) {\n\tif err := s.check(ctx, key); err != nil {\n\t\treturn \"\", fmt.Errorf(\"check %s: %w\", key, err)\n\t}\n\treturn s.tokens[key], nil\n}\n\n"),
		"html": fill(`<li class="item"><a href="https://example.org/seeds/42?sort=name&amp;page=2" title="Seeds of the field">Seeds</a> <span>12 grams, sown in March</span></li>` + "\n"),
	}
}
