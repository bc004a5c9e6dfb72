package index

import (
	"slices"

	"herbarium.garden/lexicons"
)

// forest is a set of whole chains in memory, to compute their shape from
// nothing but the nodes and their edges. Pure: the same nodes give the same
// shape in whatever order they came; only the numbers of chains and branches,
// which mean nothing, depend on history.
type forest struct {
	nodes    []nodeRow
	at       map[string]int // index by URI
	parent   []int          // -1 for a root
	children [][]int
	alive    []bool // the node or something that descends from it lives
	lines    []int  // how many of the node's children are alive
}

func newForest(nodes []nodeRow) *forest {
	f := &forest{nodes: nodes, at: make(map[string]int, len(nodes))}
	for i := range nodes {
		f.at[nodes[i].URI] = i
	}
	f.link()
	if f.cutCircles() {
		f.link()
	}
	return f
}

func (f *forest) link() {
	f.parent = make([]int, len(f.nodes))
	f.children = make([][]int, len(f.nodes))
	for i := range f.nodes {
		f.parent[i] = -1
		if p, ok := f.at[f.nodes[i].TargetURI]; ok && f.nodes[i].counted() {
			f.parent[i] = p
			f.children[p] = append(f.children[p], i)
		}
	}
}

// cutCircles ignores the weak edges of a circle. It always has one: an exact
// edge holds the hash of its target, which must have been there before.
func (f *forest) cutCircles() bool {
	const unseen, open, closed = 0, 1, 2
	state := make([]int, len(f.nodes))
	found := false
	for start := range f.nodes {
		i := start
		for i >= 0 && state[i] == unseen {
			state[i] = open
			i = f.parent[i]
		}
		if i >= 0 && state[i] == open { // came back to this walk
			found = true
			for j := i; ; {
				if f.nodes[j].Edge == string(EdgeWeak) {
					f.nodes[j].Edge = string(EdgeIgnored)
				}
				if j = f.parent[j]; j == i {
					break
				}
			}
		}
		for i = start; i >= 0 && state[i] == open; i = f.parent[i] {
			state[i] = closed
		}
	}
	return found
}

// shape sets chain, branch, position and the flags of every node and returns
// the branches. label gives out new numbers; old ones are kept where most
// nodes keep theirs.
func (f *forest) shape(label func() int64) []branchRow {
	f.live()
	var branches []branchRow
	taken := map[int64]bool{}
	usedChains := map[int64]bool{}
	for i := range f.nodes {
		if f.parent[i] < 0 {
			branches = append(branches, f.shapeTree(i, label, taken, usedChains)...)
		}
	}
	return branches
}

// live finds what lives, children before parents, without recursion: chains
// are as long as their authors like.
func (f *forest) live() {
	f.alive = make([]bool, len(f.nodes))
	for i := range f.nodes {
		if !f.nodes[i].Live {
			continue
		}
		for j := i; j >= 0 && !f.alive[j]; j = f.parent[j] {
			f.alive[j] = true
		}
	}
	f.lines = make([]int, len(f.nodes))
	for i := range f.nodes {
		if p := f.parent[i]; p >= 0 && f.alive[i] {
			f.lines[p]++
		}
	}
}

// better says which of two children of one node a branch goes on into.
func (f *forest) better(a, b int) int {
	return lexicons.CompareSuccessors(f.successor(a), f.successor(b))
}

func (f *forest) successor(i int) lexicons.Successor {
	s := f.nodes[i].successor()
	s.Alive = f.alive[i]
	return s
}

// successor is the node by itself: alive when it lives.
func (n *nodeRow) successor() lexicons.Successor {
	return lexicons.Successor{URI: n.URI, RecordKey: n.Rkey, Alive: n.Live, Future: n.Future}
}

func (f *forest) shapeTree(root int, label func() int64, taken, usedChains map[int64]bool) []branchRow {
	paths, depth := f.paths(root)
	chain, offset := f.keepNumbers(paths, depth, usedChains)
	if chain == 0 {
		chain = label()
	}
	usedChains[chain] = true
	branches := make([]branchRow, 0, len(paths))
	for i, path := range paths {
		id := f.nodes[path[0]].Branch
		if taken[id] {
			if id = f.nodes[path[len(path)-1]].Branch; taken[id] {
				id = label()
			}
		}
		taken[id] = true
		b := branchRow{Branch: id, Chain: chain, Main: i == 0}
		for _, n := range path {
			node := &f.nodes[n]
			node.Chain, node.Branch, node.Position = chain, id, depth[n]+offset
			node.Forked = f.forked(n)
			node.Bereft = false
			if node.Live {
				b.HeadURI = node.URI
			}
		}
		if b.HeadURI != "" {
			head := f.at[b.HeadURI]
			f.nodes[head].Bereft = len(f.children[head]) > 0
		}
		branches = append(branches, b)
	}
	return branches
}

// paths splits a tree into its branches, the main one first.
func (f *forest) paths(root int) ([][]int, map[int]int64) {
	depth := map[int]int64{root: 0}
	starts := []int{root}
	var paths [][]int
	for len(starts) > 0 {
		n := starts[0]
		starts = starts[1:]
		var path []int
		for {
			path = append(path, n)
			next := f.children[n]
			if len(next) == 0 {
				break
			}
			slices.SortFunc(next, f.better)
			for _, c := range next {
				depth[c] = depth[n] + 1
			}
			starts = append(starts, next[1:]...)
			n = next[0]
		}
		paths = append(paths, path)
	}
	return paths, depth
}

// keepNumbers finds the chain number and the offset of positions that most
// nodes of a tree already have; 0 when none is free.
func (f *forest) keepNumbers(paths [][]int, depth map[int]int64, used map[int64]bool) (chain, offset int64) {
	type numbers struct{ chain, offset int64 }
	count := map[numbers]int{}
	best := 0
	for _, path := range paths {
		for _, n := range path {
			k := numbers{f.nodes[n].Chain, f.nodes[n].Position - depth[n]}
			if used[k.chain] {
				continue
			}
			count[k]++
			if count[k] > best {
				best, chain, offset = count[k], k.chain, k.offset
			}
		}
	}
	return chain, offset
}

// forked tells that the node lives on, and another that supersedes the same does too.
func (f *forest) forked(n int) bool {
	return f.alive[n] && f.parent[n] >= 0 && f.lines[f.parent[n]] > 1
}
