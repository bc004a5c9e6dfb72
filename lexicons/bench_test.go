package lexicons_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

// What one observation of 4 KB costs from JSON to the stateless rules.
func BenchmarkWriteChecks(b *testing.B) {
	cat := catalog(b)
	rules := lexicons.NewRules(cat, lexicons.Settings{})
	value := edit(observation, map[string]any{"text": strings.Repeat("drwxr-xr-x 2 root root 4096 seeds\n", 120)})
	raw, err := json.Marshal(value)
	require.NoError(b, err)
	ch := change(b, lexicons.ObservationNSID, tid1, value)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		rec, err := lexicons.ParseJSON(lexicons.ObservationNSID, raw)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := cat.Validate(rec, tid1, lexicons.ValidateRequired); err != nil {
			b.Fatal(err)
		}
		ch.Record = rec
		if found := rules.CheckRecord(ch); len(found) > 0 {
			b.Fatal(found)
		}
	}
}
