// Package operator will own the people who run the host: their roles, their API
// tokens and the audit log of what they change. There is nothing in it yet: the
// one operator is HTTP Basic "admin", which package account's Secrets know.
//
// It imports none of our packages.
package operator
