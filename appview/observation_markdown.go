package appview

import (
	"fmt"
	"strings"

	"herbarium.garden/appview/index"
)

// observationMarkdown writes an observation as a document.
func observationMarkdown(o *observationView) string {
	var out strings.Builder
	heading(&out, 1, "Observation")
	facts(&out, codeSpan(string(o.URI)))
	if gone(o.State) {
		out.WriteString(tombstoneMarkdown(o.State, o.DeletedAt) + "\n")
		writeChain(&out, o.Chain)
		writeOtherVersions(&out, o)
		return out.String()
	}
	facts(&out,
		"by "+actorMarkdown(o.Author),
		prefixed("observed ", humanTime(o.ObservedAt)),
		prefixed("with ", codeSpan(o.Method)),
	)
	if o.Source != nil {
		facts(&out, fmt.Sprintf("source: %s %s", plainMarkdown(o.Source.Kind), codeSpan(o.Source.Value)))
	}
	facts(&out, generatorMarkdown(o.Generator))
	writeChain(&out, o.Chain)
	if b := o.Content; b != nil {
		fmt.Fprintf(&out, "Exact bytes: %s, %s, %s", codeSpan(string(b.CID)), codeSpan(b.MimeType), count(b.Size, "byte", "bytes"))
		if b.URL != "" {
			fmt.Fprintf(&out, ", <%s>", b.URL)
		}
		if b.TakenDown {
			out.WriteString(", taken down: its host serves them to nobody")
		}
		out.WriteString("\n\n")
	}
	heading(&out, 2, "Text")
	out.WriteString(fencedMarkdown(o.Text, "text") + "\n")
	if len(o.CitedBy) > 0 {
		heading(&out, 2, "Cited by")
		if o.Disputes > 0 {
			fmt.Fprintf(&out, "**Disputed** by %s.\n\n", count(o.Disputes, "record", "records"))
		}
		for _, c := range o.CitedBy {
			fmt.Fprintf(&out, "- %s %s by %s: %s%s\n", codeSpan(c.Relation), linkMarkdown("", c.URI), actorMarkdown(c.Author), c.Verdict,
				prefixed("; on the head: ", string(c.Freshness)))
		}
		out.WriteByte('\n')
	}
	writeOtherVersions(&out, o)
	writeFindings(&out, o.Findings)
	return out.String()
}

func writeOtherVersions(out *strings.Builder, o *observationView) {
	if len(o.Others) == 0 {
		return
	}
	heading(out, 2, "Put in its place later, against the rules")
	for _, v := range o.Others {
		fmt.Fprintf(out, "- %s %s, seen %s in commit %s\n", codeSpan(v.How), codeSpan(string(v.CID)), humanTime(v.SeenAt), codeSpan(string(v.Commit)))
	}
	if o.OthersCap {
		out.WriteString("- and more\n")
	}
	out.WriteByte('\n')
}

func writeChain(out *strings.Builder, c chainPosition) {
	where := fmt.Sprintf("%d of %d in its chain", c.Position, c.Length)
	switch {
	case c.Head == nil:
		where += ", which has no live head"
	case c.IsHead:
		where += ", the head"
	default:
		where += fmt.Sprintf(", %s behind the head %s", count(c.StepsBehind, "step", "steps"), linkMarkdown("", c.Head.URI))
	}
	if c.Forked {
		where += fmt.Sprintf("; the chain forks into %d heads", len(c.Heads))
	}
	if !c.Complete {
		where += "; what the oldest known one supersedes is not here yet"
	}
	facts(out, where)
	for _, s := range c.SupersededBy {
		fmt.Fprintf(out, "**Superseded** by %s, first seen %s\n\n", linkMarkdown("", s.URI), humanTime(s.FirstSeenAt))
	}
	for _, p := range c.Proposals {
		fmt.Fprintf(out, "Proposed successor %s by %s\n\n", linkMarkdown("", p.URI), actorMarkdown(p.Author))
	}
}

// generatorMarkdown says whose word it is.
func generatorMarkdown(g *generatorView) string {
	if g == nil {
		return ""
	}
	var parts []string
	for _, p := range []struct{ word, value string }{{"run", string(g.Run)}, {"model", g.Model}, {"harness", g.Harness}, {"device", g.Device}} {
		if p.value != "" {
			parts = append(parts, p.word+" "+codeSpan(p.value))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "self-reported: " + strings.Join(parts, ", ")
}

// historyMarkdown writes a page of a chain as a document, newest first.
func historyMarkdown(h *getObservationHistoryOutput) string {
	var out strings.Builder
	heading(&out, 1, "History of an observation")
	facts(&out, codeSpan(string(h.URI)))
	if h.Forked {
		out.WriteString("The chain forks: more than one live head follows from it.\n\n")
	}
	for _, v := range h.Versions {
		writeVersion(&out, v)
	}
	if h.Cursor != "" {
		out.WriteString("---\n\n*Older ones follow: ask for the next page with the cursor.*\n")
	}
	return out.String()
}

func writeVersion(out *strings.Builder, v observationVersion) {
	title := fmt.Sprintf("%d · %s", v.Position, or(humanTime(v.ObservedAt), "time unknown"))
	if v.IsHead {
		title += " · head"
	}
	heading(out, 2, title)
	facts(out, codeSpan(string(v.URI)))
	if v.State != index.RefCurrent {
		fmt.Fprintf(out, "*No content is shown: %s.*\n\n", v.State)
		return
	}
	facts(out, "by "+actorMarkdown(v.Author), fmt.Sprintf("source: %s %s", plainMarkdown(v.Source.Kind), codeSpan(v.Source.Value)))
	switch d := v.Text; {
	case d == nil:
		facts(out, fmt.Sprintf("%s of text, nothing to compare with", count(int64(v.TextBytes), "byte", "bytes")))
	case v.Unchanged:
		out.WriteString("Looked at again, still the same.\n\n")
	default:
		writeComparison(out, v)
		if d.Unified != "" {
			out.WriteString(fencedMarkdown(d.Unified, "diff") + "\n")
		}
		if d.Truncated {
			out.WriteString("*The difference is too large to be shown whole.*\n\n")
		}
	}
	writeFindings(out, v.Findings)
}

func writeComparison(out *strings.Builder, v observationVersion) {
	gap := ""
	switch {
	case v.GapSeconds > 0:
		gap = fmt.Sprintf("%s after the one before", seconds(v.GapSeconds))
	case v.GapSeconds < 0:
		gap = fmt.Sprintf("%s before the one that it supersedes", seconds(-v.GapSeconds))
	}
	source, content := "", ""
	if v.SourceChanged {
		source = "another source"
	}
	if v.ContentChanged {
		content = fmt.Sprintf("other bytes (%+d)", v.SizeChange)
	}
	facts(out, gap, fmt.Sprintf("%s added, %d removed", count(int64(v.Text.Added), "line", "lines"), v.Text.Removed), content, source)
}
