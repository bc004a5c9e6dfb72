package index

import (
	"slices"
	"strings"

	"herbarium.garden/lexicons"
)

// The ways in which a message's record is rewritten.
const (
	RewriteWithheld    = "withheld"
	RewriteRevealed    = "revealed"
	RewriteRedacted    = "redacted"
	RewriteUnredacted  = "unredacted"
	RewriteRefsChanged = "refs-changed"
	RewriteTextChanged = "text-changed"
)

// bar stands in a text for words that were taken away.
const bar = "███"

// rewrites says how a message differs from its version before; never with
// any of the words.
func rewrites(old, now lexicons.Message) []string {
	var how []string
	switch {
	case !old.Withheld && now.Withheld:
		return []string{RewriteWithheld}
	case old.Withheld && !now.Withheld:
		return []string{RewriteRevealed}
	}
	switch {
	case old.Text == now.Text:
	case redacts(old.Text, now.Text):
		how = append(how, RewriteRedacted)
	case redacts(now.Text, old.Text):
		how = append(how, RewriteUnredacted)
	default:
		how = append(how, RewriteTextChanged)
	}
	if !slices.Equal(old.Refs, now.Refs) || !slices.Equal(old.Mentions, now.Mentions) {
		how = append(how, RewriteRefsChanged)
	}
	return how
}

// redacts tells that now is old with spans covered by bars: the pieces between
// the bars occur in old in their order, the first and last at its ends, and
// each bar covers at least one byte.
func redacts(old, now string) bool {
	pieces := strings.Split(now, bar)
	if len(pieces) == 1 {
		return false
	}
	rest, ok := strings.CutPrefix(old, pieces[0])
	if !ok {
		return false
	}
	last := pieces[len(pieces)-1]
	for _, piece := range pieces[1 : len(pieces)-1] {
		if rest == "" {
			return false
		}
		i := strings.Index(rest[1:], piece)
		if i < 0 {
			return false
		}
		rest = rest[1+i+len(piece):]
	}
	return len(rest) > len(last) && strings.HasSuffix(rest, last)
}

// rewriteSeverity: taking away is the author's right, saying something else in
// an old turn is not.
func rewriteSeverity(how []string) lexicons.Severity {
	for _, h := range how {
		switch h {
		case RewriteTextChanged, RewriteUnredacted, RewriteRevealed:
			return lexicons.Warning
		}
	}
	return lexicons.Info
}
