package pds_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/secrettest"
)

// What lies past the first MiB of a blob, and in blobs that no observation
// refers to, the job finds: once, with an alarm that names the records, and
// without ever repeating it.
func TestSearchBlobsForSecrets(t *testing.T) {
	log := &logged{}
	authToken, secret := secrettest.Of("npm-token")
	token := "npm_" + secret
	password, perhapsSecret := secrettest.Of("assigned-secret")
	eachHost(t, setting{log: log, bucket: blobstore.NewMemory()}, func(t *testing.T, h *host) {
		ctx := t.Context()
		a := h.agent(t, "ada")
		list := func(params ...string) []any {
			return h.query(t, admin(), "garden.herbarium.admin.listBlobSecrets", params...).ok(t).list("secrets")
		}
		status := func(what string) any {
			return h.query(t, admin(), "garden.herbarium.admin.getStorageStatus").ok(t).at("secrets", what)
		}

		// The write waits for the first MiB alone.
		text := strings.Repeat("a line of a long log\n", lexicons.ContentHead/21+2)
		late := text + authToken + "\n" + password + "\n" + token + " again\n"
		record := observed("a line of a long log")
		record["content"] = blobOf(h.upload(t, a, []byte(late), "text/plain").ok(t))
		uri := h.create(t, a, observation, record).ok(t).str("uri")
		clean := observed("clean")
		clean["content"] = blobOf(h.upload(t, a, []byte("clean"), "text/plain").ok(t))
		h.create(t, a, observation, clean).ok(t)
		image := append([]byte("\x89PNG\r\n\x1a\n\x00\x00"), token...)
		h.create(t, a, "com.example.picture", object{"image": blobOf(h.upload(t, a, image, "image/png").ok(t))}).ok(t)
		wide := []byte{0xff, 0xfe}
		for _, c := range []byte(token) {
			wide = append(wide, c, 0)
		}
		h.create(t, a, "com.example.note", object{"file": blobOf(h.upload(t, a, wide, "application/octet-stream").ok(t))}).ok(t)

		require.Empty(t, list())
		require.Equal(t, json.Number("4"), status("unsearched"))
		require.NoError(t, h.pds.SearchBlobs(ctx))
		require.Equal(t, json.Number("0"), status("unsearched"))
		require.Equal(t, json.Number("2"), status("blobs"))

		found := map[string]object{}
		for _, item := range list() {
			secret := object(item.(map[string]any))
			found[secret.str("rule")+" of "+secret.list("records")[0].(string)] = secret
		}
		require.Len(t, list(), 3)
		sure, perhaps := found["npm-token of "+uri], found["assigned-secret of "+uri]
		require.Equal(t, "npm token", sure.str("kind"))
		require.Equal(t, true, sure["sure"])
		require.Equal(t, json.Number(fmt.Sprint(strings.Index(late, token))), sure["position"])
		require.Equal(t, json.Number("1"), sure["recordCount"])
		require.Equal(t, false, perhaps["sure"])

		// Page by page the same.
		var paged []any
		for cursor := ""; ; {
			page := h.query(t, admin(), "garden.herbarium.admin.listBlobSecrets", "limit", "1", "cursor", cursor).ok(t)
			paged = append(paged, page.list("secrets")...)
			if cursor = page.str("cursor"); cursor == "" {
				break
			}
		}
		require.Equal(t, list(), paged)
		h.query(t, a.access, "garden.herbarium.admin.listBlobSecrets").refused(t, 403, "Forbidden")

		// A second search has nothing to do, and nothing was taken away.
		before := log.String()
		require.NoError(t, h.pds.SearchBlobs(ctx))
		require.Equal(t, before, log.String())
		require.Equal(t, 200, h.getBlob(t, a.access, a.did, sure.str("cid")).Status)
	})
	text := log.String()
	require.Contains(t, text, "revoke it where it was issued")
	require.Contains(t, text, "npm-token at byte")
	require.NotContains(t, text, "assigned-secret", "what may be one is no alarm")
	require.False(t, secrettest.Repeats(text, secret) || secrettest.Repeats(text, perhapsSecret), "the log repeats a secret")
}
