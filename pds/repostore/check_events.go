package repostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/pds/sequencer"
)

// eventGap is two events of a repo of which the later does not follow the earlier.
type eventGap struct{ before, after sequencer.Told }

// checkEvents holds what the log tells of the repo against the head, and each
// event against the one before. announced: the log must have told of the head.
func (c *repoChecker) checkEvents(ctx context.Context, announced bool) error {
	var (
		last *sequencer.Told
		gaps []eventGap
	)
	err := c.store.sequencer.CheckEvents(ctx, c.tx, c.did, func(told sequencer.Told, bad error) error {
		c.tally.Events++
		if bad != nil {
			last = nil // nothing is known to follow it
			return c.tell(EventDamaged, seqName(told.Seq), "", bad.Error())
		}
		if told.Rev > c.row.Rev {
			if err := c.tell(EventAhead, seqName(told.Seq), "", fmt.Sprintf("rev %s, and the head is %s", told.Rev, c.row.Rev)); err != nil {
				return err
			}
		} else if told.Rev == c.row.Rev && told.Commit != c.row.Commit {
			if err := c.tell(EventHead, seqName(told.Seq), c.row.Commit.String(), told.Commit.String()); err != nil {
				return err
			}
		}
		if last != nil && !follows(*last, told) && len(gaps) < mostPending {
			gaps = append(gaps, eventGap{*last, told})
		}
		last = &told
		return nil
	})
	if err != nil {
		return err
	}
	erased := false
	if len(gaps) > 0 || last == nil {
		state, err := c.store.sequencer.CheckState(ctx, c.tx)
		if err != nil {
			return err
		}
		erased = state.Erasures > 0
		if last == nil && (erased || state.Pruned > 0 || c.tally.Events > 0) {
			announced = false // what told of it is gone
		}
	}
	for _, gap := range gaps {
		missing, err := c.store.sequencer.MissingBetween(ctx, c.tx, gap.before.Seq, gap.after.Seq)
		if err != nil {
			return err
		}
		if missing && erased && gap.after.Rev > gap.before.Rev {
			continue // a purge took those between
		}
		found := "no rev before"
		if gap.after.Since != nil {
			found = "since " + string(*gap.after.Since)
		}
		if err := c.tell(EventOrder, seqName(gap.after.Seq), "after rev "+string(gap.before.Rev), found); err != nil {
			return err
		}
	}
	switch {
	case !announced:
	case last == nil:
		return c.tell(EventHead, string(c.did), c.row.Commit.String(), "")
	case last.Rev < c.row.Rev:
		return c.tell(EventHead, seqName(last.Seq), c.row.Commit.String(), last.Commit.String())
	}
	return nil
}

// follows says that an event tells of what comes right after another one.
func follows(before, told sequencer.Told) bool {
	if told.Kind == sequencer.Sync {
		return told.Rev > before.Rev || told.Rev == before.Rev && told.Commit == before.Commit
	}
	return told.Rev > before.Rev && told.Since != nil && *told.Since == before.Rev &&
		told.PrevData != nil && *told.PrevData == before.Data
}

func seqName(seq int64) string { return fmt.Sprintf("seq/%d", seq) }

// mend repairs what can be repaired, and tells of it.
func (c *repoChecker) mend(ctx context.Context) error {
	done := map[string]bool{} // by subject
	for _, f := range c.mendable {
		mended, tried := done[f.Subject]
		if !tried {
			var err error
			if f.Kind == CounterWrong {
				err = c.store.recount(ctx, c.did)
			} else {
				err = c.store.referAgain(ctx, c.did, f.Subject)
			}
			if err != nil && !errors.Is(err, errUnsure) {
				return fmt.Errorf("repair %s of %s: %w", f.Kind, f.Subject, err)
			}
			mended = err == nil
			done[f.Subject] = mended
		}
		f.Mended = mended
		if err := c.found(f); err != nil {
			return err
		}
	}
	return nil
}

// errUnsure says that a repair would be a guess.
var errUnsure = errors.New("the record is not whole")

// pathOf is the path in a record's URI.
func pathOf(did syntax.DID, uri string) string { return uri[len(recordURI(did, "")):] }

// mostGaps bounds the gaps that CheckLog tells of one by one.
const mostGaps = 100

// LogTally is what a check of the log found that is no fault.
type LogTally struct {
	Events int64 // the highest seq that was given out
	Erased int64 // seqs of which nothing is stored any more, past retention
}

// CheckLog reads the seqs of the whole log in one read transaction. Seqs that
// are missing are a fault only when nothing was ever erased: which of them an
// erasure took, nothing says any more. What each repo's events tell is for CheckRepo.
func (s *Store) CheckLog(ctx context.Context, found func(RepoFault) error) (tally LogTally, err error) {
	var gaps []sequencer.Gap
	var state sequencer.LogState
	err = s.db.ReadTx(ctx, func(tx *gorm.DB) (err error) {
		state, err = s.sequencer.CheckLog(ctx, tx, func(g sequencer.Gap) error {
			tally.Erased += g.To - g.From + 1
			if len(gaps) < mostGaps {
				gaps = append(gaps, g)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return tally, err
	}
	tally.Events = state.Given
	if state.Last > state.Given {
		if err := found(RepoFault{Kind: LogBackwards, Subject: seqName(state.Last), Expected: fmt.Sprintf("at most %d", state.Given)}); err != nil {
			return tally, err
		}
	}
	if state.Erasures > 0 {
		return tally, nil
	}
	for _, g := range gaps {
		if err := found(RepoFault{Kind: LogGap, Subject: seqName(g.From), Expected: fmt.Sprintf("%d events", g.To-g.From+1)}); err != nil {
			return tally, err
		}
	}
	return tally, nil
}
