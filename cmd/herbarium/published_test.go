package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

// The words that only a private, and only the published, record has.
const (
	privateWords = "zwischenlager-7f3a"
	publicWords  = "herbarsignatur-91c4"
)

// kept is a repo with a published record and a private one.
type kept struct {
	public, private         syntax.ATURI
	publicCID, privateCID   string
	publicBlob, privateBlob string
}

// keep writes, as scout, an observation and a session, which is its run and
// its transcript, and a record of no known lexicon that cites it; each with a
// blob where it can have one.
func (d *deployment) keep() kept {
	d.t.Helper()
	upload := func(words string) (object, string) {
		answer := d.send(d.scout.token, http.MethodPost, "/xrpc/com.atproto.repo.uploadBlob", []byte(words), "text/plain")
		require.Equal(d.t, http.StatusOK, answer.Code, answer.Body)
		made := decode(d.t, answer)["blob"].(object)
		return made, made["ref"].(object)["$link"].(string)
	}
	create := func(collection syntax.NSID, record object) (syntax.ATURI, string) {
		made := d.must(d.scout.token, http.MethodPost, "com.atproto.repo.createRecord",
			object{"repo": d.scout.did, "collection": collection, "record": record})
		return syntax.ATURI(made["uri"].(string)), made["cid"].(string)
	}
	var k kept
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	var secretBlob, openBlob object
	secretBlob, k.privateBlob = upload(privateWords)
	openBlob, k.publicBlob = upload(publicWords)
	k.private, k.privateCID = create("org.example.note", object{"text": privateWords, "file": secretBlob})
	k.public, k.publicCID = create(lexicons.ObservationNSID, object{
		"source": object{"kind": "command", "value": publicWords}, "method": "bash", "text": publicWords, "observedAt": now, "createdAt": now,
		"content":   openBlob,
		"generator": object{"run": "3mmzzzzzzzz2a", "device": "lab-1"},
	})
	create("org.example.note", object{"text": privateWords, "citations": []any{object{
		"span": object{"byteStart": 0, "byteEnd": 3}, "relation": privateWords, "target": object{"uri": k.public, "cid": k.publicCID},
	}}})
	create(lexicons.SessionNSID, object{"title": privateWords, "summary": privateWords, "status": "active", "updatedAt": now, "startedAt": now, "machine": "lab-1"})
	require.Eventually(d.t, func() bool {
		return strings.Contains(d.send(d.scout.token, http.MethodGet, "/xrpc/garden.herbarium.listSessions", nil, "").Body.String(), privateWords)
	}, 30*time.Second, 10*time.Millisecond, "the index has what was written last")
	return k
}

// reads are the requests that a reader may make about what is kept.
func (d *deployment) reads(k kept) []string {
	var all []string
	ask := func(method string, in object) { all = append(all, "/xrpc/"+method+"?"+query(in)) }
	for _, uri := range []syntax.ATURI{k.public, k.private} {
		at := object{"repo": d.scout.did, "collection": uri.Collection(), "rkey": uri.RecordKey(), "did": d.scout.did}
		ask("com.atproto.repo.getRecord", at)
		ask("com.atproto.sync.getRecord", at)
		ask("com.atproto.repo.listRecords", object{"repo": d.scout.did, "collection": uri.Collection()})
		for _, method := range []string{"getRecord", "getObservation", "getObservationHistory", "getSession", "getClass", "getConversation"} {
			ask("garden.herbarium."+method, object{"uri": uri})
			ask("garden.herbarium."+method, object{"uri": uri, "format": "markdown"})
			ask("garden.herbarium."+method, object{"uri": uri, "asOf": time.Now().UTC().Format(time.RFC3339Nano)})
		}
		ask("garden.herbarium.listFindings", object{"uri": uri})
	}
	for _, c := range []string{k.publicBlob, k.privateBlob, k.privateCID} {
		ask("com.atproto.sync.getBlob", object{"did": d.scout.did, "cid": c})
		ask("com.atproto.sync.getBlocks", object{"did": d.scout.did, "cids": c})
	}
	// Every other query, with whatever parameters it may want.
	for _, route := range d.service.api.(*xrpc.Server).Routes() {
		if list, ok := strings.CutPrefix(route.Path, "/xrpc/garden.herbarium.list"); ok {
			ask("garden.herbarium.exportList", object{"list": "list" + list})
			ask("garden.herbarium.exportList", object{"list": "list" + list, "format": "csv"})
		}
		if route.Verb == http.MethodGet && !strings.Contains(route.Path, "*") {
			all = append(all, route.Path+"?"+query(object{
				"did": d.scout.did, "repo": d.scout.did, "actor": "scout.test", "handle": "scout.test", "domain": "scout.test",
				"collection": "org.example.note", "uri": k.private, "cid": k.privateBlob, "dids": d.scout.did, "q": "words OR seen",
			}))
			all = append(all, route.Path)
		}
	}
	return all
}

// To whoever is no member, what is private is in no body and no header of any
// answer, and what is published is there.
func TestPublishedRecordsAlone(t *testing.T) {
	t.Parallel()
	d := deploy(t, modes[1])
	k := d.keep()
	private := []string{privateWords, string(k.private.RecordKey()), k.privateCID, k.privateBlob, "org.example.note"}
	viewers := d.viewers()
	for _, viewer := range []string{"nobody", "stranger"} {
		found := map[string]bool{}
		for _, path := range d.reads(k) {
			method := syntax.NSID(strings.TrimPrefix(strings.Split(path, "?")[0], "/xrpc/"))
			answer := d.send(viewers[viewer](method), http.MethodGet, path, nil, "")
			said := fmt.Sprint(answer.Header()) + answer.Body.String()
			// What the request itself names may come back; nothing else may.
			asked, err := url.QueryUnescape(path)
			require.NoError(t, err)
			for _, secret := range private {
				if !strings.Contains(asked, secret) || secret == privateWords {
					require.NotContains(t, said, secret, "%s asks %s", viewer, path)
				}
			}
			found[string(method)] = found[string(method)] || strings.Contains(said, publicWords)
		}
		for _, method := range []string{
			"com.atproto.repo.getRecord", "com.atproto.repo.listRecords", "com.atproto.sync.getBlob", "garden.herbarium.getRecord",
			"garden.herbarium.getObservation", "garden.herbarium.getObservationHistory", "garden.herbarium.listObservations", "garden.herbarium.exportList",
		} {
			require.True(t, found[method], "%s shows %s what is published", method, viewer)
		}
	}
	require.Equal(t, []any{string(lexicons.ObservationNSID)}, d.must("", http.MethodGet, "com.atproto.repo.describeRepo", object{"repo": d.scout.did})["collections"])
	// The members go on seeing all of it.
	for _, viewer := range []string{"owner", "other agent", "team member", "admin"} {
		method := syntax.NSID("com.atproto.repo.getRecord")
		at := query(object{"repo": d.scout.did, "collection": k.private.Collection(), "rkey": k.private.RecordKey()})
		require.Contains(t, d.send(viewers[viewer](method), http.MethodGet, "/xrpc/"+string(method)+"?"+at, nil, "").Body.String(), privateWords, viewer)
	}
}

// What the operator has taken down is in no view, for nobody and for no member,
// until that is lifted; the operator goes on seeing it. The repo itself stays as
// it was signed.
func TestTakenDownRecordsAreInNoView(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, mode)
			k := d.keep()
			paths := d.reads(k) // they name a moment: the same are asked again
			viewers := d.viewers()
			turn := func(applied bool) {
				d.must(viewers["admin"](""), http.MethodPost, "com.atproto.admin.updateSubjectStatus", object{
					"subject":  object{"$type": "com.atproto.repo.strongRef", "uri": k.public, "cid": k.publicCID},
					"takedown": object{"applied": applied},
				})
			}
			shown := func(viewer string) (where []string) {
				for _, path := range paths {
					method := syntax.NSID(strings.TrimPrefix(strings.Split(path, "?")[0], "/xrpc/"))
					if strings.HasPrefix(string(method), "com.atproto.sync.") {
						continue
					}
					if strings.Contains(d.send(viewers[viewer](method), http.MethodGet, path, nil, "").Body.String(), publicWords) {
						where = append(where, path)
					}
				}
				return where
			}
			readers := []string{"nobody", "stranger", "other agent", "team member", "owner"}
			before := map[string][]string{}
			for _, viewer := range readers {
				before[viewer] = shown(viewer)
			}
			require.NotEmpty(t, before["other agent"])
			turn(true)
			for _, viewer := range readers {
				require.Empty(t, shown(viewer), viewer)
			}
			require.NotEmpty(t, shown("admin"))
			// An index that missed it is told at its next start.
			require.NoError(t, d.service.index.LiftTakedown(t.Context(), k.public))
			require.NoError(t, d.service.host.SyncTakedowns(t.Context()))
			require.Empty(t, shown("other agent"))
			turn(false)
			for _, viewer := range readers {
				require.Equal(t, before[viewer], shown(viewer), viewer)
			}
			require.NoError(t, d.service.index.TakeDown(t.Context(), k.public))
			require.NoError(t, d.service.host.SyncTakedowns(t.Context()))
			require.Equal(t, before["other agent"], shown("other agent"))
		})
	}
}

// A private record or blob answers as one that does not exist.
func TestPrivateAnswersAsAbsent(t *testing.T) {
	t.Parallel()
	d := deploy(t, modes[1])
	k := d.keep()
	absentKey, absentBlob := "3zzzzzzzzzz2z", "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"
	absent := syntax.ATURI(strings.Replace(string(k.private), string(k.private.RecordKey()), absentKey, 1))
	same := func(method string, private, none object) {
		t.Helper()
		there := d.send("", http.MethodGet, "/xrpc/"+method+"?"+query(private), nil, "")
		gone := d.send("", http.MethodGet, "/xrpc/"+method+"?"+query(none), nil, "")
		said := strings.NewReplacer(string(k.private.RecordKey()), absentKey, k.privateBlob, absentBlob, "org.example.note", "org.example.none")
		for _, answer := range []*httptest.ResponseRecorder{gone, there} {
			require.NotEmpty(t, answer.Header().Get("X-Request-Id"))
			answer.Header().Del("X-Request-Id")
		}
		require.Equal(t, gone.Code, there.Code, method)
		require.NotEqual(t, http.StatusOK, there.Code, method)
		require.Equal(t, said.Replace(gone.Body.String()), said.Replace(there.Body.String()), method)
		require.Equal(t, gone.Header(), there.Header(), method)
	}
	record := func(rkey string) object {
		return object{"repo": d.scout.did, "collection": "org.example.note", "rkey": rkey}
	}
	same("com.atproto.repo.getRecord", record(string(k.private.RecordKey())), record(absentKey))
	same("garden.herbarium.getRecord", object{"uri": k.private}, object{"uri": absent})
	same("com.atproto.sync.getBlob", object{"did": d.scout.did, "cid": k.privateBlob}, object{"did": d.scout.did, "cid": absentBlob})
	require.Equal(t, object{"records": []any{}}, d.must("", http.MethodGet, "com.atproto.repo.listRecords", object{"repo": d.scout.did, "collection": "org.example.note"}))
	// An account that published nothing is not among the agents.
	require.Contains(t, d.send("", http.MethodGet, "/xrpc/garden.herbarium.getAgent?actor="+d.other.did, nil, "").Body.String(), "not-published")
	require.Len(t, d.must("", http.MethodGet, "garden.herbarium.listAgents", nil)["agents"], 1)
}

// A published record that is taken down takes its blob along, for the public.
func TestBlobOfATakenDownRecord(t *testing.T) {
	t.Parallel()
	d := deploy(t, modes[1])
	k := d.keep()
	path := "/xrpc/com.atproto.sync.getBlob?" + query(object{"did": d.scout.did, "cid": k.publicBlob})
	require.Equal(t, publicWords, d.send("", http.MethodGet, path, nil, "").Body.String())
	d.must(d.viewers()["admin"](""), http.MethodPost, "com.atproto.admin.updateSubjectStatus", object{
		"subject":  object{"$type": "com.atproto.repo.strongRef", "uri": k.public, "cid": k.publicCID},
		"takedown": object{"applied": true},
	})
	require.Contains(t, d.send("", http.MethodGet, path, nil, "").Body.String(), "BlobNotFound")
}

// A view does not send anybody to a blob that the operator has taken down.
func TestViewsOfATakenDownBlob(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, mode)
			k := d.keep()
			content := func() object {
				return d.must(d.other.token, http.MethodGet, "garden.herbarium.getObservation", object{"uri": k.public})["observation"].(object)["content"].(object)
			}
			before := content()
			require.Contains(t, before["url"], k.publicBlob)
			turn := func(applied bool) {
				d.must(d.viewers()["admin"](""), http.MethodPost, "com.atproto.admin.updateSubjectStatus", object{
					"subject":  object{"$type": "com.atproto.admin.defs#repoBlobRef", "did": d.scout.did, "cid": k.publicBlob},
					"takedown": object{"applied": applied},
				})
			}
			turn(true)
			require.Equal(t, true, content()["takenDown"])
			require.NotContains(t, content(), "url")
			turn(false)
			require.Equal(t, before, content())
		})
	}
}

// A service JWT is for one call of the method that it names, of this service.
func TestServiceTokensOfTheTeam(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, m)
			host := string(d.service.cfg.ServiceDID)
			for _, method := range []syntax.NSID{"garden.herbarium.listAgents", "com.atproto.sync.listRepos"} {
				call := func(credential string) *httptest.ResponseRecorder {
					return d.send(credential, http.MethodGet, "/xrpc/"+string(method), nil, "")
				}
				for _, audience := range []string{host, host + "#herbarium_appview", host + "#atproto_pds"} {
					token := d.member.bearer(t, audience, method)
					require.Equal(t, http.StatusOK, call(token).Code, "%s for %s", method, audience)
					require.Contains(t, call(token).Body.String(), "NonceNotUnique", "a token is good once")
				}
				require.Contains(t, call(d.member.bearer(t, host+"#other", method)).Body.String(), "BadJwtAudience")
				require.Contains(t, call(d.member.bearer(t, "did:web:elsewhere.test", method)).Body.String(), "BadJwtAudience")
				require.Contains(t, call(d.member.bearer(t, host, "com.atproto.sync.getRepo")).Body.String(), "BadJwtLexiconMethod")
				forged := elsewhere{d.member.did, d.outside.key}
				require.Contains(t, call(forged.bearer(t, host, method)).Body.String(), "BadJwtSignature")
			}
		})
	}
}

func decode(t *testing.T, answer *httptest.ResponseRecorder) object {
	t.Helper()
	var out object
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &out), answer.Body)
	return out
}
