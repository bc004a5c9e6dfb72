package index_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// searchMix is what people and agents look for: words that are everywhere and
// nowhere, several, phrases, identifiers, paths, errors, a beginning, an exclusion,
// a script without spaces.
var searchMix = []string{
	"the", "word17", "word17 word230", "word1 word2 word3", `"word5 word6"`, "word3 -word4", "needle4711", "getUserName42", "/srv/app/config/17.yaml",
	"ECONNREFUSED 10.0.0.42:5432", "conf*", "東京", "nothingofthekind", "the word999",
}

// BenchmarkSearch measures the query mix over texts of some 150 words, of which the
// common ones are in most and the rare ones in one of a thousand.
func BenchmarkSearch(b *testing.B) {
	for _, dialect := range []migrations.Dialect{migrations.SQLite, migrations.Postgres} {
		for _, size := range []int{1000, 10_000, 50_000} {
			b.Run(fmt.Sprint(dialect, "/", size), func(b *testing.B) {
				x, a := newIndex(b, dbtest.Open(b, migrations.Appview, dialect)), newAuthor(ada)
				random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a shelf, not a secret
				var events []index.Event
				start := time.Now()
				for n := range size {
					var text strings.Builder
					for range 100 {
						fmt.Fprintf(&text, "the word%d ", int(1000*random.Float64()*random.Float64()*random.Float64()))
					}
					fmt.Fprintf(&text, "needle%d getUserName%d /srv/app/config/%d.yaml ", n, n%500, n%1000)
					if n%50 == 0 {
						fmt.Fprintf(&text, "dial tcp 10.0.0.%d:5432: ECONNREFUSED 東京の天気", n%256)
					}
					value := observation(text.String(), nil)
					value["observedAt"] = time.Date(2026, 1, 1, 0, 0, n*60, 0, time.UTC).Format(time.RFC3339)
					c, _ := a.put(b, lexicons.ObservationNSID, key(n+1), value)
					if events = append(events, c); len(events) == 200 {
						require.NoError(b, x.Apply(b.Context(), "test", 0, events))
						events = nil
					}
				}
				filled := time.Since(start)
				var took []time.Duration
				for b.Loop() {
					for _, text := range searchMix {
						q, err := index.ParseQuery(text)
						require.NoError(b, err)
						began := time.Now()
						_, err = x.SearchObservations(b.Context(), guest, q, index.SearchFilter{}, nil, 25)
						require.NoError(b, err)
						took = append(took, time.Since(began))
					}
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
				b.ReportMetric(float64(size)/filled.Seconds(), "filled/s")
			})
		}
	}
}
