package lexicons

import (
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// The record types whose meaning this project vouches for.
const (
	ObservationNSID syntax.NSID = "garden.engram.agents.observation"
	SessionNSID     syntax.NSID = "garden.engram.session"
	ChatSessionNSID syntax.NSID = "click.aligned.chat.session"
	MessageNSID     syntax.NSID = "click.aligned.chat.message"
	ClassNSID       syntax.NSID = "com.publicdomainrelay.temp.agent.class"
	SkillNSID       syntax.NSID = "com.publicdomainrelay.temp.agent.skill"
	ClaimNSID       syntax.NSID = "garden.herbarium.claim"
)

// SchemaNSID is the record type in which lexicons are published.
const SchemaNSID syntax.NSID = "com.atproto.lexicon.schema"

// Enforced reports whether every write to collection is validated, whatever
// the caller asks: the record types whose meaning this project vouches for.
func Enforced(collection syntax.NSID) bool {
	switch collection {
	case ObservationNSID, SessionNSID, ChatSessionNSID, MessageNSID, ClassNSID, SkillNSID, ClaimNSID:
		return true
	}
	return false
}

// RequireValidation refuses validate:false on an enforced collection. It needs
// nothing of the record, so that it can be asked before anything is parsed.
// The error is a *Refused.
func RequireValidation(collection syntax.NSID, mode ValidationMode) error {
	if mode != ValidateSkip || !Enforced(collection) {
		return nil
	}
	return &Refused{Findings: []Finding{{
		Code:     CodeValidationRequired,
		Severity: Violation,
		Message:  fmt.Sprintf("records of %s are always validated", collection),
		Repair:   "leave out validate or send true",
		Refusal:  RefusalValidationRequired,
	}}}
}
