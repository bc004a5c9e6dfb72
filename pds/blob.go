package pds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/blobstore"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/repostore"
)

func (p *PDS) registerBlob(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Upload(s, "com.atproto.repo.uploadBlob", xrpc.Member, p.uploadBlob, xrpc.MaxBody(p.blobs.Limit()), xrpc.JudgesGrants()),
		xrpc.Query(s, "com.atproto.repo.listMissingBlobs", xrpc.AccessToken, p.listMissingBlobs, xrpc.JudgesGrants()),
		xrpc.Stream(s, "com.atproto.sync.getBlob", xrpc.Published, p.getBlob, xrpc.JudgesGrants()),
	)
}

type uploadBlobOutput struct {
	Blob blobRef `json:"blob"`
}

// blobRef is the form in which a record refers to a blob
// (https://atproto.com/specs/data-model#blob-type).
type blobRef struct {
	Type     string  `json:"$type"`
	Ref      cidLink `json:"ref"`
	MimeType string  `json:"mimeType"`
	Size     int64   `json:"size"` // bytes
}

type cidLink struct {
	Link string `json:"$link"`
}

// uploadBlob takes bytes in for an account of this host, which may be
// deactivated: that is how a migration brings its blobs. They are temporary
// until a record refers to them.
func (p *PDS) uploadBlob(ctx context.Context, call *xrpc.Call, body io.Reader) (*uploadBlobOutput, error) {
	v := call.Viewer
	if v.Kind != xrpc.Account && v.Kind != xrpc.Service {
		return nil, invalidToken("a blob is uploaded for an account; show its access token")
	}
	if err := notTakenDown(v); err != nil {
		return nil, err
	}
	declared := call.Request.Header.Get("Content-Type")
	if declared == "" && call.Request.ContentLength == 0 {
		return nil, xrpc.InvalidRequest("the request has no body; send the bytes of the blob and their Content-Type")
	}
	if declared != "" && declared != "*/*" {
		if err := mayUpload(v, declared); err != nil {
			return nil, err
		}
	}
	if _, err := p.accounts.Get(ctx, v.DID); err != nil {
		return nil, err
	}
	policy, err := p.repoPolicy(ctx, v.DID)
	if err != nil {
		return nil, err
	}
	// Asked before the bytes are kept, so that refused ones fill no storage, and
	// decided where the blob is counted.
	info, err := p.blobs.ReceiveIf(ctx, body, declared, func(info blobstore.Info) error {
		// What the bytes are counts, not what they were said to be.
		if err := mayUpload(v, info.MimeType); err != nil {
			return err
		}
		if err := p.repos.CheckBlob(ctx, v.DID, info.CID, info.Size, policy); err != nil {
			return err
		}
		return p.repos.ClaimObject(ctx, info.CID, info.Size)
	})
	if err != nil {
		return nil, uploadError(err, p.blobs.Limit())
	}
	kept, err := p.repos.AddBlob(ctx, v.DID, repostore.Blob{CID: info.CID, MimeType: info.MimeType, Size: info.Size}, policy)
	if errors.Is(err, repostore.ErrPurged) {
		err = errors.Join(err, p.eraseUpload(ctx, info.CID))
	}
	if err != nil {
		return nil, fmt.Errorf("upload blob %s: %w", info.CID, err)
	}
	return &uploadBlobOutput{Blob: blobRef{Type: "blob", Ref: cidLink{kept.CID.String()}, MimeType: kept.MimeType, Size: kept.Size}}, nil
}

// eraseUpload removes the bytes of an upload that was purged while they were
// being written.
func (p *PDS) eraseUpload(ctx context.Context, c cid.Cid) error {
	ctx = context.WithoutCancel(ctx) // the client's leaving must not keep them here
	if err := p.repos.ForgetPurged(ctx, c); err != nil {
		return err
	}
	_, err := p.blobs.Erase(ctx, c)
	return err
}

func uploadError(err error, limit int64) error {
	var answered *xrpc.Error
	switch {
	case errors.As(err, &answered):
		return answered // of the body's reader: over the limit, or no gzip
	case errors.Is(err, blobstore.ErrTooLarge):
		return xrpc.Errorf(http.StatusRequestEntityTooLarge, "PayloadTooLarge", "the blob is larger than the limit of this host; send at most %d bytes", limit)
	case errors.Is(err, blobstore.ErrSource):
		return xrpc.InvalidRequest("the request body ended early or is malformed; send it again")
	}
	return fmt.Errorf("upload blob: %w", err)
}

type listMissingBlobsOutput struct {
	Cursor string        `json:"cursor,omitempty"`
	Blobs  []missingBlob `json:"blobs"`
}

type missingBlob struct {
	CID       string       `json:"cid"`
	RecordURI syntax.ATURI `json:"recordUri"`
}

// listMissingBlobs lists what the records of an imported repo refer to and
// nobody has uploaded yet. Any other write uploads its blobs first.
func (p *PDS) listMissingBlobs(ctx context.Context, v xrpc.Viewer, in cursorParams) (*listMissingBlobsOutput, error) {
	after := cid.Undef
	if in.Cursor != "" {
		var err error
		if after, err = parseCID("cursor", syntax.CID(in.Cursor)); err != nil {
			return nil, err
		}
	}
	missing, err := p.repos.MissingBlobs(ctx, v.DID, after, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listMissingBlobsOutput{Blobs: make([]missingBlob, len(missing))}
	for i, b := range missing {
		out.Blobs[i] = missingBlob{CID: b.CID.String(), RecordURI: b.RecordURI}
	}
	if len(missing) == in.Limit {
		out.Cursor = out.Blobs[len(missing)-1].CID
	}
	return out, nil
}

type getBlobParams struct {
	DID syntax.DID `param:"did"`
	CID cid.Cid    `param:"cid"`
}

// getBlob serves a blob that a record of that very repo refers to; to whoever is
// no member, a record of a published collection.
func (p *PDS) getBlob(ctx context.Context, call *xrpc.Call, in getBlobParams) error {
	a, err := p.openRepo(ctx, call.Viewer, in.DID.AtIdentifier())
	if err != nil {
		return err
	}
	blob, referenced, err := p.repos.GetBlobOf(ctx, a.DID, in.CID, p.published(call.Viewer))
	if err != nil {
		return err
	}
	if !referenced {
		return repostore.ErrBlobNotFound
	}
	if blob.Quarantined {
		return repostore.ErrBlobQuarantined
	}
	serve := p.sendBlob
	if p.cfg.BlobRedirect > 0 {
		serve = p.redirectToBlob
	}
	err = serve(ctx, call, blob)
	if errors.Is(err, blobstore.ErrNotFound) {
		// A collection that died while it gave the bytes back (repostore.Collect).
		p.log.ErrorContext(ctx, "a referenced blob is not in its place; taking it from the trash", "did", a.DID, "cid", blob.CID)
		if p.blobs.Restore(ctx, blob.CID) == nil {
			err = serve(ctx, call, blob)
		}
	}
	if errors.Is(err, blobstore.ErrCorrupt) {
		if _, failed := p.quarantine(ctx, blob.CID, err); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	var answered *xrpc.Error
	if err != nil && !errors.As(err, &answered) {
		// Bytes that a record refers to are to be there, and to be right: that they
		// are not is our fault, and loud.
		return fmt.Errorf("serve referenced blob %s of %s: %w", blob.CID, a.DID, err)
	}
	return err
}

// sendBlob serves the bytes from here.
func (p *PDS) sendBlob(ctx context.Context, call *xrpc.Call, blob repostore.Blob) error {
	if !p.cfg.VerifyBlobs {
		content, err := p.blobs.Open(ctx, blob.CID)
		if err != nil {
			return err
		}
		defer func() { _ = content.Close() }() // read only: nothing can be lost
		return serveBlob(call, blob, content)
	}
	whole := call.Request.Header.Get("Range") == ""
	content, err := p.blobs.OpenVerified(ctx, blob.CID, whole)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	read := &failingReader{ReadSeeker: content}
	// Half an answer may be out when bytes are found wrong. The error of the reader
	// breaks the connection off, so that the client sees that it has not all.
	return errors.Join(serveBlob(call, blob, read), read.err)
}

// failingReader keeps the error of a reader, which http.ServeContent drops.
type failingReader struct {
	io.ReadSeeker
	err error // other than io.EOF
}

func (f *failingReader) Read(p []byte) (int, error) {
	n, err := f.ReadSeeker.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// redirectToBlob sends the reader to the bucket, with a URL that is good for a
// while. The store sends the headers that are in it; of the others the one that
// counts, that nothing of this is shown or run, is its Content-Disposition.
func (p *PDS) redirectToBlob(ctx context.Context, call *xrpc.Call, blob repostore.Blob) error {
	header, described := call.Writer.Header(), http.Header{}
	blobHeaders(described, blob)
	if strings.Contains(call.Request.Header.Get("If-None-Match"), described.Get("ETag")) {
		blobHeaders(header, blob)
		call.Writer.WriteHeader(http.StatusNotModified)
		return nil
	}
	// The URL would be good for nothing if the bytes were not there.
	if _, err := p.blobs.Stat(ctx, blob.CID); err != nil {
		return err
	}
	location, err := p.blobs.PresignGet(ctx, blob.CID, p.cfg.BlobRedirect, blobstore.URLHeaders{
		ContentType:        described.Get("Content-Type"),
		ContentDisposition: described.Get("Content-Disposition"),
		CacheControl:       described.Get("Cache-Control"),
	})
	if err != nil {
		return err
	}
	header.Set("Cache-Control", "no-store") // the URL ages
	header.Set("Location", location)
	call.Writer.WriteHeader(http.StatusFound)
	return nil
}

// blobHeaders describes a blob. Its name is its hash, so a copy never ages. What
// agents kept may be hostile to a browser: it is told to save it, not to show or
// run it.
func blobHeaders(header http.Header, blob repostore.Blob) {
	name := blob.CID.String()
	header.Set("Content-Type", blob.MimeType)
	header.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
	header.Set("ETag", `"`+name+`"`)
	header.Set("Cache-Control", "private, max-age=31536000, immutable")
	harmless(header)
}

// serveBlob answers with the bytes, a part of them, several parts, or none for
// HEAD and If-None-Match.
func serveBlob(call *xrpc.Call, blob repostore.Blob, content io.ReadSeeker) error {
	header := call.Writer.Header()
	blobHeaders(header, blob)
	if strings.Count(call.Request.Header.Get("Range"), ",") >= maxRanges {
		call.Request.Header.Del("Range") // RFC 9110, 14.2: a server may ignore it
	}
	w := &rangeWriter{ResponseWriter: call.Writer}
	http.ServeContent(w, call.Request, "", time.Time{}, content)
	if w.refused {
		header.Del("Content-Disposition")
		return xrpc.Errorf(http.StatusRequestedRangeNotSatisfiable, "InvalidRequest", "the range lies outside of the blob; ask for bytes before %d", blob.Size)
	}
	return nil
}

// maxRanges bounds the ranges of one request: in a bucket each is a request of its own.
const maxRanges = 32

// rangeWriter holds back what http.ServeContent says, as plain text, of a
// range that is not there, so that it can be said as every other refusal is.
type rangeWriter struct {
	http.ResponseWriter
	refused bool
}

func (w *rangeWriter) WriteHeader(status int) {
	if status == http.StatusRequestedRangeNotSatisfiable {
		w.refused = true
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// ReadFrom implements io.ReaderFrom: with it http.ServeContent hands the file
// itself on, and the kernel sends it.
func (w *rangeWriter) ReadFrom(r io.Reader) (int64, error) {
	if w.refused {
		return io.Copy(io.Discard, r)
	}
	return io.Copy(w.ResponseWriter, r)
}

func (w *rangeWriter) Write(b []byte) (int, error) {
	if w.refused {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// harmless keeps a browser from sniffing or running a body that others wrote.
func harmless(header http.Header) {
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
}
