package xrpc

import (
	"errors"
	"net/http"
)

const xrpcPrefix = "/xrpc/"

// route is one registered method or plain route.
type route struct {
	info            RouteInfo
	handle          Handler
	readsCredential bool
	maxBody         int64 // 0: the server's MaxBody for JSON, unlimited for Upload
}

// Option adjusts the registration of one method.
type Option func(*route)

// ReadsCredential lets the handler of an Open method see who asks: a
// credential that is shown is examined, and one that is no good is told in
// Call.CredentialErr, not refused. Without it an Open method never looks.
func ReadsCredential() Option { return func(rt *route) { rt.readsCredential = true } }

// MaxBody bounds this method's request body, in bytes, before and after
// decompression. It replaces Config.MaxBody.
func MaxBody(n int64) Option { return func(rt *route) { rt.maxBody = n } }

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
	case rt.info.Access <= Unclassified || rt.info.Access > OwnGate:
		return errors.New("the route is not classified: name its Access")
	case rt.maxBody < 0:
		return errors.New("negative body limit")
	}
	return nil
}

// verbs are the HTTP verbs that metrics tell apart.
var verbs = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true,
	http.MethodPatch: true, http.MethodDelete: true, http.MethodOptions: true,
}
