package sequencer_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/bluesky-social/indigo/events"
	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/sequencer"
)

// split takes a frame apart at the end of its header and decodes both.
func split(t *testing.T, frame []byte) (header, body map[string]any) {
	t.Helper()
	// The header's own bytes tell where it ends: encoded again, it is its prefix.
	for n := 1; n <= len(frame); n++ {
		if h, err := atdata.UnmarshalCBOR(frame[:n]); err == nil {
			body, err := atdata.UnmarshalCBOR(frame[n:])
			require.NoError(t, err)
			return h, body
		}
	}
	t.Fatal("no header in the frame")
	return nil, nil
}

// Each kind of frame against indigo's decoder and, bit by bit, against indigo's
// encoder of header and body.
func TestFramesAreWhatIndigoReads(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		now := time.Date(2026, 11, 30, 12, 0, 0, 5_000_000, time.UTC)
		s := start(t, db, func(c *sequencer.Config) { c.Now = func() time.Time { return now } })
		since := syntax.TID("3kabcdefghij2")
		drafts := []sequencer.Draft{
			sequencer.CommitDraft{
				DID: scout, Rev: "3kabcdefghij2", Commit: commitCID, Blocks: []byte("car bytes"),
				Ops: []sequencer.Op{{Action: "create", Path: "app.a.post/1", CID: &recordCID}},
			},
			sequencer.CommitDraft{
				DID: scout, Rev: "3kabcdefghik2", Since: &since, Commit: commitCID, PrevData: &recordCID, Blocks: []byte("car bytes"),
				Ops: []sequencer.Op{
					{Action: "update", Path: "app.a.post/1", CID: &recordCID, Prev: &commitCID},
					{Action: "delete", Path: "app.a.post/2", Prev: &commitCID},
				},
				Time: now.Add(-time.Second),
			},
			sequencer.SyncDraft{DID: scout, Rev: "3kabcdefghik2", Blocks: []byte("car bytes")},
			sequencer.IdentityDraft{DID: scout, Handle: "scout.test"},
			sequencer.IdentityDraft{DID: scout},
			sequencer.AccountDraft{DID: scout, Active: true},
			sequencer.AccountDraft{DID: scout, Status: "deactivated"},
		}
		publish(t, db, s, drafts...)
		stored, err := s.ReadFrom(t.Context(), 0, 100)
		require.NoError(t, err)
		require.Len(t, stored, len(drafts))

		decoded := make([]events.XRPCStreamEvent, len(stored))
		for i, e := range stored {
			require.NoError(t, decoded[i].Deserialize(bytes.NewReader(e.Frame)))
			var again bytes.Buffer
			require.NoError(t, decoded[i].Serialize(&again))
			require.Equal(t, again.Bytes(), e.Frame)
			require.Equal(t, e.Seq, decoded[i].Sequence())

			header, body := split(t, e.Frame)
			require.Equal(t, map[string]any{"op": int64(1), "t": string(e.Kind)}, header)
			require.NotContains(t, body, "$type")
		}
		_, first := split(t, stored[0].Frame)
		require.Contains(t, first, "since")
		require.Nil(t, first["since"], "null on the first commit")
		require.NotContains(t, first, "prevData", "absent on the first commit")
		require.Equal(t, []any{}, first["blobs"], "required by the lexicon, always empty")
		require.Equal(t, false, first["tooBig"])
		require.Equal(t, false, first["rebase"])
		require.Equal(t, "2026-11-30T12:00:00.005Z", first["time"])
		op := first["ops"].([]any)[0].(map[string]any)
		require.NotContains(t, op, "prev")

		second := decoded[1].RepoCommit
		require.Equal(t, string(since), *second.Since)
		require.Equal(t, recordCID.String(), second.PrevData.String())
		require.Equal(t, "2026-11-30T11:59:59.005Z", second.Time)
		require.Nil(t, second.Ops[1].Cid)
		require.Equal(t, commitCID.String(), second.Ops[1].Prev.String())
		_, body := split(t, stored[1].Frame)
		require.Contains(t, body["ops"].([]any)[1], "cid", "null, not absent, on a delete")

		require.Equal(t, "scout.test", *decoded[3].RepoIdentity.Handle)
		require.Nil(t, decoded[4].RepoIdentity.Handle)
		require.Nil(t, decoded[5].RepoAccount.Status)
		require.Equal(t, "deactivated", *decoded[6].RepoAccount.Status)
	})
}
