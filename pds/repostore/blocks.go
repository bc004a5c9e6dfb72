package repostore

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"
)

// MaxBlocks bounds the blocks that are asked for at once.
const MaxBlocks = 200

// ErrBlockNotFound is ExportBlocks' answer when one of the blocks is not the
// repo's, or not any more.
var ErrBlockNotFound = errors.New("block not found")

// blockPlace is where a block of a repo is kept.
type blockPlace struct {
	path   string // a record's own, a node's lower key
	height int    // of a node
	table  blockTable
}

type blockTable int

const (
	inRecords blockTable = iota
	inNodes
	inHead
)

// ExportBlocks writes a CAR without a root that holds the given blocks of the
// repo, at most MaxBlocks, in the order asked for. ErrRepoNotFound and
// ErrBlockNotFound come before the first byte.
//
// No index leads from a CID to a block: an entry at a random place for each
// record and node would cost every write more than this method, which few call,
// can ever save. So the tables of this one repo are passed over once, CIDs
// alone; the blocks are then read from their places one by one. It counts as
// an export: few run at once.
func (s *Store) ExportBlocks(ctx context.Context, did syntax.DID, cids []cid.Cid, w io.Writer) error {
	if len(cids) > MaxBlocks {
		return fmt.Errorf("export blocks of %s: %d of at most %d", did, len(cids), MaxBlocks)
	}
	select {
	case s.exports <- struct{}{}:
		defer func() { <-s.exports }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return s.db.ReadTx(ctx, func(tx *gorm.DB) error {
		read := reader{tx}
		row, err := read.repo(ctx, did)
		if err != nil {
			return err
		}
		places, err := read.places(ctx, row, cids)
		if err != nil {
			return fmt.Errorf("export blocks of %s: %w", did, err)
		}
		for _, c := range cids {
			if _, ok := places[c.KeyString()]; !ok {
				return fmt.Errorf("%w: %s; ask for blocks of the repo's present commit", ErrBlockNotFound, c)
			}
		}
		out := bufio.NewWriterSize(w, 64<<10)
		if _, err := out.Write(carHeadRootless); err != nil {
			return err
		}
		for _, c := range cids {
			place, ok := places[c.KeyString()]
			if !ok {
				continue // asked for twice
			}
			delete(places, c.KeyString())
			raw, err := read.blockAt(ctx, row.id, place)
			if err != nil {
				return fmt.Errorf("export block %s of %s: %w", c, did, err)
			}
			if err := writeCARBlock(out, c.Bytes(), raw); err != nil {
				return err
			}
		}
		return out.Flush()
	})
}

// places finds the blocks of a repo that are asked for, by the bytes of their CIDs.
func (r reader) places(ctx context.Context, row repoRow, cids []cid.Cid) (map[string]blockPlace, error) {
	wanted := make(map[string]struct{}, len(cids))
	found := make(map[string]blockPlace, len(cids))
	for _, c := range cids {
		if c == row.Commit {
			found[c.KeyString()] = blockPlace{table: inHead}
			continue
		}
		wanted[c.KeyString()] = struct{}{}
	}
	for _, table := range []struct {
		name  blockTable
		query string
	}{
		{inNodes, "SELECT cid, lower_key, height FROM nodes WHERE repo_id = ? AND cid IN "},
		{inRecords, "SELECT cid, path, 0 FROM records WHERE repo_id = ? AND cid IN "},
	} {
		if len(wanted) == 0 {
			break
		}
		args := []any{row.id}
		for key := range wanted {
			args = append(args, []byte(key))
		}
		err := each(r.db.WithContext(ctx), func(rows *sql.Rows) error {
			var key []byte
			place := blockPlace{table: table.name}
			if err := rows.Scan(&key, &place.path, &place.height); err != nil {
				return err
			}
			found[string(key)] = place
			delete(wanted, string(key))
			return nil
		}, table.query+"( ?"+strings.Repeat(", ?", len(args)-2)+")", args...) // with the blank, or gorm takes the bytes for a list
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// blockAt reads the block at a place that was found in the same transaction.
func (r reader) blockAt(ctx context.Context, repoID int64, place blockPlace) (raw []byte, err error) {
	var found bool
	switch place.table {
	case inHead:
		return r.commitBlock(ctx, repoID)
	case inNodes:
		found, err = one(r.db.WithContext(ctx), "SELECT block FROM nodes WHERE repo_id = ? AND lower_key = ? AND height = ?", []any{repoID, place.path, place.height}, &raw)
	case inRecords:
		found, err = one(r.db.WithContext(ctx), "SELECT block FROM records WHERE repo_id = ? AND path = ?", []any{repoID, place.path}, &raw)
	}
	if err == nil && !found {
		err = ErrCorrupt // one transaction sees one state
	}
	return raw, err
}
