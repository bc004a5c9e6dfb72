package appview

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons/xrpc"
)

// Arrivals tells when the index has what a host has acknowledged.
type Arrivals interface {
	// WaitFor blocks until the index has did at rev or later, or ctx ends.
	WaitFor(ctx context.Context, did syntax.DID, rev syntax.TID) error
}

// defaultWait is how long a query waits for what minRev asks for, as its lexicon says.
const defaultWait = 5 * time.Second

// atLeast is the parameter of each query that shows records: a reader that has
// written names its commit, and reads its own write.
type atLeast struct {
	MinRev []revision `param:"minRev"`
}

func (p atLeast) wanted() []revision { return p.MinRev }

// freshness is what such a query says of itself.
type freshness struct {
	Stale bool `json:"stale,omitempty"`
}

func (f *freshness) setStale(stale bool) { f.Stale = stale }

// revision is a state of a repo.
type revision struct {
	did syntax.DID
	rev syntax.TID
}

// UnmarshalText reads the form <did>@<rev>.
func (r *revision) UnmarshalText(text []byte) (err error) {
	did, rev, ok := strings.Cut(string(text), "@")
	if !ok {
		return errors.New("want <did>@<rev>, with the rev of a commit")
	}
	if r.did, err = syntax.ParseDID(did); err != nil {
		return fmt.Errorf("did: %w", err)
	}
	if r.rev, err = syntax.ParseTID(rev); err != nil {
		return fmt.Errorf("rev: %w", err)
	}
	return nil
}

// await waits until the index has all of wanted, and tells whether the answer
// goes without. How far a repo has come is nothing that whoever is no member is
// told, so there is nothing to wait for.
func (a *Appview) await(ctx context.Context, xv xrpc.Viewer, wanted []revision) (stale bool, err error) {
	if len(wanted) == 0 {
		return false, nil
	}
	if a.viewer(xv).Restricted() {
		return true, nil
	}
	bounded, cancel := context.WithTimeout(ctx, a.maxWait)
	defer cancel()
	for _, w := range wanted {
		if err := a.arrivals.WaitFor(bounded, w.did, w.rev); err != nil {
			if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				return true, nil
			}
			return false, err
		}
	}
	return false, nil
}
