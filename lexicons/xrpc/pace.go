package xrpc

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// bodyPace is the pace that a request body must keep beyond the grace, in bytes
// a second. An upload on a slow line goes on; a client that holds a connection
// with a byte now and then does not.
const bodyPace = 8 << 10

// pacedBody fails with 408 when a body comes more slowly than its pace.
type pacedBody struct {
	io.ReadCloser
	connection *http.ResponseController
	began      time.Time
	grace      time.Duration
	read       int64
}

func pace(w http.ResponseWriter, body io.ReadCloser, grace time.Duration) io.ReadCloser {
	return &pacedBody{ReadCloser: body, connection: http.NewResponseController(w), began: time.Now(), grace: grace}
}

// Read implements io.Reader. Only a connection's own clock can interrupt a
// read, so the time here is the real one.
func (b *pacedBody) Read(p []byte) (int, error) {
	// Not every writer has a connection behind it; such a one cannot stall either.
	_ = b.connection.SetReadDeadline(b.began.Add(b.grace + time.Duration(b.read/bodyPace)*time.Second))
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, Errorf(http.StatusRequestTimeout, requestTimeout, "the body comes too slowly; send at least %d bytes a second", bodyPace)
	}
	if err != nil {
		// From the end of the body on, the server itself listens for the client's leaving.
		_ = b.connection.SetReadDeadline(time.Time{})
	}
	return n, err
}

const requestTimeout = "RequestTimeout"

// tooSlow reports whether a request failed because of its pace. net/http takes
// any error of reading for the client's leaving, and ends the request's context.
func tooSlow(err error) bool {
	var answer *Error
	return errors.As(err, &answer) && answer.Name == requestTimeout
}
