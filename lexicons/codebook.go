package lexicons

// Stage is where in the life of a record a code is found.
type Stage string

// The stages, in the order in which a write passes them. What the last two
// find is not this package's; their codes are, so that there is one list.
const (
	StageParse    Stage = "parse"    // the bytes are no record
	StageValidate Stage = "validate" // the record against its lexicon
	StageRecord   Stage = "record"   // the rules on the record alone
	StageContent  Stage = "content"  // the rules on the bytes behind it
	StageBatch    Stage = "batch"    // the rules on the writes of one commit together
	StageState    Stage = "state"    // the rules on the record in its repo
	StageHost     Stage = "host"     // what a host knows: policies, quotas
	StageIndex    Stage = "index"    // what an index knows: history, other records, other repos
)

// Outcome is what becomes of a record that has a finding.
type Outcome string

// The outcomes. A host that does not reject a write keeps it with the finding.
const (
	OutcomeReject     Outcome = "reject"     // the write is refused
	OutcomeQuarantine Outcome = "quarantine" // kept with a violation, out of every view
	OutcomeViolation  Outcome = "violation"
	OutcomeWarning    Outcome = "warning"
	OutcomeInfo       Outcome = "info"
)

// Group is a heading under which codes are listed.
type Group string

// The groups: by record type where a code belongs to one.
const (
	GroupData         Group = "The data model"
	GroupValidation   Group = "Lexicons"
	GroupPolicy       Group = "What an account may write"
	GroupAny          Group = "Any record"
	GroupObservation  Group = "Observations"
	GroupSession      Group = "Sessions"
	GroupConversation Group = "Conversations"
	GroupClass        Group = "Classes"
	GroupSkill        Group = "Skills"
	GroupClaim        Group = "Claims and citations"
	GroupIndex        Group = "The index"
)

// Entry describes one code. The engine emits no code without an entry, and
// none otherwise than its entry says; tests hold both.
type Entry struct {
	Code  string
	Group Group
	Stage Stage // the first that finds it
	// Host is what the host does with a write that has it: nothing, when only
	// an index can find it. Several outcomes depend on how grave it is or on a setting.
	Host []Outcome
	// Index is what an index does with a record that has it, from whatever
	// host: nothing, when only a host can find it.
	Index []Outcome
	// Refusals are the XRPC errors under which a host rejects; none means InvalidRequest.
	Refusals []string
	Says     string // one sentence: what is so when a record has it
	Repair   string // one sentence: what the writer does about it, or why nothing
}

// Rejects reports whether a host may refuse a write for it.
func (e Entry) Rejects() bool { return has(e.Host, OutcomeReject) }

// RefusalNames are the XRPC errors of a write that is rejected for it.
func (e Entry) RefusalNames() []string {
	switch {
	case !e.Rejects():
		return nil
	case len(e.Refusals) == 0:
		return []string{RefusalInvalidRequest}
	}
	return e.Refusals
}

// AtHost reports whether a host may find f as it is.
func (e Entry) AtHost(f Finding) bool {
	if f.Refusal == "" {
		return has(e.Host, Outcome(f.Severity))
	}
	for _, name := range e.RefusalNames() {
		if name == f.Refusal {
			return f.Severity == Violation
		}
	}
	return false
}

// AtIndex reports whether an index may keep f as it is, on a record that is
// quarantined or not.
func (e Entry) AtIndex(f Finding, quarantined bool) bool {
	return has(e.Index, Outcome(f.Severity)) || quarantined && f.Severity == Violation && has(e.Index, OutcomeQuarantine)
}

func has(outcomes []Outcome, outcome Outcome) bool {
	for _, o := range outcomes {
		if o == outcome {
			return true
		}
	}
	return false
}

// Codebook lists every code that a finding can have, group by group.
func Codebook() []Entry {
	var all []Entry
	for _, part := range [][]Entry{dataCodes, validationCodes, policyCodes, anyCodes, observationCodes, sessionCodes, conversationCodes, classCodes, skillCodes, claimCodes, indexCodes} {
		all = append(all, part...)
	}
	return all
}

// LookUpCode is the entry of code; false when there is no such code.
func LookUpCode(code string) (Entry, bool) {
	for _, e := range Codebook() {
		if e.Code == code {
			return e, true
		}
	}
	return Entry{}, false
}

// Shorthands for the tables.
var (
	rejects     = []Outcome{OutcomeReject}
	quarantines = []Outcome{OutcomeQuarantine}
	violates    = []Outcome{OutcomeViolation}
	warns       = []Outcome{OutcomeWarning}
	notes       = []Outcome{OutcomeInfo}
)
