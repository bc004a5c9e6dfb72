package main_test

import (
	"fmt"
	"testing"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// Twenty agents that write at once each read their own write, the next moment:
// on one process, and where another replica than the one that took the write is
// asked.
func TestTwentyAgentsReadTheirOwnWrites(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		in := start(t, "HERBARIUM_RATE_LIMITS=off", "HERBARIUM_LOG_LEVEL=warn")
		readOwnWrites(t, in, in)
	})
	t.Run("two replicas on postgres", func(t *testing.T) {
		shared := []string{
			"HERBARIUM_PDS_DB=" + dbtest.DSN(t, migrations.Postgres), "HERBARIUM_APPVIEW_DB=" + dbtest.DSN(t, migrations.Postgres),
			"HERBARIUM_DATA_DIR=" + t.TempDir(), "HERBARIUM_RATE_LIMITS=off", "HERBARIUM_LOG_LEVEL=warn",
		}
		one := start(t, shared...)
		readOwnWrites(t, one, start(t, append(shared, "HERBARIUM_PUBLIC_URL="+one.url)...))
	})
}

// readOwnWrites lets agents write at the first and read at the second.
func readOwnWrites(t *testing.T, writeAt, readAt *instance) {
	t.Helper()
	const agents, rounds = 20, 3
	var clients [agents]*atclient.APIClient
	for i := range clients {
		clients[i] = writeAt.account(fmt.Sprintf("reader-%d.test", i))
	}
	group, ctx := errgroup.WithContext(t.Context())
	for _, client := range clients {
		reader := *client
		reader.Host = readAt.url
		group.Go(func() error {
			for n := range rounds {
				var made struct {
					URI    string
					CID    string
					Commit struct{ Rev string }
				}
				text := fmt.Sprintf("note %d of %s", n, *client.AccountDID)
				err := client.Post(ctx, "com.atproto.repo.createRecord", map[string]any{
					"repo": client.AccountDID, "collection": "com.example.note", "record": map[string]any{"text": text},
				}, &made)
				if err != nil {
					return err
				}
				var view struct {
					Stale bool
					CID   string
					Value struct{ Text string }
				}
				err = reader.Get(ctx, "garden.herbarium.getRecord", map[string]any{
					"uri": made.URI, "minRev": string(*client.AccountDID) + "@" + made.Commit.Rev,
				}, &view)
				if err != nil {
					return fmt.Errorf("read %s: %w", made.URI, err)
				}
				if view.Stale || view.CID != made.CID || view.Value.Text != text {
					return fmt.Errorf("read %s: got %+v, want %s", made.URI, view, text)
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
}
