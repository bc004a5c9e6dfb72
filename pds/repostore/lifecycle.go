package repostore

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/repo/mst"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/sequencer"
)

// CreateRepo makes the empty repo of did with its first commit, inside the
// caller's transaction (tx). The caller appends the drafts (#commit, #sync),
// after #identity and #account, as the last statement of that transaction.
// ErrRepoExists.
func (s *Store) CreateRepo(ctx context.Context, tx *gorm.DB, did syntax.DID, key atcrypto.PrivateKey) (Head, []sequencer.Draft, error) {
	tx = tx.WithContext(ctx)
	now := s.now()
	empty := mst.NodeData{Entries: []mst.EntryData{}}
	root, data, err := empty.Bytes()
	if err != nil {
		return Head{}, nil, fmt.Errorf("create repo %s: %w", did, err)
	}
	head := Head{Rev: syntax.NewTIDFromTime(now, rand.UintN(1<<10)), Data: *data}
	commit, err := signCommit(repo.Commit{DID: string(did), Version: repo.ATPROTO_REPO_VERSION, Data: head.Data, Rev: string(head.Rev)}, key)
	if err != nil {
		return Head{}, nil, fmt.Errorf("create repo %s: %w", did, err)
	}
	head.Commit = commit.cid
	var id int64
	inserted, err := one(tx, `INSERT INTO repos (did, head, rev, data, commit_block) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (did) DO NOTHING RETURNING id`, []any{string(did), head.Commit.Bytes(), string(head.Rev), head.Data.Bytes(), commit.raw}, &id)
	if err != nil {
		return Head{}, nil, fmt.Errorf("create repo %s: %w", did, err)
	}
	if !inserted {
		return Head{}, nil, fmt.Errorf("%w: %s", ErrRepoExists, did)
	}
	if err := insertNodes.run(tx, []any{id, "", 0, head.Data.Bytes(), string(head.Rev), root}); err != nil {
		return Head{}, nil, fmt.Errorf("create repo %s: %w", did, err)
	}
	car, err := eventCAR(commit, []block{{head.Data, root}}, nil)
	if err != nil {
		return Head{}, nil, fmt.Errorf("create repo %s: %w", did, err)
	}
	alone, err := eventCAR(commit, nil, nil)
	if err != nil {
		return Head{}, nil, fmt.Errorf("create repo %s: %w", did, err)
	}
	return head, []sequencer.Draft{
		sequencer.CommitDraft{DID: did, Rev: head.Rev, Commit: head.Commit, Blocks: car, Time: now},
		sequencer.SyncDraft{DID: did, Rev: head.Rev, Blocks: alone},
	}, nil
}

// SyncDraft makes the #sync that says what the repo of did is now, inside the
// caller's transaction (tx): for the activation of an account. It locks the
// repo, so that an import either comes before it, and is in it, or finds the
// account active. ErrRepoNotFound.
func (s *Store) SyncDraft(ctx context.Context, tx *gorm.DB, did syntax.DID) (sequencer.SyncDraft, error) {
	row, err := reader{tx}.lockedRepo(ctx, did)
	if err != nil {
		return sequencer.SyncDraft{}, err
	}
	raw, err := reader{tx}.commitBlock(ctx, row.id)
	if err != nil {
		return sequencer.SyncDraft{}, fmt.Errorf("read commit of %s: %w", did, err)
	}
	car, err := eventCAR(block{row.Commit, raw}, nil, nil)
	return sequencer.SyncDraft{DID: did, Rev: row.Rev, Blocks: car}, err
}

// DeleteRepo removes the repo of did with its records, inside the caller's
// transaction (tx). Its blobs nobody can read any more; a collection takes them.
// Tombstones stay, and each record that the
// rules protect becomes one, so that a later repo of the same DID cannot
// revive it. A DID without a repo is not an error. In that transaction it comes
// before anything of the sequencer's: commits lock the repo first and the
// sequence last.
func (s *Store) DeleteRepo(ctx context.Context, tx *gorm.DB, did syntax.DID) error {
	tx = tx.WithContext(ctx)
	var id int64
	// First the row that each commit compares and sets: from here on none of this repo lands.
	found, err := one(tx, "DELETE FROM repos WHERE did = ? RETURNING id", []any{string(did)}, &id)
	if err != nil {
		return fmt.Errorf("delete repo %s: %w", did, err)
	}
	if !found {
		return nil
	}
	collections, err := reader{tx}.collections(ctx, id)
	if err != nil {
		return fmt.Errorf("delete repo %s: %w", did, err)
	}
	for _, collection := range collections {
		if !lexicons.Enforced(collection) {
			continue
		}
		from, to := pathsOf(collection)
		err := tx.Exec(`INSERT INTO tombstones (did, path, cid, deleted_at)
			SELECT ?, path, cid, ? FROM records WHERE repo_id = ? AND path > ? AND path < ?
			ON CONFLICT (did, path) DO UPDATE SET cid = excluded.cid, deleted_at = excluded.deleted_at`,
			string(did), migrations.FormatTime(s.now()), id, from, to).Error
		if err != nil {
			return fmt.Errorf("delete repo %s: leave tombstones: %w", did, err)
		}
	}
	// The rows of its blobs stay for their grace, which begins now: they keep the
	// bytes, should the account have been the last that has them.
	if err := tx.Exec("UPDATE blobs SET uploaded_at = ? WHERE repo_id = ?", migrations.FormatTime(s.now()), id).Error; err != nil {
		return fmt.Errorf("delete repo %s: let go of its blobs: %w", did, err)
	}
	for _, table := range []string{"blob_refs", "awaited_blobs", "records", "nodes"} {
		if err := tx.Exec("DELETE FROM "+table+" WHERE repo_id = ?", id).Error; err != nil {
			return fmt.Errorf("delete repo %s: %s: %w", did, table, err)
		}
	}
	return nil
}

// pathsOf answers the bounds between which the paths of a collection lie, both
// exclusive.
func pathsOf(collection syntax.NSID) (from, to string) {
	return string(collection) + "/", string(collection) + "0" // '0' follows '/'
}

// collections lists the collections of a repo in the order of their paths, one
// index step each.
func (r reader) collections(ctx context.Context, repoID int64) ([]syntax.NSID, error) {
	var (
		all  []syntax.NSID
		last string
	)
	for {
		var path string
		found, err := one(r.db.WithContext(ctx), "SELECT path FROM records WHERE repo_id = ? AND path > ? ORDER BY path LIMIT 1", []any{repoID, last}, &path)
		if err != nil || !found {
			return all, err
		}
		collection, _, err := syntax.ParseRepoPath(path)
		if err != nil {
			return nil, fmt.Errorf("%w: path %q", ErrCorrupt, path)
		}
		all = append(all, collection)
		_, last = pathsOf(collection)
	}
}
