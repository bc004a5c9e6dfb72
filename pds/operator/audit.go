package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"herbarium.garden/migrations"
)

// Entry is one call of an operator.
type Entry struct {
	ID        int64 // given by Begin
	At        time.Time
	Actor     string // "admin"
	Method    string // NSID
	DID       string // of the account that it is about; "" if of none
	Subject   string // what it is about, a DID or an AT URI; "" if nothing that has a name
	Input     string // JSON, fit to be kept
	Client    string // address that it came from
	RequestID string

	// Outcome is how it ended; the zero value: it did not, or nobody could say.
	Outcome Outcome
}

// Outcome is how a call ended.
type Outcome struct {
	State State
	Error string // name of the XRPC error, when it was not done
	DID   string // of the account that the call made
}

// State says whether a call was carried out.
type State string

// The states of an outcome. What was refused changed nothing; of what failed
// the process's log has more.
const (
	Done    State = "done"
	Refused State = "refused"
	Failed  State = "failed"
	Unknown State = "" // cut off
)

// Log is the audit log in the PDS's database. It is safe for concurrent use.
type Log struct {
	db  *migrations.DB
	now func() time.Time
}

// NewLog makes a Log; now is time.Now when nil.
func NewLog(db *migrations.DB, now func() time.Time) (*Log, error) {
	if db == nil {
		return nil, errors.New("audit log: no database")
	}
	if now == nil {
		now = time.Now
	}
	return &Log{db: db, now: now}, nil
}

// Begin writes the entry of a call that is about to be carried out, and
// answers its id. ID, At and Outcome of e are not looked at. If it fails, the
// call must not be carried out.
func (l *Log) Begin(ctx context.Context, e Entry) (int64, error) {
	var id int64
	err := l.db.Tx(ctx, func(tx *gorm.DB) error {
		return tx.Raw(`INSERT INTO audit_log (at, actor, method, did, subject, input, client, request_id)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
			migrations.FormatTime(l.now()), e.Actor, e.Method, optional(e.DID), optional(e.Subject), e.Input, e.Client, e.RequestID).Scan(&id).Error
	})
	if err != nil {
		return 0, fmt.Errorf("audit %s: %w", e.Method, err)
	}
	return id, nil
}

// Settle writes how the call of an entry ended, once.
func (l *Log) Settle(ctx context.Context, id int64, o Outcome) error {
	err := l.db.Tx(ctx, func(tx *gorm.DB) error {
		return tx.Exec("INSERT INTO audit_outcomes (id, at, outcome, error, did) VALUES (?, ?, ?, ?, ?)",
			id, migrations.FormatTime(l.now()), string(o.State), optional(o.Error), optional(o.DID)).Error
	})
	if err != nil {
		return fmt.Errorf("audit the outcome of entry %d: %w", id, err)
	}
	return nil
}

// Filter chooses entries; the zero value chooses all.
type Filter struct {
	DID    string    // about this account, or made it
	Method string    // NSID
	Since  time.Time // from then on
	Until  time.Time // before then
	Before int64     // with a smaller id: where a page goes on
}

// maxPage bounds a list.
const maxPage = 1000

type entryRow struct {
	ID                       int64
	At, Actor, Method        string
	DID                      *string `gorm:"column:did"`
	Subject                  *string
	Input, Client, RequestID string
	Outcome, Error, Made     *string
}

// List answers at most limit (1 to 1000) entries, the newest first, and
// whether there are more.
func (l *Log) List(ctx context.Context, f Filter, limit int) (entries []Entry, more bool, err error) {
	limit = min(max(limit, 1), maxPage)
	q := l.db.Read.WithContext(ctx).Table("audit_log l").
		Select("l.id, l.at, l.actor, l.method, l.did, l.subject, l.input, l.client, l.request_id, o.outcome, o.error, o.did AS made").
		Joins("LEFT JOIN audit_outcomes o ON o.id = l.id")
	if f.DID != "" {
		q = q.Where("(l.did = ? OR l.id IN (SELECT id FROM audit_outcomes WHERE did = ?))", f.DID, f.DID)
	}
	if f.Method != "" {
		q = q.Where("l.method = ?", f.Method)
	}
	if !f.Since.IsZero() {
		q = q.Where("l.at >= ?", migrations.FormatTime(f.Since))
	}
	if !f.Until.IsZero() {
		q = q.Where("l.at < ?", migrations.FormatTime(f.Until))
	}
	if f.Before > 0 {
		q = q.Where("l.id < ?", f.Before)
	}
	var rows []entryRow
	if err := q.Order("l.id DESC").Limit(limit + 1).Scan(&rows).Error; err != nil {
		return nil, false, fmt.Errorf("list audit log: %w", err)
	}
	if len(rows) > limit {
		rows, more = rows[:limit], true
	}
	entries = make([]Entry, len(rows))
	for i, row := range rows {
		at, err := migrations.ParseTime(row.At)
		if err != nil {
			return nil, false, fmt.Errorf("audit entry %d: %w", row.ID, err)
		}
		entries[i] = Entry{
			ID: row.ID, At: at, Actor: row.Actor, Method: row.Method, DID: value(row.DID), Subject: value(row.Subject),
			Input: row.Input, Client: row.Client, RequestID: row.RequestID,
			Outcome: Outcome{State: State(value(row.Outcome)), Error: value(row.Error), DID: value(row.Made)},
		}
	}
	return entries, more, nil
}

// optional is the column of a text that may be absent.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
