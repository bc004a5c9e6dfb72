// Package lexicons owns the schemas, their catalog, validation of records
// (lexicon plus the checks that indigo lacks), typed readers of the record
// types, and the rules of SEMANTICS as pure functions over a Snapshot.
package lexicons
