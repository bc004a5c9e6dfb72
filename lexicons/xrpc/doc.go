// Package xrpc is the one XRPC-over-echo adapter.
//
// Owns: the way of a request from bytes to a typed handler and back. One
// Server holds every route of the process; each is registered with its class
// (Access) and, if it is a method, is compared with its lexicon at that moment,
// so that a struct that does not fit its schema fails at start-up and not in
// front of a client. The way of a request, in this order:
//
//	edge       request id, client address, CORS, panics, error answers, access log, metrics
//	dispatch   the method by NSID, the fallback
//	identify   who asks (Authenticator), may they (Access and Visibility)
//	Admit      rate limits (hook), also for who was refused
//	verb       GET or POST
//	params,    checked against the lexicon: types, formats, bounds, required,
//	body       defaults; size, nesting and encoding of the body
//	handler    typed
//	output     JSON without HTML escaping, never null for an empty list
//
// And the open connections of a subscription (Subscribers): its handler gives
// one the frames, and the client its pace.
//
// Hides: echo, reflection, lexicon walking, the error envelope, the format of
// cursors, the framing of streams, websockets.
//
// Invariants:
//   - no route without a class; the zero class is refused at registration;
//   - a handler of class Read, Member, AccessToken, RefreshToken or AdminOnly
//     never runs for a viewer that its class and the visibility do not admit;
//   - a client never sees the text of an error that is not an *Error (or was
//     not translated into one); it is logged once, under the request id that
//     the client was told;
//   - an answer that fails after its first byte is broken off, never ended as
//     if it were whole.
//
// Does not: know any method, decide what a credential is worth (Authenticator),
// count requests (Admit), or look into records: what a lexicon calls unknown is
// passed on as json.RawMessage, for package lexicons to parse.
package xrpc
