package pds_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons/xrpc"
)

// scopes are the credentials that every route is tried with, by the name that
// the table below calls them. {did} is the host's.
var scopes = map[string]string{
	"app password":    "com.atproto.appPass",
	"privileged":      "com.atproto.appPassPrivileged",
	"nothing":         "atproto",
	"create":          "repo:garden.engram.agents.observation?action=create",
	"text":            "blob:text/*",
	"create and blob": "repo:garden.engram.agents.observation?action=create blob:*/*",
	"any record":      "repo:*",
	"one method":      "rpc:garden.herbarium.validateRecord?aud={did}%23atproto_pds",
	"views":           "rpc:*?aud={did}%23herbarium_appview",
	"host":            "rpc:*?aud={did}%23atproto_pds",
	"elsewhere":       "rpc:org.example.view.getThings?aud=did:web:view.example.org%23view",
	"e-mail":          "account:email",
	"import":          "account:repo?action=manage",
	"handle":          "identity:handle",
	"identity":        "identity:*",
}

// mainPassword is the name of the credential that is none of these.
const mainPassword = "main password"

// unscopedAnd are the credentials whose kind alone decides, and some more.
func unscopedAnd(more ...string) []string {
	return append([]string{mainPassword, "app password", "privileged"}, more...)
}

func everybody() []string { return append(slices.Collect(maps.Keys(scopes)), mainPassword) }

// ask is one thing that a route may be asked for. In its texts {did} is the
// caller, {other} its neighbour, {host} this host.
type ask struct {
	what    string
	method  string   // instead of the route's path
	params  []string // of a query: names and values
	body    string
	headers []string
	refresh bool // show the refresh token
	alone   bool // ends what it is asked with: nobody else is to use the account
	by      []string
}

// reads are what a method that reads a repo is asked for: the caller's own
// goes with any credential, another's with an rpc: that names the method.
func reads(name string, params ...string) []ask {
	return []ask{
		{what: "its own", params: append([]string{name, "{did}"}, params...), by: everybody()},
		{what: "another's", params: append([]string{name, "{other}"}, params...), by: unscopedAnd("host")},
		{what: "nobody's", params: append([]string{name, "did:web:nobody.test"}, params...), by: unscopedAnd("host")},
	}
}

const (
	anyCID   = "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"
	anyTID   = "3jzfcijpj2z2a"
	carryOn  = "org.example.view.getThings"
	toView   = "did:web:view.example.org#view"
	pngBytes = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
)

// reach says which credential gets past the scope check of which route. Routes
// of class AdminOnly let none of them in, routes of class Open all: the others
// are to be listed.
var reach = map[string][]ask{
	"/xrpc/com.atproto.server.refreshSession": {{refresh: true, by: everybody()}},
	"/xrpc/com.atproto.server.deleteSession":  {{refresh: true, alone: true, by: everybody()}},

	"/xrpc/com.atproto.server.getSession":         {{by: everybody()}},
	"/xrpc/com.atproto.server.checkAccountStatus": {{by: everybody()}},
	"/xrpc/com.atproto.server.getServiceAuth": {
		{what: "a service", params: []string{"aud", toView, "lxm", carryOn}, by: unscopedAnd("elsewhere")},
		{what: "the service, unnamed", params: []string{"aud", "did:web:view.example.org", "lxm", carryOn}, by: unscopedAnd()},
		{what: "any method", params: []string{"aud", toView}, by: unscopedAnd()},
		{what: "messages", params: []string{"aud", toView, "lxm", "chat.bsky.convo.listConvos"}, by: []string{mainPassword, "privileged"}},
		{what: "this host", params: []string{"aud", "{host}#atproto_pds", "lxm", "com.atproto.repo.uploadBlob"}, by: unscopedAnd()},
		{what: "this host's views", params: []string{"aud", "{host}#herbarium_appview", "lxm", "garden.herbarium.getRecord"}, by: unscopedAnd()},
	},
	"/xrpc/com.atproto.server.activateAccount":                {{by: []string{mainPassword}}},
	"/xrpc/com.atproto.server.deactivateAccount":              {{body: `{}`, alone: true, by: []string{mainPassword}}},
	"/xrpc/com.atproto.server.createAppPassword":              {{body: `{"name": "mine"}`, by: []string{mainPassword}}},
	"/xrpc/com.atproto.server.listAppPasswords":               {{by: unscopedAnd()}},
	"/xrpc/com.atproto.server.revokeAppPassword":              {{body: `{"name": "nobody's"}`, by: unscopedAnd()}},
	"/xrpc/com.atproto.server.getAccountInviteCodes":          {{by: []string{mainPassword}}},
	"/xrpc/com.atproto.temp.checkSignupQueue":                 {{by: unscopedAnd("host")}},
	"/xrpc/app.bsky.actor.getPreferences":                     {{by: unscopedAnd("host")}},
	"/xrpc/app.bsky.actor.putPreferences":                     {{body: `{"preferences": []}`, by: unscopedAnd("host")}},
	"/xrpc/com.atproto.identity.getRecommendedDidCredentials": {{by: unscopedAnd("host")}},
	"/xrpc/com.atproto.identity.updateHandle":                 {{body: `{"handle": "{handle}"}`, by: unscopedAnd("handle", "identity")}},

	"/xrpc/com.atproto.identity.requestPlcOperationSignature": {{by: []string{mainPassword, "identity"}}},
	"/xrpc/com.atproto.identity.signPlcOperation":             {{body: `{}`, by: []string{mainPassword, "identity"}}},
	"/xrpc/com.atproto.identity.submitPlcOperation":           {{body: `{"operation": {}}`, by: unscopedAnd("identity")}},
	"/xrpc/garden.herbarium.moveIdentity":                     {{body: `{"endpoint": "nowhere"}`, by: []string{mainPassword, "identity"}}},
	"/xrpc/garden.herbarium.getAccountLimits":                 {{by: unscopedAnd("host")}},
	"/xrpc/com.atproto.server.requestAccountDelete":           {{by: []string{mainPassword}}},

	"/xrpc/com.atproto.repo.createRecord": {
		{what: "an observation", body: `{"repo": "{did}", "collection": "garden.engram.agents.observation", "record": {observation}}`, by: unscopedAnd("create", "create and blob", "any record")},
		{what: "a note", body: `{"repo": "{did}", "collection": "org.example.note", "record": {}}`, by: unscopedAnd("any record")},
	},
	"/xrpc/com.atproto.repo.putRecord": {
		{what: "an observation", body: `{"repo": "{did}", "collection": "garden.engram.agents.observation", "rkey": "` + anyTID + `", "record": {observation}}`, by: unscopedAnd("any record")},
		{what: "a note", body: `{"repo": "{did}", "collection": "org.example.note", "rkey": "one", "record": {}}`, by: unscopedAnd("any record")},
	},
	"/xrpc/com.atproto.repo.deleteRecord": {
		{what: "an observation", body: `{"repo": "{did}", "collection": "garden.engram.agents.observation", "rkey": "` + anyTID + `"}`, by: unscopedAnd("any record")},
		{what: "a note", body: `{"repo": "{did}", "collection": "org.example.note", "rkey": "one"}`, by: unscopedAnd("any record")},
	},
	"/xrpc/com.atproto.repo.applyWrites": {
		{what: "nothing", body: `{"repo": "{did}", "writes": []}`, by: everybody()},
		{what: "a create", body: `{"repo": "{did}", "writes": [{create}]}`, by: unscopedAnd("create", "create and blob", "any record")},
		{what: "an update", body: `{"repo": "{did}", "writes": [{update}]}`, by: unscopedAnd("any record")},
		{what: "a delete", body: `{"repo": "{did}", "writes": [{delete}]}`, by: unscopedAnd("any record")},
		{what: "a delete behind a create", body: `{"repo": "{did}", "writes": [{create}, {delete}]}`, by: unscopedAnd("any record")},
	},
	"/xrpc/com.atproto.repo.importRepo": {{body: "no CAR", headers: []string{"Content-Type", "application/vnd.ipld.car"}, by: []string{mainPassword, "import"}}},
	"/xrpc/com.atproto.repo.uploadBlob": {
		{what: "text", body: "seen", headers: []string{"Content-Type", "text/plain"}, by: unscopedAnd("text", "create and blob")},
		{what: "an image", body: pngBytes, headers: []string{"Content-Type", "image/png"}, by: unscopedAnd("create and blob")},
		{what: "an image that is called text", body: pngBytes, headers: []string{"Content-Type", "text/plain"}, by: unscopedAnd("create and blob")},
		{what: "an image of any type", body: pngBytes, headers: []string{"Content-Type", "*/*"}, by: unscopedAnd("create and blob")},
	},
	"/xrpc/garden.herbarium.validateRecord": {
		{what: "here", body: `{"repo": "{did}", "collection": "org.example.note", "record": {}}`, by: unscopedAnd("one method", "host")},
		{what: "elsewhere", body: `{}`, headers: []string{"Atproto-Proxy", toView}, by: unscopedAnd()},
	},
	"/xrpc/com.atproto.repo.getRecord":        reads("repo", "collection", "org.example.note", "rkey", "one"),
	"/xrpc/com.atproto.repo.listRecords":      reads("repo", "collection", "org.example.note"),
	"/xrpc/com.atproto.repo.describeRepo":     reads("repo"),
	"/xrpc/com.atproto.repo.listMissingBlobs": {{by: everybody()}},
	"/xrpc/com.atproto.sync.getRepo":          reads("did"),
	"/xrpc/com.atproto.sync.getRecord":        reads("did", "collection", "org.example.note", "rkey", "one"),
	"/xrpc/com.atproto.sync.getBlocks":        reads("did", "cids", anyCID),
	"/xrpc/com.atproto.sync.getBlob":          reads("did", "cid", anyCID),
	"/xrpc/com.atproto.sync.getLatestCommit":  reads("did"),
	"/xrpc/com.atproto.sync.getRepoStatus":    reads("did"),
	"/xrpc/com.atproto.sync.listBlobs":        reads("did"),
	"/xrpc/com.atproto.sync.listRepos":        {{by: unscopedAnd("host")}},
	"/xrpc/com.atproto.sync.subscribeRepos":   {{headers: []string{"Upgrade", "websocket"}, by: unscopedAnd("host")}},

	"/xrpc/*": {
		{what: "nowhere", method: carryOn, by: everybody()}, // and are told to name a service
		{what: "a service", method: carryOn, headers: []string{"Atproto-Proxy", toView}, by: unscopedAnd("elsewhere")},
		{what: "another method of it", method: "org.example.view.getMore", headers: []string{"Atproto-Proxy", toView}, by: unscopedAnd()},
		{what: "another service there", method: carryOn, headers: []string{"Atproto-Proxy", "did:web:view.example.org#gone"}, by: unscopedAnd()},
		{what: "messages", method: "chat.bsky.convo.listConvos", headers: []string{"Atproto-Proxy", toView}, by: []string{mainPassword, "privileged"}},
	},
}

// badge is one session of an account.
type badge struct{ access, refresh string }

// badges opens a session with each of the scopes.
func (h *host) badges(t *testing.T, a agent) map[string]badge {
	t.Helper()
	all := map[string]badge{mainPassword: {a.access, a.refresh}}
	for name, scope := range scopes {
		all[name] = h.badge(t, a, name, scope)
	}
	return all
}

// badge opens a session with a new credential of the scope.
func (h *host) badge(t *testing.T, a agent, name, scope string) badge {
	t.Helper()
	scope = strings.ReplaceAll(scope, "{did}", url.QueryEscape(string(h.did)))
	made := h.procedure(t, admin(), "garden.herbarium.admin.createCredential", object{"did": a.did, "name": name, "scope": scope}).ok(t)
	out := h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.did, "password": made.str("password")}).ok(t)
	return badge{"Bearer " + out.str("accessJwt"), "Bearer " + out.str("refreshJwt")}
}

// TestEveryMethodAgainstEveryScope asks every registered route for all that the
// table has, with every credential.
func TestEveryMethodAgainstEveryScope(t *testing.T) {
	others := elsewhere(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	eachHost(t, setting{others: others}, func(t *testing.T, h *host) {
		a, other := h.agent(t, "scout"), h.agent(t, "neighbour")
		shared := h.badges(t, a)
		for i, route := range h.server.Routes() {
			asks, listed := reach[route.Path]
			switch {
			case route.Access == xrpc.AdminOnly:
				asks, listed = []ask{{}}, true
			case route.Access == xrpc.Open && !listed:
				asks, listed = []ask{{by: everybody()}}, true
			}
			require.True(t, listed, "%s is not in the table reach: say which credentials get in", route.Path)
			for j, ask := range asks {
				t.Run(strings.TrimSpace(route.Verb+" "+route.Path+" "+ask.what), func(t *testing.T) {
					caller, badges := a, shared
					if ask.alone {
						caller = h.agent(t, fmt.Sprintf("alone%d-%d", i, j))
						badges = h.badges(t, caller)
					}
					ask.send(t, h, route, caller, other, badges[mainPassword]) // what can be made once is there then
					full := ask.send(t, h, route, caller, other, badges[mainPassword])
					for name, shown := range badges {
						r := ask.send(t, h, route, caller, other, shown)
						require.Equal(t, slices.Contains(ask.by, name), !stopped(t, r), "with %q: %d %s", name, r.Status, r.Body)
						if slices.Contains(ask.by, name) {
							// Whoever gets in is served as the account itself is.
							require.Equal(t, full.Status, r.Status, "with %q: %s, and with the main password: %s", name, r.Body, full.Body)
						}
					}
				})
			}
		}
	})
}

// stopped reports whether a credential was told that it does not reach so far.
func stopped(t *testing.T, r reply) bool {
	t.Helper()
	if r.Status < 400 || len(r.Body) == 0 || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return r.Status == 401 || r.Status == 403
	}
	name := r.object(t).str("error")
	return r.Status == 403 || name == "InvalidToken"
}

func (a ask) send(t *testing.T, h *host, route xrpc.RouteInfo, caller, other agent, shown badge) reply {
	t.Helper()
	seen, err := json.Marshal(observed("seen by " + shown.access[len(shown.access)-8:]))
	require.NoError(t, err)
	const write = `{"$type": "com.atproto.repo.applyWrites#%s", "collection": "garden.engram.agents.observation"%s}`
	fill := strings.NewReplacer(
		"{create}", fmt.Sprintf(write, "create", `, "value": `+string(seen)),
		"{update}", fmt.Sprintf(write, "update", `, "rkey": "`+anyTID+`", "value": `+string(seen)),
		"{delete}", fmt.Sprintf(write, "delete", `, "rkey": "`+anyTID+`"`),
		"{observation}", string(seen),
		"{did}", caller.did, "{handle}", caller.handle, "{other}", other.did, "{host}", string(h.did),
	)
	path := strings.TrimSuffix(route.Path, "*")
	if a.method != "" {
		path = "/xrpc/" + a.method
	}
	values := url.Values{}
	for i := 0; i+1 < len(a.params); i += 2 {
		values.Add(a.params[i], fill.Replace(a.params[i+1]))
	}
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	verb, credential := route.Verb, shown.access
	if verb == "" {
		verb = http.MethodGet
	}
	if a.refresh {
		credential = shown.refresh
	}
	if a.body == "" {
		return h.do(t, verb, path, credential, nil, a.headers...)
	}
	headers := append([]string{"Content-Type", "application/json"}, a.headers...)
	return h.do(t, verb, path, credential, strings.NewReader(fill.Replace(a.body)), headers...)
}
