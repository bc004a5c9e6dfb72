package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/secrettest"
)

// Whatever the operator does about credentials in records, and whichever it is:
// no answer, no log at its most talkative, no audit row, no metric, no finding
// of the index and no command repeats one. Only the record itself has it, if it
// was let in.
func TestSecretsAreRepeatedByNothing(t *testing.T) {
	for _, policy := range []string{"reject", "flag"} {
		t.Run(policy, func(t *testing.T) {
			metrics := freePort(t)
			in := start(t, "HERBARIUM_SECRETS_POLICY="+policy, "HERBARIUM_LOG_LEVEL=debug", "HERBARIUM_RATE_LIMITS=off",
				fmt.Sprintf("HERBARIUM_METRICS_LISTEN=127.0.0.1:%d", metrics))
			ctx := t.Context()
			client := in.account("ada.test")
			did := client.AccountDID.String()
			said := map[string]string{} // by what said it
			kept := 0
			for _, rule := range lexicons.SecretRules() {
				text, _ := secrettest.Of(rule.ID)
				now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
				record := map[string]any{
					"$type": "garden.engram.session", "title": "A leak", "summary": text, "note": text, "updatedAt": now,
				}
				if len(text) <= 64 { // as much as its lexicon lets it have; a message quotes it
					record["status"] = text
				}
				for name, body := range map[string]map[string]any{
					"createRecord":   {"repo": did, "collection": "garden.engram.session", "rkey": rule.ID, "record": record},
					"validateRecord": {"repo": did, "collection": "garden.engram.session", "record": record},
				} {
					method := "com.atproto.repo.createRecord"
					if name == "validateRecord" {
						method = "garden.herbarium.validateRecord"
					}
					answer, err := post(t, client, method, body)
					said[name+" "+rule.ID] = answer
					if name == "createRecord" && err == nil {
						kept++
					}
				}
			}
			if policy == "flag" {
				require.Equal(t, len(lexicons.SecretRules()), kept)
			} else {
				require.Less(t, kept, len(lexicons.SecretRules())/2)
			}

			eventually(t, 20*time.Second, "the index has the findings", func() error {
				codes := map[string]bool{}
				found := 0
				for cursor := ""; ; {
					var page struct {
						Cursor   string
						Findings []json.RawMessage
					}
					params := map[string]any{"limit": 100}
					if cursor != "" {
						params["cursor"] = cursor
					}
					if err := in.admin().Get(ctx, "garden.herbarium.listFindings", params, &page); err != nil {
						return err
					}
					for _, raw := range page.Findings {
						var f struct{ Code string }
						require.NoError(t, json.Unmarshal(raw, &f))
						said["listFindings"] += string(raw)
						codes[f.Code] = true
						found++
					}
					if cursor = page.Cursor; cursor == "" {
						break
					}
				}
				// Each record has its summary and its note remarked.
				if found < 2*kept || policy == "flag" && !codes["SecretDetected"] || !codes["secret-suspect"] {
					return fmt.Errorf("%d findings of %d records: %v", found, kept, codes)
				}
				return nil
			})
			for _, args := range [][]string{{"audit", "list", "--json"}, {"blob", "secrets"}, {"blob", "status"}} {
				out, err := in.herbarium(ctx, args...)
				require.NoError(t, err, out)
				said["herbarium "+args[0]+" "+args[1]] = out
			}
			said["metrics"] = get(t, fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics))
			said["log"] = in.log.String()
			require.Contains(t, said["metrics"], "herbarium_blobs_with_secrets 0")
			require.Contains(t, said["log"], "createRecord")
			for _, rule := range lexicons.SecretRules() {
				_, secret := secrettest.Of(rule.ID)
				for what, text := range said {
					require.False(t, secrettest.Repeats(text, secret), "%s repeats the secret of %s", what, rule.ID)
				}
			}
		})
	}
}

// post answers what a method said, in full.
func post(t *testing.T, client *atclient.APIClient, method string, body map[string]any) (string, error) {
	t.Helper()
	var answer json.RawMessage
	err := client.Post(t.Context(), syntax.NSID(method), body, &answer)
	var refused *atclient.APIError
	if errors.As(err, &refused) {
		return refused.Name + ": " + refused.Message, err
	}
	require.NoError(t, err)
	return string(answer), nil
}
