package account

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"
)

// TXTResolver asks DNS for TXT records; *net.Resolver is one.
type TXTResolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

// maxHandleFile bounds /.well-known/atproto-did: a DID is at most 2048 bytes.
const maxHandleFile = 4 << 10

// HandleResolver asks the network which DID a handle under a domain of others
// names (https://atproto.com/specs/handle#handle-resolution): the TXT record of
// _atproto.<handle>, then https://<handle>/.well-known/atproto-did. Whether
// that DID names the handle back is not its question. It remembers nothing.
type HandleResolver struct {
	dns  TXTResolver
	http *http.Client
	mute func(syntax.Handle) bool // DNS has nothing to say about it
}

// NewHandleResolver makes one that reaches what NewDirectory with the same
// configuration reaches.
func NewHandleResolver(cfg DirectoryConfig) (*HandleResolver, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return newHandleResolver(cfg, cfg.client()), nil
}

func newHandleResolver(cfg DirectoryConfig, client *http.Client) *HandleResolver {
	r := &HandleResolver{dns: cfg.Resolver, http: client, mute: func(h syntax.Handle) bool {
		return cfg.Accounts.OwnsDomain(h) || cfg.DevLoopback && h.TLD() == "test"
	}}
	if r.dns == nil {
		r.dns = &net.Resolver{PreferGo: true}
	}
	return r
}

// Resolve answers the DID. DNS comes first, and where it names a DID, or
// several, its word is the last. identity.ErrHandleNotFound when neither way
// names one, identity.ErrHandleResolutionFailed when what is there is no answer.
func (r *HandleResolver) Resolve(ctx context.Context, handle syntax.Handle) (syntax.DID, error) {
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	handle = handle.Normalize()
	var failed error
	if !r.mute(handle) {
		did, err := r.byDNS(ctx, handle)
		if err == nil || errors.Is(err, errAmbiguous) {
			return did, err
		}
		failed = err
	}
	did, err := r.byHTTPS(ctx, handle)
	if err != nil {
		return "", errors.Join(err, failed)
	}
	return did, nil
}

var errAmbiguous = fmt.Errorf("%w: its TXT records name more than one DID", identity.ErrHandleResolutionFailed)

func (r *HandleResolver) byDNS(ctx context.Context, handle syntax.Handle) (syntax.DID, error) {
	records, err := r.dns.LookupTXT(ctx, "_atproto."+handle.String())
	if err != nil {
		return "", fmt.Errorf("%w: DNS: %w", identity.ErrHandleNotFound, err)
	}
	var found syntax.DID
	for _, record := range records {
		value, isOurs := strings.CutPrefix(record, "did=")
		did, err := syntax.ParseDID(strings.TrimSpace(value))
		if !isOurs || err != nil || did == found {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("resolve %s: %w", handle, errAmbiguous)
		}
		found = did
	}
	if found == "" {
		return "", fmt.Errorf("%w: no TXT record of _atproto.%s names a DID", identity.ErrHandleNotFound, handle)
	}
	return found, nil
}

func (r *HandleResolver) byHTTPS(ctx context.Context, handle syntax.Handle) (syntax.DID, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+handle.String()+"/.well-known/atproto-did", nil)
	if err != nil {
		return "", fmt.Errorf("%w: %w", identity.ErrHandleResolutionFailed, err)
	}
	res, err := r.http.Do(req)
	if err != nil {
		return "", fmt.Errorf("%w: %w", identity.ErrHandleNotFound, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return "", fmt.Errorf("%w: its file answers %d", identity.ErrHandleNotFound, res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxHandleFile+1))
	if err != nil || len(body) > maxHandleFile {
		return "", fmt.Errorf("%w: its file does not end in time", identity.ErrHandleResolutionFailed)
	}
	did, err := syntax.ParseDID(strings.TrimSpace(string(body)))
	if err != nil {
		return "", fmt.Errorf("%w: its file holds no DID", identity.ErrHandleResolutionFailed)
	}
	return did, nil
}
