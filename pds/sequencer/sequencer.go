package sequencer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
)

// ErrSequence is wrapped by an error about a log that contradicts itself: seq
// would run backwards. It is our own corruption (a database restored under a
// running process, a restore without Advance) and must stop the process.
var ErrSequence = errors.New("event sequence ran backwards")

// Config is what a Sequencer is made of. DB is required.
type Config struct {
	DB  *migrations.DB
	Log *slog.Logger // slog.Default() when nil

	// Retention is how long an event stays readable; DefaultRetention when zero.
	Retention time.Duration
	// HoldBack, when set, is the cursor of a reader whose unread events Prune
	// must keep past their Retention (our own index), up to MaxRetention.
	HoldBack func(ctx context.Context) (seq int64, err error)
	// Of the websocket connections: see xrpc.SubscribersConfig, also for what zero means.
	MaxSubscribers int
	WriteTimeout   time.Duration
	PingEvery      time.Duration
	ReadmitEvery   time.Duration
	// PollEvery is how often Run looks for events of other processes; when zero
	// 250 ms on Postgres, where other replicas append, and a second on SQLite,
	// where it only mends a Published that never came.
	PollEvery time.Duration

	Now func() time.Time // time.Now when nil
}

// Defaults and bounds of Config.
const (
	DefaultRetention = 72 * time.Hour
	MaxRetention     = 30 * 24 * time.Hour
)

// Event is one stored event.
type Event struct {
	Seq       int64
	DID       syntax.DID
	Kind      Kind
	Frame     []byte // the whole websocket message: header and body. Shared: not to be changed
	CreatedAt string // when it was appended (migrations.FormatTime)
}

// Sequencer is the event log of one PDS database. Its methods are safe for
// concurrent use.
type Sequencer struct {
	cfg  Config
	db   *migrations.DB
	log  *slog.Logger
	now  func() time.Time
	ring *ring

	subscribers *xrpc.Subscribers

	mu       sync.Mutex
	erasures int64 // guarded by mu: the count that the ring is in keeping with
}

// New checks the configuration and reads where the log ends. It starts nothing.
func New(ctx context.Context, cfg Config) (*Sequencer, error) {
	if cfg.DB == nil {
		return nil, errors.New("sequencer: Config.DB is required")
	}
	if cfg.Retention < 0 || cfg.Retention > MaxRetention {
		return nil, fmt.Errorf("sequencer: retention of %s, want at most %s", cfg.Retention, MaxRetention)
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Retention = cmp.Or(cfg.Retention, DefaultRetention)
	poll := time.Second
	if cfg.DB.Dialect == migrations.Postgres {
		poll = 250 * time.Millisecond
	}
	cfg.PollEvery = cmp.Or(cfg.PollEvery, poll)

	s := &Sequencer{cfg: cfg, db: cfg.DB, log: cfg.Log, now: cfg.Now}
	s.subscribers = xrpc.NewSubscribers(xrpc.SubscribersConfig{
		Log: cfg.Log, Max: cfg.MaxSubscribers, WriteTimeout: cfg.WriteTimeout, PingEvery: cfg.PingEvery, ReadmitEvery: cfg.ReadmitEvery,
		Last: func() int64 { return s.ring.last() }, Now: cfg.Now,
	})
	state, err := s.state(ctx)
	if err != nil {
		return nil, err
	}
	var stored int64
	if err := s.db.Read.WithContext(ctx).Raw("SELECT COALESCE(MAX(seq), 0) FROM events").Scan(&stored).Error; err != nil {
		return nil, fmt.Errorf("read event log: %w", err)
	}
	if stored > state.LastSeq {
		return nil, fmt.Errorf("%w: event %d is stored, but the sequence stands at %d", ErrSequence, stored, state.LastSeq)
	}
	s.ring, s.erasures = newRing(state.LastSeq), state.Erasures
	return s, nil
}

// sequenceRow is the one row of event_sequence.
type sequenceRow struct {
	LastSeq   int64
	PrunedSeq int64
	Erasures  int64
}

func (s *Sequencer) state(ctx context.Context) (sequenceRow, error) {
	var row sequenceRow
	err := s.db.Read.WithContext(ctx).Raw("SELECT last_seq, pruned_seq, erasures FROM event_sequence WHERE id = 1").Scan(&row).Error
	if err != nil {
		return row, fmt.Errorf("read event sequence: %w", err)
	}
	return row, nil
}

// Run looks for what other processes did to the log until ctx ends, then
// closes the subscribers' connections (Close).
func (s *Sequencer) Run(ctx context.Context) error {
	defer func() { _ = s.Close() }()
	tick := time.NewTicker(s.cfg.PollEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		// A database that is away for a while is no reason to stop: appenders fail
		// by themselves, readers wait. Said once per outage.
		err := s.poll(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			s.log.WarnContext(ctx, "event log cannot be polled", "err", err)
		}
		failing = err != nil
	}
}

// poll brings the ring up to what the database says.
func (s *Sequencer) poll(ctx context.Context) error {
	state, err := s.state(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	erased := state.Erasures != s.erasures
	s.erasures = state.Erasures
	s.mu.Unlock()
	if erased {
		s.ring.forget()
	}
	s.ring.notice(state.LastSeq)
	return nil
}

// ReadFrom returns up to limit events with a seq greater than cursor, in
// order, fewer when they are large. It returns none, and no error, at the end
// of the log. A cursor below Oldest misses what retention removed.
func (s *Sequencer) ReadFrom(ctx context.Context, cursor int64, limit int) ([]Event, error) {
	if events, ok := s.ring.read(cursor, limit); ok {
		return events, nil
	}
	return s.readStored(ctx, cursor, limit)
}

// pageBytes bounds the frames of one page from the database, past the first.
const pageBytes = 4 << 20

func (s *Sequencer) readStored(ctx context.Context, cursor int64, limit int) (events []Event, err error) {
	rows, err := s.db.Read.WithContext(ctx).
		Raw("SELECT seq, did, kind, frame, created_at FROM events WHERE seq > ? ORDER BY seq LIMIT ?", cursor, limit).Rows()
	if err != nil {
		return nil, fmt.Errorf("read events after %d: %w", cursor, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for size := 0; size < pageBytes && rows.Next(); {
		var e Event
		if err := rows.Scan(&e.Seq, &e.DID, &e.Kind, &e.Frame, &e.CreatedAt); err != nil {
			return nil, fmt.Errorf("read events after %d: %w", cursor, err)
		}
		size += len(e.Frame)
		events = append(events, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read events after %d: %w", cursor, err)
	}
	return events, nil
}

// Wait blocks until ReadFrom(cursor) has something, or ctx ends.
func (s *Sequencer) Wait(ctx context.Context, cursor int64) error {
	for {
		has, known, bell := s.ring.tell(cursor)
		if !known {
			var err error
			if has, err = s.storedAfter(ctx, cursor); err != nil {
				return err
			}
		}
		if has {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-bell:
		}
	}
}

func (s *Sequencer) storedAfter(ctx context.Context, cursor int64) (has bool, err error) {
	err = s.db.Read.WithContext(ctx).Raw("SELECT EXISTS (SELECT 1 FROM events WHERE seq > ?)", cursor).Scan(&has).Error
	if err != nil {
		return false, fmt.Errorf("look for events after %d: %w", cursor, err)
	}
	return has, nil
}

// Last is the highest seq given out and committed by any process, 0 for none.
func (s *Sequencer) Last(ctx context.Context) (int64, error) {
	state, err := s.state(ctx)
	return state.LastSeq, err
}

// Oldest is the cursor from which the log is complete: a reader behind it has
// missed events that retention removed. 0 when nothing was removed yet.
func (s *Sequencer) Oldest(ctx context.Context) (int64, error) {
	state, err := s.state(ctx)
	return state.PrunedSeq, err
}

// Advance makes every seq to come greater than atLeast, and never lowers it.
// A restore from a backup calls it, for consumers may have seen seqs that the
// backup has not.
func (s *Sequencer) Advance(ctx context.Context, atLeast int64) error {
	err := s.db.Tx(ctx, func(tx *gorm.DB) error {
		return tx.Exec("UPDATE event_sequence SET last_seq = ? WHERE id = 1 AND last_seq < ?", atLeast, atLeast).Error
	})
	if err != nil {
		return fmt.Errorf("advance event sequence to %d: %w", atLeast, err)
	}
	return s.poll(ctx)
}
