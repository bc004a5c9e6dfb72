package appview_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

func TestAWriterReadsItsOwnWrite(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		s.team[ada.did] = "https://host.test"
		s.apply(ada.identity("ada.test"))
		written, made := ada.put(t, lexicons.ObservationNSID, string(tid(10)), observation("alpha", nil))
		rev := string(ada.did) + "@" + string(written.Rev)

		name, _ := s.refuse("getObservation", "uri", string(made.URI))
		require.Equal(t, "RecordNotFound", name, "it has not arrived")

		asked := make(chan int)
		go func() { asked <- s.ask("getObservation", "uri", string(made.URI), "minRev", rev).Code }()
		select {
		case code := <-asked:
			t.Fatalf("answered with %d before it arrived", code)
		case <-time.After(50 * time.Millisecond):
		}
		s.apply(written)
		require.Equal(t, http.StatusOK, <-asked)
		require.NotContains(t, s.get("getObservation", "uri", string(made.URI), "minRev", rev), "stale")

		late, _ := ada.put(t, lexicons.ObservationNSID, string(tid(20)), observation("beta", nil))
		answer := s.get("listObservations", "minRev", rev, "minRev", string(ada.did)+"@"+string(late.Rev))
		require.Equal(t, true, answer["stale"], "one of the two never comes")
		require.Len(t, at(t, answer, "observations"), 1)
	})
}

// How far a private repo has come is not for whoever is no member.
func TestNobodyLearnsRevsByWaiting(t *testing.T) {
	t.Parallel()
	s := newSite(t, dbtest.Open(t, migrations.Appview, migrations.SQLite), lexicons.ObservationNSID)
	ada := newAuthor("did:web:ada.test")
	s.team[ada.did] = "https://host.test"
	written, _ := ada.put(t, lexicons.SkillNSID, string(tid(10)), object{"name": "n", "description": "d", "content": "c", "createdAt": "2026-11-30T10:00:01.000Z"})
	s.apply(ada.identity("ada.test"), written)
	s.viewer = xrpc.Viewer{}
	for _, rev := range []string{string(written.Rev), string(tid(1 << 20))} {
		require.Equal(t, true, s.get("listObservations", "minRev", string(ada.did)+"@"+rev)["stale"])
	}
}

func TestMinRevIsRead(t *testing.T) {
	t.Parallel()
	s := newSite(t, dbtest.Open(t, migrations.Appview, migrations.SQLite))
	for name, minRev := range map[string]string{
		"no rev":           "did:web:ada.test",
		"no DID":           "@3mmzzzzzzzz2a",
		"a handle":         "ada.test@3mmzzzzzzzz2a",
		"a rev too short":  "did:web:ada.test@3mm",
		"another @":        "did:web:ada.test@@3mmzzzzzzzz2a",
		"longer than ever": "did:web:" + strings.Repeat("a", 2100) + "@3mmzzzzzzzz2a",
	} {
		res := s.ask("listObservations", "minRev", minRev)
		require.Equal(t, http.StatusBadRequest, res.Code, name)
		require.Contains(t, res.Body.String(), "minRev", name)
	}
	var many []string
	for range 11 {
		many = append(many, "minRev", "did:web:ada.test@3mmzzzzzzzz2a")
	}
	require.Equal(t, http.StatusBadRequest, s.ask("listObservations", many...).Code)
}

// Each query that shows records has it, or a reader could not rely on it.
func TestEachViewWaits(t *testing.T) {
	t.Parallel()
	s := newSite(t, dbtest.Open(t, migrations.Appview, migrations.SQLite))
	without := map[string]bool{
		"describeService": true, "getIndexStatus": true, "getAccountLimits": true,
		"exportList": true, "exportConversation": true, // a file has no place to say that it is stale
	}
	seen := 0
	for m := range s.catalog.Methods() {
		name, ours := strings.CutPrefix(string(m.NSID), "garden.herbarium.")
		if m.Kind != lexicons.Query || !ours || strings.HasPrefix(name, "admin.") || without[name] {
			continue
		}
		seen++
		require.Contains(t, m.Parameters.Properties, "minRev", name)
	}
	require.GreaterOrEqual(t, seen, 13)
}
