package main_test

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/stretchr/testify/require"
)

// goat runs indigo's command line client with a home of its own.
type goat struct {
	t    *testing.T
	path string
	home string
}

func (g goat) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(g.t.Context(), g.path, args...)
	cmd.Dir = g.home
	cmd.Env = []string{"HOME=" + g.home, "XDG_STATE_HOME=" + g.home}
	return cmd
}

func (g goat) run(args ...string) string {
	g.t.Helper()
	out, err := g.command(args...).CombinedOutput()
	require.NoError(g.t, err, "goat %s:\n%s", strings.Join(args, " "), out)
	return string(out)
}

func (g goat) file(name string, content []byte) string {
	g.t.Helper()
	path := filepath.Join(g.home, name)
	require.NoError(g.t, os.WriteFile(path, content, 0o600))
	return path
}

// indigo's goat works an account of this host. What it looks up in the public
// network (record get, blob list, repo export) it cannot do here: those
// methods are called with indigo's library instead.
func TestGoat(t *testing.T) {
	in := start(t, "HERBARIUM_VISIBILITY=public")
	client := in.account("goatherd.test")
	did := client.AccountDID.String()
	g := goat{t, tool(t, "goat"), t.TempDir()}

	require.Contains(t, g.run("pds", "describe", in.url), `"inviteCodeRequired": true`)
	g.run("account", "login", "--pds-host", in.url, "-u", "goatherd.test", "-p", "password of goatherd.test")
	require.Contains(t, g.run("account", "status"), `"validDid": true`)

	made := g.run("record", "create", "--no-validate", g.file("note.json", []byte(`{"$type": "com.example.note", "text": "by goat"}`)))
	uri := firstWith(t, made, "at://"+did+"/com.example.note/")
	rkey := lastPart(uri)
	g.run("record", "update", "--no-validate", "--rkey", rkey, g.file("changed.json", []byte(`{"$type": "com.example.note", "text": "changed by goat"}`)))
	var got struct {
		Value struct{ Text string }
	}
	get := map[string]any{"repo": did, "collection": "com.example.note", "rkey": rkey}
	require.NoError(t, client.Get(t.Context(), "com.atproto.repo.getRecord", get, &got))
	require.Equal(t, "changed by goat", got.Value.Text)
	require.Contains(t, g.run("blob", "upload", g.file("bytes.txt", []byte("some text"))), `"size": 9`)
	require.Empty(t, strings.TrimSpace(g.run("account", "missing-blobs")))
	require.NotEmpty(t, strings.TrimSpace(g.run("account", "service-auth", "--aud", "did:web:service.example.org", "--lxm", "com.example.method")))
	require.Contains(t, g.run("account", "plc", "recommended"), in.url)

	prefs := `[{"$type":"app.bsky.actor.defs#adultContentPref","enabled":false}]`
	g.run("bsky", "prefs", "import", g.file("prefs.json", []byte(prefs)))
	require.JSONEq(t, prefs, g.run("bsky", "prefs", "export"))

	// The firehose, with its inductive verification, from the beginning.
	firehose := g.command("firehose", "--relay-host", strings.Replace(in.url, "http", "ws", 1), "--cursor", "0", "--verify-basic", "--verify-mst", "--ops")
	stdout, err := firehose.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, firehose.Start())
	t.Cleanup(func() {
		_ = firehose.Process.Kill()
		_ = firehose.Wait()
	})
	events := make(chan string)
	go func() {
		defer close(events)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			events <- lines.Text()
		}
	}()
	for _, want := range []string{`"create"`, `"update"`, `"delete"`} {
		if want == `"delete"` {
			g.run("record", "delete", "--collection", "com.example.note", "--rkey", rkey)
		}
		deadline := time.After(30 * time.Second)
		for found := false; !found; {
			select {
			case line, ok := <-events:
				require.True(t, ok, "the firehose ended")
				found = strings.Contains(line, want) && strings.Contains(line, rkey)
			case <-deadline:
				t.Fatalf("no %s on the firehose", want)
			}
		}
	}

	// A repo out and in again.
	resp, err := http.Get(in.url + "/xrpc/com.atproto.sync.getRepo?did=" + did)
	require.NoError(t, err)
	car, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	path := g.file("repo.car", car)
	require.Contains(t, g.run("repo", "inspect", path), did)
	g.run("repo", "import", path)

	// As a relay sees the account.
	require.Contains(t, g.run("relay", "--relay-host", in.url, "account", "list"), did)
	require.Contains(t, g.run("relay", "--relay-host", in.url, "account", "status", did), "\tactive\t")
	g.run("account", "deactivate")
	require.Contains(t, g.run("relay", "--relay-host", in.url, "account", "status", did), "\tdeactivated")
	require.Contains(t, g.run("account", "status"), `"activated": false`)
	g.run("account", "activate")
	g.run("account", "update-handle", "herder.test")
	require.Contains(t, g.run("account", "plc", "recommended"), "at://herder.test")

	// What goat's `pds admin` asks for; this version of it has no such command.
	admin, ctx := in.admin(), t.Context()
	var info struct {
		Handle          string
		InvitesDisabled *bool
	}
	require.NoError(t, admin.Get(ctx, "com.atproto.admin.getAccountInfo", map[string]any{"did": did}, &info))
	require.Equal(t, "herder.test", info.Handle)
	require.NotNil(t, info.InvitesDisabled)
	require.NoError(t, admin.Post(ctx, "com.atproto.admin.updateAccountEmail", map[string]any{"account": did, "email": "goat@example.org"}, nil))
	require.NoError(t, admin.Post(ctx, "com.atproto.admin.updateAccountHandle", map[string]any{"did": did, "handle": "goatherd.test"}, nil))
	require.NoError(t, admin.Post(ctx, "com.atproto.admin.updateAccountPassword", map[string]any{"did": did, "password": "another password"}, nil))
	takedown := map[string]any{
		"subject": map[string]any{"$type": "com.atproto.admin.defs#repoRef", "did": did}, "takedown": map[string]any{"applied": true},
	}
	require.NoError(t, admin.Post(ctx, "com.atproto.admin.updateSubjectStatus", takedown, nil))
	require.Contains(t, g.run("relay", "--relay-host", in.url, "account", "status", did), "\ttakendown")
	require.NoError(t, admin.Post(ctx, "com.atproto.admin.deleteAccount", map[string]any{"did": did}, nil))
	var refused *atclient.APIError
	require.ErrorAs(t, client.Get(ctx, "com.atproto.sync.getLatestCommit", map[string]any{"did": did}, nil), &refused)
}

// firstWith is the first word of text that has a prefix, without what quotes it.
func firstWith(t *testing.T, text, prefix string) string {
	t.Helper()
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n\",", r) }) {
		if strings.HasPrefix(word, prefix) {
			return word
		}
	}
	t.Fatalf("nothing that begins with %s in:\n%s", prefix, text)
	return ""
}
