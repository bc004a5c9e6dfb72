package lexicons

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

const (
	// clockSkew is how far two honest clocks may differ before a finding says so.
	clockSkew = 5 * time.Minute
	// farOff is the difference between times from which on it is no skew any more:
	// a time that far ahead is refused.
	farOff = 24 * time.Hour
	// maxRuleFindings bounds what the rules report of one record.
	maxRuleFindings = 100
)

// Rules is the rules engine: what a record means beyond its schema, as pure
// functions over a change and a Snapshot. One engine serves the host (which
// refuses what carries a Refusal), the index (which flags everything) and the
// dry run. It is immutable and safe for concurrent use.
//
// A rule is one small function in the file of its record type; the tables that
// name them are at the head of those files. Rules come in two kinds: those on
// the record alone run early and anywhere, those on state run where the state
// that the write will see is known.
type Rules struct {
	catalog  *Catalog
	settings Settings
	record   map[syntax.NSID]func(*subject)
	state    map[syntax.NSID]func(context.Context, *subject, Snapshot) error
}

// NewRules makes the engine. A zero or unknown policy in s is its default; see
// Settings.Validate.
func NewRules(cat *Catalog, s Settings) *Rules {
	return &Rules{
		catalog:  cat,
		settings: s.withDefaults(),
		record: map[syntax.NSID]func(*subject){
			ObservationNSID: onRecord(ReadObservation, observationRules),
			SessionNSID:     onRecord(ReadSession, sessionRules),
			ChatSessionNSID: onRecord(ReadChatSession, chatSessionRules),
			MessageNSID:     onRecord(ReadMessage, messageRules),
			ClassNSID:       onRecord(ReadClass, classRules),
			SkillNSID:       onRecord(ReadSkill, skillRules),
			ClaimNSID:       onRecord(ReadClaim, claimRules),
		},
		state: map[syntax.NSID]func(context.Context, *subject, Snapshot) error{
			ObservationNSID: onState(ReadObservation, observationStateRules),
			SessionNSID:     onState(ReadSession, sessionStateRules),
			MessageNSID:     onState(ReadMessage, messageStateRules),
			ClassNSID:       onState(ReadClass, classStateRules),
			SkillNSID:       onState(ReadSkill, skillStateRules),
			ClaimNSID:       onState(ReadClaim, claimStateRules),
		},
	}
}

// recordRule looks at a record of type T alone.
type recordRule[T any] func(*subject, T)

// stateRule looks at a record of type T and at the world; its error is the world's.
type stateRule[T any] func(context.Context, *subject, T, Snapshot) error

// onRecord joins the rules of one record type behind its reader.
func onRecord[T any](read func(map[string]any) T, rules []recordRule[T]) func(*subject) {
	return func(s *subject) {
		value := read(s.Record.Value)
		for _, rule := range rules {
			rule(s, value)
		}
	}
}

// onState is onRecord for rules that look at the world.
func onState[T any](read func(map[string]any) T, rules []stateRule[T]) func(context.Context, *subject, Snapshot) error {
	return func(ctx context.Context, s *subject, snap Snapshot) error {
		value := read(s.Record.Value)
		for _, rule := range rules {
			if err := rule(ctx, s, value, snap); err != nil {
				return err
			}
		}
		return nil
	}
}

// CheckRecord runs the rules that need the record alone: the host can refuse
// by them before it takes its place in the queue. It looks at neither ch.Prev
// nor any state, and a delete has no findings. The record is taken as valid
// (Catalog.Validate); rules pass over what is not of the form they expect.
func (r *Rules) CheckRecord(ch Change) []Finding {
	if ch.Action == Delete || ch.Record == nil {
		return nil
	}
	s := &subject{Change: ch, settings: r.settings, catalog: r.catalog}
	unknownValues(s)
	for _, rule := range blobRules {
		rule(s)
	}
	if check := r.record[ch.Record.Collection]; check != nil {
		check(s)
		recordSecrets(s)
	}
	return s.found
}

// CheckState runs the rules that need the state which the write will see:
// ch.Prev and snap. It does not repeat CheckRecord. A write of the very bytes
// that stand there has no findings: it changes nothing.
//
// The error is snap's.
func (r *Rules) CheckState(ctx context.Context, ch Change, snap Snapshot) ([]Finding, error) {
	if ch.Action == Delete || ch.Record == nil || ch.sameAsPrev() {
		return nil, nil
	}
	s := &subject{Change: ch, settings: r.settings, catalog: r.catalog}
	if err := uploadedBlobs(ctx, s, snap); err != nil {
		return nil, fmt.Errorf("check %s: %w", ch.URI, err)
	}
	if check := r.state[ch.Record.Collection]; check != nil {
		if err := check(ctx, s, snap); err != nil {
			return nil, fmt.Errorf("check %s: %w", ch.URI, err)
		}
	}
	return s.found, nil
}

// Check is CheckRecord and CheckState together, for the dry run and wherever
// nothing ran before.
func (r *Rules) Check(ctx context.Context, ch Change, snap Snapshot) ([]Finding, error) {
	if ch.sameAsPrev() {
		return nil, nil
	}
	found := r.CheckRecord(ch)
	state, err := r.CheckState(ctx, ch, snap)
	return append(found, state...), err
}

// RefusedBy is the *Refused of findings when one of them refuses, else nil.
func RefusedBy(findings []Finding) error {
	for _, f := range findings {
		if f.Refusal != "" {
			return &Refused{Findings: findings}
		}
	}
	return nil
}

// sameAsPrev reports a write of the very record that stands there.
func (ch Change) sameAsPrev() bool {
	return ch.Prev != nil && ch.Record != nil && ch.Prev.CID.Equals(ch.Record.CID)
}

// subject is a change under the rules, and where they report.
type subject struct {
	Change
	settings Settings
	catalog  *Catalog
	found    []Finding
	refused  bool // one of found refuses
}

// refuse reports a finding that turns the write down; repair ends its message.
func (s *subject) refuse(code, refusal, path, repair, format string, args ...any) {
	s.report(Finding{
		Code:     code,
		Severity: Violation,
		Path:     path,
		Message:  fmt.Sprintf(format, args...),
		Repair:   repair,
		Refusal:  refusal,
	})
}

// flag reports a finding that is kept beside the record.
func (s *subject) flag(severity Severity, code, path, format string, args ...any) {
	s.report(Finding{
		Code:     code,
		Severity: severity,
		Path:     path,
		Message:  fmt.Sprintf(format, args...),
	})
}

// report keeps a finding, up to a bound that hostile records would pass: their
// arrays have no limit of their own. The first refusal is never lost.
func (s *subject) report(f Finding) {
	if len(s.found) >= maxRuleFindings && (f.Refusal == "" || s.refused) {
		return
	}
	s.refused = s.refused || f.Refusal != ""
	s.found = append(s.found, f)
}

// notFuture looks at a self-reported time: a day ahead is refused, more than
// clock skew is flagged. A zero time was absent or none and passes.
func (s *subject) notFuture(path string, t time.Time) {
	switch ahead := t.Sub(s.Now); {
	case t.IsZero() || ahead <= clockSkew:
	case ahead > farOff:
		s.refuse(CodeFuture, RefusalInvalidRequest, path, "now "+s.Now.UTC().Format(time.RFC3339),
			"the time is more than 24 hours ahead of this host's clock")
	default:
		s.flag(Warning, CodeFuture, path, "the time is %s ahead of this host's clock", ahead.Round(time.Second))
	}
}

// strongRef checks one strongRef of an enforced record: DID, collection and
// record key in the URI, a CID. Absent is fine.
func (s *subject) strongRef(path string, v any) {
	if v == nil {
		return
	}
	if _, err := ReadStrongRef(v); err != nil {
		s.refuse(CodeRefMalformed, RefusalInvalidRequest, path, "want uri at://<did>/<collection>/<rkey> and the record's cid", "%v", err)
	}
}

// transcript notes a transcript that is not in the repo where it is said to be.
func (s *subject) transcript(ctx context.Context, g Generator, snap Snapshot) error {
	if g.Transcript == nil || g.Transcript.URI.Authority().String() != s.DID.String() {
		return nil
	}
	stored, err := snap.Record(ctx, g.Transcript.URI)
	if err == nil && stored == nil {
		s.flag(Info, CodeRefMissing, "/generator/transcript", "there is no record at %s", g.Transcript.URI)
	}
	return err
}

// unknownValues notes what is outside the knownValues of the lexicon, anywhere
// in the record: such a set is open, and a view shows the value as it is.
func unknownValues(s *subject) {
	schema, known := s.catalog.record(s.Record.Collection)
	if !known {
		return
	}
	v := validator{cat: s.catalog, unknown: s.unknownValue}
	v.check(string(s.Record.Collection), schema, s.Record.Value)
}

func (s *subject) unknownValue(path, value string, known []string) {
	s.flag(Info, CodeUnknownValue, path, "%q is not among the known values %s", clip(value), strings.Join(known, ", "))
}

// generator checks what a device says of itself.
func (s *subject) generator(g Generator, createdAt time.Time) {
	f := fields(s.Record.Value).object("generator")
	s.strongRef("/generator/transcript", f["transcript"])
	if g.Run == "" {
		return
	}
	minted := g.Run.Time()
	switch {
	case minted.Year() < 2023:
		s.flag(Warning, CodeRunImplausible, "/generator/run", "the run was minted in %d, before there were any", minted.Year())
	case !createdAt.IsZero() && minted.After(createdAt.Add(clockSkew)):
		s.flag(Warning, CodeRunImplausible, "/generator/run", "the run was minted after the record was created")
	}
}
