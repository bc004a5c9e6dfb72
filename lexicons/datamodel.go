package lexicons

import (
	"encoding/base64"
	"fmt"
	"math"
	"strings"

	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"
)

// Limits of the data model as this host holds them.
const (
	// MaxRecordJSON is the largest record in JSON, in bytes; what the reference PDS takes.
	MaxRecordJSON = 1_000_000
	// MaxRecordCBOR is the largest record in DAG-CBOR, in bytes (indigo's MAX_CBOR_RECORD_SIZE).
	MaxRecordCBOR = 1 << 20
	// MaxDepth is how many arrays and objects may lie inside each other, the
	// record itself included. indigo names 32 and enforces nothing, the
	// specification leaves it open; 64 is twice what anybody documents, and
	// small enough that no recursion over a record is a danger.
	MaxDepth = 64
	// MaxContainer is the largest number of items of one array or members of
	// one object (indigo's MAX_CBOR_CONTAINER_LEN).
	MaxContainer = 128 << 10
	// MaxInteger is 2^53-1: the data model's integers are those that every
	// JSON reader keeps exact. -MaxInteger is the least.
	MaxInteger = 1<<53 - 1

	// bodyDepth is how much deeper than a record a request body may be that
	// carries one: applyWrites has a record at body/writes/0/value.
	bodyDepth = MaxDepth + 8
)

// ParseJSON reads a record of collection from JSON. An absent $type is filled
// in with collection; any other $type is refused.
//
// Checks: JSON grammar, UTF-8 and surrogates, duplicate names, depth, sizes,
// numbers (1.0 and 1e3 are integers, as in every JavaScript reader; 1.5 and
// anything past ±MaxInteger are refused), and the form of $link, $bytes and
// blobs. Does not check: the record's own lexicon (Catalog.Validate) or its
// meaning (Rules).
//
// The error is a *Refused whose finding names the place.
func ParseJSON(collection syntax.NSID, raw []byte) (*Record, error) {
	if len(raw) > MaxRecordJSON {
		return nil, malformed(CodeTooLarge, "", "the record is %d bytes of JSON, at most %d are taken", len(raw), MaxRecordJSON)
	}
	value, err := readJSON(raw, MaxDepth)
	if err != nil {
		return nil, err
	}
	return ParseValue(collection, value)
}

// ParseObject reads one JSON object of at most limit bytes into atproto data
// with all the checks of ParseJSON except $type: for bodies that are no
// record, or hold records inside (see ParseValue). The error is a *Refused.
func ParseObject(raw []byte, limit int) (map[string]any, error) {
	if len(raw) > limit {
		return nil, malformed(CodeTooLarge, "", "the body is %d bytes, at most %d are taken", len(raw), limit)
	}
	return readJSON(raw, bodyDepth)
}

// ParseValue makes a Record of a value that ParseObject read as a part of a
// larger body. An absent $type is filled in; value then belongs to the record.
// A value that did not come from this package's parsers is checked just the
// same. The error is a *Refused.
func ParseValue(collection syntax.NSID, value map[string]any) (*Record, error) {
	if _, ok := value["$type"]; !ok && value != nil {
		value["$type"] = string(collection)
	}
	if err := checkType(collection, value); err != nil {
		return nil, err
	}
	raw, err := EncodeCBOR(value)
	if err != nil {
		return nil, err
	}
	return newRecord(collection, value, raw)
}

// ParseCBOR reads a record of collection from DAG-CBOR. The bytes must be the
// one canonical form: they are kept and never re-encoded, so their CID is the
// record's. A record without $type is refused, since filling it in would
// change the bytes. raw belongs to the record afterwards.
//
// The error is a *Refused whose finding names the place.
func ParseCBOR(collection syntax.NSID, raw []byte) (*Record, error) {
	value, err := DecodeCBOR(raw)
	if err != nil {
		return nil, err
	}
	if err := checkType(collection, value); err != nil {
		return nil, err
	}
	return newRecord(collection, value, raw)
}

func checkType(collection syntax.NSID, value map[string]any) error {
	t, ok := value["$type"].(string)
	if !ok || t != string(collection) {
		return malformed(CodeTypeMismatch, "/$type", "%q is written to collection %s, want $type %q", clip(t), collection, string(collection))
	}
	return nil
}

func newRecord(collection syntax.NSID, value map[string]any, raw []byte) (*Record, error) {
	c, err := recordCID(raw)
	if err != nil {
		return nil, fmt.Errorf("compute record cid: %w", err)
	}
	return &Record{Collection: collection, Value: value, CBOR: raw, CID: c, Blobs: uniqueBlobs(value)}, nil
}

// recordCID is the CID of a DAG-CBOR block: version 1, dag-cbor, SHA-256.
func recordCID(raw []byte) (cid.Cid, error) {
	return cid.V1Builder{Codec: cid.DagCBOR, MhType: multihash.SHA2_256}.Sum(raw)
}

// malformed is the refusal of data that is no atproto data.
func malformed(code, path, format string, args ...any) *Refused {
	return &Refused{Findings: []Finding{{
		Code:     code,
		Severity: Violation,
		Path:     path,
		Message:  fmt.Sprintf(format, args...),
		Refusal:  RefusalInvalidRequest,
	}}}
}

// integerOf takes a JSON number that was not written as plain digits the way
// JavaScript reads it: the nearest double, which must be a safe integer.
func integerOf(f float64) (int64, bool) {
	if f != math.Trunc(f) || math.Abs(f) > MaxInteger {
		return 0, false
	}
	return int64(f), true
}

// parseLink reads the string of a $link: a CIDv1 in its canonical base32 form.
func parseLink(s string) (cid.Cid, error) {
	c, err := cid.Decode(s)
	if err != nil {
		return cid.Undef, fmt.Errorf("is no CID, want a CIDv1 in base32 such as bafyrei…")
	}
	if c.Version() != 1 || c.String() != s {
		return cid.Undef, fmt.Errorf("is a CID in another form, want a CIDv1 in base32 such as bafyrei…")
	}
	return c, nil
}

// parseBytes reads the string of a $bytes: RFC 4648 section 4 base64, padding
// optional as the data model has it. Spare bits of the last character are not
// looked at, as the interop suite wants it.
func parseBytes(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") { // encoding/base64 skips them
		return nil, fmt.Errorf("has a line break")
	}
	enc := base64.RawStdEncoding
	if strings.HasSuffix(s, "=") {
		enc = base64.StdEncoding
	}
	b, err := enc.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("is no base64 (RFC 4648 section 4)")
	}
	return b, nil
}

// finishObject turns the JSON forms $link, $bytes and blob into atproto data
// and refuses an object that only looks like one of them. In DAG-CBOR the
// first two do not exist: there they would not survive a round trip.
func finishObject(m map[string]any, at *trail, fromJSON bool) (any, error) {
	if link, ok := m["$link"]; ok {
		if !fromJSON {
			return nil, malformed(CodeReservedName, at.at("$link"), "a link is written as CBOR tag 42, not as an object with $link")
		}
		s, isString := link.(string)
		if !isString || len(m) != 1 {
			return nil, malformed(CodeLinkMalformed, at.String(), "want {\"$link\": \"<cid>\"} with no other member")
		}
		c, err := parseLink(s)
		if err != nil {
			return nil, malformed(CodeLinkMalformed, at.at("$link"), "%q %v", clip(s), err)
		}
		return atdata.CIDLink(c), nil
	}
	if b64, ok := m["$bytes"]; ok {
		if !fromJSON {
			return nil, malformed(CodeReservedName, at.at("$bytes"), "bytes are written as a CBOR byte string, not as an object with $bytes")
		}
		s, isString := b64.(string)
		if !isString || len(m) != 1 {
			return nil, malformed(CodeBytesMalformed, at.String(), "want {\"$bytes\": \"<base64>\"} with no other member")
		}
		b, err := parseBytes(s)
		if err != nil {
			return nil, malformed(CodeBytesMalformed, at.at("$bytes"), "the value %v", err)
		}
		return atdata.Bytes(b), nil
	}
	t, typed := m["$type"]
	if !typed {
		return m, nil
	}
	name, isString := t.(string)
	if !isString || name == "" {
		return nil, malformed(CodeTypeMalformed, at.at("$type"), "$type is %s, want a string that is not empty", kindOf(t))
	}
	if name == "blob" {
		return finishBlob(m, at)
	}
	return m, nil
}

func finishBlob(m map[string]any, at *trail) (any, error) {
	want := func(member, what string) error {
		return malformed(CodeBlobMalformed, at.at(member), "a blob's %s is %s, want %s", member, kindOf(m[member]), what)
	}
	ref, ok := m["ref"].(atdata.CIDLink)
	if !ok {
		return nil, want("ref", "a link")
	}
	mime, ok := m["mimeType"].(string)
	if !ok || mime == "" {
		return nil, want("mimeType", "a MIME type")
	}
	size, ok := m["size"].(int64)
	if !ok || size < 0 {
		return nil, want("size", "a number of bytes, 0 or more")
	}
	if len(m) != 4 {
		return nil, malformed(CodeBlobMalformed, at.String(), "a blob has $type, ref, mimeType and size and no other member")
	}
	return atdata.Blob{Ref: ref, MimeType: mime, Size: size}, nil
}

// kindOf names the kind of a value of atproto data for a message.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case int64:
		return fmt.Sprintf("the integer %d", v)
	case string:
		if v == "" {
			return "an empty string"
		}
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	case atdata.Blob:
		return "a blob"
	case atdata.CIDLink:
		return "a link"
	case atdata.Bytes:
		return "bytes"
	}
	return fmt.Sprintf("a Go %T", v)
}

// clip shortens a value that a message quotes.
func clip(s string) string { return shown(s, 80) }

// shown is what a client wrote as a finding may repeat it: what looks like a
// credential is masked, and of a long text the start must do.
func shown(s string, most int) string {
	start := maskSecrets(s[:min(len(s), 2*longestReach)])
	if len(s) <= 2*longestReach && len(start) <= most {
		return start
	}
	return strings.ToValidUTF8(start[:min(len(start), most)], "") + "…"
}

// eachBlob calls visit for every blob below value, in document order: the
// order of the canonical DAG-CBOR.
func eachBlob(value map[string]any, visit func(blob BlobRef)) {
	walkValue(value, func(at *trail, v any) bool {
		if b, ok := v.(atdata.Blob); ok {
			visit(BlobRef{CID: b.Ref.CID(), MimeType: b.MimeType, Size: b.Size, Path: at.String()})
		}
		return true
	})
}

// uniqueBlobs lists the blobs below value, each CID once.
func uniqueBlobs(value map[string]any) []BlobRef {
	var blobs []BlobRef
	var seen map[cid.Cid]bool
	eachBlob(value, func(b BlobRef) {
		if seen[b.CID] {
			return
		}
		if seen == nil {
			seen = map[cid.Cid]bool{}
		}
		seen[b.CID] = true
		blobs = append(blobs, b)
	})
	return blobs
}
