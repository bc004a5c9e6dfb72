package xrpc

import (
	"context"
	"io"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// None stands for "no parameters", "no input" or "no output".
type None struct{}

// Query registers a lexicon query with JSON output.
//
// P is a struct whose fields carry `param:"name"` tags, one for each parameter
// of the lexicon; O is a struct whose json tags are the lexicon's output. Both
// are compared with the lexicon here, so that a slip fails at start-up:
// parameter fields are strings, syntax types, cid.Cid (anything that decodes
// itself from text), integers, booleans, slices of these, or pointers to them;
// an optional integer without a default must be a pointer. A field named _
// says that a parameter is known and ignored. Values arrive checked against
// the lexicon, with its defaults filled in; an empty value counts as absent,
// unknown parameters are ignored.
//
// An output field that the lexicon does not have needs the tag `xrpc:"extra"`.
func Query[P, O any](s *Server, nsid syntax.NSID, access Access, h func(ctx context.Context, v Viewer, p P) (*O, error), opts ...Option) error {
	return errNotYet
}

// Procedure registers a lexicon procedure with JSON input and output; I and O
// may be None where the lexicon has no input or output.
//
// The body is checked against the lexicon's input schema, as deep as that
// goes, before it is decoded into I by its json tags; absent fields with a
// default get it. What the schema calls unknown (records) is not looked into
// and should be a json.RawMessage. A nullable field is a Nullable. CIDs in
// string form are syntax.CID (cid.Cid decodes only {"$link"}-like forms).
func Procedure[I, O any](s *Server, nsid syntax.NSID, access Access, h func(ctx context.Context, v Viewer, in I) (*O, error), opts ...Option) error {
	return errNotYet
}

// Stream registers a query whose output is not JSON: the handler writes
// headers and bytes to call.Writer. An error before the first byte is answered
// as usual; one after it breaks the connection off, so that a client cannot
// take half a CAR for a whole one.
func Stream[P any](s *Server, nsid syntax.NSID, access Access, h func(ctx context.Context, call *Call, p P) error, opts ...Option) error {
	return errNotYet
}

// Upload registers a procedure whose input is not JSON. The reader is
// decompressed (gzip) and bounded by MaxBody, which is required; over the
// limit it fails with a *Error 413 that the handler only needs to wrap.
func Upload[O any](s *Server, nsid syntax.NSID, access Access, h func(ctx context.Context, call *Call, body io.Reader) (*O, error), opts ...Option) error {
	return errNotYet
}

// Subscription registers a lexicon subscription. The handler is only called
// for a websocket upgrade and upgrades call.Writer itself; a plain GET gets
// 426 with a hint.
func Subscription[P any](s *Server, nsid syntax.NSID, access Access, h func(ctx context.Context, call *Call, p P) error, opts ...Option) error {
	return errNotYet
}

// Nullable is a field that tells absent, null and a value apart, such as
// swapRecord of putRecord.
type Nullable[T any] struct {
	Set   bool // present in the input
	Null  bool // present and null
	Value T    // when Set and not Null
}
