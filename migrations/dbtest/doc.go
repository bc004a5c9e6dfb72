// Package dbtest gives tests real, migrated databases in both dialects: a
// SQLite file in the test's folder, and a database of its own on a Postgres
// that the test process starts (Debian's, over a unix socket) and that ends
// with it.
//
// Set HERBARIUM_TEST_POSTGRES to the DSN of a running server's maintenance
// database to use that one instead.
package dbtest
