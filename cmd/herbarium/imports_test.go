package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "herbarium.garden"

// mayImport is the import table of ARCHITECTURE.md: for each package what else
// of ours it may import outside its tests. cmd/herbarium may import all, and
// nothing imports it.
var mayImport = map[string][]string{
	"lexicons":         {},
	"lexicons/library": {"lexicons", "migrations"},
	"lexicons/xrpc":    {"lexicons"},
	"blobstore":        {},
	"migrations":       {},
	"config":           {},
	"pds/sequencer":    {"lexicons", "lexicons/xrpc", "migrations"},
	"pds/repostore":    {"lexicons", "migrations", "pds/sequencer"},
	"pds/account":      {"lexicons", "migrations"},
	"pds/operator":     {"migrations"},
	"pds":              {"blobstore", "lexicons", "lexicons/library", "lexicons/xrpc", "migrations", "pds/account", "pds/operator", "pds/repostore", "pds/sequencer"},
	"appview/index":    {"lexicons", "lexicons/library", "migrations"},
	"appview/ingest":   {"appview/index", "blobstore", "lexicons", "migrations"},
	"appview":          {"appview/index", "lexicons", "lexicons/xrpc"},
	"appview/console":  {},
	// A client, which sees the host as any other does.
	"cmd/herbarium/demo": {},
	// Support of tests: only tests import these.
	"lexicons/secrettest":  {},
	"migrations/dbtest":    {"migrations"},
	"blobstore/buckettest": {"blobstore"},
	"blobstore/s3test":     {"blobstore"},
}

// onlyTests are packages that no program links.
var onlyTests = []string{"lexicons/secrettest", "migrations/dbtest", "blobstore/buckettest", "blobstore/s3test"}

func TestImportTable(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	err = filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); file != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(rel)
		seen[pkg] = true
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			ours, ok := strings.CutPrefix(imported, module+"/")
			if !ok {
				continue
			}
			switch {
			case strings.HasPrefix(ours, "cmd/") && !strings.HasPrefix(pkg, "cmd/"):
				t.Errorf("%s imports %s: nothing imports cmd", pkg, ours)
			case slices.Contains(onlyTests, ours) && !slices.Contains(onlyTests, pkg):
				t.Errorf("%s imports %s, which is for tests", pkg, ours)
			case pkg == "cmd/herbarium" || strings.HasPrefix(ours, pkg+"/internal/") || strings.Contains(pkg, "/internal/"):
			case !slices.Contains(mayImport[pkg], ours):
				t.Errorf("%s imports %s: not in the import table", pkg, ours)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range seen {
		if _, ok := mayImport[pkg]; !ok && pkg != "cmd/herbarium" && !strings.Contains(pkg, "/internal/") {
			t.Errorf("package %s is not in the import table: say in ARCHITECTURE.md why it is a room of its own", pkg)
		}
	}
	for pkg := range mayImport {
		if slices.Contains(onlyTests, pkg) {
			continue
		}
		if !seen[pkg] {
			t.Errorf("package %s of the import table does not exist", pkg)
		} else if _, err := os.Stat(path.Join(root, pkg, "doc.go")); err != nil {
			t.Errorf("package %s has no doc.go", pkg)
		}
	}
}
