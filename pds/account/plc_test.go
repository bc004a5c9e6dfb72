package account_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

// Operations, DIDs and prevs made by @did-plc/lib 0.0.4.
func TestOperationsAgainstTheReferenceLibrary(t *testing.T) {
	raw, err := os.ReadFile("testdata/plc_operations.json")
	require.NoError(t, err)
	var vectors []struct {
		Rotation        string
		DID             syntax.DID
		Genesis, Update account.PLCOperation
	}
	require.NoError(t, json.Unmarshal(raw, &vectors))
	require.Len(t, vectors, 2)
	for _, v := range vectors {
		t.Run(v.Rotation, func(t *testing.T) {
			did, err := v.Genesis.DID()
			require.NoError(t, err)
			require.Equal(t, v.DID, did)
			require.NoError(t, v.Genesis.Verify(v.Genesis.RotationKeys))
			prev, err := v.Genesis.CID()
			require.NoError(t, err)
			require.Equal(t, *v.Update.Prev, prev.String())
			require.NoError(t, v.Update.Verify(v.Genesis.RotationKeys))
			_, err = v.Update.DID()
			require.Error(t, err, "only a genesis operation makes a DID")

			altered := v.Genesis
			altered.AlsoKnownAs = []string{"at://mallory.example.com"}
			require.Error(t, altered.Verify(v.Genesis.RotationKeys))
			require.Error(t, v.Genesis.Verify(v.Genesis.RotationKeys[:1]), "the recovery key did not sign")
		})
	}
}

// dagCBOR encodes JSON values by the rules of DAG-CBOR, as far as operations
// need them, written from the specification for this test alone: shortest
// heads, map keys sorted by length and then by byte.
func dagCBOR(out *bytes.Buffer, v any) {
	head := func(major byte, n int) {
		switch {
		case n < 24:
			out.WriteByte(major<<5 | byte(n))
		case n < 1<<8:
			out.Write([]byte{major<<5 | 24, byte(n)})
		default:
			out.Write([]byte{major<<5 | 25, byte(n >> 8), byte(n)})
		}
	}
	switch v := v.(type) {
	case nil:
		out.WriteByte(0xf6)
	case string:
		head(3, len(v))
		out.WriteString(v)
	case []any:
		head(4, len(v))
		for _, item := range v {
			dagCBOR(out, item)
		}
	case map[string]any:
		head(5, len(v))
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		sort.Slice(keys, func(i, j int) bool {
			if len(keys[i]) != len(keys[j]) {
				return len(keys[i]) < len(keys[j])
			}
			return keys[i] < keys[j]
		})
		for _, key := range keys {
			dagCBOR(out, key)
			dagCBOR(out, v[key])
		}
	default:
		panic(fmt.Sprintf("%T in an operation", v))
	}
}

// fakePLC is a PLC directory that recomputes everything from the JSON that it
// is sent.
type fakePLC struct {
	mu  sync.Mutex
	log map[string][]map[string]any
	// fail answers instead, when not nil.
	fail func(w http.ResponseWriter)
}

func (p *fakePLC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		p.fail(w)
		return
	}
	did, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodPost && rest == "":
		if err := p.accept(did, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"message": err.Error()})
		}
	case r.Method == http.MethodGet && rest == "log" && len(p.log[did]) > 0:
		_ = json.NewEncoder(w).Encode(p.log[did])
	case r.Method == http.MethodGet && rest == "" && len(p.log[did]) > 0:
		_ = json.NewEncoder(w).Encode(p.document(did))
	default:
		http.NotFound(w, r)
	}
}

func (p *fakePLC) accept(did string, body io.Reader) error {
	var op map[string]any
	if err := json.NewDecoder(body).Decode(&op); err != nil {
		return err
	}
	var signed, unsigned bytes.Buffer
	dagCBOR(&signed, op)
	sig, _ := op["sig"].(string)
	rest := map[string]any{}
	for key, value := range op {
		if key != "sig" {
			rest[key] = value
		}
	}
	dagCBOR(&unsigned, rest)
	signer := op
	prev, present := op["prev"]
	if !present {
		return fmt.Errorf("prev is missing")
	}
	sum := sha256.Sum256(signed.Bytes())
	if prev == nil {
		derived := "did:plc:" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:24]
		if derived != did || len(p.log[did]) > 0 {
			return fmt.Errorf("hash of the genesis operation is %s, not %s", derived, did)
		}
	} else {
		ops := p.log[did]
		if len(ops) == 0 {
			return fmt.Errorf("unknown DID")
		}
		signer = ops[len(ops)-1]
		var last bytes.Buffer
		dagCBOR(&last, signer)
		hash := sha256.Sum256(last.Bytes())
		want := "b" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(append([]byte{0x01, 0x71, 0x12, 0x20}, hash[:]...)))
		if prev != want {
			return fmt.Errorf("prev is %v, not %s", prev, want)
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(sig)
	if err != nil {
		return err
	}
	for _, key := range signer["rotationKeys"].([]any) {
		public, err := atcrypto.ParsePublicDIDKey(key.(string))
		if err == nil && public.HashAndVerify(unsigned.Bytes(), raw) == nil {
			p.log[did] = append(p.log[did], op)
			return nil
		}
	}
	return fmt.Errorf("invalid signature")
}

func (p *fakePLC) document(did string) map[string]any {
	op := p.log[did][len(p.log[did])-1]
	service := op["services"].(map[string]any)["atproto_pds"].(map[string]any)
	return map[string]any{
		"id": did, "alsoKnownAs": op["alsoKnownAs"],
		"verificationMethod": []any{map[string]any{"id": did + "#atproto", "type": "Multikey", "controller": did,
			"publicKeyMultibase": strings.TrimPrefix(op["verificationMethods"].(map[string]any)["atproto"].(string), "did:key:")}},
		"service": []any{map[string]any{"id": "#atproto_pds", "type": service["type"], "serviceEndpoint": service["endpoint"]}},
	}
}

func newPLC(t testing.TB) (*fakePLC, *url.URL) {
	t.Helper()
	p := &fakePLC{log: map[string][]map[string]any{}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	return p, u
}

func TestPLCAccounts(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		for _, kind := range []account.KeyKind{account.P256, account.K256} {
			plc, at := newPLC(t)
			s := newStore(t, db, func(c *account.Config) { c.Identity, c.PLCURL, c.KeyKind = account.PLC, at, kind })
			a, err := create(t, s, db, account.Params{Handle: syntax.Handle("alice-" + string(kind) + ".test")})
			require.NoError(t, err)
			require.Regexp(t, `^did:plc:[a-z2-7]{24}$`, a.DID)
			require.Len(t, plc.log[string(a.DID)], 1)

			doc, err := s.Document(t.Context(), a.DID)
			require.NoError(t, err)
			served, err := json.Marshal(plc.document(string(a.DID))["verificationMethod"])
			require.NoError(t, err)
			ours, err := json.Marshal(doc.VerificationMethod)
			require.NoError(t, err)
			require.JSONEq(t, string(served), string(ours))
			_, err = s.DIDDocument(t.Context(), a.Handle.String())
			require.ErrorIs(t, err, account.ErrNotFound, "a did:plc has no did:web document")

			require.NoError(t, s.UpdatePLC(t.Context(), a.DID, func(op *account.PLCOperation) {
				op.AlsoKnownAs = []string{"at://alicia.test"}
			}))
			require.Len(t, plc.log[string(a.DID)], 2)
			require.NoError(t, s.UpdatePLC(t.Context(), a.DID, func(op *account.PLCOperation) {
				op.AlsoKnownAs = []string{"at://alice.test"}
			}))
			require.Len(t, plc.log[string(a.DID)], 3)
		}
	})
}

func TestRecoveryKeyComesFirst(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		plc, at := newPLC(t)
		s := newStore(t, db, func(c *account.Config) { c.Identity, c.PLCURL = account.PLC, at })
		const recovery = "did:key:zQ3shZc2QzApp2oymGvQbzP8eKheVshBHbU4ZYjeXqwSKEn6N"
		a, err := create(t, s, db, account.Params{Handle: "alice.test", RecoveryKey: recovery})
		require.NoError(t, err)
		require.Equal(t, recovery, plc.log[string(a.DID)][0]["rotationKeys"].([]any)[0])
		_, err = create(t, s, db, account.Params{Handle: "bob.test", RecoveryKey: "did:key:zzz"})
		require.ErrorIs(t, err, account.ErrPLCRefused)
	})
}

// A directory that lies about the log does not get a signature for it.
func TestLyingDirectory(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		plc, at := newPLC(t)
		s := newStore(t, db, func(c *account.Config) { c.Identity, c.PLCURL = account.PLC, at })
		a, err := create(t, s, db, account.Params{Handle: "alice.test"})
		require.NoError(t, err)
		b, err := create(t, s, db, account.Params{Handle: "bob.test"})
		require.NoError(t, err)
		honest, bobs := plc.log[string(a.DID)], plc.log[string(b.DID)]
		mallory, err := atcrypto.GeneratePrivateKeyP256()
		require.NoError(t, err)
		public, err := mallory.PublicKey()
		require.NoError(t, err)
		forged := map[string]any{}
		for key, value := range honest[0] {
			forged[key] = value
		}
		forged["rotationKeys"] = []any{public.DIDKey()}
		for name, log := range map[string][]map[string]any{
			"empty":               {},
			"another's":           bobs,
			"altered genesis":     {forged},
			"unsigned second":     {honest[0], forged},
			"twice the genesis":   {honest[0], honest[0]},
			"something else last": {honest[0], {"type": "plc_tombstone", "prev": "x", "sig": "y"}},
		} {
			t.Run(name, func(t *testing.T) {
				plc.mu.Lock()
				plc.fail = func(w http.ResponseWriter) { _ = json.NewEncoder(w).Encode(log) }
				plc.mu.Unlock()
				asked := false
				err := s.UpdatePLC(t.Context(), a.DID, func(*account.PLCOperation) { asked = true })
				require.ErrorIs(t, err, account.ErrPLCUnavailable)
				require.False(t, asked)
			})
		}
	})
}

func TestPLCFailures(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		plc, at := newPLC(t)
		s := newStore(t, db, func(c *account.Config) { c.Identity, c.PLCURL = account.PLC, at })
		for name, test := range map[string]struct {
			fail func(w http.ResponseWriter)
			want error
			text string
		}{
			"refused":      {func(w http.ResponseWriter) { http.Error(w, `{"message":"bad\noperation"}`, http.StatusBadRequest) }, account.ErrPLCRefused, "bad operation"},
			"not found":    {func(w http.ResponseWriter) { http.Error(w, "no", http.StatusNotFound) }, account.ErrPLCRefused, "no"},
			"rate limited": {func(w http.ResponseWriter) { http.Error(w, "slow down", http.StatusTooManyRequests) }, account.ErrPLCUnavailable, "429"},
			"server error": {func(w http.ResponseWriter) { http.Error(w, "oh", http.StatusInternalServerError) }, account.ErrPLCUnavailable, "500"},
			"a redirect": {func(w http.ResponseWriter) {
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(http.StatusFound)
			}, account.ErrPLCUnavailable, "302"},
			"endless words": {func(w http.ResponseWriter) { http.Error(w, strings.Repeat("x", 1000), http.StatusBadRequest) }, account.ErrPLCRefused, "xxx…"},
			"endless body":  {func(w http.ResponseWriter) { _, _ = io.Copy(w, io.LimitReader(zeros{}, 2<<20)) }, account.ErrPLCUnavailable, "too long"},
		} {
			t.Run(name, func(t *testing.T) {
				plc.mu.Lock()
				plc.fail = test.fail
				plc.mu.Unlock()
				p, err := s.Prepare(t.Context(), account.Params{Handle: "alice.test"})
				require.NoError(t, err)
				err = s.Submit(t.Context(), p)
				require.ErrorIs(t, err, test.want)
				require.ErrorContains(t, err, test.text)
				_, err = s.Get(t.Context(), p.DID())
				require.ErrorIs(t, err, account.ErrNotFound)
			})
		}
		gone := newStore(t, db, func(c *account.Config) {
			c.Identity, c.PLCURL = account.PLC, &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
		})
		p, err := gone.Prepare(t.Context(), account.Params{Handle: "alice.test"})
		require.NoError(t, err)
		require.ErrorIs(t, gone.Submit(t.Context(), p), account.ErrPLCUnavailable)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, s.Submit(ctx, p), context.Canceled)
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
