package appview

import (
	"fmt"
	"strings"
	"time"
)

// sessionMarkdown writes a session as a document to go on from: the resume
// card first, then the summary, then how it came here.
func sessionMarkdown(s *sessionView) string {
	var out strings.Builder
	heading(&out, 1, or(plainMarkdown(s.Title), "Untitled session"))
	facts(&out, codeSpan(string(s.URI)))
	if gone(s.State) {
		out.WriteString(tombstoneMarkdown(s.State, s.DeletedAt))
		return out.String()
	}
	state := s.Derived.State
	if s.Derived.Inferred {
		state += " (inferred)"
	}
	facts(&out, fmt.Sprintf("**%s**: %s", state, plainMarkdown(s.Derived.Because)))
	facts(&out, "by "+actorMarkdown(s.Author), prefixed("updated ", humanTime(s.UpdatedAt)), count(s.VersionCount, "version", "versions"))
	writeResume(&out, s.Resume)
	if s.Contended {
		out.WriteString("**Contended**: more than one writer was seen; compare the versions before you go on.\n\n")
	}
	heading(&out, 2, "Summary")
	out.WriteString(quoteMarkdown(s.Summary) + "\n")
	if len(s.HandOvers) > 0 {
		heading(&out, 2, "Hand-overs")
		for _, h := range s.HandOvers {
			fmt.Fprintf(&out, "- %s: %s\n", humanTime(h.At), plainMarkdown(h.Because))
		}
		out.WriteByte('\n')
	}
	if len(s.Related) > 0 {
		heading(&out, 2, "Observations")
		for _, r := range s.Related {
			fmt.Fprintf(&out, "- %s — %s: %s\n", linkMarkdown(r.Source.Value, r.URI), r.Basis, plainMarkdown(r.Because))
		}
		out.WriteByte('\n')
	}
	if s.WorkItem != nil {
		heading(&out, 2, "Same work item")
		for _, other := range s.WorkItem.Sessions {
			fmt.Fprintf(&out, "- %s by %s, %s\n", linkMarkdown(other.Title, other.URI), actorMarkdown(other.Author), other.Derived.State)
		}
		out.WriteByte('\n')
	}
	writeFindings(&out, s.Findings)
	return out.String()
}

func writeResume(out *strings.Builder, r *resumeCard) {
	for _, f := range []struct{ name, value string }{
		{"repository", r.Repo}, {"branch", r.Branch}, {"directory", r.Cwd}, {"machine", r.Machine}, {"harness", r.Harness}, {"model", r.Model},
	} {
		if f.value != "" {
			fmt.Fprintf(out, "- %s %s\n", f.name, codeSpan(f.value))
		}
	}
	out.WriteByte('\n')
	if r.Command != "" {
		out.WriteString("To go on (a hint, made of what the session says):\n\n" + fencedMarkdown(r.Command, "sh") + "\n")
	}
	if r.Note != "" {
		fmt.Fprintf(out, "*%s.*\n\n", r.Note)
	}
}

// seconds writes a number of seconds the way people say it.
func seconds(n int64) string { return about(time.Duration(n) * time.Second) }
