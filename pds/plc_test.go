package pds_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/pds/account"
	"herbarium.garden/pds/sequencer"
)

// plcLog is a PLC directory that takes what it is given and can be away.
// Whether operations are right is tested where they are made.
type plcLog struct {
	mu   sync.Mutex
	away bool
	log  map[string][]json.RawMessage // by DID
}

func newPLC(t *testing.T) (*plcLog, *url.URL) {
	t.Helper()
	p := &plcLog{log: map[string][]json.RawMessage{}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	return p, at
}

func (p *plcLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	did, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	var op json.RawMessage
	switch {
	case p.away:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&op) == nil:
		p.log[did] = append(p.log[did], op)
	case strings.HasSuffix(r.URL.Path, "/log"):
		_ = json.NewEncoder(w).Encode(p.log[did])
	case len(p.log[did]) > 0:
		_ = json.NewEncoder(w).Encode(p.document(did))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// plcOperation is an operation as the directory reads it.
type plcOperation struct {
	RotationKeys        []string          `json:"rotationKeys"`
	VerificationMethods map[string]string `json:"verificationMethods"`
	AlsoKnownAs         []string          `json:"alsoKnownAs"`
	Services            map[string]struct {
		Type     string `json:"type"`
		Endpoint string `json:"endpoint"`
	} `json:"services"`
}

// document is what the newest operation of a DID says, in the form of
// plc.directory.
func (p *plcLog) document(did string) object {
	var op plcOperation
	_ = json.Unmarshal(p.log[did][len(p.log[did])-1], &op)
	doc := object{"id": did, "alsoKnownAs": op.AlsoKnownAs}
	var keys, services []object
	for id, key := range op.VerificationMethods {
		keys = append(keys, object{"id": did + "#" + id, "type": "Multikey", "controller": did, "publicKeyMultibase": strings.TrimPrefix(key, "did:key:")})
	}
	for id, service := range op.Services {
		services = append(services, object{"id": "#" + id, "type": service.Type, "serviceEndpoint": service.Endpoint})
	}
	doc["verificationMethod"], doc["service"] = keys, services
	return doc
}

// submit adds an operation as its owner does, past every host.
func (p *plcLog) submit(t *testing.T, did string, op any) {
	t.Helper()
	raw, err := json.Marshal(op)
	require.NoError(t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log[did] = append(p.log[did], raw)
}

func (p *plcLog) leave(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

// last is the handle that the newest operation names.
func (p *plcLog) last(t *testing.T, did string) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NotEmpty(t, p.log[did])
	var op struct {
		AlsoKnownAs []string `json:"alsoKnownAs"`
	}
	require.NoError(t, json.Unmarshal(p.log[did][len(p.log[did])-1], &op))
	return strings.TrimPrefix(op.AlsoKnownAs[0], "at://")
}

func TestAccountsInAPLCDirectory(t *testing.T) {
	plc, at := newPLC(t)
	eachHost(t, setting{plc: at}, func(t *testing.T, h *host) {
		plc.leave(true)
		sign := object{"handle": "scout.test", "password": "long enough"}
		h.procedure(t, admin(), "com.atproto.server.createAccount", sign).refused(t, 502, "UpstreamFailure")
		require.Zero(t, h.lastSeq(t))
		h.query(t, "", "com.atproto.identity.resolveHandle", "handle", "scout.test").refused(t, 400, "HandleNotFound")

		plc.leave(false)
		a, other := h.agent(t, "scout"), h.agent(t, "other")
		require.True(t, strings.HasPrefix(a.did, "did:plc:"))
		require.Equal(t, "scout.test", plc.last(t, a.did))
		h.create(t, a, note, object{}).ok(t)

		rename := func(handle string) reply {
			return h.procedure(t, a.access, "com.atproto.identity.updateHandle", object{"handle": handle})
		}
		rename(other.handle).refused(t, 400, "InvalidRequest")
		require.Equal(t, "scout.test", plc.last(t, a.did), "a name that is not free never gets into the log")
		plc.leave(true)
		rename("ranger.test").refused(t, 502, "UpstreamFailure")
		require.Equal(t, a.did, h.query(t, "", "com.atproto.identity.resolveHandle", "handle", "scout.test").ok(t).str("did"), "what failed changed nothing")
		h.query(t, "", "com.atproto.identity.resolveHandle", "handle", "ranger.test").refused(t, 400, "HandleNotFound")
		plc.leave(false)
		require.Equal(t, 200, rename("ranger.test").Status)
		require.Equal(t, "ranger.test", plc.last(t, a.did))

		wanted := h.query(t, a.access, "com.atproto.identity.getRecommendedDidCredentials").ok(t)
		require.Equal(t, []any{"at://ranger.test"}, wanted.list("alsoKnownAs"))
		require.Len(t, wanted.list("rotationKeys"), 1)
	})
}

// The way out of a did:plc: a token by the operator's hand, an operation that
// this host signs, and the new host's, or the owner's, to submit. Edge case 25
// of the reference's tests: what would lead away from here is not submitted
// from here.
func TestSigningAndSubmittingOperations(t *testing.T) {
	plc, at := newPLC(t)
	clock := newClock()
	eachHost(t, setting{plc: at, clock: clock}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		sign := func(in object) reply { return h.procedure(t, a.access, "com.atproto.identity.signPlcOperation", in) }
		token := func() string {
			t.Helper()
			require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.identity.requestPlcOperationSignature", nil).Status)
			return h.token(t, a, account.SigningPLC)
		}
		sign(object{}).refused(t, 400, "InvalidToken")
		sign(object{"token": "never-asked"}).refused(t, 400, "InvalidToken")
		late := token()
		clock.advance(account.OneTimeLifetime)
		sign(object{"token": late}).refused(t, 400, "ExpiredToken")
		good := token()
		sign(object{"token": good, "services": object{"atproto_pds": object{"type": "x", "endpoint": "y", "more": "z"}}}).refused(t, 400, "InvalidRequest")
		sign(object{"token": good, "verificationMethods": "x"}).refused(t, 400, "InvalidRequest")

		wanted := h.query(t, a.access, "com.atproto.identity.getRecommendedDidCredentials").ok(t)
		const elsewhere = "did:key:zQ3shZc2QzApp2oymGvQbzP8eKheVshBHbU4ZYjeXqwSKEn6N" // atproto's did:key test fixture
		signed := sign(object{"token": good, "rotationKeys": []any{elsewhere, wanted.list("rotationKeys")[0]}}).ok(t)
		sign(object{"token": good}).refused(t, 400, "InvalidToken")
		op := object(signed.at("operation").(map[string]any))
		require.Equal(t, wanted.at("alsoKnownAs"), op.at("alsoKnownAs"), "what is left out stays")
		require.Equal(t, wanted.at("services"), op.at("services"))
		require.Equal(t, wanted.at("verificationMethods"), op.at("verificationMethods"))
		var parsed account.PLCOperation
		raw, err := json.Marshal(op)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, &parsed))
		require.NoError(t, parsed.Verify([]string{wanted.list("rotationKeys")[0].(string)}))

		submit := func(op any) reply {
			return h.procedure(t, a.access, "com.atproto.identity.submitPlcOperation", object{"operation": op})
		}
		for name, change := range map[string]object{
			"rotation key":  {"rotationKeys": []any{elsewhere}},
			"signing key":   {"verificationMethods": object{"atproto": elsewhere}},
			"handle":        {"alsoKnownAs": []any{"at://other.test"}},
			"no handle":     {"alsoKnownAs": []any{}},
			"endpoint":      {"services": object{"atproto_pds": object{"type": "AtprotoPersonalDataServer", "endpoint": "https://new.example.org"}}},
			"service":       {"services": object{}},
			"service type":  {"services": object{"atproto_pds": object{"type": "Other", "endpoint": h.publicURL()}}},
			"type":          {"type": "plc_tombstone"},
			"unknown field": {"more": true},
		} {
			changed := object{}
			for field, value := range op {
				changed[field] = value
			}
			for field, value := range change {
				changed[field] = value
			}
			submit(changed).refused(t, 400, "InvalidRequest")
			require.Len(t, plc.log[a.did], 1, name)
		}
		seq := h.lastSeq(t)
		require.Equal(t, 200, submit(op).Status)
		require.Len(t, plc.log[a.did], 2)
		events, err := h.events.ReadFrom(t.Context(), seq, 10)
		require.NoError(t, err)
		require.Len(t, events, 1)
		require.Equal(t, sequencer.Identity, events[0].Kind)
	})
}

// A public bug of the reference: an owner who keeps the rotation keys to
// themselves could not activate the account, though the document is right.
func TestActivationWithoutTheHostsRotationKey(t *testing.T) {
	plc, at := newPLC(t)
	eachHost(t, setting{plc: at}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		wanted := h.query(t, a.access, "com.atproto.identity.getRecommendedDidCredentials").ok(t)
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.deactivateAccount", object{}).Status)
		plc.submit(t, a.did, object{
			"type": "plc_operation", "rotationKeys": []string{"did:key:zQ3shZc2QzApp2oymGvQbzP8eKheVshBHbU4ZYjeXqwSKEn6N"}, "prev": "x",
			"alsoKnownAs": wanted["alsoKnownAs"], "verificationMethods": wanted["verificationMethods"], "services": wanted["services"],
		})
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.activateAccount", nil).Status)
		h.create(t, a, note, object{}).ok(t)
	})
}

func TestADIDWebHasNoOperations(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		for method, in := range map[string]any{
			"requestPlcOperationSignature": nil, "signPlcOperation": object{}, "submitPlcOperation": object{"operation": object{}},
		} {
			message := h.procedure(t, a.access, "com.atproto.identity."+method, in).refused(t, 400, "InvalidRequest")
			require.Contains(t, message, "garden.herbarium.moveIdentity")
		}
	})
}
