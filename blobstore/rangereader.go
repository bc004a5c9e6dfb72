package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io"
)

const (
	// The first request of a rangeReader asks for so much; each further one for
	// twice the last, up to the maximum. Most blobs come with one request, a short
	// range wastes little, and a large blob costs few requests.
	firstWindow = 4 << 20
	maxWindow   = 64 << 20
	// windowAttempts is how often a window is opened without any progress.
	windowAttempts = 3
)

// rangeReader reads and seeks in an object of a bucket that can only be asked
// for ranges. It holds no data: it asks when it is read and not when it is sought,
// so that http.ServeContent costs one request for a range. A transfer that is
// cut is taken up where it stopped; the object cannot have changed, its key is
// its hash.
type rangeReader struct {
	ctx    context.Context // of the one Open: an io.Reader has no other way to get it
	bucket Bucket
	at     Object

	pos    int64         // of the next Read
	body   io.ReadCloser // of the window that is being read, at pos; nil when none is open
	left   int64         // bytes of the window that body still has
	window int64         // length of the next window
	failed int           // attempts since the last byte
}

func newRangeReader(ctx context.Context, b Bucket, at Object) *rangeReader {
	return &rangeReader{ctx: ctx, bucket: b, at: at, window: firstWindow}
}

// Seek implements io.Seeker. It asks the bucket for nothing.
func (r *rangeReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.pos
	case io.SeekEnd:
		offset += r.at.Size
	default:
		return r.pos, fmt.Errorf("seek in %s: bad whence %d", r.at.Key, whence)
	}
	if offset < 0 {
		return r.pos, fmt.Errorf("seek in %s: negative position %d", r.at.Key, offset)
	}
	if offset != r.pos {
		r.closeWindow()
		r.pos, r.window = offset, firstWindow
	}
	return r.pos, nil
}

// Read implements io.Reader.
func (r *rangeReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for r.pos < r.at.Size {
		if r.body == nil {
			if err := r.openWindow(); err != nil {
				return 0, err
			}
		}
		n, err := r.body.Read(p[:min(int64(len(p)), r.left)])
		r.pos += int64(n)
		r.left -= int64(n)
		if n > 0 {
			r.failed = 0
		}
		if r.left == 0 || err != nil {
			r.closeWindow()
		}
		if n > 0 {
			return n, nil // an error, if it matters, comes again with the next window
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the window promised more
			}
			if r.failed++; r.failed >= windowAttempts || r.ctx.Err() != nil {
				return 0, fmt.Errorf("read %s at %d: %w", r.at.Key, r.pos, err)
			}
		}
	}
	return 0, io.EOF
}

func (r *rangeReader) openWindow() error {
	length := min(r.window, r.at.Size-r.pos)
	body, err := r.bucket.Get(r.ctx, r.at.Key, r.pos, length)
	if err != nil {
		return err
	}
	r.body, r.left = body, length
	r.window = min(r.window*2, maxWindow)
	return nil
}

func (r *rangeReader) closeWindow() {
	if r.body != nil {
		_ = r.body.Close() // all that was wanted of it was read
		r.body = nil
	}
}

// Close implements io.Closer.
func (r *rangeReader) Close() error {
	r.closeWindow()
	return nil
}
