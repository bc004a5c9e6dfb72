package appview

import (
	"time"

	"herbarium.garden/lexicons"
)

// What the table tests of pure functions reach for.
var (
	DiffTexts       = diffTexts
	Shorten         = shorten
	Excerpt         = excerpt
	FirstLine       = firstLine
	MaskCredentials = lexicons.MaskCredentials
	QuoteMarkdown   = quoteMarkdown
	FencedMarkdown  = fencedMarkdown
	PlainMarkdown   = plainMarkdown
	CodeSpan        = codeSpan
	QuoteWord       = quoteWord
	ResumeCommand   = resumeCommand
	MaskedValue     = maskedValue
	Prose           = prose
	MaxDiffBytes    = maxDiffBytes
	MaxDiffLines    = maxDiffLines
)

// Derive is thresholds.derive with the default thresholds.
func Derive(status string, updated, now time.Time) (state string, inferred bool, because string) {
	d := thresholds{active: DefaultActiveWithin, idle: DefaultIdleWithin}.derive(status, updated, now)
	return d.State, d.Inferred, d.Because
}
