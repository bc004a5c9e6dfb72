// Package library keeps the lexicons that an operator added to those of the
// program, and gives out the catalogue and the rules of the moment.
//
// Owns: the tables lexicons and lexicon_state, which both databases have: the
// host and the index keep a copy each, for neither reads the other's tables.
// The host's is the truth, and the index is told (pds.SyncLexicons).
//
// Invariants:
//   - What is given out is immutable: whoever judges takes a Holding once and
//     judges by it. A change gives the next one another Holding.
//   - Each change of the table raises the generation in the same transaction, so
//     a Holding is out of date exactly when its generation is not the stored one.
//   - Inside a transaction, In gives what that transaction sees. In every other
//     place a change arrives with the next Refresh.
//
// Does not: decide what may be added (lexicons.Plan does), or know of records.
package library
