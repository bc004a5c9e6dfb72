package repostore

import (
	"errors"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
)

// storeTogether moves the heads of all chains and stores their rows in
// statements that they share. A chain whose head has moved gets its err and is
// left out.
func storeTogether(tx *gorm.DB, chains []*commitChain) error {
	standing := make([]*commitChain, 0, len(chains))
	for _, c := range chains {
		c.err = nil
		err := moveHead(tx, c.layers)
		switch {
		case err == nil:
			standing = append(standing, c)
		case errors.Is(err, errConflict):
			c.err = err
		default:
			return err
		}
	}
	return persist(tx, standing)
}

// storeApart gives each chain a savepoint: what one of them runs into leaves
// the others alone.
func storeApart(tx *gorm.DB, chains []*commitChain) error {
	for _, c := range chains {
		c.err = migrations.Savepoint(tx, func() error {
			if err := moveHead(tx, c.layers); err != nil {
				return err
			}
			return persist(tx, []*commitChain{c})
		})
	}
	return nil
}

// moveHead sets the head of a repo to that of the last layer, and with it the
// number of its records, if the first builds on the stored ones; errConflict
// otherwise. The number is compared too: another process may have counted anew.
func moveHead(tx *gorm.DB, layers []*layer) error {
	first, last := layers[0], layers[len(layers)-1]
	moved := tx.Exec("UPDATE repos SET head = ?, rev = ?, data = ?, commit_block = ?, record_count = ? WHERE id = ? AND head = ? AND record_count = ?",
		last.head.Commit.Bytes(), string(last.head.Rev), last.head.Data.Bytes(), last.commitBlock, last.count, first.repoID, first.base.Commit.Bytes(), first.baseCount)
	if moved.Error != nil {
		return fmt.Errorf("move head: %w", moved.Error)
	}
	if moved.RowsAffected != 1 {
		return errConflict
	}
	return nil
}

var (
	insertNodes = newInsertion("nodes (repo_id, lower_key, height, cid, rev, block)", 6,
		" ON CONFLICT (repo_id, lower_key, height) DO UPDATE SET cid = excluded.cid, rev = excluded.rev, block = excluded.block")
	insertRecords = newInsertion("records (repo_id, path, cid, rev, block)", 5,
		" ON CONFLICT (repo_id, path) DO UPDATE SET cid = excluded.cid, rev = excluded.rev, block = excluded.block")
	insertBlobRefs = newInsertion("blob_refs (repo_id, cid, path, rev)", 4,
		" ON CONFLICT (repo_id, cid, path) DO UPDATE SET rev = excluded.rev")
	insertAwaited = newInsertion("awaited_blobs (repo_id, cid, path, rev)", 4,
		" ON CONFLICT (repo_id, cid, path) DO UPDATE SET rev = excluded.rev")
	insertTombstones = newInsertion("tombstones (did, path, cid, deleted_at)", 4,
		" ON CONFLICT (did, path) DO UPDATE SET cid = excluded.cid, deleted_at = excluded.deleted_at")
	insertSupersedes = newInsertion("supersedes (did, successor, target, target_cid, rev)", 5,
		" ON CONFLICT (did, successor) DO UPDATE SET target = excluded.target, target_cid = excluded.target_cid")
)

// rows are the values that chains add, gathered so that many repos share a statement.
type rows struct {
	tx                                                        *gorm.DB
	nodes, records, blobRefs, awaited, tombstones, supersedes []any
}

// persist stores what the chains change. Rows that go are removed at once,
// those that come are inserted at the end.
func persist(tx *gorm.DB, chains []*commitChain) error {
	r := rows{tx: tx}
	for _, c := range chains {
		did, repoID, sum := c.actor.did, c.layers[0].repoID, mergeLayers(c.layers)
		if err := r.takeNodes(repoID, sum.nodes); err != nil {
			return fmt.Errorf("remove MST nodes: %w", err)
		}
		if err := r.takeRecords(repoID, c.layers[len(c.layers)-1].head.Rev, sum.records); err != nil {
			return fmt.Errorf("remove records: %w", err)
		}
		if err := r.takeChains(did, sum); err != nil {
			return fmt.Errorf("remove tombstones: %w", err)
		}
	}
	return r.insert()
}

// insert stores the rows that were gathered. errConflict: a blob that one of
// them references went away after it was looked up.
func (r *rows) insert() error {
	for _, part := range []struct {
		name string
		into insertion
		args []any
	}{
		{"MST nodes", insertNodes, r.nodes},
		{"records", insertRecords, r.records},
		{"blob references", insertBlobRefs, r.blobRefs},
		{"awaited blobs", insertAwaited, r.awaited},
		{"tombstones", insertTombstones, r.tombstones},
		{"supersedes edges", insertSupersedes, r.supersedes},
	} {
		err := part.into.run(r.tx, part.args)
		if errors.Is(err, gorm.ErrForeignKeyViolated) {
			// A sweep took the blob after it was looked up: prepare again and say so.
			return errConflict
		}
		if err != nil {
			return fmt.Errorf("store %s: %w", part.name, err)
		}
	}
	return nil
}

func (r *rows) takeNodes(repoID int64, nodes map[position]nodeAt) error {
	for pos, n := range nodes {
		if n.storedNode != nil {
			r.nodes = append(r.nodes, repoID, pos.lower, pos.height, n.cid.Bytes(), string(n.rev), n.block)
			continue
		}
		if err := r.tx.Exec("DELETE FROM nodes WHERE repo_id = ? AND lower_key = ? AND height = ?", repoID, pos.lower, pos.height).Error; err != nil {
			return err
		}
	}
	return nil
}

func (r *rows) takeRecords(repoID int64, rev syntax.TID, records map[string]*recordChange) error {
	for path, change := range records {
		if !change.fresh {
			if err := forgetReferences(r.tx, repoID, path, rev); err != nil {
				return err
			}
		}
		if change.deleted() {
			if err := r.tx.Exec("DELETE FROM records WHERE repo_id = ? AND path = ?", repoID, path).Error; err != nil {
				return err
			}
			continue
		}
		r.records = append(r.records, repoID, path, change.cid.Bytes(), string(change.rev), change.cbor)
		seen := make(map[cid.Cid]struct{}, len(change.blobs))
		for _, ref := range change.blobs {
			if _, twice := seen[ref.CID]; twice {
				continue
			}
			seen[ref.CID] = struct{}{}
			r.blobRefs = append(r.blobRefs, repoID, ref.CID.Bytes(), path, string(change.rev))
		}
	}
	return nil
}

// forgetReferences removes what a record says of blobs, in the commit with
// this rev: the grace of those blobs begins. Awaited ones come first: an upload
// that makes one a reference has then ended before the references go (AddBlob).
func forgetReferences(tx *gorm.DB, repoID int64, path string, rev syntax.TID) error {
	at := migrations.FormatTime(rev.Time())
	for _, query := range []struct {
		text string
		args []any
	}{
		{"DELETE FROM awaited_blobs WHERE repo_id = ? AND path = ?", []any{repoID, path}},
		{`UPDATE blobs SET uploaded_at = ? WHERE repo_id = ? AND uploaded_at < ?
			AND cid IN (SELECT cid FROM blob_refs WHERE repo_id = ? AND path = ?)`, []any{at, repoID, at, repoID, path}},
		{"DELETE FROM blob_refs WHERE repo_id = ? AND path = ?", []any{repoID, path}},
	} {
		if err := tx.Exec(query.text, query.args...).Error; err != nil {
			return fmt.Errorf("remove blob references: %w", err)
		}
	}
	return nil
}

func (r *rows) takeChains(did syntax.DID, sum merged) error {
	for path, stone := range sum.tombstones {
		if stone != nil {
			r.tombstones = append(r.tombstones, string(did), path, stone.CID.Bytes(), migrations.FormatTime(stone.DeletedAt))
			continue
		}
		if err := r.tx.Exec("DELETE FROM tombstones WHERE did = ? AND path = ?", string(did), path).Error; err != nil {
			return err
		}
	}
	for path, e := range sum.edges {
		r.supersedes = append(r.supersedes, string(did), path, string(e.target.URI), e.target.CID.Bytes(), string(e.rev))
	}
	return nil
}
