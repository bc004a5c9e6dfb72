package lexicons

import "fmt"

// Policy says what the host does with something that a rule finds.
type Policy string

// The values of Policy.
const (
	PolicyReject Policy = "reject" // the write is refused
	PolicyFlag   Policy = "flag"   // the write is kept with a finding
	PolicyOff    Policy = "off"    // the rule is not run
)

// MessagePolicy says how an existing chat message may be rewritten.
type MessagePolicy string

// The values of MessagePolicy.
const (
	MessageRedactOnly MessagePolicy = "redact-only" // words may be taken away, never changed
	MessageStrict     MessagePolicy = "strict"      // never rewritten, the letter of the schema
	MessageOff        MessagePolicy = "off"         // any rewrite is kept
)

// Settings are the operator's choices among the rules. The zero value is the
// default of each.
type Settings struct {
	// Supersedes is about a second successor of one observation: reject (default) or flag.
	Supersedes Policy
	// Messages is the rewrite policy of chat messages: redact-only by default.
	Messages MessagePolicy
	// Secrets is about high-confidence secret patterns: reject (default), flag or off.
	Secrets Policy
	// BlobLimit is the largest blob a record may refer to, in bytes; 0 for no limit of its own.
	BlobLimit int64
}

// Validate refuses a value that no rule knows. NewRules treats such a value as the default.
func (s Settings) Validate() error {
	switch s.Supersedes {
	case "", PolicyReject, PolicyFlag:
	default:
		return fmt.Errorf("supersedes policy %q: want reject or flag", s.Supersedes)
	}
	switch s.Secrets {
	case "", PolicyReject, PolicyFlag, PolicyOff:
	default:
		return fmt.Errorf("secrets policy %q: want reject, flag or off", s.Secrets)
	}
	switch s.Messages {
	case "", MessageRedactOnly, MessageStrict, MessageOff:
	default:
		return fmt.Errorf("message policy %q: want redact-only, strict or off", s.Messages)
	}
	if s.BlobLimit < 0 {
		return fmt.Errorf("blob limit %d: want 0 or more", s.BlobLimit)
	}
	return nil
}

func (s Settings) withDefaults() Settings {
	if s.Supersedes != PolicyFlag {
		s.Supersedes = PolicyReject
	}
	if s.Secrets != PolicyFlag && s.Secrets != PolicyOff {
		s.Secrets = PolicyReject
	}
	if s.Messages != MessageStrict && s.Messages != MessageOff {
		s.Messages = MessageRedactOnly
	}
	return s
}
