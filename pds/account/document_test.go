package account_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

// asIndigo reads the JSON that is served with indigo's reader.
func asIndigo(t *testing.T, doc *account.Document) identity.Identity {
	t.Helper()
	raw, err := json.Marshal(doc)
	require.NoError(t, err)
	var parsed identity.DIDDocument
	require.NoError(t, json.Unmarshal(raw, &parsed))
	return identity.ParseIdentity(&parsed)
}

func TestDocumentsByHost(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		for _, kind := range []account.KeyKind{account.P256, account.K256} {
			s := newStore(t, db, func(c *account.Config) { c.KeyKind = kind })
			handle := "alice-" + string(kind) + ".test"
			p, err := s.Prepare(t.Context(), account.Params{Handle: syntax.Handle(handle)})
			require.NoError(t, err)
			_, err = insert(t.Context(), s, db, p)
			require.NoError(t, err)
			for _, host := range []string{handle, "ALICE-" + string(kind) + ".TEST", handle + ":2583", handle + "."} {
				doc, err := s.DIDDocument(t.Context(), host)
				require.NoError(t, err, host)
				ident := asIndigo(t, doc)
				require.Equal(t, p.DID(), ident.DID)
				require.Equal(t, "http://localhost:2583", ident.PDSEndpoint())
				declared, err := ident.DeclaredHandle()
				require.NoError(t, err)
				require.Equal(t, p.Handle(), declared)
				key, err := ident.PublicKey()
				require.NoError(t, err)
				want, err := p.SigningKey().PublicKey()
				require.NoError(t, err)
				require.True(t, key.Equal(want))
			}
		}
		s := newStore(t, db)
		for _, host := range []string{"", "bob.test", "127.0.0.1:2583", "[::1]:2583", "alice-p256.test.evil.example", "\x00", "a b"} {
			_, err := s.DIDDocument(t.Context(), host)
			require.ErrorIs(t, err, account.ErrNotFound, host)
			_, err = s.HandleDID(t.Context(), host)
			require.ErrorIs(t, err, account.ErrNotFound, host)
		}
	})
}

func TestServiceDocument(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		for name, test := range map[string]struct {
			public *url.URL
			did    syntax.DID
			host   string
		}{
			"localhost with port": {&url.URL{Scheme: "http", Host: "localhost:2583"}, serviceDID, "localhost:2583"},
			"a domain":            {&url.URL{Scheme: "https", Host: "pds.example.com"}, "did:web:pds.example.com", "PDS.example.com"},
			"did of another name": {&url.URL{Scheme: "https", Host: "pds.example.com"}, "did:web:example.com", "example.com"},
		} {
			t.Run(name, func(t *testing.T) {
				s := newStore(t, db, func(c *account.Config) { c.PublicURL, c.ServiceDID = test.public, test.did })
				doc, err := s.DIDDocument(t.Context(), test.host)
				require.NoError(t, err)
				ident := asIndigo(t, doc)
				require.Equal(t, test.did, ident.DID)
				require.Equal(t, test.public.String(), ident.GetServiceEndpoint("atproto_pds"))
				require.Equal(t, test.public.String(), ident.GetServiceEndpoint("herbarium_appview"))
				require.Equal(t, "HerbariumAppview", ident.Services["herbarium_appview"].Type)
				key, err := ident.GetPublicKey(account.HostKeyID)
				require.NoError(t, err)
				host, err := s.HostKey(t.Context())
				require.NoError(t, err)
				public, err := host.PublicKey()
				require.NoError(t, err)
				require.True(t, key.Equal(public))
			})
		}
	})
}

func FuzzHandle(f *testing.F) {
	for _, seed := range []string{"alice.test", "@Alice.TEST", "xn--ls8h.test", "a..test", "alice.test:443", "[::1]:80", ".test", "a@b.c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if handle, err := account.ParseHandle(s); err == nil {
			if again, err := account.ParseHandle(handle.String()); err != nil || again != handle {
				t.Fatalf("%q is not stable: %q, %v", handle, again, err)
			}
			if did := account.WebDID(handle); syntax.DID("did:web:"+handle.String()) != did {
				t.Fatal(did)
			}
			if _, err := syntax.ParseDID(string(account.WebDID(handle))); err != nil {
				t.Fatalf("did:web of %q: %v", handle, err)
			}
		}
		account.HostName(s)
		if email, err := account.NormalizeEmail(s); err == nil {
			if again, err := account.NormalizeEmail(email); err != nil || again != email {
				t.Fatalf("%q is not stable", email)
			}
		}
		_ = account.ParsePHC(s)
	})
}

func FuzzPHC(f *testing.F) {
	f.Add("$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY")
	f.Add("$argon2id$v=19$m=4294967295,t=4294967295,p=255$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZg")
	f.Add("$argon2id$v=19$m=-1,t=0,p=0$$")
	f.Fuzz(func(_ *testing.T, s string) { _ = account.ParsePHC(s) })
}

func TestHashParametersAreBounded(t *testing.T) {
	const salt, digest = "MDEyMzQ1Njc4OWFiY2RlZg", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
	require.NoError(t, account.ParsePHC("$argon2id$v=19$m=19456,t=2,p=1$"+salt+"$"+digest))
	for _, bad := range []string{
		"", "$", "plain", "$2b$10$abc", "$argon2i$v=19$m=19456,t=2,p=1$" + salt + "$" + digest, "$argon2id$v=16$m=19456,t=2,p=1$" + salt + "$" + digest,
		"$argon2id$v=19$m=99999999,t=2,p=1$" + salt + "$" + digest, "$argon2id$v=19$m=19456,t=999,p=1$" + salt + "$" + digest,
		"$argon2id$v=19$m=19456,t=2,p=0$" + salt + "$" + digest, "$argon2id$v=19$m=19456,t=0,p=1$" + salt + "$" + digest,
		"$argon2id$v=19$m=19456,t=2,p=1$$" + digest, "$argon2id$v=19$m=19456,t=2,p=1$" + salt + "$",
	} {
		require.Error(t, account.ParsePHC(bad), bad)
	}
}
