package pds

import (
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons/xrpc"
)

// collections are those that a caller may know of; nil is all of them.
type collections []syntax.NSID

func (c collections) has(collection syntax.NSID) bool {
	return c == nil || slices.Contains(c, collection)
}

// published are the collections that v may know of. In visibility team whoever
// is no member gets those that the operator publishes; to it a record, list or
// blob of another collection is one that does not exist, in the answer and in
// the work that is done for it.
func (p *PDS) published(v xrpc.Viewer) collections {
	if p.cfg.Visibility == xrpc.Public || v.Member {
		return nil
	}
	return append(collections{}, p.cfg.PublicCollections...)
}
