package lexicons

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

var errNotStrongRef = errors.New("want an object with an at-uri in uri and a CIDv1 in cid")

// ParseRecordURI parses the AT URI of a record: a DID as authority, a
// collection and a record key, and no more.
func ParseRecordURI(s string) (syntax.ATURI, error) {
	if isRecordURI(s) {
		return syntax.ATURI(s), nil
	}
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

// isRecordURI is ParseRecordURI without its words for what is wrong: each part is
// looked at once. A third of the time that a class is resolved in went into
// looking at the whole and then at each part again.
func isRecordURI(s string) bool {
	rest, ok := strings.CutPrefix(s, "at://")
	if !ok || len(s) > maxATURI {
		return false
	}
	did, path, _ := strings.Cut(rest, "/")
	collection, rkey, ok := strings.Cut(path, "/")
	if !ok {
		return false
	}
	if _, err := syntax.ParseDID(did); err != nil {
		return false
	}
	if _, err := syntax.ParseNSID(collection); err != nil {
		return false
	}
	_, err := syntax.ParseRecordKey(rkey)
	return err == nil
}

// maxATURI is the length of an AT URI at most, in bytes (https://atproto.com/specs/at-uri-scheme).
const maxATURI = 8192

// tidOf reads a record key as a TID.
func tidOf(rkey syntax.RecordKey) (syntax.TID, bool) {
	tid, err := syntax.ParseTID(string(rkey))
	return tid, err == nil
}
