package pds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/blobstore"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/repostore"
)

// PurgeIndex forgets what was purged. Each method may be called again, and for
// what was never there.
type PurgeIndex interface {
	// PurgeImpact tells what it knows of a record, in lists of at most limit items.
	PurgeImpact(ctx context.Context, uri syntax.ATURI, limit int) (IndexImpact, error)
	// Purge removes the content of all versions of the records and what is known
	// of the bytes of the blobs, and refuses the CIDs from then on. It answers how
	// much there was, by what it counts.
	Purge(ctx context.Context, records map[syntax.ATURI][]cid.Cid, blobs []cid.Cid) (removed map[string]int64, err error)
	// PurgeRemains counts what it still has of the records' content.
	PurgeRemains(ctx context.Context, records map[syntax.ATURI][]cid.Cid) (int64, error)
	// Scrub makes its files forget what was removed.
	Scrub(ctx context.Context) error
}

// IndexImpact is what an index knows of a record.
type IndexImpact struct {
	Versions []cid.Cid // that it has seen, with their content or without, in their order
	Citing   []Citing
}

// Citing is a record that names another.
type Citing struct {
	URI  syntax.ATURI
	Kind string // of reference, in the index's words
}

// purgeStep is one of the steps of a purge. Each notes that it was done, in its
// own transaction where it has one, and can be made twice: a purge that was cut
// off goes on where it was.
type purgeStep struct {
	name string
	run  func(ctx context.Context, p *repostore.Purge, name string) error
}

// The steps in their order: first out of what is served, then out of what is
// kept, and in the end, for all purges at once, out of the files of the databases.
const (
	repoStep   = "repo"
	eventsStep = "events"
	blobsStep  = "blobs" // what is on record of them
	bytesStep  = "bytes"
	indexStep  = "index"
	scrubStep  = "databases"
)

func purgeStepNames() []string {
	return []string{repoStep, eventsStep, blobsStep, bytesStep, indexStep, scrubStep}
}

// purgeSteps are the steps but the last.
func (p *PDS) purgeSteps() []purgeStep {
	return []purgeStep{
		{repoStep, p.repos.PurgeRecords},
		{eventsStep, func(ctx context.Context, purge *repostore.Purge, name string) error {
			return p.repos.PurgeEvents(ctx, purge, name, p.purgeAnnounces)
		}},
		{blobsStep, p.purgeBlobs},
		{bytesStep, p.purgeBytes},
		{indexStep, p.purgeIndexed},
	}
}

// purgeAnnounces tells whether the world hears of an account's repo.
func (p *PDS) purgeAnnounces(ctx context.Context, tx *gorm.DB, did syntax.DID) (bool, error) {
	a, err := p.accounts.GetTx(ctx, tx, did)
	if errors.Is(err, account.ErrNotFound) {
		return false, nil
	}
	return a.Active(), err
}

// How long a purge waits for somebody who moves the bytes of a blob just now.
// Should the mover have died, the next ResumePurges goes on once a collection or
// a check has ended what it began.
const (
	purgeTries = 50
	purgePause = 100 * time.Millisecond
)

func (p *PDS) purgeBlobs(ctx context.Context, purge *repostore.Purge, name string) error {
	for try := 1; ; try++ {
		err := p.repos.PurgeBlobs(ctx, purge, name)
		if !errors.Is(err, repostore.ErrObjectBusy) || try == purgeTries {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(purgePause):
		}
	}
}

func (p *PDS) purgeBytes(ctx context.Context, purge *repostore.Purge, name string) error {
	var did blobstore.Erased
	for _, b := range purge.Blobs {
		one, err := p.blobs.Erase(ctx, b.CID)
		if err != nil {
			return err
		}
		did.Objects += one.Objects
		did.Versions += one.Versions
		did.Leftovers += one.Leftovers
	}
	return p.repos.MarkPurgeStep(ctx, purge.ID, name, map[string]int64{
		"objects": int64(did.Objects), "versions": int64(did.Versions), "leftovers": int64(did.Leftovers),
	})
}

func (p *PDS) purgeIndexed(ctx context.Context, purge *repostore.Purge, name string) error {
	removed := map[string]int64{}
	if p.index != nil {
		var err error
		if removed, err = p.index.Purge(ctx, purgedRecords(purge), purgedBlobs(purge)); err != nil {
			return err
		}
	}
	return p.repos.MarkPurgeStep(ctx, purge.ID, name, removed)
}

func purgedRecords(purge *repostore.Purge) map[syntax.ATURI][]cid.Cid {
	cids := map[syntax.ATURI][]cid.Cid{}
	for _, r := range purge.Records {
		cids[r.URI] = append(cids[r.URI], r.CID)
	}
	return cids
}

func purgedBlobs(purge *repostore.Purge) []cid.Cid {
	cids := make([]cid.Cid, len(purge.Blobs))
	for i, b := range purge.Blobs {
		cids[i] = b.CID
	}
	return cids
}

// advance makes the steps that purges have not made yet, and their receipts; with
// again, all of the steps. It makes one step of all of them before the next.
func (p *PDS) advance(ctx context.Context, again bool, ids ...syntax.TID) error {
	select {
	case p.purging <- struct{}{}: // one at a time: they write the databases anew
		defer func() { <-p.purging }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var purges []*repostore.Purge
	for _, id := range ids {
		purge, err := p.repos.GetPurge(ctx, id)
		if err != nil {
			return err
		}
		if purge.Receipt == "" || again {
			purges = append(purges, &purge)
		}
	}
	for _, step := range p.purgeSteps() {
		for _, purge := range purges {
			if made(purge, step.name) && !again {
				continue
			}
			if err := step.run(ctx, purge, step.name); err != nil {
				return fmt.Errorf("step %s of purge %s: %w", step.name, purge.ID, err)
			}
		}
	}
	if err := p.scrubAfter(ctx, again, purges); err != nil {
		return fmt.Errorf("step %s of purges: %w", scrubStep, err)
	}
	for _, purge := range purges {
		if err := p.complete(ctx, purge.ID); err != nil {
			return fmt.Errorf("receipt of purge %s: %w", purge.ID, err)
		}
	}
	return nil
}

// made tells whether a purge has made a step.
func made(purge *repostore.Purge, step string) bool {
	return slices.ContainsFunc(purge.Steps, func(s repostore.PurgeStep) bool { return s.Name == step })
}

// scrubAfter is the last step, of those purges that have not made it.
func (p *PDS) scrubAfter(ctx context.Context, again bool, purges []*repostore.Purge) error {
	var due []syntax.TID
	for _, purge := range purges {
		if !made(purge, scrubStep) || again {
			due = append(due, purge.ID)
		}
	}
	if len(due) == 0 {
		return nil
	}
	if err := p.repos.Scrub(ctx); err != nil {
		return err
	}
	if p.index != nil {
		if err := p.index.Scrub(ctx); err != nil {
			return err
		}
	}
	for _, id := range due {
		if err := p.repos.MarkPurgeStep(ctx, id, scrubStep, map[string]int64{}); err != nil {
			return err
		}
	}
	return nil
}

// errRemains says that something was found after all steps.
var errRemains = errors.New("pds: something that was purged is still there")

// complete looks everything through once more and writes the receipt, unless
// there is one.
func (p *PDS) complete(ctx context.Context, id syntax.TID) error {
	purge, err := p.repos.GetPurge(ctx, id) // with its steps
	if err != nil {
		return err
	}
	found, err := p.absence(ctx, &purge)
	if err != nil {
		return err
	}
	if !found.nothing() {
		return fmt.Errorf("%w: tables %v, bucket %v", errRemains, found.Tables, found.Bucket)
	}
	if purge.Receipt != "" {
		return nil
	}
	receipt, err := p.receipt(ctx, &purge, found)
	if err != nil {
		return err
	}
	if err := p.repos.CompletePurge(ctx, id, receipt); err != nil {
		return err
	}
	p.log.InfoContext(ctx, "purged", "purge", id, "records", len(purge.Records), "blobs", len(purge.Blobs))
	return nil
}

// absence looks everything through.
func (p *PDS) absence(ctx context.Context, purge *repostore.Purge) (*Absence, error) {
	found := &Absence{At: migrations.FormatTime(p.now()), Bucket: []string{}}
	var err error
	if found.Tables, err = p.repos.PurgeRemains(ctx, purge); err != nil {
		return nil, err
	}
	for _, b := range purge.Blobs {
		keys, err := p.blobs.Remains(ctx, b.CID)
		if err != nil {
			return nil, err
		}
		found.Bucket = append(found.Bucket, keys...)
	}
	if p.index != nil {
		n, err := p.index.PurgeRemains(ctx, purgedRecords(purge))
		if err != nil {
			return nil, err
		}
		found.Index = &n
	}
	return found, nil
}

// purgePage bounds one step of ResumePurges and RecheckPurges.
const purgePage = 100

// ResumePurges completes purges that were cut off. Until it has, nothing that
// they name is taken in, but it may be served.
func (p *PDS) ResumePurges(ctx context.Context) error {
	list, err := p.repos.UnfinishedPurges(ctx, purgePage)
	if err != nil {
		return err
	}
	var errs []error
	for _, purge := range list {
		errs = append(errs, p.advance(ctx, false, purge.ID)) // one that cannot end keeps no other
	}
	return errors.Join(errs...)
}

// RecheckPurges looks whether anything that was purged is there again, which a
// restore of one of the stores can have brought about, and removes it again.
func (p *PDS) RecheckPurges(ctx context.Context) error {
	var before syntax.TID
	for {
		list, err := p.repos.Purges(ctx, before, purgePage)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return nil
		}
		last := list[len(list)-1].ID
		if err := p.recheckPage(ctx, list); err != nil {
			return err
		}
		before = last
	}
}

// recheckPage asks for all of them at once first, for it takes as long for one.
func (p *PDS) recheckPage(ctx context.Context, list []repostore.Purge) error {
	list = slices.DeleteFunc(list, func(purge repostore.Purge) bool { return purge.Receipt == "" }) // ResumePurges
	all := &repostore.Purge{}
	for _, purge := range list {
		all.Records = append(all.Records, purge.Records...)
		all.Blobs = append(all.Blobs, purge.Blobs...)
	}
	found, err := p.absence(ctx, all)
	if err != nil || found.nothing() {
		return err
	}
	for i := range list {
		if err := p.recheck(ctx, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *PDS) recheck(ctx context.Context, purge *repostore.Purge) error {
	found, err := p.absence(ctx, purge)
	if err != nil || found.nothing() {
		return err
	}
	p.log.ErrorContext(ctx, "what was purged is there again; it is purged once more", "purge", purge.ID, "tables", found.Tables, "bucket", found.Bucket)
	return p.advance(ctx, true, purge.ID)
}

// admit enters purges into the log that receipts tell of, and completes them. It
// answers which of them were new to this database.
func (p *PDS) admit(ctx context.Context, receipts []*Receipt) (fresh map[syntax.TID]bool, err error) {
	fresh = map[syntax.TID]bool{}
	var ids []syntax.TID
	for _, r := range receipts { // first all, so that nothing of them is taken in any more
		purge, err := r.purge()
		if err != nil {
			return nil, err
		}
		is, err := p.repos.AdmitPurge(ctx, purge)
		if err != nil {
			return nil, err
		}
		fresh[purge.ID] = is || fresh[purge.ID]
		ids = append(ids, purge.ID)
	}
	if err := p.advance(ctx, false, ids...); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if fresh[id] {
			continue
		}
		purge, err := p.repos.GetPurge(ctx, id)
		if err == nil {
			err = p.recheck(ctx, &purge)
		}
		if err != nil {
			return nil, err
		}
	}
	return fresh, nil
}

// purge is what a receipt tells of.
func (r *Receipt) purge() (*repostore.Purge, error) {
	at, err := migrations.ParseTime(r.BegunAt)
	if err != nil {
		return nil, fmt.Errorf("%w: its begunAt is no time", ErrReceipt)
	}
	purge := &repostore.Purge{ID: r.ID, At: at, Actor: r.Actor, Reason: r.Reason}
	for _, rec := range r.Records {
		c, err := cid.Decode(rec.CID)
		if err != nil {
			return nil, fmt.Errorf("%w: %q is no CID", ErrReceipt, rec.CID)
		}
		purge.Records = append(purge.Records, repostore.PurgedRecord{StrongRef: lexicons.StrongRef{URI: rec.URI, CID: c}, Size: rec.Size})
	}
	for _, b := range r.Blobs {
		c, err := cid.Decode(b.CID)
		if err != nil {
			return nil, fmt.Errorf("%w: %q is no CID", ErrReceipt, b.CID)
		}
		purge.Blobs = append(purge.Blobs, repostore.PurgedBlob{CID: c, Size: b.Size})
	}
	return purge, nil
}
