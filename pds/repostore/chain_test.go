package repostore

import (
	"slices"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var chainNow = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// chainRev is of the commit that wrote each record.
var chainRev = syntax.NewTIDFromTime(chainNow, 0)

func chainPath(n int) string {
	return "garden.engram.agents.observation/" + syntax.NewTIDFromTime(chainNow.Add(time.Duration(n-50)*time.Minute), 0).String()
}

// drawChain draws edges between ten observations, some of them deleted.
func drawChain(t *rapid.T, cyclic bool) *chain {
	c := newChain("did:web:scout.test")
	for range rapid.IntRange(0, 20).Draw(t, "edges") {
		from, to := rapid.IntRange(0, 9).Draw(t, "from"), rapid.IntRange(0, 9).Draw(t, "to")
		if !cyclic && from >= to {
			continue
		}
		c.add(chainPath(from), chainPath(to), chainRev)
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

// At each fork a chain goes on into the greatest record key that leads to
// something alive, and its head is the last that lives on the way.
func TestChainHead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawChain(t, false)
		var follow func(path string) string
		follow = func(path string) string {
			for _, next := range slices.Backward(slices.Sorted(slices.Values(c.successors[path]))) {
				if head := follow(next); head != "" {
					return head
				}
				if _, live := c.live[next]; live {
					return next
				}
			}
			return ""
		}
		require.Equal(t, follow(chainPath(0)), c.head(chainPath(0)))
	})
}

// A cycle, which only an import can bring, ends the walk and names a live record or none.
func TestChainHeadEndsOnCycles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawChain(t, true)
		if head := c.head(chainPath(0)); head != "" {
			require.Contains(t, c.live, head)
			require.True(t, c.reach(chainPath(0))[head])
		}
	})
}

// Of a fork the greatest rkey wins, but one from the future loses.
func TestChainHeadDistrustsTheFuture(t *testing.T) {
	c := newChain("did:web:scout.test")
	future := "garden.engram.agents.observation/" + syntax.NewTIDFromTime(chainNow.Add(25*time.Hour), 0).String()
	for i, path := range []string{chainPath(1), future, chainPath(2)} {
		c.add(chainPath(0), path, chainRev)
		c.live[path] = valueOf(i)
	}
	require.Equal(t, chainPath(2), c.head(chainPath(0)))
	delete(c.live, chainPath(1))
	delete(c.live, chainPath(2))
	require.Equal(t, future, c.head(chainPath(0)))
	require.Empty(t, c.head(chainPath(7)), "nothing descends")
}
