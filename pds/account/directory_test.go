package account_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

// roundTrip is the outside network of a test.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func unreachable(*http.Request) (*http.Response, error) {
	return nil, errors.New("this test's network is down")
}

func TestOwnIdentitiesNeedNoNetwork(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		p, err := s.Prepare(t.Context(), account.Params{Handle: "alice.test"})
		require.NoError(t, err)
		_, err = insert(t.Context(), s, db, p)
		require.NoError(t, err)
		dir, err := account.NewDirectory(account.DirectoryConfig{Accounts: s, Transport: roundTrip(unreachable)})
		require.NoError(t, err)

		for _, id := range []string{"alice.test", "Alice.TEST", "did:web:alice.test"} {
			ident, err := dir.Lookup(t.Context(), syntax.AtIdentifier(id))
			require.NoError(t, err, id)
			require.Equal(t, p.DID(), ident.DID)
			require.Equal(t, syntax.Handle("alice.test"), ident.Handle)
			require.Equal(t, "http://localhost:2583", ident.PDSEndpoint())
			key, err := ident.PublicKey()
			require.NoError(t, err)
			want, err := p.SigningKey().PublicKey()
			require.NoError(t, err)
			require.True(t, key.Equal(want))
		}
		service, err := dir.LookupDID(t.Context(), serviceDID)
		require.NoError(t, err)
		_, err = service.GetPublicKey(account.HostKeyID)
		require.NoError(t, err)

		_, err = dir.LookupHandle(t.Context(), "nobody.test")
		require.ErrorIs(t, err, identity.ErrHandleNotFound, "nobody else can say whose a handle here is")

		require.NoError(t, inTx(t, s, db, p.DID(), func(ctx context.Context, tx *gorm.DB) error {
			_, err := s.SetHandleTx(ctx, tx, p.DID(), "alicia.test")
			return err
		}))
		ident, err := dir.LookupDID(t.Context(), p.DID())
		require.NoError(t, err)
		require.Equal(t, syntax.Handle("alicia.test"), ident.Handle, "a rename is seen at once")
		require.NoError(t, dir.Purge(t.Context(), syntax.AtIdentifier("alicia.test")))
	})
}

// foreignWeb serves did:web documents and handles of foreign hosts.
func foreignWeb(body func(host, path string) (int, string)) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		status, text := body(r.URL.Host, r.URL.Path)
		return &http.Response{StatusCode: status, Header: http.Header{}, Request: r, ContentLength: -1, Body: io.NopCloser(strings.NewReader(text))}, nil
	}
}

func TestForeignIdentitiesAreBounded(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		dir, err := account.NewDirectory(account.DirectoryConfig{Accounts: s, Transport: foreignWeb(func(host, path string) (int, string) {
			doc := `{"id":"did:web:` + host + `","service":[{"id":"#atproto_pds","type":"AtprotoPersonalDataServer","serviceEndpoint":"https://` + host + `"}]`
			switch {
			case host == "good.example.com" && path == "/.well-known/did.json":
				return 200, doc + "}"
			case host == "huge.example.com":
				return 200, doc + strings.Repeat(" ", 1<<20) + "}"
			case host == "other.example.com":
				return 200, `{"id":"did:web:good.example.com"}`
			}
			return 404, ""
		})})
		require.NoError(t, err)
		ident, err := dir.LookupDID(t.Context(), "did:web:good.example.com")
		require.NoError(t, err)
		require.Equal(t, "https://good.example.com", ident.PDSEndpoint())
		_, err = dir.LookupDID(t.Context(), "did:web:huge.example.com")
		require.ErrorContains(t, err, "too long")
		_, err = dir.LookupDID(t.Context(), "did:web:other.example.com")
		require.Error(t, err)
		_, err = dir.LookupDID(t.Context(), "did:web:none.example.com")
		require.ErrorIs(t, err, identity.ErrDIDNotFound)
		_, err = dir.LookupDID(t.Context(), "did:key:z6Mk")
		require.Error(t, err)
	})
}

// Private addresses are out of reach without DevLoopback.
func TestDirectoryDoesNotReachThisMachine(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		asked := false
		server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
		defer server.Close()
		s := newStore(t, db)
		dir, err := account.NewDirectory(account.DirectoryConfig{Accounts: s})
		require.NoError(t, err)
		at, err := url.Parse(server.URL)
		require.NoError(t, err)
		for _, did := range []syntax.DID{syntax.DID("did:web:localhost%3A" + at.Port()), "did:web:127.0.0.1", "did:web:localhost", "did:web:metadata.internal"} {
			_, err = dir.LookupDID(t.Context(), did)
			require.Error(t, err, did)
		}
		require.False(t, asked)
	})
}

func TestDevelopmentOnLoopback(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		mux := http.NewServeMux()
		mux.HandleFunc("/.well-known/did.json", func(w http.ResponseWriter, r *http.Request) {
			name, port, _ := strings.Cut(r.Host, ":")
			did := "did:web:" + name
			if name == "localhost" {
				did += "%3A" + port
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"id": did, "alsoKnownAs": []string{"at://" + name},
				"service": []any{map[string]any{"id": "#x", "type": "X", "serviceEndpoint": "http://" + r.Host}}})
		})
		mux.HandleFunc("/.well-known/atproto-did", func(w http.ResponseWriter, r *http.Request) {
			if r.Host == "peer.other.test" {
				_, _ = io.WriteString(w, "did:web:peer.other.test")
				return
			}
			http.NotFound(w, r)
		})
		server := httptest.NewServer(mux)
		defer server.Close()
		at, err := url.Parse(server.URL)
		require.NoError(t, err)
		s := newStore(t, db, func(c *account.Config) { c.HandleDomains = []string{".mine.test"} })
		dir, err := account.NewDirectory(account.DirectoryConfig{Accounts: s, DevLoopback: true, Listener: at.Host, Transport: roundTrip(unreachable)})
		require.NoError(t, err)

		did := syntax.DID("did:web:localhost%3A" + at.Port())
		ident, err := dir.LookupDID(t.Context(), did)
		require.NoError(t, err)
		require.Equal(t, "http://localhost:"+at.Port(), ident.GetServiceEndpoint("x"))
		ident, err = dir.LookupHandle(t.Context(), "peer.other.test")
		require.NoError(t, err)
		require.Equal(t, syntax.DID("did:web:peer.other.test"), ident.DID)
		require.Equal(t, syntax.Handle("peer.other.test"), ident.Handle)
		// indigo answers the empty DID and no error here (SkipDNSDomainSuffixes).
		_, err = dir.LookupHandle(t.Context(), "nobody.other.test")
		require.ErrorIs(t, err, identity.ErrHandleNotFound)
		// A name with a port is of the instance there, not of our own.
		elsewhere, err := account.NewDirectory(account.DirectoryConfig{Accounts: s, DevLoopback: true, Listener: "127.0.0.1:1", Transport: roundTrip(unreachable)})
		require.NoError(t, err)
		ident, err = elsewhere.LookupDID(t.Context(), syntax.DID("did:web:peer."+at.Port()+".test"))
		require.NoError(t, err)
		require.Equal(t, "http://peer."+at.Port()+".test", ident.GetServiceEndpoint("x"))
		_, err = elsewhere.LookupDID(t.Context(), "did:web:peer.other.test")
		require.Error(t, err)
		for _, bad := range []syntax.DID{"did:web:localhost%3A80:path", "did:web:localhost%3A80%2Fx", "did:web:localhost%3Aport"} {
			_, err = dir.LookupDID(t.Context(), bad)
			require.Error(t, err, bad)
		}
		_, err = account.NewDirectory(account.DirectoryConfig{Accounts: s, DevLoopback: true})
		require.ErrorContains(t, err, "Listener")
	})
}

// A DID that was brought along is what its own document says; its handle under
// our domain is ours to confirm.
func TestBroughtAlongIdentity(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		const did = syntax.DID("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
		_, err := create(t, s, db, account.Params{Handle: "alice.test", DID: did})
		require.NoError(t, err)
		plc := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"id":"`+string(did)+`","alsoKnownAs":["at://alice.test"],"service":[{"id":"#atproto_pds","type":"AtprotoPersonalDataServer","serviceEndpoint":"https://old.example.com"}]}`)
		}))
		defer plc.Close()
		at, err := url.Parse(plc.URL)
		require.NoError(t, err)
		dir, err := account.NewDirectory(account.DirectoryConfig{Accounts: s, PLCURL: at, Transport: roundTrip(unreachable)})
		require.NoError(t, err)
		ident, err := dir.LookupDID(t.Context(), did)
		require.NoError(t, err)
		require.Equal(t, "https://old.example.com", ident.PDSEndpoint())
		require.Equal(t, syntax.Handle("alice.test"), ident.Handle)
	})
}

// An account may say that it has a handle under somebody's domain; whether it
// has, that domain says.
func TestHandleOfAnotherDomain(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		const did = syntax.DID("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
		_, err := create(t, s, db, account.Params{Handle: "bob.example.com", DID: did})
		require.NoError(t, err)
		require.NoError(t, inTx(t, s, db, did, func(ctx context.Context, tx *gorm.DB) error {
			_, err := s.ActivateTx(ctx, tx, did)
			return err
		}))
		_, err = s.ResolveHandle(t.Context(), "bob.example.com")
		require.ErrorIs(t, err, account.ErrNotFound)
		got, err := s.HandleDID(t.Context(), "bob.example.com")
		require.NoError(t, err, "when DNS leads here, it is proven")
		require.Equal(t, did, got)
	})
}

// While it is active here, a did:plc of ours needs no network; afterwards the
// PLC directory says where it went.
func TestMovedPLCAccount(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		plc, at := newPLC(t)
		s := newStore(t, db, func(c *account.Config) { c.Identity, c.PLCURL = account.PLC, at })
		dir, err := account.NewDirectory(account.DirectoryConfig{Accounts: s, PLCURL: at, Transport: roundTrip(unreachable)})
		require.NoError(t, err)
		a, err := create(t, s, db, account.Params{Handle: "alice.test"})
		require.NoError(t, err)
		plc.mu.Lock()
		plc.fail = func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }
		plc.mu.Unlock()
		ident, err := dir.LookupDID(t.Context(), a.DID)
		require.NoError(t, err)
		require.Equal(t, "http://localhost:2583", ident.PDSEndpoint())
		plc.mu.Lock()
		plc.fail = nil
		plc.mu.Unlock()
		require.NoError(t, s.UpdatePLC(t.Context(), a.DID, func(op *account.PLCOperation) {
			op.Services["atproto_pds"] = account.PLCService{Type: "AtprotoPersonalDataServer", Endpoint: "https://new.example.com"}
		}))
		require.NoError(t, inTx(t, s, db, a.DID, func(ctx context.Context, tx *gorm.DB) error {
			_, err := s.DeactivateTx(ctx, tx, a.DID, nil)
			return err
		}))
		ident, err = dir.LookupDID(t.Context(), a.DID)
		require.NoError(t, err)
		require.Equal(t, "https://new.example.com", ident.PDSEndpoint())
		require.Equal(t, syntax.Handle("alice.test"), ident.Handle)
	})
}

// The cache in front keeps a failure for a minute: a caller that hangs up must
// not be the cause of one.
func TestHangingUpDoesNotSpoilTheCache(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		started, goOn := make(chan struct{}), make(chan struct{})
		dir, err := account.NewDirectory(account.DirectoryConfig{Accounts: s, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			close(started)
			<-goOn
			if err := r.Context().Err(); err != nil {
				return nil, err
			}
			return foreignWeb(func(host, _ string) (int, string) { return 200, `{"id":"did:web:` + host + `"}` })(r)
		})})
		require.NoError(t, err)
		ctx, hangUp := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = dir.LookupDID(ctx, "did:web:slow.example.com")
		}()
		<-started
		hangUp()
		close(goOn)
		<-done
		_, err = dir.LookupDID(t.Context(), "did:web:slow.example.com")
		require.NoError(t, err)
	})
}
