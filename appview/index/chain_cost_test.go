package index_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
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

// BenchmarkChainShapes measures what one observation costs while chains grow in
// ways that are not one after the other, and the deletion of heads, at three sizes:
// the figure must not grow with the size.
func BenchmarkChainShapes(b *testing.B) {
	line := func(i int) int { return i - 1 }
	for _, shape := range []struct {
		name   string
		parent func(i int) int
		arrive func(commits []*index.Commit)
		drop   bool
	}{
		{"line", line, nil, false},
		{"reversed", line, func(c []*index.Commit) { slices.Reverse(c) }, false},
		{"every fork of one", func(int) int { return 0 }, nil, false},
		{"a fork at each step", func(i int) int { return (i - 1) &^ 1 }, nil, false},
		{"heads deleted", line, nil, true},
	} {
		for _, size := range []int{100, 1000, 10_000} {
			b.Run(fmt.Sprint(shape.name, "/", size), func(b *testing.B) {
				x, a := newIndex(b, dbtest.Open(b, migrations.Appview, migrations.SQLite)), newAuthor(ada)
				refs, commits := make([]lexicons.StrongRef, size), make([]*index.Commit, size)
				for i := range size {
					var target *lexicons.StrongRef
					if i > 0 {
						target = &refs[shape.parent(i)]
					}
					commits[i], refs[i] = a.put(b, lexicons.ObservationNSID, key(i+1), observation("x", target))
				}
				if shape.arrive != nil {
					revs := make([]syntax.TID, size)
					for i, c := range commits {
						revs[i] = c.Rev
					}
					shape.arrive(commits)
					for i, c := range commits {
						c.Rev = revs[i]
					}
				}
				apply := func(c *index.Commit) { require.NoError(b, x.Apply(b.Context(), "test", 0, []index.Event{c})) }
				start := time.Now()
				for _, c := range commits {
					apply(c)
				}
				if shape.drop {
					start = time.Now()
					for i := size; i > 1; i-- {
						apply(a.drop(lexicons.ObservationNSID, key(i)))
					}
				}
				b.ReportMetric(float64(time.Since(start).Microseconds())/1000/float64(size), "ms/each")
			})
		}
	}
}
