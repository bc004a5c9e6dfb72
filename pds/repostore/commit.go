package repostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
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
	var appended sequencer.Batch
	failed := s.db.Tx(ctx, func(tx *gorm.DB) error {
		var drafts []sequencer.Draft
		for _, c := range chains {
			if c.err = migrations.Savepoint(tx, func() error { return storeChain(tx, c.layers) }); c.err != nil {
				continue
			}
			for _, l := range c.layers {
				drafts = append(drafts, l.event)
			}
		}
		if len(drafts) == 0 {
			return nil
		}
		var err error
		// Last: every other appender waits from here to the commit.
		appended, err = s.sequencer.Append(ctx, tx, drafts...)
		return err
	})
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

// Statements of a commit.
var (
	insertNodes = newInsertion("nodes (repo_id, lower_key, height, cid, rev, block)", nodeColumns,
		" ON CONFLICT (repo_id, lower_key, height) DO UPDATE SET cid = excluded.cid, rev = excluded.rev, block = excluded.block")
	insertRecords = newInsertion("records (repo_id, path, cid, rev, block)", recordColumns,
		" ON CONFLICT (repo_id, path) DO UPDATE SET cid = excluded.cid, rev = excluded.rev, block = excluded.block")
	insertBlobRefs = newInsertion("blob_refs (repo_id, cid, path, rev)", blobRefColumns,
		" ON CONFLICT (repo_id, cid, path) DO UPDATE SET rev = excluded.rev")
)

const (
	nodeColumns    = 6
	recordColumns  = 5
	blobRefColumns = 4
)

// storeChain stores consecutive commits of one repo, if the first of them
// builds on the stored head.
func storeChain(tx *gorm.DB, layers []*layer) error {
	first, last := layers[0], layers[len(layers)-1]
	moved := tx.Exec("UPDATE repos SET head = ?, rev = ?, data = ?, commit_block = ? WHERE id = ? AND head = ?",
		last.head.Commit.Bytes(), string(last.head.Rev), last.head.Data.Bytes(), last.commitBlock, first.repoID, first.base.Commit.Bytes())
	if moved.Error != nil {
		return fmt.Errorf("move head: %w", moved.Error)
	}
	if moved.RowsAffected != 1 {
		return errConflict
	}
	did, sum := first.event.DID, mergeLayers(layers)
	if err := storeNodes(tx, first.repoID, sum.nodes); err != nil {
		return fmt.Errorf("store MST: %w", err)
	}
	if err := storeRecords(tx, first.repoID, sum.records); err != nil {
		return err
	}
	for path, stone := range sum.tombstones {
		var err error
		if stone == nil {
			err = tx.Exec("DELETE FROM tombstones WHERE did = ? AND path = ?", string(did), path).Error
		} else {
			err = tx.Exec(`INSERT INTO tombstones (did, path, cid, deleted_at) VALUES (?, ?, ?, ?)
				ON CONFLICT (did, path) DO UPDATE SET cid = excluded.cid, deleted_at = excluded.deleted_at`,
				string(did), path, stone.CID.Bytes(), migrations.FormatTime(stone.DeletedAt)).Error
		}
		if err != nil {
			return fmt.Errorf("store tombstone: %w", err)
		}
	}
	for path, ref := range sum.edges {
		err := tx.Exec(`INSERT INTO supersedes (did, successor, target, target_cid) VALUES (?, ?, ?, ?)
			ON CONFLICT (did, successor) DO UPDATE SET target = excluded.target, target_cid = excluded.target_cid`,
			string(did), path, string(ref.URI), ref.CID.Bytes()).Error
		if err != nil {
			return fmt.Errorf("store supersedes: %w", err)
		}
	}
	return nil
}

func storeNodes(tx *gorm.DB, repoID int64, nodes map[position]nodeAt) error {
	args := make([]any, 0, nodeColumns*len(nodes))
	for pos, n := range nodes {
		if n.storedNode != nil {
			args = append(args, repoID, pos.lower, pos.height, n.cid.Bytes(), string(n.rev), n.block)
			continue
		}
		if err := tx.Exec("DELETE FROM nodes WHERE repo_id = ? AND lower_key = ? AND height = ?", repoID, pos.lower, pos.height).Error; err != nil {
			return err
		}
	}
	return insertNodes.run(tx, nodeColumns, args)
}

func storeRecords(tx *gorm.DB, repoID int64, records map[string]*recordChange) error {
	var rows, refs []any
	for path, change := range records {
		if !change.fresh {
			if err := tx.Exec("DELETE FROM blob_refs WHERE repo_id = ? AND path = ?", repoID, path).Error; err != nil {
				return fmt.Errorf("drop blob references: %w", err)
			}
		}
		if change.deleted() {
			if err := tx.Exec("DELETE FROM records WHERE repo_id = ? AND path = ?", repoID, path).Error; err != nil {
				return fmt.Errorf("delete record: %w", err)
			}
			continue
		}
		rows = append(rows, repoID, path, change.cid.Bytes(), string(change.rev), change.cbor)
		seen := make(map[cid.Cid]struct{}, len(change.blobs))
		for _, ref := range change.blobs {
			if _, twice := seen[ref.CID]; twice {
				continue
			}
			seen[ref.CID] = struct{}{}
			refs = append(refs, repoID, ref.CID.Bytes(), path, string(change.rev))
		}
	}
	if err := insertRecords.run(tx, recordColumns, rows); err != nil {
		return fmt.Errorf("store records: %w", err)
	}
	if err := insertBlobRefs.run(tx, blobRefColumns, refs); err != nil {
		if errors.Is(err, gorm.ErrForeignKeyViolated) {
			// A sweep took the blob after it was looked up: prepare again and say so.
			return errConflict
		}
		return fmt.Errorf("store blob references: %w", err)
	}
	return nil
}
