// Package config owns the configuration of a Herbarium: one table that names,
// documents and defaults every key (fields.go), and a pure Load that reads
// defaults, a TOML file, the environment and flags, in that order of
// precedence, into typed values.
//
// Hides: how text becomes durations, sizes, lists, URLs and networks; which
// source won; what may be printed.
//
// Invariants: Load touches nothing but its Input; an unknown key or an unknown
// HERBARIUM_ variable is an error that names the nearest known one; all faults
// are reported at once; a secret, and the password inside a connection string,
// has no printable form and is never quoted in an error.
//
// Does not: open, create or listen to anything, or decide what a value leads
// to. cmd does the wiring.
package config
