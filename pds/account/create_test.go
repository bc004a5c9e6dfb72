package account_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

func TestCreateNormalisesTheHandle(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		a, err := create(t, s, db, account.Params{Handle: "Alice.TEST", Email: "Alice@Example.com", Password: "correct horse"})
		require.NoError(t, err)
		require.Equal(t, syntax.DID("did:web:alice.test"), a.DID)
		require.Equal(t, syntax.Handle("alice.test"), a.Handle)
		require.Equal(t, "alice@example.com", a.Email)
		require.Equal(t, account.Active, a.Status)
		require.Empty(t, a.HostedStatus())

		got, err := s.Get(t.Context(), a.DID)
		require.NoError(t, err)
		require.Equal(t, a, got)
		did, err := s.ResolveHandle(t.Context(), "ALICE.test")
		require.NoError(t, err)
		require.Equal(t, a.DID, did)
		_, err = s.ResolveHandle(t.Context(), "bob.test")
		require.ErrorIs(t, err, account.ErrNotFound)
	})
}

func TestHandleRules(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db, func(c *account.Config) {
			c.HandleDomains = []string{".test", ".agents.example.com"}
			c.PublicURL = &url.URL{Scheme: "https", Host: "pds.agents.example.com"}
		})
		for name, test := range map[string]struct {
			handle syntax.Handle
			admin  bool
			want   error
		}{
			"syntax":                 {"al_ice.test", false, account.ErrHandleInvalid},
			"no domain":              {"alice", false, account.ErrHandleInvalid},
			"empty":                  {"", false, account.ErrHandleInvalid},
			"two characters":         {"al.test", false, account.ErrHandleInvalid},
			"three characters":       {"ali.test", false, nil},
			"eighteen characters":    {"abcdefghijklmnopqr.test", false, nil},
			"nineteen characters":    {"abcdefghijklmnopqrs.test", false, account.ErrHandleInvalid},
			"dotted":                 {"a.lice.test", false, account.ErrHandleInvalid},
			"foreign domain":         {"alice.example.com", false, account.ErrDomainUnsupported},
			"domain that ends alike": {"alice.mytest", false, account.ErrDomainUnsupported},
			"second domain":          {"alice.agents.example.com", false, nil},
			"reserved":               {"admin.test", false, account.ErrHandleReserved},
			"reserved, mixed case":   {"Admin.test", false, account.ErrHandleReserved},
			"reserved, by an admin":  {"admin.test", true, nil},
			"the host itself":        {"pds.agents.example.com", true, account.ErrHandleReserved},
			"invalid tld":            {"alice.local", false, account.ErrHandleInvalid},
			"leading at":             {"@alice.test", false, nil},
		} {
			t.Run(name, func(t *testing.T) {
				_, err := s.Prepare(t.Context(), account.Params{Handle: test.handle, ByAdmin: test.admin})
				if test.want == nil {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, test.want)
			})
		}
	})
}

// PDS-SURFACE edge case 24.
func TestRacingSignUpsLeaveOneWinner(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		const racers = 8
		prepared := make([]*account.Prepared, racers)
		for i := range prepared {
			var err error
			prepared[i], err = s.Prepare(t.Context(), account.Params{Handle: "alice.test"})
			require.NoError(t, err)
		}
		errs := make([]error, racers)
		var wg sync.WaitGroup
		for i := range prepared {
			wg.Go(func() { _, errs[i] = insert(t.Context(), s, db, prepared[i]) })
		}
		wg.Wait()
		winners := 0
		for i, err := range errs {
			if err == nil {
				winners++
				// The key in the database is the winner's.
				key, err := s.SigningKey(t.Context(), "did:web:alice.test")
				require.NoError(t, err)
				require.True(t, key.Equal(prepared[i].SigningKey()))
				continue
			}
			require.ErrorIs(t, err, account.ErrHandleTaken)
		}
		require.Equal(t, 1, winners)
		page, err := s.List(t.Context(), account.Position{}, 10)
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
	})
}

func TestWhatOnlyOneAccountCanHave(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		_, err := create(t, s, db, account.Params{Handle: "alice.test", Email: "a@example.com"})
		require.NoError(t, err)
		_, err = create(t, s, db, account.Params{Handle: "ALICE.test"})
		require.ErrorIs(t, err, account.ErrHandleTaken)
		_, err = create(t, s, db, account.Params{Handle: "bob.test", Email: "A@example.com"})
		require.ErrorIs(t, err, account.ErrEmailTaken)
		_, err = create(t, s, db, account.Params{Handle: "bob.test", Email: "nobody"})
		require.ErrorIs(t, err, account.ErrEmailInvalid)
		_, err = create(t, s, db, account.Params{Handle: "bob.test", Password: "short"})
		require.ErrorIs(t, err, account.ErrPasswordUnfit)
		_, err = create(t, s, db, account.Params{Handle: "bob.test", DID: "did:web:alice.test"})
		require.ErrorIs(t, err, account.ErrDIDTaken)

		a, err := create(t, s, db, account.Params{Handle: "carol.example.com", DID: "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"})
		require.NoError(t, err, "a DID brought along may have a handle of its own domain")
		require.Equal(t, account.Deactivated, a.Status)
		require.Equal(t, account.Own, a.Identity)
	})
}

// Failed, not persisted: nothing of the account is left.
func TestInsertLeavesNothingWhenTheTransactionFails(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db, func(c *account.Config) { c.InviteRequired = true })
		invites, err := s.CreateInvites(t.Context(), 1, 1, account.InvitesForAdmin, "admin")
		require.NoError(t, err)
		p, err := s.Prepare(t.Context(), account.Params{Handle: "alice.test", Invite: invites[0].Code})
		require.NoError(t, err)
		failed := errors.New("the repo could not be created")
		err = db.Tx(t.Context(), func(tx *gorm.DB) error {
			_, err := s.Insert(t.Context(), tx, p)
			require.NoError(t, err)
			return failed
		})
		require.ErrorIs(t, err, failed)
		_, err = s.Get(t.Context(), p.DID())
		require.ErrorIs(t, err, account.ErrNotFound)
		_, err = s.DIDDocument(t.Context(), "alice.test")
		require.ErrorIs(t, err, account.ErrNotFound)
		_, err = insert(t.Context(), s, db, p)
		require.NoError(t, err, "handle, label and invite are free again")
	})
}

func TestInvites(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db, func(c *account.Config) { c.InviteRequired = true })
		sign := func(handle, code string) error {
			_, err := create(t, s, db, account.Params{Handle: syntax.Handle(handle), Invite: code})
			return err
		}
		require.ErrorIs(t, sign("alice.test", ""), account.ErrInvite)
		require.ErrorIs(t, sign("alice.test", "localhost-aaaaa-aaaaa"), account.ErrInvite)
		require.ErrorIs(t, sign("alice.test", "\x00"), account.ErrInvite)
		invites, err := s.CreateInvites(t.Context(), 3, 2, account.InvitesForAdmin, "admin")
		require.NoError(t, err)
		require.Regexp(t, `^localhost-[a-z2-7]{5}-[a-z2-7]{5}$`, invites[0].Code)
		require.NoError(t, sign("alice.test", invites[0].Code))
		require.NoError(t, sign("bob.test", invites[0].Code))
		require.ErrorIs(t, sign("carol.test", invites[0].Code), account.ErrInvite)
		require.NoError(t, s.DisableInvites(t.Context(), []string{invites[1].Code}, nil))
		require.ErrorIs(t, sign("carol.test", invites[1].Code), account.ErrInvite)
		_, err = create(t, s, db, account.Params{Handle: "carol.test", ByAdmin: true})
		require.NoError(t, err)

		list := func(order account.InviteOrder) (all []account.Invite) {
			for after := (*account.Invite)(nil); ; after = &all[len(all)-1] {
				page, err := s.ListInvites(t.Context(), order, after, 2)
				require.NoError(t, err)
				if all = append(all, page...); len(page) < 2 {
					return all
				}
			}
		}
		require.Equal(t, invites[0].Code, list(account.InvitesUsage)[0].Code, "the one that was used")
		all := list(account.InvitesRecent)
		require.Len(t, all, 3)
		for _, invite := range all {
			require.Equal(t, invite.Code == invites[1].Code, invite.Disabled)
			if invite.Code == invites[0].Code {
				require.Zero(t, invite.UsesLeft)
				require.Len(t, invite.UsedBy, 2)
			} else {
				require.Empty(t, invite.UsedBy)
			}
		}
		require.NoError(t, s.DisableInvites(t.Context(), nil, []string{account.InvitesForAdmin}))
		require.ErrorIs(t, sign("dave.test", invites[2].Code), account.ErrInvite)
	})
}

// The last use of an invite goes to one of those who race for it.
func TestRacingForTheLastUse(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db, func(c *account.Config) { c.InviteRequired = true })
		invites, err := s.CreateInvites(t.Context(), 1, 1, account.InvitesForAdmin, "admin")
		require.NoError(t, err)
		errs := make([]error, 4)
		var wg sync.WaitGroup
		prepared := make([]*account.Prepared, len(errs))
		for i := range prepared {
			prepared[i], err = s.Prepare(t.Context(), account.Params{Handle: syntax.Handle(fmt.Sprintf("racer%d.test", i)), Invite: invites[0].Code})
			require.NoError(t, err)
		}
		for i := range prepared {
			wg.Go(func() { _, errs[i] = insert(t.Context(), s, db, prepared[i]) })
		}
		wg.Wait()
		winners := 0
		for _, err := range errs {
			if err == nil {
				winners++
			} else {
				require.ErrorIs(t, err, account.ErrInvite)
			}
		}
		require.Equal(t, 1, winners)
	})
}

func TestListPages(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		var want []syntax.DID
		for i := range 5 {
			want = append(want, mustCreate(t, s, db, fmt.Sprintf("agent%d.test", i)).DID)
		}
		gone := mustCreate(t, s, db, "gone.test").DID
		require.NoError(t, inTx(t, s, db, gone, func(ctx context.Context, tx *gorm.DB) error {
			_, err := s.DeleteTx(ctx, tx, gone)
			return err
		}))
		var got []syntax.DID
		for at := (account.Position{}); ; {
			page, err := s.List(t.Context(), at, 2)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Items), 2)
			for _, a := range page.Items {
				got = append(got, a.DID)
			}
			if at = page.Next; at == (account.Position{}) {
				break
			}
		}
		require.ElementsMatch(t, want, got)
	})
}
