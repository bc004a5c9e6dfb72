package lexicons

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// claimRules need the claim alone (SEMANTICS 3.1). Whether a citation holds is
// the index's to verify: it takes the target's bytes.
var claimRules = []recordRule[Claim]{
	claimTimes,
	claimSpans,
	claimOverlap,
	claimCitations,
}

// claimStateRules need the repo.
var claimStateRules = []stateRule[Claim]{
	claimTranscript,
}

func claimTranscript(ctx context.Context, s *subject, c Claim, snap Snapshot) error {
	return s.transcript(ctx, c.Generator, snap)
}

func claimTimes(s *subject, c Claim) {
	s.notFuture("/createdAt", c.CreatedAt)
	s.generator(c.Generator, c.CreatedAt)
	if c.Text == "" {
		s.flag(Warning, CodeEmptyText, "/text", "the claim says nothing")
	}
}

// claimSpans: a span is a part of the claim's own text, in whole characters.
func claimSpans(s *subject, c Claim) {
	for _, citation := range c.Citations {
		s.span(pointer(citation.Path, "span"), citation.Span, c.Text)
	}
	for _, basis := range c.Basis {
		s.span(pointer(basis.Path, "span"), basis.Span, c.Text)
	}
}

func (s *subject) span(path string, span Span, text string) {
	switch {
	case span.Start > span.End:
		s.refuse(CodeSpanInverted, RefusalInvalidRequest, path, "want byteStart at most byteEnd", "the span starts at %d and ends at %d", span.Start, span.End)
	case span.End > int64(len(text)):
		s.refuse(CodeSpanOutOfRange, RefusalInvalidRequest, pointer(path, "byteEnd"), "at most "+decimal(int64(len(text))),
			"the span ends at byte %d, the text has %d bytes of UTF-8", span.End, len(text))
	case splitsChar(text, span.Start):
		s.refuse(CodeSpanSplitsChar, RefusalInvalidRequest, pointer(path, "byteStart"), "count bytes of UTF-8, not characters", "the span starts inside a character")
	case splitsChar(text, span.End):
		s.refuse(CodeSpanSplitsChar, RefusalInvalidRequest, pointer(path, "byteEnd"), "count bytes of UTF-8, not characters", "the span ends inside a character")
	case span.Start == span.End:
		s.flag(Warning, CodeSpanEmpty, path, "the span is empty")
	}
}

// splitsChar reports whether byte offset at lies inside a character of text;
// it expects 0 <= at <= len(text).
func splitsChar(text string, at int64) bool {
	return at > 0 && at < int64(len(text)) && !utf8.RuneStart(text[at])
}

// claimOverlap: a part of the text rests on something else or is the author's
// own, not both. Spans are swept in order of their start, so that many of them
// cost no more than sorting; one finding tells of the first overlap of a basis.
func claimOverlap(s *subject, c Claim) {
	type part struct {
		Span
		path  string
		cited bool
	}
	var parts []part
	for _, citation := range c.Citations {
		parts = append(parts, part{citation.Span, citation.Path, true})
	}
	for _, basis := range c.Basis {
		parts = append(parts, part{basis.Span, basis.Path, false})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.Start, b.Start) })
	var reach [2]part // the part that reaches furthest so far: own, cited
	index := map[bool]int{false: 0, true: 1}
	for _, p := range parts {
		if p.Start >= p.End {
			continue
		}
		if other := reach[index[!p.cited]]; other.End > p.Start {
			s.flag(Warning, CodeSpanOverlap, p.path, "a part of the text is both cited and the author's own, see %s", other.path)
		}
		if mine := &reach[index[p.cited]]; p.End > mine.End {
			*mine = p
		}
	}
}

func claimCitations(s *subject, _ Claim) {
	for i, v := range fields(s.Record.Value).list("citations") {
		if m, ok := v.(map[string]any); ok {
			s.citation(readCitation(m, pointerAt("/citations", i)), m)
		}
	}
}

func (s *subject) citation(c Citation, raw fields) {
	s.strongRef(pointer(c.Path, "target"), raw["target"])
	if c.Target != nil && c.Target.URI.Collection() != ObservationNSID {
		s.flag(Warning, CodeCitesNonObservation, pointer(c.Path, "target"), "a claim rests on observations, not on a record of %s", c.Target.URI.Collection())
	}
	s.selector(pointer(c.Path, "selector"), c.Selector)
	s.via(pointer(c.Path, "via"), c, raw.list("via"))
}

// selector checks the three selectors of the schema; the union is open.
func (s *subject) selector(path string, selector fields) {
	const defs = "garden.engram.agents.defs"
	switch t := selector.str("$type"); t {
	case defs + "#jsonPointer":
		if p := selector.str("pointer"); !isJSONPointer(p) {
			s.refuse(CodePointerSyntax, RefusalInvalidRequest, pointer(path, "pointer"), `want "" or /member/0, with ~0 for ~ and ~1 for /`,
				"%q is no JSON pointer (RFC 6901)", clip(p))
		}
	case defs + "#byteRange":
		if span := readSpan(selector); span.Start > span.End {
			s.refuse(CodeSpanInverted, RefusalInvalidRequest, path, "want byteStart at most byteEnd", "the range starts at %d and ends at %d", span.Start, span.End)
		}
	case "", defs + "#textQuote":
	default:
		s.flag(Info, CodeUnknownValue, pointer(path, "$type"), "the selector %q cannot be verified here", clip(t))
	}
}

// isJSONPointer checks the syntax of RFC 6901: empty, or segments that each
// begin with / and have ~ only as ~0 and ~1.
func isJSONPointer(p string) bool {
	if p != "" && p[0] != '/' {
		return false
	}
	rest := strings.NewReplacer("~0", "", "~1", "").Replace(p)
	return !strings.Contains(rest, "~")
}

// via names the messages that a fact was relayed through, nearest first.
func (s *subject) via(path string, c Citation, raw []any) {
	seen := map[syntax.ATURI]bool{}
	for i, v := range raw {
		at := pointerAt(path, i)
		s.strongRef(at, v)
		ref, err := ReadStrongRef(v)
		if err != nil {
			continue
		}
		if seen[ref.URI] {
			s.flag(Warning, CodeViaDuplicate, at, "the message is named twice")
		}
		seen[ref.URI] = true
		if ref.URI == s.URI || c.Target != nil && ref.URI == c.Target.URI {
			s.flag(Warning, CodeViaLoop, at, "a fact is not relayed through its own source or through this record")
		}
		if ref.URI.Collection() != MessageNSID {
			s.flag(Info, CodeViaNotMessage, at, "relayed through a record of %s, which is no message", ref.URI.Collection())
		}
	}
}
