package main_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
)

// An agent cites what another observed, in words that only the exact bytes
// have: the host keeps the bytes, the index looks for the words in them, and
// tells when what supersedes the observation no longer has them.
func TestCitationIsCheckedInTheBytes(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		in := start(t, env...)
		scout, clerk := in.account("scout.test"), in.account("clerk.test")
		ctx, now := t.Context(), time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
		generator := map[string]any{"run": syntax.NewTIDNow(1).String()}
		observe := func(content string, more map[string]any) map[string]any {
			var uploaded struct{ Blob map[string]any }
			require.NoError(t, scout.LexDo(ctx, http.MethodPost, "text/plain", "com.atproto.repo.uploadBlob", nil, strings.NewReader(content), &uploaded))
			record := map[string]any{
				"source": map[string]any{"kind": "command", "value": "make test"}, "method": "shell", "observedAt": now, "createdAt": now,
				"text": "ok", "content": uploaded.Blob, "generator": generator,
			}
			for name, value := range more {
				record[name] = value
			}
			var made map[string]any
			require.NoError(t, scout.Post(ctx, "com.atproto.repo.createRecord", map[string]any{
				"repo": scout.AccountDID, "collection": "garden.engram.agents.observation", "record": record,
			}, &made))
			return map[string]any{"uri": made["uri"], "cid": made["cid"]}
		}
		seen := observe("ok\n"+strings.Repeat("ok   package\n", 10_000)+"FAIL package/last\n", nil)
		claim := map[string]any{
			"text": "the last one fails", "createdAt": now, "generator": generator,
			"citations": []any{map[string]any{
				"span": map[string]any{"byteStart": 0, "byteEnd": 18}, "relation": "derivedFrom", "target": seen,
				"selector": map[string]any{"$type": "garden.engram.agents.defs#textQuote", "exact": "FAIL package/last"},
			}},
		}
		var made struct{ URI string }
		require.NoError(t, clerk.Post(ctx, "com.atproto.repo.createRecord", map[string]any{
			"repo": clerk.AccountDID, "collection": "garden.herbarium.claim", "record": claim,
		}, &made))

		type check struct {
			Verdict, Haystack, Reason, Freshness string
			At                                   *struct{ ByteStart, ByteEnd int }
		}
		verdict := func(want func(check) bool) func() error {
			return func() error {
				var got struct{ Citations []check }
				if err := clerk.Post(ctx, "garden.herbarium.verifyCitations", map[string]any{"uri": made.URI}, &got); err != nil {
					return err
				}
				if len(got.Citations) != 1 || !want(got.Citations[0]) {
					return fmt.Errorf("citations are %+v", got.Citations)
				}
				return nil
			}
		}
		eventually(t, 30*time.Second, "the words are found in the bytes", verdict(func(c check) bool {
			return c.Verdict == "verified" && c.Haystack == "blob" && c.At != nil && c.At.ByteEnd-c.At.ByteStart == len("FAIL package/last") && c.Freshness == ""
		}))
		observe("ok\n", map[string]any{"supersedes": seen})
		eventually(t, 30*time.Second, "the new head no longer has them", verdict(func(c check) bool { return c.Verdict == "verified" && c.Freshness == "gone" }))
		eventually(t, 30*time.Second, "and who looks for findings hears of it", func() error {
			var got struct{ Findings []struct{ URI string } }
			if err := clerk.Get(ctx, "garden.herbarium.listFindings", map[string]any{"code": "evidence-gone"}, &got); err != nil {
				return err
			}
			if len(got.Findings) != 1 || got.Findings[0].URI != made.URI {
				return fmt.Errorf("findings are %+v", got.Findings)
			}
			return nil
		})
	})
}
