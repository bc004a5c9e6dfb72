package blobstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/ipfs/go-cid"
)

// What collection, fsck and the scrubber need of a Store. It knows no
// references: that nothing refers to a blob is for the caller to make sure, under
// the lock that uploads and references of that CID take too, before it calls
// Trash; and to look again before Discard. Each step can be repeated after a
// crash, and says the same as if it had been done once.
//
//	Live --Trash--> Trash --Discard--> gone
//	     <-Restore--
//	Live --Isolate--> Quarantine --Discard--> gone
//
// An upload of the same bytes makes the blob live again whatever became of it;
// what is left of it elsewhere does no harm.

// Trash takes a live blob out of service. It can be restored until it is
// discarded. A blob that is in the trash already is no error; ErrNotFound when it
// is in neither place.
func (s *Store) Trash(ctx context.Context, c cid.Cid) error {
	return s.move(ctx, c, Live, Trash)
}

// Restore makes a blob live again. When a live one is there too (an upload came
// in between) that one stays and the other goes. ErrNotFound when it is in
// neither place.
func (s *Store) Restore(ctx context.Context, c cid.Cid) error {
	trashed, err := s.StatIn(ctx, Trash, c)
	if errors.Is(err, ErrNotFound) {
		_, err = s.StatIn(ctx, Live, c)
		return err
	}
	if err != nil {
		return err
	}
	live, err := s.StatIn(ctx, Live, c)
	switch {
	case err == nil && live.Size == trashed.Size:
		return s.Discard(ctx, Trash, c)
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	}
	return s.move(ctx, c, Trash, Live)
}

// Isolate takes a live blob whose bytes are not what its CID says out of
// service and keeps them for people to look at: see Rehash. It replaces what the
// quarantine has of the same CID.
func (s *Store) Isolate(ctx context.Context, c cid.Cid) error {
	return s.move(ctx, c, Live, Quarantine)
}

// Discard removes a blob from one place for good; one that is not there is no
// error.
func (s *Store) Discard(ctx context.Context, from Place, c cid.Cid) error {
	key, ok := from.keyOf(c)
	if !ok {
		return nil
	}
	if err := s.bucket.Delete(ctx, key); err != nil {
		return fmt.Errorf("delete blob %s from %s: %w", c, from, err)
	}
	return nil
}

func (s *Store) move(ctx context.Context, c cid.Cid, from, to Place) error {
	source, ok := from.keyOf(c)
	if !ok {
		return fmt.Errorf("move blob %s to %s: %w", c, to, ErrNotFound)
	}
	target, _ := to.keyOf(c)
	if err := s.bucket.Move(ctx, source, target); err != nil {
		return fmt.Errorf("move blob %s to %s: %w", c, to, err)
	}
	return nil
}

// StatIn describes a blob in a place, or answers ErrNotFound. It does not read it.
func (s *Store) StatIn(ctx context.Context, in Place, c cid.Cid) (Entry, error) {
	key, ok := in.keyOf(c)
	if !ok {
		return Entry{}, fmt.Errorf("stat blob %s: %w", c, ErrNotFound)
	}
	at, err := s.bucket.Stat(ctx, key)
	if err != nil {
		return Entry{}, fmt.Errorf("stat blob %s in %s: %w", c, in, err)
	}
	return Entry{CID: c, Key: key, Size: at.Size, Modified: at.Modified}, nil
}

// Walk calls fn for every live blob in the order of its key, starting after the
// given key ("" for the first; the Key of the last Entry to go on). An error of
// fn ends the walk and is returned as it is.
func (s *Store) Walk(ctx context.Context, after string, fn func(Entry) error) error {
	return s.WalkIn(ctx, Live, after, fn)
}

// WalkIn is Walk over a place.
func (s *Store) WalkIn(ctx context.Context, in Place, after string, fn func(Entry) error) error {
	return s.bucket.List(ctx, string(in), after, func(at Object) error {
		c, _ := in.cidOf(at.Key)
		return fn(Entry{CID: c, Key: at.Key, Size: at.Size, Modified: at.Modified})
	})
}

// Verify is Rehash of a live blob, as fast as it goes.
func (s *Store) Verify(ctx context.Context, c cid.Cid) error {
	_, err := s.Rehash(ctx, Live, c, nil)
	return err
}

// Rehash reads a blob to its end and compares its bytes with its CID. It answers
// how many there were, and nil, ErrNotFound, ErrCorrupt (the message has the
// digest that was found), or the bucket's error when it could not be read, which
// says nothing about the bytes.
//
// pace, when not nil, is told before each read of how many bytes it is of at
// most, and may wait: the WaitN of a rate.Limiter with a burst of 64 KiB or more
// bounds the bytes per second. Its error ends the reading.
func (s *Store) Rehash(ctx context.Context, in Place, c cid.Cid, pace func(ctx context.Context, bytes int) error) (size int64, err error) {
	want, err := digestOf(c)
	if err != nil || !isBlobCID(c) {
		return 0, fmt.Errorf("verify blob %s: %w", c, ErrNotFound)
	}
	r, err := s.openIn(ctx, in, c)
	if err != nil {
		return 0, fmt.Errorf("verify: %w", err)
	}
	defer r.Close()
	hash := sha256.New()
	size, err = s.copy(hash, &pacedReader{ctx: ctx, r: r, pace: pace})
	if err != nil {
		return size, fmt.Errorf("verify blob %s after %d bytes: %w", c, size, err)
	}
	if got := [32]byte(hash.Sum(nil)); got != want {
		s.good.forget(c)
		return size, fmt.Errorf("verify blob %s: %w: its %d bytes hash to %x", c, ErrCorrupt, size, got)
	}
	return size, nil
}

// Repair takes a blob from another store, a backup for one, when its bytes there
// are what its CID says (else ErrCorrupt, and nothing changes), and makes it live
// here in the place of what is there. When the bytes were found right it asks claim,
// whose error ends it, as it is.
func (s *Store) Repair(ctx context.Context, c cid.Cid, from *Store, claim func() error) error {
	want, err := digestOf(c)
	if err != nil || !isBlobCID(c) {
		return fmt.Errorf("repair blob %s: %w", c, ErrNotFound)
	}
	good, err := from.Open(ctx, c)
	if err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	defer good.Close()
	spool, err := createTemp(s.spool)
	if err != nil {
		return fmt.Errorf("spool blob: %w", err)
	}
	defer spool.discard()
	hash := sha256.New()
	size, err := s.copy(io.MultiWriter(hash, spool), &contextReader{ctx: ctx, r: good})
	if err != nil {
		return fmt.Errorf("repair blob %s: %w", c, err)
	}
	if got := [32]byte(hash.Sum(nil)); got != want {
		return fmt.Errorf("repair blob %s: %w: the other store's %d bytes hash to %x", c, ErrCorrupt, size, got)
	}
	if err := claim(); err != nil {
		return err
	}
	key, _ := Live.keyOf(c)
	if err := s.bucket.Put(ctx, key, spool, size, want); err != nil {
		return fmt.Errorf("repair blob %s: %w", c, err)
	}
	return nil
}

// copy is io.Copy through one of the store's buffers.
func (s *Store) copy(w io.Writer, r io.Reader) (int64, error) {
	buffer := s.buffers.Get().(*[copyBuffer]byte)
	defer s.buffers.Put(buffer)
	return io.CopyBuffer(onlyWriter{w}, onlyReader{r}, buffer[:])
}

// pacedReader asks before each read.
type pacedReader struct {
	ctx  context.Context // of the one Rehash
	r    io.Reader
	pace func(ctx context.Context, bytes int) error
}

func (p *pacedReader) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	if p.pace != nil {
		if err := p.pace(p.ctx, len(b)); err != nil {
			return 0, err
		}
	}
	return p.r.Read(b)
}
