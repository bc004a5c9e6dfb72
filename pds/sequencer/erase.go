package sequencer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"
)

// EraseRecords removes the stored events of a DID that carry one of the records,
// inside the caller's transaction (tx), and answers how many. Events that only
// name one (its deletion does) stay. Append a #sync after it: whoever had not
// read them finds a gap in the revs. It reads all commits of the DID, and from
// here to the end of the transaction other appenders wait. Call ErasedRecords
// once it has committed.
func (s *Sequencer) EraseRecords(ctx context.Context, tx *gorm.DB, did syntax.DID, records []cid.Cid) (int64, error) {
	tx = tx.WithContext(ctx)
	// The sequence row first, as everywhere: one order of locks, no deadlock.
	if err := tx.Exec("UPDATE event_sequence SET erasures = erasures + 1 WHERE id = 1").Error; err != nil {
		return 0, fmt.Errorf("erase events of %s: %w", did, err)
	}
	var carrying []int64
	err := eachCarrying(tx, did, records, func(seq int64, _ []cid.Cid) { carrying = append(carrying, seq) })
	if err != nil {
		return 0, fmt.Errorf("erase events of %s: %w", did, err)
	}
	for _, seq := range carrying {
		if err := tx.Exec("DELETE FROM events WHERE seq = ?", seq).Error; err != nil {
			return 0, fmt.Errorf("erase event %d: %w", seq, err)
		}
	}
	return int64(len(carrying)), nil
}

// ErasedRecords drops the frames from memory after EraseRecords has committed:
// readers turn to the database. Other processes drop theirs at their next poll.
func (s *Sequencer) ErasedRecords() { s.ring.forget() }

// CountRecords counts, for each of the records, the stored events of a DID that
// carry it; those that none carries are not in the answer.
func (s *Sequencer) CountRecords(ctx context.Context, did syntax.DID, records []cid.Cid) (map[cid.Cid]int64, error) {
	counted := map[cid.Cid]int64{}
	err := eachCarrying(s.db.Read.WithContext(ctx), did, records, func(_ int64, carried []cid.Cid) {
		for _, c := range carried {
			counted[c]++
		}
	})
	if err != nil {
		return nil, fmt.Errorf("search events of %s: %w", did, err)
	}
	return counted, nil
}

// eachCarrying goes through the events of a DID that carry one of the records or
// several.
func eachCarrying(db *gorm.DB, did syntax.DID, records []cid.Cid, visit func(seq int64, carried []cid.Cid)) (err error) {
	rows, err := db.Raw("SELECT seq, frame FROM events WHERE did = ? AND kind = ? ORDER BY seq", did.String(), string(Commit)).Rows()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var seq int64
		var frame []byte
		if err := rows.Scan(&seq, &frame); err != nil {
			return err
		}
		var carried []cid.Cid
		for _, c := range records {
			if carries(frame, c) {
				carried = append(carried, c)
			}
		}
		if len(carried) > 0 {
			visit(seq, carried)
		}
	}
	return rows.Err()
}

// carries reports whether a frame has the block of a CID, not only its name. A
// name is a CBOR link, in which a zero byte stands before the CID
// (https://ipld.io/specs/codecs/dag-cbor/spec/#links); in a CAR it is the end of
// the section's length, which is never zero.
func carries(frame []byte, c cid.Cid) bool {
	key := c.Bytes()
	for at := 0; ; {
		i := bytes.Index(frame[at:], key)
		if i < 0 {
			return false
		}
		if at += i; at > 0 && frame[at-1] != 0 {
			return true
		}
		at += len(key)
	}
}
