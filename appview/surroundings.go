package appview

import (
	"context"
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
)

// surroundings are what every item of a list shows beside its own row.
type surroundings struct {
	actors actors
	found  map[syntax.ATURI][]index.Finding
}

// surroundings hydrates a page of records in two queries.
func (a *Appview) surroundings(ctx context.Context, v index.Viewer, page []index.Record) (*surroundings, error) {
	who, err := a.actors(ctx, each(page, func(r index.Record) syntax.DID { return r.DID }))
	if err != nil {
		return nil, err
	}
	found, err := a.findings(ctx, v, each(page, func(r index.Record) syntax.ATURI { return r.URI }))
	if err != nil {
		return nil, err
	}
	return &surroundings{actors: who, found: found}, nil
}

// findings are those on records. They are told of now alone: of a past state it is
// not kept what was found then.
func (a *Appview) findings(ctx context.Context, v index.Viewer, uris []syntax.ATURI) (map[syntax.ATURI][]index.Finding, error) {
	if v.Past() {
		return nil, nil
	}
	return a.index.Findings(ctx, v, uris)
}

// findings is how many findings the record at uri has.
func (s *surroundings) findings(uri syntax.ATURI) int { return len(s.found[uri]) }

// held leaves out the items whose record went away between the query that
// found them and the one that read them.
func held[T any](items []T, record func(T) index.Record) []T {
	return slices.DeleteFunc(items, func(item T) bool { return record(item).CBOR == nil })
}

// The record of a row.
func observationRecord(o index.Observation) index.Record   { return o.Record }
func sessionRecord(s index.Session) index.Record           { return s.Record }
func classRecord(c index.Class) index.Record               { return c.Record }
func conversationRecord(c index.Conversation) index.Record { return c.Record }
