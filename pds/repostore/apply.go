package repostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// maxAttempts bounds how often a batch is prepared anew after another process
// moved the head.
const maxAttempts = 8

// errDropped says that a layer, or one under it, did not land.
var errDropped = errors.New("repostore: prepared on a head that did not become one")

// Apply writes a batch as one commit, or nothing of it. The caller has
// validated each record against its lexicon and run the stateless rules; here
// run the swaps and the stateful rules (those on blobs among them), on the
// state that the batch will see.
//
// Errors: those of this package, a *lexicons.Refused of the rules. When ctx
// ends first the error is ctx's, and the batch may still land.
func (s *Store) Apply(ctx context.Context, did syntax.DID, writes []Write, opts Options) (*Result, error) {
	if len(writes) > MaxWrites {
		return nil, fmt.Errorf("%w: %d of at most %d", ErrTooManyWrites, len(writes), MaxWrites)
	}
	a := s.enter(did)
	defer s.leave(a)
	for range maxAttempts {
		result, err := s.attempt(ctx, a, writes, opts)
		if !errors.Is(err, errDropped) {
			return result, err
		}
	}
	return nil, fmt.Errorf("apply writes %s: %w", did, ErrContended)
}

// DryRun tells what Apply would answer to a batch just now: its error, or its
// result without a commit. It signs, keeps and announces nothing, and by the
// time the caller writes in earnest the repo may have changed.
func (s *Store) DryRun(ctx context.Context, did syntax.DID, writes []Write, opts Options) (*Result, error) {
	opts.dryRun = true
	return s.Apply(ctx, did, writes, opts)
}

// attempt prepares and commits a batch once. errDropped means: try again.
func (s *Store) attempt(ctx context.Context, a *actor, writes []Write, opts Options) (*Result, error) {
	f, l, result, err := s.prepareInTurn(ctx, a, writes, opts)
	if l == nil {
		// A refusal, a dry run, or nothing to do. That answer must rest on what was stored.
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if unsure := s.confirm(ctx, a, f, errors.Is(err, errMoved)); unsure != nil {
			return nil, unsure
		}
		if errors.Is(err, errMoved) {
			// The head is what we took it for, and its nodes are not there.
			return nil, fmt.Errorf("apply writes %s: %w: %w", a.did, ErrCorrupt, err)
		}
		return result, err
	}
	select {
	case <-l.done:
		if l.err != nil {
			return nil, l.err
		}
		return result, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// prepareInTurn waits for the DID's turn, prepares the batch and queues it.
// The layer is nil when the batch changes nothing, or must not, or fails.
func (s *Store) prepareInTurn(ctx context.Context, a *actor, writes []Write, opts Options) (foundation, *layer, *Result, error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return foundation{}, nil, nil, context.Cause(ctx)
	}
	f, err := s.foundation(ctx, a)
	if err != nil {
		return f, nil, nil, err
	}
	l, result, err := s.prepare(ctx, a.did, f, writes, opts)
	if err != nil || l == nil {
		return f, nil, result, err
	}
	l.actor, l.epoch, l.done = a, f.epoch, make(chan struct{})
	if !a.push(l) {
		return f, nil, nil, errDropped
	}
	s.keep(a)
	if !s.queue.push(l) {
		a.drop()
		s.leave(a)
		return f, nil, nil, ErrClosed
	}
	return f, l, result, nil
}

// confirm waits until the foundation of an answer is known to have been the
// stored state; errDropped when it was not. With again, it must still be.
func (s *Store) confirm(ctx context.Context, a *actor, f foundation, again bool) error {
	if n := len(f.layers); n > 0 {
		select {
		case <-f.layers[n-1].done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if f.layers[n-1].err != nil {
			return errDropped
		}
		f.fresh = true // when it landed
	}
	if f.fresh && !again {
		return nil
	}
	supposed := f.tip()
	row, err := reader{s.db.Read}.repo(ctx, a.did)
	if err != nil && !errors.Is(err, ErrRepoNotFound) {
		return err
	}
	if row != supposed {
		a.forgetBase(supposed)
		return errDropped
	}
	return nil
}
