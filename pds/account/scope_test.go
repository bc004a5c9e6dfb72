package account_test

import (
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
)

var _ xrpc.Grants = (*account.Permissions)(nil)

// The examples of https://atproto.com/specs/permission, and what is near them.
func TestParsePermissions(t *testing.T) {
	for text, want := range map[string]string{
		"repo:app.example.profile": "repo:app.example.profile",
		"repo:app.example.profile?action=create&action=update&action=delete": "repo:app.example.profile?action=create&action=update&action=delete",
		"repo?collection=app.example.profile&collection=app.example.post":    "repo?collection=app.example.profile&collection=app.example.post",
		"repo?collection=app.example.profile":                                "repo:app.example.profile",
		"repo:*":                                                             "repo:*",
		"repo:*?action=delete":                                               "repo:*?action=delete",
		"rpc:app.example.moderation.createReport?aud=*":                      "rpc:app.example.moderation.createReport?aud=%2A",
		"rpc?lxm=*&aud=did:web:api.example.com%23svc_appview":                "rpc:*?aud=did%3Aweb%3Aapi.example.com%23svc_appview",
		"rpc:app.example.get?aud=did:web:api.example.com#svc":                "rpc:app.example.get?aud=did%3Aweb%3Aapi.example.com%23svc",
		"blob:*/*":                             "blob:*/*",
		"blob:Image/PNG":                       "blob:image/png",
		"blob?accept=video/*&accept=text/html": "blob?accept=video%2F%2A&accept=text%2Fhtml",
		"blob:application/vnd.ipld.car+x":      "blob:application/vnd.ipld.car+x",
		"account:email":                        "account:email",
		"account:email?action=read":            "account:email",
		"account?attr=repo&action=manage":      "account:repo?action=manage",
		"identity:handle":                      "identity:handle",
		"identity:*":                           "identity:*",
		"identity:*?":                          "identity:*",
		"atproto":                              "atproto",
		"atproto identity:*":                   "identity:*",
		"blob:*/* repo:* blob:*/*":             "blob:*/* repo:*",
	} {
		t.Run(text, func(t *testing.T) {
			p, err := account.ParsePermissions(text)
			require.NoError(t, err)
			require.Equal(t, want, p.String())
			again, err := account.ParsePermissions(p.String())
			require.NoError(t, err)
			require.Equal(t, p, again, "the canonical form says the same")
		})
	}
}

func TestParsePermissionsRefuses(t *testing.T) {
	for text, repair := range map[string]string{
		"":                                       "separated by single spaces",
		" ":                                      "separated by single spaces",
		"repo:*  blob:*/*":                       "separated by single spaces",
		"repo":                                   "repo:<collection>",
		"repo:":                                  "repo:<collection>",
		"repo:garden.engram.*":                   "named whole",
		"repo:*?action=*":                        "repo:<collection>",
		"repo:app.example.post?action=":          "repo:<collection>",
		"repo:app.example.post?action=read":      "repo:<collection>",
		"repo:app.example.post?Action=create":    "repo:<collection>",
		"repo:app.example.post?collection=a.b.c": "repo:<collection>",
		"Repo:app.example.post":                  "use repo:",
		"blob":                                   "blob:*/*",
		"blob:*/png":                             "blob:*/*",
		"blob:image":                             "blob:*/*",
		"blob:image/":                            "blob:*/*",
		"blob:image/**":                          "blob:*/*",
		"blob:image/*g":                          "blob:*/*",
		"blob?accept=image/a%20b":                "blob:*/*",
		"blob?accept=image/a%3Fb":                "blob:*/*",
		"blob:image/png;charset=x":               "blob:*/*",
		"rpc:*?aud=*":                            "only one may be *",
		"rpc:app.example.get":                    "rpc:<method>",
		"rpc:app.example.get?aud=did:web:a.example":    "<service>",
		"rpc:app.example.get?aud=did:web:a.example%23": "<service>",
		"rpc:app.example.*?aud=did:web:a.example%23s":  "rpc:<method>",
		"rpc:a.b.c?aud=did:web:a.example%23s&aud=*":    "rpc:<method>",
		"account:status":                          "account:email",
		"account:email?action=write":              "account:email",
		"account:email?action=read&action=manage": "account:email",
		"identity:did":                            "identity:handle",
		"include:app.example.authBasics":          "write its permissions out",
		"transition:generic":                      "com.atproto.appPass",
		"com.atproto.appPass repo:*":              "stands alone",
		"com.atproto.access":                      "stands alone",
		"service:app.example.get":                 "use repo:",
		"repo:app.example.post\x00":               "repo:<collection>",
		"repo:ápp.example.post":                   "repo:<collection>",
		"repo:app.example.post?action=%zz":        "repo:<collection>",
		"repo:*\tblob:*/*":                        "repo:<collection>",
		strings.Repeat("repo:* ", 64) + "repo:*":  "64 permissions",
		"repo:" + strings.Repeat("a", 2048):       "2048 bytes",
		// Short as it was written, long as it would be kept.
		"rpc:a.b.c?aud=did:web:a.example%23" + strings.Repeat("/", 1000): "2048 bytes",
	} {
		t.Run(text[:min(len(text), 60)], func(t *testing.T) {
			_, err := account.ParsePermissions(text)
			require.ErrorIs(t, err, account.ErrScope)
			require.ErrorContains(t, err, repair)
			require.Less(t, len(err.Error()), 500)
		})
	}
}

func TestPermissionsDecide(t *testing.T) {
	const view = "did:web:api.example.com#view"
	repo := func(collection syntax.NSID, action string) func(*account.Permissions) bool {
		return func(p *account.Permissions) bool { return p.Repo(collection, action) }
	}
	blob := func(mediaType string) func(*account.Permissions) bool {
		return func(p *account.Permissions) bool { return p.Blob(mediaType) }
	}
	rpc := func(method syntax.NSID, audience string) func(*account.Permissions) bool {
		return func(p *account.Permissions) bool { return p.RPC(method, audience) }
	}
	attr := func(attribute, action string) func(*account.Permissions) bool {
		return func(p *account.Permissions) bool { return p.Account(attribute, action) }
	}
	identity := func(attribute string) func(*account.Permissions) bool {
		return func(p *account.Permissions) bool { return p.Identity(attribute) }
	}
	for _, tc := range []struct {
		scope, name string
		ask         func(*account.Permissions) bool
		want        bool
	}{
		{"repo:a.b.c?action=create", "create", repo("a.b.c", "create"), true},
		{"repo:a.b.c?action=create", "update", repo("a.b.c", "update"), false},
		{"repo:a.b.c?action=create", "delete", repo("a.b.c", "delete"), false},
		{"repo:a.b.c?action=create", "no action", repo("a.b.c", ""), false},
		{"repo:a.b.c?action=create", "another collection", repo("a.b.d", "create"), false},
		{"repo:a.b.c?action=create", "a longer name", repo("a.b.c.d", "create"), false},
		{"repo:a.b.c", "any action", repo("a.b.c", "delete"), true},
		{"repo:*?action=create", "any collection", repo("x.y.z", "create"), true},
		{"repo:*?action=create", "any collection, delete", repo("x.y.z", "delete"), false},
		{"repo:a.b.c?action=create repo:a.b.d?action=delete", "not crosswise", repo("a.b.d", "create"), false},
		{"repo:*", "blobs are another resource", blob("image/png"), false},

		{"blob:*/*", "all", blob("image/png"), true},
		{"blob:*/*", "nonsense too", blob("nonsense"), true},
		{"blob:image/*", "a kind", blob("image/png"), true},
		{"blob:image/*", "case and parameters", blob("IMAGE/png; q=1"), true},
		{"blob:image/*", "another kind", blob("imagex/png"), false},
		{"blob:image/*", "nonsense", blob("image/"), false},
		{"blob:text/plain", "itself", blob("text/plain; charset=utf-8"), true},
		{"blob:text/plain", "a sibling", blob("text/html"), false},
		{"blob:text/plain", "nothing", blob(""), false},

		{"rpc:a.b.c?aud=" + view, "itself", rpc("a.b.c", view), true},
		{"rpc:a.b.c?aud=" + view, "another method", rpc("a.b.d", view), false},
		{"rpc:a.b.c?aud=" + view, "every method", rpc("*", view), false},
		{"rpc:a.b.c?aud=" + view, "another service", rpc("a.b.c", "did:web:api.example.com#chat"), false},
		{"rpc:a.b.c?aud=" + view, "no service", rpc("a.b.c", "did:web:api.example.com"), false},
		{"rpc:*?aud=" + view, "any method", rpc("x.y.z", view), true},
		{"rpc:*?aud=" + view, "every method", rpc("*", view), true},
		{"rpc:*?aud=" + view, "another host", rpc("x.y.z", "did:web:other.example.com#view"), false},
		{"rpc:a.b.c?aud=*", "anybody", rpc("a.b.c", "did:web:x.example#y"), true},
		{"rpc:a.b.c?aud=*", "another method of anybody", rpc("a.b.d", "did:web:x.example#y"), false},

		{"account:email", "read", attr("email", "read"), true},
		{"account:email", "manage", attr("email", "manage"), false},
		{"account:email", "another attribute", attr("repo", "read"), false},
		{"account:email?action=manage", "managing includes reading", attr("email", "read"), true},
		{"account:repo?action=manage", "manage", attr("repo", "manage"), true},

		{"identity:handle", "handle", identity("handle"), true},
		{"identity:handle", "everything", identity("*"), false},
		{"identity:*", "handle", identity("handle"), true},
		{"identity:*", "everything", identity("*"), true},

		{"atproto", "repo", repo("a.b.c", "create"), false},
		{"atproto", "blob", blob("text/plain"), false},
		{"atproto", "rpc", rpc("a.b.c", view), false},
		{"atproto", "account", attr("email", "read"), false},
		{"atproto", "identity", identity("handle"), false},
	} {
		t.Run(tc.scope+", "+tc.name, func(t *testing.T) {
			p, err := account.ParsePermissions(tc.scope)
			require.NoError(t, err)
			require.Equal(t, tc.want, tc.ask(p))
		})
	}
}

func FuzzParsePermissions(f *testing.F) {
	for _, seed := range []string{
		"atproto", "repo:a.b.c?action=create blob:*/*", "rpc:*?aud=did:web:x.example%23y", "repo?collection=a.b.c&collection=*",
		"account:repo?action=manage identity:*", "blob?accept=image/a%2Fb", "rpc?lxm=a.b.c&lxm=*&aud=did:web:x%23%00", "include:a.b.c", "::??&&==",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := account.ParsePermissions(text)
		if err != nil {
			require.ErrorIs(t, err, account.ErrScope)
			return
		}
		require.LessOrEqual(t, len(p.String()), 2048)
		again, err := account.ParsePermissions(p.String())
		require.NoError(t, err)
		require.Equal(t, p, again)
		require.False(t, p.RPC("*", "*") && !strings.Contains(text, "rpc"))
		require.False(t, p.Repo("x.y.z", "create") && !strings.Contains(text, "repo"))
	})
}
