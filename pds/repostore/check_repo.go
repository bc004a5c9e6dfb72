package repostore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"
)

// RepoCheck says how CheckRepo looks at a repo. Its zero looks at everything and
// changes nothing.
type RepoCheck struct {
	// Announced says, in the check's read transaction (tx), whether the log must
	// have told of the head: not of an account that is not active, whose imports
	// are announced with its activation. Always, when it is nil.
	Announced func(ctx context.Context, tx *gorm.DB) (bool, error)
	// Repair writes anew what follows from records that were found whole: the
	// references to blobs, and the counters.
	Repair bool
}

// RepoTally is what a check has looked at.
type RepoTally struct {
	Nodes, Records, References, Events int64
}

// Add adds another one.
func (t *RepoTally) Add(other RepoTally) {
	t.Nodes += other.Nodes
	t.Records += other.Records
	t.References += other.References
	t.Events += other.Events
}

// mostPending bounds what a check keeps until its read transaction has ended:
// faults to repair, and gaps in the log to look into. The next run finds the rest.
const mostPending = 1000

// CheckRepo reads all that is stored of the repo of did, in one read transaction,
// and tells what is wrong to found, whose error ends it and is returned. It may
// run beside writes: it sees one commit of the repo, whole.
//
// The nodes and records are walked as an export walks them, so it takes the
// memory of a page of each and of the nodes on one path. Where a node is missing
// or damaged, that alone is told: of what lies below it is only said whether its
// bytes are what their CIDs say. ErrRepoNotFound.
func (s *Store) CheckRepo(ctx context.Context, did syntax.DID, check RepoCheck, found func(RepoFault) error) (RepoTally, error) {
	key, err := s.keys.SigningKey(ctx, did)
	if err != nil {
		return RepoTally{}, fmt.Errorf("check repo %s: signing key: %w", did, err)
	}
	public, err := key.PublicKey()
	if err != nil {
		return RepoTally{}, fmt.Errorf("check repo %s: signing key: %w", did, err)
	}
	c := repoChecker{store: s, did: did, key: public, repair: check.Repair, found: found}
	err = s.db.ReadTx(ctx, func(tx *gorm.DB) error {
		c.tx = tx.WithContext(ctx)
		return c.run(ctx, check.Announced)
	})
	if err == nil && len(c.mendable) > 0 {
		err = c.mend(ctx)
	}
	if err != nil {
		return c.tally, fmt.Errorf("check repo %s: %w", did, err)
	}
	return c.tally, nil
}

// repoChecker is a check under way.
type repoChecker struct {
	store  *Store
	did    syntax.DID
	key    atcrypto.PublicKey
	repair bool
	found  func(RepoFault) error

	tx       *gorm.DB
	row      repoRow
	tally    RepoTally
	mendable []RepoFault // told once they were repaired, or not
}

// tell tells a fault, or keeps it until it was repaired.
func (c *repoChecker) tell(kind RepoFaultKind, subject, expected, found string) error {
	f := RepoFault{Kind: kind, DID: c.did, Subject: subject, Expected: expected, Found: found}
	if c.repair && kind.Mendable() && len(c.mendable) < mostPending {
		c.mendable = append(c.mendable, f)
		return nil
	}
	return c.found(f)
}

func (c *repoChecker) run(ctx context.Context, announced func(context.Context, *gorm.DB) (bool, error)) error {
	row, commit, err := reader{c.tx}.withCommit(ctx, c.did)
	if err != nil {
		return err
	}
	c.row = row
	if err := c.checkCommit(commit); err != nil {
		return err
	}
	if err := c.checkTree(ctx); err != nil {
		return err
	}
	if err := c.checkCounters(); err != nil {
		return err
	}
	if err := c.checkBlobRows(); err != nil {
		return err
	}
	must := true
	if announced != nil {
		if must, err = announced(ctx, c.tx); err != nil {
			return err
		}
	}
	return c.checkEvents(ctx, must)
}

// checkCommit holds the stored commit against the row and the account's key.
func (c *repoChecker) checkCommit(raw []byte) error {
	subject := string(c.did)
	if sum := dagCBOR(raw); sum != c.row.Commit {
		return c.tell(CommitDamaged, subject, c.row.Commit.String(), sum.String())
	}
	commit, err := decodeCommit(raw)
	if err != nil {
		return c.tell(CommitDamaged, subject, "a commit", err.Error())
	}
	for _, part := range []struct{ want, has string }{
		{string(c.did), commit.DID}, {string(c.row.Rev), commit.Rev}, {c.row.Data.String(), commit.Data.String()},
	} {
		if part.want != part.has {
			if err := c.tell(CommitMismatch, subject, part.want, part.has); err != nil {
				return err
			}
		}
	}
	if commit.VerifySignature(c.key) != nil {
		return c.tell(CommitSignature, subject, "a signature by "+c.key.DIDKey(), "another one")
	}
	return nil
}

// checkCounters counts what the quotas count.
func (c *repoChecker) checkCounters() error {
	var records, blobs, bytes, blobsThere, bytesThere int64
	_, err := one(c.tx, `SELECT record_count, blob_count, blob_bytes,
			(SELECT count(*) FROM blobs WHERE repo_id = repos.id),
			(SELECT CAST(COALESCE(sum(size), 0) AS BIGINT) FROM blobs WHERE repo_id = repos.id)
		FROM repos WHERE id = ?`, []any{c.row.id}, &records, &blobs, &bytes, &blobsThere, &bytesThere)
	if err != nil {
		return fmt.Errorf("count: %w", err)
	}
	for _, counter := range []struct {
		name        string
		there, says int64
	}{
		{"records", c.tally.Records, records}, {"blobs", blobsThere, blobs}, {"blobBytes", bytesThere, bytes},
	} {
		if counter.there != counter.says {
			if err := c.tell(CounterWrong, counter.name, fmt.Sprint(counter.there), fmt.Sprint(counter.says)); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkBlobRows looks whether the bytes of each blob of the account are on record.
func (c *repoChecker) checkBlobRows() error {
	for after := []byte{}; ; {
		var page [][]byte
		err := each(c.tx, func(rows *sql.Rows) error {
			var key []byte
			err := rows.Scan(&key)
			page = append(page, key)
			return err
		}, `SELECT cid FROM blobs WHERE repo_id = ? AND cid > ?
			AND NOT EXISTS (SELECT 1 FROM blob_objects o WHERE o.cid = blobs.cid) ORDER BY cid LIMIT ?`, c.row.id, after, MostObjects)
		if err != nil {
			return fmt.Errorf("look for the bytes of blobs: %w", err)
		}
		for _, key := range page {
			after = key
			if err := c.tell(BlobRowMissing, nameOf(key), "a row of its bytes", ""); err != nil {
				return err
			}
		}
		if len(page) < MostObjects {
			return nil
		}
	}
}

// nameOf writes a CID column for a message, whatever it holds.
func nameOf(key []byte) string {
	c, err := cid.Cast(key)
	if err != nil {
		return fmt.Sprintf("%x (no CID)", key)
	}
	return c.String()
}

// orphanTables hold rows of repos; blobs does too, but its rows outlive the repo
// for their grace.
var orphanTables = [...]string{"nodes", "records", "blob_refs", "awaited_blobs"}

// CheckOrphans tells of rows that belong to no repo. It takes one step of an
// index for each repo and table.
func (s *Store) CheckOrphans(ctx context.Context, found func(RepoFault) error) error {
	err := s.db.ReadTx(ctx, func(tx *gorm.DB) error {
		for _, table := range orphanTables {
			for last := int64(0); ; {
				var known bool
				more, err := one(tx, "SELECT repo_id, EXISTS (SELECT 1 FROM repos WHERE repos.id = repo_id) FROM "+table+" WHERE repo_id > ? ORDER BY repo_id LIMIT 1", []any{last}, &last, &known)
				if err != nil {
					return err
				}
				if !more {
					break
				}
				if known {
					continue
				}
				if err := found(RepoFault{Kind: RowsOrphaned, Subject: table, Found: fmt.Sprintf("repo_id %d", last)}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for orphaned rows: %w", err)
	}
	return nil
}
