package pds_test

import (
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/lexicons/xrpc"
)

// setStatus brings an account into a state, by the way that an operator has
// for it.
func (h *host) setStatus(t *testing.T, a agent, status string) {
	t.Helper()
	subject := object{"$type": "com.atproto.admin.defs#repoRef", "did": a.did}
	switch status {
	case "active":
	case "deactivated":
		h.procedure(t, admin(), "com.atproto.admin.updateSubjectStatus", object{"subject": subject, "deactivated": object{"applied": true}}).ok(t)
	case "takendown":
		h.procedure(t, admin(), "com.atproto.admin.updateSubjectStatus", object{"subject": subject, "takedown": object{"applied": true}}).ok(t)
	case "suspended": // no method of com.atproto.admin does it
		require.NoError(t, h.db.Tx(t.Context(), func(tx *gorm.DB) error {
			_, err := h.accounts.SuspendTx(t.Context(), tx, syntax.DID(a.did))
			return err
		}))
		h.accounts.Forget(syntax.DID(a.did))
	case "deleted":
		require.Equal(t, 200, h.procedure(t, admin(), "com.atproto.admin.deleteAccount", object{"did": a.did}).Status)
	default:
		t.Fatalf("unknown status %q", status)
	}
}

// want is an answer: a status, and the name of the error when that is not 200.
type want struct {
	status int
	name   string
}

func (w want) check(t *testing.T, r reply) {
	t.Helper()
	if w.status == 200 {
		require.Equal(t, 200, r.Status, string(r.Body))
		return
	}
	r.refused(t, w.status, w.name)
}

var fine = want{200, ""}

// Every method that reads of an account, and what the account may still do, in
// every state that it can be in. Expected: PDS-SURFACE, com.atproto.sync and
// "Errors", after the lexicons' own names.
func TestEveryStatus(t *testing.T) {
	invalid := want{400, "InvalidRequest"}
	for _, tc := range []struct {
		status     string
		sync       want // com.atproto.sync.* for strangers, and describeRepo
		records    want // com.atproto.repo.getRecord and listRecords for strangers
		toOwner    want // com.atproto.sync.* for the account itself
		toAdmin    want
		handle     want // resolveHandle
		signIn     want
		refresh    want
		getSession want
		write      want
		activate   want
	}{
		{"active", fine, fine, fine, fine, fine, fine, fine, fine, fine, fine},
		{
			"deactivated", want{400, "RepoDeactivated"}, invalid, fine, fine, want{400, "HandleNotFound"},
			fine, fine, fine, want{401, "AccountDeactivated"}, fine,
		},
		{
			"takendown", want{400, "RepoTakendown"}, invalid, want{400, "RepoTakendown"}, fine, want{400, "HandleNotFound"},
			want{401, "AccountTakedown"}, want{401, "AccountTakedown"}, fine, want{401, "AccountTakedown"}, want{401, "AccountTakedown"},
		},
		{
			"suspended", want{400, "RepoSuspended"}, invalid, want{400, "RepoSuspended"}, fine, want{400, "HandleNotFound"},
			want{401, "AccountTakedown"}, want{401, "AccountTakedown"}, fine, want{401, "AccountTakedown"}, want{401, "AccountTakedown"},
		},
		{
			// Its tokens are told that it is gone, whatever they are shown for.
			"deleted", want{400, "RepoNotFound"}, invalid, want{403, "AccountNotFound"}, want{400, "RepoNotFound"}, want{400, "HandleNotFound"},
			want{401, "AuthenticationRequired"}, want{400, "ExpiredToken"}, want{403, "AccountNotFound"}, want{403, "AccountNotFound"}, want{403, "AccountNotFound"},
		},
	} {
		t.Run(tc.status, func(t *testing.T) {
			eachHost(t, setting{visibility: xrpc.Public}, func(t *testing.T, h *host) {
				a, other := h.agent(t, "scout"), h.agent(t, "neighbour")
				blob := h.upload(t, a, []byte("some bytes"), "text/plain").ok(t)
				made := h.create(t, a, note, object{"blob": blob.at("blob")}).ok(t)
				rkey, cid := rkeyOf(made), blob.str("blob", "ref", "$link")
				rev := h.rev(t, a.did)
				h.setStatus(t, a, tc.status)

				reads := map[string][]string{
					"com.atproto.sync.getRepo":         {"did", a.did},
					"com.atproto.sync.getLatestCommit": {"did", a.did},
					"com.atproto.sync.getRecord":       {"did", a.did, "collection", note, "rkey", rkey},
					"com.atproto.sync.getBlocks":       {"did", a.did, "cids", made.str("cid")},
					"com.atproto.sync.listBlobs":       {"did", a.did},
					"com.atproto.sync.getBlob":         {"did", a.did, "cid", cid},
					"com.atproto.repo.describeRepo":    {"repo", a.did},
				}
				for method, params := range reads {
					t.Run(method, func(t *testing.T) {
						tc.sync.check(t, h.query(t, "", method, params...))
						tc.sync.check(t, h.query(t, other.access, method, params...))
						tc.toOwner.check(t, h.query(t, a.access, method, params...))
						tc.toAdmin.check(t, h.query(t, admin(), method, params...))
					})
				}
				tc.records.check(t, h.query(t, "", "com.atproto.repo.getRecord", "repo", a.did, "collection", note, "rkey", rkey))
				tc.records.check(t, h.query(t, other.access, "com.atproto.repo.listRecords", "repo", a.did, "collection", note))

				// What is there to tell of hidden repos never fails.
				state := object{"did": a.did, "active": tc.status == "active"}
				if tc.status == "active" {
					state["rev"] = rev
				} else {
					state["status"] = tc.status
				}
				require.Equal(t, state, h.query(t, "", "com.atproto.sync.getRepoStatus", "did", a.did).ok(t))
				entries := map[string]object{}
				for _, r := range h.query(t, "", "com.atproto.sync.listRepos").ok(t).list("repos") {
					entry := object(r.(map[string]any))
					entries[entry.str("did")] = entry
				}
				require.Contains(t, entries, other.did)
				if tc.status == "deleted" {
					require.NotContains(t, entries, a.did)
				} else {
					entry := entries[a.did]
					require.Equal(t, state["active"], entry.at("active"))
					require.Equal(t, state["status"], entry.at("status"))
					require.Equal(t, rev, entry.str("rev"))
				}

				tc.handle.check(t, h.query(t, "", "com.atproto.identity.resolveHandle", "handle", a.handle))
				tc.signIn.check(t, h.procedure(t, "", "com.atproto.server.createSession", object{"identifier": a.handle, "password": a.password}))
				tc.refresh.check(t, h.procedure(t, a.refresh, "com.atproto.server.refreshSession", nil))
				tc.getSession.check(t, h.query(t, a.access, "com.atproto.server.getSession"))
				tc.write.check(t, h.create(t, a, note, object{"n": 1}))
				tc.write.check(t, h.put(t, a, note, "self", object{"n": 1}))
				tc.write.check(t, h.delete(t, a, note, rkey))
				tc.write.check(t, h.apply(t, a, []object{creating(note, "", object{"n": 2})}))
				tc.activate.check(t, h.procedure(t, a.access, "com.atproto.server.activateAccount", nil))
			})
		})
	}
}
