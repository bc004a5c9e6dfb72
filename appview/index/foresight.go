package index

import (
	"context"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

// foresight is the index as a rule sees it that judges a write to come.
type foresight struct {
	snapshot
	x *Index
}

// Foresight is what this index knows of a repo, for the rules to judge a write by
// that its host may yet be sent; record is the one to be written, nil for a
// deletion. ErrNotFound when nothing is known of the repo.
func (x *Index) Foresight(ctx context.Context, did syntax.DID, record *lexicons.Record) (lexicons.Snapshot, error) {
	if _, err := x.Repo(ctx, did); err != nil {
		return nil, err
	}
	if record == nil {
		record = &lexicons.Record{}
	}
	return &foresight{snapshot: snapshot{tx: x.db.Read.WithContext(ctx), of: record}, x: x}, nil
}

// LiveSuccessor is the head of the chain that goes on from uri in its own repo.
func (f *foresight) LiveSuccessor(ctx context.Context, uri syntax.ATURI) (*lexicons.StrongRef, error) {
	nodes, err := f.x.ownDescent(ctx, uri)
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	next := int64(0)
	branches := newForest(nodes).shape(func() int64 { next--; return next })
	var self *nodeRow
	for i := range nodes {
		if nodes[i].URI == string(uri) {
			self = &nodes[i]
		}
	}
	for _, b := range branches {
		if b.Branch != self.Branch || b.HeadURI == "" || b.HeadURI == self.URI {
			continue
		}
		for _, n := range nodes {
			if n.URI == b.HeadURI {
				return &lexicons.StrongRef{URI: syntax.ATURI(n.URI), CID: parseCID(n.CID)}, nil
			}
		}
	}
	return nil, nil
}

// ownDescent are the observation at uri and those of its author that descend from
// it, found by the position that each has behind it; none when it is not here.
func (x *Index) ownDescent(ctx context.Context, uri syntax.ATURI) (nodes []nodeRow, err error) {
	err = x.db.Read.WithContext(ctx).Raw(`SELECT `+nodeColumnsOfT+` FROM chain_nodes s JOIN chain_nodes t ON t.chain = s.chain AND t.position >= s.position AND t.did = s.did
		WHERE s.uri = ? ORDER BY t.position, t.uri LIMIT ?`, uri, maxPastNodes).Scan(&nodes).Error
	return nodes, err
}
