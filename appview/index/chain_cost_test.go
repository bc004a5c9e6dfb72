package index_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// BenchmarkLongChain measures one more at the end of a chain, and with it the
// look-up of the head from the oldest, at three lengths.
func BenchmarkLongChain(b *testing.B) {
	for name, length := range map[string]int{"100": 100, "1000": 1000, "10000": 10_000} {
		b.Run(name, func(b *testing.B) {
			x, a := newIndex(b, dbtest.Open(b, migrations.Appview, migrations.SQLite)), newAuthor(ada)
			var events []index.Event
			var first, last *lexicons.StrongRef
			more := func() index.Event {
				c, ref := a.put(b, lexicons.ObservationNSID, key(len(a.held)+1), observation("x", last))
				if last = &ref; first == nil {
					first = &ref
				}
				return c
			}
			for range length {
				events = append(events, more())
			}
			for at := 0; at < length; at += 100 {
				require.NoError(b, x.Apply(b.Context(), "test", 0, events[at:at+100]))
			}
			var look time.Duration
			for b.Loop() {
				require.NoError(b, x.Apply(b.Context(), "test", 0, []index.Event{more()}))
				start := time.Now()
				chain, err := x.Chain(b.Context(), guest, first.URI)
				require.NoError(b, err)
				require.Equal(b, last.URI, chain.Head.URI)
				look += time.Since(start)
			}
			b.ReportMetric(float64(look.Microseconds())/float64(b.N), "µs/head")
		})
	}
}
