// Package repostore owns repos: their MST, commits, records, blob references,
// tombstones and supersedes edges, and the way a write becomes a commit.
//
// Hides: the MST (hydrated lazily, never whole), the queue per DID, the
// committer, the layout of the tables.
//
// # How a write becomes a commit
//
// Prepare, in the DID's queue: hydrate the nodes that the write touches, run
// the stateful rules and the swaps on the state that the write will see
// (prepared but uncommitted writes of the same DID included), change the MST,
// sign. The result is a layer on top of the DID's earlier layers; nothing that
// others can see has changed.
//
// Commit: one committer per Store takes whatever waits from all DIDs into one
// transaction: per DID it compares and sets the head, and drops the DID's
// layers when another process has moved it; then nodes, records, blob
// references, tombstones and edges of all, in shared statements (with a
// savepoint for each DID when one of those fails); then their frames, last;
// one COMMIT. Only after it do heads advance in memory, readers of the log
// wake and callers get their answer. A failed COMMIT drops every layer of the
// batch and all that lie on them.
//
// # Where things are kept
//
// An MST node is kept at its position, not under its CID: (repo, lower key,
// height), where the lower key is the last key before the node's range, "" at
// the left edge. A position holds at most one node, so a write replaces its
// path in place, appends in rkey order stay on the right edge, and what a
// commit supersedes is gone with it: the table holds exactly the nodes that
// the head reaches. In the order (lower key, height descending), merged with
// the records by path, the tables give the tree in depth-first pre-order,
// which is how a CAR is streamed.
//
// # Imports
//
// An import (Import) does not pass through the committer: it takes the DID's
// turn, waits until nothing of the DID is on its way, and replaces the repo in
// a transaction of its own, in one commit without a #commit event.
//
// # Invariants
//
// Head, nodes, records, blob references and event commit together. The rev of
// a repo strictly increases. A reference to a blob exists only beside the
// blob's row (a foreign key); what an imported record names before its upload is
// awaited instead. Bytes of records and commits are served as they were stored.
// What a refusal or a no-op is based on was committed. A tombstone outlives its
// repo. Nothing with a CID in the log of purges is taken in. The counters of a repo (Usage) are what a recount gives, and no number
// of writers gets past a quota.
//
// # Does not
//
// Validate records against their lexicon or run the stateless rules (the
// caller has), authorise, know about account status, or hold blob bytes.
package repostore
