package appview

import (
	"iter"
	"slices"

	"herbarium.garden/appview/index"
)

// batches goes through the distinct ones of keys in the order of their first
// appearance, as many at a time as the index hydrates in one query.
func batches[K comparable](keys []K) iter.Seq[[]K] {
	return slices.Chunk(distinct(keys), index.MaxBatch)
}

func distinct[K comparable](keys []K) []K {
	seen := make(map[K]bool, len(keys))
	var out []K
	for _, k := range keys {
		if !seen[k] {
			seen[k] = true
			out = append(out, k)
		}
	}
	return out
}

// each maps a slice; nil stays nil.
func each[T, V any](items []T, view func(T) V) []V {
	var out []V
	for _, item := range items {
		out = append(out, view(item))
	}
	return out
}

// orEmpty makes an absent list an empty one, for fields that are always there.
func orEmpty[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}
