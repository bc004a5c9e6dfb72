package pds_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds"
)

// twins are an account of this host and a member of the team who is hosted
// elsewhere, whose repos hold the same; the second is known to an index alone.
type twins struct {
	*host
	t       *testing.T
	own     agent
	foreign syntax.DID
	key     atcrypto.PrivateKey
	witness *index.Index
	revs    int
}

// elsewhere is a record of the account with the DID of its twin.
func (w *twins) elsewhere(record object) object {
	raw, err := json.Marshal(record)
	require.NoError(w.t, err)
	var out object
	require.NoError(w.t, json.Unmarshal([]byte(strings.ReplaceAll(string(raw), w.own.did, string(w.foreign))), &out))
	return out
}

func (w *twins) commit(op index.Operation) {
	w.revs++
	rev := syntax.NewTIDFromTime(time.Now().Add(-time.Hour).Add(time.Duration(w.revs)*time.Second), 0)
	require.NoError(w.t, w.witness.Apply(w.t.Context(), "elsewhere", 0, []index.Event{&index.Commit{DID: w.foreign, Rev: rev, CID: op.CID, Data: op.CID, Ops: []index.Operation{op}}}))
}

// write writes a record to both, and answers references to either.
func (w *twins) write(collection, rkey string, record object) (own, foreign object) {
	w.t.Helper()
	made := w.put(w.t, w.own, collection, rkey, record).ok(w.t)
	raw, err := json.Marshal(w.elsewhere(record))
	require.NoError(w.t, err)
	rec, err := lexicons.ParseJSON(syntax.NSID(collection), raw)
	require.NoError(w.t, err)
	w.commit(index.Operation{Action: lexicons.Create, Collection: rec.Collection, RecordKey: syntax.RecordKey(rkey), CID: rec.CID, Record: rec.CBOR})
	return object{"uri": made.str("uri"), "cid": made.str("cid")},
		object{"uri": "at://" + string(w.foreign) + "/" + collection + "/" + rkey, "cid": rec.CID.String()}
}

func (w *twins) drop(collection, rkey string) {
	w.t.Helper()
	w.delete(w.t, w.own, collection, rkey).ok(w.t)
	w.commit(index.Operation{Action: lexicons.Delete, Collection: syntax.NSID(collection), RecordKey: syntax.RecordKey(rkey)})
}

// token is a service token of the twin for the dry run.
func (w *twins) token() string {
	token, err := pds.SignServiceJWT(w.key, pds.ServiceClaims{
		Issuer: string(w.foreign), Audience: string(w.did), Method: "garden.herbarium.validateRecord", Expires: nowUnix() + 60,
	})
	require.NoError(w.t, err)
	return "Bearer " + token
}

func eachTwins(t *testing.T, fn func(t *testing.T, w *twins)) {
	t.Parallel()
	key, err := atcrypto.GeneratePrivateKeyP256()
	require.NoError(t, err)
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		catalog, err := lexicons.Load()
		require.NoError(t, err)
		x, err := index.New(index.Config{DB: dbtest.Open(t, migrations.Appview, db.Dialect), Rules: lexicons.NewRules(catalog, lexicons.Settings{})})
		require.NoError(t, err)
		h := newHost(t, db, setting{
			teamDIDs: []syntax.DID{theIssuer}, others: func(t *testing.T) identity.Directory { return directoryOf(t, theIssuer, key) }, witness: x,
		})
		fn(t, &twins{host: h, t: t, own: h.agent(t, "scout"), foreign: theIssuer, key: key, witness: x})
	})
}

// A member of the team who is hosted elsewhere is told of a write what an account
// of this host is told whose repo holds the same, and by whose state.
func TestIndexForeseesAsTheHost(t *testing.T) {
	eachTwins(t, func(t *testing.T, w *twins) {
		tid := func(n int) string {
			return syntax.NewTIDFromTime(time.Now().Add(-time.Minute).Add(time.Duration(n)*time.Millisecond), 0).String()
		}
		seen := func(text string, supersedes object) object {
			record := observed(text)
			if supersedes != nil {
				record["supersedes"] = supersedes
			}
			return record
		}
		keys := []string{tid(0), tid(1), tid(2), tid(3), tid(4)}
		first, firstThere := w.write(observation, keys[0], seen("one", nil))
		second, secondThere := w.write(observation, keys[1], seen("two", first))
		third, thirdThere := w.write(observation, keys[2], seen("three", second))
		gone, goneThere := w.write(observation, keys[3], seen("gone", nil))
		w.drop(observation, keys[3])
		lone, loneThere := w.write(observation, keys[4], seen("alone", nil))
		there := map[string]object{first.str("cid"): firstThere, second.str("cid"): secondThere, third.str("cid"): thirdThere, gone.str("cid"): goneThere, lone.str("cid"): loneThere}
		nowhere := object{"uri": "at://" + w.own.did + "/" + observation + "/3jzzzzzzzzz2a", "cid": first.str("cid")}
		moved := object{"uri": first.str("uri"), "cid": second.str("cid")}
		for name, tc := range map[string]struct {
			action, rkey string
			record       object
			valid        bool
		}{
			"the first of a chain":          {"create", tid(10), seen("x", nil), true},
			"a successor of a head":         {"create", tid(10), seen("x", lone), true},
			"a successor of a superseded":   {"create", tid(10), seen("x", first), false},
			"of one in the middle":          {"create", tid(10), seen("x", second), false},
			"of what never was":             {"create", tid(10), seen("x", nowhere), false},
			"of another version":            {"create", tid(10), seen("x", moved), false},
			"of what was deleted":           {"create", tid(10), seen("x", gone), true},
			"an edit":                       {"update", keys[0], seen("edited", nil), false},
			"an edit by create":             {"create", keys[0], seen("edited", nil), false},
			"an edit by put":                {"", keys[0], seen("edited", nil), false},
			"a key used again":              {"create", keys[3], seen("again", nil), false},
			"an update of nothing":          {"update", tid(10), seen("x", nil), false},
			"a delete":                      {"delete", keys[0], nil, true},
			"a delete of nothing":           {"delete", tid(10), nil, true},
			"one that fails its lexicon":    {"create", tid(10), object{"text": 1}, false},
			"one with a credential in it":   {"create", tid(10), withSource(seen("x", nil), object{"kind": "url", "value": "https://scout:hunter2@a.test/"}), false},
			"one with another's supersedes": {"create", tid(10), seen("x", object{"uri": "at://did:web:other.test/" + observation + "/3jzzzzzzzzz2a", "cid": first.str("cid")}), true},
		} {
			ask := func(repo, credential string, record object) object {
				body := object{"repo": repo, "collection": observation, "rkey": tc.rkey}
				if tc.action != "" {
					body["action"] = tc.action
				}
				if record != nil {
					body["record"] = record
				}
				return w.procedure(t, credential, "garden.herbarium.validateRecord", body).ok(t)
			}
			here := ask(w.own.did, w.own.access, tc.record)
			require.Equal(t, "host", here.str("scope"), name)
			var record object
			if tc.record != nil {
				record = w.elsewhere(tc.record)
				if ref, ok := tc.record["supersedes"].(object); ok {
					if twin, ok := there[ref.str("cid")]; ok {
						record["supersedes"] = object{"uri": w.elsewhere(ref).str("uri"), "cid": twin.str("cid")}
					}
				}
			}
			foreseen := ask(string(w.foreign), w.token(), record)
			require.Equal(t, "index", foreseen.str("scope"), name)
			require.Equal(t, tc.valid, here["valid"], "%s: %v", name, here)
			require.Equal(t, here["valid"], foreseen["valid"], "%s: %v", name, foreseen)
			require.Equal(t, here["error"], foreseen["error"], name)
			require.Equal(t, codes(here.list("findings"), always), codes(foreseen.list("findings"), always), name)
			if strings.Contains(here.str("message"), "head at://") {
				require.Contains(t, foreseen.str("message"), "head at://"+string(w.foreign)+"/", name)
				require.Equal(t, there[third.str("cid")].str("cid"), last(strings.Fields(foreseen.str("message"))), name)
			}
		}
	})
}

func withSource(record, source object) object {
	record["source"] = source
	return record
}

func last(words []string) string { return words[len(words)-1] }

// A stranger, the operator and whoever asks about another repo get no judgement.
func TestForesightIsForTheRepoItself(t *testing.T) {
	eachTwins(t, func(t *testing.T, w *twins) {
		ask := func(credential, repo string) reply {
			return w.procedure(t, credential, "garden.herbarium.validateRecord", object{"repo": repo, "collection": note, "record": object{"n": 1}})
		}
		ask(w.token(), string(w.foreign)).refused(t, 400, "InvalidRequest") // nothing was witnessed of it
		w.write(note, "one", object{"n": 1})
		require.Equal(t, "index", ask(w.token(), string(w.foreign)).ok(t).str("scope"))
		ask(w.token(), w.own.did).refused(t, 401, "AuthenticationRequired")
		ask(w.own.access, string(w.foreign)).refused(t, 403, "AccountNotFound")
		ask(admin(), string(w.foreign)).refused(t, 400, "InvalidToken")
	})
}
