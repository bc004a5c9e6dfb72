package account_test

import (
	"context"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

func TestPolicyIsKept(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name      string
		set, want account.Policy
	}{
		{name: "nothing"},
		{"no collection at all", account.Policy{Collections: []syntax.NSID{}}, account.Policy{Collections: []syntax.NSID{}}},
		{"an empty list of create-only collections", account.Policy{CreateOnly: []syntax.NSID{}}, account.Policy{}},
		{
			"everything, lists in any order",
			account.Policy{
				Collections: []syntax.NSID{"org.example.b", "org.example.a", "org.example.b"}, CreateOnly: []syntax.NSID{"org.example.a"},
				MaxRecords: n(0), MaxBlobBytes: n(1 << 50), WritesPerHour: n(1), WritesPerDay: n(7),
			},
			account.Policy{
				Collections: []syntax.NSID{"org.example.a", "org.example.b"}, CreateOnly: []syntax.NSID{"org.example.a"},
				MaxRecords: n(0), MaxBlobBytes: n(1 << 50), WritesPerHour: n(1), WritesPerDay: n(7),
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, db *migrations.DB) {
				s := newStore(t, db)
				require.NoError(t, s.Poll(t.Context()))
				did := mustCreate(t, s, db, "alice.test").DID
				require.NoError(t, s.SetPolicy(t.Context(), did, account.Policy{MaxRecords: n(5), CreateOnly: []syntax.NSID{"org.example.old"}}))
				require.NoError(t, s.SetPolicy(t.Context(), did, c.set))
				for range 2 { // from the database, then from memory
					got, err := s.Policy(t.Context(), did)
					require.NoError(t, err)
					require.Equal(t, c.want, got)
				}
			})
		})
	}
}

func TestPolicyOutOfBounds(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		did := mustCreate(t, s, db, "alice.test").DID
		for name, p := range map[string]account.Policy{
			"records below zero":   {MaxRecords: n(-1)},
			"bytes below zero":     {MaxBlobBytes: n(-1)},
			"no writes an hour":    {WritesPerHour: n(0)},
			"no writes a day":      {WritesPerDay: n(0)},
			"more than JSON keeps": {MaxRecords: n(1 << 53)},
			"too many collections": {Collections: make([]syntax.NSID, 257)},
		} {
			require.ErrorIs(t, s.SetPolicy(t.Context(), did, p), account.ErrPolicy, name)
		}
		require.ErrorIs(t, s.SetPolicy(t.Context(), "did:web:nobody.test", account.Policy{}), account.ErrNotFound)
		none, err := s.Policy(t.Context(), "did:web:nobody.test")
		require.NoError(t, err)
		require.Zero(t, none)
	})
}

// A change is seen by a replica that remembers the policy, with its next look;
// the policy goes with the account.
func TestPolicyOnAnotherReplica(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	each(t, func(t *testing.T, db *migrations.DB) {
		here, there := newStore(t, db), newStore(t, db)
		did := mustCreate(t, here, db, "alice.test").DID
		require.NoError(t, there.Poll(t.Context()))
		quota := func() *int64 {
			p, err := there.Policy(t.Context(), did)
			require.NoError(t, err)
			return p.MaxRecords
		}
		require.Nil(t, quota())
		require.NoError(t, here.SetPolicy(t.Context(), did, account.Policy{MaxRecords: n(3)}))
		require.Nil(t, quota(), "there it is remembered")
		require.NoError(t, there.Poll(t.Context()))
		require.Equal(t, n(3), quota())
		require.NoError(t, inTx(t, there, db, did, func(ctx context.Context, tx *gorm.DB) error {
			_, err := there.DeleteTx(ctx, tx, did)
			return err
		}))
		require.Nil(t, quota())
	})
}
