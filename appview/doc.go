// Package appview answers the garden.herbarium.* queries.
//
// Owns: the views (what a client sees of an observation, a session, a class, a
// conversation), the pure functions that make them of the index's rows, the
// markdown documents, the parameters and cursors of each query, and the streams
// of those who follow the changes.
//
// Hides: how a view is put together. Each answer goes the same way: skeleton
// (which records, in which order) -> hydration (everything that they need, in
// a number of queries that does not depend on how many they are) -> rules
// (what follows, such as a session's state at this moment) -> view. Only the
// first two touch the index; the rest are functions of rows and a clock.
//
// Invariants:
//   - The read path never touches the network and never writes.
//   - A view says what kind of nothing it shows: deleted, missing, not indexed.
//     What is inferred says so and why.
//   - A state of a reference is the index's word for it, and a verdict on a
//     citation is shown with it alone.
//   - No word of a withheld turn or of a deleted record leaves here, none of a
//     foreign turn but in getRecord of that very record, and no user name or
//     password in a URL, whatever the record holds.
//   - In a markdown document no text that somebody wrote can pass for the
//     document's own structure.
//   - Every answer fits its lexicon; a test sends each through it.
//
// Does not: decide who may read at all (the xrpc server did, before), judge
// records (package lexicons), or keep anything.
package appview
