package library

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// Holding is what a library held at one moment. It does not change.
type Holding struct {
	Generation int64             // grows with each change; 0 before the first
	Catalog    *lexicons.Catalog // the program's lexicons and those that were added
	Rules      *lexicons.Rules   // over Catalog
}

// Library is the added lexicons of one database. Safe for concurrent use.
type Library struct {
	db   *migrations.DB
	held atomic.Pointer[Holding]
	now  func() time.Time
}

// New makes a library over a migrated database. Until the first Refresh or In it
// holds what rules was made with. A nil now is time.Now.
func New(db *migrations.DB, rules *lexicons.Rules, now func() time.Time) (*Library, error) {
	if db == nil || rules == nil {
		return nil, errors.New("new library: want a database and rules")
	}
	if now == nil {
		now = time.Now
	}
	l := &Library{db: db, now: now}
	l.held.Store(&Holding{Catalog: rules.Catalog(), Rules: rules})
	return l, nil
}

// Current is what was held at the last Refresh or In.
func (l *Library) Current() *Holding { return l.held.Load() }

// Refresh reads what changed since, if anything did: one row otherwise.
func (l *Library) Refresh(ctx context.Context) error {
	return l.db.ReadTx(ctx, func(tx *gorm.DB) error {
		_, err := l.In(tx)
		return err
	})
}

// In is what the library holds inside the caller's transaction (tx), which has
// changed nothing of it.
func (l *Library) In(tx *gorm.DB) (*Holding, error) {
	held := l.held.Load()
	generation, err := l.generation(tx)
	if err != nil || generation == held.Generation {
		return held, err
	}
	return l.read(tx, generation)
}

func (l *Library) generation(tx *gorm.DB) (n int64, err error) {
	if err := tx.Raw("SELECT generation FROM lexicon_state WHERE id = 1").Scan(&n).Error; err != nil {
		return 0, fmt.Errorf("read generation of the lexicons: %w", err)
	}
	return n, nil
}

// read builds what is stored, and publishes it unless somebody was faster.
func (l *Library) read(tx *gorm.DB, generation int64) (*Holding, error) {
	entries, err := stored(tx)
	if err != nil {
		return nil, err
	}
	added := make([]*lexicons.Lexicon, len(entries))
	for i, e := range entries {
		added[i] = e.Lexicon
	}
	was := l.held.Load()
	catalog := was.Catalog.With(added...)
	h := &Holding{Generation: generation, Catalog: catalog, Rules: was.Rules.With(catalog)}
	for was.Generation < generation && !l.held.CompareAndSwap(was, h) {
		was = l.held.Load()
	}
	return h, nil
}

// Entry is one added lexicon.
type Entry struct {
	*lexicons.Lexicon
	AddedAt time.Time // when it got its present form
	InForce bool      // false when the program has a newer one of its own that it does not fit
}

// Added lists what was added, by NSID.
func (l *Library) Added(ctx context.Context) ([]Entry, error) {
	var entries []Entry
	err := l.db.ReadTx(ctx, func(tx *gorm.DB) error {
		held, err := l.In(tx)
		if err != nil {
			return err
		}
		if entries, err = stored(tx); err != nil {
			return err
		}
		for i, e := range entries {
			entries[i].InForce = !held.Catalog.Loaded(e.NSID) || held.Catalog.Replaceable(e.Lexicon)
		}
		return nil
	})
	return entries, err
}

func stored(tx *gorm.DB) ([]Entry, error) {
	var rows []struct {
		NSID            string `gorm:"column:nsid"`
		Source, AddedAt string
	}
	if err := tx.Raw("SELECT nsid, source, added_at FROM lexicons ORDER BY nsid").Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("read lexicons: %w", err)
	}
	entries := make([]Entry, len(rows))
	for i, r := range rows {
		at, err := migrations.ParseTime(r.AddedAt)
		if err != nil {
			return nil, fmt.Errorf("stored lexicon %s: %w", r.NSID, err)
		}
		l, err := lexicons.ParseLexicon([]byte(r.Source))
		if err != nil {
			return nil, fmt.Errorf("stored lexicon %s: %w", r.NSID, err)
		}
		entries[i] = Entry{Lexicon: l, AddedAt: at}
	}
	return entries, nil
}

// Change carries out a proposal, unless it has problems or is only tried: then
// the plan says what it would have done. It owns its transaction, and Current
// has the change when it returns.
func (l *Library) Change(ctx context.Context, p lexicons.Proposal, try bool) (*lexicons.Plan, error) {
	var plan *lexicons.Plan
	err := l.db.Tx(ctx, func(tx *gorm.DB) error {
		held, err := l.lock(tx)
		if err != nil {
			return err
		}
		plan = held.Catalog.Plan(p)
		if try || len(plan.Problems) > 0 {
			return nil
		}
		return l.write(tx, plan)
	})
	if err != nil {
		return nil, fmt.Errorf("change lexicons: %w", err)
	}
	return plan, l.Refresh(ctx)
}

// Assume makes the set of added lexicons this one, whatever is to be said of
// it, inside the caller's transaction (tx). What comes of it, its plan says; it
// is not in Current before a Refresh that follows the commit.
func (l *Library) Assume(tx *gorm.DB, set []*lexicons.Lexicon) (*lexicons.Plan, error) {
	held, err := l.lock(tx)
	if err != nil {
		return nil, err
	}
	plan := held.Catalog.Become(set)
	return plan, l.write(tx, plan)
}

// Foresee is the plan of Assume, from what Current holds.
func (l *Library) Foresee(set []*lexicons.Lexicon) *lexicons.Plan {
	return l.Current().Catalog.Become(set)
}

// Holds tells whether the added lexicons are these, in order of NSID.
func (l *Library) Holds(ctx context.Context, set []*lexicons.Lexicon) (bool, error) {
	if err := l.Refresh(ctx); err != nil {
		return false, err
	}
	return slices.EqualFunc(l.Current().Catalog.Added(), set, func(a, b *lexicons.Lexicon) bool {
		return a.NSID == b.NSID && bytes.Equal(a.Source, b.Source)
	}), nil
}

// lock waits for whoever else changes the library, and reads it.
func (l *Library) lock(tx *gorm.DB) (*Holding, error) {
	if err := tx.Exec("UPDATE lexicon_state SET generation = generation WHERE id = 1").Error; err != nil {
		return nil, fmt.Errorf("lock lexicons: %w", err)
	}
	return l.In(tx)
}

// write stores what a plan changes, if it does.
func (l *Library) write(tx *gorm.DB, plan *lexicons.Plan) error {
	if !plan.Changes() {
		return nil
	}
	added := map[syntax.NSID]*lexicons.Lexicon{}
	for _, a := range plan.Catalog.Added() {
		added[a.NSID] = a
	}
	for _, s := range plan.Steps {
		var err error
		switch s.Action {
		case lexicons.StepRemove:
			err = tx.Exec("DELETE FROM lexicons WHERE nsid = ?", s.NSID).Error
		case lexicons.StepAdd, lexicons.StepChange:
			err = tx.Exec(`INSERT INTO lexicons (nsid, source, added_at) VALUES (?, ?, ?)
				ON CONFLICT (nsid) DO UPDATE SET source = excluded.source, added_at = excluded.added_at`,
				s.NSID, string(added[s.NSID].Source), migrations.FormatTime(l.now())).Error
		}
		if err != nil {
			return fmt.Errorf("store lexicon %s: %w", s.NSID, err)
		}
	}
	return tx.Exec("UPDATE lexicon_state SET generation = generation + 1 WHERE id = 1").Error
}
