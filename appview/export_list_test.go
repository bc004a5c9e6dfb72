package appview_test

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

func (s *site) export(params ...string) (string, http.Header) {
	s.t.Helper()
	res := s.ask("exportList", params...)
	require.Equal(s.t, http.StatusOK, res.Code, res.Body)
	return res.Body.String(), res.Header()
}

// An export is the list, all pages of it, in its order.
func TestExportIsTheWholeList(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		const many = 230 // three pages
		for n := range many {
			c, _ := ada.put(t, lexicons.ObservationNSID, string(tid(n+1)), observation(fmt.Sprint("words ", n), nil))
			s.apply(c)
		}
		var listed []any
		for cursor := ""; ; {
			page := s.get("listObservations", "limit", "50", "cursor", cursor)
			listed = append(listed, page["observations"].([]any)...)
			if cursor, _ = page["cursor"].(string); cursor == "" {
				break
			}
		}
		require.Len(t, listed, many)

		lines, header := s.export("list", "listObservations")
		require.Equal(t, "application/x-ndjson", header.Get("Content-Type"))
		require.Equal(t, `attachment; filename="listObservations.ndjson"`, header.Get("Content-Disposition"))
		var exported []any
		for scan := bufio.NewScanner(strings.NewReader(lines)); scan.Scan(); {
			var item any
			require.NoError(t, json.Unmarshal(scan.Bytes(), &item))
			exported = append(exported, item)
		}
		require.Equal(t, listed, exported)

		text, header := s.export("list", "listObservations", "format", "csv")
		require.Equal(t, "text/csv; charset=utf-8; header=present", header.Get("Content-Type"))
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		require.NoError(t, err)
		require.Len(t, rows, many+1)
		require.Equal(t, []string{"uri", "cid", "author.did"}, rows[0][:3])
		for i, row := range rows[1:] {
			item := listed[i]
			require.Equal(t, at(t, item, "uri"), row[0])
			require.Equal(t, at(t, item, "author", "did"), row[slices.Index(rows[0], "author.did")])
			require.Equal(t, at(t, item, "source", "kind"), row[slices.Index(rows[0], "source.kind")])
			require.Equal(t, fmt.Sprint(at(t, item, "isHead")), row[slices.Index(rows[0], "isHead")])
		}

		text, _ = s.export("list", "listObservations", "format", "csv", "filter", "author=did:web:nobody.test")
		require.Equal(t, 1, strings.Count(text, "\n"), "the names alone")
		text, _ = s.export("list", "listObservations", "filter", "author=did:web:nobody.test")
		require.Empty(t, text)
	})
}

// What an agent wrote is no formula of whoever opens the file.
func TestExportedTableHoldsNoFormula(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		const formula = `=HYPERLINK("https://evil.test","a, ""b""` + "\n" + `c")`
		c, _ := ada.put(t, lexicons.ObservationNSID, string(tid(1)), observation("words", object{"method": formula}))
		s.apply(c)
		text, _ := s.export("list", "listObservations", "format", "csv")
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		require.NoError(t, err)
		require.Len(t, rows, 2)
		require.Equal(t, "'"+formula, rows[1][slices.Index(rows[0], "method")])
		text, _ = s.export("list", "listObservations")
		var item object
		require.NoError(t, json.Unmarshal([]byte(text), &item))
		require.Equal(t, formula, item["method"], "the other form is exact")
	})
}

func TestExportRefusals(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db, lexicons.ClassNSID)
		ada := newAuthor("did:web:ada.test")
		s.team[ada.did] = "https://host.test"
		c, _ := ada.put(t, lexicons.ObservationNSID, string(tid(1)), observation("private words", nil))
		s.apply(c)
		c, _ = ada.put(t, lexicons.ClassNSID, string(tid(2)), class("public", nil, ""))
		s.apply(c)
		for _, params := range [][]string{
			{"list", "getObservation"}, {"list", "describeService"}, {"list", "listNothing"}, {"list", "exportList"},
			{"list", "listObservations", "filter", "author"}, {"list", "listObservations", "filter", "writer=x"},
			{"list", "listObservations", "filter", "cursor=x"}, {"list", "listObservations", "filter", "limit=1"},
			{"list", "listObservations", "filter", "headsOnly=perhaps"}, {"list", "listObservations", "format", "xlsx"},
			{"list", "listObservations", "filter", "author=nobody.test"},
		} {
			name, _ := s.refuse("exportList", params...)
			require.Contains(t, []string{"InvalidRequest", "HandleNotFound"}, name, params)
		}
		s.viewer = xrpc.Viewer{}
		text, _ := s.export("list", "listObservations")
		require.Empty(t, text, "nothing of what is not published")
		text, _ = s.export("list", "listClasses")
		require.Equal(t, 1, strings.Count(text, "\n"))
		res := s.ask("exportList", "list", "listQuarantined")
		require.NotEqual(t, http.StatusOK, res.Code)
	})
}
