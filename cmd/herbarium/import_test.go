package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
)

// An import is told by a #sync alone: the own index learns from it what came,
// what went, and goes on with the next commit.
func TestIndexFollowsAnImport(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		in := start(t, env...)
		client := in.account("mover.test")
		ctx := t.Context()
		observe := func(text string) string {
			now := time.Now().UTC().Format(syntax.AtprotoDatetimeLayout)
			var made struct {
				URI string `json:"uri"`
			}
			require.NoError(t, client.Post(ctx, "com.atproto.repo.createRecord", map[string]any{
				"repo": client.AccountDID, "collection": "garden.engram.agents.observation",
				"record": map[string]any{
					"$type": "garden.engram.agents.observation", "text": text, "method": "shell", "observedAt": now, "createdAt": now,
					"source":    map[string]any{"kind": "command", "value": "date"},
					"generator": map[string]any{"run": syntax.NewTIDNow(1).String()},
				},
			}, &made))
			return made.URI
		}
		view := func(uri string) error {
			return in.admin().Get(ctx, "garden.herbarium.getObservation", map[string]any{"uri": uri}, nil)
		}
		kept := observe("kept")
		backup, err := comatproto.SyncGetRepo(ctx, client, client.AccountDID.String(), "")
		require.NoError(t, err)
		gone := observe("gone")
		eventually(t, time.Minute, "both are indexed", func() error { return errors.Join(view(kept), view(gone)) })

		require.NoError(t, comatproto.RepoImportRepo(ctx, client, bytes.NewReader(backup)))
		eventually(t, time.Minute, "the index knows what the import left out", func() error {
			var got struct {
				State string `json:"state"`
			}
			err := in.admin().Get(ctx, "garden.herbarium.getRecord", map[string]any{"uri": gone}, &got)
			if err == nil && got.State != "deleted" {
				err = fmt.Errorf("it is %s", got.State)
			}
			return err
		})
		require.NoError(t, view(kept))
		next := observe("next")
		eventually(t, time.Minute, "the index follows the next commit", func() error { return view(next) })
	})
}
