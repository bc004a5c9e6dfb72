package lexicons_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

// Every code that this package finds has an example: a record that has it,
// found as its entry says, and one that has it not.
func TestEveryCodeHasAnExample(t *testing.T) {
	for _, entry := range lexicons.Codebook() {
		if entry.Stage == lexicons.StageHost || entry.Stage == lexicons.StageIndex || noRecordHasIt[entry.Code] {
			require.NotContains(t, examples, entry.Code, "it is found elsewhere")
			continue
		}
		t.Run(entry.Code, func(t *testing.T) {
			e, ok := examples[entry.Code]
			require.True(t, ok, "no example")
			found := e.run(t, true)
			at := slices.IndexFunc(found, func(f lexicons.Finding) bool { return f.Code == entry.Code })
			require.GreaterOrEqual(t, at, 0, "has %v", found)
			for _, f := range found {
				known, ok := lexicons.LookUpCode(f.Code)
				require.True(t, ok, f.Code)
				require.True(t, known.AtHost(f), "the entry says otherwise: %+v", f)
			}
			for _, f := range e.run(t, false) {
				require.NotEqual(t, entry.Code, f.Code, f.Message)
				require.Empty(t, f.Refusal, "the other record is refused: %s at %s: %s", f.Code, f.Path, f.Message)
			}
		})
	}
}

// What comes from no outside has no example among them.
func TestNotData(t *testing.T) {
	_, err := lexicons.EncodeCBOR(map[string]any{"f": func() {}})
	requireFinding(t, err, lexicons.CodeNotData, "/f")
	_, err = lexicons.EncodeCBOR(map[string]any{"f": "data"})
	require.NoError(t, err)
}

func TestCodebookIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range lexicons.Codebook() {
		require.False(t, seen[e.Code], "%s stands twice", e.Code)
		seen[e.Code] = true
		require.NotEmpty(t, e.Group, e.Code)
		require.NotEmpty(t, e.Says, e.Code)
		require.NotEmpty(t, e.Repair, e.Code)
		require.NotEmpty(t, append(slices.Clone(e.Host), e.Index...), e.Code)
		require.Equal(t, e.Stage == lexicons.StageIndex, len(e.Host) == 0, "%s: what an index finds alone", e.Code)
		require.True(t, e.Rejects() || len(e.Refusals) == 0, e.Code)
		got, ok := lexicons.LookUpCode(e.Code)
		require.True(t, ok)
		require.Equal(t, e, got)
	}
	_, ok := lexicons.LookUpCode("no-such-code")
	require.False(t, ok)
}
