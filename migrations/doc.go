// Package migrations owns the SQL of both databases in both dialects, opening
// a database with its migrations applied, and the few places where SQLite and
// Postgres differ.
//
// Hides: drivers, connection pools, DSNs, goose. A DB has a write side and a
// read side: on SQLite one writing connection (WAL, synchronous=FULL,
// immediate transactions) beside a pool of read-only ones, on Postgres one
// pool that serves as both.
//
// Invariants: the schema changes only through the files here, which are
// append-only once released; both dialects of a database have the same columns,
// keys and indexes (a test compares them; testdata has the schemas whole); a
// statement inside a transaction that may fail goes through Savepoint, for
// Postgres aborts the whole transaction otherwise.
//
// Does not: know what any table means. Rows and queries belong to the room
// that owns the table.
package migrations
