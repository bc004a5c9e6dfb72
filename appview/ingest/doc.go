// Package ingest brings what happened in repos into the index: it reads events
// of a source in order, verifies each one, and hands over what holds.
//
// Owns: the Source and RepoFetcher interfaces, the decoding of event-stream
// frames and CAR files from anyone, verification (structure, limits, block
// hashes, signature, MST inversion, continuity with the last known state),
// resync of a repo that fell out of step, and the Consumer that drives it.
//
// Hides: the wire formats and the traps of their decoders.
//
// Invariants:
//   - Order per DID is kept, and a cursor never passes an event that was not
//     applied or judged unfit.
//   - Nothing that a source sends stops the process or another repo: an unfit
//     event marks its DID as desynchronized, and the cursor goes on.
//   - An error of our own database stops the cursor and is tried again.
//   - Every block is hashed, and a whole repo is taken only when its tree is
//     complete and rebuilds to the very root that was signed.
//
// Does not: decide what a record means (package index and lexicons do), or
// look into the database of the host, even when that is its own.
package ingest
