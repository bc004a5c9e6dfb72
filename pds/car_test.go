package pds_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	indigorepo "github.com/bluesky-social/indigo/atproto/repo"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
)

// recordsOfCAR reads a whole repo with indigo's reader: path to CID.
func recordsOfCAR(t *testing.T, raw []byte) map[string]string {
	t.Helper()
	_, repo, err := indigorepo.LoadRepoFromCAR(t.Context(), bytes.NewReader(raw))
	require.NoError(t, err)
	require.False(t, repo.MST.IsPartial())
	require.NoError(t, repo.MST.Verify())
	records := map[string]string{}
	require.NoError(t, repo.MST.Walk(func(key []byte, val cid.Cid) error {
		records[string(key)] = val.String()
		return nil
	}))
	return records
}

func nowUnix() int64 { return time.Now().Unix() }

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}
