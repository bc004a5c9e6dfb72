package lexicons

import (
	"time"

	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
)

// The typed readers below are tolerant: a field that is absent or of another
// type reads as the zero value, and nothing is ever dropped, because they only
// read. What a record may hold is the validator's business.

// fields reads a map of atproto data.
type fields map[string]any

func (f fields) str(key string) string {
	s, _ := f[key].(string)
	return s
}

func (f fields) bool(key string) bool {
	b, _ := f[key].(bool)
	return b
}

func (f fields) int(key string) int64 {
	n, _ := f[key].(int64)
	return n
}

func (f fields) object(key string) fields {
	m, _ := f[key].(map[string]any)
	return m
}

func (f fields) list(key string) []any {
	l, _ := f[key].([]any)
	return l
}

func (f fields) has(key string) bool {
	_, ok := f[key]
	return ok
}

// time reads a datetime; zero when it is absent or none.
func (f fields) time(key string) time.Time {
	d, err := syntax.ParseDatetime(f.str(key))
	if err != nil {
		return time.Time{}
	}
	return d.Time()
}

// blob reads a blob in its present form; nil for none and for a legacy blob.
func (f fields) blob(key string) *BlobRef {
	b, ok := f[key].(atdata.Blob)
	if !ok || b.Size < 0 {
		return nil
	}
	return &BlobRef{CID: b.Ref.CID(), MimeType: b.MimeType, Size: b.Size, Path: pointer("", key)}
}

func (f fields) strongRef(key string) *StrongRef {
	ref, err := ReadStrongRef(f[key])
	if err != nil {
		return nil
	}
	return &ref
}

func (f fields) strongRefs(key string) []StrongRef {
	var refs []StrongRef
	for _, v := range f.list(key) {
		if ref, err := ReadStrongRef(v); err == nil {
			refs = append(refs, ref)
		}
	}
	return refs
}

func (f fields) strings(key string) []string {
	var out []string
	for _, v := range f.list(key) {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// ReadStrongRef reads a com.atproto.repo.strongRef: an AT URI with a DID as
// its authority, a collection and a record key, and a CID. A handle as
// authority is an error: it would let one record be named in two ways.
func ReadStrongRef(v any) (StrongRef, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return StrongRef{}, errNotStrongRef
	}
	uri, err := ParseRecordURI(fields(m).str("uri"))
	if err != nil {
		return StrongRef{}, err
	}
	c, err := cid.Decode(fields(m).str("cid"))
	if err != nil || c.Version() != 1 {
		return StrongRef{}, errNotStrongRef
	}
	return StrongRef{URI: uri, CID: c}, nil
}
