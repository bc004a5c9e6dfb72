package repostore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// errMoved says that a node is not where the head in hand says: somebody else
// has written the repo, or the store is corrupt. The head tells which.
var errMoved = errors.New("repostore: an MST node is not where its parent says")

// each scans the rows of a query.
func each(db *gorm.DB, scan func(*sql.Rows) error, query string, args ...any) (err error) {
	rows, err := db.Raw(query, args...).Rows()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// one scans the row of a query that has one row at most.
func one(db *gorm.DB, query string, args []any, into ...any) (found bool, err error) {
	err = each(db, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(into...)
	}, query, args...)
	return found && err == nil, err
}

// castCID reads a CID column.
func castCID(raw []byte) (cid.Cid, error) {
	c, err := cid.Cast(raw)
	if err != nil {
		return cid.Undef, fmt.Errorf("%w: CID column: %w", ErrCorrupt, err)
	}
	return c, nil
}

// reader asks the tables, through a pool or inside one transaction.
type reader struct{ db *gorm.DB }

// repoRow is what the head of a repo decides of its row, but for the commit block.
type repoRow struct {
	id int64
	Head
	records int64 // how many it holds
}

// repo answers ErrRepoNotFound for a DID without one.
func (r reader) repo(ctx context.Context, did syntax.DID) (repoRow, error) {
	var (
		row        repoRow
		head, data []byte
		rev        string
	)
	found, err := one(r.db.WithContext(ctx), "SELECT id, head, rev, data, record_count FROM repos WHERE did = ?", []any{string(did)}, &row.id, &head, &rev, &data, &row.records)
	if err != nil {
		return repoRow{}, fmt.Errorf("read head of %s: %w", did, err)
	}
	if !found {
		return repoRow{}, fmt.Errorf("%w: %s", ErrRepoNotFound, did)
	}
	row.Rev = syntax.TID(rev)
	if row.Commit, err = castCID(head); err != nil {
		return repoRow{}, err
	}
	row.Data, err = castCID(data)
	return row, err
}

// commitBlock answers the stored commit of the head.
func (r reader) commitBlock(ctx context.Context, repoID int64) ([]byte, error) {
	var raw []byte
	found, err := one(r.db.WithContext(ctx), "SELECT commit_block FROM repos WHERE id = ?", []any{repoID}, &raw)
	if err == nil && !found {
		err = ErrRepoNotFound
	}
	return raw, err
}

func (r reader) node(ctx context.Context, repoID int64, pos position, want cid.Cid) (*storedNode, error) {
	return r.oneNode(ctx, want, "SELECT cid, block FROM nodes WHERE repo_id = ? AND lower_key = ? AND height = ?", repoID, pos.lower, pos.height)
}

func (r reader) top(ctx context.Context, repoID int64, want cid.Cid) (*storedNode, error) {
	return r.oneNode(ctx, want, "SELECT cid, block FROM nodes WHERE repo_id = ? AND lower_key = '' ORDER BY height DESC LIMIT 1", repoID)
}

func (r reader) oneNode(ctx context.Context, want cid.Cid, query string, args ...any) (*storedNode, error) {
	var key, raw []byte
	found, err := one(r.db.WithContext(ctx), query, args, &key, &raw)
	if err != nil {
		return nil, fmt.Errorf("read MST node %s: %w", want, err)
	}
	if !found || string(key) != want.KeyString() {
		return nil, errMoved
	}
	return decodeNode(want, raw)
}

// record answers nil for a path without a record.
func (r reader) record(ctx context.Context, did syntax.DID, path string) (*recordChange, error) {
	var (
		key, raw []byte
		rev      string
	)
	found, err := one(r.db.WithContext(ctx), `SELECT records.cid, records.rev, records.block FROM records
		JOIN repos ON repos.id = records.repo_id WHERE repos.did = ? AND records.path = ?`, []any{string(did), path}, &key, &rev, &raw)
	if err != nil || !found {
		return nil, err
	}
	c, err := castCID(key)
	return &recordChange{cid: c, cbor: raw, rev: syntax.TID(rev)}, err
}

// tombstone answers nil for a path without one.
func (r reader) tombstone(ctx context.Context, did syntax.DID, path string) (*lexicons.Tombstone, error) {
	stones, err := r.tombstones(ctx, did, path, path, 1)
	return stones[path], err
}

// tombstones answers those whose paths lie between two, both inclusive, by path.
func (r reader) tombstones(ctx context.Context, did syntax.DID, from, to string, limit int) (map[string]*lexicons.Tombstone, error) {
	var stones map[string]*lexicons.Tombstone
	err := each(r.db.WithContext(ctx), func(rows *sql.Rows) error {
		var (
			key, targetKey []byte
			path, at       string
			target         sql.NullString
			err            error
		)
		if err = rows.Scan(&path, &key, &at, &target, &targetKey); err != nil {
			return err
		}
		stone := &lexicons.Tombstone{URI: recordURI(did, path)}
		if stone.CID, err = castCID(key); err != nil {
			return err
		}
		if stone.DeletedAt, err = migrations.ParseTime(at); err != nil {
			return fmt.Errorf("%w: tombstone %s: %w", ErrCorrupt, stone.URI, err)
		}
		if target.Valid {
			ref := lexicons.StrongRef{URI: syntax.ATURI(target.String)}
			if ref.CID, err = castCID(targetKey); err != nil {
				return err
			}
			stone.Supersedes = &ref
		}
		if stones == nil {
			stones = make(map[string]*lexicons.Tombstone, 1)
		}
		stones[path] = stone
		return nil
	}, `SELECT t.path, t.cid, t.deleted_at, s.target, s.target_cid FROM tombstones t
		LEFT JOIN supersedes s ON s.did = t.did AND s.successor = t.path
		WHERE t.did = ? AND t.path >= ? AND t.path <= ? ORDER BY t.path LIMIT ?`, string(did), from, to, limit)
	return stones, err
}

// blob answers nil for one that was not uploaded, was taken down, or whose bytes
// are damaged: a record that is to refer to it needs an upload first.
func (r reader) blob(ctx context.Context, did syntax.DID, c cid.Cid) (*Blob, error) {
	b := Blob{CID: c}
	var at string
	found, err := one(r.db.WithContext(ctx), `SELECT b.mime_type, b.size, b.uploaded_at FROM blobs b
		JOIN repos ON repos.id = b.repo_id WHERE repos.did = ? AND b.cid = ? AND NOT `+isQuarantined+`
		AND NOT EXISTS (SELECT 1 FROM takedowns t WHERE t.did = repos.did AND t.subject = ?)`, []any{string(did), c.Bytes(), c.String()}, &b.MimeType, &b.Size, &at)
	if err != nil || !found {
		return nil, err
	}
	b.UploadedAt, err = migrations.ParseTime(at)
	return &b, err
}

// insertion is an INSERT of many rows. It runs in statements of a few fixed
// sizes, so that few texts exist to be prepared.
type insertion struct {
	columns int
	texts   map[int]string // by the number of rows
}

// insertionSizes are the rows per statement, greatest first, down to 1.
var insertionSizes = []int{32, 8, 4, 2, 1}

func newInsertion(into string, columns int, conflict string) insertion {
	tuple := "(?" + strings.Repeat(", ?", columns-1) + ")"
	i := insertion{columns: columns, texts: make(map[int]string, len(insertionSizes))}
	for _, n := range insertionSizes {
		i.texts[n] = "INSERT INTO " + into + " VALUES " + tuple + strings.Repeat(", "+tuple, n-1) + conflict
	}
	return i
}

// run inserts rows, the values of which follow each other in args.
func (i insertion) run(tx *gorm.DB, args []any) error {
	for _, n := range insertionSizes {
		for len(args) >= n*i.columns {
			if err := tx.Exec(i.texts[n], args[:n*i.columns]...).Error; err != nil {
				return err
			}
			args = args[n*i.columns:]
		}
	}
	return nil
}
