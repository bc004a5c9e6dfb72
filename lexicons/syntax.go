package lexicons

import (
	"errors"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

var errNotStrongRef = errors.New("want an object with an at-uri in uri and a CIDv1 in cid")

// ParseRecordURI parses the AT URI of a record: a DID as authority, a
// collection and a record key, and no more.
func ParseRecordURI(s string) (syntax.ATURI, error) {
	uri, err := syntax.ParseATURI(s)
	if err != nil {
		return "", fmt.Errorf("parse record uri: %w", FormatError("at-uri", s))
	}
	if uri.Authority().IsHandle() {
		return "", fmt.Errorf("parse record uri: authority %s is a handle, want a DID", uri.Authority())
	}
	if uri.Collection() == "" || uri.RecordKey() == "" {
		return "", errors.New("parse record uri: want at://did/collection/rkey")
	}
	return uri, nil
}

// tidOf reads a record key as a TID.
func tidOf(rkey syntax.RecordKey) (syntax.TID, bool) {
	tid, err := syntax.ParseTID(string(rkey))
	return tid, err == nil
}
