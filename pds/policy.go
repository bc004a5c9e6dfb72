package pds

import (
	"context"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/pds/account"
	"herbarium.garden/pds/repostore"
)

// repoPolicy is what the operator lets the account write, as the repo keeps
// it. What there is of it about pace the limiter keeps.
func (p *PDS) repoPolicy(ctx context.Context, did syntax.DID) (repostore.Policy, error) {
	policy, err := p.accounts.Policy(ctx, did)
	return forRepo(policy), err
}

func forRepo(p account.Policy) repostore.Policy {
	return repostore.Policy{Collections: p.Collections, CreateOnly: p.CreateOnly, MaxRecords: p.MaxRecords, MaxBlobBytes: p.MaxBlobBytes}
}
