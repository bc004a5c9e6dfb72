package pds_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"herbarium.garden/appview/index"
	"herbarium.garden/blobstore"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/operator"
	"herbarium.garden/pds/repostore"
	"herbarium.garden/pds/sequencer"
)

const (
	adminPassword = "correct horse battery staple"
	blobLimit     = 1<<20 + 64<<10 // bytes: more than a write waits for
)

// setting is what one test wants of its host.
type setting struct {
	damaged    bool // the test changes the tables by itself: the repos are not checked after it
	visibility xrpc.Visibility
	invites    bool
	teamDIDs   []syntax.DID
	bucket     blobstore.Bucket
	verify     bool          // blobs while they are served
	redirect   time.Duration // of getBlob
	scrub      pds.Scrub
	log        io.Writer // also gets what is logged; nil for nobody
	proxy      *http.Client
	plc        *url.URL                            // accounts are did:plc, created in the directory there
	others     func(*testing.T) identity.Directory // knows DIDs that are not hosted
	dns        account.TXTResolver                 // what DNS says; nothing is asked for .test
	web        http.RoundTripper                   // other hosts
	limits     pds.Limits
	clock      *clock       // of the handlers and of the accounts; the machine's when nil
	index      pds.Index    // beside the host; none when nil
	witness    *index.Index // of repos that are kept elsewhere; none when nil
}

// clock is a time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Now().Truncate(time.Second)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// host is a whole repo host behind real HTTP.
type host struct {
	url      string
	did      syntax.DID
	server   *xrpc.Server
	pds      *pds.PDS
	accounts *account.Store
	repos    *repostore.Store
	events   *sequencer.Sequencer
	db       *migrations.DB
	others   identity.Directory
	bucket   blobstore.Bucket

	filesSent atomic.Int64 // files that connections were handed to send
}

// watchedListener counts the files that its connections send.
type watchedListener struct {
	net.Listener
	files *atomic.Int64
}

func (l watchedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return watchedConn{conn.(*net.TCPConn), l.files}, nil
}

type watchedConn struct {
	*net.TCPConn
	files *atomic.Int64
}

// ReadFrom is where net/http leaves a body to the kernel, if it is a file.
func (c watchedConn) ReadFrom(r io.Reader) (int64, error) {
	part, ok := r.(*io.LimitedReader)
	if ok {
		if _, file := part.R.(*os.File); file {
			c.files.Add(1)
		}
	}
	return c.TCPConn.ReadFrom(r)
}

// eachHost runs fn against a fresh host on each database.
func eachHost(t *testing.T, set setting, fn func(t *testing.T, h *host)) {
	t.Helper()
	t.Parallel()
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		t.Helper()
		fn(t, newHost(t, db, set))
	})
}

func newHost(t *testing.T, db *migrations.DB, set setting) *host {
	t.Helper()
	listening := httptest.NewUnstartedServer(nil)
	address := listening.Listener.Addr().String()
	port := address[strings.LastIndexByte(address, ':')+1:]
	h := &host{url: "http://" + address, did: syntax.DID("did:web:localhost%3A" + port), db: db}
	listening.Listener = watchedListener{listening.Listener, &h.filesSent}
	public, err := url.Parse("http://localhost:" + port)
	require.NoError(t, err)
	if set.visibility == "" {
		set.visibility = xrpc.Team
	}
	if set.bucket == nil {
		set.bucket = blobstore.NewMemory()
	}
	h.bucket = set.bucket
	secrets, err := account.LoadOrCreateSecrets(filepath.Join(t.TempDir(), "secrets"), account.GivenSecrets{AdminPassword: adminPassword})
	require.NoError(t, err)
	now := time.Now
	if set.clock != nil {
		now = set.clock.Now
	}
	identities := account.Web
	if set.plc != nil {
		identities = account.PLC
	}
	h.accounts, err = account.New(account.Config{
		DB: db, Secrets: secrets, PublicURL: public, ServiceDID: h.did, InviteRequired: set.invites,
		Identity: identities, PLCURL: set.plc, Now: now, DevLoopback: true,
	})
	require.NoError(t, err)
	require.NoError(t, h.accounts.EnsureHostKeys(t.Context()))
	h.events, err = sequencer.New(t.Context(), sequencer.Config{DB: db})
	require.NoError(t, err)
	catalog, err := lexicons.Load()
	require.NoError(t, err)
	rules := lexicons.NewRules(catalog, lexicons.Settings{BlobLimit: blobLimit})
	h.repos, err = repostore.New(repostore.Config{DB: db, Sequencer: h.events, Rules: rules, Keys: h.accounts, Now: now})
	require.NoError(t, err)
	blobs, err := blobstore.New(blobstore.Config{Bucket: set.bucket, SpoolDir: t.TempDir(), Limit: blobLimit})
	require.NoError(t, err)
	network := account.DirectoryConfig{Accounts: h.accounts, PLCURL: set.plc, DevLoopback: true, Listener: address, Resolver: set.dns, Transport: set.web}
	directory, err := account.NewDirectory(network)
	require.NoError(t, err)
	handles, err := account.NewHandleResolver(network)
	require.NoError(t, err)
	if set.others != nil {
		h.others = set.others(t)
		directory = firstOf{directory, h.others}
	}
	var lines io.Writer = testLog{t}
	if set.log != nil {
		lines = io.MultiWriter(lines, set.log)
	}
	quiet := slog.New(slog.NewTextHandler(lines, nil))
	audit, err := operator.NewLog(db, now)
	require.NoError(t, err)
	var foresight func(context.Context, syntax.DID, *lexicons.Record) (lexicons.Snapshot, error)
	if set.witness != nil {
		foresight = func(ctx context.Context, did syntax.DID, record *lexicons.Record) (lexicons.Snapshot, error) {
			snap, err := set.witness.Foresight(ctx, did, record)
			if errors.Is(err, index.ErrNotFound) {
				return nil, nil
			}
			return snap, err
		}
	}
	host, err := pds.New(pds.Config{
		PublicURL: public, ServiceDID: h.did, HandleDomains: []string{".test"}, Visibility: set.visibility,
		InviteRequired: set.invites, TeamDIDs: set.teamDIDs, DevLoopback: true, Limits: set.limits, VerifyBlobs: set.verify, BlobRedirect: set.redirect, Scrub: set.scrub, Version: "test",
		Links: pds.Links{PrivacyPolicy: "https://example.org/privacy"}, Contact: pds.Contact{Email: "operator@example.org"},
	}, pds.Deps{
		DB: db, Accounts: h.accounts, Repos: h.repos, Events: h.events, Blobs: blobs, Rules: rules,
		Audit: audit, Index: set.index, Foresight: foresight, Directory: directory, Handles: handles, IsAdminPassword: secrets.IsAdminPassword, Log: quiet, Now: now, ProxyClient: set.proxy,
	})
	require.NoError(t, err)
	h.server, err = xrpc.New(xrpc.Config{
		Catalog: catalog, Authenticator: host.Authenticator(), Visibility: set.visibility, ServiceDID: h.did, Log: quiet, Admit: host.Admit, Audit: host.Audit,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, // tests say where they call from
	})
	require.NoError(t, err)
	require.NoError(t, host.Register(h.server))
	h.pds = host

	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	running, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{h.repos.Run, h.events.Run, h.accounts.Run} {
		running.Go(func() error { return run(ctx) })
	}
	listening.Config.Handler = h.server
	listening.Start()
	t.Cleanup(func() {
		if !set.damaged && !t.Failed() {
			h.isSound(t)
		}
		listening.Close()
		stop()
		if err := running.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a room stopped with %v", err)
		}
	})
	return h
}

// isSound checks the repos: whatever a test has done through the methods, there
// is nothing to be found.
func (h *host) isSound(t *testing.T) {
	t.Helper()
	_, err := h.pds.CheckRepos(context.WithoutCancel(t.Context()), pds.RepoCheck{Sample: 1}, func(f repostore.RepoFault) error {
		t.Errorf("after the test: %v", f)
		return nil
	})
	require.NoError(t, err)
}

// firstOf asks the second directory for what the first does not know.
type firstOf struct {
	identity.Directory
	second identity.Directory
}

func (d firstOf) LookupDID(ctx context.Context, did syntax.DID) (*identity.Identity, error) {
	if found, err := d.second.LookupDID(ctx, did); err == nil {
		return found, nil
	}
	return d.Directory.LookupDID(ctx, did)
}

// testLog shows the log of a host with its test, when that fails.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

// reply is an answer as it came over HTTP.
type reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// do sends a request. credential is the whole Authorization header, "" for none.
func (h *host) do(t *testing.T, verb, path, credential string, body io.Reader, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), verb, h.url+path, body)
	require.NoError(t, err)
	if credential != "" {
		req.Header.Set("Authorization", credential)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return reply{resp.StatusCode, resp.Header, raw}
}

func (h *host) query(t *testing.T, credential, nsid string, params ...string) reply {
	t.Helper()
	values := url.Values{}
	for i := 0; i+1 < len(params); i += 2 {
		values.Add(params[i], params[i+1])
	}
	return h.do(t, http.MethodGet, "/xrpc/"+nsid+"?"+values.Encode(), credential, nil)
}

func (h *host) procedure(t *testing.T, credential, nsid string, body any) reply {
	t.Helper()
	if body == nil {
		return h.do(t, http.MethodPost, "/xrpc/"+nsid, credential, nil)
	}
	raw, ok := body.(string)
	if !ok {
		encoded, err := json.Marshal(body)
		require.NoError(t, err)
		raw = string(encoded)
	}
	return h.do(t, http.MethodPost, "/xrpc/"+nsid, credential, strings.NewReader(raw), "Content-Type", "application/json")
}

// ok reads a JSON answer that must be a success.
func (r reply) ok(t *testing.T) object {
	t.Helper()
	require.Equal(t, http.StatusOK, r.Status, string(r.Body))
	return r.object(t)
}

func (r reply) object(t *testing.T) object {
	t.Helper()
	if len(r.Body) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(r.Body))
	dec.UseNumber()
	var out object
	require.NoError(t, dec.Decode(&out), string(r.Body))
	return out
}

// refused checks the status and name of an error and returns its message.
func (r reply) refused(t *testing.T, status int, name string) string {
	t.Helper()
	require.Equal(t, status, r.Status, string(r.Body))
	body := r.object(t)
	require.Equal(t, name, body.str("error"), string(r.Body))
	require.NotEmpty(t, body.str("message"))
	return body.str("message")
}

type object map[string]any

func (o object) str(path ...string) string {
	s, _ := o.at(path...).(string)
	return s
}

func (o object) at(path ...string) any {
	var v any = map[string]any(o)
	for _, step := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[step]
	}
	return v
}

func (o object) list(path ...string) []any {
	l, _ := o.at(path...).([]any)
	return l
}

// agent is an account with its session.
type agent struct {
	did, handle     string
	access, refresh string // whole Authorization headers
	password        string
}

func admin() string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth("admin", adminPassword)
	return r.Header.Get("Authorization")
}

func (h *host) agent(t *testing.T, name string) agent {
	t.Helper()
	a := agent{handle: name + ".test", password: "password of " + name}
	out := h.procedure(t, admin(), "com.atproto.server.createAccount", map[string]any{"handle": a.handle, "password": a.password}).ok(t)
	a.did = out.str("did")
	a.access, a.refresh = "Bearer "+out.str("accessJwt"), "Bearer "+out.str("refreshJwt")
	require.NotEmpty(t, a.did)
	return a
}

const (
	observation = "garden.engram.agents.observation"
	session     = "garden.engram.session"
	note        = "org.example.note" // no lexicon is known for it
)

// observed is a valid observation with the given text.
func observed(text string) object {
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	return object{
		"$type":      observation,
		"source":     object{"kind": "command", "value": "uname -a"},
		"method":     "shell",
		"observedAt": now, "createdAt": now,
		"text":      text,
		"generator": object{"run": syntax.NewTIDNow(1).String()},
	}
}

func (h *host) create(t *testing.T, a agent, collection string, record any, more ...any) reply {
	t.Helper()
	body := object{"repo": a.did, "collection": collection, "record": record}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	return h.procedure(t, a.access, "com.atproto.repo.createRecord", body)
}

func (h *host) put(t *testing.T, a agent, collection, rkey string, record any, more ...any) reply {
	t.Helper()
	body := object{"repo": a.did, "collection": collection, "rkey": rkey, "record": record}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	return h.procedure(t, a.access, "com.atproto.repo.putRecord", body)
}

func (h *host) delete(t *testing.T, a agent, collection, rkey string, more ...any) reply {
	t.Helper()
	body := object{"repo": a.did, "collection": collection, "rkey": rkey}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	return h.procedure(t, a.access, "com.atproto.repo.deleteRecord", body)
}

func (h *host) apply(t *testing.T, a agent, writes []object, more ...any) reply {
	t.Helper()
	body := object{"repo": a.did, "writes": writes}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	return h.procedure(t, a.access, "com.atproto.repo.applyWrites", body)
}

func creating(collection, rkey string, value any) object {
	w := object{"$type": "com.atproto.repo.applyWrites#create", "collection": collection, "value": value}
	if rkey != "" {
		w["rkey"] = rkey
	}
	return w
}

func updating(collection, rkey string, value any) object {
	return object{"$type": "com.atproto.repo.applyWrites#update", "collection": collection, "rkey": rkey, "value": value}
}

func deleting(collection, rkey string) object {
	return object{"$type": "com.atproto.repo.applyWrites#delete", "collection": collection, "rkey": rkey}
}

// rkeyOf is the record key of an answer with a uri.
func rkeyOf(o object) string { return o.str("uri")[strings.LastIndexByte(o.str("uri"), '/')+1:] }

// rev is the repo's newest rev.
func (h *host) rev(t *testing.T, did string) string {
	t.Helper()
	return h.query(t, admin(), "com.atproto.sync.getLatestCommit", "did", did).ok(t).str("rev")
}

// lastSeq is the seq of the newest event.
func (h *host) lastSeq(t *testing.T) int64 {
	t.Helper()
	seq, err := h.events.Last(t.Context())
	require.NoError(t, err)
	return seq
}

// publicURL is where documents say that the host is.
func (h *host) publicURL() string {
	return "http://" + strings.ReplaceAll(strings.TrimPrefix(string(h.did), "did:web:"), "%3A", ":")
}
