package repostore

import (
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// RepoFaultKind is what may be wrong with a stored repo. The names are stable:
// programs compare them.
type RepoFaultKind string

// What a check of a repo finds.
const (
	CommitDamaged   RepoFaultKind = "commit-damaged"   // other bytes than the head's CID says, or no commit at all
	CommitMismatch  RepoFaultKind = "commit-mismatch"  // the commit says another DID, rev or MST root than the repo's row
	CommitSignature RepoFaultKind = "commit-signature" // not signed by the account's key

	NodeMissing   RepoFaultKind = "node-missing"   // the tree names an MST node, and nothing stands there
	NodeDamaged   RepoFaultKind = "node-damaged"   // other bytes than its CID says
	NodeMismatch  RepoFaultKind = "node-mismatch"  // another node than the tree names, or one under a wrong CID
	NodeMalformed RepoFaultKind = "node-malformed" // keys out of order or range, wrong height, not canonical
	NodeExtra     RepoFaultKind = "node-extra"     // the tree does not reach it

	RecordMissing   RepoFaultKind = "record-missing"   // the tree names a record that is not stored
	RecordDamaged   RepoFaultKind = "record-damaged"   // other bytes than its CID says
	RecordMismatch  RepoFaultKind = "record-mismatch"  // another record than the tree names, or one under a wrong CID
	RecordMalformed RepoFaultKind = "record-malformed" // no atproto data of its collection
	RecordExtra     RepoFaultKind = "record-extra"     // the tree does not name it

	ReferenceMissing RepoFaultKind = "reference-missing" // a record names a blob, and the table of references does not: a collection may take it
	ReferenceExtra   RepoFaultKind = "reference-extra"   // the table has a reference that no record makes
	CounterWrong     RepoFaultKind = "counter-wrong"     // what quotas count is not what is there
	BlobRowMissing   RepoFaultKind = "blob-unrecorded"   // the account has a blob, and its bytes are not on record

	EventDamaged RepoFaultKind = "event-damaged" // a stored frame is not what its row says
	EventOrder   RepoFaultKind = "event-order"   // an event does not follow the one before
	EventHead    RepoFaultKind = "event-head"    // the last event tells another head than the repo has
	EventAhead   RepoFaultKind = "event-ahead"   // an event tells of a commit that the repo does not have

	LogBackwards RepoFaultKind = "log-backwards" // an event is stored whose seq was not given out
	LogGap       RepoFaultKind = "log-gap"       // seqs are missing, and nothing was erased
	RowsOrphaned RepoFaultKind = "rows-orphaned" // rows of a repo that there is not

	AccountMissing RepoFaultKind = "account-missing" // a repo without an account
	RepoMissing    RepoFaultKind = "repo-missing"    // an account without a repo
	RepoUnreadable RepoFaultKind = "unreadable"      // the check came to no end: nothing is known
)

// Lost says that something that was signed or announced is missing or wrong;
// the other faults can be cleared up.
func (k RepoFaultKind) Lost() bool {
	switch k {
	case NodeExtra, RecordExtra, ReferenceMissing, ReferenceExtra, CounterWrong, LogGap, RowsOrphaned, RepoUnreadable:
		return false
	}
	return true
}

// Mendable says that CheckRepo with Repair puts it right: what is wrong follows
// from records that were found whole, and from nothing else.
func (k RepoFaultKind) Mendable() bool {
	return k == ReferenceMissing || k == ReferenceExtra || k == CounterWrong
}

// What an operator can do about a fault.
const (
	repairBackup  = "bring the database back from a backup, or import the repo again from an export"
	repairOwn     = "repo fsck --repair"
	repairSync    = "deactivate and activate the account: that announces its repo as it is"
	repairDelete  = "it is in nobody's way; report it, for this program does not leave such rows"
	repairRestore = "the database is older than what was announced: bring back the newer one"
)

// Repair is what an operator can do about it.
func (k RepoFaultKind) Repair() string {
	switch k {
	case ReferenceMissing, ReferenceExtra, CounterWrong:
		return repairOwn
	case EventDamaged, EventOrder, EventHead:
		return repairSync
	case EventAhead, LogBackwards:
		return repairRestore
	case NodeExtra, RecordExtra, RowsOrphaned:
		return repairDelete
	case BlobRowMissing:
		return "upload the blob again"
	case LogGap:
		return "none is needed, if the log was advanced after a restore; consumers go on past it"
	case RepoUnreadable:
		return "look at the database, then check again"
	}
	return repairBackup
}

// RepoFault is one thing that is wrong with a repo, or with the log of events.
type RepoFault struct {
	Kind RepoFaultKind
	DID  syntax.DID // "" for one of the whole log
	// Subject is what it is about: the AT URI of a record, "mst/<height>/<lower key>",
	// a blob's CID, "seq/<n>", a counter, a table, or the DID.
	Subject         string
	Expected, Found string // CIDs, numbers or words; "" for nothing
	Mended          bool
}

// String says it in one line.
func (f RepoFault) String() string {
	text := fmt.Sprintf("%s  %s", f.Kind, f.Subject)
	switch {
	case f.Expected != "" && f.Found != "":
		text += fmt.Sprintf("  want %s, found %s", f.Expected, f.Found)
	case f.Expected != "":
		text += "  want " + f.Expected
	case f.Found != "":
		text += "  found " + f.Found
	}
	return text
}
