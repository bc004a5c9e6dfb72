package lexicons_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

var update = flag.Bool("update", false, "write the generated documents anew")

const findingsPage = "../docs/findings.md"

// The page lists each code with what the engine really says to an example.
func TestFindingsPage(t *testing.T) {
	page := writeFindingsPage(t)
	if *update {
		require.NoError(t, os.WriteFile(findingsPage, page, 0o644))
	}
	stands, err := os.ReadFile(findingsPage)
	require.NoError(t, err)
	require.Equal(t, string(page), string(stands), "generated: go test ./lexicons -run TestFindingsPage -update")
}

func writeFindingsPage(t *testing.T) []byte {
	var out bytes.Buffer
	out.WriteString("# Findings\n\n" +
		"Generated from the codebook in `lexicons/` and from what the engine says to the examples; `go test ./lexicons -run TestFindingsPage -update` writes it anew.\n\n" +
		"A finding has a code, a severity, a path (a JSON pointer, RFC 6901, into the record), a message and, when it refuses a write, a repair. " +
		"The message of a refusal ends in the repair, because public clients keep only the message. " +
		"An example shows the fields that matter; the rest of the record is as it should be. What the codes mean together is in [semantics.md](semantics.md).\n")
	group := lexicons.Group("")
	for _, e := range lexicons.Codebook() {
		if e.Group != group {
			group = e.Group
			fmt.Fprintf(&out, "\n## %s\n", group)
		}
		fmt.Fprintf(&out, "\n### `%s`\n\n%s\n\n- host: %s\n- index: %s\n- repair: %s\n", e.Code, e.Says, atHost(e), outcomes(e.Index), e.Repair)
		writeExample(t, &out, e)
	}
	return out.Bytes()
}

func atHost(e lexicons.Entry) string {
	var all []string
	for _, o := range e.Host {
		if o == lexicons.OutcomeReject {
			all = append(all, "reject (`"+strings.Join(e.RefusalNames(), "`, `")+"`)")
		} else {
			all = append(all, string(o))
		}
	}
	return joined(all)
}

func outcomes(list []lexicons.Outcome) string {
	var all []string
	for _, o := range list {
		all = append(all, string(o))
	}
	return joined(all)
}

func joined(all []string) string {
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, " or ")
}

func writeExample(t *testing.T, out *bytes.Buffer, entry lexicons.Entry) {
	shown, found := exampleOf(t, entry)
	if len(found) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n\n", shown)
	f := found[slices.IndexFunc(found, func(f lexicons.Finding) bool { return f.Code == entry.Code })]
	said := (&lexicons.Refused{Findings: []lexicons.Finding{f}}).Error()
	fmt.Fprintf(out, "> %s %s\n", f.Severity, strings.ReplaceAll(said, "\n", " "))
}

// exampleOf is the example of a code as markdown, and what is found in it: of
// this package, or what another room has put down.
func exampleOf(t *testing.T, entry lexicons.Entry) (string, []lexicons.Finding) {
	e, here := examples[entry.Code]
	if here {
		return e.markdown(t), e.run(t, true)
	}
	if noRecordHasIt[entry.Code] {
		return "", nil
	}
	kept := keptExample(t, entry.Code)
	return kept.Shows, []lexicons.Finding{kept.Finding}
}

// noRecordHasIt are codes without an example: a fault of the program, a guard
// that no known batch comes to, and a remark on an answer. Each has a test of
// its own where it is made.
var noRecordHasIt = map[string]bool{
	lexicons.CodeNotData: true, lexicons.CodeBatchReplacesAll: true, lexicons.CodeVersionNotHeld: true,
}

// kept is an example of a code that another room finds: that room's test
// writes it with -update, and fails when it is not so any more.
type kept struct {
	Shows   string // what has it, as markdown
	Finding lexicons.Finding
}

func keptExample(t *testing.T, code string) kept {
	raw, err := os.ReadFile("testdata/findings/" + code + ".json")
	require.NoError(t, err, "no room has put down an example of %s", code)
	var k kept
	require.NoError(t, json.Unmarshal(raw, &k))
	require.Equal(t, code, k.Finding.Code)
	return k
}

func (e example) markdown(t *testing.T) string {
	const widest = 600
	switch {
	case len(e.json) > widest:
		return "JSON of " + fmt.Sprint(len(e.json)) + " bytes."
	case e.json != "":
		return fence("json", e.json)
	case e.cbor != "":
		return fence("text", e.cbor)
	}
	of := e.of
	if of == "" {
		of = lexicons.ObservationNSID
	}
	w, with := newWorld(), e.has
	if e.stands != nil {
		for name, v := range e.stands(t, w) {
			if _, given := with[name]; !given && name != "skills" && name != "examples" {
				with = edit(with, map[string]any{name: v})
			}
		}
	}
	text := "A record of `" + string(of) + "`"
	if e.rkey != "" {
		text += ", record key `" + e.rkey + "`"
	}
	if e.before != nil {
		text += ", over one that stands there"
	}
	raw := indented(t, with)
	if e.hide != "" {
		raw = strings.ReplaceAll(raw, e.hide, "…")
	}
	if len(with) == 0 || len(raw) > 2*widest {
		return text + "."
	}
	return text + ":\n\n" + fence("json", raw)
}

func indented(t *testing.T, v map[string]any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	require.NoError(t, encoder.Encode(v))
	return strings.TrimSpace(out.String())
}

func fence(kind, text string) string { return "```" + kind + "\n" + text + "\n```" }
