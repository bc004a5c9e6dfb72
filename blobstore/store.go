package blobstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ipfs/go-cid"
)

// DefaultLimit is the largest blob that is taken when Config names no limit.
const DefaultLimit = 100 << 20

// copyBuffer is the memory that one upload or one verification holds.
const copyBuffer = 64 << 10

// Errors of Receive that are the sender's and not the store's.
var (
	// ErrTooLarge is returned for a body over the limit.
	ErrTooLarge = errors.New("blobstore: blob too large")
	// ErrSource is returned, together with what the source answered, when the body
	// could not be read to its end: a client that went away, as a rule.
	ErrSource = errors.New("blobstore: body broke off")
)

// Config is what a Store is made of.
type Config struct {
	// Bucket keeps the objects. Required.
	Bucket Bucket
	// SpoolDir is the directory in which uploads are held until their hash is
	// known; it is created (0700) when missing. On the file system of a Dir
	// bucket it spares a second copy of every blob. Required.
	SpoolDir string
	// Limit is the largest blob in bytes; 0 means DefaultLimit.
	Limit int64
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Info describes a blob that was received.
type Info struct {
	CID      cid.Cid // version 1, raw, SHA-256
	MimeType string  // see Receive
	Size     int64   // bytes
}

// Entry describes a stored blob. CID is undefined for an object below the
// prefix of a place whose key is no blob's: something that this package did not put.
type Entry struct {
	CID      cid.Cid
	Key      string
	Size     int64     // bytes
	Modified time.Time // when it was last put, or moved to where it is
}

// Store keeps blobs by CID. It is safe for concurrent use, and several
// processes may share one bucket.
type Store struct {
	bucket  Bucket
	spool   string
	limit   int64
	now     func() time.Time
	buffers sync.Pool // of *[copyBuffer]byte
	good    goodBlobs
}

// New checks the configuration, makes the spool directory and removes what a
// crash left in it.
func New(c Config) (*Store, error) {
	if c.Bucket == nil {
		return nil, errors.New("blobstore: Config.Bucket is missing")
	}
	if c.SpoolDir == "" {
		return nil, errors.New("blobstore: Config.SpoolDir is missing")
	}
	if c.Limit < 0 {
		return nil, fmt.Errorf("blobstore: Config.Limit is negative: %d", c.Limit)
	}
	if c.Limit == 0 {
		c.Limit = DefaultLimit
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if err := makeTempDir(c.SpoolDir); err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	return &Store{
		bucket:  c.Bucket,
		spool:   c.SpoolDir,
		limit:   c.Limit,
		now:     c.Now,
		good:    goodBlobs{until: map[cid.Cid]time.Time{}},
		buffers: sync.Pool{New: func() any { return new([copyBuffer]byte) }},
	}, nil
}

// Limit is the largest blob that Receive takes, in bytes.
func (s *Store) Limit() int64 { return s.limit }

// Receive reads a blob from r to its end, once, and stores it under its CID.
// When it returns nil the bytes are durable. They are written also when an object
// of that CID is there: it may be damaged, which costs a reading to find out, and
// whoever measures how long an upload takes does not learn whether somebody else
// has made it before.
//
// The type in the result is what the first bytes show when they carry the
// signature of a binary format, because a client's Content-Type is often wrong;
// otherwise it is declared, the Content-Type as sent but without parameters. An
// empty or malformed one becomes application/octet-stream. See decideType.
//
// An empty body is a valid blob: a command that printed nothing was observed
// to print nothing. (A request without any body is the caller's to refuse.)
//
// Errors: ErrTooLarge past the limit (reading stops there); ErrSource, which wraps
// what r returned; ctx's error; otherwise the spool's or the bucket's. After any of
// them nothing of this upload is left.
func (s *Store) Receive(ctx context.Context, r io.Reader, declared string) (Info, error) {
	return s.ReceiveIf(ctx, r, declared, func(Info) error { return nil })
}

// ReceiveIf is Receive for a body that is kept only if admit, which is told
// what it is, answers nil. What admit answers otherwise is the error, as it is.
func (s *Store) ReceiveIf(ctx context.Context, r io.Reader, declared string, admit func(Info) error) (Info, error) {
	spool, err := createTemp(s.spool)
	if err != nil {
		return Info{}, fmt.Errorf("spool blob: %w", err)
	}
	defer spool.discard()

	digest, size, head, err := s.fill(ctx, spool, r)
	if err != nil {
		return Info{}, err
	}
	c, err := cidFromDigest(digest)
	if err != nil {
		return Info{}, err
	}
	key, ok := Live.keyOf(c)
	if !ok {
		return Info{}, fmt.Errorf("blobstore: no key for %s", c)
	}
	info := Info{CID: c, MimeType: decideType(head, declared), Size: size}
	if err := admit(info); err != nil {
		return Info{}, err
	}

	if err := s.bucket.Put(ctx, key, spool, size, digest); err != nil {
		return Info{}, fmt.Errorf("store blob %s: %w", c, err)
	}
	return info, nil
}

// fill copies r into the spool file and gives the digest, the size and the
// first bytes of what it read.
func (s *Store) fill(ctx context.Context, spool io.Writer, r io.Reader) (digest [32]byte, size int64, head []byte, err error) {
	buffer := s.buffers.Get().(*[copyBuffer]byte)
	defer s.buffers.Put(buffer)

	hash := sha256.New()
	var first bytes.Buffer
	sniffed := &prefixWriter{to: &first, left: sniffLen}
	// One byte over the limit is enough to know that it is exceeded.
	source := &sourceReader{r: r}
	body := io.LimitReader(&contextReader{ctx: ctx, r: source}, s.limit+1)
	size, err = io.CopyBuffer(onlyWriter{io.MultiWriter(hash, sniffed, spool)}, body, buffer[:])
	switch {
	case source.err != nil:
		return digest, 0, nil, fmt.Errorf("%w after %d bytes: %w", ErrSource, size, source.err)
	case err != nil:
		return digest, 0, nil, fmt.Errorf("spool blob after %d bytes: %w", size, err)
	}
	if size > s.limit {
		return digest, 0, nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, s.limit)
	}
	hash.Sum(digest[:0])
	return digest, size, first.Bytes(), nil
}

// Open opens a blob for reading, seeking and serving by http.ServeContent; the
// caller closes it. Nothing is buffered: with Dir the reader is an *os.File, with
// S3 it asks for the range that is read. (To get sendfile(2), hand ServeContent
// the server's own http.ResponseWriter, not a wrapper without ReadFrom.)
//
// The reader's errors may come late: a bucket that fails in the middle of a
// transfer fails the Read. ctx must live as long as the reader. ErrNotFound when
// there is no such blob, or c cannot name one.
func (s *Store) Open(ctx context.Context, c cid.Cid) (io.ReadSeekCloser, error) {
	return s.openIn(ctx, Live, c)
}

func (s *Store) openIn(ctx context.Context, in Place, c cid.Cid) (io.ReadSeekCloser, error) {
	key, ok := in.keyOf(c)
	if !ok {
		return nil, fmt.Errorf("open blob %s: %w", c, ErrNotFound)
	}
	if opener, ok := s.bucket.(SeekOpener); ok {
		r, err := opener.OpenSeeker(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("open blob %s: %w", c, err)
		}
		return r, nil
	}
	at, err := s.bucket.Stat(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("open blob %s: %w", c, err)
	}
	return newRangeReader(ctx, s.bucket, at), nil
}

// Stat is StatIn of a live blob.
func (s *Store) Stat(ctx context.Context, c cid.Cid) (Entry, error) { return s.StatIn(ctx, Live, c) }

// Delete is Discard of a live blob, past the trash.
func (s *Store) Delete(ctx context.Context, c cid.Cid) error { return s.Discard(ctx, Live, c) }

// Ready reports whether the bucket answers: for readiness checks. It writes
// nothing and reads no object.
func (s *Store) Ready(ctx context.Context) error {
	// A prefix that no key has: the listing costs one empty page.
	err := s.bucket.List(ctx, "ready-check/", "", func(Object) error { return nil })
	if err != nil {
		return fmt.Errorf("reach bucket: %w", err)
	}
	return nil
}

// prefixWriter keeps the first bytes and drops the rest.
type prefixWriter struct {
	to   *bytes.Buffer
	left int
}

func (w *prefixWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.to.Write(p[:n])
	w.left -= n
	return len(p), nil
}

// sourceReader keeps the error of a source apart from those of where it is copied to.
type sourceReader struct {
	r   io.Reader
	err error // other than io.EOF
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// contextReader ends a copy between two reads when ctx does.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// onlyWriter and onlyReader hide ReadFrom and WriteTo, so that io.CopyBuffer
// uses the buffer that it is given.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)
