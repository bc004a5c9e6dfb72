package pds

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/pds/repostore"
)

// Index is the index beside this host, which is told what is in no event, for
// the repo does not change: which records the operator has taken down or
// purged, and which lexicons were added. What it is told it may be told again.
type Index interface {
	LexiconIndex
	PurgeIndex
	TakeDown(ctx context.Context, uri syntax.ATURI) error
	LiftTakedown(ctx context.Context, uri syntax.ATURI) error
	// TakenDown lists at most limit of what it believes to be taken down, by
	// URI, after one ("" for the first).
	TakenDown(ctx context.Context, after syntax.ATURI, limit int) ([]syntax.ATURI, error)
}

// tellIndex tells the index what is true here of a record. It comes after that
// was committed: should it fail, the call fails and is made again, and
// SyncTakedowns heals what a crash left. One is told at a time, and what is told
// is read only then, so that the last word is the last truth, however calls
// cross. (Of calls to different replicas that cross, SyncTakedowns has the last
// word.)
func (p *PDS) tellIndex(ctx context.Context, content repostore.Subject) error {
	uri, ok := content.Record()
	if !ok || p.index == nil {
		return nil
	}
	p.telling.Lock()
	defer p.telling.Unlock()
	taken, err := p.repos.Takedown(ctx, content)
	if err != nil {
		return err
	}
	if taken != nil {
		return p.index.TakeDown(ctx, uri)
	}
	return p.index.LiftTakedown(ctx, uri)
}

// takedownPage bounds one step of SyncTakedowns.
const takedownPage = 500

// SyncTakedowns tells the index of every record that is taken down here, and of
// those that it believes to be and that are not. It is to run before the index
// is asked for the first time, and now and then.
func (p *PDS) SyncTakedowns(ctx context.Context) error {
	if p.index == nil {
		return nil
	}
	if err := p.tellOfTakedowns(ctx); err != nil {
		return fmt.Errorf("tell the index what is taken down: %w", err)
	}
	if err := p.tellOfLifted(ctx); err != nil {
		return fmt.Errorf("tell the index what is not taken down any more: %w", err)
	}
	return nil
}

func (p *PDS) tellOfTakedowns(ctx context.Context) error {
	for after := (repostore.Subject{}); ; {
		page, err := p.repos.ListTakedowns(ctx, after, takedownPage)
		if err != nil {
			return err
		}
		for _, content := range page {
			if err := p.tellIndex(ctx, content); err != nil {
				return err
			}
		}
		if len(page) < takedownPage {
			return nil
		}
		after = page[len(page)-1]
	}
}

func (p *PDS) tellOfLifted(ctx context.Context) error {
	for after := syntax.ATURI(""); ; {
		page, err := p.index.TakenDown(ctx, after, takedownPage)
		if err != nil {
			return err
		}
		for _, uri := range page {
			content, err := recordSubject(uri)
			if err != nil {
				return fmt.Errorf("%s: %w", uri, err)
			}
			if err := p.tellIndex(ctx, content); err != nil {
				return err
			}
		}
		if len(page) < takedownPage {
			return nil
		}
		after = page[len(page)-1]
	}
}
