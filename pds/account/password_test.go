package account_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

// A flood of sign-ins is refused at once past the bound, and the waiting ones
// leave with their context.
func TestHashingIsBounded(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db, func(c *account.Config) { c.PasswordWorkers = 1 })
		ctx, cancel := context.WithCancel(t.Context())
		const flood = 200
		errs := make(chan error, flood)
		var wg sync.WaitGroup
		for range flood {
			wg.Go(func() {
				_, _, err := s.Login(ctx, "nobody.test", "some password", false)
				if errors.Is(err, account.ErrBusy) {
					cancel() // the queue is full: now nobody wants to wait any more
				}
				errs <- err
			})
		}
		wg.Wait()
		cancel()
		close(errs)
		busy := 0
		for err := range errs {
			switch {
			case errors.Is(err, account.ErrBusy):
				busy++
			case errors.Is(err, context.Canceled), errors.Is(err, account.ErrCredentials):
			default:
				require.NoError(t, err)
			}
		}
		require.Positive(t, busy)
	})
}
