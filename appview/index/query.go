package index

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"
)

// MaxBatch bounds what a hydration takes at once.
const MaxBatch = 1000

// ErrTooMany is returned when a hydration is asked for more than MaxBatch.
var ErrTooMany = errors.New("too many at once")

func batch(n int) error {
	if n > MaxBatch {
		return fmt.Errorf("%d, at most %d: %w", n, MaxBatch, ErrTooMany)
	}
	return nil
}

func (p Page) limit() int {
	switch {
	case p.Limit <= 0:
		return DefaultLimit
	case p.Limit > MaxLimit:
		return MaxLimit
	}
	return p.Limit
}

// query is one SELECT under construction. The table that it is about is called t.
type query struct {
	columns, from string
	conditions    []string
	args          []any
}

func newQuery(columns, from string) *query { return &query{columns: columns, from: from} }

func (q *query) where(condition string, args ...any) {
	q.conditions = append(q.conditions, condition)
	q.args = append(q.args, args...)
}

func (q *query) whereIf(ok bool, condition string, args ...any) {
	if ok {
		q.where(condition, args...)
	}
}

// visible leaves out what is of an inactive repo or was taken down, unless the
// operator asks, and what is of a collection that the viewer is not to know of:
// the one place where all three are decided. from are the collections that the
// rows of t are made of; with none, each row names its own.
func (q *query) visible(v Viewer, from ...syntax.NSID) {
	q.whereIf(!v.Admin, "EXISTS (SELECT 1 FROM repos r WHERE r.did = t.did AND r.active)")
	q.whereIf(!v.Admin, notTakenDown("t.uri"))
	switch {
	case len(from) > 0:
		q.whereIf(!v.Sees(from...), "0 = 1")
	case v.Restricted():
		q.where("t.collection IN ?", v.Collections)
	}
}

// notTakenDown is the condition that the record with this URI may be shown.
func notTakenDown(uri string) string {
	return "NOT EXISTS (SELECT 1 FROM takedowns k WHERE k.uri = " + uri + ")"
}

// before continues a list that runs by (key, uri) downwards.
func (q *query) before(p Page, key string) {
	if p.After != nil {
		q.where("("+key+", t.uri) < (?, ?)", p.After.Key, p.After.URI)
	}
}

func (q *query) sql() string {
	s := "SELECT " + q.columns + " FROM " + q.from
	if len(q.conditions) > 0 {
		s += " WHERE " + strings.Join(q.conditions, " AND ")
	}
	return s
}

// all scans every row into dest.
func (q *query) all(db *gorm.DB, dest any) error {
	return db.Raw(q.sql(), q.args...).Scan(dest).Error
}

// order is the direction in which p walks.
func (p Page) order() (direction, beyond string) {
	if p.Reverse {
		return " DESC", "<"
	}
	return "", ">"
}

// page scans a page and one row more, by which collect knows that there is another.
func (q *query) page(db *gorm.DB, orderBy string, p Page, dest any) error {
	return db.Raw(q.sql()+" ORDER BY "+orderBy+" LIMIT ?", append(q.args, p.limit()+1)...).Scan(dest).Error
}

// collect makes the page of what was scanned.
func collect[R, T any](rows []R, p Page, export func(*R) (T, Position)) List[T] {
	var list List[T]
	limit := p.limit()
	for i := range rows {
		if i == limit {
			break
		}
		item, at := export(&rows[i])
		list.Items = append(list.Items, item)
		if i == limit-1 && len(rows) > limit {
			list.Next = &at
		}
	}
	return list
}
