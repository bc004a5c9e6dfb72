package pds

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/pds/account"
	"herbarium.garden/pds/repostore"
)

// ServiceClaims opens serviceClaims to the tests.
type ServiceClaims = serviceClaims

// SignServiceJWT opens signServiceJWT to the tests.
func SignServiceJWT(key atcrypto.PrivateKey, claims ServiceClaims) (string, error) {
	return signServiceJWT(key, claims)
}

// NewServiceVerifier opens serviceVerifier to the tests, with a memory of used
// tokens in the place of the database's.
func NewServiceVerifier(service syntax.DID, directory identity.Directory, now func() time.Time) (func(ctx context.Context, token string, method syntax.NSID) (syntax.DID, error), error) {
	var used sync.Map
	v, err := newServiceVerifier(service, directory, now, func(_ context.Context, issuer syntax.DID, jti string, _ time.Time) error {
		if _, before := used.LoadOrStore(string(issuer)+" "+jti, true); before {
			return account.ErrProofUsed
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, token string, method syntax.NSID) (syntax.DID, error) {
		t, err := v.verify(ctx, token, method)
		return t.issuer, err
	}, nil
}

// NewProxyClient opens newProxyClient to the tests.
func NewProxyClient(devLoopback bool) *http.Client { return newProxyClient(devLoopback) }

// PublicAddress opens publicAddress to the tests.
func PublicAddress(network, address string) error { return publicAddress(network, address, nil) }

// ReadAssertion opens the reading of assertions to the tests: the claims are
// judged, the signature is the answered function's to judge.
func ReadAssertion(service syntax.DID, assertion string, now time.Time) (signedBy func(atcrypto.PublicKey) bool, err error) {
	t, err := assertionRules(service).read(assertion, keyLoginMethod, now)
	return t.signedBy, err
}

// LimitKeys takes a point of each of n keys from one limit and answers how many
// keys it then counts for.
func LimitKeys(n int) (int, error) {
	m, err := newMeter("requests", Limit{1, time.Minute})
	if err != nil {
		return 0, err
	}
	l := &limiter{now: time.Now}
	for i := range n {
		l.take([]*meter{m}, strconv.Itoa(i), 1)
	}
	return m.windows.Len(), nil
}

// MakePurgeSteps makes the first steps of a purge and then leaves it, as a crash
// does. It answers how many steps there are.
func (p *PDS) MakePurgeSteps(ctx context.Context, id syntax.TID, steps int) (int, error) {
	purge, err := p.repos.GetPurge(ctx, id)
	if err != nil {
		return 0, err
	}
	all := p.purgeSteps()
	for _, step := range all[:min(steps, len(all))] {
		if err := step.run(ctx, &purge, step.name); err != nil {
			return 0, err
		}
	}
	if steps > len(all) {
		err = p.scrubAfter(ctx, false, []*repostore.Purge{&purge})
	}
	return len(all) + 1, err
}

// SignReceipt signs a receipt as the host does.
func SignReceipt(r *Receipt, key atcrypto.PrivateKey) (string, error) { return signReceipt(r, key) }

// CheckBlobsAtOnce is CheckBlobs with another bound of what it holds at once.
func (p *PDS) CheckBlobsAtOnce(ctx context.Context, check BlobCheck, atOnce int64, found func(BlobFault) error) (BlobReport, error) {
	return p.checkBlobs(ctx, check, atOnce, found)
}
