package account_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

const createObservations account.Scope = "repo:garden.engram.agents.observation?action=create"

func TestScopedAppPassword(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		clock := newClock()
		s := newStore(t, db, func(c *account.Config) { c.Now = clock.Now })
		did := mustCreate(t, s, db, "alice.test").DID
		made, password, err := s.CreateAppPassword(t.Context(), did, account.AppPasswordParams{Name: "ci", Scope: "atproto " + createObservations + " blob:*/* blob:*/*"})
		require.NoError(t, err)
		scope := createObservations + " blob:*/*"
		require.Equal(t, account.AppPassword{Name: "ci", Scope: scope, CreatedAt: clock.Now()}, made)

		clock.advance(time.Minute)
		_, tokens, err := s.Login(t.Context(), "alice.test", password, false)
		require.NoError(t, err)
		for range 2 {
			require.Equal(t, string(scope), tokens.Permissions.String())
			grant, err := s.VerifyAccess(t.Context(), tokens.Access)
			require.NoError(t, err)
			require.Equal(t, scope, grant.Scope)
			require.True(t, grant.Permissions.Repo("garden.engram.agents.observation", "create"))
			require.False(t, grant.Permissions.Repo("garden.engram.agents.observation", "update"))
			grant, err = s.VerifyRefresh(t.Context(), tokens.Refresh)
			require.NoError(t, err)
			require.Equal(t, string(scope), grant.Permissions.String())
			used := clock.Now()
			list, err := s.ListAppPasswords(t.Context(), did)
			require.NoError(t, err)
			made.LastUsed = &used
			require.Equal(t, []account.AppPassword{made}, list)

			clock.advance(time.Hour)
			_, tokens, err = s.Refresh(t.Context(), tokens.Refresh)
			require.NoError(t, err)
		}

		for name, scope := range map[string]account.Scope{
			"main password":  account.ScopeAccess,
			"taken down":     account.ScopeTakendown,
			"refresh":        "com.atproto.refresh",
			"transition":     "transition:generic",
			"permission set": "include:app.example.authBasics",
			"half a name":    "repo:garden.engram.*",
		} {
			t.Run(name, func(t *testing.T) {
				_, _, err := s.CreateAppPassword(t.Context(), did, account.AppPasswordParams{Name: "x", Scope: scope})
				require.ErrorIs(t, err, account.ErrScope)
				_, err = s.AddLoginKey(t.Context(), did, account.LoginKeyParams{Name: "x", PublicKey: newLoginKey(t), Scope: scope})
				require.ErrorIs(t, err, account.ErrScope)
			})
		}
	})
}

// The longest scope that is accepted fits a token that is accepted.
func TestLongestScopeFitsItsToken(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		did := mustCreate(t, s, db, strings.Repeat("a", 18)+".test").DID
		var words []string
		for i := range 29 {
			words = append(words, fmt.Sprintf("repo:a.b.c%s%02d", strings.Repeat("c", 56), i))
		}
		scope := strings.Join(words, " ") // 2000 bytes; another would be too many
		require.InDelta(t, 2048, len(scope), 67)
		_, password, err := s.CreateAppPassword(t.Context(), did, account.AppPasswordParams{Name: "long", Scope: account.Scope(scope)})
		require.NoError(t, err)
		_, tokens, err := s.Login(t.Context(), string(did), password, false)
		require.NoError(t, err)
		_, err = s.VerifyAccess(t.Context(), tokens.Access)
		require.NoError(t, err)
	})
}

func TestTakenDownAccountOpensToNoScopedCredential(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		did := mustCreate(t, s, db, "alice.test").DID
		_, password, err := s.CreateAppPassword(t.Context(), did, account.AppPasswordParams{Name: "ci", Scope: createObservations})
		require.NoError(t, err)
		require.NoError(t, inTx(t, s, db, did, func(ctx context.Context, tx *gorm.DB) error { _, err := s.TakeDownTx(ctx, tx, did, ""); return err }))
		_, _, err = s.Login(t.Context(), "alice.test", password, true)
		require.ErrorIs(t, err, account.ErrTakenDown, "a session of the status would do more than the scope says")
	})
}

// No token outlives what opened the session, however often it is refreshed.
func TestSessionsEndWithTheirCredential(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		clock := newClock()
		s := newStore(t, db, func(c *account.Config) { c.Now = clock.Now })
		did := mustCreate(t, s, db, "alice.test").DID
		start, expires := clock.Now(), clock.Now().Add(3*time.Hour)
		_, password, err := s.CreateAppPassword(t.Context(), did, account.AppPasswordParams{Name: "ci", Expires: &expires})
		require.NoError(t, err)
		key := newLoginKey(t)
		added, err := s.AddLoginKey(t.Context(), did, account.LoginKeyParams{Name: "laptop", PublicKey: key, Scope: createObservations, Expires: &expires})
		require.NoError(t, err)
		require.Equal(t, account.LoginKey{Name: "laptop", PublicKey: key, Scope: createObservations, CreatedAt: start, Expires: &expires}, added)

		nth := 0
		for name, login := range map[string]func() (account.Tokens, error){
			"app password": func() (account.Tokens, error) {
				_, tokens, err := s.Login(t.Context(), "alice.test", password, false)
				return tokens, err
			},
			"login key": func() (account.Tokens, error) {
				nth++
				_, tokens, err := s.LoginWithKey(t.Context(), proof(did, key, fmt.Sprint(nth), clock.Now().Add(time.Minute)))
				return tokens, err
			},
		} {
			t.Run(name, func(t *testing.T) {
				clock.set(start)
				tokens, err := login()
				require.NoError(t, err)
				require.EqualValues(t, start.Add(2*time.Hour).Unix(), part(t, tokens.Access, 1)["exp"])
				require.EqualValues(t, expires.Unix(), part(t, tokens.Refresh, 1)["exp"])
				clock.advance(2*time.Hour - time.Minute)
				used := tokens.Refresh
				_, tokens, err = s.Refresh(t.Context(), used)
				require.NoError(t, err)
				for i, token := range []string{tokens.Access, tokens.Refresh} {
					require.EqualValues(t, expires.Unix(), part(t, token, 1)["exp"], i)
					require.EqualValues(t, clock.Now().Unix(), part(t, token, 1)["iat"], i)
				}
				clock.advance(30 * time.Minute)
				_, again, err := s.Refresh(t.Context(), used)
				require.NoError(t, err)
				require.Equal(t, tokens.Refresh, again.Refresh, "the one successor")

				clock.set(expires)
				_, err = s.VerifyAccess(t.Context(), tokens.Access)
				require.ErrorIs(t, err, account.ErrTokenExpired)
				_, _, err = s.Refresh(t.Context(), tokens.Refresh)
				require.ErrorIs(t, err, account.ErrTokenExpired)
				_, err = login()
				require.ErrorIs(t, err, account.ErrExpired)
			})
		}
		past, farAway := clock.Now(), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, at := range []time.Time{past, farAway} {
			_, _, err = s.CreateAppPassword(t.Context(), did, account.AppPasswordParams{Name: "x", Expires: &at})
			require.ErrorIs(t, err, account.ErrExpiry)
			_, err = s.AddLoginKey(t.Context(), did, account.LoginKeyParams{Name: "x", PublicKey: newLoginKey(t), Expires: &at})
			require.ErrorIs(t, err, account.ErrExpiry)
		}
	})
}

func TestRotateAppPassword(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		clock := newClock()
		s := newStore(t, db, func(c *account.Config) { c.Now = clock.Now })
		require.NoError(t, s.Poll(t.Context()))
		did, bob := mustCreate(t, s, db, "alice.test").DID, mustCreate(t, s, db, "bob.test").DID
		expires := clock.Now().Add(time.Hour)
		_, old, err := s.CreateAppPassword(t.Context(), did, account.AppPasswordParams{Name: "ci", Scope: createObservations, Expires: &expires})
		require.NoError(t, err)
		_, other, err := s.CreateAppPassword(t.Context(), did, account.AppPasswordParams{Name: "other"})
		require.NoError(t, err)
		login := func(password string) (account.Tokens, error) {
			_, tokens, err := s.Login(t.Context(), "alice.test", password, false)
			return tokens, err
		}
		byOld, err := login(old)
		require.NoError(t, err)
		byOther, err := login(other)
		require.NoError(t, err)

		clock.advance(time.Minute)
		renewed, password, err := s.RotateAppPassword(t.Context(), did, "ci", nil)
		require.NoError(t, err)
		require.Equal(t, account.AppPassword{Name: "ci", Scope: createObservations, CreatedAt: clock.Now(), Expires: &expires}, renewed)
		_, err = s.VerifyAccess(t.Context(), byOld.Access)
		require.ErrorIs(t, err, account.ErrTokenExpired)
		_, _, err = s.Refresh(t.Context(), byOld.Refresh)
		require.ErrorIs(t, err, account.ErrTokenExpired)
		_, err = login(old)
		require.ErrorIs(t, err, account.ErrCredentials)
		_, err = s.VerifyAccess(t.Context(), byOther.Access)
		require.NoError(t, err, "other sessions go on")
		tokens, err := login(password)
		require.NoError(t, err)
		require.Equal(t, string(createObservations), tokens.Permissions.String())

		// One whose time is over needs another time.
		clock.advance(time.Hour)
		_, _, err = s.RotateAppPassword(t.Context(), did, "ci", nil)
		require.ErrorIs(t, err, account.ErrExpiry)
		_, err = login(password)
		require.ErrorIs(t, err, account.ErrExpired, "what failed changed nothing")
		later := clock.Now().Add(time.Hour)
		renewed, password, err = s.RotateAppPassword(t.Context(), did, "ci", &later)
		require.NoError(t, err)
		require.Equal(t, &later, renewed.Expires)
		_, err = login(password)
		require.NoError(t, err)

		for _, name := range []string{"nobody's", "", "nul\x00"} {
			_, _, err = s.RotateAppPassword(t.Context(), did, name, nil)
			require.ErrorIs(t, err, account.ErrNoCredential)
		}
		_, _, err = s.RotateAppPassword(t.Context(), bob, "ci", nil)
		require.ErrorIs(t, err, account.ErrNoCredential)
	})
}

// A sign-in that was checked against the old secret must not survive a rotation
// by committing after it; refreshes that race it must not either.
func TestSigningInRacingARotation(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		did := mustCreate(t, s, db, "alice.test").DID
		_, password, err := s.CreateAppPassword(t.Context(), did, account.AppPasswordParams{Name: "ci"})
		require.NoError(t, err)
		for range 4 {
			_, open, err := s.Login(t.Context(), "alice.test", password, false)
			require.NoError(t, err)
			tokens, errs := make([]account.Tokens, 8), make([]error, 8)
			var wg sync.WaitGroup
			for i := range tokens {
				wg.Go(func() {
					if i%2 == 0 {
						_, tokens[i], errs[i] = s.Login(t.Context(), "alice.test", password, false)
					} else {
						_, tokens[i], errs[i] = s.Refresh(t.Context(), open.Refresh)
					}
				})
			}
			_, renewed, err := s.RotateAppPassword(t.Context(), did, "ci", nil)
			require.NoError(t, err)
			wg.Wait()
			for i, got := range tokens {
				if errs[i] != nil {
					require.True(t, errors.Is(errs[i], account.ErrCredentials) || errors.Is(errs[i], account.ErrTokenExpired), errs[i])
					continue
				}
				_, err := s.VerifyAccess(t.Context(), got.Access)
				require.ErrorIs(t, err, account.ErrTokenExpired)
				_, _, err = s.Refresh(t.Context(), got.Refresh)
				require.ErrorIs(t, err, account.ErrTokenExpired)
			}
			password = renewed
		}
	})
}
