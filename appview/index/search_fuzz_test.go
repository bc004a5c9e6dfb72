package index_test

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
)

// FuzzSearch is any query over any text: what is found lies within the text, and
// begins and ends between characters.
func FuzzSearch(f *testing.F) {
	for _, text := range []string{"", "the quick brown fox", "getUserName2 /etc/hosts", "東京都 한국", "-a \"b c\" d*", "e\u0301 ﬁ Straße", "\xff\x00😀", "aB1cD2"} {
		f.Add(text, text)
		f.Add("\""+text+"\"", text+" "+text)
	}
	f.Fuzz(func(t *testing.T, query, text string) {
		for _, w := range index.Lookups(text) {
			require.NotEmpty(t, w)
			require.NotContains(t, w, " ")
		}
		q, err := index.ParseQuery(query)
		if err != nil {
			require.ErrorIs(t, err, index.ErrQuery)
			return
		}
		for _, hit := range index.Places(q, text) {
			require.True(t, 0 <= hit.Start && hit.Start < hit.End && hit.End <= len(text), "%+v", hit)
			require.True(t, utf8.RuneStart(text[hit.Start]) || !utf8.ValidString(text))
			require.True(t, hit.End == len(text) || utf8.RuneStart(text[hit.End]) || !utf8.ValidString(text))
		}
	})
}
