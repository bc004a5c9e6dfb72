package index

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
)

// reindexTimeout bounds one Reindex.
const reindexTimeout = 24 * time.Hour

// derived are the tables that Reindex builds again.
var derived = []string{
	"records", "refs", "blob_refs", "findings", "observations", "chain_nodes", "chain_branches",
	"sessions", "classes", "skills", "conversations", "messages", "citations", "citation_queue", "commit_marks", "search_docs",
}

// replayPage is how many rows of the journal are read at a time.
const replayPage = 500

// Reindex builds the derived tables again from the journal, in one
// transaction: readers see the old ones until it commits, and nothing is
// applied meanwhile. All is judged by this program's edition, so nothing is left
// to be judged again.
func (x *Index) Reindex(ctx context.Context) error {
	ctx, cancel := within(ctx, reindexTimeout)
	defer cancel()
	err := x.db.Tx(ctx, func(tx *gorm.DB) error { return x.rebuild(ctx, tx) })
	if err != nil {
		return fmt.Errorf("reindex: %w", err)
	}
	return nil
}

// rebuild is Reindex inside the caller's transaction (tx).
func (x *Index) rebuild(ctx context.Context, tx *gorm.DB) error {
	w, err := x.newWriter(tx, "reindex")
	if err != nil {
		return err
	}
	w.silent = true
	for _, table := range derived {
		clear := "DELETE FROM " + table
		if table == "findings" {
			clear += " WHERE collection <> ''" // those on a whole repo follow from nothing in the journal
		}
		if err := tx.Exec(clear).Error; err != nil {
			return fmt.Errorf("clear %s: %w", table, err)
		}
	}
	if err := w.deriveTrust(); err != nil {
		return err
	}
	if err := w.replay(); err != nil {
		return err
	}
	if err := w.settle(ctx); err != nil {
		return err
	}
	if err := w.tellReindexed(); err != nil {
		return err
	}
	return w.adopted()
}

func (w *writer) replay() error {
	for seq := int64(0); ; {
		var rows []journalRow
		err := w.tx.Raw("SELECT "+journalColumns+" FROM journal WHERE seq > ? ORDER BY seq LIMIT ?", seq, replayPage).Scan(&rows).Error
		if err != nil {
			return fmt.Errorf("read journal: %w", err)
		}
		if len(rows) == 0 {
			return nil
		}
		for i := range rows {
			rec, err := w.record(rows[i].uri())
			if err != nil {
				return err
			}
			if err := w.derive(&rows[i], rec); err != nil {
				return fmt.Errorf("replay journal row %d: %w", rows[i].Seq, err)
			}
		}
		seq = rows[len(rows)-1].Seq
		// What is kept for settling is one transaction's worth, not the whole journal.
		clear(w.parsed)
		clear(w.verdicts)
		clear(w.records)
		w.lostHeads = nil // no citation was compared with one yet
	}
}
