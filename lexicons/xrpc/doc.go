// Package xrpc is the one XRPC-over-echo adapter: typed query and procedure
// handlers, parameters with the defaults and limits of their lexicon, the
// error shape, opaque cursors, body limits, and the question who asks
// (Viewer, Authenticator).
package xrpc
