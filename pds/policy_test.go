package pds_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/pds"
)

const like = "app.bsky.feed.like"

// restrict sets the policy of an account.
func (h *host) restrict(t *testing.T, a agent, policy object) object {
	t.Helper()
	return h.procedure(t, admin(), "garden.herbarium.admin.updateAccountPolicy", object{"did": a.did, "policy": policy}).ok(t)
}

// finding is the first finding of a refusal.
func (r reply) finding(t *testing.T) object {
	t.Helper()
	findings := r.object(t).list("findings")
	require.NotEmpty(t, findings, string(r.Body))
	return object(findings[0].(map[string]any))
}

// dryRun asks what a put or a delete would be answered.
func (h *host) dryRun(t *testing.T, a agent, body object) object {
	t.Helper()
	body["repo"] = a.did
	return h.procedure(t, a.access, "garden.herbarium.validateRecord", body).ok(t)
}

// A policy is replaced as a whole, so a misspelt field would clear what it meant.
func TestAMisspeltPolicyIsRefused(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		h.restrict(t, a, object{"maxRecords": 1})
		require.Contains(t, h.procedure(t, admin(), "garden.herbarium.admin.updateAccountPolicy",
			object{"did": a.did, "policy": object{"maxRecord": 2}}).refused(t, 400, "InvalidRequest"), "maxRecord")
		h.create(t, a, note, object{}).ok(t)
		h.create(t, a, note, object{}).refused(t, 400, "QuotaExceeded")
	})
}

func TestAllowedCollections(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		h.put(t, a, note, "before", object{"n": 0}).ok(t)
		h.restrict(t, a, object{"collections": []string{observation}})
		seq := h.lastSeq(t)
		for name, r := range map[string]reply{
			"createRecord": h.create(t, a, note, object{"n": 1}),
			"putRecord":    h.put(t, a, note, "before", object{"n": 1}),
			"deleteRecord": h.delete(t, a, note, "before"),
			"unvalidated":  h.create(t, a, note, object{"n": 1}, "validate", false),
		} {
			message := r.refused(t, 400, "PolicyDenied")
			require.Equal(t, "collection-denied: this account may not write records of "+note+"; allowed "+observation, message, name)
			require.Equal(t, "collection-denied", r.finding(t).str("code"), name)
		}
		batch := h.apply(t, a, []object{creating(observation, "", observed("seen")), deleting(note, "before")})
		require.True(t, strings.HasPrefix(batch.refused(t, 400, "PolicyDenied"), "collection-denied at /writes/1: "), string(batch.Body))
		require.Equal(t, "/writes/1", batch.finding(t).str("path"))
		judged := h.dryRun(t, a, object{"collection": note, "record": object{"n": 1}})
		require.Equal(t, "PolicyDenied", judged.str("error"))
		require.Equal(t, false, judged.at("valid"))
		require.Equal(t, seq, h.lastSeq(t), "nothing was written")

		h.create(t, a, observation, observed("seen")).ok(t)
		shut := h.restrict(t, a, object{"collections": []string{}})
		require.Equal(t, map[string]any{"collections": []any{}}, shut.at("policy"), "none is another thing than all")
		require.Contains(t, h.create(t, a, observation, observed("seen")).refused(t, 400, "PolicyDenied"), "; allowed none")
		require.Empty(t, h.restrict(t, a, object{}).at("policy"))
		h.create(t, a, note, object{"n": 1}).ok(t)
	})
}

func TestCreateOnlyCollections(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		subject := object{"subject": object{"uri": "at://did:web:x.test/app.bsky.feed.post/3jzfcijpj2z2a", "cid": "bafyreibjo4xmgaevkgud7mbifn3dzp4v4lyaui4yvqp3f2bqwtxcjrdqg4"}, "createdAt": "2026-01-01T00:00:00Z"}
		h.restrict(t, a, object{"createOnly": []string{note, like}})
		h.put(t, a, note, "one", object{"n": 1}).ok(t)
		h.put(t, a, note, "one", object{"n": 1}).ok(t) // the same again changes nothing
		liked := h.create(t, a, like, subject).ok(t)
		seq := h.lastSeq(t)
		for name, r := range map[string]reply{
			"putRecord":    h.put(t, a, note, "one", object{"n": 2}),
			"deleteRecord": h.delete(t, a, note, "one"),
			"update":       h.apply(t, a, []object{updating(note, "one", object{"n": 2})}),
			"delete":       h.apply(t, a, []object{creating(note, "", object{"n": 3}), deleting(note, "one")}),
			// A like of the same subject would replace the one that is there.
			"a second like": h.create(t, a, like, subject),
		} {
			message := r.refused(t, 400, "PolicyDenied")
			require.True(t, strings.HasSuffix(message, "; leave it as it is, and create a record under another key"), "%s: %s", name, message)
			require.Equal(t, "create-only", r.finding(t).str("code"), name)
		}
		require.Contains(t, h.create(t, a, like, subject).refused(t, 400, "PolicyDenied"), liked.str("uri"))
		judged := h.dryRun(t, a, object{"collection": note, "rkey": "one", "action": "delete"})
		require.Equal(t, "PolicyDenied", judged.str("error"))
		require.Equal(t, seq, h.lastSeq(t), "nothing was written")
	})
}

// 32 creates at once under a quota of 10 leave 10 records, and what is told of
// what is left is right.
func TestRecordQuota(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		h.restrict(t, a, object{"maxRecords": 10})
		var (
			all  sync.WaitGroup
			mu   sync.Mutex
			told = map[string]int{}
		)
		for i := range 32 {
			all.Go(func() {
				r := h.create(t, a, note, object{"n": i})
				mu.Lock()
				defer mu.Unlock()
				if r.Status == http.StatusOK {
					told["created"]++
				} else {
					told[r.object(t).str("error")+" "+r.finding(t).str("repair")]++
				}
			})
		}
		all.Wait()
		require.Equal(t, map[string]int{"created": 10, "QuotaExceeded left 0": 22}, told)
		records := h.query(t, a.access, "com.atproto.repo.listRecords", "repo", a.did, "collection", note, "limit", "100").ok(t).list("records")
		require.Len(t, records, 10)
		require.Equal(t, json.Number("10"), h.query(t, a.access, "com.atproto.server.checkAccountStatus").ok(t).at("indexedRecords"))

		// One makes room for one: of two the batch writes none.
		h.delete(t, a, note, rkeyOf(object(records[0].(map[string]any)))).ok(t)
		seq := h.lastSeq(t)
		batch := h.apply(t, a, []object{creating(note, "a", object{}), creating(note, "b", object{})})
		require.Equal(t, "record-quota: this adds 2 records, and the account has 9 of at most 10; delete some, or ask the operator for more; left 1", batch.refused(t, 400, "QuotaExceeded"))
		require.Equal(t, seq, h.lastSeq(t), "nothing of it was written")
		require.Equal(t, true, h.dryRun(t, a, object{"collection": note, "record": object{}}).at("valid"))
		h.put(t, a, note, "last", object{"n": 1}).ok(t)
		require.Equal(t, "QuotaExceeded", h.dryRun(t, a, object{"collection": note, "record": object{}}).str("error"))
		h.put(t, a, note, "last", object{"n": 2}).ok(t) // an update takes no room

		// A lower quota leaves what is there, and deleting is always possible.
		h.restrict(t, a, object{"maxRecords": 3})
		h.put(t, a, note, "more", object{}).refused(t, 400, "QuotaExceeded")
		h.delete(t, a, note, "last").ok(t)
	})
}

func TestBlobQuota(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		upload := func(content string) reply {
			return h.do(t, http.MethodPost, "/xrpc/com.atproto.repo.uploadBlob", a.access, strings.NewReader(content), "Content-Type", "text/plain")
		}
		h.restrict(t, a, object{"maxBlobBytes": 10})
		upload("sixsix").ok(t)
		r := upload("fiveF")
		require.Equal(t, "blob-quota: this adds 5 bytes of blobs, and the account has 6 of at most 10; send fewer, or ask the operator for more; left 4", r.refused(t, 400, "QuotaExceeded"))
		require.Equal(t, "blob-quota", r.finding(t).str("code"))
		kept := 0
		require.NoError(t, h.bucket.List(t.Context(), "", "", func(blobstore.Object) error { kept++; return nil }))
		require.Equal(t, 1, kept, "the bytes of a refused upload are not kept")
		upload("sixsix").ok(t) // it is there already
		upload("four").ok(t)
		upload("x").refused(t, 400, "QuotaExceeded")
		quotas := h.query(t, a.access, "garden.herbarium.getAccountLimits").ok(t).list("quotas")
		require.Equal(t, []any{
			map[string]any{"name": "records", "used": json.Number("0")},
			map[string]any{"name": "blobBytes", "used": json.Number("10"), "limit": json.Number("10"), "left": json.Number("0")},
		}, quotas)
	})
}

func TestImportUnderAPolicy(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		h.put(t, a, note, "one", object{"n": 1}).ok(t)
		h.put(t, a, note, "two", object{"n": 2}).ok(t)
		car := h.repoCAR(t, a.did)
		h.delete(t, a, note, "two").ok(t)
		restore := func() reply {
			return h.do(t, http.MethodPost, "/xrpc/com.atproto.repo.importRepo", a.access, strings.NewReader(string(car)), "Content-Type", "application/vnd.ipld.car")
		}
		for _, c := range []struct {
			policy  object
			refusal string
		}{
			{object{"collections": []string{observation}}, "PolicyDenied"},
			{object{"maxRecords": 1}, "QuotaExceeded"},
		} {
			h.restrict(t, a, c.policy)
			restore().refused(t, 400, c.refusal)
		}
		h.restrict(t, a, object{"maxRecords": 2, "createOnly": []string{note}, "collections": []string{note}})
		require.Equal(t, http.StatusOK, restore().Status)
		h.put(t, a, note, "three", object{}).refused(t, 400, "QuotaExceeded")
	})
}

// rateLimit finds a limit in a view of them.
func rateLimit(t *testing.T, limits object, name string) object {
	t.Helper()
	for _, l := range limits.list("rateLimits") {
		if l := object(l.(map[string]any)); l.str("name") == name {
			return l
		}
	}
	require.Fail(t, "no limit "+name)
	return nil
}

func TestAccountLimitsAreShownAndOverridden(t *testing.T) {
	limits := pds.Limits{
		Requests: pds.Limit{Points: 1000, Window: time.Minute}, WritesPerHour: 12,
		Methods: []pds.MethodLimit{{Method: "com.atproto.server.createAppPassword", Limit: pds.Limit{Points: 2, Window: time.Hour}, ByAccount: true}},
	}
	time0 := newClock()
	eachHost(t, setting{limits: limits, clock: time0}, func(t *testing.T, h *host) {
		a, other := h.agent(t, "scout"), h.agent(t, "neighbour")
		n := func(i int) json.Number { return json.Number(fmt.Sprint(i)) }
		own := func() object { return h.query(t, a.access, "garden.herbarium.getAccountLimits").ok(t) }
		fresh := own()
		require.Equal(t, a.did, fresh.str("did"))
		require.Empty(t, fresh.at("policy"))
		require.Equal(t, object{"name": "writesPerHour", "points": n(12), "windowSeconds": n(3600), "used": n(0), "left": n(12)}, rateLimit(t, fresh, "writesPerHour"))
		require.NotEqual(t, n(0), rateLimit(t, fresh, "requests").at("used"))

		began := time0.Now()
		h.put(t, a, note, "one", object{"n": 1}).standing(t, pds.Limit{Points: 12, Window: time.Hour}, 10, began.Add(time.Hour))
		view := rateLimit(t, own(), "writesPerHour")
		require.Equal(t, n(2), view.at("used"))
		require.Equal(t, began.Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000Z"), view.str("resetsAt"))

		// Points of its own, in the windows that have begun; nobody else's change.
		set := h.restrict(t, a, object{"writesPerHour": 5, "writesPerDay": 6})
		require.Equal(t, n(3), rateLimit(t, set, "writesPerHour").at("left"))
		require.Equal(t, n(6), rateLimit(t, set, "writesPerDay").at("left"), "the host has no limit on a day")
		h.create(t, a, note, object{"n": 2}).standing(t, pds.Limit{Points: 5, Window: time.Hour}, 0, began.Add(time.Hour))
		h.delete(t, a, note, "one").limited(t, pds.Limit{Points: 5, Window: time.Hour}, 0, began.Add(time.Hour), time0.Now())
		h.create(t, other, note, object{"n": 2}).standing(t, pds.Limit{Points: 12, Window: time.Hour}, 9, began.Add(time.Hour))
		time0.advance(time.Hour)
		huge := h.apply(t, a, []object{creating(note, "", object{}), creating(note, "", object{})})
		require.Contains(t, huge.refused(t, 429, "RateLimitExceeded"), "; it never fits: send fewer writes in one call")
		byAdmin := h.query(t, admin(), "garden.herbarium.admin.getAccountLimits", "did", a.did).ok(t)
		require.Equal(t, map[string]any{"writesPerHour": n(5), "writesPerDay": n(6)}, byAdmin.at("policy"))
		require.Equal(t, n(3), rateLimit(t, byAdmin, "writesPerDay").at("used"))
		h.restrict(t, a, object{"writesPerHour": 2})
		h.restrict(t, a, object{})
		require.Equal(t, n(12), rateLimit(t, own(), "writesPerHour").at("points"))

		// A limit on one method, by account.
		secret := func(who agent, name string) reply {
			return h.procedure(t, who.access, "com.atproto.server.createAppPassword", object{"name": name})
		}
		secret(a, "one").ok(t)
		secret(a, "two").standing(t, pds.Limit{Points: 2, Window: time.Hour}, 0, time0.Now().Add(time.Hour))
		secret(a, "three").refused(t, 429, "RateLimitExceeded")
		secret(other, "one").ok(t)
		require.Equal(t, n(0), rateLimit(t, own(), "com.atproto.server.createAppPassword").at("left"))
	})
}

func TestAccountPoliciesThatAreRefused(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		set := func(did string, policy object) reply {
			return h.procedure(t, admin(), "garden.herbarium.admin.updateAccountPolicy", object{"did": did, "policy": policy})
		}
		set("did:web:nobody.test", object{}).refused(t, 400, "NotFound")
		for _, policy := range []object{
			{"maxRecords": -1}, {"maxRecords": 1.5}, {"writesPerHour": 0}, {"collections": []string{"no nsid"}}, {"collections": "all"},
		} {
			set(a.did, policy).refused(t, 400, "InvalidRequest")
		}
		h.query(t, admin(), "garden.herbarium.admin.getAccountLimits", "did", "did:web:nobody.test").refused(t, 400, "NotFound")
		h.procedure(t, admin(), "com.atproto.admin.deleteAccount", object{"did": a.did})
		h.query(t, admin(), "garden.herbarium.admin.getAccountLimits", "did", a.did).refused(t, 400, "NotFound")
		set(a.did, object{}).refused(t, 400, "NotFound")
	})
}

func TestNewAccountsAreLimitedByAddress(t *testing.T) {
	limit := pds.Limit{Points: 2, Window: 5 * time.Minute}
	eachHost(t, setting{limits: pds.Limits{Methods: []pds.MethodLimit{{Method: "com.atproto.server.createAccount", Limit: limit}}}}, func(t *testing.T, h *host) {
		sign := func(address, name string) reply {
			body := fmt.Sprintf(`{"handle": %q, "password": "a password"}`, name+".test")
			return h.do(t, http.MethodPost, "/xrpc/com.atproto.server.createAccount", "", strings.NewReader(body), "Content-Type", "application/json", "X-Forwarded-For", address)
		}
		sign("192.0.2.1", "one").ok(t)
		sign("192.0.2.1", "two").ok(t)
		sign("192.0.2.1", "three").refused(t, 429, "RateLimitExceeded")
		sign("192.0.2.2", "three").ok(t)
	})
}
