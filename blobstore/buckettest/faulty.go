package buckettest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"sync"

	"herbarium.garden/blobstore"
)

// Fault is what goes wrong with one call of a Faulty bucket.
type Fault int

// The faults.
const (
	None      Fault = iota
	Refused         // an error, and nothing was done
	Hangs           // nothing happens until the context ends
	Cut             // of a Get: the body breaks off in the middle; of a List: after one object
	Persisted       // an error, although it was done
	Half            // of a Move: the object has its new key and has kept the old one
)

func (f Fault) String() string {
	return [...]string{"none", "refused", "hangs", "cut", "failed but persisted", "half done"}[f]
}

// ErrFault is the error of an injected fault.
var ErrFault = errors.New("injected fault")

// Op names a method of a bucket.
type Op string

// The methods.
const (
	Put    Op = "put"
	Get    Op = "get"
	Stat   Op = "stat"
	Move   Op = "move"
	Delete Op = "delete"
	List   Op = "list"
)

// Faulty is a bucket that fails as it is told. It has no OpenSeeker: what is read
// of it comes in ranges, as from S3.
type Faulty struct {
	inner blobstore.Bucket

	mu     sync.Mutex
	decide func(op Op, key string) Fault // guarded by mu
	calls  []Op                          // guarded by mu
}

// NewFaulty makes a bucket that fails never, until Fail is called.
func NewFaulty(inner blobstore.Bucket) *Faulty {
	return &Faulty{inner: inner, decide: func(Op, string) Fault { return None }}
}

// Fail sets what goes wrong from now on, and forgets the calls.
func (f *Faulty) Fail(decide func(op Op, key string) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decide, f.calls = decide, nil
}

// FailOn lets every call of one method go wrong.
func (f *Faulty) FailOn(op Op, fault Fault) {
	f.Fail(func(called Op, _ string) Fault {
		if called == op {
			return fault
		}
		return None
	})
}

// Heal ends all faults.
func (f *Faulty) Heal() { f.Fail(func(Op, string) Fault { return None }) }

// Calls lists the methods that were called since Fail.
func (f *Faulty) Calls() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Op(nil), f.calls...)
}

// meet decides about one call. over says that the call is, with err.
func (f *Faulty) meet(ctx context.Context, op Op, key string) (fault Fault, err error, over bool) { //nolint:revive // what over means
	f.mu.Lock()
	f.calls = append(f.calls, op)
	fault = f.decide(op, key)
	f.mu.Unlock()
	switch fault {
	case Refused:
		return fault, ErrFault, true
	case Hangs:
		<-ctx.Done()
		return fault, ctx.Err(), true
	default:
		return fault, nil, false
	}
}

// Put implements blobstore.Bucket.
func (f *Faulty) Put(ctx context.Context, key string, r io.ReadSeeker, size int64, digest [32]byte) error {
	fault, err, done := f.meet(ctx, Put, key)
	if done {
		return err
	}
	return errors.Join(f.inner.Put(ctx, key, r, size, digest), failed(fault))
}

// failed is the error of a call that was done.
func failed(fault Fault) error {
	if fault == Persisted {
		return ErrFault
	}
	return nil
}

// Get implements blobstore.Bucket.
func (f *Faulty) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	fault, err, done := f.meet(ctx, Get, key)
	if done {
		return nil, err
	}
	r, err := f.inner.Get(ctx, key, offset, length)
	if err != nil || fault != Cut {
		return r, err
	}
	return cutReader{r, io.LimitReader(r, (length+1)/2)}, nil
}

// cutReader fails where its first half ends.
type cutReader struct {
	io.Closer
	half io.Reader
}

func (c cutReader) Read(p []byte) (int, error) {
	n, err := c.half.Read(p)
	if errors.Is(err, io.EOF) {
		err = ErrFault
	}
	return n, err
}

// Stat implements blobstore.Bucket.
func (f *Faulty) Stat(ctx context.Context, key string) (blobstore.Object, error) {
	if _, err, done := f.meet(ctx, Stat, key); done {
		return blobstore.Object{}, err
	}
	return f.inner.Stat(ctx, key)
}

// Move implements blobstore.Bucket.
func (f *Faulty) Move(ctx context.Context, from, to string) error {
	fault, err, done := f.meet(ctx, Move, from)
	if done {
		return err
	}
	if fault != Half {
		return errors.Join(f.inner.Move(ctx, from, to), failed(fault))
	}
	r, err := f.inner.Get(ctx, from, 0, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	data, err := io.ReadAll(r) // a test's object
	if err != nil {
		return err
	}
	return errors.Join(f.inner.Put(ctx, to, bytes.NewReader(data), int64(len(data)), sha256.Sum256(data)), ErrFault)
}

// Delete implements blobstore.Bucket.
func (f *Faulty) Delete(ctx context.Context, key string) error {
	fault, err, done := f.meet(ctx, Delete, key)
	if done {
		return err
	}
	return errors.Join(f.inner.Delete(ctx, key), failed(fault))
}

// List implements blobstore.Bucket. Cut ends it after the first object.
func (f *Faulty) List(ctx context.Context, prefix, after string, fn func(blobstore.Object) error) error {
	fault, err, done := f.meet(ctx, List, prefix)
	if done {
		return err
	}
	return f.inner.List(ctx, prefix, after, func(o blobstore.Object) error {
		if err := fn(o); err != nil || fault != Cut {
			return err
		}
		return ErrFault
	})
}
