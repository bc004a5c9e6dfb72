package repostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// DryRun tells what Apply would answer to a batch just now: its error, or its
// result without a commit. It keeps nothing and announces nothing, and by the
// time the caller writes in earnest the repo may have changed.
func (s *Store) DryRun(ctx context.Context, did syntax.DID, writes []Write, opts Options) (*Result, error) {
	if len(writes) > MaxWrites {
		return nil, fmt.Errorf("%w: %d of at most %d", ErrTooManyWrites, len(writes), MaxWrites)
	}
	a := s.enter(did)
	defer s.leave(a)
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f, err := s.foundation(ctx, a)
	if err != nil {
		return nil, err
	}
	_, result, err := s.prepare(ctx, did, f, writes, opts)
	if errors.Is(err, errMoved) {
		return nil, fmt.Errorf("dry run %s: %w", did, ErrContended)
	}
	if err != nil {
		return nil, err
	}
	result.Commit = nil // it was signed and forgotten
	return result, nil
}
