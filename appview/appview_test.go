package appview_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/appview"
	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

func TestNewChecksItsConfig(t *testing.T) {
	t.Parallel()
	good := appview.Config{
		Index: &index.Index{}, Directory: hosts{}, Arrivals: arrivals{},
		Service: appview.Service{DID: "did:web:host.test", PublicURL: "https://host.test"},
	}
	_, err := appview.New(good)
	require.NoError(t, err)
	for name, spoil := range map[string]func(*appview.Config){
		"no index":               func(c *appview.Config) { c.Index = nil },
		"no directory":           func(c *appview.Config) { c.Directory = nil },
		"no arrivals":            func(c *appview.Config) { c.Arrivals = nil },
		"no service did":         func(c *appview.Config) { c.Service.DID = "" },
		"relative public url":    func(c *appview.Config) { c.Service.PublicURL = "host.test" },
		"idle before active":     func(c *appview.Config) { c.ActiveWithin, c.IdleWithin = time.Hour, time.Minute },
		"active for no time":     func(c *appview.Config) { c.ActiveWithin = time.Nanosecond },
		"another url scheme":     func(c *appview.Config) { c.Service.PublicURL = "ftp://host.test" },
		"a handle for a service": func(c *appview.Config) { c.Service.DID = "host.test" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := good
			spoil(&bad)
			_, err := appview.New(bad)
			require.Error(t, err)
		})
	}
}

// The harness must see what it is there to see.
func TestHarnessSeesMisfits(t *testing.T) {
	t.Parallel()
	catalog, err := lexicons.Load()
	require.NoError(t, err)
	good := `{"findings":[{"code":"x","severity":"info","path":"","message":"m"}]}`
	require.Empty(t, misfits(catalog, "listFindings", []byte(good)))
	for name, body := range map[string]string{
		"a required field is missing": `{"findings":[{"code":"x","severity":"info","path":""}]}`,
		"a field of another type":     `{"findings":[{"code":1,"severity":"info","path":"","message":"m"}]}`,
		"a field nobody declared":     `{"findings":[{"code":"x","severity":"info","path":"","message":"m","color":"red"}]}`,
		"an unknown value":            `{"findings":[{"code":"x","severity":"grave","path":"","message":"m"}]}`,
		"a bad format":                `{"findings":[{"code":"x","severity":"info","path":"","message":"m","uri":"nowhere"}]}`,
		"not JSON":                    `{`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, misfits(catalog, "listFindings", []byte(body)))
		})
	}
}

func TestEveryQueryAnswersOnAnEmptyIndex(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		for _, method := range []string{"describeService", "listObservations", "listSessions", "listClasses", "listConversations", "listFindings", "listAgents", "getIndexStatus"} {
			out := s.get(method)
			require.NotContains(t, out, "cursor", method)
		}
		for method, collection := range map[string]string{
			"getObservation":        "garden.engram.agents.observation",
			"getObservationHistory": "garden.engram.agents.observation",
			"getSession":            "garden.engram.session",
			"getClass":              "com.publicdomainrelay.temp.agent.class",
			"getConversation":       "click.aligned.chat.session",
			"getRecord":             "any.thing.at.all",
		} {
			name, codes := s.refuse(method, "uri", "at://did:web:nobody.test/"+collection+"/3jzfcijpj2z2a")
			require.Equal(t, "RecordNotFound", name, method)
			require.Equal(t, []string{"not-indexed"}, codes, "%s: nothing known is not the same as nothing there", method)
		}
		status := s.get("getIndexStatus", "did", "did:web:nobody.test")
		require.Equal(t, "not-indexed", at(t, status, "repo", "state"))
	})
}

func TestDescribeServiceIsOpenAndTheRestIsNot(t *testing.T) {
	t.Parallel()
	s := newSite(t, dbtest.Open(t, migrations.Appview, migrations.SQLite))
	s.viewer = xrpc.Viewer{Kind: xrpc.Anonymous}
	for _, route := range s.server.Routes() {
		if route.NSID == "" {
			continue
		}
		want := xrpc.Published // what shows records
		switch route.NSID {
		case "garden.herbarium.describeService":
			want = xrpc.Open
		case "garden.herbarium.getIndexStatus": // tells of the whole index
			want = xrpc.Read
		case "garden.herbarium.admin.listQuarantine", "garden.herbarium.admin.revalidate", "garden.herbarium.admin.listTrustGroups",
			"garden.herbarium.admin.putTrustGroup", "garden.herbarium.admin.deleteTrustGroup":
			want = xrpc.AdminOnly
		}
		require.Equal(t, want, route.Access, route.NSID)
	}
}

// A query whose lexicon is here is answered here, and described.
func TestEveryQueryWithALexiconIsRegistered(t *testing.T) {
	t.Parallel()
	s := newSite(t, dbtest.Open(t, migrations.Appview, migrations.SQLite))
	want := []any{
		"garden.herbarium.verifyCitations", // a procedure, for a draft comes in a body
		"garden.herbarium.subscribeChanges",
	}
	for m := range s.catalog.Methods() {
		if m.NSID == "garden.herbarium.getAccountLimits" { // the host's
			continue
		}
		if strings.HasPrefix(string(m.NSID), "garden.herbarium.") && !strings.HasPrefix(string(m.NSID), "garden.herbarium.admin.") && m.Kind == lexicons.Query {
			want = append(want, string(m.NSID))
		}
	}
	require.ElementsMatch(t, want, at(t, s.get("describeService"), "methods"))
}

func TestQuarantinedRecordIsSaidToBeThere(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		bad := observation("no method", nil)
		delete(bad, "method")
		c, made := newAuthor("did:web:ada.test").put(t, lexicons.ObservationNSID, string(tid(1)), bad)
		s.apply(c)
		for _, method := range []string{"getObservation", "getObservationHistory", "getRecord"} {
			name, codes := s.refuse(method, "uri", string(made.URI))
			require.Equal(t, "RecordNotFound", name)
			require.Equal(t, []string{"quarantined"}, codes, method)
		}
		require.Empty(t, at(t, s.get("listObservations"), "observations"))
		s.viewer = xrpc.Viewer{Kind: xrpc.Admin, Member: true}
		record := s.get("getRecord", "uri", string(made.URI))
		require.Equal(t, "quarantined", record["state"])
		require.NotEmpty(t, record["findings"])
	})
}

func TestIndexStatusIsCountedOnceInTwoSeconds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		require.EqualValues(t, 0, at(t, s.get("getIndexStatus"), "journal"))
		chainOfThree(t, s)
		again := s.get("getIndexStatus", "did", "did:web:ada.test")
		require.EqualValues(t, 0, at(t, again, "journal"))
		require.Equal(t, "synced", at(t, again, "repo", "state"), "one repo is looked up each time")
		s.now = s.now.Add(2 * time.Second)
		status := s.get("getIndexStatus")
		require.EqualValues(t, 5, at(t, status, "journal"))
		require.EqualValues(t, 2, at(t, status, "repos", "synced"))
		require.Equal(t, "2026-11-30T12:00:02.000Z", at(t, status, "asOf"))
	})
}
