package main_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
)

// diagnosis is what doctor says of one thing.
type diagnosis struct{ Check, Verdict, Detail, Repair string }

// doctor runs it with settings that overrule those of the instance.
func (in *instance) doctor(env ...string) (int, []diagnosis) {
	in.t.Helper()
	kept := in.env
	in.env = append(append([]string{}, kept...), env...)
	defer func() { in.env = kept }()
	code, out := in.exitCode("doctor", "--json")
	require.NotContains(in.t, out, adminPassword)
	var all []diagnosis
	for _, line := range strings.Split(out, "\n") {
		var s diagnosis
		if json.Unmarshal([]byte(line), &s) == nil && s.Check != "" {
			require.Equal(in.t, s.Verdict == "ok", s.Repair == "", "each that is not ok has a repair: %s", line)
			all = append(all, s)
		}
	}
	require.NotEmpty(in.t, all, out)
	return code, all
}

func verdicts(all []diagnosis, check string) (list []string) {
	for _, s := range all {
		if s.Check == check {
			list = append(list, s.Verdict)
		}
	}
	return list
}

// Each thing that doctor looks at, right and wrong.
func TestDoctor(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		in := start(t, env...)
		sound := []string{"HERBARIUM_DEV_LOOPBACK=false"}
		code, all := in.doctor(sound...)
		for _, s := range all {
			switch {
			case s.Check == "disk" || s.Check == "bucket":
				// The disk of the machine that tests is its own affair, and so is what a bucket cannot do.
			case env != nil && strings.HasSuffix(s.Check, " database"):
				require.Equal(t, "fail", s.Verdict, "the cluster of the tests runs without fsync")
				require.Contains(t, s.Detail, "power cut")
			default:
				require.Equal(t, "ok", s.Verdict, "%v", s)
			}
		}
		for _, check := range []string{"configuration", "settings", "secrets", "disk", "pds database", "appview database", "bucket", "handles", "server", "did.json", "public URL", "blobs", "index"} {
			require.NotEmpty(t, verdicts(all, check), check)
		}
		if env != nil {
			require.Equal(t, 3, code)
			return
		}
		require.Contains(t, []int{0, 4}, code)
		code, out := in.exitCode("doctor")
		require.Equal(t, 4, code, out)
		require.Contains(t, out, "unset DEV_LOOPBACK")

		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		for name, c := range map[string]struct {
			env   []string
			check string
			want  string
			code  int
		}{
			"dangerous settings":   {[]string{"HERBARIUM_RATE_LIMITS=off"}, "settings", "warn", 4},
			"open to the world":    {[]string{"HERBARIUM_VISIBILITY=public", "HERBARIUM_INVITES=open"}, "settings", "warn", 4},
			"a key that is none":   {[]string{"HERBARIUM_NONSENSE=1"}, "configuration", "fail", 3},
			"no such folder":       {[]string{"HERBARIUM_DATA_DIR=" + filepath.Join(t.TempDir(), "none")}, "disk", "warn", 4},
			"no such database":     {[]string{"HERBARIUM_PDS_DB=sqlite:" + filepath.Join(t.TempDir(), "none.db")}, "pds database", "warn", 4},
			"no database server":   {[]string{"HERBARIUM_APPVIEW_DB=postgres://nobody:hidden-word@127.0.0.1:1/none"}, "appview database", "fail", 3},
			"no bucket":            {[]string{"HERBARIUM_BLOBS=s3://none?endpoint=" + gone.URL + "&path_style=true"}, "bucket", "fail", 3},
			"no PLC directory":     {[]string{"HERBARIUM_IDENTITY=plc", "HERBARIUM_PLC_URL=" + gone.URL, "HERBARIUM_DEV_LOOPBACK=true"}, "PLC directory", "fail", 3},
			"names that lead away": {[]string{"HERBARIUM_HANDLE_DOMAINS=.nowhere.example.com"}, "handles", "warn", 4},
			"no server":            {[]string{"HERBARIUM_LISTEN=127.0.0.1:1"}, "server", "warn", 4},
			"another service":      {[]string{"HERBARIUM_SERVICE_DID=did:web:other.example"}, "did.json", "fail", 3},
			"a URL that is gone":   {[]string{"HERBARIUM_PUBLIC_URL=" + gone.URL, "HERBARIUM_SERVICE_DID=" + in.serviceDID()}, "public URL", "fail", 3},
			"another password":     {[]string{"HERBARIUM_ADMIN_PASSWORD=not this one at all"}, "operator", "fail", 3},
		} {
			t.Run(name, func(t *testing.T) {
				code, all := in.doctor(append(sound, c.env...)...)
				require.Equal(t, c.code, code, "%v", all)
				require.Contains(t, verdicts(all, c.check), c.want, "%v", all)
				for _, s := range all {
					require.NotContains(t, s.Detail, "hidden-word")
				}
			})
		}
	})
}

// serviceDID is the DID of the instance.
func (in *instance) serviceDID() string {
	return "did:web:localhost%3A" + in.url[strings.LastIndexByte(in.url, ':')+1:]
}

// Files that others may open, an old database, and damage that is known of.
func TestDoctorOfASickHost(t *testing.T) {
	dsn := "sqlite:" + t.TempDir() + "/pds.db"
	in := start(t, "HERBARIUM_PDS_DB="+dsn)
	db, err := migrations.Open(t.Context(), migrations.PDS, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for _, statement := range []string{
		"INSERT INTO blob_objects (cid, size, state, touched_at, changed_at) VALUES (x'015512200000000000000000000000000000000000000000000000000000000000000000', 1, 'quarantined', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z')",
		"DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)",
	} {
		require.NoError(t, db.Write.WithContext(t.Context()).Exec(statement).Error)
	}
	for _, line := range in.env {
		if dir, is := strings.CutPrefix(line, "HERBARIUM_DATA_DIR="); is {
			require.NoError(t, os.Chmod(filepath.Join(dir, "secrets"), 0o755))
		}
	}
	code, all := in.doctor("HERBARIUM_DEV_LOOPBACK=false")
	require.Equal(t, 3, code)
	require.Equal(t, []string{"fail"}, verdicts(all, "secrets"))
	require.Equal(t, []string{"fail"}, verdicts(all, "blobs"))
	require.Equal(t, []string{"warn"}, verdicts(all, "pds database"))
}
