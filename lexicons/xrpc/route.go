package xrpc

import (
	"errors"
	"net/http"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

const xrpcPrefix = "/xrpc/"

// route is one registered method or plain route.
type route struct {
	info            RouteInfo
	handle          Handler
	early           func(*Call) error // looks before anybody is asked who they are
	readsCredential bool
	judgesGrants    bool
	audited         bool // though it is a query
	strict          bool
	service         string   // whose method it is, as the fragment of our DID that an rpc: permission names
	maxBody         int64    // in bytes; 0 when the route reads no body
	ignored         []string // parameters or input fields without a struct field
}

func newRoute(nsid syntax.NSID, verb string, access Access, opts []Option) *route {
	rt := &route{info: RouteInfo{NSID: nsid, Verb: verb, Path: xrpcPrefix + string(nsid), Access: access}, service: "atproto_pds"}
	rt.apply(opts)
	return rt
}

// Option adjusts the registration of one method.
type Option func(*route)

// ReadsCredential lets the handler of an Open method see who asks: a
// credential that is shown is examined, and one that is no good is told in
// Call.CredentialErr, not refused. Without it an Open method never looks.
func ReadsCredential() Option { return func(rt *route) { rt.readsCredential = true } }

// JudgesGrants says that the handler itself looks at Viewer.Grants, for they
// decide by what is asked. Without it a scoped credential gets in only when an
// rpc: permission names the method.
func JudgesGrants() Option { return func(rt *route) { rt.judgesGrants = true } }

// Audited says that the answers of a query are so sensitive that each reading
// is kept in the audit log (Config.Audit).
func Audited() Option { return func(rt *route) { rt.audited = true } }

// OfService says which service of our DID document the method belongs to;
// "atproto_pds" when left out.
func OfService(fragment string) Option { return func(rt *route) { rt.service = fragment } }

// Strict refuses an input with a field that the method does not know, where
// lexicons say that such fields are to be ignored: for methods that replace
// what they are not told about, a slip of the pen must not clear it.
func Strict() Option { return func(rt *route) { rt.strict = true } }

// MaxBody bounds this method's request body, in bytes, before and after
// decompression. It replaces Config.MaxBody.
func MaxBody(n int64) Option { return func(rt *route) { rt.maxBody = n } }

// Ignores says that the method knows of these parameters or input fields of
// its lexicon and takes no notice of them.
func Ignores(names ...string) Option {
	return func(rt *route) { rt.ignored = append(rt.ignored, names...) }
}

func (rt *route) apply(opts []Option) {
	for _, opt := range opts {
		opt(rt)
	}
}

// check refuses a route that could not be served or that nobody classified.
func (rt *route) check() error {
	switch {
	case rt.handle == nil:
		return errors.New("no handler")
	case rt.info.Access <= Unclassified || rt.info.Access > Published:
		return errors.New("the route is not classified: name its Access")
	case rt.maxBody < 0:
		return errors.New("negative body limit")
	}
	return nil
}

// answers reports whether the route answers an HTTP verb.
func (rt *route) answers(verb string) bool {
	return verb == rt.info.Verb || verb == http.MethodHead && rt.info.Verb == http.MethodGet
}

// verbs are the HTTP verbs that metrics and logs tell apart.
var verbs = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true,
	http.MethodPatch: true, http.MethodDelete: true, http.MethodOptions: true,
}
