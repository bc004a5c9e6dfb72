package repostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/pds/sequencer"
)

// importTimeout bounds the transaction of an import. On SQLite every other
// write waits for it, so it is shorter than what those wait (commitTimeout).
const importTimeout = 25 * time.Second

// mostRefusedImports bounds the records that a refused import lists.
const mostRefusedImports = 100

// ImportOptions are the caller's part in an import.
type ImportOptions struct {
	// Keys are the DID's, present and past: one of them has signed the CAR's commit.
	Keys []atcrypto.PublicKey
	// Announce decides, in the import's transaction with the repo locked (tx),
	// whether a #sync tells the world: not of an account that is not active, and
	// never when it is nil.
	// SyncDraft, which announces an activation, takes the same lock.
	Announce func(ctx context.Context, tx *gorm.DB) (bool, error)
	// Policy is what the repo may be made to hold: an import is judged by what it
	// changes, and by the records that are there in the end.
	Policy Policy
	// Remark, when set, is given each record of the CAR once, before anything is stored.
	Remark func(record *lexicons.Record, rkey syntax.RecordKey)
}

// ImportResult is what an import did.
type ImportResult struct {
	Commit                    *CommitMeta // the new head; nil when the repo was that already
	Created, Updated, Deleted int
}

// Import makes the repo of did what a CAR says: the whole of it, in one commit
// that is signed with our key on top of our head, or nothing. The CAR is read
// to disk, hashed, and checked whole (one root, a commit of did signed by one
// of the keys, a complete canonical tree, every record atproto data) before
// the repo is touched; what is wrong with it is an ErrBadCAR. Then, in one
// transaction: an observation or a turn that the rules protect is not altered,
// none that was deleted comes back, and nothing changes that the policy keeps
// (*lexicons.Refused, which lists them); a protected record that the CAR leaves
// out is deleted with a tombstone. Of the rules on records no others are asked,
// nor is their lexicon.
//
// There is no #commit: an import may be far larger than an event, and a
// consumer that has seen none of it learns as much from a #sync, which comes
// at once or, for an account that is not active, with its activation.
// References to blobs that are not here wait for their upload (MissingBlobs).
//
// In memory it takes some 100 bytes for each block, not the blocks; two run at
// once. On SQLite it holds up all other writes for the time of its
// transaction, at most importTimeout.
func (s *Store) Import(ctx context.Context, did syntax.DID, car io.Reader, opts ImportOptions) (_ *ImportResult, err error) {
	select {
	case s.imports <- struct{}{}:
		defer func() { <-s.imports }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	spooled, err := newSpool(s.spool, car)
	if err != nil {
		return nil, fmt.Errorf("import repo %s: %w", did, err)
	}
	defer func() { err = errors.Join(err, spooled.Close()) }()
	foreign, err := s.checkForeign(ctx, did, spooled, opts)
	if err != nil {
		return nil, fmt.Errorf("import repo %s: %w", did, err)
	}
	a := s.enter(did)
	defer s.leave(a)
	if err := a.settle(ctx); err != nil {
		return nil, err
	}
	defer func() { <-a.turn }()
	// Whatever comes of it, the next write reads what is stored.
	defer a.drop()
	repoID, result, err := s.replace(ctx, foreign, opts)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrImportSlow, err)
	}
	if err == nil && result.Commit != nil {
		err = s.adopt(ctx, repoID)
	}
	if err != nil {
		return nil, fmt.Errorf("import repo %s: %w", did, err)
	}
	return result, nil
}

// checkForeign checks a CAR from its commit to its last record.
func (s *Store) checkForeign(ctx context.Context, did syntax.DID, spooled *spool, opts ImportOptions) (*foreignRepo, error) {
	foreign, err := openForeign(did, spooled, opts.Keys)
	if err != nil {
		return nil, err
	}
	if foreign.rev.Time().After(s.now().Add(maxRevAhead)) {
		return nil, fmt.Errorf("%w: its rev %s is of %s; set the clock of the host that made it", ErrBadCAR, foreign.rev, foreign.rev.Time().Format(time.RFC3339))
	}
	purged, err := reader{s.db.Read}.purgedCIDs(ctx)
	if err != nil {
		return nil, err
	}
	foreign.purged = len(purged)
	return foreign, foreign.walk(visitor{
		node: func(position, cid.Cid, []byte) error { return context.Cause(ctx) },
		record: func(path string, c cid.Cid) error {
			foreign.count++
			record, rkey, err := foreign.record(path, c)
			if err == nil {
				err = refusePurged(record, purged)
			}
			if err == nil && opts.Remark != nil {
				opts.Remark(record, rkey)
			}
			return err
		},
	})
}

// settle takes the DID's turn and waits until nothing of it is on its way to
// the tables. The caller gives the turn back.
func (a *actor) settle(ctx context.Context) error {
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	a.mu.Lock()
	layers := slices.Clone(a.layers)
	a.mu.Unlock()
	if n := len(layers); n > 0 {
		select {
		case <-layers[n-1].done: // landed or not: the tables will tell
		case <-ctx.Done():
			<-a.turn
			return context.Cause(ctx)
		}
	}
	return nil
}

// replace stores a repo that was checked in the place of what stands there.
func (s *Store) replace(ctx context.Context, foreign *foreignRepo, opts ImportOptions) (repoID int64, result *ImportResult, err error) {
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	key, err := s.keys.SigningKey(ctx, foreign.did)
	if err != nil {
		return 0, nil, fmt.Errorf("signing key: %w", err)
	}
	var appended sequencer.Batch
	err = s.db.Tx(ctx, func(tx *gorm.DB) error {
		// First the row that each commit compares and sets: from here on none lands beside this one.
		row, err := reader{tx}.lockedRepo(ctx, foreign.did)
		if err != nil {
			return err
		}
		repoID, result = row.id, &ImportResult{}
		if row.Data == foreign.root {
			return nil
		}
		if now, err := (reader{tx}).purgedCIDs(ctx); err != nil {
			return err
		} else if len(now) != foreign.purged {
			return fmt.Errorf("%w: something was purged during the import", ErrContended)
		}
		if err := opts.Policy.checkRecords(row.records, foreign.count); err != nil {
			return err
		}
		now := s.now()
		rev, err := nextRev(max(row.Rev, foreign.rev), now)
		if err != nil {
			return err
		}
		commit, err := signCommit(repo.Commit{DID: string(foreign.did), Version: repo.ATPROTO_REPO_VERSION, Data: foreign.root, Rev: string(rev)}, key)
		if err != nil {
			return err
		}
		r := replacement{store: s, tx: tx, policy: opts.Policy, foreign: foreign, repoID: row.id, rev: rev, now: now, result: result}
		if err := r.run(ctx); err != nil {
			return err
		}
		err = moveHead(tx, []*layer{{
			repoID: row.id, base: row.Head, baseCount: row.records, head: Head{Commit: commit.cid, Rev: rev, Data: foreign.root}, commitBlock: commit.raw, count: foreign.count,
		}})
		if err != nil {
			return err
		}
		result.Commit = &CommitMeta{CID: commit.cid, Rev: rev}
		if opts.Announce == nil {
			return nil
		}
		if announced, err := opts.Announce(ctx, tx); err != nil || !announced {
			return err
		}
		car, err := eventCAR(commit, nil, nil)
		if err != nil {
			return err
		}
		appended, err = s.sequencer.Append(ctx, tx, sequencer.SyncDraft{DID: foreign.did, Rev: rev, Blocks: car})
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	s.sequencer.Published(appended)
	return repoID, result, nil
}

// lockedRepo reads a repo's row so that no commit of another process lands
// before the end of the transaction.
func (r reader) lockedRepo(ctx context.Context, did syntax.DID) (repoRow, error) {
	// An update that changes nothing is the lock that both dialects have.
	if err := r.db.WithContext(ctx).Exec("UPDATE repos SET head = head WHERE did = ?", string(did)).Error; err != nil {
		return repoRow{}, fmt.Errorf("lock repo %s: %w", did, err)
	}
	return r.repo(ctx, did)
}

// comparePositions orders positions as the tables and a walk do.
func comparePositions(lower string, height int, at position) int {
	return cmp.Or(cmp.Compare(lower, at.lower), cmp.Compare(at.height, height))
}
