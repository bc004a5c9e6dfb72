package xrpc

import (
	"fmt"

	"herbarium.garden/lexicons"
)

// Error is an answer to a client that says no: HTTP status, the stable error
// name, a message that ends in the repair, and the findings behind it. Any
// other error that a handler returns is answered as 500 InternalServerError
// without its text, and logged once.
type Error struct {
	Status   int
	Name     string
	Message  string
	Findings []lexicons.Finding
	Header   map[string]string // extra response headers, such as ratelimit-reset
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Name, e.Message) }

// Errorf makes an Error with a formatted message.
func Errorf(status int, name, format string, args ...any) *Error {
	return &Error{Status: status, Name: name, Message: fmt.Sprintf(format, args...)}
}

// InvalidRequest is the 400 of anything wrong with parameters or body.
func InvalidRequest(format string, args ...any) *Error {
	return Errorf(400, "InvalidRequest", format, args...)
}
