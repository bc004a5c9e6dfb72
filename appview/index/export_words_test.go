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
