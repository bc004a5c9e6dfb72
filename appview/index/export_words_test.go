package index

// What the table tests of the tokenizer reach for.
var Lookups = lookups

// Sequence is the text of the words of sequence.
func Sequence(text string) (words []string) {
	for _, w := range sequence(text, 1000) {
		words = append(words, w.text)
	}
	return words
}

// Places are where the terms of a query are in a text, asked for or not to be there.
func Places(q Query, text string) (hits []Hit) {
	words := sequence(text, maxSearchedWords)
	for i := range q.terms {
		hits = append(hits, q.terms[i].hits(text, words)...)
	}
	return hits
}
