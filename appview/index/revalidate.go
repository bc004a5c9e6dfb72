package index

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// How records are judged again. What a record is worth follows from its own
// content and from the lexicons of the moment; a transaction that applies
// events reads those behind the lock of the index, so a record that arrives
// after a change is judged by it. A change asks, in its own transaction, for
// the record types that it concerns: their records are walked in pages, each
// page one transaction that also moves the position on. No process owns a walk:
// whichever takes the lock goes on where the last page ended. At its end the
// derived tables are what Reindex would make.

// revalidatePage is how many records are judged again in one transaction:
// applying waits for it.
const revalidatePage = 100

// SetLexicons makes these, in order of NSID, the lexicons that were added to
// the program's own, and asks for what they concern to be judged again. Told
// what it knows, it changes nothing.
func (x *Index) SetLexicons(ctx context.Context, set []*lexicons.Lexicon) error {
	if known, err := x.library.Holds(ctx, set); err != nil || known {
		return err
	}
	err := x.db.Tx(ctx, func(tx *gorm.DB) error {
		w, err := x.newWriter(tx, "lexicons")
		if err != nil {
			return err
		}
		plan, err := x.library.Assume(tx, set)
		if err != nil {
			return err
		}
		return w.request(plan.Concerned)
	})
	if err != nil {
		return fmt.Errorf("set lexicons: %w", err)
	}
	return x.library.Refresh(ctx)
}

// Adopt makes the edition of this program the one that holds: when another
// one judged what is here, all of it is to be judged again. To be called at the
// start, before anything is applied; of two programs the one that started last
// holds.
func (x *Index) Adopt(ctx context.Context) error {
	var edition string
	if err := x.db.Read.WithContext(ctx).Raw("SELECT edition FROM index_state WHERE id = 1").Scan(&edition).Error; err != nil {
		return fmt.Errorf("adopt index: %w", err)
	}
	if edition == x.edition {
		return nil
	}
	err := x.db.Tx(ctx, func(tx *gorm.DB) error {
		w, err := x.newWriter(tx, "adopt")
		if err != nil {
			return err
		}
		if err := w.adopted(); err != nil {
			return err
		}
		return w.requestAll()
	})
	if err != nil {
		return fmt.Errorf("adopt index: %w", err)
	}
	return nil
}

// adopted notes that all that is here is this edition's, or asked for.
func (w *writer) adopted() error {
	if err := w.tx.Exec("DELETE FROM revalidations").Error; err != nil {
		return err
	}
	return w.tx.Exec("UPDATE index_state SET edition = ?, mixed = FALSE WHERE id = 1", w.x.edition).Error
}

// requestAll asks for every collection.
func (w *writer) requestAll() error {
	var all []syntax.NSID
	if err := w.tx.Raw("SELECT DISTINCT collection FROM records").Scan(&all).Error; err != nil {
		return err
	}
	return w.request(all)
}

// request asks for the records of collections to be judged again, from the first.
func (w *writer) request(collections []syntax.NSID) error {
	for _, c := range collections {
		err := w.tx.Exec(`INSERT INTO revalidations (collection, state, uri, seen, released, quarantined, requested_at, finished_at)
			VALUES (?, ?, '', 0, 0, 0, ?, '')
			ON CONFLICT (collection) DO UPDATE SET state = excluded.state, uri = '', seen = 0, released = 0, quarantined = 0,
				requested_at = excluded.requested_at, finished_at = ''`,
			c, firstJudged, migrations.FormatTime(w.now)).Error
		if err != nil {
			return fmt.Errorf("ask for %s to be judged again: %w", c, err)
		}
	}
	return nil
}

// firstJudged is the first of the states of a record with content, by name: a
// walk passes over tombstones, which sort before it.
const firstJudged = string(StateOK)

// RequestRevalidation asks for the records of collections to be judged again;
// of all that there are records of when collections is nil. It returns those.
func (x *Index) RequestRevalidation(ctx context.Context, collections []syntax.NSID) ([]syntax.NSID, error) {
	err := x.db.Tx(ctx, func(tx *gorm.DB) error {
		w, err := x.newWriter(tx, "revalidate")
		if err != nil {
			return err
		}
		if collections == nil {
			if err := tx.Raw("SELECT DISTINCT collection FROM records ORDER BY collection").Scan(&collections).Error; err != nil {
				return err
			}
		}
		return w.request(collections)
	})
	if err != nil {
		return nil, fmt.Errorf("request revalidation: %w", err)
	}
	return collections, nil
}

// RevalidateRecords judges records again at once, and returns the states that
// they have then; those that are not here are left out. At most MaxBatch URIs.
func (x *Index) RevalidateRecords(ctx context.Context, uris []syntax.ATURI) (map[syntax.ATURI]State, error) {
	states := make(map[syntax.ATURI]State, len(uris))
	if err := batch(len(uris)); err != nil {
		return nil, err
	}
	ctx, cancel := within(ctx, applyTimeout)
	defer cancel()
	err := x.db.Tx(ctx, func(tx *gorm.DB) error {
		w, err := x.newWriter(tx, "revalidate")
		if err != nil {
			return err
		}
		for _, uri := range uris {
			rec, err := w.record(uri)
			if err != nil {
				return err
			}
			if rec == nil {
				continue
			}
			if err := w.rejudge(rec); err != nil {
				return err
			}
			states[uri] = State(rec.State)
		}
		return w.settle(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("revalidate records: %w", err)
	}
	return states, nil
}

// Revalidate judges one page of what is to be judged again. more says whether
// to call it again at once. A program whose edition does not hold does nothing.
func (x *Index) Revalidate(ctx context.Context) (more bool, err error) {
	waiting, err := x.waiting(x.db.Read.WithContext(ctx))
	if err != nil || !waiting {
		return false, err
	}
	ctx, cancel := within(ctx, applyTimeout)
	defer cancel()
	err = x.db.Tx(ctx, func(tx *gorm.DB) error {
		w, err := x.newWriter(tx, "revalidate")
		if err != nil {
			return err
		}
		more, err = w.revalidate(ctx)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("revalidate: %w", err)
	}
	return more, nil
}

// waiting tells whether this program has anything to judge again.
func (x *Index) waiting(tx *gorm.DB) (is bool, err error) {
	err = tx.Raw(`SELECT EXISTS (SELECT 1 FROM index_state WHERE edition = ? AND
		(mixed OR EXISTS (SELECT 1 FROM revalidations WHERE finished_at = '')))`, x.edition).Scan(&is).Error
	return is, err
}

type revalidationRow struct {
	Collection  string
	State       string
	URI         string `gorm:"column:uri"`
	Seen        int64
	Released    int64
	Quarantined int64
	RequestedAt string
	FinishedAt  string
}

const revalidationColumns = "collection, state, uri, seen, released, quarantined, requested_at, finished_at"

func (w *writer) revalidate(ctx context.Context) (more bool, err error) {
	if waiting, err := w.x.waiting(w.tx); err != nil || !waiting {
		return false, err
	}
	var tasks []revalidationRow
	if err := w.tx.Raw("SELECT " + revalidationColumns + " FROM revalidations WHERE finished_at = '' ORDER BY collection LIMIT 1").Scan(&tasks).Error; err != nil {
		return false, err
	}
	if len(tasks) == 0 {
		// While this edition held, another one wrote: a replica that was not
		// brought up to date yet. What it wrote cannot be told apart.
		if err := w.adopted(); err != nil {
			return false, err
		}
		return true, w.requestAll()
	}
	task := &tasks[0]
	var page []recordRow
	err = w.tx.Raw("SELECT "+recordColumns+" FROM records WHERE collection = ? AND (state, uri) > (?, ?) ORDER BY state, uri LIMIT ?",
		task.Collection, task.State, task.URI, revalidatePage).Scan(&page).Error
	if err != nil {
		return false, err
	}
	for i := range page {
		rec := &page[i]
		was := rec.State
		task.State, task.URI = rec.State, rec.URI
		if err := w.rejudge(rec); err != nil {
			return false, err
		}
		task.Seen++
		switch {
		case was == rec.State:
		case was == string(StateQuarantined):
			task.Released++
		default:
			task.Quarantined++
		}
	}
	if err := w.settle(ctx); err != nil {
		return false, err
	}
	if len(page) < revalidatePage {
		task.FinishedAt = migrations.FormatTime(w.now)
	}
	return true, w.tx.Exec("UPDATE revalidations SET state = ?, uri = ?, seen = ?, released = ?, quarantined = ?, finished_at = ? WHERE collection = ?",
		task.State, task.URI, task.Seen, task.Released, task.Quarantined, task.FinishedAt, task.Collection).Error
}

// rejudge brings a record to what it would be had it arrived just now: in the
// views, or in quarantine, and its findings computed anew.
func (w *writer) rejudge(rec *recordRow) error {
	w.records[syntax.ATURI(rec.URI)] = rec
	row, err := w.shown(rec)
	if err != nil || row.Record == nil {
		return err // a tombstone
	}
	w.restale[row.uri()] = true
	parsed := w.parse(row)
	quarantined := w.verdicts[versionKey(row.URI, row.CID)].Quarantine
	if quarantined == (rec.State == string(StateQuarantined)) {
		return w.renew(row, rec, parsed)
	}
	w.moved[row.uri()] = true
	was := *rec
	if quarantined {
		rec.State = string(StateQuarantined)
		if err := w.tellVersion(&was, rec, row.Rev); err != nil {
			return err
		}
		return w.withdraw(rec)
	}
	rec.State = string(StateOK)
	if rec.Violated {
		rec.State = string(StateViolated)
	}
	if err := w.tellVersion(&was, rec, row.Rev); err != nil {
		return err
	}
	return w.release(row, rec, parsed)
}

// renew derives anew what another edition may have derived otherwise: the words by
// which a record is searched, the repository of a session, and the keys by which the
// sorts of record that are found by name are found.
func (w *writer) renew(row *journalRow, rec *recordRow, parsed *lexicons.Record) error {
	if rec.State == string(StateQuarantined) || parsed == nil {
		return nil
	}
	switch row.collection() {
	case lexicons.SessionNSID, lexicons.ClassNSID, lexicons.SkillNSID:
	default:
		if err := w.dropWords(row.URI); err != nil {
			return err
		}
		return w.addWords(row, rec, parsed)
	}
	if err := w.clear(rec); err != nil {
		return err
	}
	return w.fill(row, rec, parsed, false)
}

// withdraw takes a record out of the views.
func (w *writer) withdraw(rec *recordRow) error {
	if syntax.NSID(rec.Collection) == lexicons.ObservationNSID {
		if err := w.buryNode(syntax.ATURI(rec.URI)); err != nil {
			return err
		}
	}
	if err := w.clear(rec); err != nil {
		return err
	}
	return w.saveRecord(rec)
}

// release takes a record out of quarantine.
func (w *writer) release(row *journalRow, rec *recordRow, parsed *lexicons.Record) error {
	if row.collection() == lexicons.ObservationNSID {
		if err := w.reviveNode(row.uri()); err != nil {
			return err
		}
	}
	if err := w.saveRecord(rec); err != nil {
		return err
	}
	return w.fill(row, rec, parsed, false) // untangle finds the heads
}

// reviveNode makes a node live that never was a head: its chain is shaped anew.
func (w *writer) reviveNode(uri syntax.ATURI) error {
	found, err := w.nodes("uri = ?", uri)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return errors.New("an observation without a place in a chain")
	}
	w.tangled[found[0].Chain] = true
	return w.tx.Exec("UPDATE chain_nodes SET live = TRUE WHERE uri = ?", uri).Error
}

// Revalidation is how far one collection has come in being judged again.
type Revalidation struct {
	Collection  syntax.NSID
	Seen        int64 // records so far
	Released    int64 // of them, those that came out of quarantine
	Quarantined int64 // of them, those that went in
	RequestedAt time.Time
	FinishedAt  time.Time // zero while it runs
}

// Revalidations are the collections that were judged again since this edition
// of the program holds, those that are not finished first.
func (x *Index) Revalidations(ctx context.Context) ([]Revalidation, error) {
	var rows []revalidationRow
	err := x.db.Read.WithContext(ctx).Raw("SELECT "+revalidationColumns+" FROM revalidations ORDER BY finished_at <> '', collection LIMIT ?", maxRevalidations).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("list revalidations: %w", err)
	}
	out := make([]Revalidation, len(rows))
	for i, r := range rows {
		out[i] = Revalidation{
			Collection: syntax.NSID(r.Collection), Seen: r.Seen, Released: r.Released, Quarantined: r.Quarantined,
			RequestedAt: textTime(r.RequestedAt), FinishedAt: textTime(r.FinishedAt),
		}
	}
	return out, nil
}

// maxRevalidations bounds what Revalidations tells.
const maxRevalidations = 100
