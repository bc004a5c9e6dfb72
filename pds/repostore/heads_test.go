package repostore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/repostore"
)

// The head that a refused write is told is the head that the views show, also
// where a chain forks in forks, members were deleted, and a key is from the future.
func TestHostAndIndexNameOneHead(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		catalog, err := lexicons.Load()
		require.NoError(t, err)
		// One host keeps forks, another on the same database refuses them.
		lax := newHost(t, db, func(c *repostore.Config) {
			c.Rules = lexicons.NewRules(catalog, lexicons.Settings{Supersedes: lexicons.PolicyFlag})
		})
		strict := newHost(t, db, func(c *repostore.Config) { c.Keys = lax.keyring })
		witness, err := index.New(index.Config{DB: dbtest.Open(t, migrations.Appview, db.Dialect), Rules: lexicons.NewRules(catalog, lexicons.Settings{})})
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(3, 5)) //nolint:gosec // a world, not a secret
		compared := 0
		for round := range 4 {
			did := lax.account(fmt.Sprint("scout", round))
			apply := func(w repostore.Write) repostore.WriteResult {
				result := lax.apply(did, w)
				done := result.Writes[0]
				op := index.Operation{Action: done.Action, Collection: lexicons.ObservationNSID, RecordKey: w.RecordKey}
				if w.Record != nil {
					op.CID, op.Record = w.Record.CID, w.Record.CBOR
				}
				require.NoError(t, witness.Apply(t.Context(), "host", 0, []index.Event{&index.Commit{
					DID: did, Rev: result.Commit.Rev, CID: result.Commit.CID, Data: result.Commit.CID, Ops: []index.Operation{op},
				}}))
				return done
			}
			var all []lexicons.StrongRef
			gone := map[syntax.ATURI]bool{}
			key := func(n int) string {
				if random.IntN(8) == 0 {
					return syntax.NewTIDFromTime(time.Now().Add(time.Duration(48+n)*time.Hour), 0).String()
				}
				return tid(random.IntN(1000)*16 + n%16)
			}
			taken := map[string]bool{}
			for n := range 14 {
				var target *lexicons.StrongRef
				if n > 0 {
					target = &all[random.IntN(len(all))]
				}
				rkey := key(n)
				for taken[rkey] {
					rkey = key(n)
				}
				taken[rkey] = true
				all = append(all, *refTo(apply(create(rkey, observation(t, rkey, target)))))
			}
			for range 4 {
				if at := all[random.IntN(len(all))]; !gone[at.URI] {
					gone[at.URI] = true
					apply(remove(lexicons.ObservationNSID, at.URI.RecordKey().String()))
				}
			}
			for _, at := range all {
				chain, err := witness.Chain(t.Context(), index.Viewer{}, at.URI)
				require.NoError(t, err)
				_, err = strict.DryRun(t.Context(), did, []repostore.Write{create(tid(99_999), observation(t, "late", &at))}, repostore.Options{})
				if chain.Head == nil || chain.Head.Position <= chain.Self.Position { // itself, or what a deleted end fell back to
					require.NoError(t, err, "nothing alive descends from %s", at.URI)
					continue
				}
				var refused *lexicons.Refused
				require.True(t, errors.As(err, &refused), "%v, and the head of %s is %s", err, at.URI, chain.Head.URI)
				require.Equal(t, "AlreadySuperseded", refused.Name())
				require.Contains(t, refused.Error(), fmt.Sprintf("head %s %s", chain.Head.URI, chain.Head.CID))
				compared++
			}
		}
		require.Greater(t, compared, 10, "chains that go on")
	})
}
