package appview

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons/xrpc"
)

// searchMatch is garden.herbarium.defs#searchMatch.
type searchMatch struct {
	Field   string       `json:"field"`
	Snippet string       `json:"snippet"`
	Offset  int          `json:"offset"`
	Hits    []searchSpan `json:"hits"`
}

// searchSpan is garden.herbarium.defs#searchSpan.
type searchSpan struct {
	Term      string `json:"term"`
	ByteStart int    `json:"byteStart"`
	ByteEnd   int    `json:"byteEnd"`
	Whole     bool   `json:"whole"`
}

// Bounds of a snippet, in bytes, but for the characters and words that it ends with.
const (
	snippetLead   = 80 // before the first hit
	snippetLength = 280
	snippetSlack  = 24 // to begin and end between words
)

func viewMatches(fields []index.FoundField) []searchMatch {
	return each(fields, func(f index.FoundField) searchMatch {
		from, to := snippetOf(f.Text, f.Hits)
		return searchMatch{
			Field: f.Name, Snippet: f.Text[from:to], Offset: from,
			Hits: each(f.Hits, func(h index.Hit) searchSpan {
				return searchSpan{Term: h.Term, ByteStart: h.Start, ByteEnd: h.End, Whole: h.Whole}
			}),
		}
	})
}

// snippetOf is the part of a text that shows most hits, of the first such; it begins
// and ends between characters and, where one is near, between words.
func snippetOf(text string, hits []index.Hit) (from, to int) {
	best, most := hits[0], 0
	for i, h := range hits {
		n := 0
		for _, other := range hits[i:] {
			if other.End <= h.Start+snippetLength-snippetLead {
				n++
			}
		}
		if n > most {
			best, most = h, n
		}
	}
	from = max(0, best.Start-snippetLead)
	to = min(len(text), max(from+snippetLength, best.End))
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	if from > 0 {
		if i := strings.IndexFunc(text[from:min(from+snippetSlack, best.Start)], unicode.IsSpace); i >= 0 {
			from += i + 1
			for from < len(text) && !utf8.RuneStart(text[from]) {
				from++
			}
		}
	}
	if to < len(text) {
		if i := strings.LastIndexFunc(text[max(to-snippetSlack, best.End):to], unicode.IsSpace); i >= 0 {
			to = max(to-snippetSlack, best.End) + i
		}
	}
	return from, to
}

// searchPage reads the words and the cursor of a search.
func searchPage(method, query, cursor string) (index.Query, *index.SearchPosition, error) {
	q, err := index.ParseQuery(query)
	if err != nil || cursor == "" {
		return q, nil, err
	}
	after, err := xrpc.DecodeCursor[index.SearchPosition](namespace+method, cursor)
	return q, &after, err
}

func searchCursor(method string, next *index.SearchPosition) string {
	if next == nil {
		return ""
	}
	return xrpc.EncodeCursor(namespace+method, *next)
}
