package repostore_test

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/repostore"
)

// BenchmarkCreate writes observations one by one into repos of growing size.
// What a create costs must not depend on the size: the last figure stays
// within 1.3 times of the first.
//
//	go test ./pds/repostore -run - -bench Create -benchtime 2000x
func BenchmarkCreate(b *testing.B) {
	for _, dialect := range []migrations.Dialect{migrations.SQLite, migrations.Postgres} {
		b.Run(string(dialect), func(b *testing.B) {
			h := newHost(b, dbtest.Open(b, migrations.PDS, dialect))
			for _, size := range []int{100, 1_000, 10_000, 50_000} {
				did := h.account(fmt.Sprint("scout", size))
				h.fill(did, size)
				next := size
				b.Run(fmt.Sprint(size), func(b *testing.B) {
					var took []time.Duration
					before := cpuTime(b)
					for b.Loop() {
						w := create(tid(next), observation(b, fmt.Sprint(next), nil))
						next++
						start := time.Now()
						h.apply(did, w)
						took = append(took, time.Since(start))
					}
					report(b, took, before)
				})
			}
		})
	}
}

// BenchmarkBatch writes batches of 200 observations into one repo.
func BenchmarkBatch(b *testing.B) {
	for _, dialect := range []migrations.Dialect{migrations.SQLite, migrations.Postgres} {
		b.Run(string(dialect), func(b *testing.B) {
			h := newHost(b, dbtest.Open(b, migrations.PDS, dialect))
			did := h.account("scout")
			rec := observation(b, "the same", nil)
			var took []time.Duration
			before, next := cpuTime(b), 0
			for b.Loop() {
				writes := make([]repostore.Write, repostore.MaxWrites)
				for i := range writes {
					writes[i] = create(tid(next), rec)
					next++
				}
				start := time.Now()
				h.apply(did, writes...)
				took = append(took, time.Since(start))
			}
			report(b, took, before)
			b.ReportMetric(float64(next)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkManyRepos writes from 8 clients into 16 repos: commits come together.
func BenchmarkManyRepos(b *testing.B) {
	for _, dialect := range []migrations.Dialect{migrations.SQLite, migrations.Postgres} {
		b.Run(string(dialect), func(b *testing.B) {
			h := newHost(b, dbtest.Open(b, migrations.PDS, dialect))
			var dids []syntax.DID
			for i := range 16 {
				dids = append(dids, h.account(fmt.Sprint("scout", i)))
				h.fill(dids[i], 1000)
			}
			rec := observation(b, "the same", nil)
			var (
				mu   sync.Mutex
				next = 1000
				took []time.Duration
			)
			before, cpu := h.Stats(), cpuTime(b)
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					mu.Lock()
					n := next
					next++
					mu.Unlock()
					start := time.Now()
					h.apply(dids[n%len(dids)], create(tid(n), rec))
					mu.Lock()
					took = append(took, time.Since(start))
					mu.Unlock()
				}
			})
			report(b, took, cpu)
			after := h.Stats()
			b.ReportMetric(float64(after.Commits-before.Commits)/float64(after.Transactions-before.Transactions), "commits/tx")
		})
	}
}

// fill writes size observations in batches.
func (h *host) fill(did syntax.DID, size int) {
	for n := 0; n < size; {
		var batch []repostore.Write
		for ; n < size && len(batch) < repostore.MaxWrites; n++ {
			batch = append(batch, create(tid(n), observation(h.t, fmt.Sprint(n), nil)))
		}
		h.apply(did, batch...)
	}
	records, err := h.ListRecords(h.t.Context(), did, "garden.engram.agents.observation", "", false, 1)
	require.NoError(h.t, err)
	require.Len(h.t, records, 1)
}

// cpuTime is what this process has used so far: the steadiest figure on a busy
// machine. (Postgres is another process.)
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func report(b *testing.B, took []time.Duration, before time.Duration) {
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkImport imports a repo of 20,000 records into an empty one.
//
//	go test ./pds/repostore -run - -bench Import -benchtime 3x
func BenchmarkImport(b *testing.B) {
	const size = 20_000
	for _, dialect := range []migrations.Dialect{migrations.SQLite, migrations.Postgres} {
		b.Run(string(dialect), func(b *testing.B) {
			h := newHost(b, dbtest.Open(b, migrations.PDS, dialect))
			records := make(map[string]*lexicons.Record, size)
			for n := range size {
				records["com.example.note/"+tid(n)] = note(b, fmt.Sprintf("%300d", n))
			}
			var took time.Duration
			imported := 0
			for b.Loop() {
				did := h.account(fmt.Sprint("scout", imported))
				car := handmade(b, h, did, records)
				start := time.Now()
				result, err := h.Import(b.Context(), did, bytes.NewReader(car), repostore.ImportOptions{Keys: []atcrypto.PublicKey{h.publicKey(did)}})
				require.NoError(b, err)
				took += time.Since(start)
				imported += result.Created
			}
			b.ReportMetric(float64(imported)/took.Seconds(), "records/s")
		})
	}
}
