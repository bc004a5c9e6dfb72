package pds

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/ipfs/go-cid"

	"herbarium.garden/blobstore"
	"herbarium.garden/pds/repostore"
)

// listedAtOnce is how many objects a check holds at once, at some 150 bytes each,
// of what a listing of the bucket has shown. Of a larger store it lists the bucket
// several times. A listing has a thousand objects for one request; to ask for each
// of them would take as many requests as there are blobs.
const listedAtOnce = 1 << 18

// everything holds all that is on record against the whole bucket, and the other
// way round. Objects are listed in another order than they are on record (the key
// begins with the last characters of the CID), so the CIDs are taken in parts that
// fit into memory, and of each part first the listing and then the record.
func (c *blobChecker) everything(ctx context.Context) error {
	sum, err := c.repos.Storage(ctx, c.now())
	if err != nil {
		return err
	}
	part := listedPart{parts: 1 + (sum.Live.Count+sum.Trash.Count+sum.Quarantined.Count)/c.atOnce}
	if err := c.listPart(ctx, &part); err != nil {
		return err
	}
	next := func() error {
		if err := c.strays(ctx, part); err != nil {
			return err
		}
		part.n++
		return c.listPart(ctx, &part)
	}
	err = c.repos.WalkObjects(ctx, repostore.ObjectFilter{}, func(o repostore.Object) error {
		for part.n < part.of(o.CID) {
			if err := next(); err != nil {
				return err
			}
		}
		listed, there := part.objects[o.CID]
		if !there {
			return c.object(ctx, o, nil)
		}
		if o.Live() {
			delete(part.objects, o.CID)
		}
		return c.object(ctx, o, &listed)
	})
	for err == nil && part.n < part.parts-1 {
		err = next()
	}
	if err == nil {
		err = c.strays(ctx, part)
	}
	if err == nil {
		err = c.unrecorded(ctx)
	}
	for _, place := range []blobstore.Place{blobstore.Trash, blobstore.Quarantine} {
		if err == nil {
			err = c.list(ctx, place)
		}
	}
	return err
}

// listedPart is what a listing has shown of a part of the CIDs, in the order of
// their bytes; what the record accounts for is taken out of it.
type listedPart struct {
	n, parts int64 // the part, from 0
	objects  map[cid.Cid]blobstore.Entry
}

// of is the part that a CID is in.
func (p listedPart) of(c cid.Cid) int64 {
	b := c.Hash()
	// After the two bytes that tell the hash function comes the digest, in which all
	// values are as frequent.
	return (int64(b[2])<<8 | int64(b[3])) * p.parts >> 16
}

// listPart lists the live objects of a part.
func (c *blobChecker) listPart(ctx context.Context, p *listedPart) error {
	p.objects = map[cid.Cid]blobstore.Entry{}
	return c.blobs.Walk(ctx, "", func(e blobstore.Entry) error {
		if e.CID.Defined() && p.of(e.CID) == p.n {
			p.objects[e.CID] = e
		}
		if p.n > 0 {
			return nil
		}
		c.report.Listed++
		return c.foreign(e)
	})
}

// strays looks up what is left of a part.
func (c *blobChecker) strays(ctx context.Context, p listedPart) error {
	left := slices.SortedFunc(maps.Values(p.objects), func(a, b blobstore.Entry) int { return cmp.Compare(a.Key, b.Key) })
	for page := range slices.Chunk(left, repostore.MostObjects) {
		if err := c.hold(ctx, blobstore.Live, page); err != nil {
			return err
		}
	}
	return nil
}

// unrecorded looks for what should be on record and is not.
func (c *blobChecker) unrecorded(ctx context.Context) error {
	missing, err := c.repos.UnrecordedBlobs(ctx, repostore.MostObjects)
	if err != nil {
		return err
	}
	for _, name := range missing {
		f := &BlobFault{Kind: BlobUnrecorded, CID: name, Detail: "an account has it, and its bytes are not on record; an upload puts them there"}
		if f.Evidence, err = c.repos.Evidence(ctx, name, namedRecords); err != nil {
			return err
		}
		if err := c.tell(*f); err != nil {
			return err
		}
	}
	return nil
}

// list holds the objects of one place against the record.
func (c *blobChecker) list(ctx context.Context, place blobstore.Place) error {
	page := make([]blobstore.Entry, 0, repostore.MostObjects)
	err := c.blobs.WalkIn(ctx, place, "", func(e blobstore.Entry) error {
		c.report.Listed++
		if !e.CID.Defined() {
			return c.foreign(e)
		}
		if page = append(page, e); len(page) < cap(page) {
			return nil
		}
		err := c.hold(ctx, place, page)
		page = page[:0]
		return err
	})
	if err != nil {
		return err
	}
	return c.hold(ctx, place, page)
}

// foreign tells of an object that is none of ours.
func (c *blobChecker) foreign(e blobstore.Entry) error {
	if e.CID.Defined() {
		return nil
	}
	return c.tell(BlobFault{Kind: BlobForeign, Key: e.Key, Size: e.Size, Detail: "not put there by this program"})
}

// hold holds objects that lie in one place against the record.
func (c *blobChecker) hold(ctx context.Context, place blobstore.Place, page []blobstore.Entry) error {
	cids := make([]cid.Cid, len(page))
	for i, e := range page {
		cids[i] = e.CID
	}
	on, err := c.repos.Objects(ctx, cids...)
	if err != nil {
		return err
	}
	for _, e := range page {
		o, known := on[e.CID]
		if kind, detail := c.misplaced(place, e, o, known); kind != "" {
			if err := c.tell(BlobFault{Kind: kind, CID: e.CID, Key: e.Key, Size: e.Size, Detail: detail}); err != nil {
				return err
			}
		}
	}
	return nil
}

// misplaced says what is wrong with an object that lies in a place; "" for
// nothing. What was put there lately may be under way.
func (c *blobChecker) misplaced(place blobstore.Place, e blobstore.Entry, o repostore.Object, known bool) (BlobFaultKind, string) {
	age := c.now().Sub(e.Modified)
	switch {
	case !known && age > c.cfg.BlobGrace:
		return BlobOrphan, "in " + place.String() + ", and not on record"
	case age <= moverDead:
		return "", ""
	case place == blobstore.Live && known && !o.Live():
		return BlobLeftover, "in " + place.String() + ", and on record as taken out of service"
	case place == blobstore.Trash && known && o.Live():
		return BlobTrashCopy, "a copy in the trash of a blob that is live"
	}
	return "", ""
}
