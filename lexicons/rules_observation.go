package lexicons

import (
	"context"
	"time"
)

// observationRules need the observation alone (SEMANTICS 3.2).
var observationRules = []recordRule[Observation]{
	observationEmpty,
	observationTimes,
	observationSource,
	observationGenerator,
	supersedesForm,
}

// observationStateRules need the repo. Immutability comes first: what cannot
// be written at all need not be told the rest.
var observationStateRules = []stateRule[Observation]{
	observationImmutable,
	observationTombstoned,
	supersedesTarget,
	observationTranscript,
}

// observationEmpty: an observation says where from and how; text may be empty
// when the bytes are there.
func observationEmpty(s *subject, o Observation) {
	if o.Method == "" {
		s.refuse(CodeEmptyMethod, RefusalInvalidRequest, "/method", "name the tool or way of observing", "the method is empty")
	}
	if o.Source.Value == "" {
		s.refuse(CodeEmptySourceValue, RefusalInvalidRequest, "/source/value", "name the URL, path, command or person", "the source has no value")
	}
	if o.Text == "" && o.Content == nil {
		s.flag(Warning, CodeEmptyText, "/text", "the text is empty and there is no content")
	}
}

// observationTimes compares instants: observed, then created, at about the
// time of the record key, not in the future.
func observationTimes(s *subject, o Observation) {
	s.notFuture("/observedAt", o.ObservedAt)
	s.notFuture("/createdAt", o.CreatedAt)
	if o.ObservedAt.IsZero() || o.CreatedAt.IsZero() {
		return
	}
	if o.ObservedAt.After(o.CreatedAt.Add(clockSkew)) {
		s.flag(Warning, CodeTimeOrder, "/observedAt", "observed %s after the record was created", o.ObservedAt.Sub(o.CreatedAt))
	}
	s.nearRecordKey(o)
}

func (s *subject) nearRecordKey(o Observation) {
	tid, ok := tidOf(s.RecordKey)
	if !ok {
		return
	}
	if apart := tid.Time().Sub(o.CreatedAt).Abs(); apart > farOff {
		s.flag(Warning, CodeTIDSkew, "/createdAt", "the record key's time is %s, more than %s away", tid.Time().UTC().Format(time.RFC3339), farOff)
	}
}

// observationSource: a URL is one, and carries no password into a signed
// record that cannot be changed.
func observationSource(s *subject, o Observation) {
	if o.Source.Kind != "url" && o.Source.Kind != "api" {
		return
	}
	if urlHasCredential(o.Source.Value) {
		s.refuse(CodeCredentialInURL, RefusalCredentialInURL, "/source/value", "write the URL without user:password@", "the URL carries a credential")
		return
	}
	if o.Source.Kind == "url" && !isAbsoluteHTTP(o.Source.Value) {
		s.flag(Warning, CodeSourceMalformed, "/source/value", "the source is of kind url, its value is no absolute http or https URL")
	}
}

func observationGenerator(s *subject, o Observation) { s.generator(o.Generator, o.CreatedAt) }

// observationImmutable: an observation is never edited, by any of the ways
// that lead to another CID at its URI. The repair names what to supersede.
func observationImmutable(ctx context.Context, s *subject, _ Observation, snap Snapshot) error {
	if s.Prev == nil {
		return nil
	}
	head, err := snap.LiveSuccessor(ctx, s.URI)
	if err != nil {
		return err
	}
	if head == nil {
		head = &StrongRef{URI: s.URI, CID: s.Prev.CID}
	}
	s.refuse(CodeEdited, RefusalImmutableRecord, "", headRepair(*head),
		"an observation is never edited; create a new one whose supersedes is the chain head")
	return nil
}

// observationTombstoned: a record key that was used once names that record for ever.
func observationTombstoned(ctx context.Context, s *subject, _ Observation, snap Snapshot) error {
	return s.tombstoned(ctx, snap)
}

// observationTranscript: a runtime need not publish its transcripts.
func observationTranscript(ctx context.Context, s *subject, o Observation, snap Snapshot) error {
	return s.transcript(ctx, o.Generator, snap)
}

func (s *subject) tombstoned(ctx context.Context, snap Snapshot) error {
	if s.Prev != nil {
		return nil
	}
	tomb, err := snap.Tombstone(ctx, s.URI)
	if err != nil || tomb == nil {
		return err
	}
	s.refuse(CodeRkeyReused, RefusalRecordTombstoned, "", "leave out rkey to have a new one made",
		"a record stood at %s and was deleted; its record key is not used again", s.URI)
	return nil
}
