// Package lexicons owns what a record is: the schemas, the catalog over them,
// parsing and validation of records, the typed readers of the record types, and
// the rules about what a record means.
//
// # The way of a record
//
//	bytes ─ ParseJSON / ParseCBOR ─> Record ─ Catalog.Validate ─> ─ Rules.CheckRecord ─> ─ Rules.CheckState ─> stored
//	        the data model             │      its lexicon, its key   the record alone      a Snapshot of the repo
//	                                   └─ ReadObservation, ReadSession, … for whoever looks into it
//
// Rules.CheckContent looks at the bytes behind an observation, CheckBatch at the
// writes of one commit together. A host refuses by each step; an index calls ParseCBOR, Judge and the
// rules, and keeps the record with its findings. Both run the same code, and so does the
// dry run. Every step answers findings: a stable code, a severity, an RFC 6901
// pointer into the record, what was expected, and the repair. A *Refused is an
// error made of them, whose text ends in the repair.
//
// # Why it reads JSON and CBOR itself
//
// Records are signed: what is let in is kept for ever and must mean the same
// to everybody. The libraries that are common in the field round integers
// through float64, keep the last of two equal names, replace bad UTF-8, follow
// nesting until the stack ends, accept CBOR in several forms, and cannot say
// where a fault is. json.go and cbor.go accept one thing each and are held
// against those libraries by fuzzing. indigo's schema language, its syntax
// types and its data types (atdata) are used as they are.
//
// # Invariants
//
//   - A Record round-trips: decoding CBOR and encoding Value give each other, to the byte.
//   - Record.CBOR of ParseCBOR is the slice that came in; nothing is ever re-encoded.
//   - A Catalog, a Lexicon and Rules are immutable and safe for concurrent use; With makes new ones.
//   - Nothing here touches the network, a clock, a disk or a log. Rules see the
//     world through Snapshot and the time through Change.Now.
//   - Unknown fields are preserved, unknown values of open sets and unknown
//     types of open unions are valid.
//   - No finding repeats a secret.
//
// # Layout
//
// embed.go, schemafile.go, catalog.go, method.go: schemas. compare.go, plan.go:
// how they may change, and what follows. edition.go: what judges.
// datamodel.go, json.go, cbor.go: parsing. validate*.go, validation.go,
// enforced.go: lexicons and modes. observation.go, session.go, chat.go, class.go,
// claim.go: readers. rules.go: the engine; codebook*.go: what is to be said of each code. rules_<type>.go: one small function
// for each rule, named in the table at the head of the file. redaction.go,
// secrets*.go, keywords.go, urls.go: what rules are made of. citation*.go: the verifier of
// citations, a function of a citation, a version of its target and, where the
// record does not decide, a stream of the bytes behind it. codes.go: every code
// and refusal.
//
// # What it does not do
//
// It does not fetch or keep lexicons (package library keeps what an operator
// adds), store records, resolve chains across repos, find the records that
// citations name, or decide who may write.
package lexicons
