package repostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"herbarium.garden/pds/sequencer"
)

const (
	// maxBatch and maxBatchBytes bound what one transaction carries.
	maxBatch      = 64
	maxBatchBytes = 16 << 20
	// commitTimeout bounds one transaction. It does not depend on Run's ctx: a
	// commit that has begun is seen through.
	commitTimeout = 30 * time.Second
)

// errConflict says that the stored head is not the one that a chain builds on,
// or that a blob which it references went away.
var errConflict = fmt.Errorf("%w: another process moved it", errDropped)

// Run is the committer: one goroutine, which stores what waits, from all DIDs
// together, in one transaction after the other. It adds no delay: writes come
// together while the transaction before theirs runs. When ctx ends it stores
// what still waits; later writes fail with ErrClosed. An error means that the
// event log contradicts itself (sequencer.ErrSequence): the process must stop.
func (s *Store) Run(ctx context.Context) error {
	defer func() {
		for _, l := range s.queue.close() {
			s.answer(l, ErrClosed)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return s.commitWaiting(context.WithoutCancel(ctx))
		case <-s.queue.wake:
			if err := s.commitWaiting(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
	}
}

func (s *Store) commitWaiting(ctx context.Context) error {
	for {
		batch := s.queue.take(maxBatch, maxBatchBytes)
		if len(batch) == 0 {
			return nil
		}
		if err := s.commit(ctx, batch); errors.Is(err, sequencer.ErrSequence) {
			return err
		}
	}
}

// commitChain is the layers of one DID in a batch; they share a savepoint.
type commitChain struct {
	actor  *actor
	layers []*layer
	err    error
}

// commit stores a batch of layers and answers their callers. Its error is that
// of the whole transaction.
func (s *Store) commit(ctx context.Context, batch []*layer) error {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	chains := s.chains(batch)
	if len(chains) == 0 {
		return nil
	}
	appended, stored, failed := s.transact(ctx, chains, storeTogether)
	if failed != nil && !stored && len(chains) > 1 && !errors.Is(failed, sequencer.ErrSequence) {
		// Nothing of it is there. One repo's trouble must not be the others'.
		appended, _, failed = s.transact(ctx, chains, storeApart)
	}
	landed := int64(0)
	for _, c := range chains {
		if c.err == nil {
			c.err = failed
		}
		if c.err != nil {
			// The next write of this DID reads what is really stored, also when
			// a COMMIT landed whose answer was lost.
			c.actor.drop()
			if errors.Is(c.err, errConflict) {
				s.conflicts.Add(1)
			}
			continue
		}
		c.actor.publish(c.layers)
		landed += int64(len(c.layers))
	}
	if landed > 0 {
		s.commits.Add(landed)
		s.transactions.Add(1)
		s.sequencer.Published(appended)
	}
	for _, c := range chains {
		err := c.err
		if err != nil && !errors.Is(err, errDropped) {
			err = fmt.Errorf("commit %s: %w", c.actor.did, err)
		}
		for _, l := range c.layers {
			s.answer(l, err)
		}
	}
	return failed
}

// transact stores the chains and their events in one transaction. stored is
// false when the transaction ended before its COMMIT: then nothing of it landed.
func (s *Store) transact(ctx context.Context, chains []*commitChain, store func(*gorm.DB, []*commitChain) error) (appended sequencer.Batch, stored bool, err error) {
	err = s.db.Tx(ctx, func(tx *gorm.DB) error {
		if err := store(tx, chains); err != nil {
			return err
		}
		var drafts []sequencer.Draft
		for _, c := range chains {
			for _, l := range c.layers {
				if c.err == nil {
					drafts = append(drafts, l.event)
				}
			}
		}
		if len(drafts) > 0 {
			// Last: every other appender waits from here to the commit.
			var err error
			if appended, err = s.sequencer.Append(ctx, tx, drafts...); err != nil {
				return err
			}
		}
		stored = true
		return nil
	})
	return appended, stored, err
}

// answer tells a layer's caller how it ended.
func (s *Store) answer(l *layer, err error) {
	l.err = err
	close(l.done)
	s.leave(l.actor)
}

// chains groups a batch by DID and answers the layers that were dropped. The
// order of the repos is the same in every process, so that two of them on one
// Postgres do not wait for each other's row locks in a circle.
func (s *Store) chains(batch []*layer) []*commitChain {
	var chains []*commitChain
	byActor := map[*actor]*commitChain{}
	for _, l := range batch {
		if !l.actor.holds(l) {
			s.answer(l, errDropped)
			continue
		}
		c := byActor[l.actor]
		if c == nil {
			c = &commitChain{actor: l.actor}
			byActor[l.actor] = c
			chains = append(chains, c)
		}
		c.layers = append(c.layers, l)
	}
	slices.SortFunc(chains, func(a, b *commitChain) int { return cmp.Compare(a.layers[0].repoID, b.layers[0].repoID) })
	return chains
}
