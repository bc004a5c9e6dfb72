package account_test

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/account"
)

const serviceDID = syntax.DID("did:web:localhost%3A2583")

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *clock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

var (
	masterKey = strings.Repeat("ab", 32)
	jwtSecret = strings.Repeat("j", 32)
)

func secrets(t testing.TB) *account.Secrets {
	t.Helper()
	s, err := account.LoadOrCreateSecrets("", account.GivenSecrets{MasterKey: masterKey, JWTSecret: jwtSecret, AdminPassword: "hunter2"})
	require.NoError(t, err)
	return s
}

func newStore(t testing.TB, db *migrations.DB, change ...func(*account.Config)) *account.Store {
	t.Helper()
	cfg := account.Config{DB: db, Secrets: secrets(t), PublicURL: &url.URL{Scheme: "http", Host: "localhost:2583"}, ServiceDID: serviceDID}
	for _, f := range change {
		f(&cfg)
	}
	s, err := account.New(cfg)
	require.NoError(t, err)
	return s
}

// create makes an account the way pds does.
func create(t testing.TB, s *account.Store, db *migrations.DB, params account.Params) (account.Account, error) {
	t.Helper()
	p, err := s.Prepare(t.Context(), params)
	if err != nil {
		return account.Account{}, err
	}
	if err := s.Submit(t.Context(), p); err != nil {
		return account.Account{}, err
	}
	return insert(t.Context(), s, db, p)
}

func insert(ctx context.Context, s *account.Store, db *migrations.DB, p *account.Prepared) (a account.Account, err error) {
	err = db.Tx(ctx, func(tx *gorm.DB) error {
		a, err = s.Insert(ctx, tx, p)
		return err
	})
	return a, err
}

func mustCreate(t testing.TB, s *account.Store, db *migrations.DB, handle string) account.Account {
	t.Helper()
	a, err := create(t, s, db, account.Params{Handle: syntax.Handle(handle), Password: "correct horse"})
	require.NoError(t, err)
	return a
}

// inTx runs one …Tx method and then Forget, as a caller does.
func inTx(t testing.TB, s *account.Store, db *migrations.DB, did syntax.DID, fn func(ctx context.Context, tx *gorm.DB) error) error {
	t.Helper()
	err := db.Tx(t.Context(), func(tx *gorm.DB) error { return fn(t.Context(), tx) })
	s.Forget(did)
	return err
}

func each(t *testing.T, fn func(t *testing.T, db *migrations.DB)) {
	t.Helper()
	dbtest.Each(t, migrations.PDS, fn)
}
