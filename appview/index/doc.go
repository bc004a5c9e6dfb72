// Package index owns what this appview witnessed and what follows from it.
//
// Owns: the journal (one row for every verified operation, with the record's
// bytes, and for observations and claims the signed commit and the MST path
// that prove it), which cannot be rebuilt; the derived tables (records,
// observations, supersedes chains and their heads, sessions, classes, skills,
// conversations, references, citations, findings), which Reindex builds again
// from the journal; what came of looking for citations in blobs; the witnessed
// state of each repo and the cursor of each source; the changes of the views,
// for those who follow; and the lexicons that it was told of, beside those of
// the program.
//
// Hides: tables, SQL, the order in which things arrived.
//
// Invariants:
//   - Apply is one transaction: journal, derived rows, findings, repo state and
//     cursor move together, and applying an event twice changes nothing.
//   - The derived state depends on each DID's history alone, never on how the
//     histories interleave; Reindex gives what Apply gave.
//   - A record is judged by the lexicons that hold when it is applied, and again
//     when they or the edition of the program change; at the end of that the
//     derived state is what Reindex makes of the journal now.
//   - A citation's verdict and freshness follow from contents alone. What Apply
//     leaves to RecheckCitations is said to be unknown until then.
//   - Deleting a record, and taking words out of a message, nulls the content
//     in the journal in the transaction that removes the derived rows.
//   - What changes a view is told in the transaction that does it, in the order
//     of commit; a replay tells nothing but that there was one.
//   - An observation is what was first seen at its URI; whatever came later
//     there is listed beside it as a violation.
//   - Nothing of a repo that is inactive, nothing that was taken down, and no
//     quarantined record, is in an answer to anyone but the operator.
//
// Does not: verify (package ingest hands over what it verified), make views,
// touch the network, or know of the host's tables.
package index
