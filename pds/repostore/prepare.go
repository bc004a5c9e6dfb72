package repostore

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
	"herbarium.garden/pds/sequencer"
)

// maxRevAhead is how far a repo's rev may be ahead of the clock. Relays refuse
// commits from the future, so one more would only dig deeper.
const maxRevAhead = 24 * time.Hour

// batch is a batch of writes while it is prepared.
type batch struct {
	store   *Store
	policy  Policy
	view    view
	tree    *tree
	layer   *layer
	now     time.Time
	rev     syntax.TID
	ops     []sequencer.Op
	added   []block // records that the commit's CAR must carry
	results []WriteResult
}

// prepare makes the layer of a batch; nil when there is nothing to commit. The
// caller has the DID's turn. A panic fails this batch only.
func (s *Store) prepare(ctx context.Context, did syntax.DID, f foundation, writes []Write, opts Options) (_ *layer, _ *Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("prepare commit of %s: panic: %v\n%s", did, p, debug.Stack())
		}
	}()
	tip := f.tip()
	if opts.SwapCommit != nil && *opts.SwapCommit != tip.Commit {
		return nil, nil, fmt.Errorf("%w: the repo's commit is %s; head %s", ErrInvalidSwap, tip.Commit, tip.Commit)
	}
	b := &batch{store: s, now: s.now(), policy: opts.Policy}
	for i := range writes {
		if denied := opts.Policy.checkCollection(writes[i].Collection); denied != nil {
			return nil, nil, &WriteError{Index: i, Err: &lexicons.Refused{Findings: []lexicons.Finding{*denied}}}
		}
	}
	// Before the writes one by one: a rule of a single write sees the batch only in part.
	remarks := s.rules.CheckBatch(changesOf(did, writes, b.now))
	for i, found := range remarks {
		if err := lexicons.RefusedBy(found); err != nil {
			return nil, nil, &WriteError{Index: i, Err: err}
		}
	}
	if b.rev, err = nextRev(tip.Rev, b.now); err != nil {
		return nil, nil, fmt.Errorf("prepare commit of %s: %w", did, err)
	}
	b.layer = &layer{
		repoID: f.base.id, base: tip.Head, baseCount: tip.records, count: tip.records,
		records: make(map[string]*recordChange, len(writes)), tombstones: map[string]*lexicons.Tombstone{},
		edges: map[string]edge{}, successors: map[syntax.ATURI][]string{},
	}
	// The layer in the making lies on top: a write sees the earlier ones of its batch.
	b.view = view{store: s, did: did, repoID: f.base.id, head: tip.Head, layers: append(f.layers[:len(f.layers):len(f.layers)], b.layer), read: reader{s.db.Read}, stones: map[string]*lexicons.Tombstone{}}
	if b.tree, err = openTree(ctx, &b.view, tip.Data); err != nil {
		return nil, nil, err
	}
	if err := b.view.readAhead(ctx, protectedPaths(writes)); err != nil {
		return nil, nil, fmt.Errorf("read tombstones of %s: %w", did, err)
	}
	if err := b.view.read.checkWrites(ctx, writes); err != nil {
		return nil, nil, err
	}
	for i := range writes {
		if err := b.write(ctx, &writes[i], remarks[i]); err != nil {
			return nil, nil, &WriteError{Index: i, Err: err}
		}
	}
	if err := opts.Policy.checkRecords(tip.records, b.layer.count); err != nil {
		return nil, nil, err
	}
	result := &Result{Writes: b.results}
	if len(b.ops) == 0 || opts.dryRun {
		// Without a changed node a commit's CAR would have no MST (trap C).
		return nil, result, nil
	}
	if err := b.sign(ctx); err != nil {
		return nil, nil, err
	}
	result.Commit = &CommitMeta{CID: b.layer.head.Commit, Rev: b.layer.head.Rev}
	return b.layer, result, nil
}

// changesOf are the writes as the rules about whole batches see them, before
// the state is known: a put is judged as a create.
func changesOf(did syntax.DID, writes []Write, now time.Time) []lexicons.Change {
	changes := make([]lexicons.Change, len(writes))
	for i := range writes {
		w := &writes[i]
		action := w.Action
		switch action {
		case Put:
			action = lexicons.Create
		case Remove:
			action = lexicons.Delete
		}
		changes[i] = lexicons.Change{Action: action, DID: did, URI: recordURI(did, w.path()), RecordKey: w.RecordKey, Record: w.Record, Now: now}
	}
	return changes
}

// protectedPaths are those at which a tombstone may forbid a record.
func protectedPaths(writes []Write) []string {
	paths := make([]string, 0, len(writes))
	for i := range writes {
		if w := &writes[i]; w.Record != nil && lexicons.Enforced(w.Collection) {
			paths = append(paths, w.path())
		}
	}
	return paths
}

// nextRev answers a rev after prev: the time, or the next microsecond when the
// clock has not passed prev.
func nextRev(prev syntax.TID, now time.Time) (syntax.TID, error) {
	last := prev.Time()
	if last.After(now.Add(maxRevAhead)) {
		return "", fmt.Errorf("rev %s is of %s, more than %s ahead of the clock", prev, last.Format(time.RFC3339), maxRevAhead)
	}
	if !now.After(last) || now.UnixMicro() == last.UnixMicro() {
		now = last.Add(time.Microsecond)
	}
	return syntax.NewTIDFromTime(now, prev.ClockID()), nil
}

// write takes one write into the batch; remarks are what the rules about the
// whole batch found on it.
func (b *batch) write(ctx context.Context, w *Write, remarks []lexicons.Finding) error {
	path := w.path()
	uri := recordURI(b.view.did, path)
	if _, repeated := b.layer.records[path]; repeated {
		return fmt.Errorf("%w: %s", ErrRepeatedPath, uri)
	}
	stands, err := b.tree.get(ctx, path)
	if err != nil {
		return err
	}
	if err := w.checkSwap(uri, stands); err != nil {
		return err
	}
	action, err := w.resolve(uri, stands)
	if err != nil {
		return err
	}
	change := lexicons.Change{Action: action, DID: b.view.did, URI: uri, RecordKey: w.RecordKey, Record: w.Record, Now: b.now}
	result := WriteResult{URI: uri, Action: action}
	if w.Record != nil {
		result.CID = &w.Record.CID
	}
	if w.changesNothing(stands) {
		b.results = append(b.results, result)
		return nil
	}
	if stands != nil {
		prev, err := b.view.record(ctx, path)
		if err != nil {
			return fmt.Errorf("read record %s: %w", uri, err)
		}
		if prev == nil || prev.cid != *stands {
			return fmt.Errorf("record %s: %w", uri, errMoved)
		}
		change.Prev = &lexicons.StoredRecord{URI: uri, CID: prev.cid, CBOR: prev.cbor}
	}
	if result.Findings, err = b.store.rules.CheckState(ctx, change, &snapshot{view: &b.view}); err != nil {
		return fmt.Errorf("check rules of %s: %w", uri, err)
	}
	if err := lexicons.RefusedBy(result.Findings); err != nil {
		return err
	}
	if w.Action == lexicons.Create && stands != nil {
		return recordExists(uri, *stands)
	}
	if denied := b.policy.checkChange(action, uri); denied != nil {
		return &lexicons.Refused{Findings: []lexicons.Finding{*denied}}
	}
	for _, f := range remarks { // the state may have shown the same
		if !slices.Contains(result.Findings, f) {
			result.Findings = append(result.Findings, f)
		}
	}
	if err := b.tree.set(ctx, path, result.CID); err != nil {
		return err
	}
	result.Changed = true
	b.results = append(b.results, result)
	return b.note(ctx, path, change)
}

// checkSwap compares the write's swapRecord with what stands at its path.
func (w *Write) checkSwap(uri syntax.ATURI, stands *cid.Cid) error {
	if w.SwapRecord == nil {
		return nil
	}
	want := w.SwapRecord.CID
	switch {
	case want == nil && stands == nil, want != nil && stands != nil && *want == *stands:
		return nil
	case stands == nil:
		return fmt.Errorf("%w: %s holds no record", ErrInvalidSwap, uri)
	default:
		return fmt.Errorf("%w: %s is another record; stands %s %s", ErrInvalidSwap, uri, uri, stands)
	}
}

// resolve answers what the write comes to.
func (w *Write) resolve(uri syntax.ATURI, stands *cid.Cid) (lexicons.Action, error) {
	if (w.Action == lexicons.Delete || w.Action == Remove) != (w.Record == nil) {
		return "", fmt.Errorf("%s %s: a delete has no record, any other write has one", w.Action, uri)
	}
	switch w.Action {
	case lexicons.Create:
		if stands == nil {
			return lexicons.Create, nil
		}
		if w.Collection == lexicons.ObservationNSID && w.Record.CID != *stands {
			return lexicons.Update, nil // for the rules to refuse, by their name for it
		}
		return "", recordExists(uri, *stands)
	case lexicons.Update:
		if stands == nil {
			return "", fmt.Errorf("%w: %s cannot be updated; create it", ErrRecordNotFound, uri)
		}
		return lexicons.Update, nil
	case Put:
		if stands == nil {
			return lexicons.Create, nil
		}
		return lexicons.Update, nil
	case lexicons.Delete:
		if stands == nil {
			return "", fmt.Errorf("%w: %s cannot be deleted; leave it out", ErrRecordNotFound, uri)
		}
		return lexicons.Delete, nil
	case Remove:
		return lexicons.Delete, nil
	}
	return "", fmt.Errorf("%s: no such action: %q", uri, w.Action)
}

// changesNothing reports a write of the very record that stands there, and a
// removal of none.
func (w *Write) changesNothing(stands *cid.Cid) bool {
	if w.Record == nil || stands == nil {
		return w.Record == nil && stands == nil
	}
	return w.Record.CID == *stands
}

func recordExists(uri syntax.ATURI, stands cid.Cid) error {
	return fmt.Errorf("%w: %s; stands %s %s", ErrRecordExists, uri, uri, stands)
}

// note records a change of the tree in the layer and for the event.
func (b *batch) note(ctx context.Context, path string, change lexicons.Change) error {
	op := sequencer.Op{Action: string(change.Action), Path: path}
	row := &recordChange{fresh: change.Prev == nil}
	switch change.Action {
	case lexicons.Create:
		b.layer.count++
	case lexicons.Delete:
		b.layer.count--
	}
	if change.Prev != nil {
		op.Prev = &change.Prev.CID
	}
	if rec := change.Record; rec != nil {
		op.CID = &rec.CID
		row.cid, row.cbor, row.blobs, row.rev = rec.CID, rec.CBOR, rec.Blobs, b.rev
		b.added = append(b.added, block{rec.CID, rec.CBOR})
	}
	b.ops = append(b.ops, op)
	b.layer.records[path] = row
	return b.noteChain(ctx, path, change)
}

// noteChain keeps tombstones and supersedes edges in step with a change.
func (b *batch) noteChain(ctx context.Context, path string, change lexicons.Change) error {
	collection := change.URI.Collection()
	if collection == lexicons.ObservationNSID && change.Record != nil {
		if ref := lexicons.ReadObservation(change.Record.Value).Supersedes; ref != nil {
			b.layer.edges[path] = edge{*ref, b.rev}
			b.layer.successors[ref.URI] = append(b.layer.successors[ref.URI], path)
		}
	}
	if !lexicons.Enforced(collection) {
		return nil
	}
	switch change.Action {
	case lexicons.Create:
		stone, err := b.view.tombstone(ctx, path)
		if err != nil {
			return fmt.Errorf("read tombstone %s: %w", change.URI, err)
		}
		if stone != nil {
			b.layer.tombstones[path] = nil
		}
	case lexicons.Delete:
		stone := &lexicons.Tombstone{URI: change.URI, CID: change.Prev.CID, DeletedAt: b.now}
		if collection == lexicons.ObservationNSID {
			// One that no longer parses had no edge either.
			if prev, err := lexicons.ParseCBOR(collection, change.Prev.CBOR); err == nil {
				stone.Supersedes = lexicons.ReadObservation(prev.Value).Supersedes
			}
		}
		b.layer.tombstones[path] = stone
	}
	return nil
}

// sign ends the batch: nodes, commit and the event's CAR.
func (b *batch) sign(ctx context.Context) error {
	diff, err := b.tree.diff(ctx)
	if err != nil {
		return err
	}
	b.layer.nodes = diff.nodes
	ops, mixed := eventOrder(b.ops)
	if mixed && !invertible(ctx, ops, diff, b.layer.base.Data) {
		return errReplacesAll
	}
	key, err := b.store.keys.SigningKey(ctx, b.view.did)
	if err != nil {
		return fmt.Errorf("signing key of %s: %w", b.view.did, err)
	}
	commit := repo.Commit{DID: string(b.view.did), Version: repo.ATPROTO_REPO_VERSION, Data: diff.root, Rev: string(b.rev)}
	signed, err := signCommit(commit, key)
	if err != nil {
		return err
	}
	b.layer.head = Head{Commit: signed.cid, Rev: b.rev, Data: diff.root}
	b.layer.commitBlock = signed.raw
	car, err := eventCAR(signed, diff.proof, b.added)
	if err != nil {
		return err
	}
	base := b.layer.base
	b.layer.event = sequencer.CommitDraft{
		DID: b.view.did, Rev: b.rev, Since: &base.Rev, Commit: signed.cid, PrevData: &base.Data,
		Ops: ops, Blocks: car, Time: b.now,
	}
	for _, n := range diff.nodes {
		if n != nil {
			b.store.remember(n)
		}
	}
	return nil
}

// eventCAR is the CAR of a #commit: the commit, the nodes that prove its
// operations, root first, and the records that it adds.
func eventCAR(commit block, proof, added []block) ([]byte, error) {
	size := len(carHeadStart) + commitCIDLength + len(carHeadEnd)
	var seen = make(map[cid.Cid]struct{}, 1+len(proof)+len(added))
	for _, part := range [][]block{{commit}, proof, added} {
		for _, b := range part {
			size += len(b.raw) + commitCIDLength + 4
		}
	}
	if size > MaxCommitBytes {
		return nil, fmt.Errorf("%w: about %d bytes of at most %d; write fewer records in one batch", ErrCommitTooBig, size, MaxCommitBytes)
	}
	car := appendCARHeader(make([]byte, 0, size), commit.cid)
	for _, part := range [][]block{{commit}, proof, added} {
		for _, b := range part {
			if _, ok := seen[b.cid]; ok {
				continue
			}
			seen[b.cid] = struct{}{}
			car = appendCARBlock(car, b.cid, b.raw)
		}
	}
	return car, nil
}

// signer is the part of a private key that a commit needs.
type signer interface {
	HashAndSign(content []byte) ([]byte, error)
}

// signCommit signs and encodes a commit.
func signCommit(c repo.Commit, key signer) (block, error) {
	unsigned, err := c.UnsignedBytes()
	if err != nil {
		return block{}, fmt.Errorf("encode commit: %w", err)
	}
	if c.Sig, err = key.HashAndSign(unsigned); err != nil {
		return block{}, fmt.Errorf("sign commit: %w", err)
	}
	var raw bytes.Buffer
	if err := c.MarshalCBOR(&raw); err != nil {
		return block{}, fmt.Errorf("encode commit: %w", err)
	}
	return block{dagCBOR(raw.Bytes()), raw.Bytes()}, nil
}
