package lexicons

import "slices"

// keywordSet finds many words in one pass over a text (Aho and Corasick,
// "Efficient string matching", 1975). Upper and lower case of ASCII letters are
// the same to it. Each byte costs two look-ups, whatever the number of words.
type keywordSet struct {
	words []string
	class [256]uint8 // of a byte: those that no word has share class 0
	next  []uint16   // state<<classBits | class -> state
	first int        // from this state on, words end in each state
	ends  [][]int    // by state - first: the words that end there, the longest first
}

// classBits is how many bits a class takes: 26 letters, 10 digits and 27 others.
const classBits = 6

// newKeywordSet makes the automaton. Words are ASCII, not empty, and few: 1000
// of their prefixes at most, and 63 different bytes.
func newKeywordSet(words []string) *keywordSet {
	k := &keywordSet{words: words}
	k.classify()
	k.number(growTrie(words, &k.class))
	return k
}

func (k *keywordSet) classify() {
	used := uint8(0)
	for _, word := range k.words {
		for i := range len(word) {
			c := lowerByte(word[i])
			if k.class[c] == 0 {
				used++
				k.class[c] = used
			}
		}
	}
	if used >= 1<<classBits {
		panic("lexicons: the keywords have too many different bytes")
	}
	for c := byte('A'); c <= 'Z'; c++ {
		k.class[c] = k.class[lowerByte(c)]
	}
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// trieNode is a prefix of words. The first is the empty one.
type trieNode struct {
	next [1 << classBits]int // 0: none, until growTrie fills in where a failure leads
	ends []int               // words that end here
}

// growTrie makes the trie of the words and closes it into an automaton.
func growTrie(words []string, class *[256]uint8) []trieNode {
	nodes := make([]trieNode, 1)
	for i, word := range words {
		at := 0
		for j := range len(word) {
			c := class[word[j]]
			if nodes[at].next[c] == 0 {
				nodes = append(nodes, trieNode{})
				nodes[at].next[c] = len(nodes) - 1
			}
			at = nodes[at].next[c]
		}
		nodes[at].ends = append(nodes[at].ends, i)
	}
	// Breadth first, so that where a failure leads is closed already.
	fail := make([]int, len(nodes))
	queue := []int{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		nodes[at].ends = append(nodes[at].ends, nodes[fail[at]].ends...)
		for c, child := range nodes[at].next {
			onFail := 0
			if at != 0 {
				onFail = nodes[fail[at]].next[c]
			}
			if child == 0 {
				nodes[at].next[c] = onFail
				continue
			}
			fail[child] = onFail
			queue = append(queue, child)
		}
	}
	return nodes
}

// number lays the states out so that one comparison tells whether words end.
func (k *keywordSet) number(nodes []trieNode) {
	if len(nodes) > 1<<(16-classBits) {
		panic("lexicons: the keywords have too many prefixes")
	}
	state := make([]int, len(nodes)) // by node
	for i, n := range nodes {
		if len(n.ends) == 0 {
			state[i] = k.first
			k.first++
		}
	}
	ending := k.first
	for i, n := range nodes {
		if len(n.ends) > 0 {
			state[i] = ending
			ending++
			k.ends = append(k.ends, n.ends)
		}
	}
	k.next = make([]uint16, len(nodes)<<classBits)
	for i, n := range nodes {
		for c, to := range n.next {
			k.next[state[i]<<classBits|c] = uint16(state[to])
		}
	}
}

// each calls visit for every word in text, with the place where it starts and
// its number, in the order of their ends.
func eachKeyword[T string | []byte](k *keywordSet, text T, visit func(start, word int)) {
	state, class, next := 0, &k.class, k.next
	for i := range len(text) {
		state = int(next[state<<classBits|int(class[text[i]])])
		if state < k.first {
			continue
		}
		for _, word := range k.ends[state-k.first] {
			visit(i+1-len(k.words[word]), word)
		}
	}
}

// wordNumbers is the number of each word in a list, and the list without repetitions.
func wordNumbers(lists [][]string) (words []string, users [][]int) {
	for user, list := range lists {
		for _, word := range list {
			at := slices.Index(words, word)
			if at < 0 {
				at = len(words)
				words, users = append(words, word), append(users, nil)
			}
			users[at] = append(users[at], user)
		}
	}
	return words, users
}
