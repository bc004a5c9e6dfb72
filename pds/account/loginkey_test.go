package account_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

func newLoginKey(t *testing.T) atcrypto.PublicKey {
	t.Helper()
	private, err := atcrypto.GeneratePrivateKeyP256()
	require.NoError(t, err)
	public, err := private.PublicKey()
	require.NoError(t, err)
	return public
}

// proof is one that the key made.
func proof(did syntax.DID, key atcrypto.PublicKey, id string, expires time.Time) account.KeyProof {
	return account.KeyProof{DID: did, ID: id, Expires: expires, SignedBy: func(k atcrypto.PublicKey) bool { return k.Equal(key) }}
}

func TestLoginKeys(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		clock := newClock()
		s := newStore(t, db, func(c *account.Config) { c.Now = clock.Now })
		require.NoError(t, s.Poll(t.Context()))
		alice, bob := mustCreate(t, s, db, "alice.test").DID, mustCreate(t, s, db, "bob.test").DID
		laptop, server := newLoginKey(t), newLoginKey(t)

		added, err := s.AddLoginKey(t.Context(), alice, account.LoginKeyParams{Name: "laptop", PublicKey: laptop, Scope: account.ScopeAppPass})
		require.NoError(t, err)
		require.Equal(t, account.LoginKey{Name: "laptop", PublicKey: laptop, Scope: account.ScopeAppPass, CreatedAt: clock.Now()}, added)
		_, err = s.AddLoginKey(t.Context(), alice, account.LoginKeyParams{Name: "another name", PublicKey: laptop, Scope: account.ScopeAppPass})
		require.ErrorIs(t, err, account.ErrKeyKnown)
		_, err = s.AddLoginKey(t.Context(), alice, account.LoginKeyParams{Name: "laptop", PublicKey: server, Scope: account.ScopeAppPass})
		require.ErrorIs(t, err, account.ErrNameTaken)
		_, err = s.AddLoginKey(t.Context(), alice, account.LoginKeyParams{Name: "nul\x00", PublicKey: server, Scope: account.ScopeAppPass})
		require.ErrorIs(t, err, account.ErrNameInvalid)
		_, err = s.AddLoginKey(t.Context(), "did:web:nobody.test", account.LoginKeyParams{Name: "laptop", PublicKey: server, Scope: account.ScopeAppPass})
		require.ErrorIs(t, err, account.ErrNotFound)
		_, err = s.AddLoginKey(t.Context(), alice, account.LoginKeyParams{Name: "server", PublicKey: server, Scope: account.ScopeAccess})
		require.Error(t, err, "a key may not manage the account")
		_, err = s.AddLoginKey(t.Context(), alice, account.LoginKeyParams{Name: "server", PublicKey: server, Scope: account.ScopeAppPassPrivileged})
		require.NoError(t, err)

		expires := clock.Now().Add(time.Minute)
		login := func(did syntax.DID, key atcrypto.PublicKey, id string) (account.Tokens, error) {
			_, tokens, err := s.LoginWithKey(t.Context(), proof(did, key, id, expires))
			return tokens, err
		}
		byLaptop, err := login(alice, laptop, "one")
		require.NoError(t, err)
		_, err = login(alice, laptop, "one")
		require.ErrorIs(t, err, account.ErrProofUsed)
		_, err = login(alice, server, "one")
		require.ErrorIs(t, err, account.ErrProofUsed, "a jti is the account's, whatever key signs")
		_, err = login(bob, laptop, "two")
		require.ErrorIs(t, err, account.ErrCredentials, "another account's key")
		_, err = login("did:web:nobody.test", laptop, "two")
		require.ErrorIs(t, err, account.ErrCredentials)
		_, err = login(alice, newLoginKey(t), "two")
		require.ErrorIs(t, err, account.ErrCredentials)
		byServer, err := login(alice, server, "two")
		require.NoError(t, err)
		// The same jti of another account is another proof.
		_, err = s.AddLoginKey(t.Context(), bob, account.LoginKeyParams{Name: "shared", PublicKey: laptop, Scope: account.ScopeAppPass})
		require.NoError(t, err)
		byBob, err := login(bob, laptop, "one")
		require.NoError(t, err)

		_, byLaptop, err = s.Refresh(t.Context(), byLaptop.Refresh)
		require.NoError(t, err)
		grant, err := s.VerifyAccess(t.Context(), byLaptop.Access)
		require.NoError(t, err)
		require.Equal(t, account.ScopeAppPass, grant.Scope)
		require.False(t, grant.Scope.Full())
		grant, err = s.VerifyAccess(t.Context(), byServer.Access)
		require.NoError(t, err)
		require.Equal(t, account.ScopeAppPassPrivileged, grant.Scope)
		list, err := s.ListLoginKeys(t.Context(), alice)
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, "laptop", list[0].Name)
		require.Equal(t, clock.Now(), *list[0].LastUsed)

		require.NoError(t, s.RemoveLoginKey(t.Context(), alice, laptop))
		require.NoError(t, s.RemoveLoginKey(t.Context(), alice, laptop), "that it is gone is no error")
		_, err = s.VerifyAccess(t.Context(), byLaptop.Access)
		require.ErrorIs(t, err, account.ErrTokenExpired)
		_, _, err = s.Refresh(t.Context(), byLaptop.Refresh)
		require.ErrorIs(t, err, account.ErrTokenExpired)
		_, err = login(alice, laptop, "three")
		require.ErrorIs(t, err, account.ErrCredentials)
		_, err = s.AddLoginKey(t.Context(), alice, account.LoginKeyParams{Name: "laptop again", PublicKey: laptop, Scope: account.ScopeAppPass})
		require.ErrorIs(t, err, account.ErrKeyKnown, "a removed key does not come back")
		_, err = s.AddLoginKey(t.Context(), alice, account.LoginKeyParams{Name: "laptop", PublicKey: newLoginKey(t), Scope: account.ScopeAppPass})
		require.NoError(t, err, "its name does")
		for _, going := range []account.Tokens{byServer, byBob} {
			_, err = s.VerifyAccess(t.Context(), going.Access)
			require.NoError(t, err, "other sessions go on")
		}
	})
}

func TestLoginKeysAreFew(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		did := mustCreate(t, s, db, "alice.test").DID
		for i := range 20 {
			_, err := s.AddLoginKey(t.Context(), did, account.LoginKeyParams{Name: fmt.Sprint("key ", i), PublicKey: newLoginKey(t), Scope: account.ScopeAppPass})
			require.NoError(t, err)
		}
		_, err := s.AddLoginKey(t.Context(), did, account.LoginKeyParams{Name: "one more", PublicKey: newLoginKey(t), Scope: account.ScopeAppPass})
		require.ErrorIs(t, err, account.ErrTooMany)
	})
}

func TestStatusAtKeyLogin(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		did := mustCreate(t, s, db, "alice.test").DID
		key := newLoginKey(t)
		_, err := s.AddLoginKey(t.Context(), did, account.LoginKeyParams{Name: "laptop", PublicKey: key, Scope: account.ScopeAppPass})
		require.NoError(t, err)
		for i, step := range []struct {
			change func(ctx context.Context, tx *gorm.DB) (account.Account, error)
			want   error
		}{
			{func(ctx context.Context, tx *gorm.DB) (account.Account, error) {
				return s.DeactivateTx(ctx, tx, did, nil)
			}, nil},
			{func(ctx context.Context, tx *gorm.DB) (account.Account, error) { return s.SuspendTx(ctx, tx, did) }, account.ErrSuspended},
			{func(ctx context.Context, tx *gorm.DB) (account.Account, error) { return s.TakeDownTx(ctx, tx, did, "") }, account.ErrTakenDown},
			{func(ctx context.Context, tx *gorm.DB) (account.Account, error) { return s.DeleteTx(ctx, tx, did) }, account.ErrCredentials},
		} {
			require.NoError(t, inTx(t, s, db, did, func(ctx context.Context, tx *gorm.DB) error {
				_, err := step.change(ctx, tx)
				return err
			}))
			_, _, err := s.LoginWithKey(t.Context(), proof(did, key, fmt.Sprint("proof ", i), time.Now().Add(time.Minute)))
			require.ErrorIs(t, err, step.want, "step %d", i)
		}
		keys, err := s.ListLoginKeys(t.Context(), did)
		require.NoError(t, err)
		require.Empty(t, keys)
	})
}

// Of many who show one proof at once, on several replicas, one gets in.
func TestRacingForOneProof(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		replicas := []*account.Store{newStore(t, db), newStore(t, db)}
		did := mustCreate(t, replicas[0], db, "alice.test").DID
		key := newLoginKey(t)
		_, err := replicas[0].AddLoginKey(t.Context(), did, account.LoginKeyParams{Name: "laptop", PublicKey: key})
		require.NoError(t, err)
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				_, _, errs[i] = replicas[i%2].LoginWithKey(t.Context(), proof(did, key, "the one", time.Now().Add(time.Minute)))
			})
		}
		wg.Wait()
		opened := 0
		for _, err := range errs {
			if err == nil {
				opened++
				continue
			}
			require.ErrorIs(t, err, account.ErrProofUsed)
		}
		require.Equal(t, 1, opened)
	})
}

// A sign-in that was checked before its key was removed must not survive that
// by committing after it.
func TestKeyLoginRacingARemoval(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		did := mustCreate(t, s, db, "alice.test").DID
		for round := range 4 {
			key := newLoginKey(t)
			_, err := s.AddLoginKey(t.Context(), did, account.LoginKeyParams{Name: fmt.Sprint("key ", round), PublicKey: key, Scope: account.ScopeAppPass})
			require.NoError(t, err)
			tokens := make([]account.Tokens, 6)
			var wg sync.WaitGroup
			for i := range tokens {
				wg.Go(func() {
					_, tokens[i], _ = s.LoginWithKey(t.Context(), proof(did, key, fmt.Sprint(round, " ", i), time.Now().Add(time.Minute)))
				})
			}
			require.NoError(t, s.RemoveLoginKey(t.Context(), did, key))
			wg.Wait()
			for _, got := range tokens {
				if got.Access != "" {
					_, err := s.VerifyAccess(t.Context(), got.Access)
					require.ErrorIs(t, err, account.ErrTokenExpired)
				}
			}
		}
	})
}

func TestUsedProofsAreForgottenInTime(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		clock := newClock()
		s := newStore(t, db, func(c *account.Config) { c.Now = clock.Now })
		did := mustCreate(t, s, db, "alice.test").DID
		key := newLoginKey(t)
		_, err := s.AddLoginKey(t.Context(), did, account.LoginKeyParams{Name: "laptop", PublicKey: key, Scope: account.ScopeAppPass})
		require.NoError(t, err)
		_, _, err = s.LoginWithKey(t.Context(), proof(did, key, "one", clock.Now().Add(time.Minute)))
		require.NoError(t, err)
		remembered := func() (n int64) {
			require.NoError(t, s.Prune(t.Context()))
			require.NoError(t, db.Read.Table("used_assertions").Count(&n).Error)
			return n
		}
		clock.advance(59 * time.Second)
		require.EqualValues(t, 1, remembered())
		clock.advance(24 * time.Hour)
		require.Zero(t, remembered())
	})
}
