package lexicons

import (
	"fmt"
	"strings"
)

// Severity ranks a finding: violation > warning > info.
type Severity string

// The three severities of a finding.
const (
	Violation Severity = "violation"
	Warning   Severity = "warning"
	Info      Severity = "info"
)

// Finding is one result of a check: a stable code, how grave it is, where in
// the record it was found (an RFC 6901 pointer, "" for the whole record), what
// was wrong, and how the writer can mend it. No field ever repeats a secret.
type Finding struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	Path     string   `json:"path"`
	Message  string   `json:"message"`
	// Repair is the fixed-form end of a refusal's message, such as
	// "head at://did:web:scout.test/garden.engram.agents.observation/3k… bafy…".
	Repair string `json:"repair,omitempty"`
	// Refusal is the XRPC error name under which the host refuses a write that
	// has this finding; empty when the finding only flags.
	Refusal string `json:"-"`
}

// Refused is the error of a write that the rules turn down. The first finding
// with a Refusal names it; the rest travel along.
type Refused struct {
	Findings []Finding
}

// Name is the XRPC error name of the refusal, "InvalidRequest" when no finding carries one.
func (r *Refused) Name() string {
	if f := r.first(); f != nil && f.Refusal != "" {
		return f.Refusal
	}
	return "InvalidRequest"
}

func (r *Refused) first() *Finding {
	for i := range r.Findings {
		if r.Findings[i].Refusal != "" {
			return &r.Findings[i]
		}
	}
	if len(r.Findings) > 0 {
		return &r.Findings[0]
	}
	return nil
}

// Error is the message a client sees: slug, path, what was expected, and the
// repair at its end ("; head at://… bafy…"), because public clients keep only
// the message.
func (r *Refused) Error() string {
	f := r.first()
	if f == nil {
		return "refused"
	}
	var b strings.Builder
	b.WriteString(f.Code)
	if f.Path != "" {
		fmt.Fprintf(&b, " at %s", f.Path)
	}
	b.WriteString(": ")
	b.WriteString(f.Message)
	if f.Repair != "" {
		b.WriteString("; ")
		b.WriteString(f.Repair)
	}
	return b.String()
}
