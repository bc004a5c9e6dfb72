package sequencer

import (
	"context"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
)

// Batch is what one Append appended. It means nothing until the transaction
// has committed; then give it to Published.
type Batch struct{ events []Event }

// Last is the seq of the batch's last event, 0 when it is empty.
func (b Batch) Last() int64 {
	if len(b.events) == 0 {
		return 0
	}
	return b.events[len(b.events)-1].Seq
}

// Append gives the drafts their seqs, in order, and stores their frames,
// inside the caller's transaction (tx). Call it once, as the last statement of
// the transaction: from here to the commit every other appender of the
// database waits, which is what makes commit order seq order. ErrBadDraft is
// about the drafts, and found before the database is touched; ErrSequence is
// corruption.
func (s *Sequencer) Append(ctx context.Context, tx *gorm.DB, drafts ...Draft) (Batch, error) {
	if len(drafts) == 0 {
		return Batch{}, nil
	}
	for _, d := range drafts {
		if d.about() == "" {
			return Batch{}, fmt.Errorf("%w: %s without a DID", ErrBadDraft, d.kind())
		}
		if err := d.check(); err != nil {
			return Batch{}, fmt.Errorf("append %s of %s: %w", d.kind(), d.about(), err)
		}
	}
	tx = tx.WithContext(ctx)
	var last int64
	err := tx.Raw("UPDATE event_sequence SET last_seq = last_seq + ? WHERE id = 1 RETURNING last_seq", len(drafts)).Scan(&last).Error
	if err != nil {
		return Batch{}, fmt.Errorf("take %d seqs: %w", len(drafts), err)
	}
	next := last - int64(len(drafts)) + 1
	if known := s.ring.last(); next <= known {
		return Batch{}, fmt.Errorf("%w: the database gave out %d after %d", ErrSequence, next, known)
	}
	now := s.now()
	events := make([]Event, len(drafts))
	for i, d := range drafts {
		seq := next + int64(i)
		frame, err := message(d.kind(), d.body(seq, now))
		if err != nil {
			return Batch{}, fmt.Errorf("append event of %s: %w", d.about(), err)
		}
		events[i] = Event{Seq: seq, DID: d.about(), Kind: d.kind(), Frame: frame, CreatedAt: migrations.FormatTime(now)}
	}
	if err := insert(tx, events); err != nil {
		return Batch{}, fmt.Errorf("append events %d to %d: %w", next, last, err)
	}
	return Batch{events}, nil
}

// insertSizes are the numbers of rows that one statement inserts: few, so that
// the prepared statements stay few.
var insertSizes = [...]int{64, 16, 4, 1}

func insert(tx *gorm.DB, events []Event) error {
	for _, size := range insertSizes {
		for len(events) >= size {
			values := make([]any, 0, 5*size)
			for _, e := range events[:size] {
				values = append(values, e.Seq, e.DID.String(), string(e.Kind), e.Frame, e.CreatedAt)
			}
			rows := strings.Repeat(", (?, ?, ?, ?, ?)", size)[2:]
			if err := tx.Exec("INSERT INTO events (seq, did, kind, frame, created_at) VALUES "+rows, values...).Error; err != nil {
				return err
			}
			events = events[size:]
		}
	}
	return nil
}

// Published says that the transaction which appended the batch has committed:
// readers wake and get the frames from memory. A process that dies before this
// loses nothing, for readers also find the events in the database; nor does the
// order of calls matter.
func (s *Sequencer) Published(b Batch) { s.ring.add(b.events) }

// Erase removes every stored event of a DID, inside the caller's transaction
// (tx): after the deletion of an account its older events must not be read
// again. Append the #account event after it. From here to the commit
// other appenders wait. Call Erased once the transaction has committed.
func (s *Sequencer) Erase(ctx context.Context, tx *gorm.DB, did syntax.DID) error {
	tx = tx.WithContext(ctx)
	// The sequence row first, as everywhere: one order of locks, no deadlock.
	if err := tx.Exec("UPDATE event_sequence SET erasures = erasures + 1 WHERE id = 1").Error; err != nil {
		return fmt.Errorf("erase events of %s: %w", did, err)
	}
	if err := tx.Exec("DELETE FROM events WHERE did = ?", did.String()).Error; err != nil {
		return fmt.Errorf("erase events of %s: %w", did, err)
	}
	return nil
}

// Erased drops the frames of a DID from memory after Erase has committed. Other
// processes on the same database drop theirs at their next poll.
func (s *Sequencer) Erased(did syntax.DID) { s.ring.drop(did) }

// pruneBatch is how many events one transaction of Prune looks at: it holds
// appenders up for milliseconds.
const pruneBatch = 500

// Prune removes events older than Retention, oldest first, and returns how
// many. It stops at what HoldBack has not read yet, except for events older
// than MaxRetention.
func (s *Sequencer) Prune(ctx context.Context) (int64, error) {
	held := int64(-1)
	if s.cfg.HoldBack != nil {
		seq, err := s.cfg.HoldBack(ctx)
		if err != nil {
			return 0, fmt.Errorf("prune events: cursor to hold back for: %w", err)
		}
		held = seq
	}
	now := s.now()
	keepFrom := migrations.FormatTime(now.Add(-s.cfg.Retention))
	keepHeldFrom := migrations.FormatTime(now.Add(-MaxRetention))
	may := func(seq int64, createdAt string) bool {
		return createdAt < keepHeldFrom || createdAt < keepFrom && (held < 0 || seq <= held)
	}
	var total int64
	for {
		removed, err := s.pruneSome(ctx, may)
		total += removed
		if err != nil || removed < pruneBatch {
			return total, err
		}
	}
}

// pruneSome removes the longest run of at most pruneBatch oldest events that
// may go. The index by time that this saves would cost every append.
func (s *Sequencer) pruneSome(ctx context.Context, may func(seq int64, createdAt string) bool) (int64, error) {
	var oldest []struct {
		Seq       int64
		CreatedAt string
	}
	err := s.db.Read.WithContext(ctx).Raw("SELECT seq, created_at FROM events ORDER BY seq LIMIT ?", pruneBatch).Scan(&oldest).Error
	if err != nil {
		return 0, fmt.Errorf("prune events: %w", err)
	}
	upTo := int64(0)
	for _, e := range oldest {
		if !may(e.Seq, e.CreatedAt) {
			break
		}
		upTo = e.Seq
	}
	if upTo == 0 {
		return 0, nil
	}
	var removed int64
	err = s.db.Tx(ctx, func(tx *gorm.DB) error {
		if err := tx.Exec("UPDATE event_sequence SET pruned_seq = ? WHERE id = 1 AND pruned_seq < ?", upTo, upTo).Error; err != nil {
			return err
		}
		res := tx.Exec("DELETE FROM events WHERE seq <= ?", upTo)
		removed = res.RowsAffected
		return res.Error
	})
	if err != nil {
		return 0, fmt.Errorf("prune events up to %d: %w", upTo, err)
	}
	return removed, nil
}
