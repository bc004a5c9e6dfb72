package blobstore

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrNotFound is returned by a Bucket for a key that holds no object.
var ErrNotFound = errors.New("blobstore: no such object")

// ErrRange is returned by Bucket.Get when the range starts past the object's end.
var ErrRange = errors.New("blobstore: range not satisfiable")

// Object describes a stored object.
type Object struct {
	Key      string
	Size     int64
	Modified time.Time
}

// Bucket is the small driver interface: Dir, S3 and Memory implement it and
// pass one conformance suite. When Put returns nil the object is durable;
// putting the same key again with the same bytes is not an error.
type Bucket interface {
	// Put stores size bytes of r under key. sha256 is the digest of those bytes,
	// which a driver hands to its server where that verifies it.
	Put(ctx context.Context, key string, r io.ReadSeeker, size int64, sha256 [32]byte) error
	// Get opens length bytes from offset; length < 0 reads to the end.
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	Stat(ctx context.Context, key string) (Object, error)
	// Delete removes key; a missing key is not an error.
	Delete(ctx context.Context, key string) error
	// List calls fn for each object whose key starts with prefix, in key order,
	// starting after the given key.
	List(ctx context.Context, prefix, after string, fn func(Object) error) error
}
