package pds

import (
	"context"
	"errors"

	"golang.org/x/time/rate"
)

// readBurst is as much as one read of the blob store asks for, in bytes.
const readBurst = 64 << 10

// errLeaseLost ends a job that another process goes on with.
var errLeaseLost = errors.New("another process does it")

// pacer is the pace of a job that reads the blobs of all accounts.
type pacer struct {
	lease *lease
	limit *rate.Limiter
}

// atPace runs a job unless another process is at it, at the rate that the
// operator set for the scrub. A job that loses its lease ends without an error.
func (p *PDS) atPace(ctx context.Context, name string, run func(pacer) error) (err error) {
	held, err := p.takeLease(ctx, name)
	if err != nil || held == nil {
		return err
	}
	defer func() { err = errors.Join(err, held.end(context.WithoutCancel(ctx))) }()
	at := pacer{lease: held, limit: rate.NewLimiter(rate.Inf, readBurst)}
	if p.cfg.Scrub.Rate > 0 {
		at.limit.SetLimit(rate.Limit(p.cfg.Scrub.Rate))
	}
	if err = run(at); errors.Is(err, errLeaseLost) {
		return nil
	}
	return err
}

// pace waits until some bytes may be read, and keeps the lease meanwhile.
func (at pacer) pace(ctx context.Context, bytes int) error {
	kept, err := at.lease.keep(ctx)
	if err != nil {
		return err
	}
	if !kept {
		return errLeaseLost
	}
	return at.limit.WaitN(ctx, bytes)
}
