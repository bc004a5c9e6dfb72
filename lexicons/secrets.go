package lexicons

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// SecretsEdition numbers what FindSecrets knows. It goes up with the rules, so
// that whoever keeps what was found knows what to look at again.
const SecretsEdition = 1

// maxSecrets bounds what is reported of one text, of each confidence.
const maxSecrets = 20

// Secret is where a text has something that looks like a credential. It never
// holds the credential.
type Secret struct {
	Rule  string // "aws-access-key", …: stable, for programs
	Kind  string // the same in words
	Start int64  // byte offset in the text
	End   int64
	Sure  bool // its form proves it: a private key, or a provider's token
}

// SecretRule tells of one rule of FindSecrets.
type SecretRule struct{ ID, Kind string }

// SecretRules lists what FindSecrets looks for.
func SecretRules() []SecretRule {
	list := make([]SecretRule, len(secretRules))
	for i, r := range secretRules {
		list[i] = SecretRule{r.id, r.kind}
	}
	return list
}

// FindSecrets looks for credentials in text, in order of place: at most 20 of
// each confidence. No two overlap. Documented examples and placeholders are
// passed over. The time it takes grows with the length of the text, whatever
// is in it. Callers mask text[Start:End] before they show it.
func FindSecrets(text string) []Secret {
	s := secretScan{secretFinder: secretsFinder, to: len(text)}
	scanPart(&s, text)
	return s.settled()
}

// secretFinder is the rules with their keywords in one automaton.
type secretFinder struct {
	rules    []secretRule
	keywords *keywordSet
	users    [][]int // by keyword, the rules that have it
}

var secretsFinder = newSecretFinder(secretRules)

func newSecretFinder(rules []secretRule) *secretFinder {
	lists := make([][]string, len(rules))
	for i, r := range rules {
		lists[i] = r.keywords
	}
	words, users := wordNumbers(lists)
	return &secretFinder{rules: rules, keywords: newKeywordSet(words), users: users}
}

// secretScan is a search under way, in one text or in the parts of a stream.
type secretScan struct {
	*secretFinder
	offset   int64   // of the part in the stream
	from, to int     // keywords that start there count, the others are another part's
	done     []int64 // by rule, where its last match ended
	found    []foundSecret
	count    [certain + 1]int // by confidence
}

type foundSecret struct {
	Secret
	rule int
}

// scanPart looks at a text, or at the next part of a stream.
func scanPart[T string | []byte](s *secretScan, text T) {
	eachKeyword(s.keywords, text, func(start, word int) {
		if start < s.from || start >= s.to {
			return
		}
		for _, rule := range s.users[word] {
			try(s, text, rule, start, s.keywords.words[word])
		}
	})
}

// try holds one rule against the place where one of its keywords stands.
func try[T string | []byte](s *secretScan, text T, number, start int, keyword string) {
	rule := &s.rules[number]
	switch {
	case s.done != nil && s.offset+int64(start) < s.done[number]:
		return // inside its last match
	case rule.apart && start > 0 && isWordByte(text[start-1]):
		return
	case !rule.anyCase && string(text[start:start+len(keyword)]) != keyword:
		return
	}
	for range rule.behind.most {
		if start == 0 || !rule.behind.of(text[start-1]) {
			break
		}
		start--
	}
	near := string(text[start:min(len(text), start+cmp.Or(rule.reach, secretReach))])
	at := rule.pattern.FindStringSubmatchIndex(near)
	if at == nil {
		return
	}
	from, to := group(at)
	secret := near[from:to]
	if isPlaceholder(secret) {
		return
	}
	s.add(number, rule.proof(secret), start, wholeEnd(text, start+to, rule.file))
}

// wholeEnd is where a credential ends of which a pattern has seen enough at end.
func wholeEnd[T string | []byte](text T, end int, file bool) int {
	more := isTokenByte
	if file {
		more = isKeyByte
	}
	for end < len(text) && more(text[end]) {
		end++
	}
	for file && isSpace(text[end-1]) {
		end--
	}
	return end
}

// group is where the first group that matched lies, or all of the match.
func group(at []int) (from, to int) {
	for i := 2; i < len(at); i += 2 {
		if at[i] >= 0 {
			return at[i], at[i+1]
		}
	}
	return at[0], at[1]
}

func (s *secretScan) add(rule int, c confidence, start, end int) {
	if c == noSecret {
		return
	}
	if s.done == nil {
		s.done = make([]int64, len(s.rules))
	}
	s.done[rule] = s.offset + int64(end)
	// What is found twice as often as it is reported may still be overlapped.
	if s.count[c] == 2*maxSecrets {
		return
	}
	s.count[c]++
	r := &s.rules[rule]
	s.found = append(s.found, foundSecret{rule: rule, Secret: Secret{
		Rule: r.id, Kind: r.kind, Start: s.offset + int64(start), End: s.offset + int64(end), Sure: c == certain,
	}})
}

// settled is what was found, where two overlap only the better one.
func (s *secretScan) settled() []Secret {
	if len(s.found) == 0 {
		return nil
	}
	slices.SortStableFunc(s.found, func(a, b foundSecret) int {
		if a.Sure != b.Sure {
			return cmp.Compare(order(b.Sure), order(a.Sure))
		}
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.Start, b.Start))
	})
	var kept []Secret
	for _, f := range s.found {
		overlaps := slices.ContainsFunc(kept, func(k Secret) bool { return f.Start < k.End && k.Start < f.End })
		if !overlaps {
			kept = append(kept, f.Secret)
		}
	}
	slices.SortFunc(kept, func(a, b Secret) int { return cmp.Compare(a.Start, b.Start) })
	var count [2]int
	return slices.DeleteFunc(kept, func(k Secret) bool {
		count[order(k.Sure)]++
		return count[order(k.Sure)] > maxSecrets
	})
}

func order(sure bool) int {
	if sure {
		return 1
	}
	return 0
}

// secretMask stands where a credential stood.
const secretMask = "***"

// maskSecrets is text with what looks like a credential masked, for messages
// that quote what a client sent.
func maskSecrets(text string) string {
	found := FindSecrets(text)
	if len(found) == 0 {
		return text
	}
	var out strings.Builder
	from := int64(0)
	for _, secret := range found {
		out.WriteString(text[from:secret.Start])
		out.WriteString(secretMask)
		from = secret.End
	}
	out.WriteString(text[from:])
	return out.String()
}

// recordSecrets looks at every text of a record, wherever it stands: a record
// is signed, replicated and kept, so a credential in it is lost. What is surely
// one is refused, what may be one is flagged.
func recordSecrets(s *subject) {
	if s.settings.Secrets == PolicyOff {
		return
	}
	walkValue(s.Record.Value, func(at *trail, v any) bool {
		if text, ok := v.(string); ok {
			if found := FindSecrets(text); len(found) > 0 {
				s.secrets(at.String(), found)
			}
		}
		return true
	})
}

// inURL reports that the URL at path was found to carry a credential: that its
// password is one need not be said again.
func (s *subject) inURL(path string) bool {
	return slices.ContainsFunc(s.found, func(f Finding) bool { return f.Code == CodeCredentialInURL && f.Path == path })
}

// contentSecrets looks at the bytes that an observation keeps, or their start.
func (s *subject) contentSecrets(mime string, content []byte) {
	if s.settings.Secrets == PolicyOff || HoldsNoText(mime) {
		return
	}
	found, _ := ScanSecrets(bytes.NewReader(content)) // which has no error of its own
	s.secrets("/content", found)
}

// LooksForSecrets reports whether the operator wants secrets to be looked for.
func (r *Rules) LooksForSecrets() bool { return r.settings.Secrets != PolicyOff }

// secrets reports the credentials in one text: one finding for each
// confidence. The messages say what and where, never the thing itself.
func (s *subject) secrets(path string, found []Secret) {
	var sure, perhaps []Secret
	for _, secret := range found {
		switch {
		case secret.Sure:
			sure = append(sure, secret)
		case secret.Rule != ruleURLPassword || !s.inURL(path):
			perhaps = append(perhaps, secret)
		}
	}
	switch {
	case len(sure) == 0:
	case s.settings.Secrets == PolicyReject:
		s.refuse(CodeSecretDetected, RefusalSecretDetected, path, "take it out, and revoke it where it was issued",
			"it holds a credential: %s", places(sure))
	default:
		s.flag(Violation, CodeSecretDetected, path, "it holds a credential: %s", places(sure))
	}
	if len(perhaps) > 0 {
		s.flag(Warning, CodeSecretSuspected, path, "it may hold a credential: %s", places(perhaps))
	}
}

// places names secrets and where they start, the first few of them.
func places(found []Secret) string {
	const named = 5
	var parts []string
	for _, secret := range found[:min(len(found), named)] {
		parts = append(parts, fmt.Sprintf("%s at byte %d", secret.Kind, secret.Start))
	}
	if more := len(found) - named; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}
