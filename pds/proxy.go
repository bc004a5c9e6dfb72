package pds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons/xrpc"
)

// The services that our own DID document names, as DID URL fragments.
const (
	pdsService     = "atproto_pds"
	appviewService = "herbarium_appview"
)

// Bounds on what is carried to and from another service.
const (
	proxyTimeout     = 60 * time.Second // the whole exchange
	proxyMaxResponse = 64 << 20         // bytes of an upstream body
	proxyMaxRequest  = 4 << 20          // bytes of a client's body
)

// headers that pass to the service, and back from it. Everything else stays
// here: the client's Authorization and cookies above all.
var (
	proxiedRequestHeaders  = []string{"Accept", "Accept-Encoding", "Accept-Language", "Atproto-Accept-Labelers", "Content-Encoding", "Content-Type"}
	proxiedResponseHeaders = []string{"Atproto-Content-Labelers", "Atproto-Repo-Rev", "Content-Encoding", "Content-Language", "Content-Length", "Content-Type", "Retry-After"}
)

// protectedMethods concern the account at its own host. They are never asked
// of another service in the account's name, even where we do not serve them.
var protectedMethods = []syntax.NSID{
	"com.atproto.admin.sendEmail",
	"com.atproto.identity.requestPlcOperationSignature",
	"com.atproto.identity.signPlcOperation",
	"com.atproto.identity.submitPlcOperation",
	"com.atproto.identity.updateHandle",
	"com.atproto.repo.importRepo",
	"com.atproto.server.activateAccount",
	"com.atproto.server.confirmEmail",
	"com.atproto.server.createAppPassword",
	"com.atproto.server.deactivateAccount",
	"com.atproto.server.deleteAccount",
	"com.atproto.server.getAccountInviteCodes",
	"com.atproto.server.getServiceAuth",
	"com.atproto.server.listAppPasswords",
	"com.atproto.server.requestAccountDelete",
	"com.atproto.server.requestEmailConfirmation",
	"com.atproto.server.requestEmailUpdate",
	"com.atproto.server.revokeAppPassword",
	"com.atproto.server.updateEmail",
}

// newProxyClient makes the client that dials services which users name, and
// relays. It reaches public addresses only, and loopback too when devLoopback
// is set, and follows no redirect.
func newProxyClient(devLoopback bool) *http.Client {
	transport := outwardTransport(devLoopback)
	transport.DisableCompression = true // bodies pass as they are
	transport.ResponseHeaderTimeout = proxyTimeout
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// isHostMethod tells what a host serves of itself: it is answered here whatever
// atproto-proxy says.
func isHostMethod(method syntax.NSID) bool {
	return strings.HasPrefix(string(method), "com.atproto.") || method == getPreferencesMethod || method == putPreferencesMethod
}

// namesAnotherService tells calls that are to leave although the method is
// served here: those to the index of another Herbarium. A header that names a
// service of our own changes nothing, for we are that service; one that names
// none that there is goes the same way, to be refused.
func (p *PDS) namesAnotherService(call *xrpc.Call) bool {
	header := call.Request.Header.Get("Atproto-Proxy")
	did, service, _ := strings.Cut(header, "#")
	ours := did == string(p.cfg.ServiceDID) && (service == pdsService || service == appviewService)
	return header != "" && !ours && !isHostMethod(call.NSID)
}

// proxy answers a method that is not served here by asking the service that
// the header atproto-proxy names, in the name of the caller.
func (p *PDS) proxy(ctx context.Context, call *xrpc.Call) error {
	did, service, err := p.proxyTarget(call)
	if err != nil {
		return err
	}
	claims := serviceClaims{Audience: string(did), Method: call.NSID, Expires: p.now().Add(serviceTokenDefault).Unix()}
	if err := p.mayGetServiceAuth(call.Viewer, claims, string(did)+"#"+service); err != nil {
		return err
	}
	endpoint, err := p.serviceEndpoint(ctx, did, service)
	if err != nil {
		return err
	}
	token, err := p.serviceToken(ctx, call.Viewer.DID, claims)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, proxyTimeout)
	defer cancel()
	req, err := proxiedRequest(ctx, call, endpoint, token)
	if err != nil {
		return err
	}
	resp, err := p.proxyClient.Do(req)
	if err != nil {
		return upstreamError(ctx, err, did, service)
	}
	defer func() { _ = resp.Body.Close() }()
	return copyUpstream(call.Writer, resp)
}

// proxyTarget reads the header atproto-proxy and refuses what is not to leave.
func (p *PDS) proxyTarget(call *xrpc.Call) (syntax.DID, string, error) {
	header := call.Request.Header.Get("Atproto-Proxy")
	if header == "" {
		return "", "", xrpc.InvalidRequest("No service configured for %s, which is not served here; name one in the header atproto-proxy: <did>#<service>", call.NSID)
	}
	rawDID, service, ok := strings.Cut(header, "#")
	did, err := syntax.ParseDID(rawDID)
	if err != nil || !ok || service == "" {
		return "", "", xrpc.InvalidRequest("the header atproto-proxy is not of the form <did>#<service>; this host's are %[1]s#%[2]s and %[1]s#%[3]s", p.cfg.ServiceDID, pdsService, appviewService)
	}
	if did == p.cfg.ServiceDID && service != pdsService && service != appviewService {
		return "", "", xrpc.InvalidRequest("%s has no service #%s; its services are #%s and #%s", did, service, pdsService, appviewService)
	}
	if did == p.cfg.ServiceDID {
		return "", "", xrpc.Errorf(http.StatusNotImplemented, "MethodNotImplemented", "%s is not served here; name another service in atproto-proxy", call.NSID)
	}
	return did, service, nil
}

// serviceEndpoint finds where a service is, in the DID document of did. The
// result has no path, query or userinfo.
func (p *PDS) serviceEndpoint(ctx context.Context, did syntax.DID, service string) (*url.URL, error) {
	ident, err := p.directory.LookupDID(ctx, did)
	if err != nil {
		if errors.Is(err, identity.ErrDIDNotFound) {
			return nil, xrpc.InvalidRequest("the DID in atproto-proxy is not known; check it")
		}
		return nil, upstreamError(ctx, err, did, service)
	}
	raw := ident.GetServiceEndpoint(service)
	if raw == "" {
		return nil, xrpc.InvalidRequest("the DID document of %s has no service #%s; check the header atproto-proxy", did, service)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil || !mayDial(u, p.cfg.DevLoopback) {
		return nil, xrpc.InvalidRequest("the endpoint of service #%s of %s is not a public https URL; its owner must mend the DID document", service, did)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

func mayDial(u *url.URL, devLoopback bool) bool {
	return u.Scheme == "https" && u.Host != "" || devLoopback && u.Scheme == "http" && isLoopbackHost(u.Hostname())
}

func isLoopbackHost(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// proxiedRequest is the caller's request as the service gets it.
func proxiedRequest(ctx context.Context, call *xrpc.Call, endpoint *url.URL, token string) (*http.Request, error) {
	in := call.Request
	target := endpoint.JoinPath("xrpc", string(call.NSID))
	target.RawQuery = in.URL.RawQuery
	var body io.Reader
	if in.Method == http.MethodPost {
		body = http.MaxBytesReader(call.Writer, in.Body, proxyMaxRequest)
	}
	out, err := http.NewRequestWithContext(ctx, in.Method, target.String(), body)
	if err != nil {
		return nil, xrpc.InvalidRequest("the request cannot be proxied; check its query")
	}
	if body != nil && in.ContentLength >= 0 {
		out.ContentLength = in.ContentLength
	}
	for _, name := range proxiedRequestHeaders {
		if values := in.Header.Values(name); len(values) > 0 {
			out.Header[name] = values
		}
	}
	out.Header.Set("Authorization", "Bearer "+token)
	return out, nil
}

// copyUpstream passes the answer on. What arrives is another origin's: the
// browser is told to neither sniff nor run it.
func copyUpstream(w http.ResponseWriter, resp *http.Response) error {
	if resp.StatusCode < 200 || resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return xrpc.Errorf(http.StatusBadGateway, "UpstreamFailure", "the service answered %d, which XRPC does not know; try again later", resp.StatusCode)
	}
	if resp.ContentLength > proxyMaxResponse {
		return xrpc.Errorf(http.StatusBadGateway, "UpstreamFailure", "the answer of the service is larger than %d bytes; ask for less", proxyMaxResponse)
	}
	header := w.Header()
	for _, name := range proxiedResponseHeaders {
		if values := resp.Header.Values(name); len(values) > 0 {
			header[name] = values
		}
	}
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/octet-stream")
	}
	harmless(header)
	w.WriteHeader(resp.StatusCode)
	n, err := io.Copy(w, io.LimitReader(resp.Body, proxyMaxResponse+1))
	if err != nil {
		return fmt.Errorf("copy upstream answer: %w", err)
	}
	if n > proxyMaxResponse {
		return fmt.Errorf("copy upstream answer: more than %d bytes", proxyMaxResponse)
	}
	return nil
}

// upstreamError says that a service could not be asked. The text of err stays
// here: it may tell about our network.
func upstreamError(ctx context.Context, err error, did syntax.DID, service string) error {
	var tooLarge *http.MaxBytesError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &tooLarge):
		return xrpc.Errorf(http.StatusRequestEntityTooLarge, "PayloadTooLarge", "the body is larger than the %d bytes that are proxied; send less", tooLarge.Limit)
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return xrpc.Errorf(http.StatusGatewayTimeout, "UpstreamTimeout", "%s#%s did not answer in time; try again later", did, service)
	default:
		return xrpc.Errorf(http.StatusBadGateway, "UpstreamFailure", "%s#%s could not be reached; try again later", did, service)
	}
}
