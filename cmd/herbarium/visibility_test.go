package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/auth"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"herbarium.garden/config"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
)

// mode is how open a deployment is.
type mode struct {
	name, visibility, published string
}

var modes = []mode{
	{"team", "team", ""},
	{"team, observations published", "team", "garden.engram.agents.observation"},
	{"public", "public", ""},
}

// deployment is the assembled program with its parts running, and those who
// may come to it.
type deployment struct {
	t       *testing.T
	mode    mode
	service *service
	scout   agentOf // owns what is read
	other   agentOf // of the same host
	scoped  string  // a credential of scout that may create observations
	member  elsewhere
	outside elsewhere
}

// agentOf is an account of the host.
type agentOf struct{ did, token string }

// elsewhere is a DID that another host serves.
type elsewhere struct {
	did syntax.DID
	key atcrypto.PrivateKey
}

// newElsewhere publishes a did:web document on loopback.
func newElsewhere(t *testing.T) elsewhere {
	t.Helper()
	key, err := atcrypto.GeneratePrivateKeyP256()
	require.NoError(t, err)
	public, err := key.PublicKey()
	require.NoError(t, err)
	var document object
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(document)
	}))
	t.Cleanup(server.Close)
	did := "did:web:localhost%3A" + server.URL[strings.LastIndex(server.URL, ":")+1:]
	document = object{"id": did, "verificationMethod": []any{object{
		"id": did + "#atproto", "type": "Multikey", "controller": did, "publicKeyMultibase": public.Multibase(),
	}}}
	return elsewhere{syntax.DID(did), key}
}

// bearer is a fresh service JWT for one call of a method.
func (e elsewhere) bearer(t *testing.T, audience string, method syntax.NSID) string {
	t.Helper()
	token, err := auth.SignServiceAuth(e.did, audience, time.Minute, &method, e.key)
	require.NoError(t, err)
	return "Bearer " + token
}

type object = map[string]any

const operatorPassword = "correct horse battery staple"

// deploy starts the program in a mode; settings are more of its environment, as
// HERBARIUM_NAME=value.
func deploy(t *testing.T, m mode, settings ...string) *deployment {
	t.Helper()
	d := &deployment{t: t, mode: m, member: newElsewhere(t), outside: newElsewhere(t)}
	cfg, err := config.Load(config.Input{Environ: append([]string{
		"HERBARIUM_DATA_DIR=" + t.TempDir(), "HERBARIUM_VISIBILITY=" + m.visibility, "HERBARIUM_PUBLIC_COLLECTIONS=" + m.published,
		"HERBARIUM_TEAM_DIDS=" + string(d.member.did), "HERBARIUM_ADMIN_PASSWORD=" + operatorPassword,
		"HERBARIUM_INVITES=open", "HERBARIUM_RATE_LIMITS=off", "HERBARIUM_DEV_LOOPBACK=true",
	}, settings...)})
	require.NoError(t, err)
	d.service, err = assemble(t.Context(), cfg, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error)
	parts := d.service.parts()
	for _, part := range parts {
		go func() { ended <- part(ctx) }()
	}
	t.Cleanup(func() {
		stop()
		for range parts {
			<-ended
		}
		require.NoError(t, d.service.close())
	})
	d.scout, d.other = d.account("scout.test"), d.account("other.test")
	_, password, err := d.service.accounts.CreateAppPassword(t.Context(), syntax.DID(d.scout.did), account.AppPasswordParams{
		Name: "creates observations", Scope: "repo:garden.engram.agents.observation?action=create",
	})
	require.NoError(t, err)
	session := d.must("", http.MethodPost, "com.atproto.server.createSession", object{"identifier": d.scout.did, "password": password})
	d.scoped = "Bearer " + session["accessJwt"].(string)
	return d
}

func (d *deployment) account(handle string) agentOf {
	d.t.Helper()
	made := d.must("", http.MethodPost, "com.atproto.server.createAccount", object{"handle": handle, "password": "correct-horse-battery"})
	return agentOf{made["did"].(string), "Bearer " + made["accessJwt"].(string)}
}

// send sends a request; credential is the whole Authorization header.
func (d *deployment) send(credential, verb, path string, body []byte, contentType string) *httptest.ResponseRecorder {
	d.t.Helper()
	req := httptest.NewRequestWithContext(d.t.Context(), verb, path, bytes.NewReader(body))
	if credential != "" {
		req.Header.Set("Authorization", credential)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	answer := httptest.NewRecorder()
	d.service.api.ServeHTTP(answer, req)
	return answer
}

// must calls a method that has to succeed.
func (d *deployment) must(credential, verb, method string, in object) object {
	d.t.Helper()
	path, body := "/xrpc/"+method, []byte(nil)
	if verb == http.MethodGet {
		path += "?" + query(in)
	} else {
		var err error
		body, err = json.Marshal(in)
		require.NoError(d.t, err)
	}
	answer := d.send(credential, verb, path, body, "application/json")
	require.Equal(d.t, http.StatusOK, answer.Code, "%s: %s", method, answer.Body)
	var out object
	require.NoError(d.t, json.Unmarshal(answer.Body.Bytes(), &out))
	return out
}

func query(in object) string {
	values := url.Values{}
	for name, value := range in {
		values.Set(name, fmt.Sprint(value))
	}
	return values.Encode()
}

// viewers are those who come, by name: the Authorization header for one call
// of a method.
func (d *deployment) viewers() map[string]func(method syntax.NSID) string {
	always := func(header string) func(syntax.NSID) string { return func(syntax.NSID) string { return header } }
	host := string(d.service.cfg.ServiceDID)
	admin := httptest.NewRequest(http.MethodGet, "/", nil)
	admin.SetBasicAuth("admin", operatorPassword)
	return map[string]func(syntax.NSID) string{
		"nobody":      always(""),
		"other agent": always(d.other.token),
		"owner":       always(d.scout.token),
		"admin":       always(admin.Header.Get("Authorization")),
		"team member": func(m syntax.NSID) string { return d.member.bearer(d.t, host+"#herbarium_appview", m) },
		"scoped":      always(d.scoped),
		"stranger":    func(m syntax.NSID) string { return d.outside.bearer(d.t, host, m) },
	}
}

// gate is who is let in to a route.
type gate string

const (
	toAll       gate = "all"       // in every mode, without a credential
	toReaders   gate = "readers"   // members; anybody when all is public
	toPublished gate = "published" // as readers; anybody when something is published, and to read that alone
	toMembers   gate = "members"   // members, whatever the mode
	toAccounts  gate = "accounts"  // accounts hosted here, by their access token
	toAdmin     gate = "admin"     // the operator
)

// accessOf is the class that a gate must be registered with.
var accessOf = map[gate]xrpc.Access{
	toAll: xrpc.Open, toReaders: xrpc.Read, toPublished: xrpc.Published, toMembers: xrpc.Member, toAccounts: xrpc.AccessToken, toAdmin: xrpc.AdminOnly,
}

// gates has a row for every route of the program that is not on openRoutes. A
// route that is on neither fails the test: say who may use it, and look whether
// what it answers to nobody can show a private record.
var gates = map[string]gate{
	"/xrpc/*": toAccounts, // what is proxied

	"com.atproto.repo.getRecord":                        toPublished,
	"com.atproto.repo.listRecords":                      toPublished,
	"com.atproto.repo.describeRepo":                     toPublished,
	"com.atproto.sync.getBlob":                          toPublished,
	"garden.herbarium.getObservation":                   toPublished,
	"garden.herbarium.getObservationHistory":            toPublished,
	"garden.herbarium.listObservations":                 toPublished,
	"garden.herbarium.exportList":                       toPublished,
	"garden.herbarium.getProvenance":                    toPublished,
	"garden.herbarium.searchObservations":               toPublished,
	"garden.herbarium.searchConversations":              toPublished,
	"garden.herbarium.exportConversation":               toPublished,
	"garden.herbarium.getSession":                       toPublished,
	"garden.herbarium.listSessions":                     toPublished,
	"garden.herbarium.getClass":                         toPublished,
	"garden.herbarium.listClasses":                      toPublished,
	"garden.herbarium.getConversation":                  toPublished,
	"garden.herbarium.listConversations":                toPublished,
	"garden.herbarium.listFindings":                     toPublished,
	"garden.herbarium.getRecord":                        toPublished,
	"garden.herbarium.verifyCitations":                  toPublished,
	"garden.herbarium.getAgent":                         toPublished,
	"garden.herbarium.listAgents":                       toPublished,
	"garden.herbarium.subscribeChanges":                 toPublished,
	"garden.herbarium.getIndexStatus":                   toReaders,
	"com.atproto.sync.getRepo":                          toReaders,
	"com.atproto.sync.getRecord":                        toReaders,
	"com.atproto.sync.getBlocks":                        toReaders,
	"com.atproto.sync.getLatestCommit":                  toReaders,
	"com.atproto.sync.getRepoStatus":                    toReaders,
	"com.atproto.sync.listRepos":                        toReaders,
	"com.atproto.sync.listBlobs":                        toReaders,
	"com.atproto.sync.subscribeRepos":                   toReaders,
	"com.atproto.repo.uploadBlob":                       toMembers,
	"com.atproto.repo.createRecord":                     toAccounts,
	"com.atproto.repo.putRecord":                        toAccounts,
	"com.atproto.repo.deleteRecord":                     toAccounts,
	"com.atproto.repo.applyWrites":                      toAccounts,
	"com.atproto.repo.importRepo":                       toAccounts,
	"com.atproto.repo.listMissingBlobs":                 toAccounts,
	"com.atproto.server.activateAccount":                toAccounts,
	"com.atproto.server.checkAccountStatus":             toAccounts,
	"com.atproto.server.createAppPassword":              toAccounts,
	"com.atproto.server.deactivateAccount":              toAccounts,
	"com.atproto.server.getServiceAuth":                 toAccounts,
	"com.atproto.server.getSession":                     toAccounts,
	"com.atproto.server.listAppPasswords":               toAccounts,
	"com.atproto.server.revokeAppPassword":              toAccounts,
	"com.atproto.identity.getRecommendedDidCredentials": toAccounts,
	"com.atproto.identity.updateHandle":                 toAccounts,
	"com.atproto.temp.checkSignupQueue":                 toAccounts,
	"garden.herbarium.validateRecord":                   toMembers,
	"com.atproto.admin.deleteAccount":                   toAdmin,
	"com.atproto.admin.getAccountInfo":                  toAdmin,
	"com.atproto.admin.getAccountInfos":                 toAdmin,
	"com.atproto.admin.getSubjectStatus":                toAdmin,
	"com.atproto.admin.updateAccountHandle":             toAdmin,
	"com.atproto.admin.updateAccountPassword":           toAdmin,
	"com.atproto.admin.updateSubjectStatus":             toAdmin,
	"com.atproto.server.createInviteCode":               toAdmin,
	"com.atproto.server.createInviteCodes":              toAdmin,
	"garden.herbarium.admin.addLoginKey":                toAdmin,
	"garden.herbarium.admin.listLoginKeys":              toAdmin,
	"garden.herbarium.admin.removeLoginKey":             toAdmin,
	"com.atproto.admin.updateAccountEmail":              toAdmin,
	"com.atproto.admin.getInviteCodes":                  toAdmin,
	"com.atproto.admin.enableAccountInvites":            toAdmin,
	"com.atproto.admin.disableInviteCodes":              toAdmin,
	"com.atproto.admin.disableAccountInvites":           toAdmin,
	"app.bsky.actor.putPreferences":                     toAccounts,
	"app.bsky.actor.getPreferences":                     toAccounts,
	"garden.herbarium.admin.createCredential":           toAdmin,
	"garden.herbarium.admin.listCredentials":            toAdmin,
	"garden.herbarium.admin.rotateCredential":           toAdmin,
	"garden.herbarium.admin.revokeCredential":           toAdmin,
	"garden.herbarium.admin.moveIdentity":               toAdmin,
	"garden.herbarium.admin.listAudit":                  toAdmin,
	"garden.herbarium.admin.listOneTimeTokens":          toAdmin,
	"garden.herbarium.admin.createAgent":                toAdmin,
	"garden.herbarium.admin.getAgent":                   toAdmin,
	"garden.herbarium.admin.listAgents":                 toAdmin,
	"garden.herbarium.admin.updateAgent":                toAdmin,
	"garden.herbarium.admin.disableAgent":               toAdmin,
	"garden.herbarium.admin.enableAgent":                toAdmin,
	"garden.herbarium.admin.deleteAgent":                toAdmin,
	"com.atproto.server.getAccountInviteCodes":          toAccounts,
	"com.atproto.server.requestAccountDelete":           toAccounts,
	"com.atproto.identity.requestPlcOperationSignature": toAccounts,
	"com.atproto.identity.signPlcOperation":             toAccounts,
	"com.atproto.identity.submitPlcOperation":           toAccounts,
	"garden.herbarium.moveIdentity":                     toAccounts,
	"garden.herbarium.getAccountLimits":                 toAccounts,
	"garden.herbarium.admin.getAccountLimits":           toAdmin,
	"garden.herbarium.admin.updateAccountPolicy":        toAdmin,
	"garden.herbarium.admin.getStorageStatus":           toAdmin,
	"garden.herbarium.admin.listStorage":                toAdmin,
	"garden.herbarium.admin.previewPurge":               toAdmin,
	"garden.herbarium.admin.purgeRecord":                toAdmin,
	"garden.herbarium.admin.listPurges":                 toAdmin,
	"garden.herbarium.admin.getPurge":                   toAdmin,
	"garden.herbarium.admin.applyPurges":                toAdmin,
	"garden.herbarium.admin.listBlobSecrets":            toAdmin,
	"garden.herbarium.admin.addLexicon":                 toAdmin,
	"garden.herbarium.admin.removeLexicon":              toAdmin,
	"garden.herbarium.admin.getLexicon":                 toAdmin,
	"garden.herbarium.admin.listLexicons":               toAdmin,
	"garden.herbarium.admin.listQuarantine":             toAdmin,
	"garden.herbarium.admin.revalidate":                 toAdmin,
	"garden.herbarium.admin.listTrustGroups":            toAdmin,
	"garden.herbarium.admin.putTrustGroup":              toAdmin,
	"garden.herbarium.admin.deleteTrustGroup":           toAdmin,
}

// scopeReaches are the methods that take a credential which may only create
// observations: those that tell of its own session and repo, and those that
// judge the whole request, of which there is none here.
var scopeReaches = map[string]bool{
	"garden.herbarium.moveIdentity":           true,
	"com.atproto.repo.importRepo":             true,
	"com.atproto.identity.signPlcOperation":   true,
	"com.atproto.identity.submitPlcOperation": true,
	"/xrpc/*":                               true,
	"com.atproto.server.getSession":         true,
	"com.atproto.server.checkAccountStatus": true,
	"com.atproto.server.getServiceAuth":     true,
	"com.atproto.identity.updateHandle":     true,
	"com.atproto.repo.createRecord":         true,
	"com.atproto.repo.putRecord":            true,
	"com.atproto.repo.deleteRecord":         true,
	"com.atproto.repo.applyWrites":          true,
	"com.atproto.repo.getRecord":            true,
	"com.atproto.repo.listRecords":          true,
	"com.atproto.repo.describeRepo":         true,
	"com.atproto.repo.listMissingBlobs":     true,
	"com.atproto.sync.getRepo":              true,
	"com.atproto.sync.getRecord":            true,
	"com.atproto.sync.getBlocks":            true,
	"com.atproto.sync.getLatestCommit":      true,
	"com.atproto.sync.getRepoStatus":        true,
	"com.atproto.sync.listBlobs":            true,
	"com.atproto.sync.getBlob":              true,
}

// The refusals of the gate, by what their message says.
const (
	admitted     = ""
	needsOne     = "this method needs a credential"
	noMember     = "is not a member of the team here"
	needsToken   = "this method needs the access token"
	operatorOnly = "this method needs the admin's"
	outOfScope   = "the scope of the credential does not reach"
)

// refusal is what the gate must say to a viewer, admitted when it lets it in.
func refusal(name string, g gate, m mode, viewer string) string {
	if viewer == "scoped" { // an owner of little
		if refused := refusal(name, g, m, "owner"); refused != admitted || g == toAll || scopeReaches[name] {
			return refused
		}
		return outOfScope
	}
	open := m.visibility == "public"
	switch g {
	case toAll:
		return admitted
	case toPublished:
		open = open || m.published != ""
	case toMembers, toAccounts, toAdmin:
		open = false
	}
	if open {
		return admitted
	}
	own := viewer == "owner" || viewer == "other agent"
	switch {
	case viewer == "nobody":
		return needsOne
	case g == toAccounts && !own:
		return needsToken
	case g == toAdmin && viewer != "admin":
		return operatorOnly
	case viewer == "stranger" && g != toAdmin:
		return noMember
	}
	return admitted
}

// Every route, in every mode, as everybody. Requests are empty: who asks is
// looked at before what is asked.
func TestWhoMayCall(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, m)
			seen := map[string]bool{}
			for _, route := range d.service.api.(*xrpc.Server).Routes() {
				name := route.Path
				if route.NSID != "" {
					name = string(route.NSID)
				}
				seen[name] = true
				g, classified := gates[name]
				if slices.Contains(openRoutes, route.Path) {
					g, classified = toAll, !classified
				}
				if !assert.True(t, classified, "%s is a new route: who may use it?", name) {
					continue
				}
				require.Equal(t, accessOf[g], route.Access, name)
				for viewer, credential := range d.viewers() {
					d.requireGate(route, viewer, credential, refusal(name, g, m, viewer))
				}
			}
			for name := range gates {
				require.True(t, seen[name], "there is no route %s", name)
			}
		})
	}
}

func (d *deployment) requireGate(route xrpc.RouteInfo, viewer string, credential func(syntax.NSID) string, want string) {
	d.t.Helper()
	verb, path, method := route.Verb, strings.Replace(route.Path, "/xrpc/*", "/xrpc/org.example.unknown", 1), route.NSID
	if verb == "" {
		verb = http.MethodGet
	}
	if method == "" {
		method = "org.example.unknown"
	}
	switch {
	case route.Access == xrpc.Open && method != route.NSID:
		return // a plain page: TestRoutesWithoutACredential
	case path == "/xrpc/com.atproto.server.refreshSession", path == "/xrpc/com.atproto.server.deleteSession":
		return // they judge their token themselves, and end what others need
	case strings.Contains(path, ".subscribe"):
		d.requireStreamGate(path, credential(method), viewer, want)
		return
	}
	var body []byte
	if verb == http.MethodPost {
		body = []byte("[]") // no input of any method
	}
	answer := d.send(credential(method), verb, path, body, "application/json")
	said := answer.Body.String()
	if want != admitted {
		require.Contains(d.t, said, want, "%s %s as %s: %d", verb, path, viewer, answer.Code)
		require.Contains(d.t, []int{400, 401, 403}, answer.Code)
		return
	}
	for _, refused := range []string{needsOne, noMember, needsToken, operatorOnly, outOfScope} {
		require.NotContains(d.t, said, refused, "%s %s as %s", verb, path, viewer)
	}
	require.NotEqual(d.t, http.StatusInternalServerError, answer.Code, "%s %s as %s: %s", verb, path, viewer, said)
}

// requireStreamGate knocks at a subscription as a websocket client does; who is
// let in finds that a recorder is no connection.
func (d *deployment) requireStreamGate(path, credential, viewer, want string) {
	d.t.Helper()
	req := httptest.NewRequestWithContext(d.t.Context(), http.MethodGet, path, nil)
	for name, value := range map[string]string{
		"Authorization": credential, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	answer := httptest.NewRecorder()
	d.service.api.ServeHTTP(answer, req)
	if want != admitted {
		require.Contains(d.t, answer.Body.String(), want, "%s as %s", path, viewer)
		return
	}
	require.NotContains(d.t, []int{401, 403}, answer.Code, "%s as %s: %s", path, viewer, answer.Body)
}
