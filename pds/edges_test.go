package pds_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Clients refresh on the name ExpiredToken and on no other. A refresh token
// that was used leads to its one successor for two hours, then to nothing.
func TestTokensExpireByName(t *testing.T) {
	c := newClock()
	eachHost(t, setting{clock: c}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		c.advance(2*time.Hour + time.Second)
		h.query(t, a.access, "com.atproto.server.getSession").refused(t, 400, "ExpiredToken")
		h.create(t, a, note, object{"n": 1}).refused(t, 400, "ExpiredToken")
		next := h.procedure(t, a.refresh, "com.atproto.server.refreshSession", nil).ok(t)
		c.advance(2*time.Hour - time.Minute)
		late := h.procedure(t, a.refresh, "com.atproto.server.refreshSession", nil).ok(t)
		require.Equal(t, next.str("refreshJwt"), late.str("refreshJwt"))
		c.advance(2 * time.Minute)
		h.procedure(t, a.refresh, "com.atproto.server.refreshSession", nil).refused(t, 400, "ExpiredToken")
		last := h.procedure(t, "Bearer "+next.str("refreshJwt"), "com.atproto.server.refreshSession", nil).ok(t)
		h.query(t, "Bearer "+last.str("accessJwt"), "com.atproto.server.getSession").ok(t)
		c.advance(91 * 24 * time.Hour)
		h.procedure(t, "Bearer "+last.str("refreshJwt"), "com.atproto.server.refreshSession", nil).refused(t, 400, "ExpiredToken")
	})
}

// A handle elsewhere that leads nowhere is the client's mistake, under another
// name than one that this host would have to know.
func TestHandlesThatDoNotResolve(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		h.query(t, "", "com.atproto.identity.resolveHandle", "handle", "nobody.test").refused(t, 400, "HandleNotFound")
		h.query(t, "", "com.atproto.identity.resolveHandle", "handle", "nobody.invalid").refused(t, 400, "InvalidRequest")
		h.query(t, "", "com.atproto.identity.resolveHandle", "handle", "no handle").refused(t, 400, "InvalidRequest")
		h.query(t, "", "com.atproto.identity.resolveHandle").refused(t, 400, "InvalidRequest")
	})
}

// What no sniffer finds, or what is text to it, keeps the type that the client
// declared, so that a record can name that type.
func TestDeclaredMediaTypesCanBeReferenced(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		for mime, content := range map[string]string{
			"text/html":         "<p>a part of a page",
			"image/svg+xml":     `<svg xmlns="http://www.w3.org/2000/svg"/>`,
			"application/jsonl": `{"n":1}` + "\n" + `{"n":2}`,
			"*/*":               "whatever",
		} {
			t.Run(mime, func(t *testing.T) {
				out := h.upload(t, a, []byte(content), mime).ok(t)
				require.Equal(t, mime, out.str("blob", "mimeType"))
				h.create(t, a, note, object{"blob": out.at("blob")}).ok(t)
				got := h.getBlob(t, a.access, a.did, out.str("blob", "ref", "$link"))
				require.Equal(t, 200, got.Status)
				require.Equal(t, content, string(got.Body))
				require.Equal(t, "nosniff", got.Header.Get("X-Content-Type-Options"))
				require.Equal(t, "default-src 'none'; sandbox", got.Header.Get("Content-Security-Policy"))
			})
		}
	})
}

// The same request twice, in the words of clients that try again: none is an
// internal error, and none of the second ones changes anything.
func TestRepeatedRequestsAreNoFaults(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		h.create(t, a, note, object{"n": 1}, "rkey", "one").ok(t)
		seq := h.lastSeq(t)
		h.create(t, a, note, object{"n": 1}, "rkey", "one").refused(t, 400, "InvalidRequest")
		h.apply(t, a, []object{creating(note, "one", object{"n": 2})}).refused(t, 400, "InvalidRequest")
		h.apply(t, a, []object{updating(note, "none", object{"n": 2})}).refused(t, 400, "InvalidRequest")
		h.apply(t, a, []object{deleting(note, "none")}).refused(t, 400, "InvalidRequest")
		require.Equal(t, seq, h.lastSeq(t))
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.deactivateAccount", object{}).Status)
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.deactivateAccount", object{}).Status)
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.activateAccount", nil).Status)
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.activateAccount", nil).Status)
		require.Equal(t, 200, h.procedure(t, a.access, "com.atproto.server.revokeAppPassword", object{"name": "none"}).Status)
		require.Equal(t, 200, h.procedure(t, a.refresh, "com.atproto.server.deleteSession", nil).Status)
		require.Less(t, h.procedure(t, a.refresh, "com.atproto.server.deleteSession", nil).Status, 500)
		require.Equal(t, 200, h.procedure(t, admin(), "com.atproto.admin.deleteAccount", object{"did": a.did}).Status)
		h.procedure(t, admin(), "com.atproto.admin.deleteAccount", object{"did": a.did}).refused(t, 400, "NotFound")
	})
}
