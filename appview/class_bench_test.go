package appview_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// BenchmarkResolveClass answers getClass for a class of 32 ancestors, each with
// a skill of its own. The goal is 5 ms for each.
func BenchmarkResolveClass(b *testing.B) {
	for _, dialect := range []migrations.Dialect{migrations.SQLite, migrations.Postgres} {
		b.Run(string(dialect), func(b *testing.B) {
			s := newSite(b, dbtest.Open(b, migrations.Appview, dialect))
			ada := newAuthor("did:web:ada.test")
			var last *lexicons.StrongRef
			for n := range 33 {
				c, taught := ada.put(b, lexicons.SkillNSID, string(tid(n)), skill(fmt.Sprint("skill ", n), "content"))
				s.apply(c)
				c, made := ada.put(b, lexicons.ClassNSID, string(tid(100+n)), class(fmt.Sprint("class ", n), last, "", taught))
				s.apply(c)
				last = &made
			}
			target := "/xrpc/garden.herbarium.getClass?" + url.Values{"uri": {string(last.URI)}}.Encode()
			for b.Loop() {
				res := httptest.NewRecorder()
				s.server.ServeHTTP(res, httptest.NewRequest(http.MethodGet, target, nil))
				require.Equal(b, http.StatusOK, res.Code)
			}
		})
	}
}
