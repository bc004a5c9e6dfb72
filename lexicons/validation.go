package lexicons

import (
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// Validate checks rec and its record key against the lexicon of its
// collection, as the write asks:
//
//   - ValidateRequired: a lexicon that is not known is refused
//   - ValidateKnown: it answers StatusUnknown for such a record
//   - ValidateSkip: nothing is checked and the status is empty, except that an
//     enforced collection refuses this mode before anything is looked at
//
// The error is a *Refused with all the faults that were found.
func (c *Catalog) Validate(rec *Record, rkey syntax.RecordKey, mode ValidationMode) (ValidationStatus, error) {
	if err := RequireValidation(rec.Collection, mode); err != nil {
		return StatusSkipped, err
	}
	if mode == ValidateSkip {
		return StatusSkipped, nil
	}
	if !c.Known(rec.Collection) {
		if mode == ValidateRequired {
			return StatusSkipped, &Refused{Findings: []Finding{{
				Code:     CodeUnknownLexicon,
				Severity: Violation,
				Message:  fmt.Sprintf("validation was asked for, but the lexicon %s is not known here", rec.Collection),
				Repair:   "leave out validate to write it unvalidated",
				Refusal:  RefusalInvalidRequest,
			}}}
		}
		return StatusUnknown, nil
	}
	if found := c.check(rec, rkey); len(found) > 0 {
		return StatusSkipped, &Refused{Findings: found}
	}
	return StatusValid, nil
}

// Verdict is what an index does with a record that it witnessed: nothing is
// refused there, a record is kept with its findings, in quarantine (out of
// every view) when it is not what its collection says.
type Verdict struct {
	Findings   []Finding
	Quarantine bool
}

// Judge validates a record that already stands in some repo. A record whose
// lexicon is not known has no findings.
func (c *Catalog) Judge(rec *Record, rkey syntax.RecordKey) Verdict {
	if !c.Known(rec.Collection) {
		return Verdict{}
	}
	found := c.check(rec, rkey)
	verdict := Verdict{Findings: found}
	for i := range found {
		found[i].Refusal = ""
		// Skills published before the field existed have no content, and
		// classes still point at them.
		if rec.Collection == SkillNSID && found[i].Path == "/content" && rec.Value["content"] == nil {
			found[i].Severity = Warning
			continue
		}
		verdict.Quarantine = true
	}
	return verdict
}

// check validates a record of a known collection, its key included.
func (c *Catalog) check(rec *Record, rkey syntax.RecordKey) []Finding {
	schema, _ := c.record(rec.Collection)
	found := c.CheckValue(rec.Collection, schema, rec.Value)
	if err := checkRecordKey(schema.Key, rkey); err != nil {
		found = append([]Finding{{
			Code:     CodeInvalidRecordKey,
			Severity: Violation,
			Message:  fmt.Sprintf("the record key %q %v", rkey, err),
			Refusal:  RefusalInvalidRequest,
		}}, found...)
	}
	return found
}

// checkRecordKey checks rkey against the `key` of a record schema.
func checkRecordKey(kind string, rkey syntax.RecordKey) error {
	if _, err := syntax.ParseRecordKey(string(rkey)); err != nil {
		return fmt.Errorf("is no record key, want %s", stringFormats["record-key"].hint)
	}
	switch {
	case kind == "tid":
		if _, err := syntax.ParseTID(string(rkey)); err != nil {
			return fmt.Errorf("is no TID, want %s; leave it out to have one made", stringFormats["tid"].hint)
		}
	case kind == "nsid":
		if _, err := syntax.ParseNSID(string(rkey)); err != nil {
			return fmt.Errorf("is no NSID, want %s", stringFormats["nsid"].hint)
		}
	case strings.HasPrefix(kind, "literal:"):
		if want := strings.TrimPrefix(kind, "literal:"); string(rkey) != want {
			return fmt.Errorf("is not %q, the only one of this collection", want)
		}
	}
	return nil
}
