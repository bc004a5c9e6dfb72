package xrpc

import (
	"io"

	"github.com/labstack/echo/v4"
)

// answer is the response writer that handlers get: echo's, which keeps status
// and size, with the ReadFrom that echo's lacks. Without it http.ServeContent
// copies a file through user space; with it the kernel sends the file
// (sendfile(2)).
type answer struct{ *echo.Response }

// ReadFrom implements io.ReaderFrom.
func (a answer) ReadFrom(r io.Reader) (int64, error) {
	if !a.Committed {
		a.WriteHeader(a.Status)
	}
	n, err := io.Copy(a.Writer, r)
	a.Size += n
	return n, err
}
