package lexicons

import (
	"bytes"
	"strings"
)

// ContentHead is how much of a blob the rules on content look at while a write
// waits, in bytes; the rest is a job's.
const ContentHead = 1 << 20

// CheckContent runs the rules that need the bytes which an observation keeps:
// whether its text is their start, and secrets in them. content is the blob,
// or its first ContentHead bytes. Like CheckRecord it needs no state and
// belongs before the queue. Nothing is said of content that is not text; of
// UTF-16, and of text that calls itself something else, only the secrets are.
func (r *Rules) CheckContent(ch Change, content []byte) []Finding {
	if ch.Action == Delete || ch.Record == nil || ch.Record.Collection != ObservationNSID {
		return nil
	}
	o := ReadObservation(ch.Record.Value)
	if o.Content == nil {
		return nil
	}
	s := &subject{Change: ch, settings: r.settings, catalog: r.catalog}
	s.contentSecrets(o.Content.MimeType, content)
	if TextLike(o.Content.MimeType) {
		textIsStart(s, o, content)
	}
	return s.found
}

// ReadsContent reports whether CheckContent would look at bytes of a MIME type,
// so that others need not be fetched.
func (r *Rules) ReadsContent(mime string) bool {
	return TextLike(mime) || r.LooksForSecrets() && !HoldsNoText(mime)
}

// TextLike reports whether a MIME type says that the bytes are text in UTF-8.
func TextLike(mime string) bool {
	essence, params, _ := strings.Cut(strings.ToLower(mime), ";")
	if _, charset, has := strings.Cut(params, "charset="); has {
		switch strings.Trim(strings.TrimSpace(charset), `"`) {
		case "utf-8", "utf8", "us-ascii":
		default:
			return false
		}
	}
	essence = strings.TrimSpace(essence)
	return strings.HasPrefix(essence, "text/") || essence == "application/json" || strings.HasSuffix(essence, "+json")
}

// textIsStart: the text of an observation is its content, or the start of it.
// A page whose text was taken out of HTML is legitimate, hence a flag.
func textIsStart(s *subject, o Observation, content []byte) {
	if o.Text == "" {
		return
	}
	// What both have in common is compared: content may be cut at ContentHead.
	start := unixLines(bytes.TrimPrefix(content, []byte("\ufeff")))
	text := unixLines([]byte(o.Text))
	whole := int64(len(content)) >= o.Content.Size
	if !whole && len(text) > len(start) {
		text = text[:len(start)]
	}
	switch {
	case !bytes.HasPrefix(start, text):
		s.flag(Warning, CodeTextNotPrefix, "/text", "the text is not the start of the content")
	case !whole || len(start) > len(text):
		s.flag(Info, CodeTruncated, "/text", "the text is the start of %d bytes", o.Content.Size)
	}
}

// unixLines leaves the kind of line end out of a comparison.
func unixLines(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) }
