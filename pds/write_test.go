package pds_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
)

func TestCreateRecord(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		record := observed("what was seen")
		delete(record, "$type")
		out := h.create(t, a, observation, record).ok(t)
		require.Equal(t, "valid", out.str("validationStatus"))
		_, err := syntax.ParseTID(out.str("commit", "rev"))
		require.NoError(t, err, "rev is a TID")
		_, err = syntax.ParseTID(rkeyOf(out))
		require.NoError(t, err, "a key that the client leaves out is a TID")
		require.Equal(t, h.rev(t, a.did), out.str("commit", "rev"))

		for _, repo := range []string{a.did, a.handle, strings.ToUpper(a.handle)} {
			got := h.query(t, a.access, "com.atproto.repo.getRecord", "repo", repo, "collection", observation, "rkey", rkeyOf(out)).ok(t)
			require.Equal(t, out.str("uri"), got.str("uri"))
			require.Equal(t, out.str("cid"), got.str("cid"))
			require.Equal(t, observation, got.str("value", "$type"), "$type is filled in")
			require.Equal(t, "what was seen", got.str("value", "text"))
		}
		h.create(t, a, observation, record, "rkey", rkeyOf(out)).refused(t, 400, "InvalidRequest")
	})
}

func TestWhoseRepo(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a, other := h.agent(t, "scout"), h.agent(t, "other")
		before := h.lastSeq(t)
		write := func(repo string) reply {
			return h.procedure(t, a.access, "com.atproto.repo.createRecord", object{"repo": repo, "collection": note, "record": object{"n": 1}})
		}
		write(other.did).refused(t, 401, "AuthenticationRequired")
		write(other.handle).refused(t, 401, "AuthenticationRequired")
		write("did:web:nobody.test").refused(t, 403, "AccountNotFound")
		require.Equal(t, before, h.lastSeq(t))
		require.Equal(t, 200, write(a.handle).Status)
	})
}

func TestValidateParameter(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		free := object{"$type": note, "n": 1}

		require.Equal(t, "unknown", h.create(t, a, note, free).ok(t).str("validationStatus"))
		require.Nil(t, h.create(t, a, note, free, "validate", false).ok(t).at("validationStatus"))
		h.create(t, a, note, free, "validate", true).refused(t, 400, "InvalidRequest")
		require.Equal(t, "valid", h.create(t, a, observation, observed("x"), "validate", true).ok(t).str("validationStatus"))

		message := h.create(t, a, observation, observed("x"), "validate", false).refused(t, 400, "ValidationRequired")
		require.Contains(t, message, "; ", "the message ends in the repair")

		h.create(t, a, note, object{"$type": "org.example.other"}).refused(t, 400, "InvalidRequest")
		h.create(t, a, note, object{"$type": "org.example.other"}, "validate", false).refused(t, 400, "InvalidRequest")
		broken := object{"$type": note, "image": object{"$type": "blob", "ref": object{"$link": "nonsense"}, "mimeType": "image/png", "size": 1}}
		h.create(t, a, note, broken, "validate", false).refused(t, 400, "InvalidRequest")
	})
}

func TestRecordKeys(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		h.put(t, a, observation, "not-a-tid", observed("x")).refused(t, 400, "InvalidRequest")
		h.put(t, a, note, "..", object{}).refused(t, 400, "InvalidRequest")
		h.put(t, a, note, "a/b", object{}).refused(t, 400, "InvalidRequest")
		h.put(t, a, note, "", object{}).refused(t, 400, "InvalidRequest")
		h.put(t, a, note, strings.Repeat("k", 513), object{}).refused(t, 400, "InvalidRequest")
		h.put(t, a, note, "any:legal~key_1.0-x", object{}).ok(t)
	})
}

func TestPutRecord(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		first := h.put(t, a, note, "one", object{"n": 1}).ok(t)
		rev, seq := h.rev(t, a.did), h.lastSeq(t)

		again := h.put(t, a, note, "one", object{"n": 1}).ok(t)
		require.Equal(t, first.str("cid"), again.str("cid"))
		require.Nil(t, again.at("commit"), "what changes nothing makes no commit")
		require.Equal(t, rev, h.rev(t, a.did))
		require.Equal(t, seq, h.lastSeq(t), "and no event")

		second := h.put(t, a, note, "one", object{"n": 2}).ok(t)
		require.NotNil(t, second.at("commit"))

		swap := func(rkey string, n int, cid any) reply {
			return h.put(t, a, note, rkey, object{"n": n}, "swapRecord", cid)
		}
		swap("one", 3, first.str("cid")).refused(t, 400, "InvalidSwap")
		swap("one", 3, nil).refused(t, 400, "InvalidSwap")
		swap("one", 3, second.str("cid")).ok(t)
		swap("two", 1, first.str("cid")).refused(t, 400, "InvalidSwap")
		swap("two", 1, nil).ok(t)
		h.put(t, a, note, "two", object{"n": 9}).ok(t)

		head := h.query(t, a.access, "com.atproto.sync.getLatestCommit", "did", a.did).ok(t).str("cid")
		h.put(t, a, note, "three", object{}, "swapCommit", first.str("commit", "cid")).refused(t, 400, "InvalidSwap")
		h.put(t, a, note, "three", object{}, "swapCommit", head).ok(t)
		h.put(t, a, note, "three", object{}, "swapCommit", "no cid").refused(t, 400, "InvalidRequest")
	})
}

func TestDeleteRecord(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		h.put(t, a, note, "one", object{"same": true}).ok(t)
		h.put(t, a, note, "two", object{"same": true}).ok(t)
		h.delete(t, a, note, "one", "swapRecord", h.put(t, a, note, "three", object{"n": 3}).ok(t).str("cid")).refused(t, 400, "InvalidSwap")
		require.NotNil(t, h.delete(t, a, note, "one").ok(t).at("commit"))

		seq := h.lastSeq(t)
		require.Empty(t, h.delete(t, a, note, "one").ok(t), "deleting what is not there is fine")
		require.Equal(t, seq, h.lastSeq(t), "and no commit")

		h.query(t, a.access, "com.atproto.repo.getRecord", "repo", a.did, "collection", note, "rkey", "one").refused(t, 400, "RecordNotFound")
		h.query(t, a.access, "com.atproto.repo.getRecord", "repo", a.did, "collection", note, "rkey", "two").ok(t)
		require.Contains(t, recordsOfCAR(t, h.query(t, a.access, "com.atproto.sync.getRepo", "did", a.did).Body), note+"/two",
			"the block of another record with the same CID stays")
	})
}

func TestApplyWrites(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		h.put(t, a, note, "old", object{"n": 0}).ok(t)
		h.put(t, a, note, "gone", object{"n": 0}).ok(t)
		seq := h.lastSeq(t)
		out := h.apply(t, a, []object{
			creating(note, "new", object{"n": 1}),
			updating(note, "old", object{"n": 2}),
			deleting(note, "gone"),
			creating(observation, "", observed("seen")),
		}).ok(t)
		require.Equal(t, seq+1, h.lastSeq(t), "one commit")
		var kinds, statuses []string
		for _, r := range out.list("results") {
			kinds = append(kinds, strings.TrimPrefix(object(r.(map[string]any)).str("$type"), "com.atproto.repo.applyWrites#"))
			statuses = append(statuses, object(r.(map[string]any)).str("validationStatus"))
		}
		require.Equal(t, []string{"createResult", "updateResult", "deleteResult", "createResult"}, kinds)
		require.Equal(t, []string{"unknown", "unknown", "", "valid"}, statuses)

		seq = h.lastSeq(t)
		for name, writes := range map[string][]object{
			"create what exists":     {creating(note, "fine", object{}), creating(note, "new", object{"n": 5})},
			"update what is missing": {creating(note, "fine", object{}), updating(note, "missing", object{"n": 5})},
			"delete what is missing": {creating(note, "fine", object{}), deleting(note, "missing")},
			"one bad record":         {creating(note, "fine", object{}), creating(observation, "", object{"$type": observation})},
			"an unknown kind":        {{"$type": "com.atproto.repo.applyWrites#rename", "collection": note, "rkey": "x"}},
			"no kind":                {{"collection": note, "rkey": "x"}},
		} {
			t.Run(name, func(t *testing.T) {
				message := h.apply(t, a, writes).refused(t, 400, "InvalidRequest")
				if len(writes) > 1 {
					require.Contains(t, message, "/writes/1", "the message says which write it is")
				}
				require.Equal(t, seq, h.lastSeq(t), "nothing is written")
				h.query(t, a.access, "com.atproto.repo.getRecord", "repo", a.did, "collection", note, "rkey", "fine").refused(t, 400, "RecordNotFound")
			})
		}
		many := make([]object, 201)
		for i := range many {
			many[i] = creating(note, fmt.Sprintf("k%d", i), object{"n": i})
		}
		h.apply(t, a, many).refused(t, 400, "InvalidRequest")
		require.Len(t, h.apply(t, a, many[:200]).ok(t).list("results"), 200)
		require.Empty(t, h.apply(t, a, nil, "writes", []object{}).ok(t).list("results"))
		h.apply(t, a, []object{creating(note, "swapped", object{})}, "swapCommit", out.str("commit", "cid")).refused(t, 400, "InvalidSwap")
	})
}

func TestValuesComeBackAsTheyWere(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		const link = "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"
		want := map[string]any{
			"$type": note, "int": json.Number("9007199254740991"), "negative": json.Number("-9007199254740991"), "zero": json.Number("0"),
			"text": "<a href=\"x\">& 東京 👩‍🔬\u0000\u2028", "null": nil, "yes": true,
			"bytes": map[string]any{"$bytes": base64.RawStdEncoding.EncodeToString([]byte{0, 1, 254})},
			"link":  map[string]any{"$link": link},
			"list":  []any{json.Number("1"), "two", map[string]any{"three": json.Number("3")}},
			"empty": map[string]any{}, "none": []any{},
		}
		out := h.put(t, a, note, "all", want).ok(t)
		got := h.query(t, a.access, "com.atproto.repo.getRecord", "repo", a.did, "collection", note, "rkey", "all")
		require.Equal(t, want, got.ok(t).at("value"))
		require.Contains(t, string(got.Body), "<a href", "HTML is not escaped")
		h.put(t, a, note, "all", want).ok(t)
		require.Equal(t, out.str("cid"), h.put(t, a, note, "copy", want).ok(t).str("cid"))
	})
}

func TestListRecords(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		var writes []object
		for i := range 5 {
			writes = append(writes, creating(note, fmt.Sprintf("k%d", i), object{"n": i}))
		}
		h.apply(t, a, writes).ok(t)
		list := func(params ...string) (keys []string, cursor string) {
			out := h.query(t, a.access, "com.atproto.repo.listRecords", append([]string{"repo", a.handle, "collection", note}, params...)...).ok(t)
			for _, r := range out.list("records") {
				keys = append(keys, rkeyOf(object(r.(map[string]any))))
			}
			return keys, out.str("cursor")
		}
		keys, cursor := list("limit", "2")
		require.Equal(t, []string{"k4", "k3"}, keys)
		require.Equal(t, "k3", cursor)
		keys, cursor = list("limit", "10", "cursor", cursor)
		require.Equal(t, []string{"k2", "k1", "k0"}, keys)
		require.Equal(t, "k0", cursor, "a cursor is given on the last page, too")
		keys, cursor = list("cursor", cursor)
		require.Empty(t, keys)
		require.Empty(t, cursor)
		keys, _ = list("reverse", "true", "limit", "2")
		require.Equal(t, []string{"k0", "k1"}, keys)
		h.query(t, a.access, "com.atproto.repo.listRecords", "repo", a.did, "collection", note, "limit", "101").refused(t, 400, "InvalidRequest")
		h.query(t, a.access, "com.atproto.repo.listRecords", "repo", "nobody.test", "collection", note).refused(t, 400, "InvalidRequest")
		require.Empty(t, h.query(t, a.access, "com.atproto.repo.listRecords", "repo", a.did, "collection", "org.example.none").ok(t).list("records"))
	})
}

func TestDescribeRepo(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		h.put(t, a, note, "x", object{}).ok(t)
		h.create(t, a, observation, observed("x")).ok(t)
		out := h.query(t, a.access, "com.atproto.repo.describeRepo", "repo", a.handle).ok(t)
		require.Equal(t, a.did, out.str("did"))
		require.Equal(t, a.did, out.str("didDoc", "id"))
		require.Equal(t, []any{observation, note}, out.list("collections"))
		require.Equal(t, true, out.at("handleIsCorrect"))
		h.query(t, a.access, "com.atproto.repo.describeRepo", "repo", "did:web:nobody.test").refused(t, 400, "RepoNotFound")
	})
}

func TestEightClientsOneRepo(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		const clients, each = 8, 10
		acknowledged := make([][]string, clients)
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				for i := range each {
					r := h.create(t, a, note, object{"client": c, "i": i})
					if r.Status == 200 {
						acknowledged[c] = append(acknowledged[c], note+"/"+rkeyOf(r.object(t)))
					}
				}
			})
		}
		wg.Wait()
		stored := recordsOfCAR(t, h.query(t, a.access, "com.atproto.sync.getRepo", "did", a.did).Body)
		total := 0
		for _, paths := range acknowledged {
			for _, path := range paths {
				require.Contains(t, stored, path)
				total++
			}
		}
		require.Equal(t, clients*each, total, "every client is served")
		require.Len(t, stored, total)
	})
}

func TestLikesOfOneSubjectReplaceEachOther(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		const like, follow = "app.bsky.feed.like", "app.bsky.graph.follow"
		about := func(uri string) object {
			return object{"createdAt": "2026-11-30T12:00:00.000Z", "subject": object{"uri": uri, "cid": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"}}
		}
		one, two := "at://"+a.did+"/app.bsky.feed.post/3one", "at://"+a.did+"/app.bsky.feed.post/3two"
		h.create(t, a, like, about(one)).ok(t)
		other := h.create(t, a, like, about(two)).ok(t)
		seq := h.lastSeq(t)
		again := h.create(t, a, like, about(one)).ok(t)
		require.Equal(t, seq+1, h.lastSeq(t), "in one commit")
		stored := func() map[string]string {
			return recordsOfCAR(t, h.query(t, a.access, "com.atproto.sync.getRepo", "did", a.did).Body)
		}
		require.Equal(t, map[string]string{like + "/" + rkeyOf(other): other.str("cid"), like + "/" + rkeyOf(again): again.str("cid")}, stored())

		h.create(t, a, follow, object{"subject": a.did, "n": 1}).ok(t)
		h.create(t, a, follow, object{"subject": a.did, "n": 2}).ok(t)
		require.Len(t, stored(), 3)
		h.create(t, a, follow, object{"subject": a.did, "n": 3}, "validate", false).ok(t)
		require.Len(t, stored(), 4, "not with validate:false")
		h.create(t, a, note, object{"subject": a.did, "n": 1}).ok(t)
		h.create(t, a, note, object{"subject": a.did, "n": 2}).ok(t)
		require.Len(t, stored(), 6, "nor anywhere else")
	})
}
