package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/library"
	"herbarium.garden/migrations"
)

// applyTimeout bounds one Apply: a resync of a big repo is one transaction. So it
// does whatever else settles what many records name.
const applyTimeout = 10 * time.Minute

// MaxURILength bounds the AT URIs that are indexed, in bytes: an index entry
// of Postgres has a limit, and no honest URI comes near this one.
const MaxURILength = 1200

// Apply takes in events of a source, in order, and moves the source's cursor:
// one transaction. Events that were applied before change nothing. An error
// means that nothing was applied and is never the fault of the events, which
// are verified: the caller must not pass them.
func (x *Index) Apply(ctx context.Context, source string, cursor int64, events []Event) error {
	ctx, cancel := within(ctx, applyTimeout)
	defer cancel()
	err := x.db.Tx(ctx, func(tx *gorm.DB) error {
		w, err := x.newWriter(tx, source)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := w.event(e); err != nil {
				return fmt.Errorf("event of %s: %w", e.about(), err)
			}
		}
		if err := w.settle(ctx); err != nil {
			return err
		}
		return w.saveCursor(cursor)
	})
	if err != nil {
		return fmt.Errorf("apply events of %s: %w", source, err)
	}
	x.ring()
	return nil
}

// within bounds what has no deadline.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

// writer is one transaction of Apply or Reindex: what it wrote, and what it
// still has to settle before the transaction may commit.
type writer struct {
	x      *Index
	tx     *gorm.DB
	source string
	now    time.Time
	held   *library.Holding // what judges, the whole transaction long

	nextLabel int64                   // number of the next chain or branch
	marked    string                  // the commit that was noted last
	marks     []int64                 // of commits that are not written yet
	lostHeads []string                // observations that were the head of a branch, or led to nothing else
	repos     map[syntax.DID]*repoRow // read or changed in this transaction
	// What this transaction read or wrote, so that settling need not read it again.
	parsed   map[string]*lexicons.Record // by versionKey
	verdicts map[string]lexicons.Verdict
	records  map[syntax.ATURI]*recordRow
	rows     map[int64]*journalRow
	fresh    map[syntax.ATURI]bool // without findings so far

	tangled map[int64]bool        // chains whose shape must be computed anew
	restale map[syntax.ATURI]bool // records whose findings must be computed anew
	moved   map[syntax.ATURI]bool // targets that came, changed or went: whoever names them is stale too
	recount map[syntax.ATURI]bool // conversations whose turns must be counted anew

	// What those who follow are told.
	untold    []changeRow
	changeSeq int64                 // of the last change that is stored
	joined    map[string]bool       // observations that linked chains in this transaction
	released  map[syntax.ATURI]bool // records that came out of quarantine
	silent    bool                  // the journal is replayed: nothing happens
	purging   bool                  // what is deleted is removed for good
}

// newWriter locks the index: one transaction applies at a time, on Postgres
// too, so that the journal's seq is the order of commit and two sources cannot
// weave one chain at once.
func (x *Index) newWriter(tx *gorm.DB, source string) (*writer, error) {
	w := &writer{
		x: x, tx: tx, source: source, now: x.now().UTC(),
		repos:    map[syntax.DID]*repoRow{},
		verdicts: map[string]lexicons.Verdict{},
		records:  map[syntax.ATURI]*recordRow{},
		rows:     map[int64]*journalRow{},
		fresh:    map[syntax.ATURI]bool{},
		parsed:   map[string]*lexicons.Record{},
		tangled:  map[int64]bool{},
		restale:  map[syntax.ATURI]bool{},
		moved:    map[syntax.ATURI]bool{},
		recount:  map[syntax.ATURI]bool{},
		joined:   map[string]bool{},
		released: map[syntax.ATURI]bool{},
	}
	var state struct{ NextLabel, ChangeSeq int64 }
	// That a program of another edition wrote is noted: see Revalidate.
	err := tx.Raw("UPDATE index_state SET applied = applied + 1, mixed = mixed OR edition <> ? WHERE id = 1 RETURNING next_label, change_seq", x.edition).Scan(&state).Error
	if err != nil {
		return nil, fmt.Errorf("lock index: %w", err)
	}
	w.nextLabel, w.changeSeq = state.NextLabel, state.ChangeSeq
	// Read behind the lock: no change of the lexicons can come between.
	if w.held, err = x.library.In(tx); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *writer) saveCursor(cursor int64) error {
	return w.tx.Exec(`INSERT INTO sources (name, cursor, updated_at) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET
			cursor = CASE WHEN excluded.cursor > sources.cursor THEN excluded.cursor ELSE sources.cursor END,
			updated_at = excluded.updated_at`,
		w.source, cursor, migrations.FormatTime(w.now)).Error
}

func (w *writer) event(e Event) error {
	r, err := w.repo(e.about())
	if err != nil {
		return err
	}
	switch e := e.(type) {
	case *Commit:
		return w.commit(r, e)
	case *Resync:
		return w.resync(r, e)
	case *Account:
		return w.account(r, e)
	case *Identity:
		r.Handle, r.changed = e.Handle.Normalize().String(), true
	case *Desync:
		return w.desync(r, e)
	case *Unreachable:
		r.Unreachable, r.changed = cmp.Or(cut(clean(e.Reason), maxFindingMessage), "no answer"), true
	default:
		return fmt.Errorf("unknown event %T", e)
	}
	return nil
}

// desync also leaves a finding on the repo, which outlives the resync, and a
// reindex: it is about what was not journalled.
func (w *writer) desync(r *repoRow, e *Desync) error {
	reason := cut(clean(e.Reason), maxFindingMessage)
	r.Sync, r.SyncError, r.changed = string(SyncDesynchronized), reason, true
	return w.tx.Exec(`INSERT INTO findings (uri, code, path, cid, did, collection, severity, message, repair, at)
		VALUES (?, ?, '', '', ?, '', ?, ?, '', ?)
		ON CONFLICT (uri, code, path, cid) DO UPDATE SET message = excluded.message, at = excluded.at`,
		"at://"+string(e.DID), lexicons.CodeDesynchronized, e.DID, string(lexicons.Warning), reason, migrations.FormatTime(w.now)).Error
}

func (w *writer) commit(r *repoRow, e *Commit) error {
	if string(e.Rev) <= r.Rev {
		return nil // delivered again
	}
	at := commitAt{did: e.DID, rev: e.Rev, cid: e.CID}
	for _, op := range e.Ops {
		if err := w.operation(at, op); err != nil {
			return err
		}
	}
	if provable(e.Ops) {
		if err := w.keepProof(at, e.Proof); err != nil {
			return err
		}
	}
	r.advance(e.Rev, e.CID, e.Data)
	return nil
}

func (w *writer) resync(r *repoRow, e *Resync) error {
	if string(e.Rev) < r.Rev {
		r.Sync, r.SyncError, r.changed = string(SyncDesynchronized), fmt.Sprintf("the host's repo went back from rev %s to %s", r.Rev, e.Rev), true
		return nil
	}
	ops, err := w.difference(e)
	if err != nil {
		return err
	}
	at := commitAt{did: e.DID, rev: e.Rev, cid: e.CID, baseline: true}
	for _, op := range ops {
		if err := w.operation(at, op); err != nil {
			return err
		}
	}
	if provable(ops) {
		if err := w.keepProof(at, e.Proof); err != nil {
			return err
		}
	}
	r.advance(e.Rev, e.CID, e.Data)
	return nil
}

// difference is what leads from what is known of a repo to what it now holds:
// deletions first, then the rest in order of path.
func (w *writer) difference(e *Resync) ([]Operation, error) {
	var rows []struct {
		Collection, Rkey string
		RepoCID          string `gorm:"column:repo_cid"`
	}
	err := w.tx.Raw("SELECT collection, rkey, repo_cid FROM records WHERE did = ? AND repo_cid <> '' ORDER BY collection, rkey", e.DID).Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	held := make(map[string]string, len(rows))
	for _, row := range rows {
		held[row.Collection+"/"+row.Rkey] = row.RepoCID
	}
	there := make(map[string]bool, len(e.Records))
	var ops, changed []Operation
	for _, op := range e.Records {
		path := string(op.Collection) + "/" + string(op.RecordKey)
		there[path] = true
		switch was := held[path]; was {
		case op.CID.String():
			continue
		case "":
			op.Action = lexicons.Create
		default:
			op.Action, op.Prev = lexicons.Update, parseCID(was)
		}
		changed = append(changed, op)
	}
	for _, row := range rows {
		if !there[row.Collection+"/"+row.Rkey] {
			ops = append(ops, Operation{
				Action: lexicons.Delete, Collection: syntax.NSID(row.Collection),
				RecordKey: syntax.RecordKey(row.Rkey), Prev: parseCID(row.RepoCID),
			})
		}
	}
	return append(ops, changed...), nil
}

func (w *writer) account(r *repoRow, e *Account) error {
	if e.Active || e.Status != "deleted" {
		return w.hold(r, e)
	}
	ops, err := w.difference(&Resync{DID: e.DID})
	if err != nil {
		return err
	}
	at := commitAt{did: e.DID, rev: syntax.TID(r.Rev), baseline: true}
	for _, op := range ops {
		if err := w.operation(at, op); err != nil {
			return err
		}
	}
	// The repo is gone; should the DID come back, it starts over.
	r.Rev, r.CommitCID, r.DataCID, r.Sync = "", "", "", string(SyncPending)
	return w.hold(r, e)
}

// hold takes over whether an account is active.
func (w *writer) hold(r *repoRow, e *Account) error {
	was := r.Active
	r.Active, r.Status, r.changed = e.Active, clean(e.Status), true
	if was == e.Active {
		return nil
	}
	return w.tell(changeRow{
		Kind: string(ChangeAccount), URI: "at://" + r.Did, Did: r.Did, shown: true, detail: changeDetail{Active: e.Active},
	})
}

// operation journals one operation and derives what follows from it.
func (w *writer) operation(at commitAt, op Operation) error {
	row := journalRow{
		Source: w.source, Did: string(at.did), Rev: string(at.rev), CommitCID: cidText(at.cid),
		URI:        "at://" + string(at.did) + "/" + string(op.Collection) + "/" + string(op.RecordKey),
		Collection: string(op.Collection), Rkey: string(op.RecordKey), Action: string(op.Action),
		CID: cidText(op.CID), Prev: cidText(op.Prev), Baseline: at.baseline,
		WitnessedAt: migrations.FormatTime(w.now), Record: op.Record,
	}
	if len(row.URI) > MaxURILength {
		return errors.New("record uri is too long")
	}
	if op.CID.Defined() {
		if gone, err := w.purged(op.CID); err != nil || gone {
			return err
		}
	}
	rec, err := w.record(row.uri())
	if err != nil {
		return err
	}
	facts, err := w.factsOf(&row, rec)
	if err != nil {
		return err
	}
	if row.Facts, err = facts.encode(); err != nil {
		return err
	}
	if err := w.append(&row); err != nil {
		return err
	}
	w.rows[row.Seq] = &row
	if err := w.derive(&row, rec); err != nil {
		return err
	}
	switch {
	case row.Action == string(lexicons.Delete):
		return w.forget(row.uri(), row.Seq)
	case row.Action == string(lexicons.Update) && op.Collection == lexicons.MessageNSID:
		// Whatever words an older version had may have been taken away by this one.
		return w.forget(row.uri(), row.Seq-1)
	}
	return nil
}

// settle brings everything that this transaction touched to rest: shapes of
// chains, then counts, then findings, which look at both.
func (w *writer) settle(ctx context.Context) error {
	if err := w.untangle(); err != nil {
		return fmt.Errorf("settle chains: %w", err)
	}
	if err := w.saveMarks(); err != nil {
		return err
	}
	if err := w.queueLostHeads(); err != nil {
		return err
	}
	if err := w.countTurns(); err != nil {
		return fmt.Errorf("settle conversations: %w", err)
	}
	if err := w.settleFindings(ctx); err != nil {
		return fmt.Errorf("settle findings: %w", err)
	}
	for _, r := range w.repos {
		if r.changed {
			if err := w.saveRepo(r); err != nil {
				return fmt.Errorf("save repo %s: %w", r.Did, err)
			}
		}
	}
	if err := w.saveChanges(); err != nil {
		return err
	}
	return w.tx.Exec("UPDATE index_state SET next_label = ? WHERE id = 1", w.nextLabel).Error
}

// commitAt is where an operation was witnessed.
type commitAt struct {
	did      syntax.DID
	rev      syntax.TID
	cid      cid.Cid
	baseline bool
}
