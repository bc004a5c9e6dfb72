package main_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/stretchr/testify/require"
)

// BenchmarkCreateBySize prints creates per second and their p50 and p99 over
// HTTP, one client, in repos of 100 to 50,000 records. The rounds go from repo
// to repo, so that whatever else the machine does falls on all sizes alike.
func BenchmarkCreateBySize(b *testing.B) {
	const rounds, perRound = 40, 25
	in := start(b, "HERBARIUM_LOG_LEVEL=warn", "HERBARIUM_RATE_LIMITS=off")
	sizes := []int{100, 1_000, 10_000, 50_000}
	accounts := make([]*atclient.APIClient, len(sizes))
	for i, size := range sizes {
		accounts[i] = in.account(fmt.Sprintf("repo-of-%d.test", size))
		began := time.Now()
		fill(b, accounts[i], size)
		b.Logf("filled a repo with %d records: %.0f records/s by applyWrites of 200", size, float64(size)/time.Since(began).Seconds())
	}
	for b.Loop() {
		taken := make([][]time.Duration, len(sizes))
		for range rounds {
			for i, client := range accounts {
				for n := range perRound {
					began := time.Now()
					_, _, err := tryNote(b.Context(), client, fmt.Sprintf("note %d of a benchmark, some three hundred bytes of text so that it resembles a real record: %0200d", n, n))
					require.NoError(b, err)
					taken[i] = append(taken[i], time.Since(began))
				}
			}
		}
		medians := make([]time.Duration, len(sizes))
		b.Logf("%8s %10s %10s %10s", "records", "creates/s", "p50", "p99")
		for i, size := range sizes {
			slices.Sort(taken[i])
			total := time.Duration(0)
			for _, d := range taken[i] {
				total += d
			}
			medians[i] = taken[i][len(taken[i])/2]
			b.Logf("%8d %10.0f %10s %10s", size, float64(len(taken[i]))/total.Seconds(),
				medians[i].Round(time.Microsecond), taken[i][len(taken[i])*99/100].Round(time.Microsecond))
		}
		ratio := float64(medians[len(medians)-1]) / float64(medians[0])
		b.Logf("p50 at %d records is %.2f times that at %d", sizes[len(sizes)-1], ratio, sizes[0])
		b.ReportMetric(ratio, "p50-ratio")
	}
}

// fill creates n records in batches.
func fill(t testing.TB, client *atclient.APIClient, n int) {
	t.Helper()
	for made := 0; made < n; {
		var writes []any
		for ; made < n && len(writes) < 200; made++ {
			writes = append(writes, map[string]any{
				"$type": "com.atproto.repo.applyWrites#create", "collection": "com.example.note",
				"value": map[string]any{"text": fmt.Sprintf("record %d of the filling", made)},
			})
		}
		require.NoError(t, client.Post(t.Context(), "com.atproto.repo.applyWrites", map[string]any{"repo": client.AccountDID, "writes": writes}, nil))
	}
}
