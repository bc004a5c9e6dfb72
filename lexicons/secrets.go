package lexicons

import (
	"regexp"
	"strings"
)

// secretPattern is one kind of credential. The keyword is looked for first:
// most texts have none of them, and a substring search is far cheaper than a
// regular expression.
type secretPattern struct {
	kind    string
	keyword string
	pattern *regexp.Regexp
	sure    bool // fixed prefix and length, or a header: hardly anything else looks so
}

var secretPatterns = []secretPattern{
	{"private key", "PRIVATE KEY-----", regexp.MustCompile(`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----\s*[A-Za-z0-9+/=:\s,-]{40}`), true},
	{"AWS access key", "AKIA", regexp.MustCompile(`\bAKIA[0-9A-Z]{16}\b`), true},
	{"AWS temporary access key", "ASIA", regexp.MustCompile(`\bASIA[0-9A-Z]{16}\b`), true},
	{"GitHub token", "gh", regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{36}\b`), true},
	{"GitHub token", "github_pat_", regexp.MustCompile(`\bgithub_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}\b`), true},
	{"GitLab token", "glpat-", regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20}`), true},
	{"Slack token", "xox", regexp.MustCompile(`\bxox[abeoprs]-[0-9]{8,}-[0-9A-Za-z-]{10,}`), true},
	{"Slack webhook", "hooks.slack.com", regexp.MustCompile(`hooks\.slack\.com/services/T[A-Z0-9]{8,}/B[A-Z0-9]{8,}/[A-Za-z0-9]{20,}`), true},
	{"Stripe key", "k_live_", regexp.MustCompile(`\b[rs]k_live_[0-9A-Za-z]{24,}\b`), true},
	{"Google API key", "AIza", regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}`), true},
	{"npm token", "npm_", regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}\b`), true},
	{"PyPI token", "pypi-AgEIcHlwaS5vcmc", regexp.MustCompile(`\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}`), true},
	{"SendGrid key", "SG.", regexp.MustCompile(`\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}\b`), true},
	{"DigitalOcean token", "do", regexp.MustCompile(`\bdo[opr]_v1_[a-f0-9]{64}\b`), true},
	{"Hugging Face token", "hf_", regexp.MustCompile(`\bhf_[A-Za-z]{34}\b`), true},
	{"Anthropic key", "sk-ant-", regexp.MustCompile(`\bsk-ant-[a-z]+[0-9]{2}-[A-Za-z0-9_-]{80,}`), true},
	{"OpenAI key", "T3BlbkFJ", regexp.MustCompile(`\bsk-[A-Za-z0-9_-]*T3BlbkFJ[A-Za-z0-9_-]{20,}`), true},
	{"age secret key", "AGE-SECRET-KEY-1", regexp.MustCompile(`\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b`), true},

	{"JWT", "eyJ", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`), false},
	{"bearer token", "earer ", regexp.MustCompile(`(?i)\bauthorization:\s*bearer\s+[A-Za-z0-9._~+/=-]{16,}`), false},
	{"password", "assword", regexp.MustCompile(`(?i)\bpassword["']?\s*[:=]\s*["'][^"'\s]{8,}["']`), false},
}

// exampleSecrets are published as documentation and open nothing.
var exampleSecrets = []string{"EXAMPLE"}

// Secret is where a text has something that looks like a credential. It never
// holds the credential.
type Secret struct {
	Kind  string // "AWS access key", …
	Start int    // byte offset in the text
	End   int
	Sure  bool // a high-confidence pattern
}

// FindSecrets looks for credentials in text, in order of pattern and place, at
// most one per pattern. Callers mask text[Start:End] before they show it.
func FindSecrets(text string) []Secret {
	var found []Secret
	for _, p := range secretPatterns {
		if !strings.Contains(text, p.keyword) {
			continue
		}
		for _, at := range p.pattern.FindAllStringIndex(text, -1) {
			if isExample(text[at[0]:at[1]]) {
				continue
			}
			found = append(found, Secret{Kind: p.kind, Start: at[0], End: at[1], Sure: p.sure})
			break
		}
	}
	return found
}

func isExample(secret string) bool {
	for _, e := range exampleSecrets {
		if strings.HasSuffix(secret, e) {
			return true
		}
	}
	return false
}

// secrets reports the credentials in one text of a record. The message says
// what and where, never the thing itself.
func (s *subject) secrets(path, text string) {
	if s.settings.Secrets == PolicyOff {
		return
	}
	for _, secret := range FindSecrets(text) {
		switch {
		case !secret.Sure:
			s.flag(Warning, CodeSecretSuspected, path, "what looks like a %s at byte %d", secret.Kind, secret.Start)
		case s.settings.Secrets == PolicyReject:
			s.refuse(CodeSecretDetected, RefusalSecretDetected, path, "take it out, and revoke it where it was issued",
				"a %s at byte %d", secret.Kind, secret.Start)
		default:
			s.flag(Violation, CodeSecretDetected, path, "a %s at byte %d", secret.Kind, secret.Start)
		}
	}
}
