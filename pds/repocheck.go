package pds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/pds/account"
	"herbarium.garden/pds/repostore"
)

// RepoCheck says what CheckRepos looks at, and what it does about what it finds.
type RepoCheck struct {
	// DID narrows the check to one repo. What belongs to none, and the log as a
	// whole, is looked at only without it.
	DID syntax.DID
	// Sample is the part of the repos that are checked, from 0 to 1, other ones at
	// each run. Without DID alone.
	Sample float64
	// Repair writes references and counters anew (repostore.RepoCheck).
	Repair bool
}

// RepoReport is what CheckRepos looked at.
type RepoReport struct {
	Repos int64 // of them, those that were checked
	repostore.RepoTally
	Log repostore.LogTally // zero with DID
}

// repoPage is how many repos or accounts are listed at a time.
const repoPage = 100

// CheckRepos holds each repo against itself (repostore.CheckRepo), the accounts
// against the repos, and the event log against its seqs. Each fault is told to
// found, whose error ends the check and is returned. It may run beside
// everything else: one repo is read at a time, as one export would. A repo that
// cannot be read is told of, and the next one is checked. ErrRepoNotFound for a
// DID without one.
func (p *PDS) CheckRepos(ctx context.Context, check RepoCheck, found func(repostore.RepoFault) error) (RepoReport, error) {
	c := repoChecker{PDS: p, RepoCheck: check, tell: found}
	var err error
	if check.DID != "" {
		err = c.repo(ctx, check.DID)
	} else {
		err = c.all(ctx)
	}
	if err != nil {
		return c.report, fmt.Errorf("check repos: %w", err)
	}
	return c.report, nil
}

// repoChecker is a check under way.
type repoChecker struct {
	*PDS
	RepoCheck
	report RepoReport
	tell   func(repostore.RepoFault) error
}

func (c *repoChecker) all(ctx context.Context) error {
	for cursor := int64(0); ; {
		page, err := c.repos.ListRepos(ctx, cursor, repoPage)
		if err != nil {
			return err
		}
		for _, repo := range page {
			cursor = repo.Cursor
			if rand.Float64() >= c.Sample {
				continue
			}
			err := c.repo(ctx, repo.DID)
			if err != nil && !errors.Is(err, repostore.ErrRepoNotFound) { // deleted meanwhile
				return err
			}
		}
		if len(page) < repoPage {
			break
		}
	}
	if err := c.accountsHaveRepos(ctx); err != nil {
		return err
	}
	if err := c.repos.CheckOrphans(ctx, c.tell); err != nil {
		return err
	}
	var err error
	c.report.Log, err = c.repos.CheckLog(ctx, c.tell)
	return err
}

// repo checks one repo.
func (c *repoChecker) repo(ctx context.Context, did syntax.DID) error {
	var told error // what the receiver of faults says, which ends it all
	ownerless := false
	tally, err := c.repos.CheckRepo(ctx, did, repostore.RepoCheck{
		Repair: c.Repair,
		Announced: func(ctx context.Context, tx *gorm.DB) (bool, error) {
			a, err := c.accounts.GetTx(ctx, tx, did)
			ownerless = errors.Is(err, account.ErrNotFound) || err == nil && a.Status == account.Deleted
			if ownerless {
				return false, nil
			}
			return a.Active(), err
		},
	}, func(f repostore.RepoFault) error {
		told = c.tell(f)
		return told
	})
	c.report.RepoTally.Add(tally)
	switch {
	case told != nil:
		return told
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, repostore.ErrRepoNotFound):
		return err
	}
	c.report.Repos++
	if err != nil {
		return c.tell(repostore.RepoFault{Kind: repostore.RepoUnreadable, DID: did, Subject: string(did), Found: err.Error()})
	}
	if ownerless {
		return c.tell(repostore.RepoFault{Kind: repostore.AccountMissing, DID: did, Subject: string(did)})
	}
	return nil
}

// accountsHaveRepos looks for accounts without a repo. The two come and go in one
// transaction, so the account is asked for once more after its repo was not found.
func (c *repoChecker) accountsHaveRepos(ctx context.Context) error {
	for after := (account.Position{}); ; {
		page, err := c.accounts.List(ctx, after, repoPage)
		if err != nil {
			return err
		}
		for _, a := range page.Items {
			_, err := c.repos.Head(ctx, a.DID)
			if err == nil {
				continue
			}
			if !errors.Is(err, repostore.ErrRepoNotFound) {
				return err
			}
			now, err := c.accounts.GetTx(ctx, c.db.Read, a.DID)
			if err != nil && !errors.Is(err, account.ErrNotFound) {
				return err
			}
			if err != nil || now.Status == account.Deleted {
				continue
			}
			if err := c.tell(repostore.RepoFault{Kind: repostore.RepoMissing, DID: a.DID, Subject: string(a.DID)}); err != nil {
				return err
			}
		}
		if page.Next == (account.Position{}) {
			return nil
		}
		after = page.Next
	}
}
