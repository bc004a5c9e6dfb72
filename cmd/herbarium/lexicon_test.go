package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// plantLexicon writes the file of com.example.plant, whose name has at most so
// many bytes.
func plantLexicon(t *testing.T, most int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plant.json")
	require.NoError(t, os.WriteFile(path, []byte(fmt.Sprintf(`{"lexicon":1,"id":"com.example.plant","defs":{"main":{"type":"record","key":"tid",
		"record":{"type":"object","required":["name"],"properties":{"name":{"type":"string","maxLength":%d}}}}}}`, most)), 0o600))
	return path
}

// plant writes a record of com.example.plant; validate is nil, true or false.
func plant(ctx context.Context, client *atclient.APIClient, name string, validate any) (uri, status string, err error) {
	var out struct{ URI, ValidationStatus string }
	body := map[string]any{"repo": client.AccountDID, "collection": "com.example.plant", "record": map[string]any{"name": name}}
	if validate != nil {
		body["validate"] = validate
	}
	err = client.Post(ctx, "com.atproto.repo.createRecord", body, &out)
	return out.URI, out.ValidationStatus, err
}

func requireRefused(t *testing.T, err error, message string) {
	t.Helper()
	var refused *atclient.APIError
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Message, message)
}

// A record type that nobody knew is kept as it comes; its lexicon is added and
// changed while the server runs, and what is in the views follows.
func TestLexiconsOnTheConsole(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		in := start(t, env...)
		run := func(args ...string) string {
			t.Helper()
			out, err := in.herbarium(t.Context(), args...)
			require.NoError(t, err, out)
			return out
		}
		fails := func(args ...string) string {
			t.Helper()
			out, err := in.herbarium(t.Context(), args...)
			require.Error(t, err, out)
			return out
		}
		ada := in.account("ada.test")
		shown := func(uri string) error {
			return ada.Get(t.Context(), "garden.herbarium.getRecord", map[string]any{"uri": uri}, nil)
		}
		released := func(uri string) { eventually(t, 30*time.Second, uri+" is shown", func() error { return shown(uri) }) }
		hidden := func(uri string) {
			eventually(t, 30*time.Second, uri+" is quarantined", func() error {
				var refused *atclient.APIError
				if err := shown(uri); !errors.As(err, &refused) || !strings.Contains(refused.Message, "quarantined") {
					return fmt.Errorf("answered with %w", err)
				}
				return nil
			})
		}

		fern, status, err := plant(t.Context(), ada, "fern", nil)
		require.NoError(t, err)
		require.Equal(t, "unknown", status)
		rose, _, err := plant(t.Context(), ada, "rosa canina", nil)
		require.NoError(t, err)
		_, _, err = plant(t.Context(), ada, "fern", true)
		requireRefused(t, err, "unknown-lexicon")
		released(rose)

		five, twenty := plantLexicon(t, 5), plantLexicon(t, 20)
		tried := run("lexicon", "add", "--dry-run", five)
		require.Contains(t, tried, "of 2 records of com.example.plant: 0 would be released, 1 quarantined")
		require.Contains(t, tried, "quarantined: "+rose)
		require.NotContains(t, run("lexicon", "list", "--origin", "added"), "com.example.plant")
		require.Contains(t, run("lexicon", "add", five), "judged again: the records of com.example.plant")
		require.Regexp(t, `com.example.plant +record +added +true`, run("lexicon", "list", "--origin", "added"))
		require.Contains(t, run("lexicon", "show", "com.example.plant"), `"maxLength":5`)

		_, status, err = plant(t.Context(), ada, "oak", nil)
		require.NoError(t, err)
		require.Equal(t, "valid", status)
		_, status, err = plant(t.Context(), ada, "moss", true)
		require.NoError(t, err)
		require.Equal(t, "valid", status)
		_, _, err = plant(t.Context(), ada, "too long", nil)
		requireRefused(t, err, "InvalidRecord at /name")
		lily, status, err := plant(t.Context(), ada, "lilium", false)
		require.NoError(t, err)
		require.Empty(t, status)
		hidden(rose)
		hidden(lily)
		require.NoError(t, shown(fern))
		listed := run("quarantine", "list", "--collection", "com.example.plant")
		require.Contains(t, listed, rose)
		require.Contains(t, listed, "InvalidRecord")
		require.NotContains(t, listed, fern)
		require.Regexp(t, `com.example.plant +\d+ +0 +1 `, run("quarantine", "status"))

		out, err := exec.Command(binary, "lexicon", "check", five, twenty).CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 3, exit.ExitCode(), "%s", out)
		require.Contains(t, string(out), "the bound was 5, and is 20")
		require.Contains(t, fails("lexicon", "add", twenty), "publish it under another name, or force it")
		require.Contains(t, run("lexicon", "add", "--force", twenty), "widens")
		released(rose)
		released(lily)
		require.NotContains(t, run("quarantine", "list"), "com.example.plant")

		// What is added survives the process, and what was derived is what a
		// replay of the journal makes.
		run("lexicon", "add", "--force", five)
		hidden(rose)
		require.Zero(t, in.terminate())
		in.launch()
		_, _, err = plant(t.Context(), ada, "too long", nil)
		requireRefused(t, err, "InvalidRecord at /name")
		answers := func() string {
			var all []string
			for _, uri := range []string{fern, rose, lily} {
				var raw json.RawMessage
				if err := in.admin().Get(t.Context(), "garden.herbarium.getRecord", map[string]any{"uri": uri}, &raw); err != nil {
					raw = json.RawMessage(err.Error())
				}
				all = append(all, string(raw))
			}
			return strings.Join(append(all, run("quarantine", "list", "--json")), "\n")
		}
		was := answers()
		require.Contains(t, was, rose)
		require.Zero(t, in.terminate())
		run("reindex")
		in.launch()
		require.Equal(t, was, answers())

		run("lexicon", "remove", "com.example.plant")
		released(rose)
		_, status, err = plant(t.Context(), ada, "too long", nil)
		require.NoError(t, err)
		require.Equal(t, "unknown", status)
		require.Contains(t, fails("lexicon", "remove", "com.example.plant"), "was not added here")
		require.Contains(t, fails("lexicon", "remove", "garden.engram.session"), "belongs to the program")
		require.Contains(t, run("quarantine", "revalidate", "--uri", rose), rose+": ok")
		require.Contains(t, run("audit", "list", "--method", "garden.herbarium.admin.addLexicon", "--json"), `"id":"com.example.plant"`)
	})
}

// A lexicon that one replica adds holds in the other within seconds.
func TestLexiconReachesTheOtherReplica(t *testing.T) {
	shared := []string{
		"HERBARIUM_PDS_DB=" + dbtest.DSN(t, migrations.Postgres), "HERBARIUM_APPVIEW_DB=" + dbtest.DSN(t, migrations.Postgres),
		"HERBARIUM_DATA_DIR=" + t.TempDir(),
	}
	one := start(t, shared...)
	two := start(t, append(shared, "HERBARIUM_PUBLIC_URL="+one.url)...)
	client := one.account("ada.test")
	other, err := atclient.LoginWithPasswordHost(t.Context(), two.url, "ada.test", "password of ada.test", "", nil)
	require.NoError(t, err)
	_, status, err := plant(t.Context(), other, "rosa canina", nil)
	require.NoError(t, err)
	require.Equal(t, "unknown", status)
	out, err := one.herbarium(t.Context(), "lexicon", "add", plantLexicon(t, 5))
	require.NoError(t, err, out)
	_, _, err = plant(t.Context(), client, "rosa canina", nil)
	requireRefused(t, err, "InvalidRecord at /name")
	eventually(t, 10*time.Second, "the other refuses it too", func() error {
		if _, _, err := plant(t.Context(), other, "rosa canina", nil); err != nil {
			return nil
		}
		return errors.New("it is taken")
	})
}
