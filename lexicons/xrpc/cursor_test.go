package xrpc_test

import (
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons/xrpc"
)

type position struct {
	At  string
	URI syntax.ATURI
	N   int64
}

var somewhere = position{"2026-11-30T10:00:00.000Z", "at://did:web:a.test/app.a.post/1", 1<<53 - 1}

func TestCursorRoundTrip(t *testing.T) {
	got, err := xrpc.DecodeCursor[position]("list", xrpc.EncodeCursor("list", somewhere))
	require.NoError(t, err)
	require.Equal(t, somewhere, got)
}

func TestCursorRefusesWhatTheListDidNotGive(t *testing.T) {
	good := xrpc.EncodeCursor("list", somewhere)
	refused := func(t *testing.T, list, cursor string) {
		t.Helper()
		got, err := xrpc.DecodeCursor[position](list, cursor)
		require.Zero(t, got)
		var answer *xrpc.Error
		require.ErrorAs(t, err, &answer)
		require.Equal(t, 400, answer.Status)
		require.Equal(t, "InvalidRequest", answer.Name)
	}
	t.Run("empty", func(t *testing.T) { refused(t, "list", "") })
	t.Run("another list's", func(t *testing.T) { refused(t, "other", good) })
	t.Run("a longer list name", func(t *testing.T) { refused(t, "lis", good) })
	t.Run("cut short", func(t *testing.T) { refused(t, "list", good[:len(good)-4]) })
	t.Run("longer", func(t *testing.T) { refused(t, "list", good+"AAAA") })
	t.Run("huge", func(t *testing.T) { refused(t, "list", strings.Repeat("A", 1<<20)) })
	t.Run("another type's", func(t *testing.T) { refused(t, "list", xrpc.EncodeCursor("list", struct{ Else int }{1})) })
	t.Run("a value that does not parse", func(t *testing.T) {
		refused(t, "list", xrpc.EncodeCursor("list", struct{ URI string }{"https://a.test"}))
	})
	t.Run("any character changed", func(t *testing.T) {
		for i := range good {
			other := byte('A')
			if good[i] == other {
				other = 'B'
			}
			refused(t, "list", good[:i]+string(other)+good[i+1:])
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add(xrpc.EncodeCursor("list", somewhere))
	f.Add("")
	f.Add("AQAAAAB7fQ")
	f.Fuzz(func(t *testing.T, cursor string) {
		got, err := xrpc.DecodeCursor[position]("list", cursor)
		if err != nil {
			return
		}
		again, err := xrpc.DecodeCursor[position]("list", xrpc.EncodeCursor("list", got))
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}
