package account_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/account"
)

func TestKeysSurviveARestart(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		require.NoError(t, s.EnsureHostKeys(t.Context()))
		p, err := s.Prepare(t.Context(), account.Params{Handle: "alice.test"})
		require.NoError(t, err)
		_, err = insert(t.Context(), s, db, p)
		require.NoError(t, err)
		host, err := s.HostKey(t.Context())
		require.NoError(t, err)
		rotation, err := s.RotationKey(t.Context())
		require.NoError(t, err)
		require.False(t, host.Equal(rotation))

		again := newStore(t, db)
		require.NoError(t, again.EnsureHostKeys(t.Context()))
		key, err := again.SigningKey(t.Context(), p.DID())
		require.NoError(t, err)
		require.True(t, key.Equal(p.SigningKey()))
		got, err := again.HostKey(t.Context())
		require.NoError(t, err)
		require.True(t, got.Equal(host))
		_, err = again.SigningKey(t.Context(), "did:web:nobody.test")
		require.ErrorIs(t, err, account.ErrKeyUnavailable)
	})
}

func TestReplicasAgreeOnHostKeys(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		keys := make([]atcrypto.PrivateKey, 4)
		var wg sync.WaitGroup
		for i := range keys {
			s := newStore(t, db)
			wg.Go(func() { keys[i], _ = s.HostKey(t.Context()) })
		}
		wg.Wait()
		for _, key := range keys {
			require.NotNil(t, key)
			require.True(t, key.Equal(keys[0]))
		}
	})
}

func TestWrongMasterKeyIsFoundAtTheStart(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		require.NoError(t, newStore(t, db).EnsureHostKeys(t.Context()))
		other := newStore(t, db, func(c *account.Config) {
			var err error
			c.Secrets, err = account.LoadOrCreateSecrets("", account.GivenSecrets{MasterKey: strings.Repeat("cd", 32), JWTSecret: jwtSecret, AdminPassword: "x"})
			require.NoError(t, err)
		})
		err := other.EnsureHostKeys(t.Context())
		require.ErrorIs(t, err, account.ErrMasterKey)
		require.ErrorContains(t, err, "another master key")
	})
}

// An envelope opens only where it was put, and only whole.
func TestEnvelopeIsBoundToItsPlace(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		alice, bob := mustCreate(t, s, db, "alice.test").DID, mustCreate(t, s, db, "bob.test").DID
		var wrapped []byte
		require.NoError(t, db.Read.Raw("SELECT wrapped FROM keys WHERE subject = ?", string(alice)).Row().Scan(&wrapped))
		key, err := s.SigningKey(t.Context(), alice)
		require.NoError(t, err)
		require.NotContains(t, string(wrapped), key.(atcrypto.PrivateKeyExportable).Multibase())
		require.NotContains(t, string(wrapped), string(key.(atcrypto.PrivateKeyExportable).Bytes()))
		put := func(envelope []byte) error {
			require.NoError(t, db.Write.Exec("UPDATE keys SET wrapped = ? WHERE subject = ?", envelope, string(bob)).Error)
			s.Forget(bob)
			_, err := s.SigningKey(t.Context(), bob)
			return err
		}
		require.ErrorIs(t, put(wrapped), account.ErrMasterKey, "alice's key under bob's name")
		for _, cut := range [][]byte{{1}, wrapped[:20], wrapped[:len(wrapped)-1]} {
			require.ErrorIs(t, put(cut), account.ErrMasterKey)
		}
		require.ErrorIs(t, put([]byte{}), account.ErrKeyUnavailable)
	})
}

func BenchmarkSign(b *testing.B) {
	commit := make([]byte, 200)
	for name, make := range map[string]func() (atcrypto.PrivateKey, error){
		"p256": func() (atcrypto.PrivateKey, error) { return atcrypto.GeneratePrivateKeyP256() },
		"k256": func() (atcrypto.PrivateKey, error) { return atcrypto.GeneratePrivateKeyK256() },
	} {
		b.Run(name, func(b *testing.B) {
			key, err := make()
			require.NoError(b, err)
			for b.Loop() {
				if _, err := key.HashAndSign(commit); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerifyAccess(b *testing.B) {
	db := dbtest.Open(b, migrations.PDS, migrations.SQLite)
	clock := newClock()
	s := newStore(b, db, func(c *account.Config) { c.Now = clock.Now })
	mustCreate(b, s, db, "alice.test")
	_, tokens, err := s.Login(b.Context(), "alice.test", "correct horse", false)
	require.NoError(b, err)
	require.NoError(b, s.Poll(b.Context()))
	for b.Loop() {
		if _, err := s.VerifyAccess(b.Context(), tokens.Access); err != nil {
			b.Fatal(err)
		}
	}
}
