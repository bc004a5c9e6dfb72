package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

// seenNow is an observation that holds little.
func seenNow(text string) object {
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	return object{
		"$type": lexicons.ObservationNSID, "source": object{"kind": "command", "value": "date"}, "method": "shell", "text": text,
		"observedAt": now, "createdAt": now, "generator": object{"run": syntax.NewTIDNow(0).String()},
	}
}

// When a session counts as idle or stale is the operator's to say, the service
// tells it, and the view says by which measure it judged.
func TestSessionThresholdsAreTheOperators(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]struct {
		active, idle float64
		state        string
	}{
		"": {30 * 60, 24 * 60 * 60, "active"},
		"HERBARIUM_SESSION_ACTIVE=1m HERBARIUM_SESSION_IDLE=1h":  {60, 60 * 60, "idle"},
		"HERBARIUM_SESSION_ACTIVE=10s HERBARIUM_SESSION_IDLE=1m": {10, 60, "stale"},
	} {
		t.Run(want.state, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, modes[0], strings.Fields(settings)...)
			thresholds := d.must("", http.MethodGet, "garden.herbarium.describeService", nil)["thresholds"].(object)
			require.Equal(t, want.active, thresholds["sessionActiveSeconds"])
			require.Equal(t, want.idle, thresholds["sessionIdleSeconds"])

			updated := time.Now().Add(-5 * time.Minute).UTC().Format(time.RFC3339)
			made := d.must(d.scout.token, http.MethodPost, "com.atproto.repo.createRecord", object{
				"repo": d.scout.did, "collection": lexicons.SessionNSID, "rkey": "work", "record": object{
					"title": "t", "summary": "s", "status": "active", "updatedAt": updated, "machine": "lab-1",
				},
			})
			rev := made["commit"].(object)["rev"].(string)
			ask := object{"uri": made["uri"], "minRev": d.scout.did + "@" + rev}
			derived := d.must(d.scout.token, http.MethodGet, "garden.herbarium.getSession", ask)["session"].(object)["derived"].(object)
			require.Equal(t, want.state, derived["state"])
			require.Equal(t, true, derived["inferred"])
			require.Equal(t, want.active, derived["activeWithinSeconds"])
			require.Equal(t, want.idle, derived["idleWithinSeconds"])
			list := d.must(d.scout.token, http.MethodGet, "garden.herbarium.listSessions", object{"state": want.state})
			require.Len(t, list["sessions"], 1)
		})
	}
}

// With OBSERVATION_DELETION=admin nobody takes back what was seen, by whatever
// method, and the operator still can remove it for good.
func TestObservationsAreKeptFromTheirAuthors(t *testing.T) {
	t.Parallel()
	d := deploy(t, modes[0], "HERBARIUM_OBSERVATION_DELETION=admin")
	made := d.must(d.scout.token, http.MethodPost, "com.atproto.repo.createRecord", object{"repo": d.scout.did, "collection": lexicons.ObservationNSID, "record": seenNow("kept")})
	uri := syntax.ATURI(made["uri"].(string))
	path := object{"repo": d.scout.did, "collection": lexicons.ObservationNSID, "rkey": uri.RecordKey()}
	for method, body := range map[string]object{
		"com.atproto.repo.deleteRecord": path,
		"com.atproto.repo.applyWrites": {"repo": d.scout.did, "writes": []any{object{
			"$type": "com.atproto.repo.applyWrites#delete", "collection": lexicons.ObservationNSID, "rkey": uri.RecordKey(),
		}}},
	} {
		raw, err := json.Marshal(body)
		require.NoError(t, err)
		answer := d.send(d.scout.token, http.MethodPost, "/xrpc/"+method, raw, "application/json")
		require.Equal(t, http.StatusBadRequest, answer.Code, answer.Body)
		var refused struct {
			Error    string
			Findings []lexicons.Finding
		}
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &refused))
		require.Equal(t, "PolicyDenied", refused.Error, method)
		require.Equal(t, lexicons.CodeCreateOnly, refused.Findings[0].Code)
		require.NotEmpty(t, refused.Findings[0].Repair)
	}
	dry := d.must(d.scout.token, http.MethodPost, "garden.herbarium.validateRecord", object{"repo": d.scout.did, "collection": lexicons.ObservationNSID, "rkey": uri.RecordKey(), "action": "delete"})
	require.Equal(t, false, dry["valid"])
	require.Equal(t, "PolicyDenied", dry["error"])
	d.must(d.scout.token, http.MethodGet, "com.atproto.repo.getRecord", path)

	// What is no observation is its author's to delete.
	d.must(d.scout.token, http.MethodPost, "com.atproto.repo.createRecord", object{"repo": d.scout.did, "collection": "org.example.note", "rkey": "one", "record": object{}})
	d.must(d.scout.token, http.MethodPost, "com.atproto.repo.deleteRecord", object{"repo": d.scout.did, "collection": "org.example.note", "rkey": "one"})

	d.must(d.viewers()["admin"]("garden.herbarium.admin.purgeRecord"), http.MethodPost, "garden.herbarium.admin.purgeRecord", object{"records": []any{object{"uri": uri, "cid": made["cid"]}}, "reason": "a test"})
	raw := "/xrpc/com.atproto.repo.getRecord?" + query(path)
	require.Equal(t, http.StatusBadRequest, d.send(d.scout.token, http.MethodGet, raw, nil, "").Code)
}
