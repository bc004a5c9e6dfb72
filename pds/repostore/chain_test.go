package repostore

import (
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var chainNow = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func chainPath(n int) string {
	return "garden.engram.agents.observation/" + syntax.NewTIDFromTime(chainNow.Add(time.Duration(n-50)*time.Minute), 0).String()
}

// drawChain draws edges between ten observations, some of them deleted.
func drawChain(t *rapid.T, cyclic bool) *chain {
	c := &chain{successors: map[string][]string{}, live: map[string]cid.Cid{}}
	for range rapid.IntRange(0, 20).Draw(t, "edges") {
		from, to := rapid.IntRange(0, 9).Draw(t, "from"), rapid.IntRange(0, 9).Draw(t, "to")
		if !cyclic && from >= to {
			continue
		}
		c.add(chainPath(from), chainPath(to))
	}
	for n := range 10 {
		if rapid.Bool().Draw(t, "live") {
			c.live[chainPath(n)] = valueOf(n)
		}
	}
	return c
}

// reach answers what descends from path.
func (c *chain) reach(path string) map[string]bool {
	reached := map[string]bool{}
	for next := []string{path}; len(next) > 0; next = next[1:] {
		for _, successor := range c.successors[next[0]] {
			if !reached[successor] {
				reached[successor] = true
				next = append(next, successor)
			}
		}
	}
	return reached
}

// The head is the greatest live record that descends and has no live descendant.
func TestChainHead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawChain(t, false)
		want := ""
		for path := range c.reach(chainPath(0)) {
			_, live := c.live[path]
			for below := range c.reach(path) {
				if _, ok := c.live[below]; ok {
					live = false
				}
			}
			if live && path > want {
				want = path
			}
		}
		require.Equal(t, want, c.head(chainPath(0), chainNow))
	})
}

// A cycle, which only an import can bring, ends the walk and names a live record or none.
func TestChainHeadEndsOnCycles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawChain(t, true)
		if head := c.head(chainPath(0), chainNow); head != "" {
			require.Contains(t, c.live, head)
			require.True(t, c.reach(chainPath(0))[head])
		}
	})
}

// Of a fork the greatest rkey wins, but one from the future loses.
func TestChainHeadDistrustsTheFuture(t *testing.T) {
	c := &chain{successors: map[string][]string{}, live: map[string]cid.Cid{}}
	future := "garden.engram.agents.observation/" + syntax.NewTIDFromTime(chainNow.Add(25*time.Hour), 0).String()
	for i, path := range []string{chainPath(1), future, chainPath(2)} {
		c.add(chainPath(0), path)
		c.live[path] = valueOf(i)
	}
	require.Equal(t, chainPath(2), c.head(chainPath(0), chainNow))
	delete(c.live, chainPath(1))
	delete(c.live, chainPath(2))
	require.Equal(t, future, c.head(chainPath(0), chainNow))
	require.Empty(t, c.head(chainPath(7), chainNow), "nothing descends")
}
