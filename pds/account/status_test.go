package account_test

import (
	"context"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

func TestStatusTransitions(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		require.NoError(t, s.Poll(t.Context()))
		did := mustCreate(t, s, db, "alice.test").DID
		step := func(want account.Status, fn func(ctx context.Context, tx *gorm.DB, did syntax.DID) (account.Account, error)) {
			t.Helper()
			require.NoError(t, inTx(t, s, db, did, func(ctx context.Context, tx *gorm.DB) error {
				a, err := fn(ctx, tx, did)
				require.Equal(t, want, a.Status)
				return err
			}))
			a, err := s.Get(t.Context(), did)
			require.NoError(t, err)
			require.Equal(t, want, a.Status, "as cached")
		}
		later := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
		step(account.Deactivated, func(ctx context.Context, tx *gorm.DB, did syntax.DID) (account.Account, error) {
			return s.DeactivateTx(ctx, tx, did, &later)
		})
		a, err := s.Get(t.Context(), did)
		require.NoError(t, err)
		require.Equal(t, &later, a.DeleteAfter)
		_, err = s.ResolveHandle(t.Context(), "alice.test")
		require.ErrorIs(t, err, account.ErrNotFound, "a deactivated account's handle does not resolve")
		step(account.TakenDown, func(ctx context.Context, tx *gorm.DB, did syntax.DID) (account.Account, error) {
			return s.TakeDownTx(ctx, tx, did, "REF-1")
		})
		err = inTx(t, s, db, did, func(ctx context.Context, tx *gorm.DB) error {
			_, err := s.ActivateTx(ctx, tx, did)
			return err
		})
		require.ErrorIs(t, err, account.ErrStatus, "a taken down account cannot activate")
		step(account.Deactivated, s.LiftTakedownTx)
		step(account.Active, s.ActivateTx)
		step(account.Active, s.ActivateTx)
		step(account.Suspended, s.SuspendTx)
		step(account.Active, s.LiftSuspensionTx)
		step(account.Deleted, s.DeleteTx)
		err = inTx(t, s, db, did, func(ctx context.Context, tx *gorm.DB) error {
			_, err := s.ActivateTx(ctx, tx, did)
			return err
		})
		require.ErrorIs(t, err, account.ErrNotFound)
		err = inTx(t, s, db, "did:web:nobody.test", func(ctx context.Context, tx *gorm.DB) error {
			_, err := s.DeleteTx(ctx, tx, "did:web:nobody.test")
			return err
		})
		require.ErrorIs(t, err, account.ErrNotFound)
	})
}

// DESIGN.md: a did:web is issued once, ever, and its document is served for
// ever, after a rename and after a deletion.
func TestLabelIsIssuedOnce(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		did := mustCreate(t, s, db, "alice.test").DID
		first, err := s.DIDDocument(t.Context(), "alice.test")
		require.NoError(t, err)
		rename := func(handle syntax.Handle) error {
			return inTx(t, s, db, did, func(ctx context.Context, tx *gorm.DB) error {
				_, err := s.SetHandleTx(ctx, tx, did, handle)
				return err
			})
		}
		bob := mustCreate(t, s, db, "bob.test").DID
		require.ErrorIs(t, rename("bob.test"), account.ErrHandleTaken)
		require.NoError(t, rename("Alicia.test"))

		_, err = create(t, s, db, account.Params{Handle: "alice.test"})
		require.ErrorIs(t, err, account.ErrHandleTaken)
		doc, err := s.DIDDocument(t.Context(), "alice.test")
		require.NoError(t, err)
		require.Equal(t, did, doc.ID)
		require.Equal(t, []string{"at://alicia.test"}, doc.AlsoKnownAs)
		require.Equal(t, first.VerificationMethod, doc.VerificationMethod)
		_, err = s.DIDDocument(t.Context(), "alicia.test")
		require.ErrorIs(t, err, account.ErrNotFound, "no did:web was issued for the new name")
		got, err := s.HandleDID(t.Context(), "alicia.test:443")
		require.NoError(t, err)
		require.Equal(t, did, got)
		_, err = s.HandleDID(t.Context(), "alice.test")
		require.ErrorIs(t, err, account.ErrNotFound)

		require.ErrorIs(t, inTx(t, s, db, bob, func(ctx context.Context, tx *gorm.DB) error {
			_, err := s.SetHandleTx(ctx, tx, bob, "alice.test")
			return err
		}), account.ErrHandleTaken, "reserved for the DID that it was issued for")
		require.NoError(t, rename("alice.test"), "which may take it back")

		require.NoError(t, inTx(t, s, db, did, func(ctx context.Context, tx *gorm.DB) error {
			_, err := s.DeleteTx(ctx, tx, did)
			return err
		}))
		_, err = create(t, s, db, account.Params{Handle: "alice.test", ByAdmin: true})
		require.ErrorIs(t, err, account.ErrHandleTaken)
		doc, err = s.DIDDocument(t.Context(), "alice.test")
		require.NoError(t, err)
		require.Equal(t, first.VerificationMethod, doc.VerificationMethod, "what it signed can still be verified")
		require.Empty(t, doc.AlsoKnownAs)
		_, err = s.SigningKey(t.Context(), did)
		require.ErrorIs(t, err, account.ErrKeyUnavailable, "nothing can be signed any more")
	})
}

func TestRepoint(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		did := mustCreate(t, s, db, "alice.test").DID
		repoint := func(endpoint, key string) error {
			return inTx(t, s, db, did, func(ctx context.Context, tx *gorm.DB) error {
				return s.RepointTx(ctx, tx, did, account.Home{Endpoint: endpoint, PublicKey: key})
			})
		}
		const key = "did:key:zQ3shZc2QzApp2oymGvQbzP8eKheVshBHbU4ZYjeXqwSKEn6N" // atproto's did:key test fixture
		require.ErrorIs(t, repoint("http://new.example", key), account.ErrRepoint)
		require.ErrorIs(t, repoint("https://new.example", "did:key:nonsense"), account.ErrRepoint)
		require.NoError(t, repoint("https://new.example", key))
		doc, err := s.DIDDocument(t.Context(), "alice.test")
		require.NoError(t, err)
		require.Equal(t, "https://new.example", doc.Service[0].ServiceEndpoint)
		require.Equal(t, "zQ3shZc2QzApp2oymGvQbzP8eKheVshBHbU4ZYjeXqwSKEn6N", doc.VerificationMethod[0].PublicKeyMultibase)
		require.NoError(t, repoint("", ""))
		doc, err = s.DIDDocument(t.Context(), "alice.test")
		require.NoError(t, err)
		require.Equal(t, "http://localhost:2583", doc.Service[0].ServiceEndpoint)
	})
}

func TestEmailAndEndingSessions(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		require.NoError(t, s.Poll(t.Context()))
		alice, bob := mustCreate(t, s, db, "alice.test").DID, mustCreate(t, s, db, "bob.test").DID
		require.NoError(t, s.SetEmail(t.Context(), alice, "A@example.com"))
		require.ErrorIs(t, s.SetEmail(t.Context(), bob, "a@EXAMPLE.com"), account.ErrEmailTaken)
		require.ErrorIs(t, s.SetEmail(t.Context(), bob, "a@b@c.example"), account.ErrEmailInvalid)
		require.ErrorIs(t, s.SetEmail(t.Context(), "did:web:nobody.test", ""), account.ErrNotFound)
		a, err := s.Get(t.Context(), alice)
		require.NoError(t, err)
		require.Equal(t, "a@example.com", a.Email)
		require.Nil(t, a.EmailConfirmed)
		require.NoError(t, s.SetEmail(t.Context(), alice, ""))
		require.NoError(t, s.SetEmail(t.Context(), bob, "a@example.com"))

		_, first, err := s.Login(t.Context(), "alice.test", "correct horse", false)
		require.NoError(t, err)
		_, second, err := s.Login(t.Context(), "alice.test", "correct horse", false)
		require.NoError(t, err)
		_, others, err := s.Login(t.Context(), "bob.test", "correct horse", false)
		require.NoError(t, err)
		require.NoError(t, s.EndSessions(t.Context(), alice))
		for _, token := range []string{first.Access, second.Access} {
			_, err = s.VerifyAccess(t.Context(), token)
			require.ErrorIs(t, err, account.ErrTokenExpired)
		}
		_, err = s.VerifyAccess(t.Context(), others.Access)
		require.NoError(t, err)
	})
}
