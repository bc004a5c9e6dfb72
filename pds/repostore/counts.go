package repostore

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// Counts tells how much a repo holds.
type Counts struct {
	Blocks  int64 // the commit, the MST nodes, and the records' blocks by CID
	Records int64
	Blobs   int64 // referenced ones
	Awaited int64 // blobs that records name and that were not uploaded yet
}

// Counts counts what the repo of did holds; ErrRepoNotFound. It reads as much
// as the repo is large: it is for the owner's and the operator's questions.
// Usage tells what quotas count, and reads one row.
func (s *Store) Counts(ctx context.Context, did syntax.DID) (Counts, error) {
	row, err := reader{s.db.Read}.repo(ctx, did)
	if err != nil {
		return Counts{}, err
	}
	var c Counts
	_, err = one(s.db.Read.WithContext(ctx), `SELECT
		1 + (SELECT count(*) FROM nodes WHERE repo_id = ?) + (SELECT count(DISTINCT cid) FROM records WHERE repo_id = ?),
		(SELECT record_count FROM repos WHERE id = ?),
		(SELECT count(DISTINCT cid) FROM blob_refs WHERE repo_id = ?),
		(SELECT count(DISTINCT cid) FROM awaited_blobs WHERE repo_id = ?)`,
		[]any{row.id, row.id, row.id, row.id, row.id}, &c.Blocks, &c.Records, &c.Blobs, &c.Awaited)
	if err != nil {
		return Counts{}, fmt.Errorf("count repo %s: %w", did, err)
	}
	return c, nil
}
