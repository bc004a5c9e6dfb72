package pds_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// noAnswer are faults that no request causes: they stay internal errors.
var noAnswer = []string{"account.ErrMasterKey", "repostore.ErrCorrupt"}

// TestEveryFaultHasAnAnswer reads the rooms' sentinel errors from their source
// and looks for each in the table.
func TestEveryFaultHasAnAnswer(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("errors.go")
	require.NoError(t, err)
	for room, file := range map[string]string{"account": "account/errors.go", "repostore": "repostore/store.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		found := 0
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "Err") {
				return true
			}
			found++
			name := room + "." + spec.Names[0].Name
			if !strings.Contains(strings.Join(noAnswer, " "), name) {
				require.Contains(t, string(table), "{"+name+",", "%s has no row in the table of errors.go", name)
			}
			return true
		})
		require.NotZero(t, found, file)
	}
}
