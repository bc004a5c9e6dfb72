package sequencer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	cbg "github.com/whyrusleeping/cbor-gen"
	"gorm.io/gorm"

	"herbarium.garden/lexicons/xrpc"
)

// checkPage is how many seqs a check reads at a time.
const checkPage = 1000

// LogState is what the database says of the whole log.
type LogState struct {
	Last     int64 // the highest seq stored, 0 when there is none; set by CheckLog
	Given    int64 // the highest seq ever given out
	Pruned   int64 // the highest seq that retention removed
	Erasures int64 // how often events of a DID were removed out of turn
}

// CheckState reads what is kept of the log beside its events, inside the
// caller's transaction (tx).
func (s *Sequencer) CheckState(ctx context.Context, tx *gorm.DB) (LogState, error) {
	var row sequenceRow
	if err := tx.WithContext(ctx).Raw("SELECT last_seq, pruned_seq, erasures FROM event_sequence WHERE id = 1").Scan(&row).Error; err != nil {
		return LogState{}, fmt.Errorf("check event log: %w", err)
	}
	return LogState{Given: row.LastSeq, Pruned: row.PrunedSeq, Erasures: row.Erasures}, nil
}

// Gap is a run of seqs that were given out, and of which nothing is stored.
type Gap struct{ From, To int64 } // both missing

// CheckLog reads the seqs of the whole log and tells the gaps between them,
// inside the caller's transaction (tx). Legal gaps are those that an erasure (of an
// account, or of a record that was purged) or Advance leaves; what retention
// removed is none.
func (s *Sequencer) CheckLog(ctx context.Context, tx *gorm.DB, gap func(Gap) error) (LogState, error) {
	state, err := s.CheckState(ctx, tx)
	if err != nil {
		return state, err
	}
	tx = tx.WithContext(ctx)
	before := state.Pruned
	for after := int64(0); ; {
		var page []int64
		if err := tx.Raw("SELECT seq FROM events WHERE seq > ? ORDER BY seq LIMIT ?", after, checkPage).Scan(&page).Error; err != nil {
			return state, fmt.Errorf("check event log: %w", err)
		}
		for _, seq := range page {
			if seq > before+1 {
				if err := gap(Gap{before + 1, seq - 1}); err != nil {
					return state, err
				}
			}
			before, after, state.Last = seq, seq, seq
		}
		if len(page) < checkPage {
			break
		}
	}
	if state.Given > before {
		return state, gap(Gap{before + 1, state.Given})
	}
	return state, nil
}

// ErrBadFrame is wrapped by what CheckEvents says of a stored frame that is not
// what its row says.
var ErrBadFrame = errors.New("stored frame is damaged")

// Told is what a stored #commit or #sync tells of a repo.
type Told struct {
	Seq      int64
	Kind     Kind
	Rev      syntax.TID
	Commit   cid.Cid
	Data     cid.Cid     // root of the MST, from the commit block in the frame
	Since    *syntax.TID // of a #commit, as in the draft
	PrevData *cid.Cid
}

// CheckEvents reads what is stored of the events of a DID, in order and one at a
// time, inside the caller's transaction (tx). Each that is of a repo is decoded,
// held against its row and its own blocks, and given to visit; with an error that
// wraps ErrBadFrame when it does not hold, and then only Seq and Kind are known.
// visit must not use tx: the rows are still being read.
func (s *Sequencer) CheckEvents(ctx context.Context, tx *gorm.DB, did syntax.DID, visit func(Told, error) error) (err error) {
	rows, err := tx.WithContext(ctx).Raw("SELECT seq, kind, frame FROM events WHERE did = ? ORDER BY seq", did.String()).Rows()
	if err != nil {
		return fmt.Errorf("check events of %s: %w", did, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var (
			seq   int64
			kind  Kind
			frame []byte
		)
		if err := rows.Scan(&seq, &kind, &frame); err != nil {
			return fmt.Errorf("check events of %s: %w", did, err)
		}
		told, bad := readFrame(ctx, did, kind, frame)
		if bad == nil && told.Seq != seq {
			bad = fmt.Errorf("%w: it says seq %d", ErrBadFrame, told.Seq)
		}
		if bad == nil && told.Rev == "" {
			continue // #identity and #account tell of no repo
		}
		told.Seq, told.Kind = seq, kind
		if err := visit(told, bad); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("check events of %s: %w", did, err)
	}
	return nil
}

// readFrame decodes a stored frame of did. Its bytes may be anything: indigo's
// decoders may panic on them.
func readFrame(ctx context.Context, did syntax.DID, kind Kind, frame []byte) (told Told, err error) {
	defer func() {
		if p := recover(); p != nil {
			told, err = Told{}, fmt.Errorf("%w: decoder panics: %v", ErrBadFrame, p)
		}
	}()
	bad := func(format string, args ...any) (Told, error) {
		return Told{}, fmt.Errorf("%w: "+format, append([]any{ErrBadFrame}, args...)...)
	}
	into := bodyOf(kind)
	if into == nil {
		return bad("unknown kind %s", kind)
	}
	body, ok := bytes.CutPrefix(frame, xrpc.FrameHeader(string(kind)))
	if !ok {
		return bad("its header is not that of %s", kind)
	}
	rest := bytes.NewReader(body)
	if err := into.UnmarshalCBOR(rest); err != nil || rest.Len() > 0 {
		return bad("its body does not decode")
	}
	var about string
	var blocks []byte
	switch m := into.(type) {
	case *comatproto.SyncSubscribeRepos_Identity:
		about, told.Seq = m.Did, m.Seq
	case *comatproto.SyncSubscribeRepos_Account:
		about, told.Seq = m.Did, m.Seq
	case *comatproto.SyncSubscribeRepos_Sync:
		about, blocks = m.Did, m.Blocks
		told = Told{Seq: m.Seq, Rev: syntax.TID(m.Rev)}
	case *comatproto.SyncSubscribeRepos_Commit:
		about, blocks = m.Repo, m.Blocks
		told = Told{Seq: m.Seq, Rev: syntax.TID(m.Rev), Commit: cid.Cid(m.Commit), Since: (*syntax.TID)(m.Since), PrevData: (*cid.Cid)(m.PrevData)}
	}
	if about != did.String() {
		return bad("it is about %q", about)
	}
	if blocks == nil {
		return told, nil
	}
	commit, root, err := repo.LoadCommitFromCAR(ctx, bytes.NewReader(blocks))
	switch {
	case err != nil:
		return bad("its blocks have no commit: %v", err)
	case commit.DID != about || commit.Rev != told.Rev.String():
		return bad("its commit is of %s, %s", commit.DID, commit.Rev)
	case told.Commit.Defined() && *root != told.Commit:
		return bad("it names the commit %s, and has %s", told.Commit, root)
	}
	told.Commit, told.Data = *root, commit.Data
	return told, nil
}

func bodyOf(kind Kind) cbg.CBORUnmarshaler {
	switch kind {
	case Commit:
		return &comatproto.SyncSubscribeRepos_Commit{}
	case Sync:
		return &comatproto.SyncSubscribeRepos_Sync{}
	case Identity:
		return &comatproto.SyncSubscribeRepos_Identity{}
	case Account:
		return &comatproto.SyncSubscribeRepos_Account{}
	}
	return nil
}

// MissingBetween says whether seqs are missing between two stored ones, inside
// the caller's transaction (tx).
func (s *Sequencer) MissingBetween(ctx context.Context, tx *gorm.DB, from, to int64) (bool, error) {
	var stored int64
	err := tx.WithContext(ctx).Raw("SELECT count(*) FROM events WHERE seq > ? AND seq < ?", from, to).Scan(&stored).Error
	if err != nil {
		return false, fmt.Errorf("count events from %d to %d: %w", from, to, err)
	}
	return stored < to-from-1, nil
}
