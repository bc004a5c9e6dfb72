package lexicons_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

// Every constant named Code… of this package has an entry, and no finding
// anywhere in the program is made with a code that is spelled out: so that
// nothing emits a code which the codebook does not have.
func TestNoCodeWithoutAnEntry(t *testing.T) {
	constants := 0
	eachFile(t, ".", func(file *ast.File, fset *token.FileSet) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Code") {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				code, err := strconv.Unquote(lit.Value)
				require.NoError(t, err)
				_, known := lexicons.LookUpCode(code)
				require.True(t, known, "%s has no entry in the codebook", spec.Names[0].Name)
				constants++
			}
			return true
		})
	})
	require.Len(t, lexicons.Codebook(), constants)
	for _, room := range []string{".", "../pds", "../appview", "../cmd"} {
		eachFile(t, room, func(file *ast.File, fset *token.FileSet) {
			ast.Inspect(file, func(n ast.Node) bool {
				pair, ok := n.(*ast.KeyValueExpr)
				if !ok {
					return true
				}
				key, ok := pair.Key.(*ast.Ident)
				lit, literal := pair.Value.(*ast.BasicLit)
				if ok && literal && key.Name == "Code" && lit.Kind == token.STRING {
					t.Errorf("%s: a code is spelled out: %s", fset.Position(lit.Pos()), lit.Value)
				}
				return true
			})
		})
	}
}

// eachFile visits the sources below a folder that are no tests.
func eachFile(t *testing.T, room string, visit func(*ast.File, *token.FileSet)) {
	fset := token.NewFileSet()
	require.NoError(t, filepath.WalkDir(room, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err == nil {
			visit(file, fset)
		}
		return err
	}))
}
