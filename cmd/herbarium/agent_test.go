package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/stretchr/testify/require"
)

const agentsManifest = `defaults:
  owner: maps team
  collections: [garden.engram.agents.observation]
  quota: {records: 100}
agents:
  - handle: ada.test
    displayName: Ada
    expires: 2099-01-01
    credentials:
      - name: writer
        scope: repo:garden.engram.agents.observation?action=create
  - handle: bee.test
    rateLimit: {writesPerHour: 50}
`

// apply runs agent apply on a manifest and answers what it said and its exit code.
func (in *instance) apply(t *testing.T, manifest, out string, more ...string) (string, int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agents.yaml")
	require.NoError(t, os.WriteFile(path, []byte(manifest), 0o600))
	said, err := in.herbarium(t.Context(), append([]string{"agent", "apply", "-f", path, "--out", out}, more...)...)
	if err == nil {
		return said, 0
	}
	var ended *exec.ExitError
	require.ErrorAs(t, err, &ended)
	return said, ended.ExitCode()
}

func TestAgentApply(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		in := start(t, env...)
		out := filepath.Join(t.TempDir(), "secrets")

		said, code := in.apply(t, agentsManifest, out, "--dry-run")
		require.Equal(t, 2, code, said)
		const plan = "+ ada.test\n+ ada.test credential writer\n+ bee.test\n"
		require.Equal(t, plan, said)
		said, code = in.apply(t, agentsManifest, out)
		require.Equal(t, 1, code, "nobody said yes")
		require.Contains(t, said, "nothing was changed")
		said, code = in.apply(t, agentsManifest, out, "--yes")
		require.Equal(t, 0, code, said)
		require.Equal(t, plan+"done\n", said)
		said, code = in.apply(t, agentsManifest, out, "--yes")
		require.Equal(t, 0, code)
		require.Equal(t, "no change\n", said)
		_, code = in.apply(t, agentsManifest, out, "--dry-run")
		require.Equal(t, 0, code)

		secret := filepath.Join(out, "ada.test.writer")
		info, err := os.Stat(secret)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		signIn := func() error {
			password, err := os.ReadFile(secret)
			require.NoError(t, err)
			_, err = atclient.LoginWithPasswordHost(t.Context(), in.url, "ada.test", strings.TrimSpace(string(password)), "", nil)
			return err
		}
		require.NoError(t, signIn())

		// A secret that was on its way when the program ended is made anew.
		require.NoError(t, os.Rename(secret, secret+".new"))
		said, code = in.apply(t, agentsManifest, out, "--yes")
		require.Equal(t, 0, code, said)
		require.Equal(t, "~ ada.test credential writer (made anew: its secret was lost on the way)\ndone\n", said)
		require.NoError(t, signIn())

		edited := strings.NewReplacer("owner: maps team", "owner: rivers", "records: 100", "records: 200", "    expires: 2099-01-01\n", "", "?action=create", "").Replace(agentsManifest)
		edited = edited[:strings.Index(edited, "  - handle: bee.test")]
		said, code = in.apply(t, edited, out, "--yes", "--prune")
		require.Equal(t, 0, code, said)
		require.Equal(t, `~ ada.test
    owner: maps team -> rivers
    expires: 2099-01-01T00:00:00.000Z -> -
    quota.records: 100 -> 200
~ ada.test credential writer (made anew)
    scope: repo:garden.engram.agents.observation?action=create -> repo:garden.engram.agents.observation
- bee.test (disable)
done
`, said)
		said, code = in.apply(t, edited, out, "--prune", "--yes")
		require.Equal(t, 0, code)
		require.Equal(t, "no change\n", said)
		require.NoError(t, signIn())

		// What the server would refuse takes nothing away first.
		for name, wrong := range map[string]string{
			"an expiry that is over": strings.Replace(edited, "- name: writer", "- name: writer\n        expires: 2020-01-01", 1),
			"a malformed key":        strings.Replace(edited, "- name: writer", "- {name: laptop, publicKey: 'did:key:zDnaembgSGUhZULN2Caob4HLJPaxBh92N7rtH21TErzqf8H'}\n      - name: writer", 1),
			"a new agent's expiry":   strings.Replace(edited, "  - handle: ada.test", "  - {handle: late.test, expires: 2020-01-01}\n  - handle: ada.test", 1),
		} {
			require.NotEqual(t, edited, wrong, name)
			said, code = in.apply(t, wrong, out, "--yes")
			require.Equal(t, 1, code, "%s: %s", name, said)
			require.NotContains(t, said, "steps are done", name)
			require.NoError(t, signIn(), name)
		}

		// A step that the server refuses ends the run; the next one goes on from there.
		broken := strings.Replace(edited, "  - handle: ada.test", "  - handle: cat.test\n  - handle: a.b.test\n  - handle: ada.test", 1)
		said, code = in.apply(t, broken, out, "--yes")
		require.Equal(t, 1, code)
		require.Contains(t, said, "+ a.b.test: InvalidHandle: ")
		require.Contains(t, said, "1 of 2 steps are done")
		said, code = in.apply(t, strings.Replace(broken, "a.b.test", "dog.test", 1), out, "--yes")
		require.Equal(t, 0, code, said)
		require.Equal(t, "+ dog.test\ndone\n", said)
	})
}

func TestAgentManifestFaults(t *testing.T) {
	in := start(t)
	for name, test := range map[string][2]string{
		"a misspelt key":    {"agents:\n  - handle: ada.test\n    ownr: maps\n", "line 3: field ownr not found"},
		"no handle":         {"agents:\n  - owner: maps\n", "has no handle"},
		"a handle twice":    {"agents:\n  - handle: ada.test\n  - handle: Ada.test\n", "ada.test"},
		"a scope":           {"agents:\n  - handle: ada.test\n    credentials: [{name: a, scope: 'repo:garden.*'}]\n", "credential a"},
		"a time":            {"agents:\n  - handle: ada.test\n    expires: soon\n", `"soon" is no time`},
		"half a record":     {"agents:\n  - handle: ada.test\n    quota: {records: 1.5}\n", `"1.5" is no count`},
		"less than nothing": {"agents:\n  - handle: ada.test\n    quota: {blobBytes: -1}\n", `"-1" is no count`},
		"two documents":     {"---\nagents: []\n---\nagents:\n  - handle: ada.test\n", "more than one YAML document"},
		"default's handle":  {"defaults: {handle: ada.test}\n", "defaults have no handle"},
	} {
		said, code := in.apply(t, test[0], t.TempDir(), "--yes")
		require.Equal(t, 1, code, name)
		require.Contains(t, said, test[1], name)
	}
	said, code := in.apply(t, "agents:\n", t.TempDir(), "--yes", "--prune")
	require.Equal(t, 1, code)
	require.Contains(t, said, "--prune would disable all")
	said, code = in.apply(t, agentsManifest, "", "--dry-run")
	require.Equal(t, 2, code, said)
	require.Contains(t, said, "+ ada.test credential writer")
	said, code = in.apply(t, agentsManifest, "", "--yes")
	require.Equal(t, 1, code)
	require.Contains(t, said, "name a folder with --out")
}

func TestAgentCommands(t *testing.T) {
	in := start(t)
	run := func(args ...string) string {
		t.Helper()
		out, err := in.herbarium(t.Context(), append([]string{"agent"}, args...)...)
		require.NoError(t, err, out)
		return out
	}
	fails := func(want string, args ...string) {
		t.Helper()
		out, err := in.herbarium(t.Context(), append([]string{"agent"}, args...)...)
		require.Error(t, err, out)
		require.Contains(t, out, want)
	}
	made := run("create", "--owner", "maps", "--scope", "atproto", "ada.test")
	require.Regexp(t, `(?m)^made ada\.test, did:web:ada\.test\napp password main, shown this once: \S+$`, made)
	fails("taken", "create", "ada.test")
	require.Regexp(t, `ada\.test +active +maps`, run("list"))
	var listed struct{ Handle string }
	require.NoError(t, json.Unmarshal([]byte(run("list", "--json")), &listed), "an object a line")
	require.Equal(t, "ada.test", listed.Handle)
	require.Regexp(t, `credential +main, atproto`, run("show", "ada.test"))
	require.Contains(t, run("show", "--json", "ada.test"), `"did": "did:web:ada.test"`)
	file := filepath.Join(t.TempDir(), "secret")
	require.Equal(t, "app password main of ada.test is another one, in "+file+"\n", run("rotate", "--secret-file", file, "ada.test"))
	first, err := os.ReadFile(file)
	require.NoError(t, err)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	rotated := run("rotate", "--json", "--secret-file", file, "ada.test")
	second, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotEqual(t, first, second, "the new secret takes the place of the old one")
	require.Contains(t, rotated, `"name": "main"`)
	require.NotContains(t, rotated, strings.TrimSpace(string(second)), "what is in the file is not printed")
	fails("is there already", "create", "--secret-file", file, "bob.test")
	require.Equal(t, "disabled ada.test, now disabled\n", run("disable", "ada.test"))
	require.Equal(t, "enabled ada.test, now active\n", run("enable", "ada.test"))
	fails("nothing was deleted", "delete", "ada.test")
	require.Equal(t, "deleted ada.test\n", run("delete", "--yes", "ada.test"))
	fails("NotFound", "show", "ada.test")
	fails("show needs HANDLE", "show")
	fails("show takes HANDLE alone", "show", "a.test", "b.test")
}

// The manifest of the README works as it stands there.
func TestManifestOfTheREADME(t *testing.T) {
	in := start(t)
	out := t.TempDir()
	said, code := in.apply(t, block(t, "Agents", "yaml"), out, "--yes")
	require.Equal(t, 0, code, said)
	require.FileExists(t, filepath.Join(out, "surveyor.test.observe"))
	said, code = in.apply(t, block(t, "Agents", "yaml"), out, "--yes")
	require.Equal(t, 0, code)
	require.Equal(t, "no change\n", said)
}
