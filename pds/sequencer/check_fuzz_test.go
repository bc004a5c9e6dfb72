package sequencer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/sequencer"
)

// FuzzReadFrame is a stored frame that a disk, or somebody, has changed: it reads
// as an event of its DID, or as damaged, and never ends the check.
func FuzzReadFrame(f *testing.F) {
	db := dbtest.Open(f, migrations.PDS, migrations.SQLite)
	s := start(f, db)
	publish(f, db, s, repeat(scout, 3)...)
	events, err := s.ReadFrom(f.Context(), 0, 10)
	require.NoError(f, err)
	require.NotEmpty(f, events)
	for _, e := range events {
		f.Add(string(e.Kind), e.Frame)
		for _, kind := range []sequencer.Kind{sequencer.Commit, sequencer.Sync, sequencer.Identity, sequencer.Account} {
			f.Add(string(kind), e.Frame[:len(e.Frame)/2])
		}
	}
	f.Fuzz(func(t *testing.T, kind string, frame []byte) {
		_, err := sequencer.ReadFrame(t.Context(), scout, sequencer.Kind(kind), frame)
		if err != nil {
			require.ErrorIs(t, err, sequencer.ErrBadFrame)
		}
	})
}
