package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/config"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// The names and defaults that DESIGN.md section 1 fixes.
func TestDefaults(t *testing.T) {
	c, err := config.Load(config.Input{})
	require.NoError(t, err)
	require.Equal(t, "./data", c.DataDir)
	require.Equal(t, "127.0.0.1:2583", c.Listen)
	require.Equal(t, "http://localhost:2583", c.PublicURL.String())
	require.Equal(t, syntax.DID("did:web:localhost%3A2583"), c.ServiceDID)
	require.Equal(t, []string{".test"}, c.HandleDomains)
	require.Equal(t, config.IdentityWeb, c.Identity)
	require.Equal(t, "sqlite:./data/pds.db", c.PDSDB.Reveal())
	require.Equal(t, "sqlite:./data/appview.db", c.AppviewDB.Reveal())
	require.Equal(t, "dir:./data/blobs", c.Blobs)
	require.Equal(t, config.VisibilityTeam, c.Visibility)
	require.Equal(t, config.InvitesRequired, c.Invites)
	require.True(t, c.RateLimits)
	require.Equal(t, 72*time.Hour, c.EventRetention)
	require.Equal(t, config.KeyP256, c.KeyType)
	require.Empty(t, c.MetricsListen)
	require.Empty(t, c.TrustedProxies)
	require.False(t, c.DevLoopback)
	require.False(t, c.AdminPassword.IsSet())
	require.Nil(t, c.PLCURL)
}

func TestNamesOfTheInterfaceExist(t *testing.T) {
	names := map[string]bool{}
	for _, f := range config.Fields() {
		require.False(t, names[f.Name], "%s twice", f.Name)
		require.NotEmpty(t, f.Doc, f.Name)
		names[f.Name] = true
	}
	for _, name := range strings.Fields(`DATA_DIR LISTEN PUBLIC_URL HANDLE_DOMAINS IDENTITY PLC_URL PDS_DB APPVIEW_DB BLOBS
		BLOB_LIMIT VISIBILITY ADMIN_PASSWORD INVITES RATE_LIMITS METRICS_LISTEN LOG_FORMAT LOG_LEVEL TRUSTED_PROXIES SERVICE_DID
		MASTER_KEY JWT_SECRET TEAM_DIDS PUBLIC_COLLECTIONS DEV_LOOPBACK EVENT_RETENTION`) {
		require.True(t, names[name], name)
	}
}

func TestPrecedence(t *testing.T) {
	in := config.Input{
		File:    []byte("listen = \"127.0.0.1:1001\"\nlog_level = \"warn\"\nblob_limit = 5000\nteam_dids = [\"did:web:a.example\", \"did:web:b.example\"]\nDEV_LOOPBACK = true\n"),
		Environ: []string{"HERBARIUM_LISTEN=127.0.0.1:1002", "HERBARIUM_INVITES=open", "HERBARIUM_PLC_URL=", "HERBARIUM_TEST_POSTGRES=x", "HOME=/"},
		Flags:   map[string]string{"listen": "127.0.0.1:1003", "data-dir": "/srv/h"},
	}
	c, err := config.Load(in)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:1003", c.Listen)
	require.Equal(t, "http://localhost:1003", c.PublicURL.String(), "the default follows LISTEN")
	require.Equal(t, slog.LevelWarn, c.LogLevel)
	require.Equal(t, config.ByteSize(5000), c.BlobLimit)
	require.Equal(t, config.InvitesOpen, c.Invites)
	require.Equal(t, "/srv/h/spool", c.SpoolDir)
	require.Equal(t, []syntax.DID{"did:web:a.example", "did:web:b.example"}, c.TeamDIDs)
	require.True(t, c.DevLoopback)
	require.Nil(t, c.PLCURL, "empty is not set")

	sources := map[string]config.Source{}
	for _, v := range c.Values() {
		sources[v.Name] = v.Source
	}
	require.Equal(t, config.FromFlag, sources["LISTEN"])
	require.Equal(t, config.FromEnvironment, sources["INVITES"])
	require.Equal(t, config.FromFile, sources["LOG_LEVEL"])
	require.Equal(t, config.FromDerived, sources["PUBLIC_URL"])
	require.Equal(t, config.FromDefault, sources["VISIBILITY"])
}

func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		in   config.Input
		want string
	}{
		"unknown variable":  {env("HERBARIUM_PUBLIC_URI=https://a.example"), "did you mean HERBARIUM_PUBLIC_URL?"},
		"unknown key":       {config.Input{File: []byte("handle_domain = \".a.example\"")}, `unknown key "handle_domain"; did you mean handle_domains?`},
		"nothing like it":   {env("HERBARIUM_ZZZZZZ=1"), "unknown variable HERBARIUM_ZZZZZZ"},
		"file of no secret": {env("HERBARIUM_LISTEN_FILE=/x"), "unknown variable HERBARIUM_LISTEN_FILE"},
		"bad toml":          {config.Input{File: []byte("= 1")}, "config file"},
		"table in file":     {config.Input{File: []byte("[listen]\nport = 1")}, "config file: listen: want a string"},
		"secret as flag":    {config.Input{Flags: map[string]string{"admin-password": "x"}}, "HERBARIUM_ADMIN_PASSWORD_FILE"},
		"unknown flag":      {config.Input{Flags: map[string]string{"port": "1"}}, "unknown flag --port"},
		"http in public":    {env("HERBARIUM_PUBLIC_URL=http://pds.example.com"), "want https://pds.example.com"},
		"dev in public":     {env("HERBARIUM_PUBLIC_URL=https://pds.example.com", "HERBARIUM_DEV_LOOPBACK=true"), "DEV_LOOPBACK"},
		"plc without url":   {env("HERBARIUM_IDENTITY=plc"), "needs PLC_URL"},
		"plc over http":     {env("HERBARIUM_PLC_URL=http://localhost:2582"), "needs DEV_LOOPBACK"},
		"crawlers in team":  {env("HERBARIUM_CRAWLERS=https://relay.example"), "CRAWLERS needs VISIBILITY=public"},
		"crawler over http": {env("HERBARIUM_VISIBILITY=public", "HERBARIUM_CRAWLERS=https://a.example http://b.example"), "http://b.example: http needs DEV_LOOPBACK"},
		"crawler with path": {env("HERBARIUM_VISIBILITY=public", "HERBARIUM_CRAWLERS=https://a.example/xrpc"), "no path"},
		"page":              {env("HERBARIUM_PRIVACY_POLICY_URL=javascript:alert(1)"), "want a URL"},
		"address":           {env("HERBARIUM_CONTACT_EMAIL=Op <op@example.com>"), "want an address"},
		"one database":      {env("HERBARIUM_PDS_DB=sqlite:a.db", "HERBARIUM_APPVIEW_DB=sqlite:a.db"), "want two"},
		"database form":     {env("HERBARIUM_PDS_DB=mysql://x"), "HERBARIUM_PDS_DB: want sqlite:PATH"},
		"url with path":     {env("HERBARIUM_PUBLIC_URL=https://a.example/pds"), "no path"},
		"size":              {env("HERBARIUM_BLOB_LIMIT=5 parsecs"), "want a size"},
		"size over int64":   {env("HERBARIUM_BLOB_LIMIT=9000000000GiB"), "want a size"},
		"redirect to files": {env("HERBARIUM_BLOB_REDIRECT=5m"), "needs BLOBS=s3://"},
		"redirect for long": {env("HERBARIUM_BLOBS=s3://b", "HERBARIUM_BLOB_REDIRECT=8d"), "want 0s to 168h"},
		"redirect unhashed": {env("HERBARIUM_BLOBS=s3://b", "HERBARIUM_BLOB_REDIRECT=5m", "HERBARIUM_BLOB_VERIFY=on"), "want one of them"},
		"size over a copy":  {env("HERBARIUM_BLOB_LIMIT=6GiB"), "want 5GiB at most"},
		"no size":           {env("HERBARIUM_BLOB_LIMIT=0"), "more than 0"},
		"duration":          {env("HERBARIUM_EVENT_RETENTION=soon"), "want a duration"},
		"network":           {env("HERBARIUM_TRUSTED_PROXIES=10.0.0.0/8 proxy"), `"proxy" is no network`},
		"domain":            {env("HERBARIUM_HANDLE_DOMAINS=.local"), "not allowed"},
		"blobs":             {env("HERBARIUM_BLOBS=ftp://b/p"), "want dir:PATH or s3://BUCKET"},
		"endpoint password": {env("HERBARIUM_BLOBS=s3://b/p?endpoint=http://u:secret@h"), "AWS chain"},
		"s3 credentials":    {env("HERBARIUM_BLOBS=s3://key:secret@b/p"), "AWS chain"},
		"no wildcard":       {env("HERBARIUM_PUBLIC_COLLECTIONS=garden.engram.*"), "whole NSIDs"},
		"public already":    {env("HERBARIUM_VISIBILITY=public", "HERBARIUM_PUBLIC_COLLECTIONS=garden.engram.agents.observation"), "with VISIBILITY=public every collection is; unset it"},
		"word":              {env("HERBARIUM_VISIBILITY=private"), "want team or public"},
		"no trust group":    {env("HERBARIUM_TRUST_GROUPS=did:web:a.test did:web:b.test"), "want NAME=DID"},
		"trusted twice":     {env("HERBARIUM_TRUST_GROUPS=a=did:web:a.test did:web:b.test; b=did:web:a.test did:web:c.test"), "trust group b: did:web:a.test is in a already"},
		"trust name twice":  {env("HERBARIUM_TRUST_GROUPS=a=did:web:a.test; a=did:web:b.test"), "is there twice"},
		"trusted stranger":  {env("HERBARIUM_TRUST_GROUPS=a=bob"), `"bob" is no DID`},
		"idle before":       {env("HERBARIUM_SESSION_ACTIVE=2h", "HERBARIUM_SESSION_IDLE=1h"), "SESSION_IDLE longer"},
		"service did":       {env("HERBARIUM_SERVICE_DID=did:key:z6Mk"), "did:web or did:plc"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(test.in)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func env(variables ...string) config.Input { return config.Input{Environ: variables} }

func TestAllFaultsAtOnce(t *testing.T) {
	_, err := config.Load(env("HERBARIUM_LISTEN=nowhere", "HERBARIUM_LOG_LEVEL=loud", "HERBARIUM_X=1"))
	for _, want := range []string{"HERBARIUM_LISTEN", "HERBARIUM_LOG_LEVEL", "HERBARIUM_X"} {
		require.ErrorContains(t, err, want)
	}
}

func TestSecretsFromFiles(t *testing.T) {
	files := map[string]string{"/run/admin": "hunter2 \n", "/run/empty": "\n"}
	read := func(path string) ([]byte, error) {
		if s, ok := files[path]; ok {
			return []byte(s), nil
		}
		return nil, errors.New("no such file")
	}
	c, err := config.Load(config.Input{Environ: []string{"HERBARIUM_ADMIN_PASSWORD_FILE=/run/admin"}, ReadFile: read})
	require.NoError(t, err)
	require.Equal(t, "hunter2 ", c.AdminPassword.Reveal(), "only the line end is taken off")

	_, err = config.Load(config.Input{Environ: []string{"HERBARIUM_ADMIN_PASSWORD_FILE=/run/empty"}, ReadFile: read})
	require.ErrorContains(t, err, "empty")
	_, err = config.Load(config.Input{Environ: []string{"HERBARIUM_ADMIN_PASSWORD_FILE=/run/none"}, ReadFile: read})
	require.ErrorContains(t, err, "no such file")
	_, err = config.Load(config.Input{Environ: []string{"HERBARIUM_JWT_SECRET_FILE=/run/admin", "HERBARIUM_JWT_SECRET=x"}, ReadFile: read})
	require.ErrorContains(t, err, "both set")
}

func TestValuesOfEachForm(t *testing.T) {
	c, err := config.Load(env("HERBARIUM_BLOBS=s3://bucket/a/b/?endpoint=http://127.0.0.1:9000&region=garage&path_style=true",
		"HERBARIUM_TRUSTED_PROXIES=10.1.2.3/8, ::1 192.0.2.7", "HERBARIUM_EVENT_RETENTION=30d", "HERBARIUM_RATE_LIMITS=off",
		"HERBARIUM_HANDLE_DOMAINS=Agents.Example.com .b.test", "HERBARIUM_PUBLIC_URL=https://PDS.example.com/",
		"HERBARIUM_TRUST_GROUPS=ops = did:plc:abc, did:web:c.test;lab=did:web:a.test did:web:b.test;", "HERBARIUM_SESSION_ACTIVE=10m"))
	require.NoError(t, err)
	require.Equal(t, "s3://bucket/a/b/?endpoint=http://127.0.0.1:9000&region=garage&path_style=true", c.Blobs)
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("192.0.2.7/32")}, c.TrustedProxies)
	require.Equal(t, 30*24*time.Hour, c.EventRetention)
	require.False(t, c.RateLimits)
	require.Equal(t, []string{".agents.example.com", ".b.test"}, c.HandleDomains)
	require.Equal(t, []config.TrustGroup{
		{Name: "lab", Members: []syntax.DID{"did:web:a.test", "did:web:b.test"}}, {Name: "ops", Members: []syntax.DID{"did:plc:abc", "did:web:c.test"}},
	}, c.TrustGroups)
	require.Equal(t, 10*time.Minute, c.SessionActive)
	require.Equal(t, "https://pds.example.com", c.PublicURL.String())
	require.Equal(t, syntax.DID("did:web:pds.example.com"), c.ServiceDID)
}

// Whatever prints a configuration, the secrets in it stay unsaid.
func TestSecretsArePrintedByNothing(t *testing.T) {
	c, err := config.Load(env("HERBARIUM_ADMIN_PASSWORD=hunter2", "HERBARIUM_MASTER_KEY=hunter2", "HERBARIUM_JWT_SECRET=hunter2",
		"HERBARIUM_PDS_DB=postgres://u:hunter2@db/h?sslpassword=hunter2", "HERBARIUM_APPVIEW_DB=postgres://u:hunter2@db/v"))
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, config.WriteValues(&out, c))
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "c", c, "admin", c.AdminPassword, "db", c.PDSDB)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "c", c, "admin", c.AdminPassword, "db", c.PDSDB)
	require.NoError(t, json.NewEncoder(&out).Encode(c))
	hidden := struct{ secret config.Secret }{c.AdminPassword}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c"} {
		for _, value := range []any{c, *c, c.AdminPassword, &c.AdminPassword, c.PDSDB, hidden, []config.Secret{c.JWTSecret}} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
	}
	require.NotContains(t, out.String(), "hunter2")
	require.NotContains(t, out.String(), "68756e74657232")
	require.Contains(t, out.String(), "postgres://u:***@db/h")

	_, err = config.Load(env("HERBARIUM_PDS_DB=postgres://u:hunter2@[db/h", "HERBARIUM_MASTER_KEY=hunter2"))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
}

func TestTemplate(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, config.WriteTemplate(&out))
	golden(t, "template.toml", out.Bytes())
}

func TestShow(t *testing.T) {
	c, err := config.Load(env("HERBARIUM_ADMIN_PASSWORD=hunter2", "HERBARIUM_APPVIEW_DB=postgres://u:hunter2@db/v", "HERBARIUM_LISTEN=:8080"))
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, config.WriteValues(&out, c))
	golden(t, "show.txt", out.Bytes())
}

// The template's own defaults, taken out of their comments, are a valid file
// that changes nothing.
func TestTemplateIsLoadable(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, config.WriteTemplate(&out))
	var file []string
	for _, line := range strings.Split(out.String(), "\n") {
		if key, value, ok := strings.Cut(strings.TrimPrefix(line, "# "), " = "); ok && !strings.ContainsAny(key, " ") && !strings.Contains(value, "{") && key != "service_did" {
			file = append(file, key+" = "+value)
		}
	}
	require.Greater(t, len(file), 20)
	got, err := config.Load(config.Input{File: []byte(strings.Join(file, "\n"))})
	require.NoError(t, err)
	want, err := config.Load(config.Input{})
	require.NoError(t, err)
	values := func(c *config.Config) (out []string) {
		for _, v := range c.Values() {
			out = append(out, v.Name+"="+v.Text)
		}
		return out
	}
	require.Equal(t, values(want), values(got))
}

// Every field of Config is filled by the table. Some exclude each other: each
// has its value in one of two configurations.
func TestEveryFieldHasAKey(t *testing.T) {
	common := []string{"HERBARIUM_CONFIG=/x", "HERBARIUM_PLC_URL=https://plc.example", "HERBARIUM_TEAM_DIDS=did:web:a.example",
		"HERBARIUM_METRICS_LISTEN=:1", "HERBARIUM_TRUSTED_PROXIES=::1", "HERBARIUM_LOG_LEVEL=debug",
		"HERBARIUM_PRIVACY_POLICY_URL=https://a.example/privacy", "HERBARIUM_TERMS_OF_SERVICE_URL=https://a.example/terms", "HERBARIUM_CONTACT_EMAIL=op@a.example",
		"HERBARIUM_ADMIN_PASSWORD=a", "HERBARIUM_MASTER_KEY=b", "HERBARIUM_JWT_SECRET=c", "HERBARIUM_DEV_LOOPBACK=true",
		"HERBARIUM_TRUST_GROUPS=lab=did:web:a.example did:web:b.example"}
	team, err := config.Load(env(append(common, "HERBARIUM_BLOB_VERIFY=true", "HERBARIUM_PUBLIC_COLLECTIONS=org.example.b,org.example.a, org.example.b")...))
	require.NoError(t, err)
	require.Equal(t, []syntax.NSID{"org.example.a", "org.example.b"}, team.PublicCollections)
	public, err := config.Load(env(append(common, "HERBARIUM_BLOBS=s3://b", "HERBARIUM_BLOB_REDIRECT=5m", "HERBARIUM_VISIBILITY=public", "HERBARIUM_CRAWLERS=https://relay.example/, http://localhost:2470")...))
	require.NoError(t, err)
	require.Equal(t, "[https://relay.example http://localhost:2470]", fmt.Sprint(public.Crawlers))
	a, b := reflect.ValueOf(*team), reflect.ValueOf(*public)
	for i := range a.NumField() {
		require.False(t, a.Field(i).IsZero() && b.Field(i).IsZero(), a.Type().Field(i).Name)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("listen = \"a:1\"\nblob_limit = \"5MiB\"", "HERBARIUM_BLOBS=s3://b/p?endpoint=http://x&path_style=on", "HERBARIUM_PDS_DB=postgres://u:p@h/d")
	f.Add("[a]\nb = 1", "HERBARIUM_TRUSTED_PROXIES=::/0", "HERBARIUM_SERVICE_DID=did:web:a%3A1")
	f.Add("event_retention = 1e400", "HERBARIUM_EVENT_RETENTION=99999d", "HERBARIUM_PUBLIC_URL=http://[::1]:2583")
	f.Fuzz(func(t *testing.T, file, a, b string) {
		c, err := config.Load(config.Input{File: []byte(file), Environ: []string{a, b}})
		if err != nil {
			return
		}
		if c.PublicURL == nil || c.ServiceDID == "" || c.BlobLimit <= 0 || c.Blobs == "" {
			t.Fatalf("accepted an incomplete configuration: %v", c.Values())
		}
		if err := config.WriteValues(new(bytes.Buffer), c); err != nil {
			t.Fatal(err)
		}
	})
}
