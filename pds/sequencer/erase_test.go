package sequencer_test

import (
	"context"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/sequencer"
)

// Only the events that carry a record go, of its DID alone; those that name it
// stay, and no reader misses any other, in memory or not.
func TestEraseRecords(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		fast := func(c *sequencer.Config) { c.PollEvery = 5 * time.Millisecond }
		s, replica := start(t, db, fast), start(t, db, fast)
		// A section of a CAR is its length, the CID and the block.
		car := append(append([]byte("header\x28"), recordCID.Bytes()...), "the block"...)
		carrying := func(did syntax.DID) sequencer.Draft {
			return sequencer.CommitDraft{DID: did, Rev: "3kabcdefghij2", Commit: commitCID, Blocks: car, Ops: []sequencer.Op{{Action: "create", Path: "a/b", CID: &recordCID}}}
		}
		// An MST node links to it, and so does the operation that deletes it.
		node := append([]byte("header\x28\x58\x25\x00"), recordCID.Bytes()...)
		naming := sequencer.CommitDraft{DID: scout, Rev: "3kabcdefghik2", Commit: commitCID, Blocks: node, Ops: []sequencer.Op{{Action: "delete", Path: "a/b", Prev: &recordCID}}}
		publish(t, db, s, identity(scout), carrying(scout), naming, carrying(ranger), identity(scout), carrying(scout))
		replica.Published(commit(t, db, replica, identity(scout), carrying(scout)))

		count := func(did syntax.DID) int64 {
			counted, err := s.CountRecords(t.Context(), did, []cid.Cid{commitCID, recordCID})
			require.NoError(t, err)
			require.Zero(t, counted[commitCID])
			return counted[recordCID]
		}
		require.Equal(t, int64(3), count(scout))
		require.NoError(t, db.Tx(t.Context(), func(tx *gorm.DB) error {
			n, err := s.EraseRecords(context.Background(), tx, scout, []cid.Cid{recordCID})
			require.Equal(t, int64(3), n)
			return err
		}))
		s.ErasedRecords()
		require.Zero(t, count(scout))
		require.Equal(t, int64(1), count(ranger))
		require.Equal(t, []int64{1, 3, 4, 5, 7}, from(t, s, 0))
		require.Equal(t, []int64{5, 7}, from(t, s, 4), "the other events of the DID are not skipped")
		run(t, replica)
		require.Eventually(t, func() bool { return len(from(t, replica, 6)) == 1 }, 5*time.Second, time.Millisecond, "the other process forgets it")
	})
}
