package pds

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/repostore"
)

func (p *PDS) registerPolicy(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Query(s, "garden.herbarium.getAccountLimits", xrpc.AccessToken, p.ownLimits),
		xrpc.Query(s, "garden.herbarium.admin.getAccountLimits", xrpc.AdminOnly, p.getAccountLimits),
		xrpc.Procedure(s, "garden.herbarium.admin.updateAccountPolicy", xrpc.AdminOnly, p.updateAccountPolicy, xrpc.Strict()),
	)
}

// repoPolicy is what the operator lets the account write, as the repo keeps
// it. What there is of it about pace the limiter keeps.
func (p *PDS) repoPolicy(ctx context.Context, did syntax.DID) (repostore.Policy, error) {
	policy, err := p.accounts.Policy(ctx, did)
	createOnly := policy.CreateOnly
	if p.cfg.KeepObservations && !slices.Contains(createOnly, lexicons.ObservationNSID) {
		createOnly = append(slices.Clip(createOnly), lexicons.ObservationNSID)
	}
	return repostore.Policy{
		Collections: policy.Collections, CreateOnly: createOnly,
		MaxRecords: policy.MaxRecords, MaxBlobBytes: policy.MaxBlobBytes,
	}, err
}

// accountPolicy is garden.herbarium.admin.defs#accountPolicy.
type accountPolicy struct {
	Collections   *[]syntax.NSID `json:"collections,omitempty"` // all when absent, none when empty
	CreateOnly    *[]syntax.NSID `json:"createOnly,omitempty"`
	MaxRecords    *int64         `json:"maxRecords,omitempty"`
	MaxBlobBytes  *int64         `json:"maxBlobBytes,omitempty"`
	WritesPerHour *int64         `json:"writesPerHour,omitempty"`
	WritesPerDay  *int64         `json:"writesPerDay,omitempty"`
}

func viewPolicy(p account.Policy) accountPolicy {
	view := accountPolicy{MaxRecords: p.MaxRecords, MaxBlobBytes: p.MaxBlobBytes, WritesPerHour: p.WritesPerHour, WritesPerDay: p.WritesPerDay}
	if p.Collections != nil {
		view.Collections = &p.Collections
	}
	if p.CreateOnly != nil {
		view.CreateOnly = &p.CreateOnly
	}
	return view
}

// policy is what an operator sent.
func (view accountPolicy) policy() account.Policy {
	p := account.Policy{MaxRecords: view.MaxRecords, MaxBlobBytes: view.MaxBlobBytes, WritesPerHour: view.WritesPerHour, WritesPerDay: view.WritesPerDay}
	if view.Collections != nil {
		p.Collections = *view.Collections
	}
	if view.CreateOnly != nil {
		p.CreateOnly = *view.CreateOnly
	}
	return p
}

// accountLimits is garden.herbarium.getAccountLimits#limits.
type accountLimits struct {
	DID        syntax.DID    `json:"did"`
	Policy     accountPolicy `json:"policy"`
	Quotas     []quota       `json:"quotas"`
	RateLimits []rateLimit   `json:"rateLimits"`
}

type quota struct {
	Name  string `json:"name"`
	Used  int64  `json:"used"`
	Limit *int64 `json:"limit,omitempty"`
	Left  *int64 `json:"left,omitempty"`
}

type rateLimit struct {
	Name          string `json:"name"`
	Points        int64  `json:"points"`
	WindowSeconds int64  `json:"windowSeconds"`
	Used          int64  `json:"used"`
	Left          int64  `json:"left"`
	ResetsAt      string `json:"resetsAt,omitempty"`
}

func viewQuota(name string, used int64, limit *int64) quota {
	q := quota{Name: name, Used: used, Limit: limit}
	if limit != nil {
		left := max(0, *limit-used)
		q.Left = &left
	}
	return q
}

func viewRateLimit(name string, s standing) rateLimit {
	view := rateLimit{
		Name: name, Points: s.limit.Points, WindowSeconds: int64(s.limit.Window / time.Second), Used: s.used, Left: s.left(),
	}
	if !s.ends.IsZero() {
		view.ResetsAt = migrations.FormatTime(s.ends)
	}
	return view
}

// limitsOf is how an account stands against all that limits it here.
func (p *PDS) limitsOf(ctx context.Context, did syntax.DID) (*accountLimits, error) {
	policy, err := p.accounts.Policy(ctx, did)
	if err != nil {
		return nil, err
	}
	usage, err := p.repos.Usage(ctx, did)
	if err != nil {
		return nil, err
	}
	out := &accountLimits{
		DID: did, Policy: viewPolicy(policy), RateLimits: []rateLimit{},
		Quotas: []quota{viewQuota("records", usage.Records, policy.MaxRecords), viewQuota("blobBytes", usage.BlobBytes, policy.MaxBlobBytes)},
	}
	for _, m := range append(p.meters.writes(policy), p.meters.ofAccounts()...) {
		if m.limits() {
			out.RateLimits = append(out.RateLimits, viewRateLimit(m.name, p.limiter.look(m, string(did))))
		}
	}
	return out, nil
}

// ownLimits is garden.herbarium.getAccountLimits: it shows the caller's address
// too.
func (p *PDS) ownLimits(ctx context.Context, v xrpc.Viewer, _ xrpc.None) (*accountLimits, error) {
	out, err := p.limitsOf(ctx, v.DID)
	if err != nil {
		return nil, err
	}
	if m := p.meters.requests; m.limits() {
		address := addressKey(xrpc.CallFrom(ctx).ClientIP)
		out.RateLimits = append(out.RateLimits, viewRateLimit(m.name, p.limiter.look(m, address)))
	}
	return out, nil
}

func (p *PDS) getAccountLimits(ctx context.Context, _ xrpc.Viewer, in didParams) (*accountLimits, error) {
	a, err := p.accounts.Get(ctx, in.DID)
	if err == nil && a.Status == account.Deleted {
		err = account.ErrNotFound
	}
	if err != nil {
		return nil, notFound(err)
	}
	return p.limitsOf(ctx, in.DID)
}

type updateAccountPolicyInput struct {
	DID    syntax.DID    `json:"did"`
	Policy accountPolicy `json:"policy"`
}

func (p *PDS) updateAccountPolicy(ctx context.Context, _ xrpc.Viewer, in updateAccountPolicyInput) (*accountLimits, error) {
	if err := p.accounts.SetPolicy(ctx, in.DID, in.Policy.policy()); err != nil {
		return nil, notFound(err)
	}
	return p.limitsOf(ctx, in.DID)
}
