package lexicons

import (
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
)

// Record is a parsed record: its atproto data, the canonical DAG-CBOR that is
// signed and stored, and that CBOR's CID. A Record is only made by ParseJSON
// or ParseCBOR, so holding one means that it round-trips, has no float, no
// integer outside ±(2^53-1), no nesting past MaxDepth, and a $type equal to
// its collection.
type Record struct {
	Collection syntax.NSID
	Value      map[string]any // atdata form: int64, string, bool, nil, []any, map[string]any, atdata.Blob, atdata.CIDLink, atdata.Bytes
	CBOR       []byte
	CID        cid.Cid
	Blobs      []BlobRef // every blob named anywhere in the record, in document order, without repeats
}

// BlobRef is a blob as a record names it: what the client wrote, to be checked
// against what was uploaded.
type BlobRef struct {
	CID      cid.Cid
	MimeType string
	Size     int64
	Path     string // RFC 6901 pointer into the record
}

// StrongRef is com.atproto.repo.strongRef with its parts parsed.
type StrongRef struct {
	URI syntax.ATURI
	CID cid.Cid
}

// ValidationMode is the `validate` parameter of the write methods.
type ValidationMode int

// The three values of `validate`.
const (
	ValidateKnown    ValidationMode = iota // absent: validate when the lexicon is known
	ValidateRequired                       // true: an unknown lexicon is an error
	ValidateSkip                           // false: only the data model, and the reference's blob and $type checks
)

// ValidationStatus is what a write answers as validationStatus.
type ValidationStatus string

// The values of validationStatus; absent when validation was skipped.
const (
	StatusValid   ValidationStatus = "valid"
	StatusUnknown ValidationStatus = "unknown"
	StatusSkipped ValidationStatus = ""
)
