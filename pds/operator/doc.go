// Package operator owns what concerns the people who run the host: the audit
// log of what they did. Roles and API tokens are to come.
//
// Hides: the tables of 00012_audit_log.sql.
//
// Invariants: the log is only added to; no statement here changes or removes
// anything. An entry is written before its call is carried out (Begin), its
// outcome after (Settle): an entry without an outcome tells of a call that was
// cut off, and nothing is done that has no entry.
//
// Does not: decide what is worth an entry or harmless enough to be kept in one;
// pds does, in one place for all methods.
package operator
