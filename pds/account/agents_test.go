package account_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

const (
	classURI = "at://did:web:maker.test/com.publicdomainrelay.temp.agent.class/3mmzzzzzzzz2a"
	classCID = "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a" // of {"a":"b"}, atproto's data model fixtures
)

// mustCreateAgent makes an account of mustCreate an agent.
func mustCreateAgent(t testing.TB, s *account.Store, db *migrations.DB, handle string, profile account.AgentProfile) account.Agent {
	t.Helper()
	did := mustCreate(t, s, db, handle).DID
	var agent account.Agent
	require.NoError(t, inTx(t, s, db, did, func(ctx context.Context, tx *gorm.DB) (err error) {
		agent, err = s.CreateAgentTx(ctx, tx, did, profile)
		return err
	}))
	return agent
}

func editAgent(t testing.TB, s *account.Store, db *migrations.DB, did syntax.DID, edit func(*account.AgentProfile)) (agent account.Agent, freed bool, err error) {
	t.Helper()
	err = inTx(t, s, db, did, func(ctx context.Context, tx *gorm.DB) error {
		agent, freed, err = s.UpdateAgentTx(ctx, tx, did, edit)
		return err
	})
	return agent, freed, err
}

func TestAgentProfile(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		at := newClock()
		s := newStore(t, db, func(c *account.Config) { c.Now = at.Now })
		class, err := account.ParseClassRef(classURI, classCID)
		require.NoError(t, err)
		later := at.Now().Add(24 * time.Hour)
		made := mustCreateAgent(t, s, db, "ada.test", account.AgentProfile{DisplayName: "Ada", Owner: "maps team", Class: class, Expires: &later})
		got, err := s.GetAgent(t.Context(), made.DID)
		require.NoError(t, err)
		require.Equal(t, made, got)
		require.Equal(t, account.AgentProfile{DisplayName: "Ada", Owner: "maps team", Class: class, Expires: &later}, got.Profile)
		require.Equal(t, syntax.Handle("ada.test"), got.Handle)

		at.advance(time.Minute)
		changed, freed, err := editAgent(t, s, db, made.DID, func(p *account.AgentProfile) { p.Owner, p.Class, p.Expires = "", nil, nil })
		require.NoError(t, err)
		require.False(t, freed)
		require.Equal(t, account.AgentProfile{DisplayName: "Ada"}, changed.Profile)
		require.Equal(t, at.Now(), changed.ChangedAt)

		for what, edit := range map[string]func(*account.AgentProfile){
			"displayName": func(p *account.AgentProfile) { p.DisplayName = strings.Repeat("x", 641) },
			"owner":       func(p *account.AgentProfile) { p.Owner = "a\x00b" },
			"expiry":      func(p *account.AgentProfile) { over := at.Now(); p.Expires = &over },
		} {
			_, _, err := editAgent(t, s, db, made.DID, edit)
			require.ErrorIs(t, err, account.ErrAgentInvalid, what)
			require.ErrorContains(t, err, what)
		}
		plain := mustCreate(t, s, db, "plain.test").DID
		_, err = s.GetAgent(t.Context(), plain)
		require.ErrorIs(t, err, account.ErrNotAgent)
		_, _, err = editAgent(t, s, db, "did:web:nobody.test", func(*account.AgentProfile) {})
		require.ErrorIs(t, err, account.ErrNotAgent)

		require.NoError(t, inTx(t, s, db, made.DID, func(ctx context.Context, tx *gorm.DB) error {
			_, err := s.DeleteTx(ctx, tx, made.DID)
			return err
		}))
		_, err = s.GetAgent(t.Context(), made.DID)
		require.ErrorIs(t, err, account.ErrNotAgent)
	})
}

func TestParseClassRef(t *testing.T) {
	for name, ref := range map[string][2]string{
		"another collection": {"at://did:web:maker.test/garden.engram.agents.observation/3mmzzzzzzzz2a", classCID},
		"no record key":      {"at://did:web:maker.test/com.publicdomainrelay.temp.agent.class", classCID},
		"a handle":           {"at://maker.test/com.publicdomainrelay.temp.agent.class/3mmzzzzzzzz2a", classCID},
		"no URI":             {"class", classCID},
		"no CID":             {classURI, ""},
		"a CID of raw bytes": {classURI, "bafkreibjo4xmgaevkgud7mbifn3dzp4v4lyaui4yvqp3f2bqwtxcjrdqg4"},
		"a CID of version 0": {classURI, "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG"},
	} {
		_, err := account.ParseClassRef(ref[0], ref[1])
		require.ErrorIs(t, err, account.ErrAgentInvalid, name)
	}
}

func TestListAgents(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		at := newClock()
		s := newStore(t, db, func(c *account.Config) { c.Now = at.Now })
		var all, maps []syntax.DID
		for i := range 7 {
			owner := []string{"maps", "rivers"}[i%2]
			a := mustCreateAgent(t, s, db, fmt.Sprintf("agent%d.test", i), account.AgentProfile{Owner: owner})
			mustCreate(t, s, db, fmt.Sprintf("person%d.test", i))
			all = append(all, a.DID)
			if owner == "maps" {
				maps = append(maps, a.DID)
			}
			if i%3 == 0 { // some at the same time
				at.advance(time.Second)
			}
		}
		walk := func(owner *string) (dids []syntax.DID) {
			var after account.Position
			for range 10 {
				page, err := s.ListAgents(t.Context(), owner, after, 2)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page.Items), 2)
				for _, a := range page.Items {
					dids = append(dids, a.DID)
				}
				if after = page.Next; after == (account.Position{}) {
					return dids
				}
			}
			t.Fatal("the list does not end")
			return nil
		}
		require.Equal(t, all, walk(nil))
		owner := "maps"
		require.Equal(t, maps, walk(&owner))
		owner = "no\x00body"
		require.Empty(t, walk(&owner))
	})
}

// From the moment of its expiry an agent is out, before anything ran.
func TestExpiredAgentIsOutAtOnce(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		at := newClock()
		s := newStore(t, db, func(c *account.Config) { c.Now = at.Now })
		require.NoError(t, s.Poll(t.Context()))
		expires := at.Now().Add(time.Hour)
		did := mustCreateAgent(t, s, db, "ada.test", account.AgentProfile{Expires: &expires}).DID
		key, proofs := newLoginKey(t), 0
		_, err := s.AddLoginKey(t.Context(), did, account.LoginKeyParams{Name: "key", PublicKey: key})
		require.NoError(t, err)
		_, tokens, err := s.Login(t.Context(), "ada.test", "correct horse", false)
		require.NoError(t, err)
		in := func(want error) {
			t.Helper()
			check := func(what string, err error) {
				t.Helper()
				if want == nil {
					require.NoError(t, err, what)
				} else {
					require.ErrorIs(t, err, want, what)
				}
			}
			_, _, err := s.Login(t.Context(), "ada.test", "correct horse", true)
			check("password", err)
			proofs++
			_, _, err = s.LoginWithKey(t.Context(), proof(did, key, fmt.Sprint(proofs), at.Now().Add(time.Minute)))
			check("key", err)
			_, err = s.VerifyAccess(t.Context(), tokens.Access)
			check("access token", err)
			_, err = s.VerifyRefresh(t.Context(), tokens.Refresh)
			check("refresh token", err)
			_, _, err = s.Refresh(t.Context(), tokens.Refresh)
			check("refresh", err)
		}
		at.advance(time.Hour - time.Millisecond)
		require.NoError(t, s.Poll(t.Context()))
		in(nil)
		at.advance(time.Millisecond)
		in(account.ErrAgentExpired)
		_, _, err = s.Login(t.Context(), "ada.test", "wrong password", false)
		require.ErrorIs(t, err, account.ErrCredentials, "who has no credential is not told")

		extended := at.Now().Add(time.Hour)
		_, freed, err := editAgent(t, s, db, did, func(p *account.AgentProfile) { p.Expires = &extended })
		require.NoError(t, err)
		require.False(t, freed, "nobody had come to deactivate it")
		require.NoError(t, s.Poll(t.Context()))
		_, err = s.VerifyAccess(t.Context(), tokens.Access)
		require.ErrorIs(t, err, account.ErrTokenExpired, "dead tokens stay dead")
		_, _, err = s.Login(t.Context(), "ada.test", "correct horse", false)
		require.NoError(t, err)
	})
}

// What holds an agent deactivates its account; the end of it opens again what
// it closed, and nothing else.
func TestHeldAgents(t *testing.T) {
	type step = func(ctx context.Context, s *account.Store, tx *gorm.DB, did syntax.DID, now time.Time) error
	expire := func(ctx context.Context, s *account.Store, tx *gorm.DB, did syntax.DID, _ time.Time) error {
		_, _, err := s.ExpireTx(ctx, tx, did)
		return err
	}
	extend := func(ctx context.Context, s *account.Store, tx *gorm.DB, did syntax.DID, now time.Time) error {
		_, _, err := s.UpdateAgentTx(ctx, tx, did, func(p *account.AgentProfile) { later := now.Add(time.Hour); p.Expires = &later })
		return err
	}
	disable := func(ctx context.Context, s *account.Store, tx *gorm.DB, did syntax.DID, _ time.Time) error {
		_, err := s.DisableAgentTx(ctx, tx, did)
		return err
	}
	enable := func(ctx context.Context, s *account.Store, tx *gorm.DB, did syntax.DID, _ time.Time) error {
		_, _, err := s.EnableAgentTx(ctx, tx, did)
		return err
	}
	deactivate := func(ctx context.Context, s *account.Store, tx *gorm.DB, did syntax.DID, _ time.Time) error {
		_, err := s.DeactivateTx(ctx, tx, did, nil)
		return err
	}
	takeDown := func(ctx context.Context, s *account.Store, tx *gorm.DB, did syntax.DID, _ time.Time) error {
		_, err := s.TakeDownTx(ctx, tx, did, "")
		return err
	}
	for _, test := range []struct {
		name   string
		steps  []step
		status account.Status
		held   error
	}{
		{"expired", []step{expire}, account.Deactivated, account.ErrAgentExpired},
		{"expired twice", []step{expire, expire}, account.Deactivated, account.ErrAgentExpired},
		{"extended", []step{expire, extend}, account.Active, nil},
		{"extended before the job came", []step{extend, expire}, account.Active, nil},
		{"deactivated by its owner, then expired and extended", []step{deactivate, expire, extend}, account.Deactivated, nil},
		{"deactivated by somebody while it was expired", []step{expire, deactivate, extend}, account.Deactivated, nil},
		{"disabled", []step{extend, disable}, account.Deactivated, account.ErrAgentDisabled},
		{"disabled and enabled", []step{extend, disable, disable, enable}, account.Active, nil},
		{"deactivated, disabled and enabled", []step{extend, deactivate, disable, enable}, account.Deactivated, nil},
		{"disabled while it was expired", []step{expire, disable, extend}, account.Deactivated, account.ErrAgentDisabled},
		{"and enabled", []step{expire, disable, extend, enable}, account.Active, nil},
		{"enabled while it is expired", []step{disable, enable}, account.Deactivated, account.ErrAgentExpired},
		{"and extended", []step{disable, enable, extend}, account.Active, nil},
		{"taken down", []step{expire, takeDown, extend}, account.TakenDown, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			each(t, func(t *testing.T, db *migrations.DB) {
				at := newClock()
				s := newStore(t, db, func(c *account.Config) { c.Now = at.Now })
				expires := at.Now().Add(time.Minute)
				did := mustCreateAgent(t, s, db, "ada.test", account.AgentProfile{Expires: &expires}).DID
				at.advance(time.Minute)
				for _, step := range test.steps {
					require.NoError(t, inTx(t, s, db, did, func(ctx context.Context, tx *gorm.DB) error { return step(ctx, s, tx, did, at.Now()) }))
				}
				a, err := s.Get(t.Context(), did)
				require.NoError(t, err)
				require.Equal(t, test.status, a.Status)
				require.Equal(t, test.held, a.Held(at.Now()))
				err = inTx(t, s, db, did, func(ctx context.Context, tx *gorm.DB) error {
					_, err := s.ActivateTx(ctx, tx, did)
					return err
				})
				if test.held != nil {
					require.ErrorIs(t, err, test.held, "who is held cannot be activated past it")
				}
			})
		})
	}
}

func TestListExpired(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		at := newClock()
		s := newStore(t, db, func(c *account.Config) { c.Now = at.Now })
		var dids []syntax.DID
		for i := range 4 {
			expires := at.Now().Add(time.Duration(4-i) * time.Minute)
			dids = append(dids, mustCreateAgent(t, s, db, fmt.Sprintf("agent%d.test", i), account.AgentProfile{Expires: &expires}).DID)
		}
		mustCreateAgent(t, s, db, "forever.test", account.AgentProfile{})
		due := func(limit int) []syntax.DID {
			list, err := s.ListExpired(t.Context(), limit)
			require.NoError(t, err)
			return list
		}
		require.Empty(t, due(10))
		at.advance(3 * time.Minute)
		require.Equal(t, []syntax.DID{dids[3], dids[2], dids[1]}, due(10))
		require.Equal(t, []syntax.DID{dids[3]}, due(1))
		require.NoError(t, inTx(t, s, db, dids[3], func(ctx context.Context, tx *gorm.DB) error {
			a, done, err := s.ExpireTx(ctx, tx, dids[3])
			require.True(t, done)
			require.Equal(t, account.Deactivated, a.Status)
			return err
		}))
		require.Equal(t, []syntax.DID{dids[2], dids[1]}, due(10))
	})
}
