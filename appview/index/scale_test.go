package index_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// A chain of ten thousand: an observation more costs what the first ones did,
// and so does finding the head of the first.
func TestLongChainStaysFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("ten thousand observations")
	}
	db := dbtest.Open(t, migrations.Appview, migrations.SQLite)
	x, a := newIndex(t, db), newAuthor(ada)
	const size, batch = 10_000, 250
	var refs []lexicons.StrongRef
	var took []time.Duration
	for len(refs) < size {
		events := make([]index.Event, 0, batch)
		for range batch {
			var last *lexicons.StrongRef
			if len(refs) > 0 {
				last = &refs[len(refs)-1]
			}
			c, ref := a.put(t, lexicons.ObservationNSID, key(len(refs)+1), observation("x", last))
			refs, events = append(refs, ref), append(events, c)
		}
		began := time.Now()
		require.NoError(t, x.Apply(t.Context(), "test", 0, events))
		took = append(took, time.Since(began))
	}
	t.Logf("first %d: %s, last %d: %s", batch, took[1], batch, took[len(took)-1])

	began := time.Now()
	chain, err := x.Chain(t.Context(), guest, refs[0].URI)
	require.NoError(t, err)
	t.Logf("chain of %d: %s", chain.Length, time.Since(began))
	require.Equal(t, refs[size-1].URI, chain.Head.URI)
	require.EqualValues(t, size-1, chain.StepsBehind)

	c, _ := a.put(t, lexicons.ObservationNSID, key(size+1), observation("x", &refs[size-1]))
	began = time.Now()
	apply(t, x, c)
	t.Logf("one more: %s", time.Since(began))
	began = time.Now()
	apply(t, x, a.drop(lexicons.ObservationNSID, key(size/2)))
	t.Logf("one less, in the middle: %s", time.Since(began))
	began = time.Now()
	apply(t, x, a.drop(lexicons.ObservationNSID, key(size+1)))
	t.Logf("one less, the head: %s", time.Since(began))
	require.Equal(t, refs[size-1].URI, func() any {
		c, err := x.Chain(t.Context(), guest, refs[0].URI)
		require.NoError(t, err)
		return c.Head.URI
	}())
	// The measure of flatness is work, not time: a machine that is shared has slow moments.
	require.Less(t, median(took[len(took)/2:]), 3*median(took[:len(took)/2]))
}

func median(d []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[len(sorted)/2]
}
