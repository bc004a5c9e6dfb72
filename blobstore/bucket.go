package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Errors of a Bucket. The Store passes them on, wrapped.
var (
	// ErrNotFound is returned for a key that holds no object.
	ErrNotFound = errors.New("blobstore: no such object")
	// ErrRange is returned by Bucket.Get when the range starts at or past the
	// object's end, except at 0 (an empty object can be read whole).
	ErrRange = errors.New("blobstore: range not satisfiable")
	// ErrKey is returned for a key outside the grammar of CheckKey.
	ErrKey = errors.New("blobstore: bad object key")
	// ErrCorrupt is returned when bytes and their promised SHA-256 or size do not agree.
	ErrCorrupt = errors.New("blobstore: corrupt object")
)

// Object describes a stored object.
type Object struct {
	Key      string
	Size     int64     // bytes
	Modified time.Time // when the object was last put or moved here, by the clock of whoever stores it
}

// Bucket is the small driver interface: Dir, S3 and Memory implement it and
// pass one conformance suite (blobstore/buckettest). All methods may be called
// at once from many goroutines, and by several processes on one bucket.
//
// Keys are within the grammar of CheckKey; every method answers ErrKey for
// others, so that no key reaches out of the bucket.
type Bucket interface {
	// Put stores the size bytes of r under key, replacing what is there. sha256
	// is the digest of those bytes: a driver hands it to its server where that
	// verifies it. When Put returns nil the object is durable; when it returns
	// an error a reader still finds what was there before, or (a server that
	// failed after it stored) the whole new object, never a part. A source that
	// is shorter or longer than size is an error. r is read from its start.
	Put(ctx context.Context, key string, r io.ReadSeeker, size int64, sha256 [32]byte) error
	// Get opens length bytes from offset; length < 0, or a length that reaches
	// past the end, reads to the end. The caller closes the reader.
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	// Stat describes the object under key, or answers ErrNotFound.
	Stat(ctx context.Context, key string) (Object, error)
	// Move gives the object under from the key to, replacing what is there. When
	// it returns nil that is durable. After an error (or a crash) the object is
	// under from, under to, or under both, and whole; calling Move again finishes
	// it: a missing from is no error when to is there, else ErrNotFound.
	Move(ctx context.Context, from, to string) error
	// Delete removes key; a missing key is not an error.
	Delete(ctx context.Context, key string) error
	// List calls fn for each object whose key starts with prefix, in the order
	// of the keys' bytes, starting after the given key; "" starts at the first.
	// An error of fn ends the listing and is returned as it is.
	List(ctx context.Context, prefix, after string, fn func(Object) error) error
}

// SeekOpener is what a Bucket offers in addition when it can open an object for
// seeking without cost. Store.Open then passes the reader through: for Dir it
// is an *os.File, which the net/http server sends with sendfile(2).
type SeekOpener interface {
	OpenSeeker(ctx context.Context, key string) (io.ReadSeekCloser, error)
}

// maxKeyLen keeps a key below the name limits of S3 (1,024 bytes with its
// prefix) and of file systems.
const maxKeyLen = 512

// CheckKey reports whether key is one that a Bucket takes: slash-separated
// segments of ASCII letters, digits, '-', '_' and '.', none of them empty, longer
// than 255 bytes or starting with a dot. That leaves no "..", no absolute path and
// no way to name a driver's own files. The error is ErrKey.
func CheckKey(key string) error {
	if key == "" || len(key) > maxKeyLen {
		return fmt.Errorf("%w: length %d", ErrKey, len(key))
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment[0] == '.' || len(segment) > 255 {
			return fmt.Errorf("%w: %q", ErrKey, key)
		}
		for _, c := range []byte(segment) {
			if !isKeyByte(c) {
				return fmt.Errorf("%w: %q", ErrKey, key)
			}
		}
	}
	return nil
}

func isKeyByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

// bounds turns the offset and length of Bucket.Get into a half-open interval of
// an object of the given size.
func bounds(size, offset, length int64) (from, to int64, err error) {
	if offset < 0 || offset > 0 && offset >= size {
		return 0, 0, fmt.Errorf("%w: offset %d of %d bytes", ErrRange, offset, size)
	}
	if length < 0 || length > size-offset {
		return offset, size, nil
	}
	return offset, offset + length, nil
}

// copyExactly copies r, from its start to its end, and fails unless that was
// size bytes.
func copyExactly(ctx context.Context, w io.Writer, r io.ReadSeeker, size int64) error {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	n, err := io.Copy(w, io.LimitReader(&contextReader{ctx: ctx, r: r}, size+1))
	if err != nil {
		return err
	}
	if n != size {
		return fmt.Errorf("%w: source does not have the %d bytes that it should", ErrCorrupt, size)
	}
	return nil
}
