package pds_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The rules on the bytes behind an observation run before the write does, by
// each way in, and the dry run says the same.
func TestContentOfAnObservationIsJudged(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a, b := h.agent(t, "ada"), h.agent(t, "bob")
		// Split, so that no scanner takes this file for the leak of a key.
		leak := []byte("$ cat id\n-----BEGIN " + "PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg\n-----END " + "PRIVATE KEY-----\n")
		leaked := blobOf(h.upload(t, a, leak, "text/plain").ok(t))
		record := observed("$ cat id")
		record["content"] = leaked

		message := h.create(t, a, observation, record).refused(t, 400, "SecretDetected")
		require.Contains(t, message, "/content")
		require.NotContains(t, message, "MIGHAgEA")
		h.put(t, a, observation, "3mmzzzzzzzz2a", record).refused(t, 400, "SecretDetected")
		require.Contains(t, h.apply(t, a, []object{creating(observation, "", record)}).refused(t, 400, "SecretDetected"), "/writes/0/value/content")
		dry := h.procedure(t, a.access, "garden.herbarium.validateRecord", object{"repo": a.did, "collection": observation, "record": record}).ok(t)
		require.Equal(t, "SecretDetected", dry.str("error"))

		// Another account that names the blob learns only that it has not uploaded it.
		h.create(t, b, observation, record).refused(t, 400, "BlobNotFound")

		// Binary content is nobody's text, and a text that is not its start is remarked.
		image := observed("a picture")
		image["content"] = blobOf(h.upload(t, a, append([]byte("\x89PNG\r\n\x1a\n"), leak...), "image/png").ok(t))
		h.create(t, a, observation, image).ok(t)
		page := observed("Other words than the page has.")
		page["content"] = blobOf(h.upload(t, a, []byte("<p>The page.</p>"), "text/html").ok(t))
		written := h.create(t, a, observation, page).ok(t)
		var codes []string
		for _, f := range written.list("findings") {
			codes = append(codes, f.(map[string]any)["code"].(string))
		}
		require.Contains(t, strings.Join(codes, " "), "text-not-prefix")
	})
}
