package index

import (
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
)

// State of a record.
type State string

// The states of a record.
const (
	StateOK          State = "ok"
	StateViolated    State = "violated"    // shown, with a violation among its findings
	StateQuarantined State = "quarantined" // fails its lexicon; in no view
	StateDeleted     State = "deleted"     // a tombstone: no content
)

// live are the states of a record that is there for everybody.
var live = []string{string(StateOK), string(StateViolated)}

// Record is the current state of one URI.
type Record struct {
	URI        syntax.ATURI
	DID        syntax.DID
	Collection syntax.NSID
	RecordKey  syntax.RecordKey
	CID        cid.Cid // of what is shown: for an observation the version first seen
	RepoCID    cid.Cid // of what stands in the repo now; differs only after a violation
	Rev        syntax.TID
	Commit     cid.Cid // the commit that carried this version
	State      State
	Baseline   bool      // first seen in a whole repo, not in the commit that wrote it
	IndexedAt  time.Time // when the URI was first witnessed
	UpdatedAt  time.Time // when the shown version was witnessed
	DeletedAt  time.Time // zero unless StateDeleted
	CBOR       []byte    // nil for a tombstone
	TakenDown  bool      // by the operator of its host: only the operator is shown it
	Purged     bool      // something that was here was removed for good by an operator
}

// Version is one witnessed operation on a URI, the oldest first. Content that
// was deleted or taken away is gone: CBOR is nil.
type Version struct {
	Seq         int64 // position in the journal
	Source      string
	Action      lexicons.Action
	CID         cid.Cid // undefined on delete
	Prev        cid.Cid // undefined on create
	Rev         syntax.TID
	Commit      cid.Cid
	Baseline    bool
	WitnessedAt time.Time
	Rewrites    []string // of a message: lexicons.RewriteKind values
	CBOR        []byte
}

// Observation is an observation with its place in its chain.
type Observation struct {
	Record
	SourceKind  string
	SourceValue string
	Method      string
	Run         syntax.TID // "" when absent
	Device      string
	Harness     string
	Model       string
	ObservedAt  time.Time
	CreatedAt   time.Time
	Blob        *Blob
	Supersedes  *lexicons.StrongRef
	Edge        Edge
	Head        bool // the live head of its chain, or of its branch when the chain forked
	SortAt      time.Time
}

// Edge says what became of a supersedes link.
type Edge string

// The states of a supersedes link.
const (
	EdgeNone     Edge = ""
	EdgeExact    Edge = "exact"    // the CID is the one of the target
	EdgeWeak     Edge = "weak"     // the target is there under another CID
	EdgePending  Edge = "pending"  // the target was not witnessed yet
	EdgeProposal Edge = "proposal" // the target is somebody else's; listed, moves no head
	EdgeIgnored  Edge = "ignored"  // wrong collection, itself, or part of a circle
)

// Blob is a blob as a record names it.
type Blob struct {
	DID      syntax.DID
	CID      cid.Cid
	MimeType string
	Size     int64
	URI      syntax.ATURI // a record that names it
}

// Member is one observation, or the tombstone of one, in a chain.
type Member struct {
	URI        syntax.ATURI
	DID        syntax.DID
	CID        cid.Cid
	Position   int64 // grows along the chain; the root has 0
	Live       bool  // false for a tombstone or a quarantined record
	Edge       Edge
	Supersedes *lexicons.StrongRef
	Branch     int64 // members of one branch share it; a number without meaning
	ObservedAt time.Time
	IndexedAt  time.Time
}

// Chain is where one observation stands among those it is linked with.
type Chain struct {
	Self        Member
	Head        *Member  // live head reached from Self (Self included); nil when nothing on its branch lives
	StepsBehind int64    // from Self to Head; 0 when Self is the head
	Length      int64    // members, tombstones and what is not for this viewer included
	Root        Member   // the oldest
	Heads       []Member // all live heads of the chain, the chosen one first; at most MaxLimit
	Forked      bool     // more than one live head
	Proposals   []Member // observations of others that say they supersede Self, the newest first; at most MaxLimit
}

// ObservationFilter narrows ListObservations; zero fields do not.
type ObservationFilter struct {
	DID         syntax.DID
	SourceKind  string
	SourceValue string
	Method      string
	Run         syntax.TID
	Device      string
	Model       string
	Since       time.Time // SortAt at or after
	Until       time.Time // SortAt before
	AllVersions bool      // superseded observations too, not heads only
}

// Session is the current state of a working session.
type Session struct {
	Record
	Title     string
	Status    string // as written
	Harness   string
	Machine   string
	Cwd       string
	Repo      string // as written
	RepoKey   string // normalised: host/path, lower case, without user, scheme and .git
	Branch    string
	Model     string
	Versions  int64     // witnessed versions
	WrittenAt time.Time // updatedAt as written
	StartedAt time.Time
	SortAt    time.Time // min(updatedAt, witnessed)
}

// SessionFilter narrows ListSessions; zero fields do not.
type SessionFilter struct {
	DIDs      []syntax.DID
	RecordKey syntax.RecordKey // one work item under several DIDs
	Repo      string           // any spelling; compared normalised
	Branch    string
	Machine   string
	Harness   string
	Model     string
	Status    string
	Since     time.Time // SortAt at or after
	Until     time.Time // SortAt before
}

// Class is an agent class.
type Class struct {
	Record
	Name   string
	Parent *lexicons.StrongRef
	Skills []lexicons.StrongRef // in order
	SortAt time.Time
	// Malformed is the URI of a parent that is no strongRef; "" for none.
	Malformed string
}

// ClassFilter narrows ListClasses; zero fields do not.
type ClassFilter struct {
	DID  syntax.DID
	Name string
}

// Conversation is a chat session with what its turns add up to.
type Conversation struct {
	Record
	Title        string
	Description  string
	Discussion   syntax.ATURI
	CreatedAt    time.Time
	Turns        int64     // turns of its own author, withheld ones included, taken down ones not
	VisibleTurns int64     // those of them that are not withheld
	LastTurnAt   time.Time // min(createdAt, witnessed) of the newest turn; zero when there is none
	SortAt       time.Time // the last turn's time, or the session's own
}

// ConversationFilter narrows ListConversations; zero fields do not.
type ConversationFilter struct {
	DID          syntax.DID
	IncludeEmpty bool // also those without a visible turn; always so for their author and the operator
	Since        time.Time
	Until        time.Time
}

// Turn is one message of a conversation. Withheld turns come without content:
// CBOR is nil.
type Turn struct {
	Record
	Role     string
	Model    string
	Withheld bool
	Foreign  bool     // from another repo than the conversation's
	Rewrites []string // how its record was rewritten, over all its versions, sorted
}

// Finding is a finding on a record, or on a whole repo when URI has no collection.
type Finding struct {
	lexicons.Finding
	URI        syntax.ATURI
	DID        syntax.DID
	Collection syntax.NSID
	CID        cid.Cid // the version concerned; undefined when there is none
	At         time.Time
}

// FindingFilter narrows ListFindings; zero fields do not.
type FindingFilter struct {
	Code       string
	Severity   lexicons.Severity
	DID        syntax.DID
	URI        syntax.ATURI
	Collection syntax.NSID
	Since      time.Time
}

// Reference is a record that names another.
type Reference struct {
	From   syntax.ATURI
	Kind   ReferenceKind
	Path   string // RFC 6901 pointer in From
	Target syntax.ATURI
	CID    cid.Cid // pinned; undefined for a plain at-uri
}

// ReferenceKind says in what role a record names another.
type ReferenceKind string

// The kinds of reference.
const (
	RefSupersedes ReferenceKind = "supersedes"
	RefTranscript ReferenceKind = "transcript"
	RefParent     ReferenceKind = "parent"
	RefSkill      ReferenceKind = "skill"
	RefExample    ReferenceKind = "example"
	RefProperty   ReferenceKind = "property"
	RefSession    ReferenceKind = "session"
	RefTurn       ReferenceKind = "turn" // refs[] of a message
	RefCitation   ReferenceKind = "citation"
	RefVia        ReferenceKind = "via"
)

// Status is how the index is doing.
type Status struct {
	Journal  int64               // rows ever written: the last seq
	Repos    map[SyncState]int64 // of active accounts
	Inactive int64               // repos of accounts that are deactivated, taken down, suspended or deleted
	Sources  []SourceStatus
	Records  map[syntax.NSID]int64 // live records by collection
	// Revalidating are the collections of which some records were judged by
	// lexicons or rules that hold no more.
	Revalidating []syntax.NSID
}

// SourceStatus is how far one source was read.
type SourceStatus struct {
	Name      string
	Cursor    int64
	UpdatedAt time.Time
}
