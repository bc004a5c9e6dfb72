package lexicons_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/lex/lexlint"
	"github.com/stretchr/testify/require"
)

// Our own lexicons are as the field's linter wants them, and name the file
// that they stand in.
func TestOwnLexiconsLint(t *testing.T) {
	root := filepath.Join("garden", "herbarium")
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		var sf lexicon.SchemaFile
		require.NoError(t, json.Unmarshal(raw, &sf), path)
		require.NoError(t, sf.FinishParse(), path)
		require.Equal(t, filepath.ToSlash(path), strings.ReplaceAll(sf.ID, ".", "/")+".json")
		for _, issue := range lexlint.LintSchemaFile(&sf) {
			// Its warnings are about limits, which what we answer does not need.
			if issue.LintLevel == "error" {
				t.Errorf("%s: %s: %s", path, issue.LintName, issue.Message)
			}
		}
		return nil
	}))
}
