package account_test

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

// A log made by @did-plc/lib 0.0.4, which begins with the old form of genesis:
// the key that signed until the second operation is a key of the DID.
func TestLoggedKeys(t *testing.T) {
	raw, err := os.ReadFile("testdata/plc_create_log.json")
	require.NoError(t, err)
	var vector struct {
		DID  syntax.DID
		Keys []string // newest first
		Log  []map[string]any
	}
	require.NoError(t, json.Unmarshal(raw, &vector))
	each(t, func(t *testing.T, db *migrations.DB) {
		plc, at := newPLC(t)
		// What this host gives new accounts does not matter.
		s := newStore(t, db, func(c *account.Config) { c.PLCURL = at })
		keysIn := func(t *testing.T, log []map[string]any) ([]string, error) {
			t.Helper()
			plc.mu.Lock()
			plc.log[string(vector.DID)] = log
			plc.mu.Unlock()
			keys, err := s.LoggedKeys(t.Context(), vector.DID)
			var named []string
			for _, key := range keys {
				named = append(named, key.DIDKey())
			}
			return named, err
		}
		got, err := keysIn(t, vector.Log)
		require.NoError(t, err)
		require.Equal(t, vector.Keys, got)

		with := func(i int, field string, value any) []map[string]any {
			log := append([]map[string]any{}, vector.Log...)
			changed := map[string]any{field: value}
			for key, old := range log[i] {
				if key != field {
					changed[key] = old
				}
			}
			log[i] = changed
			return log
		}
		mallory, err := atcrypto.GeneratePrivateKeyP256()
		require.NoError(t, err)
		public, err := mallory.PublicKey()
		require.NoError(t, err)
		for name, log := range map[string][]map[string]any{
			"a key put into the genesis":       with(0, "signingKey", public.DIDKey()),
			"a key put into the second":        with(1, "verificationMethods", map[string]any{"atproto": public.DIDKey()}),
			"the genesis left out":             vector.Log[1:],
			"an operation left out":            {vector.Log[0], vector.Log[2]},
			"the old form again, as an update": {vector.Log[0], vector.Log[0]},
		} {
			t.Run(name, func(t *testing.T) {
				_, err := keysIn(t, log)
				require.ErrorIs(t, err, account.ErrPLCUnavailable)
			})
		}
		plc.mu.Lock()
		plc.fail = func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }
		plc.mu.Unlock()
		_, err = s.LoggedKeys(t.Context(), vector.DID)
		require.ErrorIs(t, err, account.ErrPLCUnavailable)
		keys, err := s.LoggedKeys(t.Context(), "did:web:scout.test")
		require.NoError(t, err, "a did:web has no log to be asked for")
		require.Empty(t, keys)
	})
}
