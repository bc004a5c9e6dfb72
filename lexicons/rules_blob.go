package lexicons

import (
	"context"

	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"
)

// blobRules hold for the blobs of every record, of any collection.
var blobRules = []func(*subject){
	blobCodec,
	blobNamedTwice,
	legacyBlob,
}

// blobCodec: a blob is named by the raw SHA-256 of its bytes, nothing else.
func blobCodec(s *subject) {
	for _, b := range s.Record.Blobs {
		p := b.CID.Prefix()
		if p.Version != 1 || p.Codec != cid.Raw || p.MhType != multihash.SHA2_256 || p.MhLength != 32 {
			s.refuse(CodeBlobCodec, RefusalInvalidRequest, pointer(b.Path, "ref"), "use the ref that uploadBlob answered",
				"a blob's CID is of codec raw and hash sha2-256 (bafkrei…)")
		}
	}
}

// blobNamedTwice: one blob has one MIME type and size wherever it is named.
// Record.Blobs has each CID once, so that this is the only place to see it.
func blobNamedTwice(s *subject) {
	if len(s.Record.Blobs) == 0 {
		return
	}
	first := map[cid.Cid]BlobRef{}
	eachBlob(s.Record.Value, func(b BlobRef) {
		seen, ok := first[b.CID]
		if !ok {
			first[b.CID] = b
			return
		}
		if seen.MimeType != b.MimeType || seen.Size != b.Size {
			s.refuse(CodeBlobMismatch, RefusalInvalidRequest, b.Path, "use the ref that uploadBlob answered in both places",
				"the blob is named with another MIME type or size than at %s", seen.Path)
		}
	})
}

// legacyBlob: the form {cid, mimeType} of 2023 is read where it stands and
// never written anew, as the reference has it.
func legacyBlob(s *subject) {
	walkValue(s.Record.Value, func(at *trail, v any) bool {
		if !isLegacyBlob(v) {
			return true
		}
		s.refuse(CodeLegacyBlob, RefusalInvalidRequest, at.String(), "use $type blob with ref, mimeType and size",
			"a blob in the form of 2023 (cid, mimeType)")
		return false
	})
}

// uploadedBlobs: what a record says of a blob is what the account uploaded.
// The record is as the client wrote it; only the host knows the truth.
func uploadedBlobs(ctx context.Context, s *subject, snap Snapshot) error {
	for _, b := range s.Record.Blobs {
		if len(s.found) >= maxRuleFindings {
			return nil
		}
		stored, err := snap.Blob(ctx, s.DID, b.CID)
		if err != nil {
			return err
		}
		switch {
		case stored == nil:
			s.refuse(CodeBlobNotFound, RefusalBlobNotFound, pointer(b.Path, "ref"), "upload "+b.CID.String()+" with uploadBlob first",
				"this account has not uploaded the blob")
			continue
		case stored.MimeType != b.MimeType:
			s.refuse(CodeBlobMismatch, RefusalInvalidMimeType, pointer(b.Path, "mimeType"), "mimeType "+stored.MimeType,
				"the blob was stored with another MIME type than %q", clip(b.MimeType))
		case stored.Size != b.Size:
			s.refuse(CodeBlobMismatch, RefusalInvalidSize, pointer(b.Path, "size"), "size "+decimal(stored.Size),
				"the blob was stored with another size than %d", b.Size)
		}
		if limit := s.settings.BlobLimit; limit > 0 && stored.Size > limit {
			s.refuse(CodeBlobTooLarge, RefusalBlobTooLarge, pointer(b.Path, "size"), "at most "+decimal(limit)+" bytes",
				"the blob is %d bytes", stored.Size)
		}
	}
	return nil
}
