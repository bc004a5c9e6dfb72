package blobstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"time"

	"github.com/ipfs/go-cid"
)

const (
	// heldBack is how many of a blob's last bytes a verifying reader gives only
	// when it knows that all are right.
	heldBack = copyBuffer
	// A blob whose parts are read is hashed whole before. That it was right is
	// remembered for rememberFor, of at most remembered blobs.
	rememberFor = time.Hour
	remembered  = 4096
)

// OpenVerified is Open for readers that would rather have nothing than wrong
// bytes. Their error is ErrCorrupt.
//
// With whole, the caller means to read from the start to the end: the bytes are
// hashed as they are read, and the last 64 KiB come only after they and all
// before them were found right, so that a transfer with a length fails instead of
// ending well. Otherwise parts are wanted: the blob is hashed whole before
// OpenVerified returns, unless that was done in the last hour; what happens to the
// bytes within that hour is not noticed here.
func (s *Store) OpenVerified(ctx context.Context, c cid.Cid, whole bool) (io.ReadSeekCloser, error) {
	if !whole {
		if err := s.verifyOnce(ctx, c); err != nil {
			return nil, err
		}
		return s.Open(ctx, c)
	}
	r, err := s.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	want, err := digestOf(c)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	size, err := r.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = r.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open blob %s: %w", c, err), r.Close())
	}
	return &verifyingReader{ctx: ctx, store: s, cid: c, from: r, size: size, hash: sha256.New(), want: want}, nil
}

// verifyOnce is Verify, unless it was done lately.
func (s *Store) verifyOnce(ctx context.Context, c cid.Cid) error {
	if s.good.has(c, s.now()) {
		return nil
	}
	if err := s.Verify(ctx, c); err != nil {
		return err
	}
	s.good.add(c, s.now())
	return nil
}

// verifyingReader hashes what is read in order from the start.
type verifyingReader struct {
	ctx   context.Context // of the one OpenVerified
	store *Store
	cid   cid.Cid
	from  io.ReadSeekCloser
	size  int64
	hash  hash.Hash
	want  [32]byte

	pos    int64  // of the next Read
	hashed int64  // bytes that went into hash, which is where from stands
	tail   []byte // the last bytes, once they are known to be right; nil before
	good   bool   // the whole blob is right
	err    error  // why nothing more is given
}

// Seek implements io.Seeker.
func (v *verifyingReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += v.pos
	case io.SeekEnd:
		offset += v.size
	default:
		return v.pos, fmt.Errorf("seek in blob %s: bad whence %d", v.cid, whence)
	}
	if offset < 0 {
		return v.pos, fmt.Errorf("seek in blob %s: negative position %d", v.cid, offset)
	}
	v.pos = offset
	return offset, nil
}

// Read implements io.Reader.
func (v *verifyingReader) Read(p []byte) (n int, err error) {
	switch {
	case v.err != nil:
		return 0, v.err
	case v.pos >= v.size && v.size > 0:
		return 0, io.EOF
	case v.good:
		n, err = v.readGood(p)
	case v.pos == v.hashed:
		n, err = v.readOn(p)
	default: // not in order after all
		if err = v.store.verifyOnce(v.ctx, v.cid); err == nil {
			v.good = true
			n, err = v.readGood(p)
		}
	}
	v.pos += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		v.err = err
	}
	return n, err
}

// readOn reads what comes next of a blob of which all before was hashed.
func (v *verifyingReader) readOn(p []byte) (int, error) {
	if open := v.size - heldBack - v.pos; open > 0 {
		n, err := v.from.Read(p[:min(int64(len(p)), open)])
		v.hash.Write(p[:n])
		v.hashed += int64(n)
		if errors.Is(err, io.EOF) {
			err = v.corrupt("it ends after %d of %d bytes", v.hashed, v.size)
		}
		return n, err
	}
	tail := make([]byte, v.size-v.pos)
	if n, err := io.ReadFull(v.from, tail); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err = v.corrupt("it ends after %d of %d bytes", v.hashed+int64(n), v.size)
		}
		return 0, err
	}
	v.hash.Write(tail)
	if got := [32]byte(v.hash.Sum(nil)); got != v.want {
		return 0, v.corrupt("its %d bytes hash to %x", v.size, got)
	}
	v.store.good.add(v.cid, v.store.now())
	v.good, v.tail = true, tail
	return v.readGood(p)
}

// readGood reads at any place of a blob that is right.
func (v *verifyingReader) readGood(p []byte) (int, error) {
	if v.size == 0 {
		return 0, io.EOF
	}
	if start := v.size - int64(len(v.tail)); v.tail != nil && v.pos >= start {
		return bytes.NewReader(v.tail[v.pos-start:]).Read(p)
	}
	if _, err := v.from.Seek(v.pos, io.SeekStart); err != nil {
		return 0, err
	}
	return v.from.Read(p)
}

func (v *verifyingReader) corrupt(format string, args ...any) error {
	v.store.good.forget(v.cid)
	return fmt.Errorf("read blob %s: %w: %s", v.cid, ErrCorrupt, fmt.Sprintf(format, args...))
}

// Close implements io.Closer.
func (v *verifyingReader) Close() error { return v.from.Close() }

// goodBlobs remembers which blobs were right lately.
type goodBlobs struct {
	mu    sync.Mutex
	until map[cid.Cid]time.Time // guarded by mu
}

func (g *goodBlobs) has(c cid.Cid, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return now.Before(g.until[c])
}

func (g *goodBlobs) add(c cid.Cid, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.until) >= remembered {
		clear(g.until) // they are hashed once more
	}
	g.until[c] = now.Add(rememberFor)
}

func (g *goodBlobs) forget(c cid.Cid) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.until, c)
}
