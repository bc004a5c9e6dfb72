package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// block is the first fenced block of a language under a heading of the README.
func block(t *testing.T, heading, language string) string {
	t.Helper()
	raw, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(raw), "\n## "+heading+"\n")
	require.True(t, found, "the README has no heading %q", heading)
	_, code, found := strings.Cut(section, "```"+language+"\n")
	require.True(t, found, "no %s under %q", language, heading)
	code, _, found = strings.Cut(code, "\n```")
	require.True(t, found)
	return code
}

// What the README tells a newcomer to type works as it stands there; only the
// address is the test's.
func TestFirstStepsOfTheREADME(t *testing.T) {
	in := start(t)
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data", "secrets"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data", "secrets", "admin-password"), []byte(adminPassword), 0o600))
	here := strings.NewReplacer("http://localhost:2583", in.url)

	shell := exec.CommandContext(t.Context(), "bash", "-euc", here.Replace(block(t, "First steps with curl", "sh")))
	shell.Dir = dir
	out, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), `"observation":{"uri":"at://did:web:scout.test/garden.engram.agents.observation/`)
	require.Contains(t, string(out), `"isHead":true`)

	// An ES module finds its packages from its own folder upwards.
	program, err := os.CreateTemp(clients(t), "readme-*.mjs")
	require.NoError(t, err)
	defer os.Remove(program.Name())
	_, err = program.WriteString(here.Replace(block(t, "First steps with a real client", "js")) + "\nconsole.log(JSON.stringify(observation))\n")
	require.NoError(t, err)
	require.NoError(t, program.Close())
	require.Contains(t, node(t, program.Name()), `"isHead":true`)
}

// The list of commands in the README is that of the program.
func TestREADMEListsTheCommands(t *testing.T) {
	t.Parallel()
	help, err := exec.CommandContext(t.Context(), binary, "--help").Output()
	require.NoError(t, err)
	_, list, found := strings.Cut(string(help), "COMMANDS:\n")
	require.True(t, found)
	list, _, _ = strings.Cut(list, "\n\n")
	raw, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(raw), "\n## Commands\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	known := 0
	for line := range strings.Lines(list) {
		name := strings.TrimSuffix(strings.Fields(line)[0], ",")
		if name == "help" {
			continue
		}
		known++
		require.Regexp(t, "`(herbarium )?"+name+"[ `]", section)
	}
	require.Greater(t, known, 15)
}
