package appview

import (
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
)

// conversationMarkdown writes a page of a conversation as a transcript. What
// was said is quoted; every line that is not is the transcript's own.
func conversationMarkdown(c *conversationView, more bool) string {
	var out strings.Builder
	writeConversationHead(&out, c, c.Models)
	for _, t := range c.Turns {
		writeTurn(&out, t)
	}
	writeConversationFoot(&out, c)
	if more {
		out.WriteString("---\n\n*The conversation goes on: ask for the next page with the cursor.*\n")
	}
	return out.String()
}

// retractedWords say what became of a conversation that is gone.
func retractedWords(c *conversationView) string {
	how := "Retracted: its owner deleted this conversation"
	if c.State == index.RefPurged {
		how = "An operator removed this conversation for good"
	}
	return fmt.Sprintf("%s, witnessed %s. Nothing of it is kept.", how, humanTime(c.DeletedAt))
}

// untitledWords say how a conversation without a title came by its label.
const untitledWords = "untitled, called by its first words"

func writeConversationHead(out *strings.Builder, c *conversationView, models []modelUse) {
	heading(out, 1, or(plainMarkdown(c.Label), "Untitled conversation"))
	if gone(c.State) {
		fmt.Fprintf(out, "%s\n\n*%s*\n", codeSpan(string(c.URI)), retractedWords(c))
		return
	}
	facts(out,
		"by "+actorMarkdown(c.Author),
		prefixed("started ", humanTime(c.CreatedAt)),
		countWords(c.Counts),
		modelWords(models),
	)
	untitled := ""
	if c.LabelInferred && c.Label != "" {
		untitled = untitledWords
	}
	facts(out, codeSpan(string(c.URI)), untitled)
	if c.Description != "" {
		out.WriteString(quoteMarkdown(c.Description) + "\n")
	}
	if c.Discussion != "" {
		fmt.Fprintf(out, "Discussed at %s\n\n", linkMarkdown("", c.Discussion))
	}
}

// writeConversationFoot writes what comes after the turns.
func writeConversationFoot(out *strings.Builder, c *conversationView) {
	if len(c.ForeignTurns) > 0 {
		heading(out, 2, "Not part of this conversation")
		out.WriteString("Messages in other repos that point here. Anybody can write one; their words are not shown.\n\n")
		for _, t := range c.ForeignTurns {
			fmt.Fprintf(out, "- %s by %s\n", codeSpan(string(t.URI)), actorMarkdown(t.Author))
		}
		out.WriteByte('\n')
	}
	writeFindings(out, c.Findings)
}

func writeTurn(out *strings.Builder, t turnView) {
	if t.Kind == turnWithheld {
		heading(out, 2, permalink(t)+" · withheld")
		out.WriteString("*The owner of this conversation withheld this turn.*\n\n")
		writeFindings(out, t.Findings)
		return
	}
	title := permalink(t) + " · " + or(plainMarkdown(t.Role), "unknown role")
	if t.Model != "" {
		title += " · " + codeSpan(t.Model)
	}
	if at := humanTime(t.CreatedAt); at != "" {
		title += " · " + at
	}
	heading(out, 2, title)
	for _, s := range t.Steps {
		out.WriteString("- " + stepMarkdown(s) + "\n")
	}
	if len(t.Steps) > 0 {
		out.WriteByte('\n')
	}
	switch {
	case t.Text != "":
		out.WriteString(quoteMarkdown(t.Text) + "\n")
	case len(t.Steps) == 0:
		out.WriteString("*Nothing was said.*\n\n")
	}
	if t.Bars > 0 {
		fmt.Fprintf(out, "*Words were taken away in %s (%s).*\n\n", count(int64(t.Bars), "place", "places"), bar)
	}
	if len(t.Rewritten) > 0 {
		fmt.Fprintf(out, "*Changed after it was first seen: %s.*\n\n", plainMarkdown(strings.Join(t.Rewritten, ", ")))
	}
	if len(t.Refs) > 0 {
		out.WriteString("About:\n\n")
		for _, r := range t.Refs {
			out.WriteString("- " + refMarkdown(r) + "\n")
		}
		out.WriteByte('\n')
	}
	if len(t.Mentions) > 0 {
		fmt.Fprintf(out, "Mentions %s\n\n", strings.Join(each(t.Mentions, actorMarkdown), ", "))
	}
	writeFindings(out, t.Findings)
}

// permalink is the number of a turn, linked to its record.
func permalink(t turnView) string { return fmt.Sprintf("[%d](<%s>)", t.Position, t.URI) }

func stepMarkdown(s stepView) string {
	line := codeSpan(s.Tool)
	if s.Failed {
		line = "**failed** " + line
	}
	if s.Summary != "" {
		line += " — " + plainMarkdown(s.Summary)
	}
	return line
}

// refMarkdown is a link to a record with what became of it.
func refMarkdown(r refView) string {
	line := linkMarkdown(r.Label, syntax.ATURI(r.URI)) + " — " + string(r.State)
	if r.State == index.RefChanged {
		line += fmt.Sprintf(": pinned %s, now %s", codeSpan(string(r.CID)), or(codeSpan(string(r.CurrentCID)), "another version"))
		if !r.Held {
			line += ", the pinned version is not held here"
		}
	}
	if r.Superseded {
		line += ", superseded since"
	}
	return line
}

func countWords(c conversationCounts) string {
	words := count(c.Turns, "turn", "turns")
	if c.Withheld > 0 {
		words += fmt.Sprintf(", %d withheld", c.Withheld)
	}
	return words
}

func modelWords(models []modelUse) string {
	if len(models) == 0 {
		return ""
	}
	return "models: " + strings.Join(each(models, func(m modelUse) string { return fmt.Sprintf("%s (%d)", codeSpan(m.Model), m.Turns) }), ", ")
}
