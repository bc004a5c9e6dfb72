package pds_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/account"
)

func (h *host) importRepo(t *testing.T, a agent, car []byte) reply {
	t.Helper()
	return h.do(t, http.MethodPost, "/xrpc/com.atproto.repo.importRepo", a.access, bytes.NewReader(car), "Content-Type", "application/vnd.ipld.car")
}

func (h *host) repoCAR(t *testing.T, did string) []byte {
	t.Helper()
	r := h.query(t, admin(), "com.atproto.sync.getRepo", "did", did)
	require.Equal(t, 200, r.Status, string(r.Body))
	return r.Body
}

// TestMigration moves an agent from one host to another, step by step as
// migration tools do.
func TestMigration(t *testing.T) {
	eachHost(t, setting{others: func(*testing.T) identity.Directory { return identity.NewMockDirectory() }}, func(t *testing.T, h *host) {
		_, plc := newPLC(t)
		old := newHost(t, dbtest.Open(t, migrations.PDS, h.db.Dialect), setting{plc: plc})
		mover := old.agent(t, "mover")
		page := old.upload(t, mover, []byte("the exact bytes"), "text/plain").ok(t)
		seen := observed("the exact bytes")
		seen["content"] = blobOf(page)
		first := old.create(t, mover, observation, seen).ok(t)
		old.create(t, mover, note, object{"text": "a note"}).ok(t)
		others := h.others.(*identity.MockDirectory)
		insert := func(key atcrypto.PublicKey, endpoint string) {
			others.Insert(identity.Identity{
				DID: syntax.DID(mover.did), Handle: syntax.HandleInvalid,
				Keys:     map[string]identity.VerificationMethod{"atproto": {Type: "Multikey", PublicKeyMultibase: key.Multibase()}},
				Services: map[string]identity.ServiceEndpoint{"atproto_pds": {Type: "AtprotoPersonalDataServer", URL: endpoint}},
			})
		}
		oldKey, err := old.accounts.SigningKey(t.Context(), syntax.DID(mover.did))
		require.NoError(t, err)
		public, err := oldKey.PublicKey()
		require.NoError(t, err)
		insert(public, old.url)

		proof := old.query(t, mover.access, "com.atproto.server.getServiceAuth", "aud", string(h.did), "lxm", "com.atproto.server.createAccount").ok(t).str("token")
		here := agent{did: mover.did, handle: "moved.test"}
		here.access = "Bearer " + h.procedure(t, "Bearer "+proof, "com.atproto.server.createAccount",
			object{"handle": here.handle, "did": mover.did, "password": "long enough"}).ok(t).str("accessJwt")
		seq := h.lastSeq(t)

		r := h.importRepo(t, here, old.repoCAR(t, mover.did))
		require.Equal(t, 200, r.Status, string(r.Body))
		require.Equal(t, seq, h.lastSeq(t), "nobody is told yet")
		missing := h.query(t, here.access, "com.atproto.repo.listMissingBlobs").ok(t)
		require.Equal(t, []any{map[string]any{"cid": page.str("blob", "ref", "$link"), "recordUri": first.str("uri")}}, missing.list("blobs"))
		status := h.query(t, here.access, "com.atproto.server.checkAccountStatus").ok(t)
		require.Equal(t, "1", str(status.at("expectedBlobs")))
		require.Equal(t, "0", str(status.at("importedBlobs")))
		require.Equal(t, "2", str(status.at("indexedRecords")))
		blob := old.getBlob(t, mover.access, mover.did, page.str("blob", "ref", "$link"))
		h.upload(t, here, blob.Body, blob.Header.Get("Content-Type")).ok(t)
		require.Empty(t, h.query(t, here.access, "com.atproto.repo.listMissingBlobs").ok(t).list("blobs"))
		require.Equal(t, "1", str(h.query(t, here.access, "com.atproto.server.checkAccountStatus").ok(t).at("importedBlobs")))

		wanted := h.query(t, here.access, "com.atproto.identity.getRecommendedDidCredentials").ok(t)
		signing, err := atcrypto.ParsePublicDIDKey(wanted.str("verificationMethods", "atproto"))
		require.NoError(t, err)
		insert(signing, wanted.str("services", "atproto_pds", "endpoint"))
		require.Equal(t, 200, h.procedure(t, here.access, "com.atproto.server.activateAccount", nil).Status)
		require.Equal(t, recordsOfCAR(t, old.repoCAR(t, mover.did)), recordsOfCAR(t, h.repoCAR(t, mover.did)), "the same records under the same CIDs")
		require.Equal(t, blob.Body, h.getBlob(t, here.access, mover.did, page.str("blob", "ref", "$link")).Body)
		next := observed("seen later")
		next["supersedes"] = object{"uri": first.str("uri"), "cid": first.str("cid")}
		h.create(t, here, observation, next).ok(t)
	})
}

// str is a number of a JSON answer, as it was written.
func str(v any) string {
	n, _ := v.(interface{ String() string })
	if n == nil {
		return ""
	}
	return n.String()
}

// Who points the document here first and brings the repo after comes with
// commits by a key that only the PLC log still names.
func TestImportSignedByAFormerKey(t *testing.T) {
	_, at := newPLC(t)
	eachHost(t, setting{plc: at, others: func(*testing.T) identity.Directory { return identity.NewMockDirectory() }}, func(t *testing.T, h *host) {
		old := newHost(t, dbtest.Open(t, migrations.PDS, h.db.Dialect), setting{plc: at})
		mover := old.agent(t, "mover")
		old.create(t, mover, observation, observed("seen there")).ok(t)
		car := old.repoCAR(t, mover.did)
		others := h.others.(*identity.MockDirectory)
		named := func(key string) {
			public, err := atcrypto.ParsePublicDIDKey(key)
			require.NoError(t, err)
			others.Insert(identity.Identity{DID: syntax.DID(mover.did), Handle: syntax.HandleInvalid,
				Keys: map[string]identity.VerificationMethod{"atproto": {Type: "Multikey", PublicKeyMultibase: public.Multibase()}}})
		}
		recommended := func(h *host, a agent) string {
			return h.query(t, a.access, "com.atproto.identity.getRecommendedDidCredentials").ok(t).str("verificationMethods", "atproto")
		}
		named(recommended(old, mover))
		proof := old.query(t, mover.access, "com.atproto.server.getServiceAuth", "aud", string(h.did), "lxm", "com.atproto.server.createAccount").ok(t).str("token")
		here := agent{did: mover.did, handle: "moved.test"}
		here.access = "Bearer " + h.procedure(t, "Bearer "+proof, "com.atproto.server.createAccount",
			object{"handle": here.handle, "did": mover.did, "password": "long enough"}).ok(t).str("accessJwt")
		ours := recommended(h, here)
		require.NoError(t, old.accounts.UpdatePLC(t.Context(), syntax.DID(mover.did), func(op *account.PLCOperation) {
			op.VerificationMethods = map[string]string{account.KeyID: ours}
		}))
		named(ours)

		r := h.importRepo(t, here, car)
		require.Equal(t, 200, r.Status, string(r.Body))
		require.Equal(t, recordsOfCAR(t, car), recordsOfCAR(t, h.repoCAR(t, mover.did)))

		stranger := old.agent(t, "stranger")
		old.create(t, stranger, observation, observed("not of this DID")).ok(t)
		h.importRepo(t, here, old.repoCAR(t, stranger.did)).refused(t, 400, "InvalidRequest")
	})
}

func TestImportIntoALiveAccount(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		first := h.create(t, a, observation, observed("seen")).ok(t)
		backup := h.repoCAR(t, a.did)
		second := h.create(t, a, observation, observed("seen after the backup")).ok(t)

		t.Run("not with an app password", func(t *testing.T) {
			made := h.procedure(t, a.access, "com.atproto.server.createAppPassword", object{"name": "harness"}).ok(t)
			session := h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.handle, "password": made.str("password")}).ok(t)
			h.importRepo(t, agent{access: "Bearer " + session.str("accessJwt")}, backup).refused(t, 400, "InvalidToken")
		})
		t.Run("not another account's", func(t *testing.T) {
			b := h.agent(t, "neighbour")
			message := h.importRepo(t, b, backup).refused(t, 400, "InvalidRequest")
			require.Contains(t, message, a.did)
		})
		t.Run("not cut off, and not as JSON", func(t *testing.T) {
			h.importRepo(t, a, backup[:len(backup)/2]).refused(t, 400, "InvalidRequest")
			require.Equal(t, 400, h.procedure(t, a.access, "com.atproto.repo.importRepo", object{}).Status)
		})

		seq := h.lastSeq(t)
		r := h.importRepo(t, a, backup)
		require.Equal(t, 200, r.Status, string(r.Body))
		events, err := h.events.ReadFrom(t.Context(), seq, 10)
		require.NoError(t, err)
		require.Len(t, events, 1)
		require.EqualValues(t, "#sync", events[0].Kind)
		h.query(t, a.access, "com.atproto.repo.getRecord", "repo", a.did, "collection", observation, "rkey", rkeyOf(first)).ok(t)
		h.query(t, a.access, "com.atproto.repo.getRecord", "repo", a.did, "collection", observation, "rkey", rkeyOf(second)).refused(t, 400, "RecordNotFound")

		// What was deleted does not come back by an import either.
		withBoth := h.repoCAR(t, a.did)
		h.delete(t, a, observation, rkeyOf(first)).ok(t)
		message := h.importRepo(t, a, withBoth).refused(t, 400, "ImmutableRecord")
		require.Contains(t, message, first.str("uri"), "the message names the records")
	})
}

func TestGetBlocks(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		made := h.create(t, a, note, object{"text": "a"}).ok(t)
		blocks := func(cids ...string) reply {
			params := []string{"did", a.did}
			for _, c := range cids {
				params = append(params, "cids", c)
			}
			return h.query(t, a.access, "com.atproto.sync.getBlocks", params...)
		}
		r := blocks(made.str("commit", "cid"), made.str("cid"))
		require.Equal(t, 200, r.Status, string(r.Body))
		require.Equal(t, "application/vnd.ipld.car", r.Header.Get("Content-Type"))
		blocks(made.str("cid"), rawCID(t, []byte("x"))).refused(t, 400, "BlockNotFound")
		blocks("nonsense").refused(t, 400, "InvalidRequest")
		blocks(make([]string, 201)...).refused(t, 400, "InvalidRequest")
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.deactivateAccount", nil).Status)
		b := h.agent(t, "neighbour")
		h.query(t, b.access, "com.atproto.sync.getBlocks", "did", a.did, "cids", made.str("cid")).refused(t, 400, "RepoDeactivated")
	})
}
