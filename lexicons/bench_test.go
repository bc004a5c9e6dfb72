package lexicons_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
)

// What an observation costs from JSON to the stateless rules: one of 4 KB, and one
// whose text has all the bytes that the lexicon allows (which takes characters of
// eleven bytes each), whose findings have a budget of 2 ms.
func BenchmarkWriteChecks(b *testing.B) {
	cat := catalog(b)
	rules := lexicons.NewRules(cat, lexicons.Settings{})
	for name, text := range map[string]string{
		"4 KB":   strings.Repeat("drwxr-xr-x 2 root root 4096 seeds\n", 120),
		"100 KB": strings.Repeat("\U0001F469\u200D\U0001F33E", 9000),
	} {
		value := edit(observation, map[string]any{"text": text})
		raw, err := json.Marshal(value)
		require.NoError(b, err)
		ch := change(b, lexicons.ObservationNSID, tid1, value)
		parse := func() {
			if ch.Record, err = lexicons.ParseJSON(lexicons.ObservationNSID, raw); err != nil {
				b.Fatal(err)
			}
		}
		validate := func() {
			if _, err := cat.Validate(ch.Record, tid1, lexicons.ValidateRequired); err != nil {
				b.Fatal(err)
			}
		}
		check := func() {
			if found := rules.CheckRecord(ch); len(found) > 0 {
				b.Fatal(found)
			}
		}
		for step, work := range map[string]func(){"whole": func() { parse(); validate(); check() }, "findings": check} {
			b.Run(name+"/"+step, func(b *testing.B) {
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				for b.Loop() {
					work()
				}
			})
		}
	}
}
