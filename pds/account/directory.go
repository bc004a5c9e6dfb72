package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/bluesky-social/indigo/util/ssrf"
)

// Bounds of foreign identities.
const (
	identityTimeout   = 8 * time.Second
	maxIdentityAnswer = 256 << 10
	identityCacheSize = 20_000
	identityTTL       = time.Hour
	identityErrorTTL  = time.Minute
	invalidHandleTTL  = 5 * time.Minute
)

// DirectoryConfig is what NewDirectory needs.
type DirectoryConfig struct {
	Accounts *Store
	PLCURL   *url.URL // default https://plc.directory; trusted, so it may be in a private network
	// DevLoopback (development and tests) allows http on loopback: a did:web of
	// localhost%3APORT, and *.test names, which lead to Listener, or
	// NAME.PORT.test to that port.
	DevLoopback bool
	Listener    string            // host:port of this host's own listener
	Resolver    TXTResolver       // of handles; default: Go's own, by the machine's name servers
	Transport   http.RoundTripper // to foreign hosts; default: public addresses, ports 80 and 443 only
}

// NewDirectory makes the identity.Directory that the whole process uses. DIDs
// and handles of this host are answered from the database, as fresh as that;
// all others come over the network, bounded in time and size and cached.
func NewDirectory(cfg DirectoryConfig) (identity.Directory, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	client := cfg.client()
	foreign := &foreignDirectory{
		base: &identity.BaseDirectory{
			PLCURL:     strings.TrimSuffix(plcOrPublic(cfg.PLCURL).String(), "/"),
			HTTPClient: *client,
			UserAgent:  "herbarium",
		},
		handles: newHandleResolver(cfg, client),
		dev:     cfg.DevLoopback,
		client:  *client,
	}
	local := &localDirectory{accounts: cfg.Accounts, foreign: identity.NewCacheDirectory(foreign, identityCacheSize, identityTTL, identityErrorTTL, invalidHandleTTL)}
	foreign.hosted = local.hosted
	return local, nil
}

func (cfg DirectoryConfig) check() error {
	switch {
	case cfg.Accounts == nil:
		return errors.New("identity directory: no accounts")
	case cfg.DevLoopback && cfg.Listener == "":
		return errors.New("identity directory: DevLoopback needs the Listener")
	}
	return nil
}

// client reaches what identities may be read from.
func (cfg DirectoryConfig) client() *http.Client {
	public := cfg.Transport
	if public == nil {
		public = ssrf.PublicOnlyTransport()
	}
	return &http.Client{
		Timeout:       identityTimeout,
		Transport:     &foreignTransport{plc: plcOrPublic(cfg.PLCURL), public: public, direct: http.DefaultTransport, dev: cfg.DevLoopback, listener: cfg.Listener},
		CheckRedirect: fewRedirects,
	}
}

func fewRedirects(_ *http.Request, via []*http.Request) error {
	if len(via) > 3 {
		return errors.New("too many redirects")
	}
	return nil
}

// localDirectory answers for the accounts of this host.
type localDirectory struct {
	accounts *Store
	foreign  identity.Directory
}

var _ identity.Directory = (*localDirectory)(nil)

func (d *localDirectory) LookupDID(ctx context.Context, did syntax.DID) (*identity.Identity, error) {
	if did == d.accounts.cfg.ServiceDID {
		doc, err := d.accounts.ServiceDocument(ctx)
		if err != nil {
			return nil, err
		}
		ident := doc.identity()
		return &ident, nil
	}
	a, err := d.accounts.Get(ctx, did)
	switch {
	case errors.Is(err, ErrNotFound):
		return d.foreign.LookupDID(ctx, did)
	case err != nil:
		return nil, err
	case a.Identity == Own, a.Identity == PLC && !a.Active():
		// An inactive did:plc may have moved: its directory knows.
		return d.elsewhere(ctx, a)
	}
	return d.local(ctx, a)
}

// local answers from the database. The handle is right both ways because both
// ways are our own rows, or, under a domain of others, were right when it was
// taken.
func (d *localDirectory) local(ctx context.Context, a Account) (*identity.Identity, error) {
	doc, err := d.accounts.Document(ctx, a.DID)
	if err != nil {
		return nil, err
	}
	ident := doc.identity()
	ident.Handle = a.Handle // handle.invalid once deleted
	if declared, err := ident.DeclaredHandle(); err != nil || declared != a.Handle {
		ident.Handle = syntax.HandleInvalid // a moved account's handle elsewhere is not ours to confirm
	}
	return &ident, nil
}

// hosted answers for a DID whose document this host has the say of;
// ErrNotFound for any other.
func (d *localDirectory) hosted(ctx context.Context, did syntax.DID) (*identity.Identity, error) {
	a, err := d.accounts.Get(ctx, did)
	if err != nil {
		return nil, err
	}
	if a.Identity == Own || a.Identity == PLC && !a.Active() {
		return nil, ErrNotFound
	}
	return d.local(ctx, a)
}

// elsewhere answers for a DID that has an account here and a document that is
// not ours to say. A handle under our domain is ours to confirm.
func (d *localDirectory) elsewhere(ctx context.Context, a Account) (*identity.Identity, error) {
	found, err := d.foreign.LookupDID(ctx, a.DID)
	if err != nil {
		return nil, err
	}
	if declared, err := found.DeclaredHandle(); err == nil && declared == a.Handle && d.accounts.OwnsDomain(declared) {
		confirmed := *found // the cache shares what it answers
		confirmed.Handle = declared
		return &confirmed, nil
	}
	return found, nil
}

func (d *localDirectory) LookupHandle(ctx context.Context, handle syntax.Handle) (*identity.Identity, error) {
	handle = handle.Normalize()
	did, err := d.accounts.ResolveHandle(ctx, handle)
	if errors.Is(err, ErrNotFound) {
		if d.accounts.OwnsDomain(handle) {
			return nil, fmt.Errorf("%w: %s", identity.ErrHandleNotFound, handle)
		}
		return d.foreign.LookupHandle(ctx, handle)
	}
	if err != nil {
		return nil, err
	}
	ident, err := d.LookupDID(ctx, did)
	if err == nil && ident.Handle != handle {
		err = fmt.Errorf("%w: %s", identity.ErrHandleMismatch, handle)
	}
	return ident, err
}

func (d *localDirectory) Lookup(ctx context.Context, id syntax.AtIdentifier) (*identity.Identity, error) {
	if handle, err := id.AsHandle(); err == nil {
		return d.LookupHandle(ctx, handle)
	}
	did, err := id.AsDID()
	if err != nil {
		return nil, fmt.Errorf("look up identity: %w", err)
	}
	return d.LookupDID(ctx, did)
}

func (d *localDirectory) Purge(ctx context.Context, id syntax.AtIdentifier) error {
	return d.foreign.Purge(ctx, id)
}

// foreignDirectory resolves over the network, with indigo's directory, and adds
// what that lacks. A look-up ends by its own deadline and not with the caller's
// context: the cache in front keeps the outcome for everybody, and one client
// that hung up must not make an identity unknown to all.
type foreignDirectory struct {
	base    *identity.BaseDirectory
	handles *HandleResolver
	hosted  func(ctx context.Context, did syntax.DID) (*identity.Identity, error) // ErrNotFound for a DID that has no account here
	dev     bool
	client  http.Client
}

var _ identity.Directory = (*foreignDirectory)(nil)

// lookupTimeout bounds one look-up: DNS, the handle's file and the document.
const lookupTimeout = 2 * identityTimeout

func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
}

func (d *foreignDirectory) LookupDID(ctx context.Context, did syntax.DID) (*identity.Identity, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	if port, isLocal := strings.CutPrefix(string(did), localWeb); d.dev && isLocal {
		return d.lookupLocalhost(ctx, did, port)
	}
	return d.base.LookupDID(ctx, did)
}

// localWeb starts a did:web on this machine, which indigo refuses.
const localWeb = "did:web:localhost%3A"

// lookupLocalhost resolves a did:web on localhost over http, in development.
func (d *foreignDirectory) lookupLocalhost(ctx context.Context, did syntax.DID, port string) (*identity.Identity, error) {
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return nil, fmt.Errorf("%w: %s names no port", identity.ErrDIDResolutionFailed, did)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost:"+port+"/.well-known/did.json", nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", identity.ErrDIDResolutionFailed, err)
	}
	res, err := d.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", identity.ErrDIDResolutionFailed, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusNotFound {
		return nil, identity.ErrDIDNotFound
	}
	var doc identity.DIDDocument
	if res.StatusCode != http.StatusOK || json.NewDecoder(res.Body).Decode(&doc) != nil || doc.DID != did {
		return nil, fmt.Errorf("%w: %s", identity.ErrDIDResolutionFailed, did)
	}
	ident := identity.ParseIdentity(&doc)
	return &ident, nil
}

// LookupHandle resolves both ways. The DID may have its account here, whose
// document the network need not be asked for.
func (d *foreignDirectory) LookupHandle(ctx context.Context, handle syntax.Handle) (*identity.Identity, error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	did, err := d.handles.Resolve(ctx, handle)
	if err != nil {
		return nil, err
	}
	ident, err := d.hosted(ctx, did)
	if errors.Is(err, ErrNotFound) {
		ident, err = d.LookupDID(ctx, did)
	}
	if err != nil {
		return nil, err
	}
	declared, err := ident.DeclaredHandle()
	if err != nil {
		return nil, err
	}
	if declared != handle.Normalize() {
		return nil, fmt.Errorf("%w: %s", identity.ErrHandleMismatch, handle)
	}
	both := *ident
	both.Handle = declared
	return &both, nil
}

// Lookup is never asked by the cache; it is here for the interface.
func (d *foreignDirectory) Lookup(ctx context.Context, id syntax.AtIdentifier) (*identity.Identity, error) {
	if handle, err := id.AsHandle(); err == nil {
		return d.LookupHandle(ctx, handle)
	}
	did, err := id.AsDID()
	if err != nil {
		return nil, fmt.Errorf("look up identity: %w", err)
	}
	return d.LookupDID(ctx, did)
}

// Purge has nothing to forget.
func (d *foreignDirectory) Purge(context.Context, syntax.AtIdentifier) error { return nil }

// foreignTransport bounds what foreign hosts send and chooses the way to them:
// the PLC directory is configured and trusted, everything else goes to public
// addresses only, except what development allows.
type foreignTransport struct {
	plc            *url.URL
	public, direct http.RoundTripper
	dev            bool
	listener       string
}

func (t *foreignTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	way := t.public
	host := req.URL.Hostname()
	switch {
	case req.URL.Host == t.plc.Host && req.URL.Scheme == t.plc.Scheme:
		way = t.direct
	case t.dev && host == "localhost":
		way = t.direct
	case t.dev && strings.HasSuffix(host, ".test"):
		way = t.direct
		local := req.Clone(req.Context())
		local.Host = req.URL.Host // the name still decides whose document it is
		local.URL.Scheme, local.URL.Host = "http", t.listenerOf(host)
		req = local
	}
	res, err := way.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	res.Body = &boundedBody{ReadCloser: res.Body, left: maxIdentityAnswer}
	return res, nil
}

// listenerOf is where a .test name leads in development: NAME.PORT.test to that
// port of this machine, where another instance has the handle domain .PORT.test,
// and any other name to our own listener.
func (t *foreignTransport) listenerOf(name string) string {
	labels := strings.Split(name, ".")
	if len(labels) < 3 {
		return t.listener
	}
	port := labels[len(labels)-2]
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return t.listener
	}
	return net.JoinHostPort("localhost", port)
}

// boundedBody fails, rather than ends, where a body is too long.
type boundedBody struct {
	io.ReadCloser
	left int64
}

var errAnswerTooLong = errors.New("answer is too long for an identity")

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// Exactly as long as allowed is allowed.
		var one [1]byte
		if n, err := b.ReadCloser.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, errAnswerTooLong
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}
