package pds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/blobstore"
	"herbarium.garden/pds/repostore"
)

// BlobCheck says what CheckBlobs looks at, and what it does about what it finds.
type BlobCheck struct {
	// DID and Since narrow the check to the blobs that an account has, and to
	// those that were uploaded since then. What lies in the bucket without being
	// on record is looked for only without them.
	DID   syntax.DID
	Since time.Time
	// Sample is the part of the blobs whose bytes are read, from 0 to 1. That
	// they are there, and how large, is asked of all.
	Sample float64

	Restore    bool             // blobs that a collection took and an account has come back from the trash
	Quarantine bool             // damaged blobs go out of service
	RepairFrom *blobstore.Store // has good bytes, such as a backup; nil for none
}

// BlobFaultKind is what may be wrong with a stored blob.
type BlobFaultKind string

// What CheckBlobs finds. The first four mean that bytes are lost, unless they can
// be had elsewhere; the others take up room.
const (
	BlobCorrupt     BlobFaultKind = "corrupt"     // other bytes, or another number of them, than is on record
	BlobMissing     BlobFaultKind = "missing"     // no bytes where readers look
	BlobQuarantined BlobFaultKind = "quarantined" // found corrupt before, and out of service
	BlobUnrecorded  BlobFaultKind = "unrecorded"  // an account has it, and its bytes are not on record
	BlobUnreadable  BlobFaultKind = "unreadable"  // the bucket gave an error: nothing is known of the bytes

	BlobOrphan    BlobFaultKind = "orphan"     // bytes, older than the grace, of a CID that is not on record
	BlobForeign   BlobFaultKind = "foreign"    // an object in the bucket that no blob has the key of
	BlobUnowned   BlobFaultKind = "unowned"    // on record, past the grace, and no account has it: the next collection takes it
	BlobLeftover  BlobFaultKind = "leftover"   // bytes where readers look of a blob that is in the trash or in quarantine
	BlobTrashCopy BlobFaultKind = "trash-copy" // a copy in the trash of a blob that is live
)

// Lost says that bytes are missing or wrong.
func (k BlobFaultKind) Lost() bool {
	switch k {
	case BlobCorrupt, BlobMissing, BlobQuarantined, BlobUnrecorded:
		return true
	}
	return false
}

// BlobFault is one thing that is wrong.
type BlobFault struct {
	Kind   BlobFaultKind
	CID    cid.Cid // undefined for BlobForeign
	Key    string  // of the object in the bucket, where that is what was found
	Size   int64   // bytes, as found or on record
	Detail string
	// Evidence is what the blob is evidence for, when bytes are lost.
	Evidence repostore.Evidence
	// Done is what was done about it: "repaired", "restored", "quarantined", or "".
	Done string
	// Failed is why it was not repaired, when that was tried.
	Failed string
}

// Open says that the fault is still there.
func (f BlobFault) Open() bool { return f.Done != "repaired" && f.Done != "restored" }

// BlobReport is what CheckBlobs looked at.
type BlobReport struct {
	Blobs  int64           // on record
	Read   repostore.Tally // whose bytes were read and compared
	Listed int64           // objects of the bucket
}

// CheckBlobs holds the bucket against what is on record of it, and the bytes
// against their CIDs. Each fault is told to found, whose error ends the check and
// is returned. It may run beside everything else: what an upload or a collection
// has under way is no fault. Without Restore, Quarantine and RepairFrom it changes
// nothing but the times of the checks.
func (p *PDS) CheckBlobs(ctx context.Context, check BlobCheck, found func(BlobFault) error) (BlobReport, error) {
	return p.checkBlobs(ctx, check, listedAtOnce, found)
}

func (p *PDS) checkBlobs(ctx context.Context, check BlobCheck, atOnce int64, found func(BlobFault) error) (BlobReport, error) {
	c := blobChecker{PDS: p, BlobCheck: check, atOnce: atOnce, tell: found}
	if check.Quarantine {
		if err := p.repos.ResumeIsolations(ctx, ward{p.blobs}); err != nil {
			return c.report, fmt.Errorf("check blobs: %w", err)
		}
	}
	var err error
	if check.DID == "" && check.Since.IsZero() {
		err = c.everything(ctx)
	} else {
		err = p.repos.WalkObjects(ctx, repostore.ObjectFilter{DID: check.DID, Since: check.Since}, func(o repostore.Object) error {
			return c.object(ctx, o, nil)
		})
	}
	if err != nil {
		return c.report, fmt.Errorf("check blobs: %w", err)
	}
	return c.report, nil
}

// blobChecker is a check under way.
type blobChecker struct {
	*PDS
	BlobCheck
	atOnce int64 // see listedAtOnce
	report BlobReport
	tell   func(BlobFault) error
}

// object checks what is on record of one CID. listed is what a listing has shown
// of its bytes, nil for nothing.
func (c *blobChecker) object(ctx context.Context, o repostore.Object, listed *blobstore.Entry) error {
	c.report.Blobs++
	fault, err := c.examine(ctx, o, listed)
	if err != nil || fault == nil {
		return err
	}
	// A collection or an upload may have come in between.
	again, on, err := c.repos.Object(ctx, o.CID)
	if err != nil {
		return err
	}
	if !on || again.Live() != o.Live() || again.Quarantined() != o.Quarantined() || again.Owned != o.Owned {
		if !on {
			return nil
		}
		if fault, err = c.examine(ctx, again, nil); err != nil || fault == nil {
			return err
		}
	}
	if fault.Kind.Lost() {
		if fault.Evidence, err = c.repos.Evidence(ctx, o.CID, namedRecords); err != nil {
			return err
		}
		if err := c.mend(ctx, fault); err != nil {
			return err
		}
	}
	return c.tell(*fault)
}

// examine answers what is wrong with an object, nil for nothing.
func (c *blobChecker) examine(ctx context.Context, o repostore.Object, listed *blobstore.Entry) (*BlobFault, error) {
	fault := func(kind BlobFaultKind, detail string, args ...any) (*BlobFault, error) {
		return &BlobFault{Kind: kind, CID: o.CID, Size: o.Size, Detail: fmt.Sprintf(detail, args...)}, nil
	}
	switch {
	case o.Quarantined():
		return fault(BlobQuarantined, "out of service since it was found damaged")
	case o.InTrash() && o.Owned:
		return fault(BlobMissing, "an account has it, and it is in the trash")
	case o.InTrash():
		return nil, nil
	}
	stored, err := c.stat(ctx, o, listed)
	switch {
	case errors.Is(err, blobstore.ErrNotFound) && !o.Owned:
		// An upload that is under way or broke off. A collection takes the row.
		return c.unowned(o), nil
	case errors.Is(err, blobstore.ErrNotFound):
		if err := c.repos.ObjectMissing(ctx, o.CID); err != nil {
			return nil, err
		}
		return fault(BlobMissing, "there are no bytes in %s", blobstore.Live)
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return fault(BlobUnreadable, "%v", err)
	case stored.Size != o.Size:
		return fault(BlobCorrupt, "it has %d bytes, and %d are on record", stored.Size, o.Size)
	}
	if rand.Float64() >= c.Sample {
		return c.unowned(o), nil
	}
	size, err := c.blobs.Rehash(ctx, blobstore.Live, o.CID, nil)
	switch {
	case err == nil:
		c.report.Read.Count++
		c.report.Read.Bytes += size
		return c.unowned(o), c.repos.ObjectRight(ctx, o.CID)
	case errors.Is(err, blobstore.ErrCorrupt):
		return fault(BlobCorrupt, "%v", err)
	case errors.Is(err, blobstore.ErrNotFound):
		return fault(BlobMissing, "its bytes went away just now")
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return fault(BlobUnreadable, "%v", err)
}

// stat describes the bytes of an object. A listing that shows what should be there
// is believed; one that does not is old, or the object is at fault.
func (c *blobChecker) stat(ctx context.Context, o repostore.Object, listed *blobstore.Entry) (blobstore.Entry, error) {
	if listed != nil && listed.Size == o.Size {
		return *listed, nil
	}
	return c.blobs.Stat(ctx, o.CID)
}

// unowned is the fault of an object that a collection should have taken, two
// rounds of it ago.
func (c *blobChecker) unowned(o repostore.Object) *BlobFault {
	if o.Owned || c.now().Sub(o.TouchedAt) < c.cfg.BlobGrace+2*time.Hour {
		return nil
	}
	return &BlobFault{Kind: BlobUnowned, CID: o.CID, Size: o.Size, Detail: "no account has it since before " + o.TouchedAt.Format(time.RFC3339)}
}

// mend does about a fault what the check may do.
func (c *blobChecker) mend(ctx context.Context, f *BlobFault) error {
	if f.Kind == BlobCorrupt && c.Quarantine {
		isolated, err := c.quarantine(ctx, f.CID, errors.New(f.Detail))
		if err != nil {
			return err
		}
		if isolated {
			f.Done = "quarantined"
		}
	}
	if f.Kind == BlobMissing && (c.Restore || c.RepairFrom != nil) {
		if _, err := c.blobs.Rehash(ctx, blobstore.Trash, f.CID, nil); err == nil {
			return c.mended(ctx, f, "restored", func() error {
				if err := c.repos.ClaimObject(ctx, f.CID, f.Size); err != nil {
					return err
				}
				return c.blobs.Restore(ctx, f.CID)
			})
		}
	}
	if c.RepairFrom == nil {
		return nil
	}
	return c.mended(ctx, f, "repaired", func() error {
		return c.blobs.Repair(ctx, f.CID, c.RepairFrom, func() error { return c.repos.ClaimObject(ctx, f.CID, f.Size) })
	})
}

// mended brings bytes back, which is an upload as far as others are concerned: it
// claims the object, puts them there, and looks whether they were left there.
func (c *blobChecker) mended(ctx context.Context, f *BlobFault, done string, bring func() error) error {
	err := bring()
	if err == nil {
		err = c.repos.ObjectMended(ctx, f.CID)
	}
	if err != nil {
		f.Failed = err.Error()
		return ctx.Err()
	}
	f.Done = done
	c.log.WarnContext(ctx, "a blob was "+done, "cid", f.CID, "was", f.Kind)
	return nil
}
