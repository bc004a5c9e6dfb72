package repostore

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"
)

// ExportCAR streams the repo as a CAR v1: the commit (its root) first, then
// nodes and records in depth-first pre-order, from one read transaction and in
// flat memory. With since, only blocks written after that rev. ErrRepoNotFound
// comes before the first byte. A few exports run at once, others wait: w must
// not block for ever (an HTTP server sets a write deadline).
func (s *Store) ExportCAR(ctx context.Context, did syntax.DID, since syntax.TID, w io.Writer) error {
	select {
	case s.exports <- struct{}{}:
		defer func() { <-s.exports }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return s.db.ReadTx(ctx, func(tx *gorm.DB) error {
		row, commit, err := reader{tx}.withCommit(ctx, did)
		if err != nil {
			return err
		}
		out := bufio.NewWriterSize(w, 64<<10)
		nodes := pager{fetch: func(p *pager, limit int) error { return p.fetchNodes(tx.WithContext(ctx), row.id, since, limit) }}
		records := pager{fetch: func(p *pager, limit int) error { return p.fetchRecords(tx.WithContext(ctx), row.id, since, limit) }}
		if err := exportMerged(out, row, commit, &nodes, &records); err != nil {
			return fmt.Errorf("export repo %s: %w", did, err)
		}
		if err := out.Flush(); err != nil {
			return fmt.Errorf("export repo %s: %w", did, err)
		}
		return nil
	})
}

// exportMerged merges nodes and records. A node comes right after the key
// before its range, the higher of two nodes first: that is pre-order.
func exportMerged(out io.Writer, row repoRow, commit []byte, nodes, records *pager) error {
	if _, err := out.Write(appendCARHeader(nil, row.Commit)); err != nil {
		return err
	}
	if err := writeCARBlock(out, row.Commit.Bytes(), commit); err != nil {
		return err
	}
	node, err := nodes.next()
	if err != nil {
		return err
	}
	record, err := records.next()
	if err != nil {
		return err
	}
	for node != nil || record != nil {
		from, current := records, &record
		if node != nil && (record == nil || node.path < record.path) {
			from, current = nodes, &node
		}
		if err := writeCARBlock(out, (*current).cid, (*current).block); err != nil {
			return err
		}
		if *current, err = from.next(); err != nil {
			return err
		}
	}
	return nil
}

// withCommit answers the head and its block.
func (r reader) withCommit(ctx context.Context, did syntax.DID) (repoRow, []byte, error) {
	row, err := r.repo(ctx, did)
	if err != nil {
		return row, nil, err
	}
	commit, err := r.commitBlock(ctx, row.id)
	if err != nil {
		return row, nil, fmt.Errorf("read commit of %s: %w", did, err)
	}
	return row, commit, nil
}

// exportRow is one block on its way out. cid is in binary, as stored.
type exportRow struct {
	path   string // a record's own, a node's lower key
	height int
	cid    []byte
	block  []byte
}

// Pages grow while their rows are small, so that an export holds little of a
// repo in memory at any time.
const (
	firstPageRows = 16
	mostPageRows  = 128
	smallPage     = 256 << 10
)

// pager reads a table of one repo page by page: one connection cannot have two
// result sets open on Postgres.
type pager struct {
	fetch func(p *pager, limit int) error
	rows  []exportRow
	at    int
	limit int
	last  *exportRow // of the pages before; nil: the first page comes
	ended bool
}

// next answers the next row, nil at the end.
func (p *pager) next() (*exportRow, error) {
	if p.at == len(p.rows) {
		if p.ended {
			return nil, nil
		}
		bytes := 0
		for i := range p.rows {
			bytes += len(p.rows[i].block)
		}
		switch {
		case p.limit == 0:
			p.limit = firstPageRows
		case bytes < smallPage:
			p.limit = min(2*p.limit, mostPageRows)
		default:
			p.limit = max(p.limit/2, 1)
		}
		if len(p.rows) > 0 {
			last := p.rows[len(p.rows)-1]
			last.block = nil
			p.last = &last
		}
		p.rows, p.at = p.rows[:0], 0
		if err := p.fetch(p, p.limit); err != nil {
			return nil, err
		}
		p.ended = len(p.rows) < p.limit
		if len(p.rows) == 0 {
			return nil, nil
		}
	}
	p.at++
	return &p.rows[p.at-1], nil
}

func (p *pager) fetchNodes(tx *gorm.DB, repoID int64, since syntax.TID, limit int) error {
	lower, height := "", 1<<16 // above every height
	if p.last != nil {
		lower, height = p.last.path, p.last.height
	}
	return p.collect(tx, `SELECT lower_key, height, cid, block FROM nodes
		WHERE repo_id = ? AND lower_key >= ? AND (lower_key > ? OR height < ?) AND rev > ? ORDER BY lower_key, height DESC LIMIT ?`,
		repoID, lower, lower, height, string(since), limit)
}

func (p *pager) fetchRecords(tx *gorm.DB, repoID int64, since syntax.TID, limit int) error {
	after := ""
	if p.last != nil {
		after = p.last.path
	}
	return p.collect(tx, `SELECT path, 0, cid, block FROM records
		WHERE repo_id = ? AND path > ? AND rev > ? ORDER BY path LIMIT ?`, repoID, after, string(since), limit)
}

func (p *pager) collect(tx *gorm.DB, query string, args ...any) error {
	return each(tx, func(rows *sql.Rows) error {
		var row exportRow
		if err := rows.Scan(&row.path, &row.height, &row.cid, &row.block); err != nil {
			return err
		}
		p.rows = append(p.rows, row)
		return nil
	}, query, args...)
}

// ProveRecord writes a CAR that proves what stands at a path: the commit, the
// MST nodes down to the path, and the record. For a path without a record it
// proves the absence. ErrRepoNotFound comes before the first byte.
func (s *Store) ProveRecord(ctx context.Context, did syntax.DID, collection syntax.NSID, rkey syntax.RecordKey, w io.Writer) error {
	path := string(collection) + "/" + string(rkey)
	var car []byte
	err := s.db.ReadTx(ctx, func(tx *gorm.DB) error {
		read := reader{tx}
		row, commit, err := read.withCommit(ctx, did)
		if err != nil {
			return err
		}
		v := &view{store: s, did: did, repoID: row.id, head: row.Head, read: read}
		nodes, found, err := pathTo(ctx, v, row.Data, path)
		if errors.Is(err, errMoved) {
			err = fmt.Errorf("%w: %w", ErrCorrupt, err) // one transaction sees one state
		}
		if err != nil {
			return fmt.Errorf("prove %s: %w", recordURI(did, path), err)
		}
		car = appendCARHeader(car, row.Commit)
		car = appendCARBlock(car, row.Commit, commit)
		for _, n := range nodes {
			car = appendCARBlock(car, n.cid, n.block)
		}
		if found == nil {
			return nil
		}
		record, err := read.record(ctx, did, path)
		if err != nil {
			return fmt.Errorf("prove %s: %w", recordURI(did, path), err)
		}
		if record == nil || record.cid != *found {
			return fmt.Errorf("prove %s: %w: the MST names %s", recordURI(did, path), ErrCorrupt, found)
		}
		car = appendCARBlock(car, record.cid, record.cbor)
		return nil
	})
	if err != nil {
		return err
	}
	_, err = w.Write(car)
	return err
}
