package repostore

import (
	"context"
	"testing"

	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"herbarium.garden/pds/sequencer"
)

func mustOrder(ops []sequencer.Op) []sequencer.Op {
	ordered, _ := eventOrder(ops)
	return ordered
}

// What a consumer does with an event leads back to the tree before it.
func TestDiffsInvert(t *testing.T) {
	keys := tallKeys()
	rapid.Check(t, func(t *rapid.T) {
		s, root := emptyShelf(t)
		records := map[string]cid.Cid{}
		for range rapid.IntRange(1, 25).Draw(t, "batches") {
			ops := map[string]*cid.Cid{}
			var done []sequencer.Op
			var order []string
			for range rapid.IntRange(1, 8).Draw(t, "ops") {
				key := rapid.SampledFrom(keys).Draw(t, "key")
				if _, ok := ops[key]; ok {
					continue
				}
				prev, stood := records[key]
				op := sequencer.Op{Path: key}
				if stood {
					op.Prev = &prev
				}
				if rapid.Bool().Draw(t, "put") {
					value := valueOf(rapid.IntRange(0, 200).Draw(t, "value"))
					if stood && prev == value {
						continue
					}
					op.CID = &value
					records[key] = value
				} else {
					if !stood {
						continue
					}
					delete(records, key)
				}
				ops[key] = op.CID
				order = append(order, key)
				done = append(done, op)
			}
			if len(done) == 0 {
				continue
			}
			tree, err := openTree(context.Background(), s, root)
			require.NoError(t, err)
			for _, key := range order {
				require.NoError(t, tree.set(context.Background(), key, ops[key]))
			}
			d, err := tree.diff(context.Background())
			require.NoError(t, err)
			s.keep(d)
			require.True(t, invertible(context.Background(), mustOrder(done), d, root), "%v", done)
			root = d.root
		}
	})
}
