package pds

import (
	"context"
	"errors"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
	"herbarium.garden/pds/repostore"
)

// onePerSubject are the collections of the Bluesky app in which a record says
// something about a subject that can only be said once. Its clients rely on
// the host to keep it so: a like that is created again replaces the old one.
var onePerSubject = map[syntax.NSID]bool{
	"app.bsky.feed.like":    true,
	"app.bsky.feed.repost":  true,
	"app.bsky.graph.follow": true,
	"app.bsky.graph.block":  true,
}

// The newest records of the collection in which an earlier one is looked for.
// Nothing here indexes subjects, so the search ends somewhere.
const (
	duplicatesSearched = 1000
	duplicatesPage     = 100
)

// duplicates are the deletes that belong into one commit with the create w.
func (p *PDS) duplicates(ctx context.Context, did syntax.DID, w repostore.Write) ([]repostore.Write, error) {
	subject := subjectOf(w.Record.Value)
	if !onePerSubject[w.Collection] || subject == "" {
		return nil, nil
	}
	var deletes []repostore.Write
	var after syntax.RecordKey
	for range duplicatesSearched / duplicatesPage {
		page, err := p.repos.ListRecords(ctx, did, w.Collection, after, false, duplicatesPage)
		if errors.Is(err, repostore.ErrRepoNotFound) {
			return nil, nil // the write will say so
		}
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			after = r.RecordKey
			value, err := lexicons.DecodeCBOR(r.CBOR)
			if err != nil {
				return nil, err
			}
			if r.RecordKey != w.RecordKey && subjectOf(value) == subject {
				deletes = append(deletes, repostore.Write{Action: repostore.Remove, Collection: w.Collection, RecordKey: r.RecordKey})
			}
		}
		if len(page) < duplicatesPage {
			break
		}
	}
	return deletes, nil
}

// subjectOf is what such a record is about: a DID, or a record's URI.
func subjectOf(value map[string]any) string {
	switch subject := value["subject"].(type) {
	case string:
		return subject
	case map[string]any:
		uri, _ := subject["uri"].(string)
		return uri
	}
	return ""
}
