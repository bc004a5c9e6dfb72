package main

import (
	"errors"
	"io"
	"net"
	"time"
)

// Bounds of sending: a client that takes nothing for writeStall is cut off, and
// with it what its answer holds (an open blob, a place among the exports).
const (
	writeStall = 30 * time.Second
	sendChunk  = 1 << 20 // bytes of a file in one go
)

// patientListener accepts connections whose sending is bounded.
type patientListener struct{ *net.TCPListener }

// Accept implements net.Listener.
func (l patientListener) Accept() (net.Conn, error) {
	conn, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return &patientConn{TCPConn: conn, stall: writeStall}, nil
}

// patientConn gives each write a deadline of its own, so that it is the stall
// that is bounded and not the length of an answer.
type patientConn struct {
	*net.TCPConn
	stall time.Duration
}

// Write implements io.Writer.
func (c *patientConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.TCPConn.Write(p)
}

// ReadFrom implements io.ReaderFrom: the kernel sends files (sendfile(2)), in
// chunks so that each has its deadline. It takes the file out of the
// LimitedReader that http.ServeContent wraps it in: the kernel's path knows only one.
func (c *patientConn) ReadFrom(r io.Reader) (sent int64, err error) {
	source, left := r, int64(-1)
	limited, ok := r.(*io.LimitedReader)
	if ok {
		source, left = limited.R, limited.N
	}
	for left != 0 {
		chunk := &io.LimitedReader{R: source, N: sendChunk}
		if left > 0 {
			chunk.N = min(left, sendChunk)
		}
		asked := chunk.N
		if err := c.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
			return sent, err
		}
		n, err := c.TCPConn.ReadFrom(chunk)
		sent += n
		if left > 0 {
			left -= n
			limited.N = left
		}
		if err != nil || n < asked {
			return sent, err
		}
	}
	return sent, nil
}

// patient bounds the sending of a listener's connections.
func patient(listener net.Listener) (net.Listener, error) {
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return nil, errors.New("listen: want a TCP address")
	}
	return patientListener{tcp}, nil
}
