package pds_test

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"
	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
)

// rawCID is the CID of a blob, made without our code.
func rawCID(t *testing.T, content []byte) string {
	t.Helper()
	sum := sha256.Sum256(content)
	hash, err := multihash.Encode(sum[:], multihash.SHA2_256)
	require.NoError(t, err)
	return cid.NewCidV1(cid.Raw, hash).String()
}

func (h *host) upload(t *testing.T, a agent, content []byte, contentType string, headers ...string) reply {
	t.Helper()
	return h.do(t, http.MethodPost, "/xrpc/com.atproto.repo.uploadBlob", a.access, bytes.NewReader(content), append([]string{"Content-Type", contentType}, headers...)...)
}

// blobOf is the ref of an upload, to be put into a record.
func blobOf(o object) map[string]any { return o.at("blob").(map[string]any) }

func (h *host) getBlob(t *testing.T, credential, did, cid string, headers ...string) reply {
	t.Helper()
	return h.do(t, http.MethodGet, "/xrpc/com.atproto.sync.getBlob?did="+did+"&cid="+cid, credential, nil, headers...)
}

func TestUploadBlob(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		png := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), make([]byte, 64)...)
		page := []byte("<!doctype html><title>x</title>")
		for _, tc := range []struct {
			name, declared, want string
			content              []byte
		}{
			{"what the bytes show wins", "text/plain", "image/png", png},
			{"text stays as declared", "text/html", "text/html", page},
			{"parameters are dropped", "text/html; charset=utf-8", "text/html", page},
			{"JSON is not parsed", "application/json", "application/json", []byte(`{"not": "for the JSON reader"`)},
			{"unknown stays as declared", "application/x-own", "application/x-own", []byte{1, 2, 3}},
			{"nothing at all is a blob", "text/plain", "text/plain", nil},
		} {
			t.Run(tc.name, func(t *testing.T) {
				blob := h.upload(t, a, tc.content, tc.declared).ok(t)
				require.Equal(t, rawCID(t, tc.content), blob.str("blob", "ref", "$link"))
				require.Equal(t, tc.want, blob.str("blob", "mimeType"))
				require.Equal(t, fmt.Sprint(len(tc.content)), fmt.Sprint(blob.at("blob", "size")))
				require.Equal(t, "blob", blob.str("blob", "$type"))
			})
		}
		h.upload(t, a, make([]byte, blobLimit+1), "application/octet-stream").refused(t, 413, "PayloadTooLarge")
		require.Equal(t, 200, h.upload(t, a, make([]byte, blobLimit), "application/octet-stream").Status)
		h.do(t, http.MethodPost, "/xrpc/com.atproto.repo.uploadBlob", a.access, nil).refused(t, 400, "InvalidRequest")
	})
}

func TestUploadIsDecompressedBeforeItIsHashed(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		content := bytes.Repeat([]byte("the same line\n"), 1000)
		h.upload(t, a, zipped(t, content), "text/plain", "Content-Encoding", "gzip").ok(t)
		blob := h.upload(t, a, zipped(t, content), "text/plain", "Content-Encoding", "gzip").ok(t)
		require.Equal(t, rawCID(t, content), blob.str("blob", "ref", "$link"))
		h.upload(t, a, zipped(t, make([]byte, 10*blobLimit)), "text/plain", "Content-Encoding", "gzip").refused(t, 413, "PayloadTooLarge")
		h.upload(t, a, []byte("no gzip"), "text/plain", "Content-Encoding", "gzip").refused(t, 400, "InvalidRequest")
	})
}

func zipped(t *testing.T, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestAbortedUploadLeavesNothing(t *testing.T) {
	bucket := blobstore.NewMemory()
	eachHost(t, setting{bucket: bucket}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "POST /xrpc/com.atproto.repo.uploadBlob HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\n"+
			"Content-Type: text/plain\r\nContent-Length: 200000\r\n\r\n%s", a.access, strings.Repeat("x", 100_000))
		require.NoError(t, err)
		require.NoError(t, conn.Close())

		whole := h.upload(t, a, []byte("goes on"), "text/plain").ok(t)
		var kept []string
		require.NoError(t, bucket.List(t.Context(), "", "", func(o blobstore.Object) error {
			kept = append(kept, o.Key[strings.LastIndexByte(o.Key, '/')+1:])
			return nil
		}))
		require.Equal(t, []string{whole.str("blob", "ref", "$link")}, kept)
	})
}

func TestBlobLife(t *testing.T) {
	dir, err := blobstore.OpenDir(t.TempDir())
	require.NoError(t, err)
	eachHost(t, setting{bucket: dir}, func(t *testing.T, h *host) {
		a, other := h.agent(t, "scout"), h.agent(t, "other")
		content := []byte("the exact bytes that were seen\n")
		ref := blobOf(h.upload(t, a, content, "text/plain").ok(t))
		name := rawCID(t, content)
		h.getBlob(t, a.access, a.did, name).refused(t, 400, "BlobNotFound")
		require.Empty(t, h.query(t, a.access, "com.atproto.sync.listBlobs", "did", a.did).ok(t).list("cids"))

		record := observed("the exact bytes")
		record["content"] = ref
		record["method"] = ""
		require.NotEqual(t, 200, h.create(t, a, observation, record).Status)
		h.getBlob(t, a.access, a.did, name).refused(t, 400, "BlobNotFound")

		record["method"] = "shell"
		out := h.create(t, a, observation, record).ok(t)
		require.Equal(t, content, h.getBlob(t, other.access, a.did, name).Body)
		require.Equal(t, []any{name}, h.query(t, a.access, "com.atproto.sync.listBlobs", "did", a.did).ok(t).list("cids"))
		h.getBlob(t, other.access, other.did, name).refused(t, 400, "BlobNotFound")
		record["text"] = "the exact bytes, by another agent"
		h.create(t, other, observation, record).refused(t, 400, "BlobNotFound")

		// Another user's copy of the same bytes is unaffected by a delete here.
		h.upload(t, other, content, "text/plain").ok(t)
		h.put(t, other, note, "copy", object{"blob": ref}).ok(t)
		h.delete(t, a, observation, rkeyOf(out)).ok(t)
		h.getBlob(t, a.access, a.did, name).refused(t, 400, "BlobNotFound")
		require.Equal(t, content, h.getBlob(t, other.access, other.did, name).Body)

		// An update that keeps the blob, and a move within one batch, keep it.
		h.put(t, other, note, "copy", object{"blob": ref, "n": 2}).ok(t)
		h.apply(t, other, []object{deleting(note, "copy"), creating(note, "moved", object{"blob": ref})}).ok(t)
		require.Equal(t, content, h.getBlob(t, other.access, other.did, name).Body)
	})
}

// TestUploadAnswersWhatIsKept: the type that a record relies on stays, and who
// uploads the bytes again is told that one, to refer to it.
func TestUploadAnswersWhatIsKept(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		content := []byte("# bytes of two types\n")
		first := blobOf(h.upload(t, a, content, "text/plain").ok(t))
		retyped := h.upload(t, a, content, "text/markdown").ok(t)
		require.Equal(t, "text/markdown", retyped.str("blob", "mimeType"), "nothing relies on the first type yet")
		h.upload(t, a, content, "text/plain").ok(t)
		h.put(t, a, note, "relies", object{"blob": first}).ok(t)
		again := h.upload(t, a, content, "text/markdown").ok(t)
		require.Equal(t, "text/plain", again.str("blob", "mimeType"))
		h.put(t, a, note, "too", object{"blob": blobOf(again)}).ok(t)
	})
}

// TestBlobsAreSentByTheKernel: over a directory, the file itself gets to the
// connection, which sends it with sendfile(2).
func TestBlobsAreSentByTheKernel(t *testing.T) {
	dir, err := blobstore.OpenDir(t.TempDir())
	require.NoError(t, err)
	eachHost(t, setting{bucket: dir}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		content := bytes.Repeat([]byte("0123456789"), 20_000)
		h.put(t, a, note, "b", object{"blob": blobOf(h.upload(t, a, content, "application/x-own").ok(t))}).ok(t)
		name := rawCID(t, content)
		require.Zero(t, h.filesSent.Load())
		require.True(t, bytes.Equal(content, h.getBlob(t, a.access, a.did, name).Body))
		require.Equal(t, int64(1), h.filesSent.Load())
		require.Equal(t, content[5:100_005], h.getBlob(t, a.access, a.did, name, "Range", "bytes=5-100004").Body)
		require.Equal(t, int64(2), h.filesSent.Load())
	})
}

func TestLyingBlobReferences(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		content := []byte("true bytes")
		h.upload(t, a, content, "text/plain").ok(t)
		lie := func(change func(map[string]any)) reply {
			ref := map[string]any{"$type": "blob", "ref": map[string]any{"$link": rawCID(t, content)}, "mimeType": "text/plain", "size": len(content)}
			change(ref)
			record := observed("true bytes")
			record["content"] = ref
			return h.create(t, a, observation, record)
		}
		seq := h.lastSeq(t)
		message := lie(func(r map[string]any) { r["mimeType"] = "image/png" }).refused(t, 400, "InvalidMimeType")
		require.Contains(t, message, "text/plain", "the message tells the right type")
		message = lie(func(r map[string]any) { r["size"] = 7 }).refused(t, 400, "InvalidSize")
		require.Contains(t, message, "10")
		lie(func(r map[string]any) { r["ref"] = map[string]any{"$link": rawCID(t, []byte("never sent"))} }).refused(t, 400, "BlobNotFound")
		lie(func(r map[string]any) {
			r["ref"] = map[string]any{"$link": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"}
		}).refused(t, 400, "InvalidRequest")
		require.Equal(t, seq, h.lastSeq(t), "nothing was written")
		lie(func(map[string]any) {}).ok(t)
	})
}

func TestGetBlobSpeaksHTTP(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		content := make([]byte, 10_000)
		_, err := rand.Read(content)
		require.NoError(t, err)
		copy(content, "\xC1own") // neither text nor what begins as some known type does
		ref := blobOf(h.upload(t, a, content, "application/x-own").ok(t))
		h.put(t, a, note, "b", object{"blob": ref}).ok(t)
		name := rawCID(t, content)

		whole := h.getBlob(t, a.access, a.did, name)
		require.Equal(t, content, whole.Body)
		require.Equal(t, "application/x-own", whole.Header.Get("Content-Type"))
		require.Equal(t, "10000", whole.Header.Get("Content-Length"))
		require.Equal(t, `"`+name+`"`, whole.Header.Get("ETag"))
		require.Contains(t, whole.Header.Get("Cache-Control"), "immutable")
		require.Equal(t, "nosniff", whole.Header.Get("X-Content-Type-Options"))
		require.Equal(t, "default-src 'none'; sandbox", whole.Header.Get("Content-Security-Policy"))
		require.True(t, strings.HasPrefix(whole.Header.Get("Content-Disposition"), "attachment"))

		head := h.do(t, http.MethodHead, "/xrpc/com.atproto.sync.getBlob?did="+a.did+"&cid="+name, a.access, nil)
		require.Equal(t, 200, head.Status)
		require.Equal(t, "10000", head.Header.Get("Content-Length"))
		require.Empty(t, head.Body)

		require.Equal(t, 304, h.getBlob(t, a.access, a.did, name, "If-None-Match", `"`+name+`"`).Status)
		part := h.getBlob(t, a.access, a.did, name, "Range", "bytes=100-199")
		require.Equal(t, 206, part.Status)
		require.Equal(t, "bytes 100-199/10000", part.Header.Get("Content-Range"))
		require.Equal(t, content[100:200], part.Body)
		require.Equal(t, content[9990:], h.getBlob(t, a.access, a.did, name, "Range", "bytes=-10").Body)
		outside := h.getBlob(t, a.access, a.did, name, "Range", "bytes=20000-")
		require.Contains(t, outside.refused(t, 416, "InvalidRequest"), "10000")
		require.Equal(t, "bytes */10000", outside.Header.Get("Content-Range"))
		require.NotContains(t, outside.Header.Get("Cache-Control"), "immutable", "a refusal is not kept")

		several := h.getBlob(t, a.access, a.did, name, "Range", "bytes=0-9,50-59")
		require.Equal(t, 206, several.Status)
		kind, params, err := mime.ParseMediaType(several.Header.Get("Content-Type"))
		require.NoError(t, err)
		require.Equal(t, "multipart/byteranges", kind)
		parts := multipart.NewReader(bytes.NewReader(several.Body), params["boundary"])
		for _, want := range [][]byte{content[:10], content[50:60]} {
			p, err := parts.NextPart()
			require.NoError(t, err)
			got, err := io.ReadAll(p)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		h.getBlob(t, a.access, a.did, "bafkrei").refused(t, 400, "InvalidRequest")
		h.getBlob(t, "", a.did, name).refused(t, 401, "AuthMissing")
	})
}

func TestLostBytesAreOurFault(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		ref := blobOf(h.upload(t, a, []byte("to be lost"), "text/plain").ok(t))
		h.put(t, a, note, "b", object{"blob": ref}).ok(t)
		name := rawCID(t, []byte("to be lost"))
		require.Equal(t, 200, h.getBlob(t, a.access, a.did, name).Status)
		require.NoError(t, h.bucket.List(t.Context(), "", "", func(o blobstore.Object) error { return h.bucket.Delete(t.Context(), o.Key) }))
		h.getBlob(t, a.access, a.did, name).refused(t, 500, "InternalServerError")
	})
}
