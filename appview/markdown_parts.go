package appview

import (
	"fmt"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
)

// The parts that the documents share.

func heading(out *strings.Builder, level int, title string) {
	fmt.Fprintf(out, "%s %s\n\n", strings.Repeat("#", level), title)
}

// facts writes a line of what is to be said, leaving out what is not known.
func facts(out *strings.Builder, parts ...string) {
	var known []string
	for _, p := range parts {
		if p != "" {
			known = append(known, p)
		}
	}
	if len(known) > 0 {
		out.WriteString(strings.Join(known, " · ") + "\n\n")
	}
}

// writeFindings lists what checks found; the messages are ours but may quote a
// record, so they are escaped.
func writeFindings(out *strings.Builder, found []findingView) {
	if len(found) == 0 {
		return
	}
	out.WriteString("Findings:\n\n")
	for _, f := range found {
		fmt.Fprintf(out, "- %s %s", f.Severity, codeSpan(f.Code))
		if f.Path != "" {
			fmt.Fprintf(out, " at %s", codeSpan(f.Path))
		}
		fmt.Fprintf(out, ": %s\n", plainMarkdown(f.Message))
	}
	out.WriteByte('\n')
}

// gone tells that nothing is left of a record but that it was there.
func gone(state index.RefState) bool { return state == index.RefDeleted || state == index.RefPurged }

// tombstoneMarkdown says who removed a record, and when that was witnessed.
func tombstoneMarkdown(state index.RefState, at syntax.Datetime) string {
	who := "Deleted by its author"
	if state == index.RefPurged {
		who = "Removed for good by an operator"
	}
	return fmt.Sprintf("*%s, witnessed %s. Nothing of its content is kept.*\n", who, humanTime(at))
}

// actorMarkdown is the handle to read and the DID to be sure.
func actorMarkdown(a actorView) string {
	if a.Handle == "" {
		return codeSpan(string(a.DID))
	}
	return plainMarkdown(a.name()) + " (" + codeSpan(string(a.DID)) + ")"
}

// linkMarkdown links a record, without a label by its type and key. The syntax
// of an AT URI has no character that could end the destination; one that does
// not parse is shown, not linked.
func linkMarkdown(label string, uri syntax.ATURI) string {
	parsed, err := syntax.ParseATURI(string(uri))
	if err != nil {
		return codeSpan(string(uri))
	}
	if label = plainMarkdown(label); label == "" {
		label = codeSpan(shortName(parsed))
	}
	return fmt.Sprintf("[%s](<%s>)", label, parsed)
}

// shortName is how people call a record: the last part of its type, and its key.
func shortName(uri syntax.ATURI) string {
	if uri.RecordKey() == "" {
		return string(uri)
	}
	collection := string(uri.Collection())
	return collection[strings.LastIndexByte(collection, '.')+1:] + "/" + string(uri.RecordKey())
}

// humanTime is an instant to read, in UTC; "" for none.
func humanTime(d syntax.Datetime) string {
	if d == "" {
		return ""
	}
	t, err := time.Parse(time.RFC3339Nano, string(d))
	if err != nil {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
