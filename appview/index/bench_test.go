package index_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// BenchmarkApply takes in chains of ten observations, 200 commits to a
// transaction as the consumer does; one operation is one observation.
func BenchmarkApply(b *testing.B) {
	for _, dialect := range []migrations.Dialect{migrations.SQLite, migrations.Postgres} {
		b.Run(string(dialect), func(b *testing.B) {
			x, a := newIndex(b, dbtest.Open(b, migrations.Appview, dialect)), newAuthor(ada)
			var last *lexicons.StrongRef
			events := make([]index.Event, 0, b.N)
			for n := range b.N {
				if n%10 == 0 {
					last = nil
				}
				c, ref := a.put(b, lexicons.ObservationNSID, key(n+1), observation("what the command printed", last))
				last, events = &ref, append(events, c)
			}
			b.ResetTimer()
			for len(events) > 0 {
				n := min(200, len(events))
				require.NoError(b, x.Apply(b.Context(), "bench", 0, events[:n]))
				events = events[n:]
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "obs/s")
		})
	}
}

// A page of observations in one chain, of which half go into quarantine and
// come out again: what applying has to wait for.
func BenchmarkRevalidatePage(b *testing.B) {
	x, a := newIndex(b, dbtest.Open(b, migrations.Appview, migrations.SQLite)), newAuthor(ada)
	require.NoError(b, x.Adopt(b.Context()))
	loose := []*lexicons.Lexicon{without(b, lexicons.ObservationNSID, "method")}
	require.NoError(b, x.SetLexicons(b.Context(), loose))
	var events []index.Event
	var last *lexicons.StrongRef
	for n := range 100 {
		value := observation("text", last)
		if n%2 == 0 {
			delete(value, "method")
		}
		c, ref := a.put(b, lexicons.ObservationNSID, key(n), value)
		events, last = append(events, c), &ref
	}
	require.NoError(b, x.Apply(b.Context(), "bench", 0, events))
	for n := 0; b.Loop(); n++ {
		require.NoError(b, x.SetLexicons(b.Context(), loose[:n%2]))
		settle(b, x)
	}
}
