package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The operator takes the place of the mail: what an account asked for is on
// the console, and that somebody looked is in the audit log.
func TestTokensAndAuditOnTheConsole(t *testing.T) {
	in := start(t)
	scout := in.account("scout.test")
	require.NoError(t, scout.Post(t.Context(), "com.atproto.server.requestAccountDelete", nil, nil))

	table, err := in.herbarium(t.Context(), "token", "list")
	require.NoError(t, err, table)
	require.Contains(t, table, "delete_account")
	lines, err := in.herbarium(t.Context(), "token", "list", "--json")
	require.NoError(t, err, lines)
	var shown struct{ DID, Handle, Token string }
	require.NoError(t, json.Unmarshal([]byte(lines), &shown))
	require.Equal(t, "scout.test", shown.Handle)
	require.Contains(t, table, shown.Token)
	require.NotContains(t, in.log.String(), shown.Token, "tokens are in no log")
	require.NoError(t, scout.Post(t.Context(), "com.atproto.server.deleteAccount",
		map[string]any{"did": shown.DID, "password": "password of scout.test", "token": shown.Token}, nil))

	audit, err := in.herbarium(t.Context(), "audit", "list", "--json", "--method", "garden.herbarium.admin.listOneTimeTokens")
	require.NoError(t, err, audit)
	require.Len(t, strings.Split(strings.TrimSpace(audit), "\n"), 2)
	require.NotContains(t, audit, shown.Token)
	audit, err = in.herbarium(t.Context(), "audit", "list", "--limit", "1")
	require.NoError(t, err, audit)
	require.Len(t, strings.Split(strings.TrimSpace(audit), "\n"), 2, "a heading and a line")
	refused, err := in.herbarium(t.Context(), "audit", "list", "--did", "nonsense")
	require.Error(t, err)
	require.Contains(t, refused, "InvalidRequest")
}
