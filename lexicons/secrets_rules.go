package lexicons

import (
	"regexp"
	"strings"
)

// secretRule is one kind of credential. Most texts have none of the keywords;
// the pattern, which is dear, is only tried where one stands.
type secretRule struct {
	id       string   // stable, for programs
	kind     string   // the same in words
	keywords []string // as they are written; every match starts with one of them
	anyCase  bool     // of keyword and pattern
	apart    bool     // the keyword is not the end of a longer word
	behind   behind   // what may stand before the keyword and still belong to the match
	reach    int      // how far the pattern may look, in bytes; 0 for secretReach
	file     bool     // a key in a file, whose rest are more lines
	pattern  *regexp.Regexp
	proof    proof // of what the first group that matched holds, or of the whole
}

// behind is how far before its keyword a match may start.
type behind struct {
	most int
	of   func(byte) bool
}

// secretReach is how far a pattern may look, unless its rule says otherwise;
// longestReach is the most that a rule says.
const (
	secretReach  = 320
	longestReach = 4096
)

// form makes the pattern of a rule: it holds where a keyword stands.
func form(pattern string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + pattern + `)`) }

// Parts of patterns. A value ends where no character of the token can follow.
const (
	wordEnd  = `(?:[^A-Za-z0-9_-]|$)`
	assign   = `["'\x60\]]{0,2}\s{0,4}(?:=>|:=|=|:)\s{0,4}`
	pemBreak = `(?:\\+[nr]|\s)` // in a file, or inside a JSON string
	pemBody  = pemBreak + `*(?:[A-Za-z-]{2,20}: [^\n\\]{0,100}` + pemBreak + `+){0,4}((?:[A-Za-z0-9+/=]|\\+[nr]|\s){40})`
)

// ruleURLPassword is the rule that says what the findings on URLs say better.
const ruleURLPassword = "url-password"

// secretRules are the rules, the specific ones before the general: where two
// match the same text, the surer wins, then the first.
//
// A rule is certain when nothing else looks so: a private key, or a token of a
// provider with a checksum or with a prefix that was made to be found. It only
// suspects what may be public by its design (a Google API key stands in every
// page with a map), what may have ended (a JWT), what is no more than an
// identifier (Twilio's SK…), and what context alone makes a secret.
//
// The forms are taken from what the providers say of their tokens. Change
// SecretsEdition with them.
var secretRules = []secretRule{
	// Code hosts and registries.
	{id: "github-token", kind: "GitHub token", keywords: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"},
		pattern: form(`gh[pousr]_([A-Za-z0-9]{36})` + wordEnd), proof: base62CRC},
	{id: "github-fine-grained-token", kind: "GitHub fine-grained token", keywords: []string{"github_pat_"},
		pattern: form(`github_pat_([A-Za-z0-9]{22}_[A-Za-z0-9]{59})` + wordEnd), proof: always(certain)},
	{id: "gitlab-token", kind: "GitLab token", keywords: []string{"glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-", "gloas-", "glagent-", "glimt-"},
		pattern: form(`gl(?:pat|dt|rt|ptt|cbt|soat|oas|agent|imt)-([A-Za-z0-9_-]{20,}(?:\.[0-9a-z.]{5,12})?)`), proof: always(certain)},
	{id: "bitbucket-app-password", kind: "Bitbucket app password", keywords: []string{"ATBB"}, apart: true,
		pattern: form(`ATBB([A-Za-z0-9]{24}[A-F0-9]{8})` + wordEnd), proof: always(certain)},
	{id: "atlassian-token", kind: "Atlassian API token", keywords: []string{"ATATT3", "ATCTT3"},
		pattern: form(`AT[AC]TT3([A-Za-z0-9_=-]{100,250})`), proof: always(certain)},
	{id: "npm-token", kind: "npm token", keywords: []string{"npm_"},
		pattern: form(`npm_([A-Za-z0-9]{36})` + wordEnd), proof: base62CRC},
	{id: "pypi-token", kind: "PyPI token", keywords: []string{"pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBpLm9yZw"},
		pattern: form(`pypi-Ag[A-Za-z0-9]{13,24}([A-Za-z0-9_-]{50,})`), proof: always(certain)},
	{id: "docker-hub-token", kind: "Docker Hub token", keywords: []string{"dckr_pat_", "dckr_oat_"},
		pattern: form(`dckr_[po]at_([A-Za-z0-9_-]{27,40})`), proof: always(certain)},

	// Clouds.
	{id: "aws-access-key", kind: "AWS access key", keywords: []string{"AKIA", "ASIA"}, apart: true,
		pattern: form(`A[KS]IA([A-Z2-7]{16})` + wordEnd), proof: awsAccount},
	{id: "aws-secret-key", kind: "AWS secret key", keywords: []string{"secret_access_key", "secretaccesskey", "secret-access-key"}, anyCase: true,
		pattern: form(`(?i:secret[_-]?access[_-]?key)["'\x60\]]{0,2}\s{0,4}(?:=>|:=|=|:|>)?\s{0,4}["'\x60]?([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)`), proof: random(4.1, certain)},
	{id: "gcp-service-account-key", kind: "Google Cloud service account key", keywords: []string{`"private_key"`}, reach: 400, file: true,
		pattern: form(`"private_key"\s{0,8}:\s{0,8}"-----BEGIN (?:RSA )?PRIVATE KEY-----` + pemBody), proof: random(3.5, certain)},
	{id: "google-oauth-secret", kind: "Google OAuth client secret", keywords: []string{"GOCSPX-"},
		pattern: form(`GOCSPX-([A-Za-z0-9_-]{28})` + wordEnd), proof: always(certain)},
	{id: "google-api-key", kind: "Google API key", keywords: []string{"AIza"},
		pattern: form(`AIza([A-Za-z0-9_-]{35})` + wordEnd), proof: random(3.5, suspected)},
	{id: "google-access-token", kind: "Google access token", keywords: []string{"ya29."}, apart: true,
		pattern: form(`ya29\.([A-Za-z0-9_-]{40,})`), proof: random(3.5, suspected)},
	{id: "azure-storage-key", kind: "Azure storage key", keywords: []string{"AccountKey=", "SharedAccessKey="}, anyCase: true,
		pattern: form(`(?i:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{86}==|[A-Za-z0-9+/]{43}=)`), proof: random(4, certain)},
	{id: "azure-client-secret", kind: "Azure client secret", keywords: []string{"Q~"}, behind: behind{4, isAzureByte},
		pattern: form(`([A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})(?:[^A-Za-z0-9_~.-]|$)`), proof: random(4, certain)},
	{id: "digitalocean-token", kind: "DigitalOcean token", keywords: []string{"dop_v1_", "doo_v1_", "dor_v1_"},
		pattern: form(`do[por]_v1_([a-f0-9]{64})` + wordEnd), proof: always(certain)},
	{id: "cloudflare-origin-key", kind: "Cloudflare origin CA key", keywords: []string{"v1.0-"}, apart: true,
		pattern: form(`v1\.0-([a-f0-9]{24}-[a-f0-9]{146})` + wordEnd), proof: always(certain)},
	{id: "cloudflare-token", kind: "Cloudflare API token", keywords: []string{"cloudflare", "cf_api"}, anyCase: true,
		pattern: form(`(?i:cloudflare|cf_api)[A-Za-z0-9_ -]*` + assign + `["'\x60]?([A-Za-z0-9_-]{40}|[a-f0-9]{37})` + wordEnd), proof: assigned},
	{id: "databricks-token", kind: "Databricks token", keywords: []string{"dapi"}, apart: true,
		pattern: form(`dapi([a-f0-9]{32})(?:-[0-9])?` + wordEnd), proof: always(certain)},
	{id: "vault-token", kind: "Vault token", keywords: []string{"hvs.", "hvb.", "hvr."}, apart: true,
		pattern: form(`hv[sbr]\.([A-Za-z0-9_-]{24,})`), proof: random(3.5, certain)},
	{id: "terraform-token", kind: "Terraform token", keywords: []string{".atlasv1."}, behind: behind{14, isAlphanumeric},
		pattern: form(`([A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70})`), proof: always(certain)},
	{id: "tailscale-key", kind: "Tailscale key", keywords: []string{"tskey-"},
		pattern: form(`tskey-[a-z]{3,10}-([A-Za-z0-9]{8,}-[A-Za-z0-9]{20,})`), proof: always(certain)},
	{id: "grafana-token", kind: "Grafana token", keywords: []string{"glsa_"},
		pattern: form(`glsa_([A-Za-z0-9]{32}_[a-fA-F0-9]{8})` + wordEnd), proof: always(certain)},

	// Models.
	{id: "anthropic-key", kind: "Anthropic key", keywords: []string{"sk-ant-"},
		pattern: form(`sk-ant-[a-z]{2,12}[0-9]{2}-([A-Za-z0-9_-]{80,})`), proof: always(certain)},
	{id: "openai-key", kind: "OpenAI key", keywords: []string{"sk-"}, apart: true,
		pattern: form(`sk-([A-Za-z0-9_-]{20,150}T3BlbkFJ[A-Za-z0-9_-]{20,})`), proof: always(certain)},
	{id: "openrouter-key", kind: "OpenRouter key", keywords: []string{"sk-or-v1-"},
		pattern: form(`sk-or-v1-([a-f0-9]{64})` + wordEnd), proof: always(certain)},
	{id: "huggingface-token", kind: "Hugging Face token", keywords: []string{"hf_"}, apart: true,
		pattern: form(`hf_([A-Za-z]{34})` + wordEnd), proof: random(3.5, certain)},
	{id: "groq-key", kind: "Groq key", keywords: []string{"gsk_"}, apart: true,
		pattern: form(`gsk_([A-Za-z0-9]{52})` + wordEnd), proof: always(certain)},
	{id: "xai-key", kind: "xAI key", keywords: []string{"xai-"}, apart: true,
		pattern: form(`xai-([A-Za-z0-9]{80})` + wordEnd), proof: always(certain)},

	// Messages and money.
	{id: "slack-token", kind: "Slack token", keywords: []string{"xox", "xapp-"}, apart: true,
		pattern: form(`xox[abeoprs]-([0-9]{8,}-[0-9A-Za-z-]{10,})|xoxe(?:\.xox[bp])?-[0-9]-([A-Za-z0-9]{100,})|xapp-[0-9]-([A-Z0-9]{8,}-[0-9]{8,}-[a-f0-9]{64})`), proof: always(certain)},
	{id: "slack-webhook", kind: "Slack webhook", keywords: []string{"hooks.slack.com/"},
		pattern: form(`hooks\.slack\.com/(services/T[A-Z0-9]{8,}/B[A-Z0-9]{8,}/[A-Za-z0-9]{20,}|(?:workflows|triggers)/[A-Za-z0-9/]{40,})`), proof: always(certain)},
	{id: "discord-webhook", kind: "Discord webhook", keywords: []string{"/api/webhooks/"},
		pattern: form(`/api/webhooks/([0-9]{17,20}/[A-Za-z0-9_-]{60,80})` + wordEnd), proof: always(certain)},
	{id: "discord-bot-token", kind: "Discord bot token", keywords: []string{"discord"}, anyCase: true, reach: 160,
		pattern: form(`(?i:discord)[^\n]*?[\s"'\x60=:]([A-Za-z0-9_-]{23,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38})` + wordEnd), proof: snowflake},
	{id: "telegram-bot-token", kind: "Telegram bot token", keywords: []string{":AA"}, behind: behind{10, isDigit},
		pattern: form(`([0-9]{8,10}:AA[A-Za-z0-9_-]{33})` + wordEnd), proof: always(certain)},
	{id: "stripe-key", kind: "Stripe key", keywords: []string{"sk_live_", "rk_live_"},
		pattern: form(`[sr]k_live_([A-Za-z0-9]{24,})`), proof: always(certain)},
	{id: "stripe-webhook-secret", kind: "webhook signing secret", keywords: []string{"whsec_"},
		pattern: form(`whsec_([A-Za-z0-9+/]{32,})`), proof: random(3.5, certain)},
	{id: "square-token", kind: "Square token", keywords: []string{"sq0atp-", "sq0csp-"},
		pattern: form(`sq0(?:atp-([A-Za-z0-9_-]{22})|csp-([A-Za-z0-9_-]{43}))` + wordEnd), proof: always(certain)},
	{id: "shopify-token", kind: "Shopify token", keywords: []string{"shpat_", "shpca_", "shppa_", "shpss_"},
		pattern: form(`shp(?:at|ca|pa|ss)_([a-fA-F0-9]{32})` + wordEnd), proof: always(certain)},
	{id: "sendgrid-key", kind: "SendGrid key", keywords: []string{"SG."}, apart: true,
		pattern: form(`SG\.([A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})` + wordEnd), proof: always(certain)},
	{id: "mailgun-key", kind: "Mailgun key", keywords: []string{"key-"}, apart: true,
		pattern: form(`key-([a-f0-9]{32})` + wordEnd), proof: random(3, suspected)},
	{id: "twilio-key", kind: "Twilio API key", keywords: []string{"SK"}, apart: true,
		pattern: form(`SK([a-f0-9]{32})` + wordEnd), proof: random(3, suspected)},

	// Keys in files.
	{id: "private-key", kind: "private key", keywords: []string{"-----BEGIN "}, reach: 640, file: true,
		pattern: form(`-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----` + pemBody), proof: random(3.5, certain)},
	{id: "putty-private-key", kind: "PuTTY private key", keywords: []string{"Private-Lines: "}, file: true,
		pattern: form(`Private-Lines: [0-9]{1,4}\s{1,2}([A-Za-z0-9+/=]{40})`), proof: random(3.5, certain)},
	{id: "age-secret-key", kind: "age secret key", keywords: []string{"AGE-SECRET-KEY-1"},
		pattern: form(`AGE-SECRET-KEY-1([02-9AC-HJ-NP-Z]{58})` + wordEnd), proof: always(certain)},

	// What context alone makes a secret.
	{id: "jwt", kind: "JWT", keywords: []string{"eyJ"}, apart: true, reach: longestReach,
		pattern: form(`(eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})`), proof: jwtHeader},
	{id: "basic-auth", kind: "basic credentials", keywords: []string{"authorization"}, anyCase: true,
		pattern: form(`(?i:authorization)["']{0,2}\s{0,4}[:=]\s{0,4}["']?(?i:basic)\s{1,4}([A-Za-z0-9+/]{8,}={0,2})`), proof: basicCredentials},
	{id: "bearer-token", kind: "bearer token", keywords: []string{"authorization"}, anyCase: true,
		pattern: form(`(?i:authorization)["']{0,2}\s{0,4}[:=]\s{0,4}["']?(?i:bearer|token|bot|dpop)\s{1,4}([A-Za-z0-9._~+/=-]{16,})`), proof: random(3.3, suspected)},
	{id: ruleURLPassword, kind: "password in a URL", keywords: []string{"://"}, reach: 200,
		pattern: form(`://[^\s/?#@:"'\x60<>\\]*:([^\s/?#@"'\x60<>\\]+)@[A-Za-z0-9\[]`), proof: password},
	{id: "curl-password", kind: "password of a command", keywords: []string{"curl "}, apart: true,
		pattern: form(`curl [^\n|;]*?(?:-u|--user)[ =]?["']?[^\s:"'$/]+:([^\s"']+)`), proof: password},
	{id: "atproto-app-password", kind: "atproto app password", anyCase: true,
		keywords: []string{"app password", "app-password", "app_password", "apppassword", "atproto_password", "atp_password", "bsky_password", "bluesky_password"},
		pattern:  form(`(?i:[a-z]{3,7}[ _-]?password)["'\x60\]]{0,2}\s{0,4}(?:is|=>|:=|=|:)?\s{0,4}["'\x60]?([a-z2-7]{4}(?:-[a-z2-7]{4}){3})` + wordEnd), proof: random(2.8, suspected)},
	{id: "assigned-secret", kind: "secret", anyCase: true, reach: 200,
		keywords: []string{"password", "passwd", "passphrase", "pwd", "secret", "token", "api_key", "apikey", "api-key", "access_key", "accesskey"},
		pattern: form(`(?i:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access_?key)[A-Za-z0-9_-]*?` + assign +
			`(?:"([^"\s]{8,})"|'([^'\s]{8,})'|\x60([^\x60\s]{8,})\x60|([A-Za-z0-9_+/.=~-]{16,})(?:[\s,;&"'\x60}\])]|$))`), proof: assigned},
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isAlphanumeric(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z'
}

func isAzureByte(c byte) bool { return isAlphanumeric(c) || c == '_' || c == '~' || c == '.' }

// isWordByte reports what a longer word would go on with.
func isWordByte(c byte) bool { return isAlphanumeric(c) || c == '_' || c == '-' }

// isKeyByte reports what the rest of a key in a file is made of.
func isKeyByte(c byte) bool {
	return isAlphanumeric(c) || isSpace(c) || strings.IndexByte("+/=\\", c) >= 0
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// isTokenByte reports what the rest of a token is made of that goes on behind
// what its rule needed to see.
func isTokenByte(c byte) bool { return isWordByte(c) || strings.IndexByte("+/=~", c) >= 0 }
