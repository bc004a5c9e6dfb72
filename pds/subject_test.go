package pds_test

import (
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/pds/repostore"
)

func TestTakedownOfARecord(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		shown := h.create(t, a, note, object{"text": "shown"}).ok(t)
		hidden := h.create(t, a, note, object{"text": "hidden"}).ok(t)
		subject := object{"$type": "com.atproto.repo.strongRef", "uri": hidden.str("uri"), "cid": hidden.str("cid")}
		set := func(applied bool) {
			h.procedure(t, admin(), "com.atproto.admin.updateSubjectStatus",
				object{"subject": subject, "takedown": object{"applied": applied, "ref": "case 7"}}).ok(t)
		}
		get := func() reply {
			return h.query(t, a.access, "com.atproto.repo.getRecord", "repo", a.did, "collection", note, "rkey", rkeyOf(hidden))
		}
		status := func() object {
			return h.query(t, admin(), "com.atproto.admin.getSubjectStatus", "uri", hidden.str("uri")).ok(t)
		}
		require.Equal(t, map[string]any(subject), status().at("subject"))
		require.Equal(t, false, status().at("takedown", "applied"))
		seq := h.lastSeq(t)
		set(true)
		get().refused(t, 400, "RecordNotFound")
		records := h.query(t, a.access, "com.atproto.repo.listRecords", "repo", a.did, "collection", note).ok(t).list("records")
		require.Len(t, records, 1)
		require.Equal(t, shown.str("uri"), object(records[0].(map[string]any)).str("uri"))
		require.Equal(t, map[string]any(subject), status().at("subject"))
		require.Equal(t, map[string]any{"applied": true, "ref": "case 7"}, status().at("takedown"))
		require.Len(t, recordsOfCAR(t, h.repoCAR(t, a.did)), 2, "the repo is as it was signed")
		require.Equal(t, seq, h.lastSeq(t))
		set(false)
		get().ok(t)
	})
}

func TestTakedownOfABlob(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a, b := h.agent(t, "scout"), h.agent(t, "neighbour")
		page := h.upload(t, a, []byte("the same bytes"), "text/plain").ok(t)
		h.upload(t, b, []byte("the same bytes"), "text/plain").ok(t)
		c := page.str("blob", "ref", "$link")
		h.create(t, a, note, object{"file": blobOf(page)}).ok(t)
		h.create(t, b, note, object{"file": blobOf(page)}).ok(t)
		subject := object{"$type": "com.atproto.admin.defs#repoBlobRef", "did": a.did, "cid": c}
		set := func(applied bool) {
			h.procedure(t, admin(), "com.atproto.admin.updateSubjectStatus", object{"subject": subject, "takedown": object{"applied": applied}}).ok(t)
		}
		set(true)
		h.getBlob(t, a.access, a.did, c).refused(t, 400, "BlobNotFound")
		require.Equal(t, 200, h.getBlob(t, b.access, b.did, c).Status, "the takedown is of one repo's blob")
		h.upload(t, a, []byte("the same bytes"), "text/plain").ok(t)
		h.getBlob(t, a.access, a.did, c).refused(t, 400, "BlobNotFound")
		h.create(t, a, note, object{"file": blobOf(page), "again": true}).refused(t, 400, "BlobNotFound")
		require.Equal(t, true, h.query(t, admin(), "com.atproto.admin.getSubjectStatus", "did", a.did, "blob", c).ok(t).at("takedown", "applied"))
		set(false)
		require.Equal(t, 200, h.getBlob(t, a.access, a.did, c).Status)
	})
}

// The blobs of many repos are looked up at once, each in its own.
func TestTakenDownAmongMany(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		c := func(text string) cid.Cid {
			c, err := cid.Decode(rawCID(t, []byte(text)))
			require.NoError(t, err)
			return c
		}
		one, other := syntax.DID("did:web:one.test"), syntax.DID("did:web:other.test")
		down := []repostore.Subject{repostore.BlobSubject(one, c("a")), repostore.BlobSubject(other, c("b"))}
		for _, subject := range down {
			require.NoError(t, h.repos.TakeDown(t.Context(), subject, repostore.Takedown{CID: c("a")}))
		}
		asked := append(down, repostore.BlobSubject(one, c("b")), repostore.BlobSubject(other, c("a")), repostore.BlobSubject(one, c("c")))
		taken, err := h.repos.TakenDown(t.Context(), asked)
		require.NoError(t, err)
		require.Equal(t, map[repostore.Subject]bool{down[0]: true, down[1]: true}, taken)
		taken, err = h.repos.TakenDown(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, taken)
	})
}

func TestTakedownOfNothing(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		made := h.create(t, a, note, object{"text": "a"}).ok(t)
		for name, body := range map[string]object{
			"unknown type":      {"subject": object{"$type": "com.example.other"}, "takedown": object{"applied": true}},
			"no change":         {"subject": object{"$type": "com.atproto.repo.strongRef", "uri": made.str("uri"), "cid": made.str("cid")}},
			"a record's pause":  {"subject": object{"$type": "com.atproto.repo.strongRef", "uri": made.str("uri"), "cid": made.str("cid")}, "deactivated": object{"applied": true}},
			"a URI of a repo":   {"subject": object{"$type": "com.atproto.repo.strongRef", "uri": "at://" + a.did, "cid": made.str("cid")}, "takedown": object{"applied": true}},
			"no CID":            {"subject": object{"$type": "com.atproto.repo.strongRef", "uri": made.str("uri")}, "takedown": object{"applied": true}},
			"a handle's record": {"subject": object{"$type": "com.atproto.repo.strongRef", "uri": "at://scout.test/" + note + "/a", "cid": made.str("cid")}, "takedown": object{"applied": true}},
		} {
			t.Run(name, func(t *testing.T) {
				h.procedure(t, admin(), "com.atproto.admin.updateSubjectStatus", body).refused(t, 400, "InvalidRequest")
			})
		}
		h.procedure(t, admin(), "com.atproto.admin.updateSubjectStatus", object{
			"subject": object{"$type": "com.atproto.admin.defs#repoBlobRef", "did": "did:web:nobody.test", "cid": rawCID(t, []byte("x"))}, "takedown": object{"applied": true},
		}).refused(t, 400, "NotFound")
		h.query(t, admin(), "com.atproto.admin.getSubjectStatus").refused(t, 400, "InvalidRequest")
		h.query(t, admin(), "com.atproto.admin.getSubjectStatus", "uri", "at://"+a.did+"/"+note+"/none").refused(t, 400, "RecordNotFound")
	})
}
