package lexicons_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

const (
	semanticsPage = "../docs/semantics.md"
	codesHeading  = "## Codes\n"
)

// The tables of docs/semantics.md are the codebook; what stands above them is
// written by hand.
func TestSemanticsPage(t *testing.T) {
	stands, err := os.ReadFile(semanticsPage)
	require.NoError(t, err)
	written, tables, found := strings.Cut(string(stands), codesHeading)
	require.True(t, found)
	want := writeCodeTables()
	if *update {
		require.NoError(t, os.WriteFile(semanticsPage, []byte(written+codesHeading+want), 0o644))
		tables = want
	}
	require.Equal(t, want, tables, "generated: go test ./lexicons -run TestSemanticsPage -update")
}

// A code on the page is one of the engine, and the other way round.
func TestSemanticsCoverTheEngine(t *testing.T) {
	page, err := os.ReadFile(semanticsPage)
	require.NoError(t, err)
	onPage := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z0-9-]+)` \\| (?:reject|violation|warning|info|nothing)").FindAllStringSubmatch(string(page), -1) {
		onPage[row[1]] = true
	}
	inEngine := map[string]bool{}
	for _, e := range lexicons.Codebook() {
		inEngine[e.Code] = true
	}
	require.Equal(t, inEngine, onPage)
	for _, nsid := range []string{"garden.engram.agents.observation", "garden.engram.session", "click.aligned.chat.session", "click.aligned.chat.message",
		"com.publicdomainrelay.temp.agent.class", "com.publicdomainrelay.temp.agent.skill", "garden.herbarium.claim"} {
		require.Contains(t, string(page), "`"+nsid+"`")
	}
}

func writeCodeTables() string {
	var out bytes.Buffer
	group := lexicons.Group("")
	cell := strings.NewReplacer("|", "\\|", "\n", " ")
	for _, e := range lexicons.Codebook() {
		if e.Group != group {
			group = e.Group
			fmt.Fprintf(&out, "\n### %s\n\n| code | host | index | what is so | repair |\n|---|---|---|---|---|\n", group)
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s | %s |\n", e.Code, atHost(e), outcomes(e.Index), cell.Replace(e.Says), cell.Replace(e.Repair))
	}
	return out.String()
}
