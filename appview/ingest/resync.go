package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
)

// resyncer takes whole repos from the host: those that fell out of step, and
// all of them when the source has forgotten what was not read yet. It runs
// between two pages, on the consumer's own goroutine, so that no commit is
// verified against a state that a resync is about to replace.
type resyncer struct {
	consumer *Consumer
	retries  map[syntax.DID]*retry
}

// retry is a resync that is due.
type retry struct {
	at     time.Time
	pause  time.Duration // before the next try, should this one fail
	silent bool          // the index knows that nobody answers
}

// request makes a resync due now.
func (r *resyncer) request(dids []syntax.DID) {
	for _, did := range dids {
		if r.retries[did] == nil {
			r.retries[did] = &retry{at: r.consumer.cfg.Now(), pause: r.consumer.cfg.Backoff}
		}
	}
}

// loadPending takes up what an earlier run left out of step.
func (r *resyncer) loadPending(ctx context.Context) error {
	for page := (index.Page{Limit: index.MaxLimit}); ; {
		list, err := r.consumer.cfg.Index.ListRepos(ctx, index.Viewer{}, index.SyncDesynchronized, page)
		if err != nil {
			return err
		}
		for _, repo := range list.Items {
			r.request([]syntax.DID{repo.DID})
		}
		if page.After = list.Next; page.After == nil {
			return nil
		}
	}
}

// next is when the first resync is due.
func (r *resyncer) next() (time.Time, bool) {
	var first time.Time
	for _, retry := range r.retries {
		if first.IsZero() || retry.at.Before(first) {
			first = retry.at
		}
	}
	return first, len(r.retries) > 0
}

// due does the resyncs whose time has come. Only an error of our own database
// is returned; a host that fails is asked again later.
func (r *resyncer) due(ctx context.Context) error {
	now := r.consumer.cfg.Now()
	for did, retry := range r.retries {
		if retry.at.After(now) {
			continue
		}
		err := r.one(ctx, did)
		var ours *applyError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &ours):
			return err
		case errors.Is(err, ErrRepoGone):
			// An #account event tells more, if there is more to tell.
			delete(r.retries, did)
		case err != nil:
			r.consumer.cfg.Log.WarnContext(ctx, "resync failed", "did", did, "error", err, "again_in", retry.pause)
			if err := r.noAnswer(ctx, did, retry, err); err != nil {
				return err
			}
			retry.at = r.consumer.cfg.Now().Add(retry.pause)
			retry.pause = min(2*retry.pause, MaxBackoff)
		default:
			delete(r.retries, did)
		}
	}
	return nil
}

// noAnswer tells the index, once, that a host or a DID does not answer.
func (r *resyncer) noAnswer(ctx context.Context, did syntax.DID, retry *retry, reason error) error {
	if retry.silent || !errors.Is(reason, errUnreachable) {
		return nil
	}
	event := &index.Unreachable{DID: did, Reason: reason.Error()}
	if err := r.consumer.cfg.Index.Apply(ctx, r.consumer.cfg.Source.Name(), 0, []index.Event{event}); err != nil {
		return fmt.Errorf("note that %s does not answer: %w", did, err)
	}
	retry.silent = true
	return nil
}

// applyError is an error of our own database in the middle of a resync.
type applyError struct{ err error }

func (e *applyError) Error() string { return e.err.Error() }
func (e *applyError) Unwrap() error { return e.err }

// one fetches, verifies and applies a whole repo.
func (r *resyncer) one(ctx context.Context, did syntax.DID) (err error) {
	body, err := r.consumer.cfg.Fetcher.FetchRepo(ctx, did)
	if errors.Is(err, ErrRepoGone) {
		return err
	}
	if err != nil {
		return fmt.Errorf("fetch repo %s: %w: %w", did, errUnreachable, err)
	}
	defer func() { _ = body.Close() }() // read to its end or given up: nothing is lost
	e, err := r.consumer.verify.repo(ctx, did, body)
	if err != nil {
		return fmt.Errorf("verify repo %s: %w", did, err)
	}
	events := []index.Event{e}
	if id := r.consumer.identity(ctx, did); id != nil {
		events = append(events, id) // its #identity may have been among what was missed
	}
	// Cursor 0 leaves the cursor where it is.
	if err := r.consumer.cfg.Index.Apply(ctx, r.consumer.cfg.Source.Name(), 0, events); err != nil {
		return &applyError{err: fmt.Errorf("resync %s: %w", did, err)}
	}
	r.consumer.note(func(s *Status) { s.Resynced++ })
	r.consumer.announce()
	return nil
}

// all takes every repo of the host whole, then goes on from oldest, where the
// source is complete again: what it repeats is known by then and changes
// nothing. Repos that fail are marked and tried again. A repo that the host no
// longer lists was deleted meanwhile: its #account event is among what was missed.
func (r *resyncer) all(ctx context.Context, oldest int64) error {
	const listPage = 500
	cfg := r.consumer.cfg
	cfg.Log.WarnContext(ctx, "the source no longer has what was not read: resync of all repos", "source", cfg.Source.Name(), "complete_from", oldest)
	listed := map[syntax.DID]bool{}
	for cursor, more := "", true; more; more = cursor != "" {
		hosted, next, err := cfg.Fetcher.ListRepos(ctx, cursor, listPage)
		if err != nil {
			return fmt.Errorf("list repos of %s: %w", cfg.Source.Name(), err)
		}
		for _, h := range hosted {
			listed[h.DID] = true
			if err := r.mark(ctx, h); err != nil {
				return err
			}
		}
		cursor = next
	}
	if err := r.forgetUnlisted(ctx, listed); err != nil {
		return err
	}
	if err := r.due(ctx); err != nil {
		return err
	}
	if err := cfg.Index.Apply(ctx, cfg.Source.Name(), oldest, nil); err != nil {
		return err
	}
	r.consumer.note(func(s *Status) { s.Cursor = oldest })
	return nil
}

// forgetUnlisted removes the content of every known repo that is not listed.
// One source feeds the index, so each repo that it knows is this host's.
func (r *resyncer) forgetUnlisted(ctx context.Context, listed map[syntax.DID]bool) error {
	cfg := r.consumer.cfg
	for page := (index.Page{Limit: index.MaxLimit}); ; {
		known, err := cfg.Index.ListRepos(ctx, index.Viewer{}, "", page)
		if err != nil {
			return err
		}
		for _, repo := range known.Items {
			if listed[repo.DID] || repo.Status == deletedStatus {
				continue
			}
			event := &index.Account{DID: repo.DID, Status: deletedStatus}
			if err := cfg.Index.Apply(ctx, cfg.Source.Name(), 0, []index.Event{event}); err != nil {
				return err
			}
		}
		if known.Next == nil {
			return nil
		}
		page.After = known.Next
	}
}

// deletedStatus is the status of a deleted account
// (com.atproto.sync.subscribeRepos#account).
const deletedStatus = "deleted"

// mark notes the status of a repo and that it must be taken whole; both are in
// the database before the cursor moves, so that a crash forgets neither.
func (r *resyncer) mark(ctx context.Context, h HostedRepo) error {
	events := []index.Event{&index.Account{DID: h.DID, Active: h.Active, Status: h.Status}}
	if h.Active {
		events = append(events, &index.Desync{DID: h.DID, Reason: "events were missed"})
		r.request([]syntax.DID{h.DID})
	}
	return r.consumer.cfg.Index.Apply(ctx, r.consumer.cfg.Source.Name(), 0, events)
}
