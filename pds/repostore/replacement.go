package repostore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// replacement is a repo's tables while they become those of an imported one,
// inside one transaction. The walk of the new tree and the tables have one
// order, so both are merged: what only the tables have goes, what only the
// tree has comes, and what is the same in both is not touched.
type replacement struct {
	store   *Store
	tx      *gorm.DB
	policy  Policy
	foreign *foreignRepo
	repoID  int64
	rev     syntax.TID
	now     time.Time
	result  *ImportResult

	view       view // what stands now, for the rules
	buried     bool // the DID has tombstones
	oldNodes   pager
	oldRecords pager
	node       *exportRow // the next stored ones; nil at the end
	record     *exportRow

	rows    rows // waiting to be inserted
	waiting int  // bytes of them
	refused []lexicons.Finding
}

// flushBytes bounds the rows that wait to be inserted.
const flushBytes = 1 << 20

func (r *replacement) run(ctx context.Context) error {
	read := reader{r.tx}
	r.view = view{store: r.store, did: r.foreign.did, repoID: r.repoID, read: read, stones: map[string]*lexicons.Tombstone{}}
	r.rows = rows{tx: r.tx}
	stones, err := read.tombstones(ctx, r.foreign.did, "", "\x7f", 1)
	if err != nil {
		return fmt.Errorf("read tombstones: %w", err)
	}
	r.buried = len(stones) > 0
	r.oldNodes = pager{fetch: func(p *pager, limit int) error { return p.fetchNodeCIDs(r.tx.WithContext(ctx), r.repoID, limit) }}
	r.oldRecords = pager{fetch: func(p *pager, limit int) error { return p.fetchRecordCIDs(r.tx.WithContext(ctx), r.repoID, limit) }}
	if r.node, err = r.oldNodes.next(); err != nil {
		return err
	}
	if r.record, err = r.oldRecords.next(); err != nil {
		return err
	}
	err = r.foreign.walk(visitor{
		node:   func(pos position, c cid.Cid, raw []byte) error { return r.takeNode(pos, c, raw) },
		record: func(path string, c cid.Cid) error { return r.takeRecord(ctx, path, c) },
	})
	if err != nil {
		return err
	}
	for r.node != nil {
		if err := r.dropNode(); err != nil {
			return err
		}
	}
	for r.record != nil {
		if err := r.dropRecord(); err != nil {
			return err
		}
	}
	if len(r.refused) > 0 {
		return r.refusal()
	}
	return r.flush()
}

// fetchNodeCIDs and fetchRecordCIDs page as an export does, without the blocks.
func (p *pager) fetchNodeCIDs(tx *gorm.DB, repoID int64, limit int) error {
	lower, height := "", 1<<16 // above every height
	if p.last != nil {
		lower, height = p.last.path, p.last.height
	}
	return p.collect(tx, `SELECT lower_key, height, cid, NULL FROM nodes
		WHERE repo_id = ? AND lower_key >= ? AND (lower_key > ? OR height < ?) ORDER BY lower_key, height DESC LIMIT ?`,
		repoID, lower, lower, height, limit)
}

func (p *pager) fetchRecordCIDs(tx *gorm.DB, repoID int64, limit int) error {
	after := ""
	if p.last != nil {
		after = p.last.path
	}
	return p.collect(tx, "SELECT path, 0, cid, NULL FROM records WHERE repo_id = ? AND path > ? ORDER BY path LIMIT ?", repoID, after, limit)
}

func (r *replacement) takeNode(pos position, c cid.Cid, raw []byte) (err error) {
	for r.node != nil && comparePositions(r.node.path, r.node.height, pos) < 0 {
		if err := r.dropNode(); err != nil {
			return err
		}
	}
	if r.node != nil && comparePositions(r.node.path, r.node.height, pos) == 0 {
		same := string(r.node.cid) == c.KeyString()
		if r.node, err = r.oldNodes.next(); err != nil || same {
			return err
		}
	}
	r.rows.nodes = append(r.rows.nodes, r.repoID, pos.lower, pos.height, c.Bytes(), string(r.rev), raw)
	return r.waits(len(raw))
}

// dropNode removes the stored node that the walk has passed.
func (r *replacement) dropNode() (err error) {
	err = r.tx.Exec("DELETE FROM nodes WHERE repo_id = ? AND lower_key = ? AND height = ?", r.repoID, r.node.path, r.node.height).Error
	if err != nil {
		return fmt.Errorf("remove MST node: %w", err)
	}
	r.node, err = r.oldNodes.next()
	return err
}

func (r *replacement) takeRecord(ctx context.Context, path string, c cid.Cid) (err error) {
	for r.record != nil && r.record.path < path {
		if err := r.dropRecord(); err != nil {
			return err
		}
	}
	var stands cid.Cid
	if r.record != nil && r.record.path == path {
		if stands, err = castCID(r.record.cid); err != nil {
			return err
		}
		if r.record, err = r.oldRecords.next(); err != nil || stands == c {
			return err
		}
	}
	record, rkey, err := r.foreign.record(path, c)
	if err != nil {
		return err
	}
	action := lexicons.Create
	if stands.Defined() {
		action = lexicons.Update
	}
	r.obey(action, recordURI(r.foreign.did, path))
	if err := r.judge(ctx, path, rkey, record, stands); err != nil || len(r.refused) > 0 {
		return err // all that is refused is listed; nothing is stored any more
	}
	if !stands.Defined() {
		r.result.Created++
	} else {
		r.result.Updated++
		if err := forgetReferences(r.tx, r.repoID, path, r.rev); err != nil {
			return err
		}
	}
	r.rows.records = append(r.rows.records, r.repoID, path, c.Bytes(), string(r.rev), record.CBOR)
	if err := r.reference(ctx, path, record); err != nil {
		return err
	}
	if record.Collection == lexicons.ObservationNSID {
		if ref := lexicons.ReadObservation(record.Value).Supersedes; ref != nil {
			r.rows.supersedes = append(r.rows.supersedes, string(r.foreign.did), path, string(ref.URI), ref.CID.Bytes(), string(r.rev))
		}
	}
	return r.waits(len(record.CBOR))
}

// judge asks the rules that an import must keep: what was deleted, or may not
// be altered. A record that replaces a tombstone which it may removes it.
func (r *replacement) judge(ctx context.Context, path string, rkey syntax.RecordKey, record *lexicons.Record, stands cid.Cid) error {
	if !lexicons.Enforced(record.Collection) {
		return nil
	}
	change := lexicons.Change{Action: lexicons.Create, DID: r.foreign.did, URI: recordURI(r.foreign.did, path), RecordKey: rkey, Record: record, Now: r.now}
	switch {
	case stands.Defined():
		prev, err := r.view.record(ctx, path)
		if err != nil {
			return fmt.Errorf("read record %s: %w", change.URI, err)
		}
		if prev == nil || prev.cid != stands {
			return fmt.Errorf("record %s: %w", change.URI, errMoved)
		}
		change.Action, change.Prev = lexicons.Update, &lexicons.StoredRecord{URI: change.URI, CID: stands, CBOR: prev.cbor}
	case r.buried:
		stone, err := r.view.read.tombstone(ctx, r.foreign.did, path)
		if err != nil {
			return fmt.Errorf("read tombstone %s: %w", change.URI, err)
		}
		if stone == nil {
			return nil
		}
	default:
		return nil
	}
	found, err := r.store.rules.CheckState(ctx, change, &snapshot{view: &r.view})
	if err != nil {
		return fmt.Errorf("check rules of %s: %w", change.URI, err)
	}
	for _, f := range found {
		if f.Refusal == lexicons.RefusalImmutableRecord || f.Refusal == lexicons.RefusalRecordTombstoned {
			f.Refusal = lexicons.RefusalImmutableRecord // altered or revived, that is what the file does
			r.refuse(change.URI, f)
			return nil
		}
	}
	if change.Action == lexicons.Create {
		if err := r.tx.Exec("DELETE FROM tombstones WHERE did = ? AND path = ?", string(r.foreign.did), path).Error; err != nil {
			return fmt.Errorf("remove tombstone %s: %w", change.URI, err)
		}
	}
	return nil
}

// obey asks the policy about a change.
func (r *replacement) obey(action lexicons.Action, uri syntax.ATURI) {
	denied := r.policy.checkCollection(uri.Collection())
	if denied == nil {
		denied = r.policy.checkChange(action, uri)
	}
	if denied != nil {
		r.refuse(uri, *denied)
	}
}

// refuse notes that the import does to a record what it may not.
func (r *replacement) refuse(uri syntax.ATURI, f lexicons.Finding) {
	if len(r.refused) == mostRefusedImports {
		return
	}
	r.refused = append(r.refused, lexicons.Finding{
		Code: f.Code, Severity: f.Severity, Message: fmt.Sprintf("%s: %s", uri, f.Message),
		Refusal: f.Refusal, Repair: string(uri),
	})
}

// refusal lists in its message, which may be all that a client shows, what the
// import would have to leave alone.
func (r *replacement) refusal() error {
	const named = 10
	uris := make([]string, 0, named)
	for i := range r.refused {
		if i < named {
			uris = append(uris, r.refused[i].Repair)
		}
		r.refused[i].Repair = ""
	}
	r.refused[0].Repair = fmt.Sprintf("import a repo that leaves alone all %d of: %s", len(r.refused), strings.Join(uris, " "))
	return &lexicons.Refused{Findings: r.refused}
}

// reference stores which blobs a record names: those that are here as
// references, the others as awaited.
func (r *replacement) reference(ctx context.Context, path string, record *lexicons.Record) error {
	seen := make(map[cid.Cid]struct{}, len(record.Blobs))
	for _, ref := range record.Blobs {
		if _, twice := seen[ref.CID]; twice {
			continue
		}
		seen[ref.CID] = struct{}{}
		uploaded, err := r.view.read.blob(ctx, r.foreign.did, ref.CID)
		if err != nil {
			return fmt.Errorf("look up blob %s: %w", ref.CID, err)
		}
		into := &r.rows.blobRefs
		if uploaded == nil {
			into = &r.rows.awaited
		}
		*into = append(*into, r.repoID, ref.CID.Bytes(), path, string(r.rev))
	}
	return nil
}

// dropRecord removes the stored record that the walk has passed.
func (r *replacement) dropRecord() error {
	path := r.record.path
	r.obey(lexicons.Delete, recordURI(r.foreign.did, path))
	if err := forgetReferences(r.tx, r.repoID, path, r.rev); err != nil {
		return err
	}
	if err := r.tx.Exec("DELETE FROM records WHERE repo_id = ? AND path = ?", r.repoID, path).Error; err != nil {
		return fmt.Errorf("remove record: %w", err)
	}
	r.result.Deleted++
	if collection, _, _ := strings.Cut(path, "/"); lexicons.Enforced(syntax.NSID(collection)) {
		r.rows.tombstones = append(r.rows.tombstones, string(r.foreign.did), path, r.record.cid, migrations.FormatTime(r.now))
	}
	if err := r.waits(0); err != nil {
		return err
	}
	var err error
	r.record, err = r.oldRecords.next()
	return err
}

// waits counts what waits to be inserted, and inserts it when that is much.
func (r *replacement) waits(bytes int) error {
	if r.waiting += bytes + 128; r.waiting < flushBytes {
		return nil
	}
	return r.flush()
}

func (r *replacement) flush() error {
	r.waiting = 0
	err := r.rows.insert()
	r.rows = rows{tx: r.tx}
	if errors.Is(err, errConflict) {
		return ErrContended // a sweep took a blob just now
	}
	return err
}
