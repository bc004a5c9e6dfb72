package lexicons_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/secrettest"
)

func TestContentRules(t *testing.T) {
	secret, _ := secrettest.Of("github-token")
	for _, c := range []struct {
		name, mime, text, content string
		size                      int // of the whole blob; 0 for len(content)
		want                      []string
	}{
		{"the same", "text/plain", "Linux\n", "Linux\n", 0, []string{}},
		{"other line ends", "text/plain", "a\nb", "a\r\nb", 0, []string{}},
		{"byte order mark", "text/plain", "a", "\ufeffa", 0, []string{}},
		{"the start", "text/plain; charset=utf-8", "Lin", "Linux", 0, []string{"truncated /text"}},
		{"another text", "text/plain", "BSD", "Linux", 0, []string{"text-not-prefix /text"}},
		{"text longer than the content", "text/plain", "Linux 7", "Linux", 0, []string{"text-not-prefix /text"}},
		{"text longer than what was read", "text/plain", "Linux 7", "Linux", 9, []string{"truncated /text"}},
		{"page as text", "text/html", "Seeds", "<h1>Seeds</h1>", 0, []string{"text-not-prefix /text"}},
		{"JSON", "application/ld+json", "{}", "{}", 0, []string{}},
		{"no text", "text/plain", "", "Linux", 0, []string{}},
		{"an image has no text to compare", "image/png", "a seed", "\x89PNG", 0, []string{}},
		{"another charset", "text/plain; charset=latin1", "\u00e9", "\xe9", 0, []string{}},
		{"secret in the content", "text/plain", "log", "log " + secret, 0, []string{"!SecretDetected /content SecretDetected", "truncated /text"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.size == 0 {
				c.size = len(c.content)
			}
			ch := change(t, lexicons.ObservationNSID, tid1, edit(observation, map[string]any{"text": c.text, "content": blobValue(c.mime, c.size)}))
			found := lexicons.NewRules(catalog(t), lexicons.Settings{}).CheckContent(ch, []byte(c.content))
			require.Equal(t, c.want, summary(found))
		})
	}
	rules := lexicons.NewRules(catalog(t), lexicons.Settings{})
	require.Empty(t, rules.CheckContent(change(t, lexicons.ObservationNSID, tid1, observation), []byte(secret)), "no content")
	require.Empty(t, rules.CheckContent(change(t, lexicons.SessionNSID, tid1, session), []byte(secret)))
	require.Empty(t, rules.CheckContent(lexicons.Change{Action: lexicons.Delete}, nil))
}

func TestCredentialsInURLs(t *testing.T) {
	// By way of a session's remote, which takes any string.
	for remote, credential := range map[string]bool{
		"https://example.org/a.git":           false,
		"https://example.org:8443/a@b":        false,
		"https://example.org/100%@home":       false,
		"https://[2001:db8::1]:8443/a@b":      false,
		"https://@example.org/":               false,
		"https://user@example.org/":           true,
		"https://user:pw@example.org/":        true,
		"https://:pw@example.org/":            true,
		"HTTPS://user:pw@example.org":         true,
		" https://user:pw@example.org":        true,
		"https://user:p/w@example.org/":       true,
		"https://user:p#w@example.org/":       true,
		"https://user:p@w@example.org/":       true,
		"https://user:%zz@example.org/":       true,
		"ssh://git@example.org/a.git":         false,
		"ssh://git:@example.org/a.git":        false,
		"ssh://git:pw@example.org/a.git":      true,
		"postgres://u:pw@example.org/db":      true,
		"git@example.org:garden/a.git":        false,
		"user:pw@example.org":                 false,
		"see https://a.test and ask b@a.test": false,
	} {
		ch := change(t, lexicons.SessionNSID, tid1, edit(session, map[string]any{"repo": remote}))
		got := strings.Join(summary(lexicons.NewRules(catalog(t), lexicons.Settings{}).CheckRecord(ch)), " ")
		require.Equal(t, credential, strings.Contains(got, lexicons.CodeCredentialInURL), "%s: %s", remote, got)
	}
}
