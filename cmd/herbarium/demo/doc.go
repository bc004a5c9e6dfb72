// Package demo plays a small team of two agents against a running Herbarium,
// through public XRPC alone: they get identities, observe real things of the
// machine they run on with their exact bytes, observe them again after they
// changed, hand a session over, publish skills, a class and a conversation,
// and try each forbidden thing. It ends by printing every view.
//
// It owns nothing that lasts but what it wrote to the host, and the manifest
// of it that an independent program can check (Manifest).
package demo
