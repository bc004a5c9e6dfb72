// Package demo plays a small team of two agents against a running Herbarium,
// through public XRPC alone: they get identities, observe real things of the
// machine they run on with their exact bytes, observe them again after they
// changed, hand a session over, publish skills, a class and a conversation,
// and try each forbidden thing. It ends by printing every view.
//
// It owns the story, and the manifest of what the host acknowledged, which an
// independent program can check (Manifest). What lasts is at the host.
//
// Hides: how specimens are found on the machine, and the page that changes.
//
// Invariants: it imports none of our packages, so it sees the host as any
// client does; it reads nothing that is not readable by everybody, and changes
// nothing outside a scratch folder; it fails when the host refuses what is
// allowed, allows what is forbidden, or shows something else than was written.
//
// Does not: start or configure a host.
package demo
