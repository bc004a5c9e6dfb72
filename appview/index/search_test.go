package index_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

func TestWords(t *testing.T) {
	for text, want := range map[string]struct{ lookups, sequence string }{
		"The quick-brown Fox":         {"the quick brown fox", "the quick brown fox"},
		"getUserName2":                {"getusername2 get user name 2", "get user name 2"},
		"HTTPProxy":                   {"httpproxy http proxy", "http proxy"},
		"snake_case":                  {"snake case", "snake case"},
		"/etc/hosts":                  {"etc hosts", "etc hosts"},
		"ECONNREFUSED 127.0.0.1:5432": {"econnrefused 127 0 1 5432", "econnrefused 127 0 0 1 5432"},
		"東京都":                         {"東 京 東京 都 京都", "東 京 都"},
		"한국 日本":                       {"한 국 한국 日 本 日本", "한 국 日 本"},
		"Straße ＡＢＣ ﬁn":               {"strasse abc fin", "strasse abc fin"},
		"Ünïcode ÜBER":                {"ünïcode über", "ünïcode über"},
		"cafe\u0301":                  {"café", "café"},
		"😀🎉 --- \x00":                 {"", ""},
		strings.Repeat("a", 100):      {strings.Repeat("a", 64), strings.Repeat("a", 64)},
	} {
		require.Equal(t, want.lookups, strings.Join(index.Lookups(text), " "), text)
		require.Equal(t, want.sequence, strings.Join(index.Sequence(text), " "), text)
	}
}

// library is a shelf of observations, each under the number that is its key.
func library(t *testing.T, x *index.Index, texts []string) {
	t.Helper()
	a := newAuthor(ada)
	for n, text := range texts {
		value := observation(text, nil)
		value["observedAt"] = fmt.Sprintf("2026-11-30T09:%02d:00.000Z", n)
		c, _ := a.put(t, lexicons.ObservationNSID, key(n+1), value)
		apply(t, x, c)
	}
}

// found are the numbers of the observations that a query finds, the best first.
func found(t *testing.T, x *index.Index, query string, f index.SearchFilter) (numbers []int) {
	t.Helper()
	q, err := index.ParseQuery(query)
	require.NoError(t, err, query)
	for at := (*index.SearchPosition)(nil); ; {
		page, err := x.SearchObservations(t.Context(), guest, q, f, at, 2)
		require.NoError(t, err, query)
		for _, hit := range page.Found {
			n := 1
			for n < 1000 && hit.URI.RecordKey().String() != key(n) {
				n++
			}
			numbers = append(numbers, n)
			for _, field := range hit.Fields {
				for _, h := range field.Hits {
					require.True(t, 0 <= h.Start && h.Start < h.End && h.End <= len(field.Text), "%+v", h)
				}
			}
		}
		if at = page.Next; at == nil {
			return numbers
		}
	}
}

// What is found in a text, by whatever database.
func TestSearchFindsWordsInTexts(t *testing.T) {
	shelf := []string{
		"The quick brown fox jumps over the lazy dog.",
		"func getUserName(id int) (string, error) { return \"\", ErrTooBig }",
		"dial tcp 127.0.0.1:5432: connect: connection refused (ECONNREFUSED)",
		"東京都の天気は晴れです。大阪は雨。",
		"Die Straße nach Köln ist gesperrt; Fußgänger frei.",
		"127.0.0.1 localhost # /etc/hosts on every host",
		"hosts etc: the words of a path in another order",
		"한국어 문서와 日本語の文書",
		"git rebase --onto main 4b983a7e86c8 feature/search-box 🎉",
		"The fox again. A fox is a fox.",
	}
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x := newIndex(t, db)
		library(t, x, shelf)
		for query, want := range map[string][]int{
			"fox":                  {10, 1}, // three of them before one
			"FOX":                  {10, 1},
			"quick fox":            {1},
			"fox -quick":           {10},
			"-quick fox":           {10},
			`"brown fox"`:          {1},
			`"fox brown"`:          nil,
			`fox -"brown fox"`:     {10},
			"jump*":                {1},
			"jump":                 nil,
			"getUserName":          {2},
			"getusername":          {2},
			"user":                 {2},
			"UserName":             {2},
			"ErrTooBig":            {2},
			"errtoobig":            {2},
			"getuser*":             {2},
			"127.0.0.1:5432":       {3},
			"127.0.0.1":            {6, 3},
			"ECONNREFUSED":         {3},
			"ECONNREF*":            {3},
			`"connection refused"`: {3},
			"/etc/hosts":           {6},
			"hosts etc":            {7, 6},
			"東京":                   {4},
			"京都":                   {4},
			"雨":                    {4},
			"天気 大阪":                {4},
			"天晴":                   nil,
			"文書":                   {8},
			"한국":                   {8},
			"straße":               {5},
			"STRASSE":              {5},
			"köln":                 {5},
			"koln":                 nil,
			"fußgänger":            {5},
			"4b983a7e86c8":         {9},
			"feature/search-box":   {9},
			"--onto":               {9},
			"search-box":           {9},
			"nothing":              nil,
		} {
			require.Equal(t, want, found(t, x, query, index.SearchFilter{}), query)
		}
	})
}

// Filters narrow, superseded observations are found when they are asked for, and a
// window of a search follows on the one before.
func TestSearchFiltersAndPages(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a, b := newIndex(t, db), newAuthor(ada), newAuthor(bob)
		put := func(who *author, n int, text string, supersedes *lexicons.StrongRef, more map[string]any) lexicons.StrongRef {
			value := observation(text, supersedes)
			for k, v := range more {
				value[k] = v
			}
			c, ref := who.put(t, lexicons.ObservationNSID, key(n), value)
			apply(t, x, c)
			return ref
		}
		old := put(a, 1, "needle old", nil, map[string]any{"method": "curl"})
		put(a, 2, "needle new", &old, map[string]any{"observedAt": "2026-11-30T09:00:00.000Z"})
		put(b, 3, "needle", nil, map[string]any{"source": map[string]any{"kind": "url", "value": "https://scout:hunter2@needles.example/needle"}})
		require.ElementsMatch(t, []int{2, 3}, found(t, x, "needle", index.SearchFilter{}))
		require.ElementsMatch(t, []int{1, 2, 3}, found(t, x, "needle", index.SearchFilter{AllVersions: true}))
		require.Equal(t, []int{3}, found(t, x, "needle", index.SearchFilter{DID: bob}))
		require.Equal(t, []int{1}, found(t, x, "needle", index.SearchFilter{Method: "curl", AllVersions: true}))
		require.Nil(t, found(t, x, "needle", index.SearchFilter{Method: "curl"}))
		require.Equal(t, []int{3}, found(t, x, "needle", index.SearchFilter{SourceKind: "url"}))
		require.Equal(t, []int{3}, found(t, x, "needles.example", index.SearchFilter{}), "in its source")
		require.Nil(t, found(t, x, "hunter2", index.SearchFilter{}), "a credential is found by nobody")
		since, err := time.Parse(time.RFC3339, "2026-11-30T08:30:00Z")
		require.NoError(t, err)
		require.Contains(t, found(t, x, "needle", index.SearchFilter{Since: since}), 2)
		require.NotContains(t, found(t, x, "needle", index.SearchFilter{Until: since}), 2)

		many := index.SearchWindow + 50
		want := map[int]bool{}
		for n := range many {
			put(a, 100+n, fmt.Sprint("hay ", n), nil, nil)
			want[100+n] = true
		}
		for _, n := range found(t, x, "hay", index.SearchFilter{}) {
			require.True(t, want[n], "%d once", n)
			delete(want, n)
		}
		require.Empty(t, want)
	})
}

// Nothing that somebody asks for breaks a search, and what is too much or nothing is refused.
func TestSearchOfHostileQueries(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x := newIndex(t, db)
		library(t, x, []string{"and or not near words body NEAR", "plain"})
		for _, query := range []string{
			`"`, `a"b`, `"unclosed phrase`, "a*b", "* a", "NEAR(a b)", "a AND b", "a OR b", "NOT a", "words:body", "^a", "a + b", "(a", "a)", "{a}", "a\x00b",
			"a'b", `a\b`, "a & b | !c", "a:*", "a <-> b", "-a b", "--", "'; DROP TABLE journal; --", "\xff\xfe a", "%", "_ a", strings.Repeat("a ", 10), "\u202e a", "é*",
		} {
			q, err := index.ParseQuery(query)
			if err != nil {
				require.ErrorIs(t, err, index.ErrQuery)
				continue
			}
			for _, all := range []bool{false, true} {
				_, err = x.SearchObservations(t.Context(), guest, q, index.SearchFilter{AllVersions: all}, nil, 10)
				require.NoError(t, err, query)
			}
			_, err = x.SearchTurns(t.Context(), guest, q, index.SearchFilter{}, nil, 10)
			require.NoError(t, err, query)
		}
		for _, query := range []string{"", "  ", "-a", `"..."`, "😀", strings.Repeat("a", index.MaxQueryBytes+1), strings.Repeat("a ", 17)} {
			_, err := index.ParseQuery(query)
			require.ErrorIs(t, err, index.ErrQuery, query)
		}
	})
}

// A word that was purged is in no page of the full-text index either.
func TestPurgedWordsLeaveTheIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "appview.db")
	db, err := migrations.Open(t.Context(), migrations.Appview, "sqlite:"+path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	x, a := newIndex(t, db), newAuthor(ada)
	var refs []lexicons.StrongRef
	for n := range 40 {
		c, ref := a.put(t, lexicons.ObservationNSID, key(n+1), observation(fmt.Sprintf("zebrasecret%d among other words", n), nil))
		apply(t, x, c)
		refs = append(refs, ref)
	}
	has := func() (n int) {
		for _, suffix := range []string{"", "-wal"} {
			raw, err := os.ReadFile(path + suffix)
			require.NoError(t, err)
			n += bytes.Count(raw, []byte("ebrasecret"))
		}
		return n
	}
	require.Positive(t, has(), "the search can find it")
	for _, ref := range refs {
		_, err := x.Purge(t.Context(), ref.URI, []cid.Cid{ref.CID})
		require.NoError(t, err)
	}
	require.NoError(t, x.Scrub(t.Context()))
	require.Zero(t, has())
	require.Nil(t, found(t, x, "words", index.SearchFilter{AllVersions: true}))
}

// What is deleted, edited away or of a repo that is not shown is not found, nor are
// the words of it in the index; and a replay of the journal finds the same.
func TestSearchForgets(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		library(t, x, []string{"kept words", "gone words"})
		a.revs = 50
		a.held[string(lexicons.ObservationNSID)+"/"+key(2)] = index.Operation{}
		apply(t, x, a.drop(lexicons.ObservationNSID, key(2)))
		require.Equal(t, []int{1}, found(t, x, "words", index.SearchFilter{AllVersions: true}))
		require.Nil(t, found(t, x, "gone", index.SearchFilter{AllVersions: true}))
		require.NoError(t, x.Reindex(t.Context()))
		require.Equal(t, []int{1}, found(t, x, "words", index.SearchFilter{AllVersions: true}))
		apply(t, x, &index.Account{DID: ada, Status: "deactivated"})
		require.Nil(t, found(t, x, "words", index.SearchFilter{}))
		q, err := index.ParseQuery("words")
		require.NoError(t, err)
		all, err := x.SearchObservations(t.Context(), admin, q, index.SearchFilter{}, nil, 10)
		require.NoError(t, err)
		require.Len(t, all.Found, 1)
		apply(t, x, &index.Account{DID: ada, Active: true})
		none, err := x.SearchObservations(t.Context(), index.Viewer{Collections: []syntax.NSID{lexicons.ClassNSID}}, q, index.SearchFilter{}, nil, 10)
		require.NoError(t, err)
		require.Empty(t, none.Found)
	})
}
